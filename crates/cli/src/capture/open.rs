//! A tap by the method that was asked for.

use truechimer_capture::filter::Filter;
use truechimer_capture::packet::{self, PacketOptions, PacketTap};
use truechimer_capture::pipeline::WhenFull;
use truechimer_capture::{Direction, Tap, TapError};
use truechimer_counter::Counter;

use super::{Capture, How, Way, Where, said};
use crate::failure::Failure;

/// A tap, and how it came to be the one.
pub struct Opened {
    pub tap: Box<dyn Tap>,
    /// Why this method, for people.
    pub why: String,
    /// What may be wiser.
    pub warnings: Vec<String>,
    /// What becomes of packets when the conversion is behind.
    pub when_full: WhenFull,
}

/// Opens it.
pub fn open(args: &Capture, interface: &str, _counter: Counter) -> Result<Opened, Failure> {
    let mut warnings = Vec::new();
    if args.stamp != Where::Auto && !matches!(args.method, How::Xdp | How::XdpCopy) {
        warnings.push("--stamp means something with --method xdp and xdp-copy alone".to_owned());
    }
    let hardware = args.method == How::Hw;
    let tap = socket(args, interface, hardware)?;
    let why = match args.method {
        How::Packet | How::Hw => "as asked for",
        _ => "works on any interface, takes nothing away",
    };
    Ok(Opened { tap, why: why.into(), warnings, when_full: WhenFull::Wait })
}

fn socket(args: &Capture, interface: &str, hardware: bool) -> Result<Box<dyn Tap>, Failure> {
    let mut options = PacketOptions::new(interface);
    if args.snap_length > 0 {
        options.snap_length = args.snap_length;
    }
    options.ring_bytes = args.ring << 20;
    options.promiscuous = !args.no_promiscuous;
    options.direction = match args.direction {
        Way::In => Direction::In,
        Way::Out => Direction::Out,
        Way::Inout => Direction::Unknown,
    };
    options.hardware = hardware;
    options.filter = match args.filter() {
        Some(text) => {
            let link_type = packet::link_type(interface).map_err(tap_failure)?;
            let filter = Filter::compile(&text, Some(interface), link_type, options.snap_length);
            Some(filter.map_err(said)?)
        }
        None => None,
    };
    Ok(Box::new(PacketTap::open(&options).map_err(tap_failure)?))
}

fn tap_failure(why: TapError) -> Failure {
    Failure::Said(why.to_string())
}
