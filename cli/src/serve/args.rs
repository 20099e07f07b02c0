//! The options of `truechimer serve`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use truechimer_confine::Unlisted;
use truechimer_ntp::{NTP_PORT, NTS_PORT};
use truechimer_serve::{Listen, MOST_THREADS, NtsSettings, Prefix};
use truechimer_time::{Rate, Span};

use crate::run;
use truechimer_command::Failure;
use truechimer_command::clock::Page;

/// Where the embedded server listens unless told otherwise.
const EMBEDDED: u16 = 11123;
/// Heading of options of `--clock page` only.
const OF_PAGE: &str = "With --clock page";
/// Heading of options of `--clock system` only.
const OF_SYSTEM: &str = "With --clock system";

/// Options of `truechimer serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
--clock page serves the clock of 'truechimer run'. Requests are stamped by the kernel; stratum and
reference are those that follow the daemon's source (as the page says it, unless --stratum says
otherwise); root delay and dispersion are such that half of the one and the other together cover
the clock's bound. While the clock is unknown or disrupted, or what stands behind it is not known,
replies say that it is not synchronised. This machine may ask, and whoever is named by --allow: of
all prefixes that hold an address the longest decides. Port 123 takes root or the capability
cap_net_bind_service. docs/explanation/serve.md has what each field says.

--clock system serves the system clock + offset + skew x (raw clock - raw clock at the start), so
that a test in possession of the line printed at the start knows the truth at any moment. It is for
demonstrations and tests: it answers everybody who reaches it, as often as they ask.

Examples:
  sudo truechimer serve --clock page --allow 192.0.2.0/24 --allow 2001:db8::/32
  truechimer serve --clock page --listen 127.0.0.1:11123 --report 10
  truechimer serve --clock system --listen 127.0.0.1:11123 --offset -1.5s --skew-ppm 37

Signals: TERM and INT end it, with a summary of what it did. HUP reads certificate and keys again
(--nts-cert, --nts-key, --keys), with --clock page; those that cannot be used change nothing.

Exit status: 0 ended by a signal, 2 error (address in use, say).")]
pub struct Serve {
    /// The clock to serve: page (that of 'truechimer run') or system (for demonstrations and tests)
    #[arg(long, value_name = "CLOCK", default_value = "page", hide_possible_values = true)]
    pub clock: Base,
    /// Where to listen: 192.0.2.1, 192.0.2.1:123, 2001:db8::1 or [2001:db8::1]:123. Without a port
    /// it is 123 with --clock page, else 11123; port 0 takes any free one; may be repeated with
    /// --clock page [default: all addresses with --clock page, else 127.0.0.1]
    #[allow(rustdoc::broken_intra_doc_links)] // The text of --help, in which brackets are brackets.
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub listen: Vec<Place>,
    /// The stratum to claim, 1 to 15 [default: with --clock page the source's + 1; else 10, so that
    /// a real server is preferred]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=15))]
    pub stratum: Option<u8>,
    /// Keep all rights that the process has, rather than give up what it does not need once it
    /// listens: files by Landlock, capabilities, new privileges
    #[arg(long)]
    pub no_sandbox: bool,
    /// Of all system calls allow only those that the server makes, by seccomp: any other ends the
    /// process (kill, unless FATE is given), or is logged by the kernel (log)
    #[arg(long, value_name = "FATE", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "off", default_missing_value = "kill", conflicts_with = "no_sandbox")]
    #[arg(value_parser = run::fate(), hide_default_value = true, hide_possible_values = true)]
    pub seccomp: Unlisted,
    /// Keep all memory from being paged out, the keys in it as well; the log says whether it could be
    /// done
    #[arg(long, help_heading = OF_PAGE)]
    pub lock_memory: bool,
    /// Print JSON, an object a line
    #[arg(long)]
    pub json: bool,
    /// Clients that may ask beside this machine's loopback addresses: an address or a prefix;
    /// 0.0.0.0/0 and ::/0 are everybody; may be repeated
    #[arg(long, value_name = "PREFIX", help_heading = OF_PAGE)]
    pub allow: Vec<Prefix>,
    /// Clients that may not, within what is allowed; may be repeated
    #[arg(long, value_name = "PREFIX", help_heading = OF_PAGE)]
    pub deny: Vec<Prefix>,
    /// Requests a second that each client may make on average, 1 to 1000000; 0: as many as it
    /// likes. Clients of one IPv6 network (/64) count as one [default: 16]
    #[arg(long, value_name = "N", help_heading = OF_PAGE)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub rate: Option<u32>,
    /// Requests that it may make at once [default: 64]
    #[arg(long, value_name = "N", help_heading = OF_PAGE)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub burst: Option<u32>,
    /// Number of threads that answer, 1 to 64; the kernel spreads the clients over them [default:
    /// 1]
    #[arg(long, value_name = "N", help_heading = OF_PAGE)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=MOST_THREADS as i64))]
    pub threads: Option<u8>,
    /// Answer in basic mode only
    #[arg(long, help_heading = OF_PAGE)]
    pub no_interleaved: bool,
    /// Prove who answers to those who ask for it (NTS): the certificate, and those between it and an
    /// authority, in PEM
    #[arg(long, value_name = "FILE", requires = "nts_key", help_heading = OF_PAGE)]
    pub nts_cert: Option<PathBuf>,
    /// The key to that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "nts_cert", help_heading = OF_PAGE)]
    pub nts_key: Option<PathBuf>,
    /// TCP port of the exchange of keys [default: 4460]
    #[arg(long, value_name = "PORT", requires = "nts_cert", help_heading = OF_PAGE)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub nts_port: Option<u16>,
    /// Keep the keys of cookies in this file from start to start, so that clients need no new
    /// exchange then
    #[arg(long, value_name = "FILE", requires = "nts_cert", help_heading = OF_PAGE)]
    pub nts_cookie_keys: Option<PathBuf>,
    /// Prove who answers to those who share a symmetric key: the file of keys, as chronyd's keyfile;
    /// none but its owner and group may read it
    #[arg(long, value_name = "FILE", help_heading = OF_PAGE)]
    pub keys: Option<PathBuf>,
    /// Answer those alone who ask for proof, by NTS or by a key
    #[arg(long, help_heading = OF_PAGE)]
    pub require_proof: bool,
    /// Print what became of all requests every so many seconds, and not only at the end
    #[arg(long, value_name = "S", help_heading = OF_PAGE)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub report: Option<u32>,
    /// Serve metrics for Prometheus at ADDR, as 127.0.0.1:9925, or at PATH, a Unix socket
    #[arg(long, value_name = "ADDR|PATH", help_heading = OF_PAGE)]
    pub metrics: Option<truechimer_metrics::Listen>,
    /// Offset of the served time from the system clock at the start (positive: ahead) [default: 0s]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, help_heading = OF_SYSTEM)]
    pub offset: Option<Span>,
    /// Rate at which the served time gains on the system clock [default: 0]
    #[arg(long, value_name = "PPM", allow_hyphen_values = true, help_heading = OF_SYSTEM)]
    pub skew_ppm: Option<Rate>,
    #[command(flatten)]
    pub page: Page,
}

/// An address, and a port if the user cares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    address: SocketAddr,
    has_port: bool,
}

impl Place {
    /// With this port if none was given.
    pub fn or(mut self, port: u16) -> SocketAddr {
        if !self.has_port {
            self.address.set_port(port);
        }
        self.address
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let whole = text.parse().map(|address| Place { address, has_port: true });
        let bare = |text: &str| Some(Place { address: text.parse().ok()?, has_port: false });
        whole
            .ok()
            .or_else(|| bare(&format!("{text}:0")))
            .or_else(|| bare(&format!("[{text}]:0")))
            .ok_or_else(|| {
                "an IP address, and a port if you like: 127.0.0.1, 127.0.0.1:11123, [::1]:11123"
                    .into()
            })
    }
}

/// Clock that is served.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Base {
    // Without doc comments, so that help stays in its short form.
    Page,
    System,
}

impl Serve {
    /// That nothing is asked for that the chosen clock has no use for.
    pub fn check(&self) -> Result<(), Failure> {
        let of_page = [
            ("--allow", !self.allow.is_empty()),
            ("--deny", !self.deny.is_empty()),
            ("--rate", self.rate.is_some()),
            ("--burst", self.burst.is_some()),
            ("--threads", self.threads.is_some()),
            ("--no-interleaved", self.no_interleaved),
            ("--nts-cert", self.nts_cert.is_some()),
            ("--keys", self.keys.is_some()),
            ("--lock-memory", self.lock_memory),
            ("--require-proof", self.require_proof),
            ("--report", self.report.is_some()),
            ("--metrics", self.metrics.is_some()),
            ("--page", self.page.page.is_some()),
        ];
        let of_system =
            [("--offset", self.offset.is_some()), ("--skew-ppm", self.skew_ppm.is_some())];
        let (unused, other) = match self.clock {
            Base::Page => (of_system.as_slice(), "system"),
            Base::System => (of_page.as_slice(), "page"),
        };
        if let Some((name, _)) = unused.iter().find(|(_, given)| *given) {
            let served = match self.clock {
                Base::Page => "that of the page, as without --clock",
                Base::System => "the system clock",
            };
            return Err(Failure::Said(format!(
                "{name} goes with --clock {other} only; what is served here is {served}"
            )));
        }
        if self.require_proof && self.nts_cert.is_none() && self.keys.is_none() {
            let why =
                "--require-proof answers nobody without --nts-cert or --keys: add one of them";
            return Err(Failure::Said(why.into()));
        }
        Ok(())
    }

    /// Settings of a server that proves who it is, if it is to.
    pub fn nts(&self) -> Option<NtsSettings> {
        let (chain, key) = self.nts_cert.clone().zip(self.nts_key.clone())?;
        let (kept, port) = (self.nts_cookie_keys.clone(), self.nts_port.unwrap_or(NTS_PORT));
        Some(NtsSettings { chain, key, kept, port })
    }

    /// Files of certificate and keys, which are read again on HUP.
    pub fn secrets(&self) -> impl Iterator<Item = &Path> {
        [&self.nts_cert, &self.nts_key, &self.keys].into_iter().filter_map(|file| file.as_deref())
    }

    /// The one address of the embedded server.
    pub fn one_listen(&self) -> Result<SocketAddr, Failure> {
        match self.listen.as_slice() {
            [] => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, EMBEDDED))),
            [listen] => Ok(listen.or(EMBEDDED)),
            _ => Err(Failure::Said("--listen may be repeated with --clock page only".into())),
        }
    }

    /// Where a server of the page listens.
    pub fn listens(&self) -> Vec<Listen> {
        if !self.listen.is_empty() {
            let listen = |place: &Place| Listen { address: place.or(NTP_PORT), optional: false };
            return self.listen.iter().map(listen).collect();
        }
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, NTP_PORT));
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, NTP_PORT));
        vec![Listen { address: v6, optional: true }, Listen { address: v4, optional: true }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_gets_the_usual_one() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:123"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1:11123", "127.0.0.1:11123"),
            ("::", "[::]:123"),
            ("::1", "[::1]:123"),
            ("[::1]", "[::1]:123"),
            ("[::1]:7", "[::1]:7"),
            ("fe80::1%2", "[fe80::1%2]:123"),
            ("[fe80::1%2]:7", "[fe80::1%2]:7"),
        ] {
            assert_eq!(text.parse::<Place>().unwrap().or(NTP_PORT).to_string(), address, "{text}");
        }
        for text in ["", "123", ":123", "localhost", "127.0.0.1:", "[::1]:x", "[[::1]]", "[::1"] {
            assert!(text.parse::<Place>().unwrap_err().contains("127.0.0.1:11123"), "{text}");
        }
    }
}
