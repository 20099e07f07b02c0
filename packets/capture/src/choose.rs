//! Which method fits an interface, and why; and a tap by it.
//!
//! `auto` never takes packets away from a host that uses the interface, and sees what the other
//! methods would: both directions, all kinds of interfaces. So it is a packet socket, but for an
//! interface of a card's that the host makes no use of (no address, route, master, upper interface
//! or packet socket: one that is there for capturing) and whose driver runs XDP natively: that is
//! the place for AF_XDP. Each method that was not chosen has its reason.

use std::fmt;
use std::path::Path;

use truechimer_counter::Counter;

use crate::filter::Filter;
use crate::link::Link;
use crate::packet::{self, PacketOptions, PacketTap};
use crate::tap::{Direction, Method, Tap, TapError};
use crate::xdp::{self, Mode, StampAt, Use, XdpCopyTap, XdpOptions, standing};

/// Wish of the user.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The interface's name; `any` for all.
    pub interface: String,
    /// The method; `None`: whichever fits.
    pub method: Option<Method>,
    /// Bytes kept of each packet, at most.
    pub snap_length: u32,
    /// Memory that packets wait in, in bytes.
    pub ring_bytes: u64,
    /// Which packets, in the language of pcap-filter(7); `None`: all.
    pub filter: Option<String>,
    /// [`Direction::In`] or [`Direction::Out`]: only those; else both.
    pub direction: Direction,
    /// True if packets for others are to be seen.
    pub promiscuous: bool,
    /// Mode in which XDP programs are run.
    pub mode: Mode,
    /// Where XDP stamps.
    pub stamp: StampAt,
    /// True if packets may be taken away from a host that uses the interface. (`auto` does not,
    /// even so.)
    pub take: bool,
    /// The counter that stamps are of, where they are counts.
    pub counter: Counter,
}

impl Wish {
    /// The defaults, for an interface.
    #[must_use]
    pub fn new(interface: &str, counter: Counter) -> Wish {
        Wish {
            interface: interface.to_owned(),
            method: None,
            snap_length: packet::SNAP_LENGTH,
            ring_bytes: packet::RING_BYTES,
            filter: None,
            direction: Direction::Unknown,
            promiscuous: true,
            mode: Mode::Auto,
            stamp: StampAt::Xdp,
            take: false,
            counter,
        }
    }
}

/// A method, and why it is that one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The method.
    pub method: Method,
    /// Reason for it, in a sentence.
    pub why: String,
    /// Reasons against the others.
    pub against: Vec<(Method, String)>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.method, self.why)?;
        self.against.iter().try_for_each(|(method, why)| write!(f, "; not {method}: {why}"))
    }
}

/// A tap that is open, and how it came to be.
pub struct Opened {
    /// The tap.
    pub tap: Box<dyn Tap>,
    /// Method of the tap, and why it is this one.
    pub choice: Choice,
    /// The number of the card's clock (`/dev/ptpN`), where the card stamps.
    pub device_clock: Option<u32>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Opens a tap by the method that was wished for, or by the one that fits; if that one cannot be
/// opened, by a packet socket, with the reason among those against it.
///
/// # Errors
/// Where neither can be opened: with the capability that is missing, if it is that.
pub fn open(wish: &Wish) -> Result<Opened, TapError> {
    if let Some(method) = wish.method {
        let why = "it was asked for".to_owned();
        return open_by(wish, method, Choice { method, why, against: Vec::new() });
    }
    let mut choice = choose(&wish.interface, wish.direction)?;
    if choice.method == Method::Xdp {
        // In the stack it has no advantage.
        let native = Wish { mode: Mode::Native, take: false, ..wish.clone() };
        match open_by(&native, Method::Xdp, choice.clone()) {
            Ok(opened) => return Ok(opened),
            Err(error) => choice = choice.falling_back(&error),
        }
    }
    let method = choice.method;
    open_by(wish, method, choice)
}

/// The method that fits an interface, by what it is and how the host uses it. Opens nothing.
///
/// # Errors
/// Where there is no such interface.
pub fn choose(interface: &str, direction: Direction) -> Result<Choice, TapError> {
    Ok(decide(&Situation::of(interface, direction)?))
}

/// Situation that decides.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Situation {
    /// There is one interface, and it carries Ethernet frames.
    is_ethernet: bool,
    /// There is a device behind it.
    is_physical: bool,
    /// The device has a clock of its own.
    has_clock: bool,
    uses: Vec<Use>,
    direction: Direction,
}

impl Situation {
    fn of(interface: &str, direction: Direction) -> Result<Situation, TapError> {
        let nothing = Situation {
            is_ethernet: false,
            is_physical: false,
            has_clock: false,
            uses: Vec::new(),
            direction,
        };
        if interface == "any" {
            return Ok(nothing);
        }
        let link = sought(interface)?;
        let (uses, is_physical) = standing(&link)?;
        let clock = Path::new("/sys/class/net").join(interface).join("device/ptp");
        Ok(Situation {
            is_ethernet: matches!(link.hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK),
            is_physical,
            has_clock: is_physical && clock.exists(),
            uses,
            direction,
        })
    }
}

const PACKET_WORKS: &str = "a packet socket works on any interface, takes nothing from the host, sees \
                            both directions and has the kernel's stamps at arrival";

fn decide(situation: &Situation) -> Choice {
    let Situation { is_ethernet, is_physical, has_clock, uses, direction } = situation;
    let arrivals_only = "XDP sees only what arrives, not what the host sends";
    let no_xdp = match is_ethernet {
        false => Some("XDP takes one interface that carries Ethernet frames".to_owned()),
        true if *direction == Direction::Out => Some(arrivals_only.to_owned()),
        true => None,
    };
    let taking = match (uses.as_slice(), is_physical) {
        _ if no_xdp.is_some() => no_xdp.clone(),
        ([], true) => None,
        ([], false) => Some(
            "it would take packets away from the host, and nothing tells whether the host uses this \
             virtual interface (`--method xdp` if not)"
                .to_owned(),
        ),
        (uses, _) => {
            let uses: Vec<String> = uses.iter().map(Use::to_string).collect();
            Some(format!(
                "it would take packets away from the host, which uses the interface: {}",
                uses.join(", ")
            ))
        }
    };
    let copying = no_xdp.unwrap_or_else(|| {
        format!(
            "{arrivals_only}, and costs least only where nothing but a copy is wanted at high rates"
        )
    });
    let hardware = match has_clock {
        true => "the card has a clock; to have it stamp changes a setting of the card that others \
                 may rely on (`--method hw`)"
            .to_owned(),
        false => "no clock of a network card shows".to_owned(),
    };
    let against = [(Method::Hardware, hardware), (Method::XdpCopy, copying)];
    let against = |first: (Method, String)| {
        let mut all = vec![first];
        all.extend(against);
        all
    };
    match taking {
        None => Choice {
            method: Method::Xdp,
            why: "the host makes no use of this interface, and XDP loses nothing at twice the \
                  rate that a packet socket can take"
                .to_owned(),
            against: against((
                Method::Packet,
                "it goes through the network stack, for nobody's sake".to_owned(),
            )),
        },
        Some(reason) => Choice {
            method: Method::Packet,
            why: PACKET_WORKS.to_owned(),
            against: against((Method::Xdp, reason)),
        },
    }
}

impl Choice {
    /// A packet socket instead.
    fn falling_back(self, error: &TapError) -> Choice {
        let mut against = self.against;
        against.retain(|(method, _)| *method != Method::Packet);
        against.insert(0, (self.method, format!("it cannot be had: {error}")));
        Choice { method: Method::Packet, why: PACKET_WORKS.to_owned(), against }
    }
}

fn open_by(wish: &Wish, method: Method, choice: Choice) -> Result<Opened, TapError> {
    let mut warnings = Vec::new();
    let (tap, device_clock): (Box<dyn Tap>, Option<u32>) = match method {
        Method::Packet | Method::Hardware => {
            let tap = PacketTap::open(&socket(wish, method == Method::Hardware)?)?;
            let clock = tap.device_clock();
            (Box::new(tap), clock)
        }
        Method::Xdp | Method::XdpCopy => {
            let options = program(wish, method)?;
            if wish.direction != Direction::In {
                warnings.push(format!("{method} sees only what arrives, not what this host sends"));
            }
            let tap: Box<dyn Tap> = if method == Method::Xdp {
                xdp::open(&options)?
            } else {
                Box::new(XdpCopyTap::open(&options)?)
            };
            (tap, None)
        }
    };
    Ok(Opened { tap, choice, device_clock, warnings })
}

fn socket(wish: &Wish, hardware: bool) -> Result<PacketOptions, TapError> {
    let filter = match &wish.filter {
        Some(text) => {
            let link_type = packet::link_type(&wish.interface)?;
            Some(compile(text, Some(&wish.interface), link_type, wish.snap_length)?)
        }
        None => None,
    };
    Ok(PacketOptions {
        snap_length: wish.snap_length,
        ring_bytes: wish.ring_bytes,
        filter,
        promiscuous: wish.promiscuous,
        direction: wish.direction,
        hardware,
        ..PacketOptions::new(&wish.interface)
    })
}

fn program(wish: &Wish, method: Method) -> Result<XdpOptions, TapError> {
    if wish.direction == Direction::Out {
        return Err(TapError {
            doing: format!("capturing what {} sends by {method}", wish.interface),
            why: "XDP sees only what arrives".to_owned(),
            mend: Some("use the method `packet`".to_owned()),
        });
    }
    // Without an interface: tags are inline, and the whole packet is there.
    let filter = match &wish.filter {
        Some(text) => Some(compile(text, None, 1, packet::SNAP_LENGTH)?),
        None => None,
    };
    Ok(XdpOptions {
        snap_length: wish.snap_length,
        ring_bytes: wish.ring_bytes,
        mode: wish.mode,
        stamp: wish.stamp,
        filter,
        promiscuous: wish.promiscuous,
        take: wish.take,
        ..XdpOptions::new(&wish.interface, wish.counter)
    })
}

fn compile(
    text: &str,
    interface: Option<&str>,
    link_type: u16,
    snap_length: u32,
) -> Result<Filter, TapError> {
    Filter::compile(text, interface, link_type, snap_length).map_err(|error| TapError {
        doing: "reading the filter".to_owned(),
        why: error.to_string(),
        mend: None,
    })
}

/// The interface of this name, or what the user is told.
pub(crate) fn sought(interface: &str) -> Result<Link, TapError> {
    Link::named(interface).map_err(|error| TapError {
        doing: format!("interface `{interface}`"),
        why: match error.kind() {
            std::io::ErrorKind::NotFound => "there is none of that name".to_owned(),
            _ => error.to_string(),
        },
        mend: Some("`ip link` lists them".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Situation {
        Situation {
            is_ethernet: true,
            is_physical: true,
            has_clock: false,
            uses: Vec::new(),
            direction: Direction::Unknown,
        }
    }

    fn reason(choice: &Choice, method: Method) -> &str {
        choice.against.iter().find(|(of, _)| *of == method).map(|(_, why)| why.as_str()).unwrap()
    }

    #[test]
    fn a_card_that_nobody_uses_is_taken_from() {
        let choice = decide(&card());
        assert_eq!(choice.method, Method::Xdp);
        assert!(choice.why.contains("no use") && choice.against.len() == 3, "{choice}");
        let error = TapError { doing: "attaching".into(), why: "no".into(), mend: None };
        let instead = choice.falling_back(&error);
        assert_eq!((instead.method, instead.against.len()), (Method::Packet, 3));
        assert!(reason(&instead, Method::Xdp).contains("attaching: no"), "{instead}");
    }

    #[test]
    fn whatever_the_host_uses_is_left_alone() {
        let every = [
            Use::Loopback,
            Use::Address([192, 0, 2, 1].into()),
            Use::DefaultRoute,
            Use::Route([192, 0, 2, 1].into()),
            Use::PacketSockets(2),
            Use::PortOf("br0".into()),
            Use::Below("eth0.7".into()),
            Use::Inspected,
            Use::FurtherAddresses(1),
        ];
        for one in every {
            let choice = decide(&Situation { uses: vec![one.clone()], ..card() });
            assert_eq!(choice.method, Method::Packet, "{one}");
            assert!(reason(&choice, Method::Xdp).contains(&one.to_string()), "{choice}");
        }
        let choice = decide(&Situation { is_physical: false, ..card() });
        assert_eq!(choice.method, Method::Packet);
        assert!(reason(&choice, Method::Xdp).contains("virtual"), "{choice}");
    }

    #[test]
    fn what_xdp_cannot_see_is_left_to_a_packet_socket() {
        for situation in [
            Situation { is_ethernet: false, ..card() },
            Situation { direction: Direction::Out, ..card() },
        ] {
            let choice = decide(&situation);
            assert_eq!(choice.method, Method::Packet, "{situation:?}");
            assert_eq!(choice.against.len(), 3);
        }
        assert_eq!(choose("any", Direction::Unknown).unwrap().method, Method::Packet);
        assert_eq!(choose("lo", Direction::Unknown).unwrap().method, Method::Packet);
        let error = choose("no-such-link", Direction::In).unwrap_err().to_string();
        assert!(error.contains("ip link"), "{error}");
    }

    #[test]
    fn a_clock_on_the_card_is_mentioned() {
        let choice = decide(&Situation { has_clock: true, ..card() });
        assert!(reason(&choice, Method::Hardware).contains("--method hw"), "{choice}");
    }

    #[test]
    fn what_was_asked_for_is_done_or_refused() {
        let counter = Counter::open(truechimer_counter::Choice::Auto).unwrap();
        let wish = Wish {
            method: Some(Method::Xdp),
            direction: Direction::Out,
            ..Wish::new("lo", counter)
        };
        let error = open(&wish).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("only what arrives"), "{error}");
        let wish =
            Wish { filter: Some("no filter at all".into()), direction: Direction::In, ..wish };
        assert!(open(&wish).is_err());
    }
}
