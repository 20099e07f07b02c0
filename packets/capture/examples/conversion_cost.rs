//! Cost per packet of turning stamps into counts and times: ten million made-up stamps between
//! pairs of this machine's own clocks, by a clock page of its own.
//!
//! `cargo run --release -p truechimer-capture --example conversion_cost`

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant as HostInstant};

use truechimer::Clock;
use truechimer_capture::convert::{Converter, DevicePair};
use truechimer_capture::{KernelClock, Quality, RawStamp};
use truechimer_counter::{
    Choice, Counter, HostPair, boot_id, host_reading, nominal, realtime_pair,
};
use truechimer_time::{CounterId, Epoch, Instant, Leaps, Rate, Span};
use truechimer_timehands::{Hand, Made, PageWriter};

/// Pairs, and packets between two of them.
const PAIRS: usize = 1_000;
const PACKETS: i64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let counter = Counter::open(Choice::Auto)?;
    let directory = std::env::temp_dir().join(format!("conversion-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let done = measure(counter, &directory.join("clock"));
    std::fs::remove_dir_all(&directory)?;
    done
}

fn measure(counter: Counter, page: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let mut writer = PageWriter::create(page)?;
    let (hand, made) = hand(counter)?;
    writer.publish(&hand, &made);
    let pairs: Vec<HostPair> = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_micros(950));
        realtime_pair(counter, 8)
    })
    .take(PAIRS)
    .collect();

    type Make = fn(&HostPair, &HostPair, i64) -> RawStamp;
    let kinds: [(&str, Make); 4] = [
        ("CLOCK_REALTIME", |one, other, n| {
            let on = (other.unix_ns - one.unix_ns) * n / PACKETS;
            RawStamp::Clock(KernelClock::Realtime, one.unix_ns + on)
        }),
        ("CLOCK_MONOTONIC", |one, other, n| {
            let on = (other.monotonic_ns - one.monotonic_ns) * n / PACKETS;
            RawStamp::Clock(KernelClock::Monotonic, one.monotonic_ns + on)
        }),
        ("the card's clock", |one, other, n| {
            let on = (other.unix_ns - one.unix_ns) * n / PACKETS;
            RawStamp::Clock(KernelClock::Device, one.unix_ns + on)
        }),
        ("a count", |one, other, n| {
            let on = (other.before - one.before).0 * n / PACKETS;
            RawStamp::Count(one.before + truechimer_time::CountSpan(on))
        }),
    ];
    println!("{} packets, by {}", PAIRS as i64 * PACKETS, counter.description());
    for clock in [true, false] {
        for (name, make) in kinds {
            let opened = if clock { Some(Clock::open_at(page)?) } else { None };
            let mut converter = Converter::new(counter, opened)?;
            let (mut spent, mut bounded) = (Vec::with_capacity(PAIRS), 0u64);
            let mut stamps = Vec::with_capacity(PACKETS as usize);
            if let Some(first) = pairs.first() {
                let HostPair { before, unix_ns: device_ns, after, .. } = *first;
                converter.pair(*first);
                converter.device_pair(DevicePair { before, device_ns, after });
            }
            for pair in pairs.windows(2) {
                let [one, other] = pair else { continue };
                stamps.clear();
                stamps.extend((0..PACKETS).map(|n| make(one, other, n)));
                let start = HostInstant::now();
                let HostPair { before, unix_ns: device_ns, after, .. } = *other;
                converter.pair(*other);
                converter.device_pair(DevicePair { before, device_ns, after });
                converter.refresh();
                for stamp in &stamps {
                    let stamped = black_box(converter.convert(*black_box(stamp)));
                    bounded += u64::from(stamped.quality == Quality::Bounded);
                }
                spent.push(start.elapsed());
            }
            let packets = (PAIRS as i64 - 1) * PACKETS;
            // Of the batches, as others may be using this processor.
            spent.sort_unstable();
            let at = |percent: usize| {
                let spent = spent.get(spent.len() * percent / 100).copied().unwrap_or_default();
                spent.as_nanos() as f64 / PACKETS as f64
            };
            println!(
                "{:>5.1} ns a packet ({:.1} to {:.1}), {name}, {}: {:.1} % bounded, {:.3} % the long way",
                at(50),
                at(5),
                at(95),
                if clock { "with a clock" } else { "without" },
                bounded as f64 * 100.0 / packets as f64,
                converter.slow() as f64 * 100.0 / packets as f64,
            );
        }
    }
    Ok(())
}

fn hand(counter: Counter) -> Result<(Hand, Made), Box<dyn Error>> {
    let period = nominal(counter)?.period;
    let pair = realtime_pair(counter, 8);
    let host = host_reading(counter);
    let hand = Hand {
        difference_error: Rate::from_ppb(1_000),
        path_bound: Span::from_micros(50),
        statistical_bound: Span::from_micros(5),
        growth: Rate::from_ppb(500),
        leaps: Leaps { tai_offset: 37, known: true, last: None, next: None },
        ..Hand::exact(
            CounterId { kind: counter.kind(), boot: boot_id()?, epoch: Epoch(1) },
            pair.mid(),
            Instant::from_nanos(i128::from(pair.unix_ns) + 37_000_000_000),
            period,
            host.count + period.counts(Span::from_secs(1000)),
        )
    };
    let made = Made {
        count: host.count,
        monotonic_ns: host.monotonic_ns,
        raw_ns: host.raw_ns,
        suspended_ns: host.suspended_ns,
        device: None,
    };
    Ok((hand, made))
}
