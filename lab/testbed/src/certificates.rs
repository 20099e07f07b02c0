//! An authority, and a server's certificate by it: files in PEM, made by `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::lacking::Lacking;
use crate::{binary, temp};

/// Files of an authority and of one server.
#[derive(Debug)]
pub struct Certificates {
    /// The authority's certificate, for clients.
    pub authority: PathBuf,
    /// The server's certificate.
    pub certificate: PathBuf,
    /// The server's key.
    pub key: PathBuf,
}

impl Certificates {
    /// Makes an authority, and a certificate by it for the server at this address. The names of the
    /// files begin with `name`.
    pub fn make(dir: &temp::Dir, name: &str, address: &str) -> Result<Certificates, Lacking> {
        let of = |what: &str| dir.join(&format!("{name}-{what}.pem"));
        let (authority, authority_key) = (of("authority"), of("authority-key"));
        let (certificate, key) = (of("certificate"), of("key"));
        let root = ["-addext", "basicConstraints=critical,CA:TRUE"];
        make(&authority, &authority_key, &format!("/CN=the authority {name}"), &root, None)?;
        let own = format!("subjectAltName=IP:{address}");
        let server = ["-addext", &own, "-addext", "basicConstraints=CA:FALSE"];
        let by = Some((authority.as_path(), authority_key.as_path()));
        make(&certificate, &key, "/CN=a server", &server, by)?;
        Ok(Certificates { authority, certificate, key })
    }
}

/// Makes a certificate and its key: by itself, or by an authority.
fn make(
    certificate: &Path,
    key: &Path,
    subject: &str,
    more: &[&str],
    by: Option<(&Path, &Path)>,
) -> Result<(), Lacking> {
    let mut command = Command::new(binary::system("openssl"));
    command.args(["req", "-x509", "-nodes", "-days", "30", "-newkey", "ec"]);
    command.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", subject]).args(more);
    command.arg("-keyout").arg(key).arg("-out").arg(certificate);
    if let Some((authority, key)) = by {
        command.arg("-CA").arg(authority).arg("-CAkey").arg(key);
    }
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Lacking(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) => Err(Lacking(format!("openssl: {error}"))),
    }
}
