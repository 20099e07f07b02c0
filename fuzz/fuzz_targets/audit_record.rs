//! The audit record: any bytes are lines that fit, faults or no record, by themselves or behind a good
//! beginning; and what is read is summed up.
#![no_main]

use truechimer_audit::{Account, Hash, Scan, Time, file_name};

/// A header with its hash, as a daemon writes it.
fn beginning() -> Vec<u8> {
    let zeros = "0".repeat(64);
    let content = format!(
        "{{\"record\":{{\"format\":1,\"file\":1,\"version\":\"0\",\"previous\":\"{zeros}\"}}"
    );
    let hash = Hash::none().next(content.as_bytes());
    format!("{content},\"hash\":\"{hash}\"}}\n").into_bytes()
}

/// Bytes as lines, each of which gets a hash that fits.
fn chained(bytes: &[u8]) -> Vec<u8> {
    let mut text = beginning();
    let mut scan = Scan::new(None);
    let _ = scan.file(1, &text, true, &mut |_| {});
    let mut last = scan.finish().last;
    for line in bytes.split(|b| *b == b'\n') {
        last = last.next(line);
        text.extend_from_slice(line);
        text.extend_from_slice(format!(",\"hash\":\"{last}\"}}\n").as_bytes());
    }
    text
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    assert_eq!(truechimer_audit::file_number(&file_name(7)), Some(7));
    for text in [bytes.to_vec(), [&beginning(), bytes].concat(), chained(bytes)] {
        let (from, to) = (Time(1_790_000_000_000_000_000), Time(1_800_000_000_000_000_000));
        let mut account = Account::new(from, to);
        let mut scan = Scan::new(None);
        if scan.file(1, &text, true, &mut |next| account.read(next)).is_err() {
            continue;
        }
        let chain = scan.finish();
        assert!(chain.faults.len() as u64 <= chain.fault_count);
        assert!(account.bounded_ns() <= account.recorded_ns());
        let silent: i64 = account.gaps().iter().map(|gap| gap.length_ns()).sum();
        assert_eq!(account.recorded_ns() + silent, account.length_ns());
        let share = account.shares(&[1_000])[0];
        assert!(share.within_ns <= account.bounded_ns());
        let _ =
            (account.worst(), account.percentile_ns(99), account.by_status(), account.sources());
    }
});
