use super::*;
use proptest::prelude::*;

const SAMPLE: ShmSample = ShmSample {
    unix_ns: 1_800_000_000_123_456_789,
    true_ns: 1_800_000_001_000_000_001,
    leap: 0,
    precision: Span(Span::from_secs(1).0 >> 20),
};

/// A segment of its own, which is removed at the end.
struct Own(Shm);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.segment.remove();
    }
}

fn own(number: i32) -> Own {
    let key = 0x7463_0000 + (std::process::id() as i32 & 0xfff) * 16 + number;
    Own(Shm::at(key, true).unwrap())
}

#[test]
fn the_fields_are_where_c_has_them() {
    // As a C compiler lays `struct shmTime` out, where time_t has 64 bits.
    if WORD == 8 {
        let places =
            [CLOCK_US, RECEIVE_S, RECEIVE_US, LEAP, PRECISION, VALID, CLOCK_NS, RECEIVE_NS];
        assert_eq!(places, [16, 24, 32, 36, 40, 48, 52, 56]);
    }
    assert_eq!(KEY.to_be_bytes(), *b"NTP0");
}

#[test]
fn a_sample_is_read_once() {
    for mode in [0, 1] {
        let mut own = own(mode);
        assert_eq!(own.0.fetch(), Ok(None), "nothing is there");
        own.0.segment.write(&bytes(&SAMPLE, mode, 2, -20));
        assert_eq!(own.0.fetch(), Ok(Some(SAMPLE)));
        assert_eq!(own.0.fetch(), Ok(None), "once only");
        // Not even if somebody says that it is valid again.
        own.0.segment.write(&bytes(&SAMPLE, mode, 2, -20));
        assert_eq!(own.0.fetch(), Ok(None));
        let next = ShmSample { unix_ns: SAMPLE.unix_ns + 1, leap: 3, ..SAMPLE };
        own.0.segment.write(&bytes(&next, mode, 4, -20));
        assert_eq!(own.0.fetch(), Ok(Some(next)));
    }
}

#[test]
fn a_writer_in_another_thread_is_never_read_half_way() {
    let own = own(2);
    let writer = Shm::at(own.0.segment.key(), true).unwrap();
    let end = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = &end;
        scope.spawn(move || {
            let mut n = 0;
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
                n = (n + 2) % 1_000_000;
                let sample = ShmSample {
                    unix_ns: i64::from(n) * 1_000_000_007,
                    true_ns: i64::from(n) * 1_000_000_007,
                    ..SAMPLE
                };
                writer.segment.replace(&bytes(&sample, 1, n - 1, -20));
            }
        });
        let mut reader = Shm::at(own.0.segment.key(), true).unwrap();
        let (mut found, mut torn) = (0, 0);
        for _ in 0..200_000 {
            if let Ok(Some(sample)) = reader.fetch() {
                found += 1;
                torn += i32::from(sample.unix_ns != sample.true_ns);
            }
            if found == 500 {
                break;
            }
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(found > 0 && torn == 0, "{torn} of {found}");
    });
}

#[test]
fn what_is_no_sample_is_refused_by_name() {
    let good = bytes(&SAMPLE, 1, 0, -20);
    let with = |at: usize, word: i32| {
        let mut bytes = good;
        bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        parse(&bytes)
    };
    assert_eq!(parse(&good), Ok(Some(SAMPLE)));
    assert_eq!(with(VALID, 0), Ok(None));
    assert_eq!(with(MODE, 2), Err(ShmError::Mode(2)));
    assert_eq!(with(MODE, -1), Err(ShmError::Mode(-1)));
    assert_eq!(with(LEAP, 4), Err(ShmError::Leap(4)));
    assert_eq!(with(PRECISION, 7), Err(ShmError::Precision(7)));
    assert_eq!(with(PRECISION, i32::MIN), Err(ShmError::Precision(i32::MIN)));
    assert_eq!(with(CLOCK_US, 1_000_000), Err(ShmError::Time));
    assert_eq!(with(CLOCK_US, -1), Err(ShmError::Time));
    assert_eq!(with(RECEIVE_US, i32::MAX), Err(ShmError::Time));
    assert_eq!(with(CLOCK_S + WORD - 4, -1), Err(ShmError::Time), "before 1970");
    // A writer that knows no nanoseconds.
    let micros = with(RECEIVE_NS, 0).unwrap().unwrap();
    assert_eq!(micros.unix_ns, SAMPLE.unix_ns / 1000 * 1000);
}

#[test]
fn one_that_others_may_write_is_not_taken_for_private() {
    let own = own(3);
    own.0.segment.set_mode(0o666);
    let why = Shm::at(own.0.segment.key(), true).unwrap_err();
    assert!(why.to_string().contains("others may write it"), "{why}");
    assert!(Shm::at(own.0.segment.key(), false).is_ok());
}

proptest! {
    #[test]
    fn no_content_panics(words in prop::collection::vec(prop_oneof![0i32..3, any::<i32>()], SIZE / 4)) {
        let mut bytes = [0; SIZE];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        if let Ok(Some(sample)) = parse(&bytes) {
            prop_assert!(sample.leap <= 3 && sample.unix_ns >= 0 && sample.true_ns >= 0);
            prop_assert!(sample.precision > Span::ZERO && sample.precision <= Span::from_secs(64));
        }
    }

    #[test]
    fn any_sample_comes_back(
        unix_ns in 0i64..8_000_000_000_000_000_000,
        true_ns in 0i64..8_000_000_000_000_000_000,
        (leap, power, mode) in (0u8..4, -40i32..=6, 0i32..2),
    ) {
        let precision = Span(Span::from_secs(64).0 >> (6 - power));
        let sample = ShmSample { unix_ns, true_ns, leap, precision };
        prop_assert_eq!(parse(&bytes(&sample, mode, 0, power)), Ok(Some(sample)));
    }
}
