//! Prints how long each packet takes from the driver to the program that reads it, and from the program
//! that sends it to the driver.
//!
//!     sudo cargo run -p truechimer-capture --example layers -- eth0

use std::error::Error;
use std::time::Duration;

use truechimer_capture::layers::{Layer, Layers};

fn main() -> Result<(), Box<dyn Error>> {
    let interface = std::env::args().nth(1).ok_or("usage: layers INTERFACE")?;
    let mut layers = Layers::open(&interface)?;
    loop {
        layers.next(Duration::from_secs(1), |journey| {
            print!("{:5} bytes, process {:7}:", journey.length, journey.pid);
            for pair in Layer::ALL.windows(2) {
                let [below, above] = pair else { continue };
                if let (Some(from), Some(to)) = (journey.at(*below), journey.at(*above)) {
                    print!("  {} {} ns", above.name(), to.wrapping_sub(from).cast_signed());
                }
            }
            println!();
        })?;
    }
}
