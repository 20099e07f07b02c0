//! RTP as tshark sees it.

use std::io::Write;
use std::process::{Command, Stdio};

use truechimer_qos::{At, Engine, Options, Report, RtpChoice};
use truechimer_testbed::lacking::{Lacking, or_skip};

use crate::frames::{observe, rtp, udp};

/// A capture of these frames, in the older format with nanoseconds.
fn pcap(frames: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (ns, frame) in frames {
        let length = frame.len() as u32;
        for word in [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// The rows of 'tshark -z rtp,streams': numbers of packets and lost ones, mean and greatest jitter.
fn streams(file: &[u8]) -> Result<Vec<(u64, i64, f64, f64)>, Lacking> {
    let lacking = |why: String| Lacking(format!("tshark: {why}"));
    let mut child = Command::new("tshark")
        .args(["-n", "-q", "-d", "udp.port==5004,rtp", "-z", "rtp,streams", "-r", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| lacking(why.to_string()))?;
    let mut input = child.stdin.take().expect("piped");
    input.write_all(file).map_err(|why| lacking(why.to_string()))?;
    drop(input);
    let output = child.wait_with_output().map_err(|why| lacking(why.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.contains("0x")) {
        // …, SSRC, payload, packets, lost, (share), delta ×3, jitter ×3
        let cells: Vec<&str> = line.split_whitespace().collect();
        let at = cells.iter().position(|cell| cell.starts_with("0x")).expect("SSRC");
        let number = |n: usize| cells[at + n].parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
        rows.push((number(2) as u64, number(3) as i64, number(9), number(10)));
    }
    assert!(!rows.is_empty(), "no streams in: {text}");
    Ok(rows)
}

#[test]
fn packets_losses_and_jitter_as_tshark_has_them() {
    let mut frames = Vec::new();
    let mut random = 12_345u64;
    for n in 0..500u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if n % 37 == 5 {
            continue;
        }
        let late = (random >> 33) as i64 % 3_000_000;
        let payload =
            rtp(0, 65_400u16.wrapping_add(n as u16), 4_294_960_000u32.wrapping_add(160 * n), 7);
        let ns = 1_700_000_000_000_000_000 + i64::from(n) * 20_000_000 + late;
        frames.push((ns, udp(1, 2, (6000, 5004), n as u16, &payload)));
    }
    let Some(theirs) = or_skip(streams(&pcap(&frames))) else { return };
    let mut engine =
        Engine::new(Options { rtp: RtpChoice::Ports(vec![5004]), ..Options::default() });
    for (ns, frame) in &frames {
        observe(&mut engine, 0, At::exact(*ns, None), frame);
    }
    engine.finish();
    let report = Report::of(&engine, &[]);
    let seen = report.flows[0].seen[0].as_ref().expect("seen");
    let (rtp, numbers) = (seen.rtp.as_ref().expect("RTP"), seen.numbers.as_ref().expect("numbers"));
    let (packets, lost, mean, max) = theirs[0];
    assert_eq!((seen.packets, numbers.loss.lost as i64), (packets, lost));
    // In ms to three digits; the mean begins with the first packet here, and there.
    assert!((rtp.jitter_max_ns.expect("jitter") / 1e6 - max).abs() < 0.0011, "{rtp:?} {theirs:?}");
    assert!((rtp.jitter_mean_ns.expect("jitter") / 1e6 - mean).abs() < 0.01, "{rtp:?} {theirs:?}");
}
