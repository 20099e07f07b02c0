//! An NTP server of the clock in the page.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use truechimer_confine::CapabilitySet;
use truechimer_keys::Keys;
use truechimer_metrics::{Listen, Server, unbound as unbound_metrics};
use truechimer_notify::Service;
use truechimer_ntp::server::ServerState;
use truechimer_ntp::{LeapIndicator, RefId};
use truechimer_serve::{
    Access, BindError, Nts, PageServer, Rate, Responder, Serving, Tally, Upstream,
};
use truechimer_timehands::Reference;

use super::{Serve, metrics};
use truechimer::places;
use truechimer_command::log::{self, Form, Priority};
use truechimer_command::show::{json, plain};
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{clock, signals};

/// Requests a second and at once, of each client, unless told otherwise.
const RATE: Rate = Rate { per_second: 16, burst: 64 };
/// Between looks at whether to end.
const STEP: Duration = Duration::from_millis(100);
/// Between looks at the clock and at what stands behind it.
const LOOK: Duration = Duration::from_secs(2);
/// Time between these looks while one of the two is not known.
const LOOK_SOON: Duration = Duration::from_millis(250);
/// Name of servers that follow no other: an undisciplined local clock.
const UNNAMED: RefId = RefId([127, 127, 1, 1]);

/// Runs the command.
pub fn run(args: &Serve, out: &mut dyn Write) -> Ended {
    let (stop, reload) = (signals::stop()?, signals::reload()?);
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
    let server = match args.nts() {
        None => server,
        Some(settings) => {
            let nts = Nts::new(&settings).map_err(Failure::Said)?;
            let unbound =
                |BindError { address, why }| Failure::Said(unbound_exchange(address, &why));
            server.prove(nts).map_err(unbound)?
        }
    };
    let server = match &args.keys {
        None => server,
        Some(file) => server.share(keys(file)?),
    };
    let server = if args.require_proof { server.require_proof() } else { server };
    let mut exporter = exporter(args)?;
    let locked = args.lock_memory.then(truechimer_daemon::lock_memory);
    let addresses = server.addresses().to_vec();
    let sandbox = if args.no_sandbox {
        None
    } else {
        // A counter that is a device takes rights to be opened, once for the process.
        drop(clock::open(&args.page));
        let pages = args.page.page.clone().map_or_else(places::for_readers, |page| vec![page]);
        let written =
            [args.metrics.as_ref().and_then(Listen::path), args.nts_cookie_keys.as_deref()];
        let read: Vec<&Path> = args.secrets().collect();
        // Stacks of later threads are locked as well, beyond the limit of those without it.
        let kept = if args.lock_memory { CapabilitySet::IPC_LOCK } else { CapabilitySet::empty() };
        super::confine(&pages, &read, written.into_iter().flatten(), kept, args.seccomp)
    };
    let serving = server.start().map_err(|why| Failure::new("cannot serve", why))?;
    log::begin();
    let form = Form::of(&io::stdout());
    let mut screen = Screen { json: args.json, form, said: None, out };
    screen.begin(&addresses, exporter.as_ref().map(Server::place))?;
    let began = Instant::now();
    match locked {
        None => {}
        Some(Ok(())) => log::say(Priority::Info, "truechimer: info: memory is locked"),
        Some(Err(why)) => log::say(Priority::Warning, &unlocked(&why)),
    }
    super::tell_sandbox(sandbox);
    let mut behind = Behind { args, addresses: &addresses, known: args.stratum.map(claimed) };
    serving.set_upstream(behind.known);

    let mut look_at = Instant::now();
    let every = args.report.map(|s| Duration::from_secs(s.into()));
    let mut report_at = every.map(|every| Instant::now() + every);
    let mut service = Service::of_environment();
    service.ready();
    while !stop.load(Ordering::Relaxed) {
        service.alive();
        if serving.is_broken() {
            serving.stop().map_err(|why| Failure::new("serving", why))?;
            return Err(Failure::Said("serving: a thread has ended".into()));
        }
        if reload.swap(false, Ordering::Relaxed) {
            renew(args, &serving);
        }
        for why in serving.news() {
            log::say(Priority::Warning, &format!("truechimer: warning: {why}"));
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
        match &mut exporter {
            Some(exporter) => exporter.turn(STEP, &mut || {
                metrics::families(&metrics::Snapshot::of(&serving, began.elapsed()))
            }),
            None => thread::sleep(STEP),
        }
    }
    service.stopping();
    let tally = serving.stop().map_err(|why| Failure::new("serving", why))?;
    screen.tally(&tally)?;
    Ok(Outcome::Good)
}

/// Keys of a file, of which there is one at least.
fn keys(file: &Path) -> Result<Keys, Failure> {
    let keys = Keys::read(file).map_err(|why| Failure::Said(why.to_string()))?;
    if keys.is_empty() {
        let file = file.display();
        let why =
            format!("{file}: has no key: add a line, as 'chronyc keygen 5 AES128' prints one");
        return Err(Failure::Said(why));
    }
    Ok(keys)
}

/// Reads certificate and keys again, and says what came of it. What cannot be used changes nothing.
fn renew(args: &Serve, serving: &Serving) {
    let keys = match &args.keys {
        Some(file) => keys(file).map(|keys| serving.share(keys)),
        None => Ok(()),
    };
    let mut whole = true;
    for said in [keys, serving.renew().map_err(Failure::Said)] {
        if let Err(Failure::Said(why)) = said {
            let why = format!("truechimer: warning: {why}; those of before stay in use");
            log::say(Priority::Warning, &why);
            whole = false;
        }
    }
    if whole && args.secrets().next().is_some() {
        log::say(Priority::Info, "truechimer: info: certificate and keys were read again");
    }
}

/// Server of metrics, if they are wanted.
fn exporter(args: &Serve) -> Result<Option<Server>, Failure> {
    let Some(listen) = &args.metrics else { return Ok(None) };
    let server = Server::bind(listen)
        .map_err(|why| Failure::Said(unbound_metrics(listen, &why, "--metrics")))?;
    Ok(Some(server))
}

/// Words for why memory is not locked, and what to do about it.
fn unlocked(why: &io::Error) -> String {
    format!(
        "truechimer: warning: memory is not locked: {why}; it takes LimitMEMLOCK=infinity and \
         SystemCallFilter=@memlock in the unit, or CAP_IPC_LOCK"
    )
}

/// Reason why the port of the key exchange cannot be had, and what to do about it.
fn unbound_exchange(address: SocketAddr, why: &io::Error) -> String {
    format!(
        "cannot exchange keys (NTS) on TCP {address}: {why}; choose another port with --nts-port"
    )
}

/// Reason why an address cannot be had, and what to do about it.
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

/// Upstream of a clock whose stratum the user claims.
fn claimed(stratum: u8) -> Upstream {
    Upstream { stratum: stratum.saturating_sub(1), reference_id: UNNAMED }
}

/// Facts that the server does not know by itself: the clock, and what it follows.
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
        match serving.clock().and_then(|clock| clock.page().reference()) {
            Some(reference) => match self.upstream(&reference) {
                Ok(upstream) => self.known = Some(upstream),
                Err(why) => {
                    self.known = None;
                    trouble = Some(why);
                }
            },
            None if self.known.is_none() && serving.clock().is_some() => {
                let why = "the page does not say yet what the daemon follows";
                trouble =
                    Some(format!("the stratum is not known: {why}; or claim one with --stratum"));
            }
            None => {}
        }
        serving.set_upstream(self.known);
        trouble
    }

    /// Upstream by this source.
    fn upstream(&self, source: &Reference) -> Result<Upstream, String> {
        if self.addresses.iter().any(|own| is_own(own, source)) {
            return Err("the daemon follows this very server".into());
        }
        let stratum = self.args.stratum.map_or(source.stratum, |claim| claim.saturating_sub(1));
        Ok(Upstream { stratum, reference_id: named(source) })
    }
}

/// Name of a source. A server on this machine is called what an undisciplined clock is: 127.0.0.1
/// is every client's own address, by which it would take us for its client.
fn named(source: &Reference) -> RefId {
    if is_loopback(source) { UNNAMED } else { RefId(source.id) }
}

/// True if the source is a server at a loopback address.
fn is_loopback(source: &Reference) -> bool {
    let Reference { stratum, id, ipv6, .. } = *source;
    match ipv6 {
        true => RefId(id) == RefId::of_address(Ipv6Addr::LOCALHOST.into()),
        false => stratum > 0 && id.first() == Some(&127),
    }
}

/// True if the source is a server at this address, which is one that we listen on, as far as that
/// can be told.
fn is_own(own: &SocketAddr, source: &Reference) -> bool {
    own.port() == source.port
        && own.is_ipv6() == source.ipv6
        && (RefId::of_address(own.ip()) == RefId(source.id)
            || (own.ip().is_unspecified() && is_loopback(source)))
}

/// Output on the screen.
struct Screen<'a> {
    json: bool,
    /// Form of lines for people.
    form: Form,
    /// The state last told, without what changes all the time.
    said: Option<(u8, LeapIndicator, RefId, Option<String>)>,
    out: &'a mut dyn Write,
}

/// Places where the server listens.
#[derive(Serialize)]
struct Begun {
    listen: Vec<String>,
    metrics: Option<String>,
}

/// State of its clock by the server's word.
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
    fn begin(
        &mut self,
        addresses: &[SocketAddr],
        metrics: Option<&truechimer_metrics::Listen>,
    ) -> Result<(), Failure> {
        let listen: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let metrics = metrics.map(ToString::to_string);
        if self.json {
            writeln!(self.out, "{}", json(&Begun { listen, metrics })?)?;
        } else {
            self.line(Priority::Info, &format!("serving on {}", listen.join(" and ")))?;
            if let Some(place) = metrics {
                self.line(Priority::Info, &format!("metrics are served at {place}"))?;
            }
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
            let text = format!(
                "synchronised: stratum {}, reference {reference}, root delay {delay}, root \
                 dispersion {dispersion}{leap}",
                state.stratum
            );
            self.line(Priority::Info, &text)?;
        } else {
            let why = trouble.map_or_else(|| "the clock promises nothing yet".into(), plain);
            self.line(Priority::Warning, &format!("not synchronised: {why}"))?;
        }
        self.said = said;
        Ok(self.out.flush()?)
    }

    fn tally(&mut self, tally: &Tally) -> Result<(), Failure> {
        tell(tally, self.json, self.form, self.out)
    }

    /// A line for people.
    fn line(&mut self, priority: Priority, text: &str) -> io::Result<()> {
        self.out.write_all(self.form.now(priority, text).as_bytes())
    }
}

/// Prints what became of all datagrams.
pub fn tell(tally: &Tally, as_json: bool, form: Form, out: &mut dyn Write) -> Result<(), Failure> {
    if as_json {
        let counts: std::collections::BTreeMap<_, _> = tally.iter().collect();
        writeln!(out, "{}", json(&counts)?)?;
    } else {
        let counts: Vec<_> = tally
            .iter()
            .filter(|(name, n)| *n > 0 || ["received", "answered"].contains(name))
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        out.write_all(form.now(Priority::Info, &counts.join(", ")).as_bytes())?;
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

    /// Error numbers of Linux on all processors that this runs on.
    mod libc_errno {
        pub const EACCES: i32 = 13;
        pub const EADDRINUSE: i32 = 98;
        pub const EADDRNOTAVAIL: i32 = 99;
    }

    /// Reference by which the page names a server at that address.
    fn source(text: &str) -> Reference {
        let address = address(text);
        let RefId(id) = RefId::of_address(address.ip());
        Reference { stratum: 2, id, port: address.port(), ipv6: address.is_ipv6() }
    }

    #[test]
    fn our_own_address_is_no_source() {
        for (own, server, same) in [
            ("127.0.0.1:123", "127.0.0.1:123", true),
            ("0.0.0.0:123", "127.0.0.1:123", true),
            ("[::]:123", "[::1]:123", true),
            ("0.0.0.0:123", "192.0.2.1:123", false),
            ("192.0.2.1:123", "192.0.2.1:123", true),
            ("[2001:db8::1]:123", "[2001:db8::1]:123", true),
            ("[2001:db8::1]:123", "[2001:db8::2]:123", false),
            ("0.0.0.0:11123", "127.0.0.1:123", false),
            ("[::]:123", "127.0.0.1:123", false),
        ] {
            assert_eq!(is_own(&address(own), &source(server)), same, "{own} {server}");
        }
    }

    #[test]
    fn a_source_is_called_by_its_address_unless_that_is_everybodys() {
        assert_eq!(named(&source("192.0.2.1:123")), RefId([192, 0, 2, 1]));
        assert_eq!(named(&source("127.0.0.1:123")), UNNAMED);
        assert_eq!(named(&source("[::1]:123")), UNNAMED);
        let pps = Reference { stratum: 0, id: *b"PPS\0", port: 0, ipv6: false };
        assert_eq!(named(&pps), RefId(*b"PPS\0"));
        // What the user claims is the stratum served.
        assert_eq!(claimed(4).served_stratum(), 4);
        assert_eq!(claimed(1).served_stratum(), 1);
    }
}
