//! Having a card stamp packets, and leaving it as it was.

use std::fmt;
use std::io;

use crate::ask::{Abilities, Asker, Setting};
use crate::tap::TapError;

/// `HWTSTAMP_FILTER_ALL`: stamps for all packets that are received.
const ALL: i32 = 1;

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
pub(super) trait Card: Send {
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

/// A card stamps all packets that it receives. Its former setting comes back when this is dropped,
/// unless somebody has changed it since: then theirs stays. Of a driver that does not tell its
/// setting (few do not), it is taken to have been off.
pub struct Stamping {
    card: Box<dyn Card>,
    clock: u32,
    /// If anything was changed: what to put back, and what the card made of ours.
    changed: Option<(Setting, Setting)>,
}

impl Stamping {
    /// Asks the card of an interface to stamp all packets it receives. Takes CAP_NET_ADMIN unless
    /// it does so already.
    ///
    /// # Errors
    /// If it cannot, or must not be asked.
    pub fn enable(interface: &str) -> Result<Stamping, TapError> {
        let failed = |why: io::Error| TapError {
            doing: format!("asking {interface} for hardware stamps"),
            why: why.to_string(),
            mend: None,
        };
        let asker = Asker::new().map_err(failed)?;
        Stamping::by(Box::new(Named { asker, name: interface.to_owned() }), interface)
    }

    pub(super) fn by(card: Box<dyn Card>, interface: &str) -> Result<Stamping, TapError> {
        let failed = |why: &str, mend: Option<&str>| TapError {
            doing: format!("asking {interface} for hardware stamps"),
            why: why.to_owned(),
            mend: mend.map(str::to_owned),
        };
        const OTHERWISE: Option<&str> =
            Some("use the kernel's stamps: `--method packet`; `ethtool -T` shows what a card can");
        let abilities = card.abilities().map_err(|why| match why.raw_os_error() {
            Some(libc::EOPNOTSUPP) => failed("its driver knows of none", OTHERWISE),
            _ => failed(&why.to_string(), None),
        })?;
        let wanted = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        if abilities.stamping & wanted != wanted {
            return Err(failed("the card cannot stamp what it receives", OTHERWISE));
        }
        let Ok(clock) = u32::try_from(abilities.clock) else {
            return Err(failed("the card stamps, but its clock cannot be read", OTHERWISE));
        };
        if abilities.receive_filters & (1 << ALL) == 0 {
            return Err(failed("the card stamps only packets of PTP", OTHERWISE));
        }
        // Drivers that cannot say are taken to do nothing yet.
        let before = card.setting().unwrap_or_default();
        if before.receive_filter == ALL {
            return Ok(Stamping { card, clock, changed: None });
        }
        let setting = Setting { receive_filter: ALL, ..before };
        let made = card.set(setting).map_err(|why| match why.raw_os_error() {
            Some(libc::EPERM) => failed(
                &why.to_string(),
                Some("run as root or with CAP_NET_ADMIN, or set it before: `hwstamp_ctl -r 1`"),
            ),
            _ => failed(&why.to_string(), None),
        })?;
        let stamping = Stamping { card, clock, changed: Some((before, made)) };
        if made.receive_filter != ALL {
            // Dropping it puts back what was.
            return Err(failed("the card agreed to stamp some packets only", OTHERWISE));
        }
        Ok(stamping)
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
        let Stamping { card: _, clock, changed } = self;
        f.debug_struct("Stamping").field("clock", clock).field("changed", changed).finish()
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
        let stamping = Stamping::by(made, "eth0").unwrap();
        assert_eq!(stamping.clock(), 3);
        // What it does with packets that are sent is not ours to change.
        assert_eq!(*now.lock().unwrap(), Setting { receive_filter: ALL, ..before });
        drop(stamping);
        assert_eq!(*now.lock().unwrap(), before);
    }

    #[test]
    fn what_another_program_has_set_since_stays() {
        let (made, now) = card(|_| {});
        let stamping = Stamping::by(made, "eth0").unwrap();
        let theirs = Setting { flags: 0, transmit: 1, receive_filter: 9 };
        *now.lock().unwrap() = theirs;
        drop(stamping);
        assert_eq!(*now.lock().unwrap(), theirs);
    }

    #[test]
    fn what_stands_already_needs_no_right() {
        let (made, now) = card(|made| made.grants = Err(libc::EPERM));
        now.lock().unwrap().receive_filter = ALL;
        drop(Stamping::by(made, "eth0").unwrap());
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
            (|made| made.grants = Err(libc::EPERM), "CAP_NET_ADMIN"),
        ];
        for (change, part) in without {
            let (made, now) = card(change);
            let before = *now.lock().unwrap();
            let why = Stamping::by(made, "eth0").unwrap_err();
            assert!(why.to_string().contains(part) && why.mend.is_some(), "{why}");
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
    fn loopback_has_none() {
        let why = Stamping::enable("lo").unwrap_err();
        assert!(why.doing.contains("lo") && why.mend.unwrap().contains("--method packet"));
        assert!(Stamping::enable("no-such-link").is_err());
    }
}
