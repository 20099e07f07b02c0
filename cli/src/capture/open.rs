//! A tap by the method that was asked for.

use truechimer_capture::choose::{self, Choice, Wish};
use truechimer_capture::hardware::open_clock;
use truechimer_capture::pipeline::{Device, WhenFull};
use truechimer_capture::xdp::StampAt;
use truechimer_capture::{Direction, Method, Tap};
use truechimer_counter::Counter;

use super::{Capture, How, Wanted, Way, Where, said};
use truechimer_command::Failure;

/// A tap, and how it came to be the one.
pub struct Opened {
    pub tap: Box<dyn Tap>,
    /// Reads the clock of the card that stamps.
    pub device: Option<Device>,
    /// Reason for this method, for people.
    pub why: String,
    /// Advice on what may be wiser.
    pub warnings: Vec<String>,
    /// Fate of packets when the conversion is behind.
    pub when_full: WhenFull,
}

/// Opens it.
pub fn open(args: &Capture, wanted: &Wanted, counter: Counter) -> Result<Opened, Failure> {
    let opened = choose::open(&wish(args, wanted, counter)).map_err(said)?;
    let choose::Opened { tap, choice, device_clock, mut warnings } = opened;
    let by_xdp = matches!(choice.method, Method::Xdp | Method::XdpCopy);
    if args.stamp != Where::Auto && !by_xdp {
        warnings.push(format!(
            "--stamp has no meaning for the method {}: the kernel stamps",
            choice.method
        ));
    }
    let device = match device_clock {
        Some(number) => {
            let mut clock = open_clock(number, counter).map_err(said)?;
            let device: Device = Box::new(move || clock.pair());
            Some(device)
        }
        None => None,
    };
    // A packet that is stamped when it is fetched must not wait for that.
    let late = by_xdp && args.stamp == Where::Dequeue;
    let when_full = if late { WhenFull::Drop } else { WhenFull::Wait };
    Ok(Opened { tap, device, why: why(choice), warnings, when_full })
}

fn wish(args: &Capture, wanted: &Wanted, counter: Counter) -> Wish {
    let default = Wish::new(&wanted.name, counter);
    Wish {
        method: match wanted.method.unwrap_or(args.method) {
            How::Auto => None,
            How::Packet => Some(Method::Packet),
            How::Hw => Some(Method::Hardware),
            How::Xdp => Some(Method::Xdp),
            How::XdpCopy => Some(Method::XdpCopy),
        },
        snap_length: match args.snap_length {
            0 => default.snap_length,
            bytes => bytes,
        },
        ring_bytes: args.ring << 20,
        filter: args.filter(),
        direction: match args.direction {
            Way::In => Direction::In,
            Way::Out => Direction::Out,
            Way::Inout => Direction::Unknown,
        },
        promiscuous: !args.no_promiscuous,
        stamp: match args.stamp {
            Where::Auto | Where::Xdp => StampAt::Xdp,
            Where::Tsc => StampAt::Tsc,
            Where::Dequeue => StampAt::Dequeue,
        },
        take: args.take,
        ..default
    }
}

/// Reason why it is this method, and not the next one.
fn why(choice: Choice) -> String {
    let Choice { mut why, against, .. } = choice;
    if let Some((method, reason)) = against.first() {
        why.push_str(&format!("; not {method}: {reason}"));
    }
    why
}
