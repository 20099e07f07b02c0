//! Having a card stamp packets, and leaving it as it was.

use std::fmt;
use std::io;

use crate::interface::{Abilities, Asker, Setting};

/// `HWTSTAMP_FILTER_ALL`: stamps for all packets that are received.
const ALL: i32 = 1;
/// `HWTSTAMP_FILTER_NTP_ALL`: for those of NTP.
const NTP: i32 = 15;
/// `HWTSTAMP_FILTER_PTP_V2_EVENT`: for event messages of PTP, by UDP and by Ethernet.
const PTP: i32 = 12;
/// `HWTSTAMP_TX_ON`: for packets whose sender asks. Higher numbers do that as well, and more.
const SENT: i32 = 1;

/// Stamps that an interface's driver claims to take (ETHTOOL_GET_TS_INFO).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Claims {
    /// The kernel's, of what arrives.
    pub kernel: bool,
    /// The driver's, of what is sent.
    pub driver: bool,
    /// The card's, of all that arrives.
    pub card_in_all: bool,
    /// The card's, of PTP that arrives, or more.
    pub card_in: bool,
    /// The card's, of what is sent.
    pub card_out: bool,
    /// Number of the card's clock, `/dev/ptpN`.
    pub clock: Option<u32>,
}

/// Asks an interface's driver.
///
/// # Errors
/// If there is no such interface, or its driver does not say.
pub fn claims(interface: &str) -> io::Result<Claims> {
    Ok(Claims::of(Asker::new()?.abilities(interface)?))
}

impl Claims {
    fn of(Abilities { stamping, clock, receive_filters }: Abilities) -> Claims {
        let can = |flags: u32| stamping & flags == flags;
        let raw = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let card_in = can(libc::SOF_TIMESTAMPING_RX_HARDWARE | raw) && receive_filters > 1;
        let software = libc::SOF_TIMESTAMPING_SOFTWARE;
        Claims {
            kernel: can(libc::SOF_TIMESTAMPING_RX_SOFTWARE | software),
            driver: can(libc::SOF_TIMESTAMPING_TX_SOFTWARE | software),
            card_in_all: card_in && receive_filters & (1 << ALL) != 0,
            card_in,
            card_out: can(libc::SOF_TIMESTAMPING_TX_HARDWARE | raw),
            clock: u32::try_from(clock).ok(),
        }
    }
}

/// Questions to a card; a trait so that one can be made up.
trait Card: Send {
    fn abilities(&self) -> io::Result<Abilities>;
    fn setting(&self) -> io::Result<Setting>;
    /// Sets it; what the card made of it.
    fn set(&self, setting: Setting) -> io::Result<Setting>;
}

/// The card of an interface.
struct Named {
    asker: Asker,
    name: String,
}

impl Card for Named {
    fn abilities(&self) -> io::Result<Abilities> {
        self.asker.abilities(&self.name)
    }

    fn setting(&self) -> io::Result<Setting> {
        self.asker.setting(&self.name)
    }

    fn set(&self, setting: Setting) -> io::Result<Setting> {
        self.asker.set(&self.name, setting)
    }
}

/// Packets that a card is to stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// All that arrive.
    Arrivals,
    /// Departures, and all arrivals or, of a card that cannot do that, those of NTP. Where it stamps no
    /// arrivals of NTP, what is sent alone.
    Ntp,
    /// Likewise, for PTP.
    Ptp,
}

/// Arrivals that a card stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// Packets of NTP.
    pub ntp: bool,
    /// Event messages of PTP.
    pub ptp: bool,
}

impl Arrivals {
    /// Arrivals that a filter lets be stamped.
    fn of(filter: i32) -> Arrivals {
        Arrivals { ntp: [ALL, NTP].contains(&filter), ptp: [ALL, PTP].contains(&filter) }
    }
}

/// Reason why a card stamps nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unable {
    /// Reason, in the system's words or ours.
    pub why: String,
    /// Remedy, if there is one.
    pub cure: Option<Cure>,
}

/// Remedy for a card that stamps nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cure {
    /// The kernel's stamps are all that there is.
    Kernel,
    /// Takes CAP_NET_ADMIN, or somebody who has it and sets the card before.
    Rights,
}

impl fmt::Display for Unable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Unable {}

/// A card that stamps packets. Its former setting comes back when this is dropped,
/// unless somebody has changed it since: then theirs stays. Of a driver that does not tell its
/// setting (few do not), it is taken to have been off.
pub struct Stamping {
    card: Box<dyn Card>,
    clock: u32,
    arrivals: Arrivals,
    /// If anything was changed: what to put back, and what the card made of ours.
    changed: Option<(Setting, Setting)>,
}

impl Stamping {
    /// Asks the card of an interface to stamp packets. Takes CAP_NET_ADMIN unless
    /// it does so already.
    ///
    /// # Errors
    /// If it cannot, or must not be asked.
    pub fn enable(interface: &str, wish: Wish) -> Result<Stamping, Unable> {
        let asker = Asker::new().map_err(|why| Unable { why: why.to_string(), cure: None })?;
        Stamping::by(Box::new(Named { asker, name: interface.to_owned() }), wish)
    }

    fn by(card: Box<dyn Card>, wish: Wish) -> Result<Stamping, Unable> {
        let failed = |why: &str, cure| Unable { why: why.to_owned(), cure };
        let otherwise = Some(Cure::Kernel);
        let abilities = card.abilities().map_err(|why| match why.raw_os_error() {
            Some(libc::EOPNOTSUPP) => failed("its driver knows of none", otherwise),
            _ => failed(&why.to_string(), None),
        })?;
        let claims = Claims::of(abilities);
        let departs = wish != Wish::Arrivals && claims.card_out;
        if !claims.card_in && !departs {
            return Err(failed("the card cannot stamp what it receives", otherwise));
        }
        let Some(clock) = claims.clock else {
            return Err(failed("the card stamps, but its clock cannot be read", otherwise));
        };
        let can = |filter: &i32| abilities.receive_filters & (1 << *filter) != 0;
        let filters: &[i32] = match wish {
            Wish::Arrivals => &[ALL],
            Wish::Ntp => &[ALL, NTP],
            Wish::Ptp => &[ALL, PTP],
        };
        let filter = filters.iter().copied().find(can).filter(|_| claims.card_in);
        if filter.is_none() && !departs {
            return Err(failed("the card stamps only packets of PTP", otherwise));
        }
        // Drivers that cannot say are taken to do nothing yet.
        let before = card.setting().unwrap_or_default();
        let transmit = if departs { before.transmit.max(SENT) } else { before.transmit };
        // All is more than any other filter.
        let receive_filter = match before.receive_filter {
            ALL => ALL,
            other => filter.unwrap_or(other),
        };
        let setting = Setting { receive_filter, transmit, ..before };
        if setting == before {
            let arrivals = Arrivals::of(receive_filter);
            return Ok(Stamping { card, clock, arrivals, changed: None });
        }
        let made = card.set(setting).map_err(|why| match why.raw_os_error() {
            Some(libc::EPERM) => failed(&why.to_string(), Some(Cure::Rights)),
            _ => failed(&why.to_string(), None),
        })?;
        let arrivals = Arrivals::of(made.receive_filter);
        let stamping = Stamping { card, clock, arrivals, changed: Some((before, made)) };
        let all = match wish {
            Wish::Arrivals => made.receive_filter == ALL,
            Wish::Ntp => arrivals.ntp,
            Wish::Ptp => arrivals.ptp,
        };
        let departures = departs && made.transmit != 0;
        if !(all || departures) {
            // Dropping it puts back what was.
            return Err(failed("the card agreed to stamp some packets only", otherwise));
        }
        Ok(stamping)
    }

    /// Arrivals that it stamps.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// Says whether its setting was changed, which is to be put back.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.changed.is_some()
    }

    /// The number of the card's clock: `/dev/ptpN`.
    #[must_use]
    pub fn clock(&self) -> u32 {
        self.clock
    }
}

impl Drop for Stamping {
    fn drop(&mut self) {
        let Some((before, made)) = self.changed else { return };
        if self.card.setting().is_ok_and(|now| now != made) {
            return;
        }
        // Nobody is left to be told.
        let _ = self.card.set(before);
    }
}

impl fmt::Debug for Stamping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamping { card: _, clock, arrivals, changed } = self;
        let mut shown = f.debug_struct("Stamping");
        shown.field("clock", clock).field("arrivals", arrivals).field("changed", changed).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const HARDWARE: u32 = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;

    /// A card, and what was set on it.
    struct Made {
        abilities: Result<Abilities, i32>,
        now: Arc<Mutex<Setting>>,
        grants: Result<i32, i32>,
    }

    impl Card for Made {
        fn abilities(&self) -> io::Result<Abilities> {
            self.abilities.map_err(io::Error::from_raw_os_error)
        }

        fn setting(&self) -> io::Result<Setting> {
            Ok(*self.now.lock().unwrap())
        }

        fn set(&self, setting: Setting) -> io::Result<Setting> {
            let grants = self.grants.map_err(io::Error::from_raw_os_error)?;
            let made = match setting.receive_filter {
                ALL => Setting { receive_filter: grants, ..setting },
                _ => setting,
            };
            *self.now.lock().unwrap() = made;
            Ok(made)
        }
    }

    fn card(change: impl FnOnce(&mut Made)) -> (Box<Made>, Arc<Mutex<Setting>>) {
        let abilities = Abilities { stamping: HARDWARE, clock: 3, receive_filters: 0b11 };
        let before = Setting { flags: 0, transmit: 1, receive_filter: 12 };
        let now = Arc::new(Mutex::new(before));
        let mut made = Made { abilities: Ok(abilities), now: Arc::clone(&now), grants: Ok(ALL) };
        change(&mut made);
        (Box::new(made), now)
    }

    #[test]
    fn the_card_is_left_as_it_was() {
        let (made, now) = card(|_| {});
        let before = *now.lock().unwrap();
        let stamping = Stamping::by(made, Wish::Arrivals).unwrap();
        assert_eq!(stamping.clock(), 3);
        // What it does with packets that are sent is not ours to change.
        assert_eq!(*now.lock().unwrap(), Setting { receive_filter: ALL, ..before });
        drop(stamping);
        assert_eq!(*now.lock().unwrap(), before);
    }

    #[test]
    fn what_another_program_has_set_since_stays() {
        let (made, now) = card(|_| {});
        let stamping = Stamping::by(made, Wish::Arrivals).unwrap();
        let theirs = Setting { flags: 0, transmit: 1, receive_filter: 9 };
        *now.lock().unwrap() = theirs;
        drop(stamping);
        assert_eq!(*now.lock().unwrap(), theirs);
    }

    #[test]
    fn what_stands_already_needs_no_right() {
        let (made, now) = card(|made| made.grants = Err(libc::EPERM));
        now.lock().unwrap().receive_filter = ALL;
        drop(Stamping::by(made, Wish::Arrivals).unwrap());
        assert_eq!(now.lock().unwrap().receive_filter, ALL);
    }

    #[test]
    fn what_a_card_cannot_is_said() {
        type Change = fn(&mut Made);
        let without: [(Change, &str); 6] = [
            (|made| made.abilities = Err(libc::EOPNOTSUPP), "knows of none"),
            (|made| made.abilities.as_mut().unwrap().stamping = 16, "cannot stamp"),
            (|made| made.abilities.as_mut().unwrap().clock = -1, "clock cannot be read"),
            (|made| made.abilities.as_mut().unwrap().receive_filters = 1 << 12, "only packets"),
            (|made| made.grants = Ok(2), "some packets only"),
            (|made| made.grants = Err(libc::EPERM), "not permitted"),
        ];
        for (change, part) in without {
            let (made, now) = card(change);
            let before = *now.lock().unwrap();
            let why = Stamping::by(made, Wish::Arrivals).unwrap_err();
            assert!(why.to_string().contains(part) && why.cure.is_some(), "{why}");
            assert_eq!(*now.lock().unwrap(), before, "{part}");
        }
    }

    #[test]
    fn claims_are_what_the_driver_says() {
        let of = |stamping, receive_filters| {
            Claims::of(Abilities { stamping, clock: 2, receive_filters })
        };
        let software = 2 | 8 | 16;
        let claims = of(software, 1);
        assert!(claims.kernel && claims.driver && !claims.card_in && !claims.card_out);
        let claims = of(software | HARDWARE | 1, 0b10_0000_0000_0001);
        assert!(claims.card_in && claims.card_out && !claims.card_in_all);
        assert_eq!(claims.clock, Some(2));
        assert!(of(HARDWARE, 0b11).card_in_all);
        assert_eq!(
            Claims::of(Abilities { stamping: 0, clock: -1, receive_filters: 0 }),
            Claims::default()
        );
    }

    #[test]
    fn exchanges_are_stamped_both_ways_if_the_card_can() {
        const SENDS: u32 = HARDWARE | libc::SOF_TIMESTAMPING_TX_HARDWARE;
        let both = |stamping, receive_filters, before: Setting, wish| {
            let (made, now) = card(|made| {
                made.abilities = Ok(Abilities { stamping, clock: 3, receive_filters });
            });
            *now.lock().unwrap() = before;
            let stamping = Stamping::by(made, wish);
            let set = *now.lock().unwrap();
            let arrivals = stamping.as_ref().ok().map(Stamping::arrivals);
            drop(stamping);
            assert_eq!(*now.lock().unwrap(), before);
            (arrivals, set.transmit, set.receive_filter)
        };
        let of = |stamping, receive_filters, before| {
            let (arrivals, transmit, filter) = both(stamping, receive_filters, before, Wish::Ntp);
            (arrivals.map(|arrivals| arrivals.ntp), transmit, filter)
        };
        let off = Setting::default();
        assert_eq!(of(SENDS, 0b11, off), (Some(true), 1, ALL));
        assert_eq!(of(SENDS, 1 << NTP | 1, off), (Some(true), 1, NTP));
        // Of PTP alone: what others have set stays, and departures are stamped.
        let theirs = Setting { receive_filter: 12, ..off };
        assert_eq!(of(SENDS, 1 << 12 | 1, theirs), (Some(false), 1, 12));
        assert_eq!(of(HARDWARE, 0b11, off), (Some(true), 0, ALL));
        assert_eq!(of(HARDWARE, 1 << 12 | 1, off), (None, 0, 0));
        // For PTP that is what was wanted.
        let ptp = both(SENDS, 1 << PTP | 1, off, Wish::Ptp);
        assert_eq!(ptp, (Some(Arrivals { ntp: false, ptp: true }), 1, PTP));
        let all = Some(Arrivals { ntp: true, ptp: true });
        assert_eq!(both(SENDS, 1 << PTP | 0b11, off, Wish::Ptp), (all, 1, ALL));
        // One-step cards stamp departures, too.
        let one_step = Setting { transmit: 2, receive_filter: ALL, flags: 0 };
        assert_eq!(of(SENDS, 0b11, one_step), (Some(true), 2, ALL));
    }

    #[test]
    fn loopback_has_none() {
        for wish in [Wish::Arrivals, Wish::Ntp, Wish::Ptp] {
            let why = Stamping::enable("lo", wish).unwrap_err();
            assert_eq!(why.cure, Some(Cure::Kernel), "{why}");
            assert!(Stamping::enable("no-such-link", wish).is_err());
        }
    }
}
