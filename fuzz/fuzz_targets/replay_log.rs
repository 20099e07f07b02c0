//! A replay log: any bytes, by themselves or after a good beginning.
#![no_main]

use truechimer_engine::{Config, SourceConfig, Start};
use truechimer_estimators::PUBLISHED;
use truechimer_replay::{Options, repeat, verify};
use truechimer_time::{BootId, Count, CounterId, CounterKind, Epoch, Period};

/// The first two lines of a log.
fn beginning() -> String {
    let start = Start::new(
        Count(1_000_000_000),
        CounterId { kind: CounterKind::Simulated, boot: BootId::default(), epoch: Epoch(0) },
        Period::NANOSECOND,
        [1; 32],
    );
    let config = Config { sources: vec![SourceConfig::new("192.0.2.1")], ..Config::default() };
    // As text at once: a `serde_json::Value` holds no number of 128 bits.
    let start = serde_json::to_string(&start).expect("plain numbers");
    let config = serde_json::to_string(&config).expect("plain numbers");
    format!(
        "{{\"truechimer-replay\":3,\"version\":\"0\"}}\n{{\"start\":{start},\"config\":{config}}}\n"
    )
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut log = Vec::new();
    if bytes.first().is_some_and(|byte| byte & 1 == 0) {
        log.extend(beginning().into_bytes());
    }
    log.extend(bytes);
    let plain = verify(&*log);
    let watched = repeat(&*log, Options::default(), &mut |_| Ok(()));
    // Whoever watches changes nothing.
    match (plain, watched) {
        (Ok(a), Ok(b)) => assert_eq!((a.events, a.actions), (b.events, b.actions)),
        (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
        (a, b) => panic!("{a:?} {b:?}"),
    }
    let other = Options { method: Some(PUBLISHED.method()) };
    let _ = repeat(&*log, other, &mut |_| Ok(()));
});
