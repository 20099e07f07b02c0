//! Path-days: paths through access networks, drawn from ranges and not written down.
//!
//! A clock that is tuned on scenarios may know them by heart. Here a technology's parameters are
//! drawn anew for each day ([`Range`]), with the oscillator, the host and the server's root
//! distance; loads go by the hour, and routes, cells and satellites change within the day. The
//! server is always right. What is judged is one estimator over the day's exchanges
//! ([`Judged`]), without an engine around it, and the exchanges are the same for all.
//!
//! A path-day is a function of the seed and of its number.

mod bufferbloat;
mod cellular;
mod docsis;
mod gpon;
mod interrupts;
mod jitter;
mod judged;
mod law;
mod leo;
mod limit;
mod line;
mod lte;
mod nr;
mod part;
mod quantised;
pub(crate) mod range;
mod surroundings;
#[cfg(test)]
mod tests;
mod wifi;

use truechimer_estimators::Kind;
use truechimer_feedforward::Estimator;
use truechimer_feedforward::number::{seconds, span};
use truechimer_time::{CountSpan, Instant, Span};

use crate::coverage::Coverage;
use crate::direct::{Known, Packets, first_interval};
use crate::host::{Departure, Host};
use crate::random::Random;
use crate::stamps::{Declared, Reference, Stamped};
use crate::{HostSpec, OscillatorSpec};
use truechimer_trace::Trace;

pub use judged::{Judged, Reported};
use law::{Piece, Told};
pub use limit::Limit;
pub use part::{Cause, Change};
use part::{Packet, Way, Ways};
use quantised::Stamping;
use range::Drawing;
pub use range::{Drew, Range, Values};

/// Length of a day, h, and how much of it accuracy leaves out, so that loops can settle.
pub const HOURS: f64 = 24.0;
/// See [`HOURS`].
pub const WARM_UP_HOURS: f64 = 2.0;
/// 2027-01-15T08:00:00Z, when days begin, as Unix seconds.
const BEGIN: i64 = 1_800_000_000;
/// The promise that every drawn oscillator keeps, ppm.
const MAX_WANDER_PPM: f64 = 0.5;
/// Requests at each interval that is twice as long as the one before, from then on.
const AT_EACH: u64 = 4;
/// The first of these intervals, s.
const DOUBLED: u32 = 16;
/// A request may be early by this part of the interval.
const EARLY: f64 = 64.0;

/// A kind of path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Technology {
    /// Ethernet and fibre, from the next switch to another continent: the control.
    Ethernet,
    /// Cable, DOCSIS 3.1.
    Docsis,
    /// Passive optical networks.
    Gpon,
    /// LTE.
    Lte,
    /// 5G.
    Nr,
    /// Wi-Fi.
    Wifi,
    /// Wi-Fi behind a cable modem or an optical network.
    Home,
    /// Satellites in low orbits.
    Leo,
    /// Interrupt coalescing and idle states.
    Interrupts,
    /// Queues that stand for minutes to hours.
    Bufferbloat,
    /// Bounded jitter whose floor is hardly ever met.
    Jitter,
    /// A server whose stamps are coarse.
    Quantised,
}

impl Technology {
    /// All of them, in the order in which days take their turns.
    pub const ALL: [Technology; 12] = [
        Technology::Ethernet,
        Technology::Docsis,
        Technology::Gpon,
        Technology::Lte,
        Technology::Nr,
        Technology::Wifi,
        Technology::Home,
        Technology::Leo,
        Technology::Interrupts,
        Technology::Bufferbloat,
        Technology::Jitter,
        Technology::Quantised,
    ];

    /// Name, one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Technology::Ethernet => "ethernet",
            Technology::Docsis => "docsis",
            Technology::Gpon => "gpon",
            Technology::Lte => "lte",
            Technology::Nr => "5g",
            Technology::Wifi => "wifi",
            Technology::Home => "home",
            Technology::Leo => "leo",
            Technology::Interrupts => "interrupts",
            Technology::Bufferbloat => "bufferbloat",
            Technology::Jitter => "jitter",
            Technology::Quantised => "quantised",
        }
    }

    /// The technology of this name.
    ///
    /// # Errors
    /// There is none: which there are.
    pub fn named(name: &str) -> Result<Technology, String> {
        let all = Technology::ALL.map(Technology::name);
        let found = Technology::ALL.into_iter().find(|technology| technology.name() == name);
        found.ok_or_else(|| {
            format!("no technology is called {name:?}; there are {}", all.join(", "))
        })
    }

    /// Description in a line.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Technology::Ethernet => {
                "Ethernet and fibre, from the next switch to another continent: the control"
            }
            Technology::Docsis => "cable, DOCSIS 3.1: requests, grants and maps upstream",
            Technology::Gpon => {
                "passive optical network: slots upstream by dynamic bandwidth allocation"
            }
            Technology::Lte => {
                "LTE: scheduling requests, retransmissions after 8 ms, DRX, handovers of cells"
            }
            Technology::Nr => "5G: slots, TDD patterns, retransmissions, DRX, handovers of cells",
            Technology::Wifi => {
                "Wi-Fi: contention, retries with windows that double, power save, scans"
            }
            Technology::Home => "Wi-Fi behind a cable modem or an optical network",
            Technology::Leo => "low orbits: another satellite every 15 s, both directions alike",
            Technology::Interrupts => "interrupt coalescing, idle states of processor and link",
            Technology::Bufferbloat => {
                "queues that stand for minutes to hours, in one direction or both"
            }
            Technology::Jitter => "bounded jitter whose floor is hardly ever met",
            Technology::Quantised => "stamps of the server cut, rounded or blurred, 1 µs to 1 ms",
        }
    }

    /// The parameters that are drawn for it, beside those of line and surroundings.
    #[must_use]
    pub fn ranges(self) -> Vec<Range> {
        match self {
            Technology::Ethernet => line::ONLY.to_vec(),
            Technology::Docsis => docsis::RANGES.to_vec(),
            Technology::Gpon => gpon::RANGES.to_vec(),
            Technology::Lte => [&lte::RANGES[..], &cellular::RANGES].concat(),
            Technology::Nr => [&nr::RANGES[..], &cellular::RANGES].concat(),
            Technology::Wifi => wifi::RANGES.to_vec(),
            Technology::Home => vec![OPTICAL],
            Technology::Leo => leo::RANGES.to_vec(),
            Technology::Interrupts => [&interrupts::RANGES[..], &line::ONLY].concat(),
            Technology::Bufferbloat => bufferbloat::RANGES.to_vec(),
            Technology::Jitter => jitter::RANGES.to_vec(),
            Technology::Quantised => [&quantised::RANGES[..], &line::ONLY].concat(),
        }
    }

    fn ways(self, d: &mut Drawing, seconds: f64) -> Ways {
        let access = match self {
            Technology::Ethernet | Technology::Quantised => return line::alone(d, seconds),
            Technology::Interrupts => {
                return interrupts::draw(d, seconds).before(line::alone(d, seconds));
            }
            Technology::Docsis => docsis::draw(d, seconds),
            Technology::Gpon => gpon::draw(d, seconds),
            Technology::Lte => lte::draw(d, seconds),
            Technology::Nr => nr::draw(d, seconds),
            Technology::Wifi => wifi::draw(d, seconds),
            Technology::Home => {
                let optical = d.is("home", &OPTICAL);
                let further = if optical { gpon::draw } else { docsis::draw };
                wifi::draw(d, seconds).before(further(d, seconds))
            }
            Technology::Leo => leo::draw(d, seconds),
            Technology::Bufferbloat => bufferbloat::draw(d, seconds),
            Technology::Jitter => jitter::draw(d, seconds),
        };
        access.before(line::draw(d, seconds))
    }
}

const OPTICAL: Range = Range {
    name: "optical network",
    unit: "",
    values: Values::OneOf(&[0.0, 1.0]),
    reason: "else cable; drawn as there",
};

/// The parameters that are drawn for every path-day.
#[must_use]
pub fn common_ranges() -> Vec<Range> {
    [&line::RANGES[..], &part::Load::RANGES, &surroundings::RANGES].concat()
}

/// A path-day: what was drawn for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Day {
    /// Number, from 0.
    pub number: u64,
    /// The seed that all numbers count under.
    pub seed: u64,
    /// Technology of its path: they take turns.
    pub technology: Technology,
    /// Seconds between requests, once it has begun.
    pub poll: u32,
    /// Length, s, and how much of it accuracy leaves out, s.
    pub seconds: f64,
    /// See `seconds`.
    pub warm_up: f64,
    own_seed: u64,
}

impl Day {
    /// The day of this number.
    #[must_use]
    pub fn new(seed: u64, number: u64, poll: u32, hours: f64) -> Day {
        let turn = (number % Technology::ALL.len() as u64) as usize;
        Day {
            number,
            seed,
            technology: Technology::ALL.get(turn).copied().unwrap_or(Technology::Ethernet),
            poll,
            seconds: hours * 3600.0,
            warm_up: WARM_UP_HOURS.min(hours / 2.0) * 3600.0,
            own_seed: Random::new(seed, &format!("path-day {number}")).bits(),
        }
    }

    /// The numbers of the first so many days, of one technology or of all.
    #[must_use]
    pub fn numbers(days: u64, technology: Option<Technology>) -> Vec<u64> {
        let all = Technology::ALL.len() as u64;
        let turn = technology.and_then(|t| Technology::ALL.iter().position(|other| *other == t));
        (0..days).map(|n| turn.map_or(n, |turn| n * all + turn as u64)).collect()
    }

    /// Path, host, server and exchanges of the day.
    #[must_use]
    pub fn realise(&self) -> Realised {
        self.realise_and_see(|_, _| {})
    }

    /// Path, host, server and exchanges; `seen` gets the course of each exchange.
    fn realise_and_see(&self, seen: impl FnMut(&mut World, &Course)) -> Realised {
        let mut d = Drawing::new(self.own_seed);
        let ways = self.technology.ways(&mut d, self.seconds);
        let host = surroundings::host(&mut d);
        let oscillator = surroundings::oscillator(&mut d, self.seconds);
        let stamping = match self.technology {
            Technology::Quantised => quantised::draw(&mut d),
            _ => Stamping::FINE,
        };
        let root_distance = surroundings::root_distance(&mut d) + stamping.quantum();
        let residence = surroundings::residence(&mut d);
        let Ways { there, back, mut changes } = ways;
        changes.sort_by(|a, b| a.at.total_cmp(&b.at));
        let mut world = World {
            there,
            back,
            host: Host::new(&host, &oscillator, self.own_seed),
            stamping,
            random: d.stream("server"),
            polls: d.stream("polls"),
            residence,
        };
        let (exchanges, stated) = world.run(self, seen);
        let declared = Declared {
            nominal_hz: Some(host.counter_hz),
            stamp_error: Some(stated),
            root_distance: Some(span(root_distance)),
            precision: Some(span(stamping.quantum())),
            ..Declared::default()
        };
        Realised { day: self.clone(), drew: d.drew, changes, host, oscillator, declared, exchanges }
    }

    /// Laws of the exchanges; with `all` even what nobody could learn of them.
    fn tell(&self, all: bool) -> Vec<Foretold> {
        let mut told = Vec::new();
        self.realise_and_see(|world, course| told.push(world.tell(course, all)));
        told
    }
}

/// A path-day with its exchanges.
#[derive(Clone, Debug)]
pub struct Realised {
    /// Which one.
    pub day: Day,
    /// Parameters of the day.
    pub drew: Vec<Drew>,
    /// When and by how much the path changes, in order.
    pub changes: Vec<Change>,
    /// Oscillator of the host.
    pub oscillator: OscillatorSpec,
    /// Declarations that hold of all stamps.
    pub declared: Declared,
    /// The exchanges whose replies came before the next request.
    pub exchanges: Vec<Passed>,
    host: HostSpec,
}

/// An exchange, with the truth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Passed {
    /// Exchange as a stamp file has it.
    pub stamped: Stamped,
    /// When the reply was stamped, s since the start of the day.
    pub at: f64,
    /// Delays of the packets there and back, stamp to stamp, s.
    pub delays: [f64; 2],
}

impl Realised {
    /// The stamps as a stamp file has them.
    #[must_use]
    pub fn stamps(&self) -> Vec<Stamped> {
        self.exchanges.iter().map(|passed| passed.stamped).collect()
    }

    /// The packets for estimators; `None` if there are none.
    #[must_use]
    pub fn packets(&self) -> Option<Packets> {
        let known = Known {
            title: format!("day {}, {}", self.day.number, self.day.technology.name()),
            warm_up: self.day.warm_up,
            origin: Instant::new(BEGIN, 0),
            seconds: self.day.seconds,
            max_wander_ppm: MAX_WANDER_PPM,
        };
        let mut host = Host::new(&self.host, &self.oscillator, self.day.own_seed);
        Packets::from_stamps(&known, &self.stamps(), &self.declared, &mut host)
    }

    /// A new estimator of this kind, as a source of the daemon would have it.
    #[must_use]
    pub fn estimator(&self, kind: Kind, packets: &Packets) -> Box<dyn Estimator> {
        kind.estimator(&packets.beginning(self.day.poll))
    }

    /// Result of this estimator on the day, and the readings of its clock.
    #[must_use]
    pub fn judge(&self, kind: Kind, packets: &Packets) -> (Judged, Trace) {
        self.judge_one(self.estimator(kind, packets).as_mut(), packets)
    }

    /// Result of an estimator that is no kind of the table.
    #[must_use]
    pub fn judge_one(&self, estimator: &mut dyn Estimator, packets: &Packets) -> (Judged, Trace) {
        judged::judge(self, packets, estimator)
    }
}

/// Coverage of the truth by the likely intervals of this estimator on a day. `None` if not a packet
/// came back.
#[must_use]
pub fn coverage(day: &Day, kind: Kind) -> Option<Coverage> {
    let realised = day.realise();
    let packets = realised.packets()?;
    let mut estimator = realised.estimator(kind, &packets);
    Some(packets.coverage(estimator.as_mut()))
}

/// Course of an exchange: true times, s since the start of the day.
struct Course {
    packet: Packet,
    /// Time at which the request was on the wire.
    wire: f64,
    /// Time at which the server got it.
    arrived: f64,
    /// Time at which the reply left.
    left: f64,
}

/// Laws of an exchange, which are told beforehand.
#[derive(Debug)]
struct Foretold {
    /// There and back.
    ways: [Told; 2],
    /// Earliest and latest time, by the server's stamps, at which the request came and at which
    /// the reply left, s since the start of the day.
    cells: [(f64, f64); 2],
    /// Time in the server, s.
    residence: f64,
}

/// Host, path and server of a day at work.
struct World {
    there: Way,
    back: Way,
    host: Host,
    stamping: Stamping,
    random: Random,
    polls: Random,
    /// Least residence in the server and mean of what comes on top, s.
    residence: [f64; 2],
}

impl World {
    /// The exchanges of the day, and the largest error that was stated of a stamp.
    fn run(&mut self, day: &Day, mut seen: impl FnMut(&mut World, &Course)) -> (Vec<Passed>, Span) {
        let period = self.host.nominal();
        let (mut all, mut stated) = (Vec::new(), Span::ZERO);
        let mut due = 0.0;
        for number in 0.. {
            let t = self.host.wakes_at(due);
            let sent = self.host.send(number, t);
            let gap = self.gap(number, day.poll);
            due = self.host.time_of(sent.stamp.count + period.counts(gap), t);
            if due >= day.seconds {
                break;
            }
            let Some((passed, course, error)) = self.exchange(number, &sent) else { continue };
            // The socket of a request is closed when the next one is sent.
            if passed.at < due {
                stated = stated.max(period.span(error.max(sent.stamp.error)));
                seen(self, &course);
                all.push(passed);
            }
        }
        (all, stated)
    }

    /// Time from this request to the next one: up to a 64th of the interval early, as the engine has
    /// it, so that requests keep no step with what the path does periodically.
    fn gap(&mut self, number: u64, poll: u32) -> Span {
        self.polls.seek(number);
        let interval = f64::from(interval(number, poll));
        span(interval * (1.0 - self.polls.uniform() / EARLY))
    }

    /// The exchange of this number and the error stated of its arrival; `None` if it was lost.
    fn exchange(&mut self, number: u64, sent: &Departure) -> Option<(Passed, Course, CountSpan)> {
        let (packet, arrived) = self.there.begin(number, sent.wire)?;
        self.random.seek(number);
        let [least, more] = self.residence;
        let left = arrived + least + self.random.exponential(more);
        let back = self.back.pass(packet, left)?;
        let received = self.host.receive(number, false, back);
        let instant = |t: f64| Instant::new(BEGIN, 0) + span(t);
        let server_received = self.stamping.stamp(instant(arrived), &mut self.random);
        let server_sent = self.stamping.stamp(instant(left), &mut self.random);
        let stamped = Stamped {
            sent: sent.stamp.count,
            server_received,
            server_sent: server_sent.max(server_received),
            received: received.stamp.count,
            reference: Some(Reference {
                sent: instant(sent.stamped),
                received: instant(received.stamped),
            }),
        };
        let delays = [arrived - sent.stamped, received.stamped - left];
        let course = Course { packet, wire: sent.wire, arrived, left };
        Some((Passed { stamped, at: received.stamped, delays }, course, received.stamp.error))
    }

    /// Laws of the exchange that took this course.
    fn tell(&mut self, course: &Course, all: bool) -> Foretold {
        let Course { packet, wire, arrived, left } = *course;
        let stamps = self.host.stamp_spec();
        let noise = Piece::Normal(stamps.noise_ns * 1e-9);
        let mut there = Told { all, ..Told::default() };
        there.add(0.0, [Piece::Exponential(stamps.send_us * 1e-6), noise]);
        self.there.tell(Packet { begun: f64::INFINITY, ..packet }, wire, &mut there);
        let mut back = Told { all, ..Told::default() };
        self.back.tell(packet, left, &mut back);
        back.add(0.0, [Piece::Exponential(stamps.receive_us * 1e-6), noise]);
        let cell = |t: f64| {
            let (from, to) = self.stamping.cell(Instant::new(BEGIN, 0) + span(t));
            let since = |at: Instant| seconds(at - Instant::new(BEGIN, 0));
            (since(from), since(to))
        };
        Foretold {
            ways: [there, back],
            cells: [cell(arrived), cell(left)],
            residence: left - arrived,
        }
    }
}

/// Seconds between this request and the next one.
fn interval(number: u64, poll: u32) -> u32 {
    let interval = match first_interval(number) {
        Ok(interval) => interval,
        Err(left) => {
            let doublings = u32::try_from(left / AT_EACH).unwrap_or(u32::MAX);
            1_u32.checked_shl(doublings).map_or(u32::MAX, |times| DOUBLED.saturating_mul(times))
        }
    };
    interval.min(poll)
}
