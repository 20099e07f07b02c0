//! The time, how well it is known, and how long a bit of work took.
//!
//! `cargo run --release -p truechimer --example now [PAGE]`

use std::error::Error;
use std::process::ExitCode;

use truechimer::Clock;

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
    let clock = match std::env::args_os().nth(1) {
        Some(page) => Clock::open_at(page)?,
        None => Clock::open()?,
    };

    // The time, as Unix time: true time is within the bound of it.
    let now = clock.now()?;
    let nanos = now.utc().unix_nanos();
    print!("{}.{:09} ", nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    match now.bound() {
        Some(bound) => println!("± {bound} ({})", now.status),
        None => println!("({}: nothing is promised)", now.status),
    }

    // How long something took, by the difference clock.
    let start = clock.moment()?;
    let sum: u64 = std::hint::black_box(0..1_000_000u64).sum();
    let took = clock.elapsed(start, clock.moment()?)?;
    println!("adding up to {sum} took {} ± {}", took.span, took.bound);

    // When something was, asked after the fact.
    let begun = clock.time_of(start)?;
    println!("and began {} after the first reading", begun.best - now.best);
    Ok(())
}
