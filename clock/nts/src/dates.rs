//! Judgement of a server's certificate by a moment that is known otherwise than from the system clock.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Certificates of a chain, at most, that may each begin to be valid later than the one before.
const CHAIN: usize = 8;

/// Moment by which the dates of certificates are judged, Unix time in s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dates {
    /// The time itself.
    At(u64),
    /// The time is this or later: a certificate that has expired by then is refused, and one that is not valid yet is
    /// taken to say that it is later.
    From(u64),
}

impl Dates {
    /// The least that the time may be.
    const fn least(self) -> UnixTime {
        let (Dates::At(seconds) | Dates::From(seconds)) = self;
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
    }
}

/// Verifier of certificates that goes by such a moment.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) by: Arc<WebPkiServerVerifier>,
    pub(crate) dates: Dates,
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut now = self.dates.least();
        for _ in 0..CHAIN {
            match self.by.verify_server_cert(certificate, others, name, ocsp, now) {
                Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
                    not_before,
                    ..
                })) if matches!(self.dates, Dates::From(_)) && not_before > now => now = not_before,
                judged => return judged,
            }
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYet))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by.supported_verify_schemes()
    }
}
