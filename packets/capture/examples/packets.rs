//! Captures on an interface and prints of each packet the count at which it was stamped, and the
//! time with its bound.
//!
//! `cargo run --release -p truechimer-capture --example packets -- INTERFACE [PACKETS [PAGE]]`
//!
//! This is all that it takes without threads, files and losses counted; the `pipeline` module has
//! those.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use truechimer_capture::convert::{self, Converter, Search};
use truechimer_capture::packet::{PacketOptions, PacketTap};
use truechimer_capture::{Next, Tap};
use truechimer_counter::realtime_pair;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let interface = arguments.next().ok_or("which interface?")?;
    let wanted: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let search = arguments.next().map_or(Search::Usual, |page| Search::At(page.into()));

    // Without a clock the counts are as good, and the time is the system clock's.
    let clock = convert::clock(&search)?;
    let counter = convert::choose(clock.as_ref())?;
    let mut converter = Converter::new(counter, clock)?.looking(search);

    // One pair from before the first packet.
    converter.pair(realtime_pair(counter, 8));
    let mut tap = PacketTap::open(&PacketOptions::new(&interface))?;
    let mut printed = 0;
    while printed < wanted {
        let chunk = match tap.next(Duration::from_millis(100))? {
            Next::Chunk(chunk) => Some(chunk),
            Next::Gone => return Err("the interface is gone".into()),
            _ => None,
        };
        // And one after all that the tap has given, before that is converted.
        converter.pair(realtime_pair(counter, 8));
        if let Some(change) = converter.refresh() {
            match (change.status, change.reason) {
                (Some(status), None) => println!("# the clock is {status}"),
                (_, reason) => println!("# no bound: {}", reason.unwrap_or_default()),
            }
        }
        let Some(chunk) = chunk else { continue };
        chunk.for_each(&mut |packet| {
            let stamped = converter.convert(packet.stamp);
            let count = stamped.counted.map_or("-".to_owned(), |counted| {
                format!("{} ± {}", counted.count.0, counted.error.0)
            });
            let (s, ns) = (
                stamped.unix_ns.div_euclid(1_000_000_000),
                stamped.unix_ns.rem_euclid(1_000_000_000),
            );
            let bound = stamped
                .bound
                .map_or("by the system clock".to_owned(), |bound| format!("± {bound}"));
            println!("{count}  {s}.{ns:09} {bound}  {} bytes", packet.length);
            printed += 1;
        });
    }
    Ok(())
}
