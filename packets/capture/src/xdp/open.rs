//! The best way to take packets off an interface by XDP.

use super::attach::Place;
use super::copy::XdpCopyTap;
use super::queue::Copies;
use super::tap::XdpTap;
use super::{Mode, XdpOptions, guard, queues};
use crate::tap::{Tap, TapError};

/// Opens a tap that takes packets away from the host, by whatever costs least:
///
/// * AF_XDP where the driver writes into our memory itself,
/// * else, with one queue, a program that copies packets into a BPF ring buffer and drops them:
///   where there is a copy anyway, that one costs half of AF_XDP's (with the stamp 175 ns against
///   280 ns for 64-byte packets, those being made included),
/// * else AF_XDP with copies, where every queue has a ring of its own.
///
/// # Errors
/// As [`XdpTap::open`].
pub fn open(options: &XdpOptions) -> Result<Box<dyn Tap>, TapError> {
    let place = Place::find(&options.interface)?;
    guard::check(&place.link, options.take)?;
    let numbers = queues::wanted(options, &place)?;
    let there = queues::of(&place.asker, &options.interface, place.link.index);
    if let &[queue] = numbers.as_slice()
        && there.contains(&queue)
    {
        if options.zero_copy
            && options.mode != Mode::Generic
            && let Ok(tap) = XdpTap::at(&place, options, &numbers, Copies::Refused)
        {
            return Ok(Box::new(tap));
        }
        if let Ok(tap) = XdpCopyTap::taking(&place, options, queue) {
            return Ok(Box::new(tap));
        }
    }
    Ok(Box::new(XdpTap::at(&place, options, &numbers, Copies::Allowed)?))
}
