//! Times worked out anew by whatever a capture file and a replay log say: no panic, and no bound
//! below zero.
#![no_main]

use truechimer_capture::convert::{Change, Continuity, Identity, Used};
use truechimer_capture::restamp::{Hands, Recorded, Restamper};
use truechimer_capture::{Counted, Quality};
use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate,
    Span,
};
use truechimer_timehands::{Hand, Made, Status};

/// Numbers out of the fuzzer's bytes, zeros when they are used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            self.0.split_first().map_or(0, |(byte, rest)| {
                self.0 = rest;
                *byte
            })
        })
    }

    fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn word(&mut self) -> u64 {
        // Often small, so that things are near each other.
        let shift = self.byte() & 63;
        u64::from_le_bytes(self.bytes()) >> shift
    }

    fn long(&mut self) -> i128 {
        let shift = self.byte() & 127;
        i128::from_le_bytes(self.bytes()) >> shift
    }

    fn leap(&mut self) -> Option<Leap> {
        (self.byte() & 1 == 1).then(|| Leap { at: self.word() as i64, step: self.byte() as i8 })
    }

    fn period(&mut self) -> Period {
        Period::from_parts(self.word() | 1 << 63, self.byte() & 63).unwrap_or(Period::NANOSECOND)
    }

    fn counter(&mut self) -> Identity {
        Identity {
            kind: CounterKind::Tsc,
            boot: BootId([self.byte() & 1; 16]),
            period: self.period(),
            resolution: CountSpan(self.word() as i64),
        }
    }

    fn hand(&mut self) -> Hand {
        Hand {
            counter: CounterId {
                kind: CounterKind::Tsc,
                boot: BootId([self.byte() & 1; 16]),
                epoch: Epoch(self.byte().into()),
            },
            base: Count(self.word()),
            time: Instant(self.long()),
            period: self.period(),
            difference: self.period(),
            difference_error: Rate(self.word() as i64),
            path_bound: Span(self.long()),
            statistical_bound: Span(self.long()),
            disputed: Span(self.long()),
            growth: Rate(self.word() as i64),
            imbalance: Span::ZERO,
            likely: None,
            status: Status::from_u8(self.byte() & 3).unwrap_or_default(),
            leaps: Leaps {
                tai_offset: self.word() as i32,
                known: self.byte() & 1 == 1,
                last: self.leap(),
                next: self.leap(),
            },
            void_after: Count(self.word()),
        }
    }

    fn change(&mut self) -> Change {
        let used = self.byte() & 3 != 0;
        Change {
            at: Count(self.word()),
            counter: self.counter(),
            epoch: Epoch(self.byte().into()),
            status: Status::from_u8(self.byte()),
            reason: None,
            hand: used.then(|| Used {
                generation: self.word(),
                hand: self.hand(),
                made: Made {
                    count: Count(self.word()),
                    monotonic_ns: self.word() as i64,
                    raw_ns: self.word() as i64,
                    suspended_ns: self.word() as i64,
                    device: None,
                },
            }),
            continuity: Continuity {
                count: Count(self.word()),
                raw_ns: self.word() as i64,
                monotonic_ns: self.word() as i64,
                suspended_ns: self.word() as i64,
                width: CountSpan(self.word() as i64),
            },
        }
    }

    fn recorded(&mut self) -> Recorded {
        let counted = self.byte() & 3 != 0;
        Recorded {
            counted: counted.then(|| Counted {
                count: Count(self.word()),
                error: CountSpan(self.word() as i64),
                epoch: Epoch(self.byte().into()),
            }),
            unix_ns: self.word() as i64,
            quality: [Quality::Bounded, Quality::Unsynchronised, Quality::Uncounted]
                [usize::from(self.byte()) % 3],
            generation: self.word(),
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // The first byte says how much of the rest is a log.
    let Some((&share, rest)) = bytes.split_first() else { return };
    let (log, rest) = rest.split_at(rest.len() * usize::from(share & 7) / 8);
    let mut input = Input(rest);
    let many = input.byte() % 8;
    let changes: Vec<_> = (0..many).map(|_| input.change()).collect();
    let packets: Vec<_> = (0..8).map(|_| input.recorded()).collect();
    let counter = changes.first().map_or_else(|| input.counter(), |change| change.counter);

    let counts = packets.iter().filter_map(|packet| packet.counted).map(|counted| counted.count);
    let (first, last) =
        (counts.clone().next().unwrap_or_default(), counts.last().unwrap_or_default());
    let mut hands = Hands::new(counter, first, last);
    changes.iter().for_each(|change| hands.recorded(change));
    let _ = hands.log(log, "log").map_err(|why| why.to_string());
    for mut restamper in [Restamper::recorded(), Restamper::best(hands)] {
        let mut changes = changes.iter();
        for packet in &packets {
            if let Some(change) = changes.next() {
                restamper.change(change);
            }
            let stamped = restamper.stamp(packet);
            assert_eq!(stamped.bound.is_some(), stamped.quality == Quality::Bounded);
            let _ = stamped.bound.and_then(truechimer_capture::sink::bound_ns);
        }
        assert_eq!(restamper.report().packets, packets.len() as u64);
    }
    // What a file says comes back from it, to the last bit.
    for change in &changes {
        let json = serde_json::to_string(change).expect("plain numbers");
        assert_eq!(serde_json::from_str::<Change>(&json).ok().as_ref(), Some(change));
    }
});
