//! Opens every counter, reads each for a while against `CLOCK_MONOTONIC_RAW`, and says what it is.
//!
//!     cargo run -p truechimer-counter --example counters [SECONDS [SLEEP]]
//!
//! It reads every second for SECONDS (5), and then not for SLEEP seconds (0): long enough, and a
//! narrow counter has lapsed.

use std::thread;
use std::time::Duration;

use truechimer_counter::{
    Choice, Counter, agreement, clocksource, counters, hpet, nominal, pm_timer, resolution,
};

fn main() {
    let mut seconds = std::env::args().skip(1).map(|word| word.parse::<u64>().unwrap_or(5));
    let (watch, sleep) = (seconds.next().unwrap_or(5), seconds.next().unwrap_or(0));
    println!("clocksource {}", clocksource().unwrap_or_default());
    println!("hpet {:x?}", hpet());
    println!("pm-timer {:?}", pm_timer());
    let Ok(raw) = Counter::open(Choice::Raw) else { return };
    for (choice, counter) in counters() {
        match counter {
            Ok(counter) => look(choice, counter, raw, watch, sleep),
            Err(why) => println!("{choice}: {why}"),
        }
    }
}

fn look(choice: Choice, counter: Counter, raw: Counter, watch: u64, sleep: u64) {
    println!("{choice}: {}, {} bits, by {}", counter.description(), counter.bits(), counter.cost());
    match nominal(counter) {
        Ok(nominal) => println!(
            "{choice}: {} Hz ± {} ppm ({:?}), step {}",
            nominal.period.hz(),
            nominal.error.as_ppt() / 1_000_000,
            nominal.source,
            resolution(counter).0
        ),
        Err(why) => println!("{choice}: {why}"),
    }
    match agreement(counter) {
        Ok(all) => println!(
            "{choice}: {} other CPUs, apart by {} to {} counts",
            all.cpus.len(),
            all.range().0.0,
            all.range().1.0
        ),
        Err(why) => println!("{choice}: {why}"),
    }
    let (outer, start, inner) = (raw.read(), counter.read(), raw.read());
    for _ in 0..watch {
        thread::sleep(Duration::from_secs(1));
        let _ = counter.read();
    }
    let kept = counter.keep();
    let (ended, counted, began) =
        ((raw.read() - inner).0, (counter.read() - start).0, (raw.read() - outer).0);
    println!(
        "{choice}: {counted} counts in {ended} to {began} ns, {:.6} MHz, {:.1} roll-overs, {} lapses",
        counted as f64 * 2000.0 / (began + ended) as f64,
        counted as f64 / 2f64.powi(counter.bits() as i32),
        counter.lapses()
    );
    if let (Some(kept), 1..) = (kept, sleep) {
        thread::sleep(Duration::from_secs(sleep));
        match counter.read_from(&kept) {
            Ok(count) => println!("{choice}: continued after {} counts", (count - kept.wide).0),
            Err(why) => println!("{choice}: {why}"),
        }
        let _ = counter.read();
        println!("{choice}: {} lapses after {sleep} s", counter.lapses());
    }
}
