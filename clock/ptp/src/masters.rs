//! Foreign masters: who announces itself, who of them is qualified, and which is the best (9.3.2).

use core::net::IpAddr;

use truechimer_time::{Count, Period, Span};

use crate::slave::unicast::Unicast;
use crate::{Announce, DataSet, Flags, PortIdentity};

/// Masters remembered at once; the standard asks for five (9.3.2.4.5).
pub const MASTERS: usize = 8;
/// Intervals within which a second announcement qualifies a foreign master: two are
/// FOREIGN_MASTER_THRESHOLD, four intervals FOREIGN_MASTER_TIME_WINDOW (9.3.2.4.4).
const WINDOW: i64 = 4;
/// Intervals without an announcement after which a master is lost (announceReceiptTimeout, 7.7.3.1).
const RECEIPT_TIMEOUT: i64 = 3;
/// Masters further removed than this are none (9.3.2.5 d).
const MAX_STEPS: u16 = 254;
/// Exponents of announced intervals that are taken as they are: 1/8 s to 64 s. Others are brought
/// into that range, so that nobody is remembered for years.
const INTERVALS: (i8, i8) = (-3, 6);

/// A master: its port, where it sends from, and what it says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Master {
    /// Its port.
    pub port: PortIdentity,
    /// The address that its messages come from.
    pub from: IpAddr,
    /// Its newest description.
    pub announce: Announce,
    /// Flags of that.
    pub flags: Flags,
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

    /// An announcement came.
    pub(crate) fn heard(
        &mut self,
        master: Master,
        sequence: u16,
        interval: Option<Span>,
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
            *foreign = Foreign { master, sequence, interval, newest: at, qualified };
            return Ok(());
        }
        let place = self.place(at).ok_or(Ignored::NoRoom)?;
        *place = Some(Foreign { master, sequence, interval, newest: at, qualified: false });
        Ok(())
    }

    /// Room for another: an empty place, or that of one which is not qualified and was heard of the
    /// longest ago. Nobody who made up names takes the place of a qualified master.
    fn place(&mut self, at: Count) -> Option<&mut Option<Foreign>> {
        let rank = |place: &Option<Foreign>| match place {
            None => Some(i64::MIN),
            Some(foreign) if !foreign.qualified => Some((foreign.newest - at).0),
            Some(_) => None,
        };
        self.list
            .iter_mut()
            .filter_map(|place| Some((rank(place)?, place)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, place)| place)
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
        let set = |foreign: &&Foreign| DataSet {
            announce: foreign.master.announce,
            sender: foreign.master.port,
            receiver: self.own,
        };
        let better = |a: &&Foreign, b: &&Foreign| match asked {
            Some(asked) => {
                let place = |foreign: &&Foreign| asked.place(foreign.master.from);
                let passed = |foreign: &&Foreign| asked.is_passed_over(foreign.master.from, at);
                let quality = passed(a).cmp(&passed(b)).then(set(a).compare_quality(&set(b)));
                quality.then(place(a).cmp(&place(b)))
            }
            // One master seen twice cannot be, as ports are told apart.
            None => set(a).compare(&set(b)).then_with(|| a.master.port.cmp(&b.master.port)),
        };
        let qualified = self.list.iter().flatten().filter(|foreign| foreign.qualified);
        qualified.min_by(better).map(|foreign| foreign.master)
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
