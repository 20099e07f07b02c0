//! Having a card stamp packets, and leaving it as it was.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use crate::interface::{self, Abilities, Asker, Setting};

/// `HWTSTAMP_FILTER_ALL`: stamps for all packets that are received.
const ALL: i32 = 1;
/// `HWTSTAMP_FILTER_NTP_ALL`: for those of NTP.
const NTP: i32 = 15;
/// `HWTSTAMP_FILTER_PTP_V2_EVENT`: for event messages of PTP, by UDP and by Ethernet.
const PTP: i32 = 12;
/// `HWTSTAMP_FILTER_PTP_V2_L4_EVENT`: for those by UDP.
const PTP_UDP: i32 = 6;
/// `HWTSTAMP_FILTER_PTP_V2_L2_EVENT`: for those by Ethernet.
const PTP_ETHERNET: i32 = 9;
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

/// The card of an interface, by the interface's number: names may be given to others meanwhile.
struct Numbered {
    asker: Asker,
    index: u32,
}

impl Numbered {
    fn name(&self) -> io::Result<String> {
        interface::name(self.asker.as_fd(), self.index)
    }
}

impl Card for Numbered {
    fn abilities(&self) -> io::Result<Abilities> {
        self.asker.abilities(&self.name()?)
    }

    fn setting(&self) -> io::Result<Setting> {
        self.asker.setting(&self.name()?)
    }

    fn set(&self, setting: Setting) -> io::Result<Setting> {
        self.asker.set(&self.name()?, setting)
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
    /// Likewise, for PTP by UDP and by Ethernet.
    Ptp,
    /// Likewise, for PTP by UDP.
    PtpUdp,
    /// Likewise, for PTP by Ethernet.
    PtpEthernet,
}

impl Wish {
    /// Filters of which each lets all arrivals be stamped that are wished for: the more a card stamps, the earlier.
    fn filters(self) -> &'static [i32] {
        match self {
            Wish::Arrivals => &[ALL],
            Wish::Ntp => &[ALL, NTP],
            Wish::Ptp => &[ALL, PTP],
            Wish::PtpUdp => &[ALL, PTP, PTP_UDP],
            Wish::PtpEthernet => &[ALL, PTP, PTP_ETHERNET],
        }
    }
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
    /// Arrivals that a filter lets be stamped; of PTP those of the transport wished for, by whichever if none is.
    fn of(filter: i32, wish: Wish) -> Arrivals {
        let ptp = match wish {
            Wish::PtpUdp | Wish::PtpEthernet => wish.filters(),
            Wish::Arrivals | Wish::Ntp | Wish::Ptp => Wish::Ptp.filters(),
        };
        Arrivals { ntp: [ALL, NTP].contains(&filter), ptp: ptp.contains(&filter) }
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
    /// it does so already: without that, what stands is used as far as it goes. A filter that somebody
    /// has set is changed for none but that for all packets.
    ///
    /// # Errors
    /// If it cannot, or must not be asked.
    pub fn enable(interface: &str, wish: Wish) -> Result<Stamping, Unable> {
        let failed = |why: io::Error| Unable { why: why.to_string(), cure: None };
        let asker = Asker::new().map_err(failed)?;
        let index = interface::index(asker.as_fd(), interface).map_err(failed)?;
        Stamping::by(Box::new(Numbered { asker, index }), wish)
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
        // Drivers that cannot say are taken to do nothing yet.
        let before = card.setting().unwrap_or_default();
        let filter = choose(wish, before.receive_filter, &abilities).filter(|_| claims.card_in);
        if filter.is_none() && !departs {
            return Err(failed("the card stamps only packets of PTP", otherwise));
        }
        let transmit = if departs { before.transmit.max(SENT) } else { before.transmit };
        let receive_filter = filter.unwrap_or(before.receive_filter);
        let setting = Setting { receive_filter, transmit, ..before };
        let set = if setting == before { Ok(before) } else { card.set(setting) };
        let (made, changed) = match set {
            Ok(made) => (made, (setting != before).then_some((before, made))),
            Err(why) if why.raw_os_error() != Some(libc::EPERM) => {
                return Err(failed(&why.to_string(), None));
            }
            Err(_) if is_of_use(wish, before, departs) => (before, None),
            Err(why) => return Err(failed(&why.to_string(), Some(Cure::Rights))),
        };
        let arrivals = Arrivals::of(made.receive_filter, wish);
        let stamping = Stamping { card, clock, arrivals, changed };
        if !is_of_use(wish, made, departs) {
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

/// The filter to set on a card that has this one: the same if it will do. One that somebody has set gives way to that for all
/// packets alone. `None` if there is no such filter.
fn choose(wish: Wish, before: i32, abilities: &Abilities) -> Option<i32> {
    if wish.filters().contains(&before) {
        return Some(before);
    }
    let can = |filter: &i32| abilities.receive_filters & (1 << *filter) != 0;
    wish.filters().iter().copied().filter(|filter| before == 0 || *filter == ALL).find(can)
}

/// Says whether a card that is set like that stamps any packets that are wished for, departures if `departs`.
fn is_of_use(wish: Wish, setting: Setting, departs: bool) -> bool {
    wish.filters().contains(&setting.receive_filter) || departs && setting.transmit != 0
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
        let ptp = both(SENDS, 1 << PTP | 1, off, Wish::PtpUdp);
        assert_eq!(ptp, (Some(Arrivals { ntp: false, ptp: true }), 1, PTP));
        let all = Some(Arrivals { ntp: true, ptp: true });
        assert_eq!(both(SENDS, 1 << PTP | 0b11, off, Wish::PtpUdp), (all, 1, ALL));
        // Some cards tell the transports apart.
        let apart = 1 << PTP_UDP | 1 << PTP_ETHERNET | 1;
        let arrive = Some(Arrivals { ntp: false, ptp: true });
        assert_eq!(both(SENDS, apart, off, Wish::PtpUdp), (arrive, 1, PTP_UDP));
        assert_eq!(both(SENDS, apart, off, Wish::PtpEthernet), (arrive, 1, PTP_ETHERNET));
        assert_eq!(both(SENDS, apart, off, Wish::Ptp), (Some(Arrivals::default()), 1, 0));
        // What others have set stays where it will do, and where only a part of all would come instead.
        assert_eq!(both(SENDS, 1 << PTP | 0b11, theirs, Wish::PtpUdp), (arrive, 1, PTP));
        let departures = Some(Arrivals { ntp: false, ptp: true });
        assert_eq!(both(SENDS, 1 << PTP | 1 << NTP | 1, theirs, Wish::Ntp), (departures, 1, PTP));
        assert_eq!(both(SENDS, 1 << PTP | 0b11, theirs, Wish::Ntp), (all, 1, ALL));
        let by_udp = Setting { receive_filter: PTP_UDP, ..off };
        let none = Some(Arrivals::default());
        assert_eq!(both(SENDS, apart, by_udp, Wish::PtpEthernet), (none, 1, PTP_UDP));
        // One-step cards stamp departures, too.
        let one_step = Setting { transmit: 2, receive_filter: ALL, flags: 0 };
        assert_eq!(of(SENDS, 0b11, one_step), (Some(true), 2, ALL));
    }

    #[test]
    fn without_the_right_what_stands_is_used_as_far_as_it_goes() {
        let stamping = HARDWARE | libc::SOF_TIMESTAMPING_TX_HARDWARE;
        let of = |before: Setting, receive_filters, wish| {
            let (made, now) = card(|made| {
                made.abilities = Ok(Abilities { stamping, clock: 3, receive_filters });
                made.grants = Err(libc::EPERM);
            });
            *now.lock().unwrap() = before;
            let stamping = Stamping::by(made, wish);
            assert_eq!(*now.lock().unwrap(), before);
            stamping.map(|stamping| (stamping.arrivals(), stamping.is_ours()))
        };
        let set = |transmit, receive_filter| Setting { flags: 0, transmit, receive_filter };
        let (all, ptp) = (1 << PTP | 0b11, Arrivals { ntp: false, ptp: true });
        // As ptp4l sets cards.
        assert_eq!(of(set(1, PTP), all, Wish::PtpUdp), Ok((ptp, false)));
        assert_eq!(of(set(1, PTP), 1 << PTP | 1, Wish::PtpEthernet), Ok((ptp, false)));
        // Departures, though not the replies; or those alone that arrive.
        assert_eq!(of(set(1, PTP), all, Wish::Ntp), Ok((ptp, false)));
        assert_eq!(of(set(0, PTP), all, Wish::PtpUdp), Ok((ptp, false)));
        for (before, wish) in [
            (set(0, PTP), Wish::Ntp),
            (set(0, 0), Wish::Ntp),
            (set(0, PTP_UDP), Wish::PtpEthernet),
            (set(1, PTP), Wish::Arrivals),
        ] {
            let why = of(before, all, wish).unwrap_err();
            assert_eq!(why.cure, Some(Cure::Rights), "{before:?} {wish:?}");
        }
    }

    #[test]
    fn loopback_has_none() {
        for wish in [Wish::Arrivals, Wish::Ntp, Wish::PtpUdp, Wish::PtpEthernet] {
            let why = Stamping::enable("lo", wish).unwrap_err();
            assert_eq!(why.cure, Some(Cure::Kernel), "{why}");
            assert!(Stamping::enable("no-such-link", wish).is_err());
        }
    }
}
