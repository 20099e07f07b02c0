//! The lines of the README, as they stand there: the tests hold them together.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let clock = truechimer::Clock::open()?;
    let now = clock.now()?;
    if let Some(bound) = now.bound() {
        println!("{} ns since 1970 ± {bound}, {}", now.utc().unix_nanos(), now.status);
    }

    let start = clock.moment()?; // a raw count: as cheap as the counter
    let took = clock.elapsed(start, clock.moment()?)?; // by the difference clock
    println!("that took {} ± {}", took.span, took.bound);
    Ok(())
}
