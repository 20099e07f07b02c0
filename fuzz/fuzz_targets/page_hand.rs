//! The words of a hand in a clock page, as anybody may have left them there: those of a good hand
//! with some replaced.
#![no_main]

use truechimer_time::{
    BootId, Count, CountSpan, CounterId, CounterKind, Epoch, Instant, Leap, Leaps, Period, Rate,
    Span,
};
use truechimer_timehands::{
    ByRaw, Device, Glance, Hand, Made, Packed, Status, WORDS, Word, pack, unpack,
};

/// Numbers out of the fuzzer's bytes, zeros when they are used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            self.0.split_first().map_or(0, |(byte, rest)| {
                self.0 = rest;
                *byte
            })
        })
    }

    fn span(&mut self) -> Span {
        Span(i128::from_le_bytes(self.bytes()) & i128::MAX)
    }

    fn leap(&mut self) -> Option<Leap> {
        let step = [0, 1, -1][usize::from(self.byte()) % 3];
        (step != 0).then(|| Leap { at: self.word() as i64, step })
    }

    fn device(&mut self, period: Period) -> Option<Device> {
        let (bits, error) = (u32::from(self.byte() % 65), self.word() as i64);
        let by_raw = ByRaw {
            period: period.scaled(Rate::from_ppb(self.word() as i64 % 9_000_000)),
            error: Rate::from_ppb(error.rem_euclid(10_000_000)),
            pair: CountSpan(self.byte().into()),
        };
        (bits > 0).then_some(Device { bits, by_raw: (error & 1 == 1).then_some(by_raw) })
    }

    fn hand(&mut self) -> Hand {
        let period = Period::from_parts(self.word() | 1 << 63, self.byte() & 63);
        let period = period.unwrap_or(Period::NANOSECOND);
        Hand {
            counter: CounterId {
                kind: CounterKind::from_u8(self.byte()).unwrap_or(CounterKind::Tsc),
                boot: BootId(self.bytes()),
                epoch: Epoch(self.word() as u32),
            },
            base: Count(self.word()),
            time: Instant::new(self.word() as i64 % (1 << 40), self.word()),
            period,
            difference: period.scaled(Rate::from_ppb(self.word() as i64 % 9_000_000)),
            difference_error: Rate(self.word() as i64 & i64::MAX),
            path_bound: self.span(),
            statistical_bound: self.span(),
            disputed: Span(i128::from(self.byte()) << 32),
            growth: Rate(self.word() as i64 & i64::MAX),
            imbalance: Span::ZERO,
            likely: None,
            status: Status::from_u8(self.byte()).unwrap_or_default(),
            leaps: Leaps {
                tai_offset: self.word() as i32,
                known: self.byte() & 1 == 1,
                last: self.leap(),
                next: self.leap(),
            },
            void_after: Count(self.word()),
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let (replaced, count, heartbeat) = (input.byte() % 4, Count(input.word()), input.word());
    let made = Made {
        count: Count(input.word()),
        monotonic_ns: input.word() as i64,
        raw_ns: input.word() as i64,
        suspended_ns: input.word() as i64,
        device: None,
    };
    let hand = input.hand();
    let made = Made { device: input.device(hand.period), ..made };
    let mut words: Packed = pack(&hand, &made);
    for _ in 0..replaced {
        words[usize::from(input.byte()) % WORDS] = input.word();
    }

    // Whatever the words, a glance at them does not panic.
    let cells: [Word; WORDS] = words.map(Word::new);
    let glance = Glance(&cells, None);
    let _ =
        (glance.stands_at(count, heartbeat), glance.status(), glance.elapsed(count - made.count));
    let (time, bound) = glance.at(count);

    let Ok((hand, made)) = unpack(&words) else { return };
    // Words that are a hand go back to the same hand.
    assert_eq!(unpack(&pack(&hand, &made)), Ok((hand, made)));
    if let Some(Device { by_raw: Some(by_raw), .. }) = made.device
        && let Some((_, error)) = by_raw.count(&made, heartbeat as i64)
    {
        assert!(error >= by_raw.pair);
    }
    assert!(!hand.bound().is_negative() && !hand.bound_at(count).is_negative());
    let _ = hand.leaps.utc(hand.time_at(count));
    // The short way and the long way tell the same, as far as the short way is meant for.
    let near = hand.period.span(count - hand.base).abs() < Span::from_secs(1 << 32);
    if near && hand.status.bound_holds() {
        assert_eq!(time, hand.time_at(count));
        assert!(bound >= hand.bound_at(count), "{bound:?} {:?}", hand.bound_at(count));
    }
});
