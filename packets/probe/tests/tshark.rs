//! Packets as Wireshark's dissector of TWAMP's test packets reads them, which are laid out as STAMP's.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use std::process::Command;

use truechimer_probe::wire::{Layout, Request};
use truechimer_probe::{Access, Estimate, Reflector, Timed};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::temp;
use truechimer_time::Span;

/// 2026-06-01T00:00:00.25Z.
const SENT: i64 = 1_780_272_000_250_000_000;

/// A file of raw IP packets (libpcap's format, link type 101), each of UDP with this payload.
fn file(payloads: &[(u16, u16, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for (from, to, payload) in payloads {
        let length = 28 + payload.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        packet.extend([*from, *to, length - 20, 0].iter().flat_map(|word| word.to_be_bytes()));
        packet.extend(*payload);
        for word in [1_780_272_000, 0, u32::from(length), u32::from(length)] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

#[test]
fn tshark_reads_what_we_write() {
    let (sent, arrived) = (Timed::at_nanos(SENT, 20_000), Timed::at_nanos(SENT + 1_500_000, 9_000));
    let left = Timed::at_nanos(SENT + 1_750_000, 9_000);
    let mut request = [0; 44];
    let estimate = Estimate::at_least(sent.bound);
    Request { sequence: 77, stamp: sent.stamp().0, estimate, session: 0 }
        .write(&mut request, Layout::Open);
    let reflector = Reflector::new(Access { open: true, ..Access::default() }, &[862]);
    let from = "192.0.2.1:40000".parse().unwrap();
    let reply = reflector.answer(&request, from, Some(63), &arrived, 0).unwrap().leave(&left);
    let dir = temp::Dir::new();
    let path = dir.join("probe.pcap");
    std::fs::write(&path, file(&[(40_000, 862, &request), (862, 40_000, &reply)])).unwrap();
    let fields = [
        "seq_number",
        "timestamp",
        "error_estimate.s",
        "error_estimate.z",
        "error_estimate.scale",
        "error_estimate.multiplier",
        "receive_timestamp",
        "sender_seq_number",
        "sender_timestamp",
        "sender_ttl",
    ];
    let mut tshark = Command::new("tshark");
    tshark.env("TZ", "UTC").arg("-r").arg(&path).args(["-n", "-d", "udp.port==862,twamp.test"]);
    tshark.args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]);
    fields.iter().for_each(|field| {
        tshark.arg("-e").arg(format!("twamp.test.{field}"));
    });
    let missing = |_| Lacking("tshark is not here".into());
    let Some(output) = or_skip(tshark.output().map_err(missing)) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').collect()).collect();
    println!("{text}");
    let said =
        |row: usize, field: &str| rows[row][fields.iter().position(|f| *f == field).unwrap()];
    // Of a time's text the fraction.
    let fraction = |row, field| {
        let text = said(row, field);
        let digits = text.split('.').nth(1).unwrap_or_else(|| panic!("{field}: {text}"));
        digits.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    let truth = |set: &str| matches!(set, "1" | "True");
    // As on the wire: cut to 2⁻³² s, and shown in whole nanoseconds.
    assert_eq!((said(0, "seq_number"), fraction(0, "timestamp").as_str()), ("77", "250000000"));
    assert!(said(0, "timestamp").contains("Jun  1, 2026 00:00:00.25"), "{text}");
    assert_eq!((said(1, "seq_number"), said(1, "sender_seq_number")), ("0", "77"));
    assert_eq!(fraction(1, "sender_timestamp"), "250000000");
    for (field, ns) in [("receive_timestamp", 251_500_000u32), ("timestamp", 251_750_000)] {
        let read: u32 = fraction(1, field).parse().unwrap();
        assert!(ns - read <= 1, "{field}: {read}");
    }
    assert_eq!(said(1, "sender_ttl"), "63");
    for (row, bound) in [(0, 20_000), (1, 9_000)] {
        assert!(truth(said(row, "error_estimate.s")) && !truth(said(row, "error_estimate.z")));
        let number = |field| said(row, field).parse::<u32>().unwrap();
        let (scale, multiplier) =
            (number("error_estimate.scale"), number("error_estimate.multiplier"));
        let read = Span(i128::from(multiplier) << (32 + scale));
        let wanted = Span::from_nanos(bound);
        assert!(read >= wanted && read <= wanted + Span::from_nanos(bound / 100), "{read}");
    }
}
