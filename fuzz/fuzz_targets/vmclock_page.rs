//! The page of a vmclock device, as any hypervisor may have left it, and in the middle of a change.
#![no_main]

use std::cell::Cell;

use truechimer_counter::vmclock::{Fault, Snapshot, WORDS, parse, settled, snapshot};
use truechimer_time::{Rate, Span};

/// A good beginning: magic, size and version.
const BEGINS: [u8; 10] = [b'V', b'C', b'L', b'K', 0, 16, 0, 0, 1, 0];

fn sane(found: &Snapshot) {
    let Some(time) = found.time else { return };
    assert!(time.error.is_none_or(|error| error >= Span::ZERO));
    assert!(time.deviation.is_none_or(|error| error >= Span::ZERO));
    assert!(time.period_error.is_none_or(|error| error >= Rate::ZERO));
    assert!(time.period_deviation.is_none_or(|error| error >= Rate::ZERO));
    assert!(time.time.secs() < 1 << 40);
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(found) = parse(bytes) {
        sane(&found);
    }
    // Behind a good beginning, as long as a page is.
    let mut page = bytes.to_vec();
    page.resize(4096, 0);
    page[..BEGINS.len()].copy_from_slice(&BEGINS);
    let whole = parse(&page);
    // By words, as a device is read, they say likewise.
    let word = |at: usize| page[at * 8..][..8].try_into().map_or(0, u64::from_le_bytes);
    match (settled(word), &whole) {
        (Ok(words), whole) => {
            assert_eq!(snapshot(&words), *whole);
            let _ = whole.as_ref().map(sane);
        }
        (Err(fault), whole) => assert_eq!((fault, whole), (Fault::Unsettled, &Err(fault))),
    }
    // Two pages, one after the other: what is read is of one of them.
    let (looks, other) = (Cell::new(0usize), bytes.first().map_or(0, |at| usize::from(*at)));
    let changing = |at: usize| {
        looks.set(looks.get() + 1);
        match (looks.get() > other, at) {
            (false, 1) => 2 << 32,
            (false, _) => 7,
            (true, 1) => 4 << 32,
            (true, _) => 9,
        }
    };
    let words = settled(changing).unwrap();
    let of = if words[1] == 2 << 32 { 7 } else { 9 };
    assert!((0..WORDS).all(|at| at == 1 || words[at] == of), "{words:?}");
});
