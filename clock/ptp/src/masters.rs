//! Foreign masters: who announces itself, who of them is qualified, and which is the best (9.3.2).

use core::cmp::Ordering;
use core::net::IpAddr;

use truechimer_time::{Count, Period, Span};

use crate::slave::unicast::Unicast;
use crate::{Announce, DataSet, Flags, PortIdentity};

/// Masters remembered at once; the standard asks for five (9.3.2.4.5).
pub const MASTERS: usize = 8;
/// Intervals within which a second announcement qualifies a foreign master: two are
/// FOREIGN_MASTER_THRESHOLD, four intervals FOREIGN_MASTER_TIME_WINDOW (9.3.2.4.4).
const WINDOW: i64 = 4;
/// Intervals after which one that announced itself once has to give way to another.
const OVERDUE: i64 = 2;
/// Intervals without an announcement after which a master is lost (announceReceiptTimeout, 7.7.3.1).
const RECEIPT_TIMEOUT: i64 = 3;
/// Masters further removed than this are none (9.3.2.5 d).
const MAX_STEPS: u16 = 254;
/// Exponents of announced intervals that are taken as they are: 1/8 s to 64 s. Others are brought
/// into that range, so that nobody is remembered for years.
const INTERVALS: (i8, i8) = (-3, 6);

/// First and longest time for which a master is passed over that gives nothing to tell the time by, s; it
/// doubles in between.
const PASSED_OVER: (i64, i64) = (300, 4800);

/// Time for which a master is passed over, as it announces itself and gives nothing to tell the time by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PassedOver {
    until: Option<Count>,
    /// Length of the next such time, s.
    next: i64,
}

impl PassedOver {
    /// Not passed over, nor was it before.
    pub(crate) const NEVER: PassedOver = PassedOver { until: None, next: PASSED_OVER.0 };

    /// True if it is passed over at `at`.
    pub(crate) fn is(&self, at: Count) -> bool {
        self.until.is_some_and(|until| !at.at_or_after(until))
    }

    /// A master that gives no time is passed over. Where all are passed over the best of them is asked on, and that is no new fault
    /// of its.
    pub(crate) fn pass(&mut self, at: Count, nominal: Period) {
        if !self.is(at) {
            self.until = Some(at + nominal.counts(Span::from_secs(self.next)));
            self.next = (self.next * 2).min(PASSED_OVER.1);
        }
    }

    /// The counter broke: nobody knows how long it was.
    pub(crate) fn new_epoch(&mut self) {
        self.until = None;
    }
}

/// A master: its port, where it sends from, and what it says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Master {
    /// Port of the master.
    pub port: PortIdentity,
    /// The address that its messages come from.
    pub from: IpAddr,
    /// The newest description of itself.
    pub announce: Announce,
    /// Flags of that.
    pub flags: Flags,
    /// Minor version of PTP that it speaks.
    pub minor_version: u8,
}

/// A master, and what decides whether it is qualified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Foreign {
    master: Master,
    sequence: u16,
    interval: Span,
    /// When its newest announcement came.
    newest: Count,
    /// Enough announcements came, and it was not lost since.
    qualified: bool,
    /// Never used of those that are asked by address: these are passed over by that.
    passed_over: PassedOver,
}

/// Reason for which an announcement had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ignored {
    /// Boundary clock too far away.
    TooFar,
    /// A copy of the one before.
    Copy,
    /// The port sends from another address than before.
    WrongAddress,
    /// Too many masters announce themselves.
    NoRoom,
}

/// All foreign masters of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Masters {
    own: PortIdentity,
    nominal: Period,
    list: [Option<Foreign>; MASTERS],
}

impl Masters {
    pub(crate) const fn new(own: PortIdentity, nominal: Period) -> Masters {
        Masters { own, nominal, list: [None; MASTERS] }
    }

    /// An announcement came at `at`. `parent`: the port that is followed; `asked`: those that are asked by
    /// address.
    pub(crate) fn heard(
        &mut self,
        master: Master,
        (sequence, interval): (u16, Option<Span>),
        (parent, asked): (Option<PortIdentity>, Option<&Unicast>),
        at: Count,
    ) -> Result<(), Ignored> {
        if master.announce.steps_removed > MAX_STEPS {
            return Err(Ignored::TooFar);
        }
        let interval = interval.unwrap_or(Span::from_secs(1));
        let nominal = self.nominal;
        let known = self.list.iter_mut().flatten().find(|f| f.master.port == master.port);
        if let Some(foreign) = known {
            if foreign.master.from != master.from {
                return Err(Ignored::WrongAddress);
            }
            if foreign.sequence == sequence {
                return Err(Ignored::Copy);
            }
            let (newest, window) = (foreign.newest, nominal.counts(interval * WINDOW));
            let qualified = foreign.qualified || (at - newest).0 <= window.0;
            *foreign = Foreign { master, sequence, interval, newest: at, qualified, ..*foreign };
            return Ok(());
        }
        let passed_over = PassedOver::NEVER;
        let new = Foreign { master, sequence, interval, newest: at, qualified: false, passed_over };
        let place = self.place(&new, parent, asked, at);
        let place = place.and_then(|place| self.list.get_mut(place)).ok_or(Ignored::NoRoom)?;
        *place = Some(new);
        Ok(())
    }

    /// Room for another: an empty place; or that of one which is not qualified, and is worse or has not been
    /// heard of again when it should have been; or, if all are qualified, that of the worst, if the new one is better
    /// (9.3.2.4.5 leaves open whom to forget). The parent keeps its place. So names that are made up cost one
    /// alternate at the most, and names that announce themselves for good keep out no better master.
    fn place(
        &self,
        new: &Foreign,
        parent: Option<PortIdentity>,
        asked: Option<&Unicast>,
        at: Count,
    ) -> Option<usize> {
        let all =
            || self.list.iter().enumerate().filter_map(|(n, foreign)| Some((n, foreign.as_ref()?)));
        let worst = |qualified: bool| {
            let others = all().filter(|(_, foreign)| {
                foreign.qualified == qualified && Some(foreign.master.port) != parent
            });
            let (n, worst) = others.max_by(|(_, a), (_, b)| self.order(a, b, asked, at))?;
            self.order(new, worst, asked, at).is_lt().then_some(n)
        };
        let overdue = |foreign: &Foreign| {
            at.at_or_after(foreign.newest + self.nominal.counts(foreign.interval * OVERDUE))
        };
        let stale = || {
            let stale = all().filter(|(_, foreign)| !foreign.qualified && overdue(foreign));
            stale.min_by_key(|(_, foreign)| (foreign.newest - at).0).map(|(n, _)| n)
        };
        let empty = self.list.iter().position(Option::is_none);
        let all_qualified = all().all(|(_, foreign)| foreign.qualified);
        let gives_way =
            || worst(false).or_else(stale).or_else(|| worst(true).filter(|_| all_qualified));
        empty.or_else(gives_way)
    }

    /// Forgets those that were not heard of for too long; whether there was one.
    pub(crate) fn expire(&mut self, at: Count) -> bool {
        let nominal = self.nominal;
        let mut expired = false;
        for place in &mut self.list {
            if place.is_some_and(|foreign| at.at_or_after(foreign.lost_at(nominal))) {
                (*place, expired) = (None, true);
            }
        }
        expired
    }

    /// When the next of them is lost if it stays silent.
    pub(crate) fn deadline(&self, at: Count) -> Option<Count> {
        let due = |foreign: &Foreign| foreign.lost_at(self.nominal);
        self.list.iter().flatten().map(due).min_by_key(|due| (*due - at).0)
    }

    /// The best of those that are qualified (9.3.2.2, 9.3.4); of those that are asked by address and equally
    /// good the first, as the alternate algorithm of ITU-T G.8275.2 has it (6.7) with local priorities in
    /// that order. One that is passed over at `at` comes behind all others.
    pub(crate) fn best(&self, asked: Option<&Unicast>, at: Count) -> Option<Master> {
        let qualified = self.list.iter().flatten().filter(|foreign| foreign.qualified);
        qualified.min_by(|a, b| self.order(a, b, asked, at)).map(|foreign| foreign.master)
    }

    /// Order of two masters, the better first, as of [`best`](Masters::best).
    fn order(&self, a: &Foreign, b: &Foreign, asked: Option<&Unicast>, at: Count) -> Ordering {
        let set = |foreign: &Foreign| DataSet {
            announce: foreign.master.announce,
            sender: foreign.master.port,
            receiver: self.own,
        };
        let passed = |foreign: &Foreign| match asked {
            Some(asked) => asked.is_passed_over(foreign.master.from, at),
            None => foreign.passed_over.is(at),
        };
        let order = passed(a).cmp(&passed(b));
        order.then_with(|| match asked {
            Some(asked) => {
                let place = |foreign: &Foreign| asked.place(foreign.master.from);
                set(a).compare_quality(&set(b)).then(place(a).cmp(&place(b)))
            }
            // One master seen twice cannot be, as ports are told apart.
            None => set(a).compare(&set(b)).then_with(|| a.master.port.cmp(&b.master.port)),
        })
    }

    /// A master that announces itself to all gives nothing to tell the time by.
    pub(crate) fn pass_over(&mut self, master: &Master, at: Count) {
        let nominal = self.nominal;
        if let Some(foreign) = self.foreign(master) {
            foreign.passed_over.pass(at, nominal);
        }
    }

    /// A master gives all that it takes to tell the time.
    pub(crate) fn serves(&mut self, master: &Master) {
        if let Some(foreign) = self.foreign(master) {
            foreign.passed_over = PassedOver::NEVER;
        }
    }

    fn foreign(&mut self, of: &Master) -> Option<&mut Foreign> {
        let is = |foreign: &&mut Foreign| {
            (foreign.master.port, foreign.master.from) == (of.port, of.from)
        };
        self.list.iter_mut().flatten().find(is)
    }

    /// The qualified master of that name and address.
    pub(crate) fn by_name(&self, port: PortIdentity, from: IpAddr) -> Option<Master> {
        let of = |master: &Master| (master.port, master.from) == (port, from);
        self.iter().find(|(master, qualified)| *qualified && of(master)).map(|(master, _)| *master)
    }

    /// All that are remembered, and whether each is qualified.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Master, bool)> {
        self.list.iter().flatten().map(|foreign| (&foreign.master, foreign.qualified))
    }

    /// The counter broke: all are taken to have been heard of at `at`.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        for foreign in self.list.iter_mut().flatten() {
            foreign.newest = at;
            foreign.passed_over.new_epoch();
        }
    }
}

impl Foreign {
    fn lost_at(&self, nominal: Period) -> Count {
        self.newest + nominal.counts(self.interval * RECEIPT_TIMEOUT)
    }
}

/// The announced interval, brought into the range that is taken.
pub(crate) fn announced(interval: crate::LogInterval) -> Option<Span> {
    interval.within(INTERVALS.0, INTERVALS.1)
}
