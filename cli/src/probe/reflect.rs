//! `truechimer probe reflect`: answers the test packets of others.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use truechimer::places;
use truechimer_confine::{CapabilitySet, Unlisted};
use truechimer_notify::Service;
use truechimer_probe::Access;
use truechimer_probe::serve::{BindError, Server, Tally};
use truechimer_probe::wire::PORT;
use truechimer_serve::Rate;
use truechimer_time::Span;

use super::usable;
use crate::run;
use crate::serve::args::Place;
use crate::serve::page::unbound;
use crate::serve::{confine, tell_sandbox};
use truechimer_command::clock::{self, Page};
use truechimer_command::log::{self, Form, Priority};
use truechimer_command::{Ended, Failure, Outcome, show, signals};

/// Between looks for a clock while there is none.
const LOOK: Duration = Duration::from_secs(1);
/// Largest number of packets a second of one address, and at once.
const MOST_RATE: i64 = 100_000;

/// Options of `truechimer probe reflect`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Answers those who have a key of type SHA256 of the file, with any of them; everybody only if told so
by --open. A packet with a key that was overheard could be answered to any address: of senders whose
clock is synchronised, as ours is, no packet is answered later than a minute after it was sent; all
others, no faster than --rate and --max-total let. A reply is never longer than the packet that it
answers. What looks like another reflector's reply, or comes from a port below 1024 or from its own,
is not answered; nor are packets of fewer than 41 bytes. Others than this program may ask: routers'
senders of STAMP (RFC 8762) and of TWAMP Light, in unauthenticated mode with --open; extensions come
back marked as not understood, but for padding and their code (RFC 8972).

Each sender's packets are counted, by address, port and session, so that it learns which way its
losses happen. Replies have the arrival's and their own time of the clock that 'truechimer run'
keeps, and the larger bound of both. Without a clock, or while that promises nothing, they have the
system clock's time and say that it is not synchronised.

Replies come from the address that was asked. Port 862 takes root or the capability cap_net_bind_service.

Examples:
  sudo truechimer probe reflect --keys /etc/truechimer/probe.keys
  truechimer probe reflect --open --listen 127.0.0.1:8620

Signals: TERM and INT end it, with a summary of what it did.

Exit status: 0 ended by a signal, 2 error (address in use, say).")]
pub struct Reflect {
    /// Where to listen: 192.0.2.1, 192.0.2.1:8620, 2001:db8::1 or [2001:db8::1]:8620. Without a port
    /// it is 862; port 0 takes any free one; may be repeated [default: all addresses]
    #[allow(rustdoc::broken_intra_doc_links)] // The text of --help, in which brackets are brackets.
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    listen: Vec<Place>,
    /// The file of keys, as chronyd's keyfile; none but its owner and group may read it
    #[arg(long, value_name = "FILE", required_unless_present = "open")]
    keys: Option<PathBuf>,
    /// Answer packets without a key too, of everybody who reaches it
    #[arg(long)]
    open: bool,
    /// Packets a second of one address that are answered on average, 1 to 100000; addresses of one
    /// IPv6 network (/64) count as one
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_RATE))]
    rate: u32,
    /// Packets of one address that are answered at once
    #[arg(long, value_name = "N", default_value_t = 400)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_RATE))]
    burst: u32,
    /// Packets a second of all addresses together that are answered on average, 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_total: u32,
    /// Give replies the sender's numbers rather than count them
    #[arg(long)]
    stateless: bool,
    /// Keep all rights that the process has, rather than give up what it does not need once it
    /// listens: files by Landlock, capabilities, new privileges
    #[arg(long)]
    no_sandbox: bool,
    /// Of all system calls allow only those that the reflector makes, by seccomp: any other ends the
    /// process (kill, unless FATE is given), or is logged by the kernel (log)
    #[arg(long, value_name = "FATE", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "off", default_missing_value = "kill", conflicts_with = "no_sandbox")]
    #[arg(value_parser = run::fate(), hide_default_value = true, hide_possible_values = true)]
    seccomp: Unlisted,
    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    page: Page,
}

/// Places where it listens.
#[derive(Serialize)]
struct Begun {
    listen: Vec<String>,
}

/// State of its clock.
#[derive(Serialize)]
struct State<'a> {
    synchronised: bool,
    bound_ns: Option<i64>,
    trouble: Option<&'a str>,
}

/// Runs the command.
pub fn run(args: &Reflect, out: &mut dyn Write) -> Ended {
    let stop = signals::stop()?;
    let keys = args.keys.as_deref().map(usable).transpose()?.unwrap_or_default();
    let access = Access {
        keys,
        open: args.open,
        rate: Some(Rate { per_second: args.rate, burst: args.burst }),
        total: Some(Rate { per_second: args.max_total, burst: args.max_total.div_ceil(10) }),
        stateless: args.stateless,
        // As unpredictable as the hashes of the standard library.
        seed: RandomState::new().hash_one(0),
    };
    // A counter that is a device takes rights to be opened, once for the process.
    let clock = clock::open(&args.page).ok();
    let mut server = Server::bind(&args.listens(), clock, access)
        .map_err(|BindError { address, why }| Failure::Said(unbound(address, &why)))?;
    let sandbox = if args.no_sandbox {
        None
    } else {
        let pages = args.page.page.clone().map_or_else(places::for_readers, |page| vec![page]);
        confine(&pages, &[], std::iter::empty(), CapabilitySet::empty(), args.seccomp)
    };
    log::begin();
    let form = Form::of(&io::stdout());
    let mut screen = Screen { json: args.json, form, said: None, out };
    screen.begin(server.addresses())?;
    tell_sandbox(sandbox);
    let mut service = Service::of_environment();
    service.ready();
    let mut look_at = Instant::now();
    let mut failed = None;
    let ended = server.run(&stop, |server| {
        service.alive();
        if Instant::now() < look_at {
            return Ok(());
        }
        look_at = Instant::now() + LOOK;
        let told =
            look(server, &args.page).and_then(|(bound, trouble)| screen.state(bound, trouble));
        told.map_err(|why| {
            failed = Some(why);
            io::Error::other("standard output")
        })
    });
    if let Some(why) = failed {
        return Err(why);
    }
    ended.map_err(|why| Failure::new("reflecting", why))?;
    service.stopping();
    screen.tally(server.tally())?;
    Ok(Outcome::Good)
}

/// Opens the clock if there is none yet; its bound now, or why there is none.
fn look(server: &mut Server, page: &Page) -> Result<(Option<Span>, Option<String>), Failure> {
    let keeper = server.keeper();
    let mut trouble = None;
    if !keeper.has_clock() {
        match clock::open(page) {
            Ok(clock) => {
                let stamping = |why| Failure::new("cannot stamp packets", why);
                keeper.set_clock(clock).map_err(stamping)?;
            }
            Err(Failure::Said(why)) => trouble = Some(why),
            Err(unread) => return Err(unread),
        }
    }
    Ok((keeper.now().bound, trouble))
}

impl Reflect {
    fn listens(&self) -> Vec<(SocketAddr, bool)> {
        if !self.listen.is_empty() {
            return self.listen.iter().map(|place| (place.or(PORT), false)).collect();
        }
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
        vec![(v6, true), (SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), true)]
    }
}

/// Output on the screen.
struct Screen<'a> {
    json: bool,
    form: Form,
    /// State last told: whether there is a bound, and what is in the way.
    said: Option<(bool, Option<String>)>,
    out: &'a mut dyn Write,
}

impl Screen<'_> {
    fn begin(&mut self, addresses: &[SocketAddr]) -> Result<(), Failure> {
        let listen: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let text = format!("reflecting on {}", listen.join(" and "));
        self.line(Priority::Info, &text, &Begun { listen })
    }

    /// Tells the state if it is another.
    fn state(&mut self, bound: Option<Span>, trouble: Option<String>) -> Result<(), Failure> {
        let said = Some((bound.is_some(), trouble));
        if said == self.said {
            return Ok(());
        }
        let trouble = said.as_ref().and_then(|(_, trouble)| trouble.as_deref());
        let state = State {
            synchronised: bound.is_some(),
            bound_ns: bound.map(Span::as_nanos_up),
            trouble,
        };
        let (priority, text) = match bound {
            Some(bound) => {
                (Priority::Info, format!("the clock is right to within {}", bound.rounded_up()))
            }
            None => {
                let why = trouble.map_or_else(|| "it promises nothing yet".into(), show::plain);
                (
                    Priority::Warning,
                    format!("replies say that the clock is not synchronised: {why}"),
                )
            }
        };
        self.line(priority, &text, &state)?;
        self.said = said;
        Ok(())
    }

    fn tally(&mut self, tally: &Tally) -> Result<(), Failure> {
        let counts: std::collections::BTreeMap<_, _> = tally.iter().collect();
        let shown: Vec<_> = tally
            .iter()
            .filter(|(name, n)| *n > 0 || ["received", "answered"].contains(name))
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        self.line(Priority::Info, &shown.join(", "), &counts)
    }

    fn line(
        &mut self,
        priority: Priority,
        text: &str,
        object: &impl Serialize,
    ) -> Result<(), Failure> {
        if self.json {
            writeln!(self.out, "{}", show::json(object)?)?;
        } else {
            self.out.write_all(self.form.now(priority, text).as_bytes())?;
        }
        Ok(self.out.flush()?)
    }
}
