//! Network cards that stamp packets by clocks of their own.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use truechimer_counter::Counter;
use truechimer_engine::{Level, Transport};
use truechimer_stamp::card::{Arrivals, Cure, Stamping, Unable, Wish};
use truechimer_stamp::interface::{self, Asker};
use truechimer_stamp::phc::{DeviceClock, DevicePair};
use truechimer_stamp::{CardLog, NoStamp, Window, Wire};
use truechimer_time::{Count, CountSpan, Period, Span, Stamp, StampMethod};

use crate::config::HardwareStamps;

/// Bound of the error beyond which a card's stamp is worth no more than the kernel's: what lies between the two is
/// as a rule less, an interrupt and a few hundred instructions.
const WORST: Span = Span::from_micros(10);
/// Steps in which cards count when they stamp: 8 ns (Intel's), up to 40 ns (a clock of 25 MHz).
const STEP: Span = Span::from_nanos(40);
/// The longest that a message of PTP may take from its card's stamp to the kernel's: interrupts wait for each other for less
/// than a millisecond.
const IN_CARD: Span = Span::from_millis(10);
/// Number of exchanges of NTP, or messages of PTP, in a row without the stamps that should have come that is worth a word.
const SILENT: u32 = 4;
/// Interval between questions what interfaces are called, and how fast their links are.
const RENEWAL: Span = Span::from_secs(16);
/// Number of readings of a clock in a row that may fail: drivers do so for once while they reset a card.
const FAILED: u32 = 4;
/// Interval between attempts to read a clock that fails: a reset takes seconds.
const REST: Span = Span::from_secs(60);
/// Bytes of a frame's check sequence, which the kernel does not count.
const CHECK_SEQUENCE: u64 = 4;

/// Stamps of a card in one direction, one number for each fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Taken.
    pub hardware: u64,
    /// Missing: the kernel's was used.
    pub missing: u64,
    /// The card's clock was stepped about then: the kernel's was used.
    pub stepped: u64,
    /// Contradictory to the order of events, or known no better than to 10 µs: the kernel's was used.
    pub unfit: u64,
}

impl Tally {
    /// Each number with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 4] {
        let Tally { hardware, missing, stepped, unfit } = *self;
        [("hardware", hardware), ("missing", missing), ("stepped", stepped), ("unfit", unfit)]
    }
}

/// A card that stamps, and how often it did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CardReport {
    /// Name of its network interface.
    pub interface: String,
    /// Device of its clock.
    pub clock: PathBuf,
    /// Comparison of that with the counter, for people.
    pub way: String,
    /// Requests of NTP, questions of PTP.
    pub sent: Tally,
    /// Replies, and event messages of PTP.
    pub received: Tally,
}

/// All cards whose stamps are used.
#[derive(Debug)]
pub(crate) struct Cards {
    counter: Counter,
    nominal: Period,
    cards: Vec<Card>,
    notes: Vec<(Level, String)>,
    /// Count at which names and links were asked for last.
    renewed: Count,
    /// Number of exchanges in a row whose request nobody stamped.
    unstamped: u32,
}

/// Cards whose clocks are to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of<'a> {
    /// All: a packet is to leave, and nobody knows by which.
    Any,
    /// That of the interface of this name: a packet is to leave by it.
    Name(&'a str),
    /// That of the interface of this number.
    Number(u32),
    /// Those that have stamped one of these packets.
    Stamped(&'a [Wire]),
}

impl Of<'_> {
    fn has(self, card: &Card) -> bool {
        match self {
            Of::Any => true,
            Of::Name(name) => card.report.interface == name,
            Of::Number(number) => card.index == number,
            Of::Stamped(wires) => wires
                .iter()
                .any(|wire| wire.card_ns.is_some() && wire.interface == Some(card.index)),
        }
    }
}

/// State of a card's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clock {
    /// In use; so many readings in a row have failed.
    Read(u32),
    /// Failing, and last tried at this count.
    Resting(Count),
    /// Lost: there is no such device any more.
    Gone,
}

/// Reading of a card's clock.
type Read = Box<dyn FnMut() -> io::Result<DevicePair> + Send>;

struct Card {
    report: CardReport,
    /// Number of the interface.
    index: u32,
    /// Puts the card's setting back when it is dropped.
    stamping: Option<Stamping>,
    /// Stamps that it is to give of what arrives.
    arrivals: Arrivals,
    read: Read,
    clock: Clock,
    log: CardLog,
    link: Link,
    /// Number of exchanges in a row that lacked a stamp.
    silent: [u32; 2],
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Card").field("report", &self.report).finish_non_exhaustive()
    }
}

/// Speed of a link, in bytes a second; `None` if nobody says.
#[derive(Clone, Copy, Debug)]
struct Link(Option<u64>);

/// Packet that a stamp is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packet {
    /// One that leaves.
    Sent,
    /// Reply of NTP.
    Reply,
    /// Event message of PTP that arrives.
    Message,
}

impl Cards {
    /// Has the cards stamp that are wanted, and opens their clocks; on these interfaces there is PTP, by that transport. What
    /// cannot be had is told by [`Cards::notes`].
    pub(crate) fn open(
        wanted: &HardwareStamps,
        ptp: &[(&str, Transport)],
        counter: Counter,
        nominal: Period,
        resolution: CountSpan,
    ) -> Cards {
        let (all, notes) = (Vec::new(), Vec::new());
        let renewed = counter.read();
        let mut cards = Cards { counter, nominal, cards: all, notes, renewed, unstamped: 0 };
        let names = match wanted {
            HardwareStamps::None => return cards,
            HardwareStamps::Auto => interfaces(),
            HardwareStamps::Of(names) => names.clone(),
        };
        if only_stamps_may_be_told() {
            let text = "no hardware stamps: the kernel would not tell which packet each is of: \
                        'sysctl net.core.tstamp_allow_data=1', and restart";
            cards.notes.push((Level::Warning, text.to_owned()));
            return cards;
        }
        for name in names {
            match Card::open((&name, wish(&name, ptp)), counter, nominal, resolution) {
                Ok(card) => {
                    cards.notes.push((Level::Info, card.introduction()));
                    cards.cards.push(card);
                }
                // Of all that there are most cannot.
                Err(Unopened { can: false, .. }) if *wanted == HardwareStamps::Auto => {}
                Err(Unopened { why, .. }) => {
                    let text = format!("{name}: no hardware stamps: {why}");
                    cards.notes.push((Level::Warning, text));
                }
            }
        }
        if cards.cards.is_empty() && cards.notes.is_empty() {
            let text = "no hardware stamps: no network interface has a card that can";
            cards.notes.push((Level::Info, text.to_owned()));
        }
        cards
    }

    /// Says whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// Says whether sockets of NTP had better ask for stamps of cards.
    pub(crate) fn are_asked(&self) -> bool {
        !self.is_empty() && self.unstamped < SILENT
    }

    /// Says whether a card's setting is to be put back at the end, which takes a right.
    pub(crate) fn restores(&self) -> bool {
        self.cards.iter().any(|card| card.stamping.as_ref().is_some_and(Stamping::is_ours))
    }

    /// News for the log.
    pub(crate) fn notes(&mut self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.notes)
    }

    /// All cards and what became of their stamps.
    pub(crate) fn reports(&self) -> Vec<CardReport> {
        self.cards.iter().map(|card| card.report.clone()).collect()
    }

    /// Forgets how counts and the cards' clocks went together: the counter lost its continuity.
    pub(crate) fn forget(&mut self) {
        self.cards.iter_mut().for_each(|card| card.log.clear());
    }

    /// Reads the clocks of cards beside the counter: stamps between this and the next time can be told.
    pub(crate) fn look(&mut self, of: Of<'_>) {
        for card in self.cards.iter_mut().filter(|card| of.has(card)) {
            self.notes.extend(card.look(self.counter, self.nominal));
        }
    }

    /// Asks for names of interfaces and speeds of links again, if that was long ago. The kernel's lock that this takes is also held
    /// while any interface is changed: no moment to be so held up is while packets are stamped.
    pub(crate) fn renew(&mut self, now: Count) {
        if self.is_empty() || now - self.renewed < self.nominal.counts(RENEWAL) {
            return;
        }
        self.renewed = now;
        let Ok(asker) = Asker::new() else { return };
        for card in &mut self.cards {
            if let Ok(name) = interface::name(asker.as_fd(), card.index) {
                card.link = Link(speed(&name));
                card.report.interface = name;
            }
        }
    }

    /// The stamps of an exchange, which the kernel has as `sent` and `received`: the cards' where they gave some that are
    /// sound.
    pub(crate) fn exchange(
        &mut self,
        wires: [Wire; 2],
        sent: Stamp,
        received: Stamp,
    ) -> [Stamp; 2] {
        if self.is_empty() {
            return [sent, received];
        }
        self.look(Of::Stamped(&wires));
        self.miss(wires[0], sent);
        let nominal = self.nominal;
        let window =
            Window { earliest: sent.count - sent.error, latest: received.count + received.error };
        let mut better = |wire: Wire, kernel: Stamp, packet| -> (Stamp, Option<bool>) {
            let mut cards = self.cards.iter_mut();
            let Some(card) = cards.find(|card| wire.interface == Some(card.index)) else {
                return (kernel, None);
            };
            card.choose(wire, kernel, window, (packet, nominal))
        };
        let (sent, left) = better(wires[0], sent, Packet::Sent);
        let (received, came) = better(wires[1], received, Packet::Reply);
        let fates = [(wires[0].interface, left), (wires[1].interface, came)];
        for card in &mut self.cards {
            let own = fates.iter().filter(|(index, _)| *index == Some(card.index));
            let good = own.filter_map(|(_, good)| *good).reduce(|one, other| one && other);
            self.notes.extend(good.and_then(|good| card.judge(0, good)));
        }
        [sent, received]
    }

    /// Takes note of whether anybody stamped a request. Where the kernel does not tell of stamps together with their packets, as
    /// is asked for the sake of cards, there is none at all: a namespace that is not the first does not show that
    /// (`net.core.tstamp_allow_data`).
    fn miss(&mut self, wire: Wire, sent: Stamp) {
        if !self.are_asked() {
            return;
        }
        let stamped = wire.card_ns.is_some() || sent.method != StampMethod::User;
        self.unstamped = if stamped { 0 } else { self.unstamped + 1 };
        if self.unstamped == SILENT {
            let text = format!(
                "no hardware stamps for NTP any more: {SILENT} requests in a row were not stamped at all, as where \
                 net.core.tstamp_allow_data is 0; cards are not asked until the daemon is restarted"
            );
            self.notes.push((Level::Warning, text));
        }
    }

    /// Says whether there is a card on this interface that stamps.
    pub(crate) fn has(&self, interface: Option<u32>) -> bool {
        self.cards.iter().any(|card| interface == Some(card.index) && card.is_read())
    }

    /// Says whether there is a card on this interface, that stamps now or may do so again.
    pub(crate) fn may_have(&self, interface: Option<u32>) -> bool {
        let is = |card: &&Card| interface == Some(card.index);
        self.cards.iter().find(is).is_some_and(|card| card.clock != Clock::Gone)
    }

    /// Those that a packet may leave by that goes to this interface: below a VLAN is a card that no name tells.
    pub(crate) fn below<'n>(&self, interface: Option<&'n str>) -> Of<'n> {
        let is = |name: &&str| self.cards.iter().any(|card| card.report.interface == *name);
        interface.filter(is).map_or(Of::Any, Of::Name)
    }

    /// Departure of a message of PTP, which the kernel has as `sent`.
    pub(crate) fn departure(&mut self, wire: Wire, sent: Stamp) -> Stamp {
        let latest = self.counter.fenced().read();
        self.look(Of::Stamped(&[wire]));
        let window = Window { earliest: sent.count - sent.error, latest };
        self.message(wire, sent, window, Packet::Sent)
    }

    /// Arrival of an event message of PTP, which the kernel has as `received`; the card's clock has been read since. Nothing is added for its length: IEEE 1588
    /// means the beginning of a frame (7.3.4.1).
    pub(crate) fn arrival(&mut self, wire: Wire, received: Stamp) -> Stamp {
        let earliest = received.count - received.error - self.nominal.counts(IN_CARD);
        let window = Window { earliest, latest: received.count + received.error };
        self.message(wire, received, window, Packet::Message)
    }

    fn message(&mut self, wire: Wire, kernel: Stamp, window: Window, packet: Packet) -> Stamp {
        if !self.has(wire.interface) {
            return kernel;
        }
        let nominal = self.nominal;
        let mut cards = self.cards.iter_mut();
        let Some(card) = cards.find(|card| wire.interface == Some(card.index)) else {
            return kernel;
        };
        let (stamp, good) = card.choose(wire, kernel, window, (packet, nominal));
        self.notes
            .extend(good.and_then(|good| card.judge(usize::from(packet == Packet::Message), good)));
        stamp
    }
}

/// Reason for which a card is not used; whether it can stamp at all.
struct Unopened {
    can: bool,
    why: String,
}

impl Card {
    fn open(
        (name, wish): (&str, Wish),
        counter: Counter,
        nominal: Period,
        resolution: CountSpan,
    ) -> Result<Card, Unopened> {
        let told = |why: io::Error| Unopened { can: true, why: why.to_string() };
        let index = Asker::new().and_then(|asker| interface::index(asker.as_fd(), name));
        let index = index.map_err(|why| match why.raw_os_error() {
            Some(libc::ENODEV) => {
                Unopened { can: true, why: "there is no such interface (see 'ip link')".into() }
            }
            _ => told(why),
        })?;
        if let Some(lower) = lower(Path::new("/sys/class/net"), name) {
            let why = format!("it is none of a card: name the card's own interface, {lower}");
            return Err(Unopened { can: false, why });
        }
        let stamping = Stamping::enable(name, wish).map_err(|unable| {
            let Unable { why, cure } = unable;
            match cure {
                Some(Cure::Rights) => Unopened {
                    can: true,
                    why: format!(
                        "{why}: give the unit truechimer-hardware-stamps.conf as a drop-in, or set the card before, by \
                         'hwstamp_ctl -i {name} -t 1 -r 1'"
                    ),
                },
                Some(Cure::Kernel) => Unopened { can: false, why: format!("{why} (see 'ethtool -T {name}')") },
                None => Unopened { can: true, why },
            }
        })?;
        let path = PathBuf::from(format!("/dev/ptp{}", stamping.clock()));
        let clock = DeviceClock::open(&path, counter, nominal, resolution);
        let mut clock = clock.map_err(|why| Unopened {
            can: true,
            why: format!("{}: {why}{}", path.display(), closed(&why)),
        })?;
        let report = CardReport {
            interface: name.to_owned(),
            clock: path,
            way: clock.way().to_owned(),
            ..CardReport::default()
        };
        Ok(Card {
            report,
            index,
            arrivals: stamping.arrivals(),
            stamping: Some(stamping),
            read: Box::new(move || clock.pair()),
            clock: Clock::Read(0),
            log: CardLog::new(nominal, resolution),
            link: Link(speed(name)),
            silent: [0; 2],
        })
    }

    fn introduction(&self) -> String {
        let CardReport { interface, clock, way, .. } = &self.report;
        let what = match self.arrivals {
            Arrivals { ntp: true, ptp: true } => "packets are",
            Arrivals { ntp: true, ptp: false } => "packets, but no arrivals of PTP, are",
            Arrivals { ntp: false, ptp: true } => "packets, but no arrivals of NTP, are",
            Arrivals { ntp: false, ptp: false } => "packets that leave, and no arrivals, are",
        };
        format!(
            "{interface}: {what} stamped by the card, whose clock {} is read {way}",
            clock.display()
        )
    }

    fn is_read(&self) -> bool {
        matches!(self.clock, Clock::Read(_))
    }

    /// Reads the clock, unless it is not the time for that; has a word to say when that fails for good, or no more.
    fn look(&mut self, counter: Counter, nominal: Period) -> Option<(Level, String)> {
        let now = counter.read();
        match self.clock {
            Clock::Gone => return None,
            Clock::Resting(since) if now - since < nominal.counts(REST) => return None,
            Clock::Resting(_) | Clock::Read(_) => {}
        }
        let before = self.clock;
        let answer = (self.read)();
        self.clock = match (&answer, before) {
            (Ok(_), _) => Clock::Read(0),
            (Err(why), _) if why.raw_os_error() == Some(libc::ENODEV) => Clock::Gone,
            (Err(_), Clock::Read(failed)) if failed + 1 < FAILED => Clock::Read(failed + 1),
            (Err(_), _) => Clock::Resting(now),
        };
        let CardReport { interface, clock, .. } = &self.report;
        let clock = clock.display();
        match (answer, self.clock) {
            (Ok(pair), _) => {
                self.log.push(pair);
                let again =
                    format!("{interface}: {clock} can be read again: hardware stamps are used");
                (!matches!(before, Clock::Read(_))).then_some((Level::Info, again))
            }
            (Err(why), Clock::Gone) => Some((
                Level::Warning,
                format!(
                    "{interface}: no hardware stamps any more: {clock}: {why}; the kernel's are used until the daemon is \
                     restarted"
                ),
            )),
            (Err(why), Clock::Resting(_)) if matches!(before, Clock::Read(_)) => Some((
                Level::Warning,
                format!(
                    "{interface}: no hardware stamps: {clock} cannot be read, {FAILED} times in a row: {why}; the kernel's are \
                     used, and it is tried again every minute"
                ),
            )),
            (Err(_), _) => None,
        }
    }

    /// The card's stamp, if it gave one that is sound, else the kernel's; and whether all that was to be
    /// hoped for came, if that says anything of the card.
    fn choose(
        &mut self,
        wire: Wire,
        kernel: Stamp,
        window: Window,
        (packet, nominal): (Packet, Period),
    ) -> (Stamp, Option<bool>) {
        let (tally, hoped) = match packet {
            Packet::Sent => (&mut self.report.sent, true),
            Packet::Reply => (&mut self.report.received, self.arrivals.ntp),
            Packet::Message => (&mut self.report.received, self.arrivals.ptp),
        };
        let Some(device_ns) = wire.card_ns else {
            tally.missing += 1;
            return (kernel, hoped.then_some(false));
        };
        let step = nominal.counts(STEP);
        match self.log.place(device_ns, window) {
            Ok(stamp) if stamp.error + step <= nominal.counts(WORST) => {
                tally.hardware += 1;
                // Cards stamp the beginning of a frame. In NTP a packet has arrived when all of it has: so
                // servers have it that stamp by software, and as they do with cards' stamps, too.
                let frame = wire.frame.filter(|_| packet == Packet::Reply).unwrap_or(0);
                let count = stamp.count + nominal.counts(self.link.takes(frame));
                (Stamp { count, error: stamp.error + step, ..stamp }, Some(true))
            }
            Err(NoStamp::Stepped) => {
                tally.stepped += 1;
                (kernel, Some(false))
            }
            // In the first seconds, when the card's rate is not known, long stretches are of no use.
            Ok(_) if !self.log.has_rate() => {
                tally.unfit += 1;
                (kernel, None)
            }
            _ => {
                tally.unfit += 1;
                (kernel, Some(false))
            }
        }
    }

    /// Takes note of whether an exchange or a message that left (0), or one that came (1), had its stamps, and has a word to say when that changes.
    fn judge(&mut self, which: usize, good: bool) -> Option<(Level, String)> {
        let silent = self.silent.get_mut(which)?;
        let before = *silent;
        *silent = if good { 0 } else { before.saturating_add(1) };
        let now = *silent;
        let name = &self.report.interface;
        if good && before >= SILENT {
            return Some((Level::Info, format!("{name}: the card stamps packets again")));
        }
        (now == SILENT && self.is_read()).then(|| {
            let text = format!(
                "{name}: no sound stamp of the card {SILENT} times in a row: the kernel's are used \
                 ('truechimer status --json' says why, 'hwstamp_ctl -i {name}' what the card is set to)"
            );
            (Level::Warning, text)
        })
    }
}

impl Link {
    /// Time that a frame of so many bytes takes; zero where that is not known.
    fn takes(self, frame: u32) -> Span {
        let (Some(speed), 1..) = (self.0, frame) else { return Span::ZERO };
        let ns = (u64::from(frame) + CHECK_SEQUENCE) * 1_000_000_000 / speed;
        Span::from_nanos(i64::try_from(ns).unwrap_or(0))
    }
}

/// Packets that the card of this interface is to stamp, with PTP on these.
fn wish(name: &str, ptp: &[(&str, Transport)]) -> Wish {
    let own = || ptp.iter().filter(|(interface, _)| *interface == name);
    let ethernet = own().any(|(_, transport)| *transport == Transport::Ethernet);
    let udp = own().any(|(_, transport)| *transport != Transport::Ethernet);
    match (udp, ethernet) {
        (false, false) => Wish::Ntp,
        (true, true) => Wish::Ptp,
        (true, false) => Wish::PtpUdp,
        (false, true) => Wish::PtpEthernet,
    }
}

/// An interface below this one, a VLAN, bridge or bond, in this directory of interfaces. Such may answer as the one below
/// does, while the kernel says of each stamp that it is of that.
fn lower(interfaces: &Path, name: &str) -> Option<String> {
    let entries = std::fs::read_dir(interfaces.join(name)).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_prefix("lower_")?.to_owned())).min()
}

/// Speed of an interface's link in bytes a second, if its driver says.
fn speed(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(Path::new("/sys/class/net").join(name).join("speed"));
    parse_speed(&text.ok()?)
}

/// A number of 10⁶ bits a second, from 1 on: drivers say −1 where they do not know.
fn parse_speed(text: &str) -> Option<u64> {
    let megabits = text.trim().parse::<u32>().ok().filter(|megabits| *megabits > 0)?;
    Some(u64::from(megabits) * 125_000)
}

/// The names of all interfaces, in order.
fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Says whether the kernel tells of stamps only without the packet, and so without its interface. (Who has CAP_NET_RAW is told
/// all the same; this is as good as never set.)
fn only_stamps_may_be_told() -> bool {
    std::fs::read_to_string("/proc/sys/net/core/tstamp_allow_data")
        .is_ok_and(|text| text.trim() == "0")
}

/// Remedy for a clock that may not be read.
fn closed(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            ": the unit needs truechimer-hardware-stamps.conf as a drop-in, and its user to be allowed to read the device"
        }
        _ => "",
    }
}

#[cfg(test)]
pub(crate) mod tests;
