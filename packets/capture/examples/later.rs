//! Captures for a while and keeps nothing but counts; asks afterwards when the packets came, and
//! how long it was from the first to the last.
//!
//! `cargo run --release -p truechimer-capture --example later -- INTERFACE [SECONDS [PAGE]]`
//!
//! Time takes a clock: `truechimer run` or `truechimer demo`.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use truechimer_capture::convert::{self, Converter, Search};
use truechimer_capture::packet::{PacketOptions, PacketTap};
use truechimer_capture::{Counted, Next, Tap};
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
    let seconds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let search = arguments.next().map_or(Search::Usual, |page| Search::At(page.into()));

    let clock = convert::clock(&search)?.ok_or("no clock: start `truechimer run` first")?;
    let counter = convert::choose(Some(&clock))?;
    let mut converter = Converter::new(counter, Some(clock))?;
    converter.pair(realtime_pair(counter, 8));
    let mut tap = PacketTap::open(&PacketOptions::new(&interface))?;

    let mut kept: Vec<Counted> = Vec::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let next = tap.next(Duration::from_millis(100))?;
        if let Next::Gone = next {
            return Err("the interface is gone".into());
        }
        converter.pair(realtime_pair(counter, 8));
        converter.refresh();
        if let Next::Chunk(chunk) = next {
            // 24 bytes a packet, and nothing that a later correction of the clock could make wrong.
            chunk.for_each(&mut |packet| kept.extend(converter.convert(packet.stamp).counted));
        }
    }

    let clock = convert::clock(&search)?.ok_or("the clock is gone")?;
    for counted in kept.iter().take(10) {
        match convert::time_of(&clock, counter.kind(), counted) {
            Ok(stamped) => println!(
                "{}  {}.{:09} ± {}",
                counted.count.0,
                stamped.unix_ns.div_euclid(1_000_000_000),
                stamped.unix_ns.rem_euclid(1_000_000_000),
                stamped.bound.unwrap_or_default()
            ),
            Err(why) => println!("{}  no time: {why}", counted.count.0),
        }
    }
    // Counts of two epochs do not compare.
    let epoch = kept.last().map(|last| last.epoch);
    kept.retain(|counted| Some(counted.epoch) == epoch);
    if let (Some(first), Some(last)) = (kept.first(), kept.last()) {
        let hand = clock.view()?.hand;
        let (span, error) = hand.elapsed(last.count - first.count);
        let error = error + hand.elapsed(first.error + last.error).0;
        println!("{} packets in {span} ± {error}", kept.len());
    }
    Ok(())
}
