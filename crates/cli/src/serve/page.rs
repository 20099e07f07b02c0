//! An NTP server of the clock in the page.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use truechimer_daemon::control::Answer;
use truechimer_engine::Selection;
use truechimer_ntp::server::ServerState;
use truechimer_ntp::{LeapIndicator, RefId};
use truechimer_serve::{Access, BindError, PageServer, Rate, Responder, Serving, Tally, Upstream};

use super::Serve;
use crate::failure::{Ended, Failure, Outcome};
use crate::show::{json, plain};
use crate::{clock, daemon, signals};

/// Requests a second and at once, of each client, unless told otherwise.
const RATE: Rate = Rate { per_second: 16, burst: 64 };
/// Between looks at whether to end.
const STEP: Duration = Duration::from_millis(100);
/// Between looks at the clock and at what stands behind it.
const LOOK: Duration = Duration::from_secs(2);
/// The same while one of the two is not known.
const LOOK_SOON: Duration = Duration::from_millis(250);
/// What servers are called that follow no other: an undisciplined local clock.
const UNNAMED: RefId = RefId([127, 127, 1, 1]);

/// Runs the command.
pub fn run(args: &Serve, out: &mut dyn Write) -> Ended {
    let stop = signals::stop()?;
    let rate = Rate {
        per_second: args.rate.unwrap_or(RATE.per_second),
        burst: args.burst.unwrap_or(RATE.burst),
    };
    let responder = Responder::new(
        Access::new(&args.allow, &args.deny),
        (rate.per_second > 0).then_some(rate),
        !args.no_interleaved,
        // As unpredictable as the hashes of the standard library.
        RandomState::new().hash_one(0),
    );
    let server = PageServer::bind(&args.listens(), args.threads.unwrap_or(1).into(), responder)
        .map_err(|BindError { address, why }| Failure::Said(unbound(address, &why)))?;
    let addresses = server.addresses().to_vec();
    let serving = server.start().map_err(|why| Failure::new("cannot serve", why))?;
    let mut screen = Screen { json: args.json, said: None, out };
    screen.begin(&addresses)?;
    let mut behind = Behind { args, addresses: &addresses, known: args.stratum.map(claimed) };
    serving.set_upstream(behind.known);

    let mut look_at = Instant::now();
    let every = args.report.map(|s| Duration::from_secs(s.into()));
    let mut report_at = every.map(|every| Instant::now() + every);
    while !stop.load(Ordering::Relaxed) {
        if serving.is_broken() {
            serving.stop().map_err(|why| Failure::new("serving", why))?;
            return Err(Failure::Said("serving: a thread has ended".into()));
        }
        let now = Instant::now();
        if now >= look_at {
            let trouble = behind.look(&serving);
            screen.state(&serving.state(), trouble)?;
            let known = serving.clock().is_some() && behind.known.is_some();
            look_at = now + if known { LOOK } else { LOOK_SOON };
        }
        if let (Some(at), Some(every)) = (report_at, every)
            && now >= at
        {
            report_at = Some(at.max(now.checked_sub(every).unwrap_or(at)) + every);
            screen.tally(&serving.tally())?;
        }
        thread::sleep(STEP);
    }
    let tally = serving.stop().map_err(|why| Failure::new("serving", why))?;
    screen.tally(&tally)?;
    Ok(Outcome::Good)
}

/// Why an address cannot be had, and what to do about it.
pub fn unbound(address: SocketAddr, why: &io::Error) -> String {
    let mend = match why.kind() {
        io::ErrorKind::PermissionDenied => {
            let program = std::env::current_exe()
                .map_or_else(|_| "truechimer".into(), |path| path.display().to_string());
            format!(
                "run it as root, or give the program the right (sudo setcap \
                 cap_net_bind_service=+ep {program}; in a systemd unit \
                 AmbientCapabilities=CAP_NET_BIND_SERVICE), or choose a port above 1023 with --listen"
            )
        }
        io::ErrorKind::AddrInUse => format!(
            "somebody else listens there, perhaps another NTP server ('ss -lunp sport = :{}' says \
             who, to root); stop it, or choose another address or port with --listen",
            address.port()
        ),
        _ => "choose another address or port with --listen".into(),
    };
    format!("cannot listen on {address}: {why}; {mend}")
}

/// What stands behind a clock whose stratum the user claims.
fn claimed(stratum: u8) -> Upstream {
    Upstream { stratum: stratum.saturating_sub(1), reference_id: UNNAMED }
}

/// What the server does not know by itself: the clock, and what it follows.
struct Behind<'a> {
    args: &'a Serve,
    addresses: &'a [SocketAddr],
    known: Option<Upstream>,
}

impl Behind<'_> {
    /// Looks for what is not known yet, and whether the rest is still so. What is in the way, if
    /// anything is.
    fn look(&mut self, serving: &Serving) -> Option<String> {
        let mut trouble = None;
        if serving.clock().is_none() {
            match clock::open(&self.args.page) {
                Ok(clock) => {
                    serving.set_clock(clock);
                }
                Err(Failure::Said(why)) => trouble = Some(why),
                Err(Failure::Unread) => {}
            }
        }
        match daemon::ask(&self.args.page, &self.args.control) {
            Ok(answer) => match self.upstream(&answer) {
                Ok(None) => {}
                Ok(upstream) => self.known = upstream,
                Err(why) => {
                    self.known = None;
                    trouble = Some(why);
                }
            },
            // What was known of a daemon that has gone holds as long as its clock does.
            Err(Failure::Said(why)) if self.known.is_none() => {
                trouble = trouble.or_else(|| {
                    Some(format!("the stratum is not known: {why}; or claim one with --stratum"))
                });
            }
            Err(_) => {}
        }
        serving.set_upstream(self.known);
        trouble
    }

    /// The source that the daemon follows, if it does follow one.
    fn upstream(&self, answer: &Answer) -> Result<Option<Upstream>, String> {
        let sources = &answer.report.sources;
        let Some(source) = sources.iter().find(|s| s.selection == Selection::Selected) else {
            return Ok(None);
        };
        if let Some(address) = source.address
            && self.addresses.iter().any(|own| is_own(own, &address))
        {
            return Err(format!("the daemon follows {address}, which is this very server"));
        }
        let of_source = if source.is_pulse {
            Some(Upstream { stratum: 0, reference_id: RefId(*b"PPS\0") })
        } else {
            let reference_id = source.address.map(|address| named(address.ip().to_canonical()));
            source
                .stratum
                .zip(reference_id)
                .map(|(stratum, id)| Upstream { stratum, reference_id: id })
        };
        let claim = self.args.stratum.map(|stratum| stratum.saturating_sub(1));
        Ok(of_source
            .map(|of_source| Upstream { stratum: claim.unwrap_or(of_source.stratum), ..of_source }))
    }
}

/// What a source at this address is called. One on this machine is called what an undisciplined
/// clock is: 127.0.0.1 is every client's own address, by which it would take us for its client.
fn named(address: IpAddr) -> RefId {
    if address.is_loopback() { UNNAMED } else { RefId::of_address(address) }
}

/// Whether this address is one that we listen on, as far as that can be told.
fn is_own(own: &SocketAddr, address: &SocketAddr) -> bool {
    let same_family = own.is_ipv4() == address.is_ipv4();
    let loopback = |ip: IpAddr| ip.is_loopback();
    own.port() == address.port()
        && (own.ip() == address.ip()
            || (own.ip().is_unspecified() && same_family && loopback(address.ip())))
}

/// What is printed.
struct Screen<'a> {
    json: bool,
    /// The state last told, without what changes all the time.
    said: Option<(u8, LeapIndicator, RefId, Option<String>)>,
    out: &'a mut dyn Write,
}

/// Where the server listens.
#[derive(Serialize)]
struct Begun {
    listen: Vec<String>,
}

/// What the server says of its clock.
#[derive(Serialize)]
struct State<'a> {
    synchronised: bool,
    stratum: u8,
    leap: u8,
    reference: String,
    root_delay_ns: i64,
    root_dispersion_ns: i64,
    trouble: Option<&'a str>,
}

impl Screen<'_> {
    fn begin(&mut self, addresses: &[SocketAddr]) -> Result<(), Failure> {
        let listen: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        if self.json {
            writeln!(self.out, "{}", json(&Begun { listen })?)?;
        } else {
            writeln!(self.out, "serving on {}", listen.join(" and "))?;
        }
        Ok(self.out.flush()?)
    }

    /// Tells the state if it is another.
    fn state(&mut self, state: &ServerState, trouble: Option<String>) -> Result<(), Failure> {
        let said = Some((state.stratum, state.leap, state.reference_id, trouble));
        if said == self.said {
            return Ok(());
        }
        let trouble = said.as_ref().and_then(|(.., trouble)| trouble.as_deref());
        let synchronised = state.leap != LeapIndicator::Unsynchronised;
        let shown_as = if synchronised { state.stratum } else { 0 };
        let reference = state.reference_id.text(shown_as).to_string();
        let (delay, dispersion) = (state.root_delay.span(), state.root_dispersion.span());
        if self.json {
            let state = State {
                synchronised,
                stratum: state.stratum,
                leap: state.leap as u8,
                reference,
                root_delay_ns: delay.as_nanos_i64(),
                root_dispersion_ns: dispersion.as_nanos_i64(),
                trouble,
            };
            writeln!(self.out, "{}", json(&state)?)?;
        } else if synchronised {
            let leap = match state.leap {
                LeapIndicator::Insert => ", a leap second is to be inserted",
                LeapIndicator::Delete => ", a leap second is to be left out",
                _ => "",
            };
            writeln!(
                self.out,
                "synchronised: stratum {}, reference {reference}, root delay {delay}, root \
                 dispersion {dispersion}{leap}",
                state.stratum
            )?;
        } else {
            let why = trouble.map_or_else(|| "the clock promises nothing yet".into(), plain);
            writeln!(self.out, "not synchronised: {why}")?;
        }
        self.said = said;
        Ok(self.out.flush()?)
    }

    fn tally(&mut self, tally: &Tally) -> Result<(), Failure> {
        tell(tally, self.json, self.out)
    }
}

/// Prints what became of all datagrams.
pub fn tell(tally: &Tally, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if as_json {
        let counts: std::collections::BTreeMap<_, _> = tally.iter().collect();
        writeln!(out, "{}", json(&counts)?)?;
    } else {
        let counts: Vec<_> = tally
            .iter()
            .filter(|(name, n)| *n > 0 || ["received", "answered"].contains(name))
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        writeln!(out, "{}", counts.join(", "))?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_that_cannot_be_had_comes_with_the_mend() {
        let says = |errno| unbound(address("0.0.0.0:123"), &io::Error::from_raw_os_error(errno));
        let denied = says(libc_errno::EACCES);
        assert!(denied.contains("cap_net_bind_service=+ep /"), "{denied}");
        assert!(denied.contains("AmbientCapabilities=") && denied.contains("--listen"), "{denied}");
        assert!(says(libc_errno::EADDRINUSE).contains("'ss -lunp sport = :123'"));
        assert!(says(libc_errno::EADDRNOTAVAIL).contains("another address"));
    }

    /// As Linux numbers them on all processors that this runs on.
    mod libc_errno {
        pub const EACCES: i32 = 13;
        pub const EADDRINUSE: i32 = 98;
        pub const EADDRNOTAVAIL: i32 = 99;
    }

    #[test]
    fn our_own_address_is_no_source() {
        for (own, source, same) in [
            ("127.0.0.1:123", "127.0.0.1:123", true),
            ("0.0.0.0:123", "127.0.0.1:123", true),
            ("[::]:123", "[::1]:123", true),
            ("0.0.0.0:123", "192.0.2.1:123", false),
            ("0.0.0.0:11123", "127.0.0.1:123", false),
            ("[::]:123", "127.0.0.1:123", false),
        ] {
            assert_eq!(is_own(&address(own), &address(source)), same, "{own} {source}");
        }
    }

    #[test]
    fn a_source_is_called_by_its_address_unless_that_is_everybodys() {
        assert_eq!(named("192.0.2.1".parse().unwrap()), RefId([192, 0, 2, 1]));
        assert_eq!(named("127.0.0.1".parse().unwrap()), UNNAMED);
        assert_eq!(named("::1".parse().unwrap()), UNNAMED);
        // What the user claims is the stratum served.
        assert_eq!(claimed(4).served_stratum(), 4);
        assert_eq!(claimed(1).served_stratum(), 1);
    }
}
