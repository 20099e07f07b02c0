//! Captures of others, made here, so that true time is known.

use serde_json::Value;
use truechimer_pcapng::{Frames, write};

use super::{Files, json, restamp};

/// 2026-11-27, Unix ns.
const START: i64 = 1_795_737_600_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// An interface's clock, and the packets that it saw: true time and bytes.
struct Interface {
    name: &'static str,
    /// Digits of its times after the second.
    digits: u8,
    /// Reading at a true time.
    shows: fn(i64) -> i64,
    seen: Vec<(i64, Vec<u8>)>,
}

fn tai(true_ns: i64) -> i64 {
    true_ns + 37 * SECOND
}

/// Free since the card began to run; 80 ppm fast.
fn free(true_ns: i64) -> i64 {
    let since = true_ns - START;
    5_000 * SECOND + since + since * 8 / 100_000
}

fn ethernet(from: u8, to: u8, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xff; 6];
    out.extend([2, 0, 0, 0, 0, from, 8, 0, 0x45, 0]);
    out.extend((28 + payload.len() as u16).to_be_bytes());
    out.extend([0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, from, 192, 0, 2, to]);
    for word in [ports[0], ports[1], 8 + payload.len() as u16, 0] {
        out.extend(word.to_be_bytes());
    }
    out.extend(payload);
    out
}

/// A request, and the reply of a server whose clock is true; dispersion and precision 2⁻¹⁶ s.
fn exchange(received: i64, sent: i64, nonce: u64) -> [Vec<u8>; 2] {
    exchange_with(2, [received, sent], nonce)
}

fn exchange_with(server: u8, [received, sent]: [i64; 2], nonce: u64) -> [Vec<u8>; 2] {
    let stamp = |ns: i64| {
        let seconds = (ns / SECOND + 2_208_988_800) as u64;
        (seconds << 32 | (((ns % SECOND) as u64) << 32).div_ceil(SECOND as u64)).to_be_bytes()
    };
    let mut request = vec![0x23, 0, 6, 0xec];
    request.resize(40, 0);
    request.extend(nonce.to_be_bytes());
    let mut reply = vec![0x24, 1, 6, 0xf0, 0, 0, 0, 0, 0, 0, 0, 1, b'T', b'R', b'U', b'E'];
    reply.resize(24, 0);
    reply.extend(nonce.to_be_bytes());
    reply.extend(stamp(received));
    reply.extend(stamp(sent));
    [ethernet(1, server, [4000, 123], &request), ethernet(server, 1, [123, 4000], &reply)]
}

/// Two minutes: one interface sees NTP every 16 s and data every second, which the others see 20 and
/// 30 µs later.
fn interfaces() -> [Interface; 3] {
    let of = |name, digits, shows| Interface { name, digits, shows, seen: Vec::new() };
    let mut all = [of("eth0", 9, |t| t), of("eth1", 9, tai), of("card", 6, free)];
    for n in 0..120 {
        let now = START + n * SECOND + 123_456_789;
        if n % 16 == 0 {
            let [request, reply] = exchange(now + 200_000, now + 210_000, n as u64 + 1);
            all[0].seen.push((now, request));
            all[0].seen.push((now + 400_000, reply));
        }
        for (interface, delay) in [(0, 0), (1, 20_000), (2, 30_000)] {
            let data = ethernet(1, 3, [7, 8], format!("number {n}").as_bytes());
            all[interface].seen.push((now + 500_000_000 + delay, data));
        }
    }
    all
}

/// The file of these interfaces, and the true times of its packets in their order.
fn pcapng(interfaces: &[Interface], path: &str) -> Vec<i64> {
    let mut bytes = Vec::new();
    write::section(&mut bytes).text(4, "a recorder").end();
    let mut all = Vec::new();
    for (number, interface) in interfaces.iter().enumerate() {
        let Interface { name, digits, shows, seen } = interface;
        write::interface_in(&mut bytes, 1, 0, *digits).text(2, name).end();
        let unit = 10i64.pow(9 - u32::from(*digits));
        all.extend(seen.iter().map(|(t, data)| (*t, shows(*t).div_euclid(unit), number, data)));
    }
    all.sort_by_key(|(true_ns, ..)| *true_ns);
    for (_, ticks, number, data) in &all {
        let length = data.len() as u32;
        write::packet(&mut bytes, *number as u32, *ticks, &[data], length).comment("kept").end();
    }
    std::fs::write(path, bytes).unwrap();
    all.iter().map(|(true_ns, ..)| *true_ns).collect()
}

/// Interface, time and bound of each packet.
fn times(path: &str) -> Vec<(u32, i64, Option<u32>)> {
    let bytes = std::fs::read(path).unwrap();
    let mut frames = Frames::new(bytes.as_slice()).unwrap();
    let mut all = Vec::new();
    while let Some(frame) = frames.next_frame().unwrap() {
        let bound = frame.record.and_then(|record| record.bound_ns);
        all.push((frame.interface, frame.unix_ns.unwrap(), bound));
    }
    all
}

fn others(summary: &Value) -> Vec<String> {
    let text = |value: &'_ Value| value.as_str().unwrap().to_owned();
    let all = summary["others"].as_array().unwrap().iter();
    all.map(|a| format!("{} {} {}", text(&a["name"]), text(&a["by"]), a["bounded"])).collect()
}

#[test]
fn all_interfaces_are_on_one_scale_with_a_bound_each() {
    let files = Files::new();
    let (from, to) = files.names();
    let truth = pcapng(&interfaces(), from);
    let summary = json(&["--json", "--apart", "50us", "-o", to, from]);
    assert_eq!(others(&summary), ["eth0 ntp 136", "eth1 shared 120", "card shared 120"]);
    assert_eq!((&summary["restamped"], &summary["foreign"]), (&376.into(), &0.into()));
    let ahead = |n: usize, end: &str| summary["others"][n][end]["ahead_ns"].as_i64().unwrap();
    assert!((ahead(1, "first") - 37 * SECOND).abs() < 10_000_000);
    for (found, true_ns) in times(to).iter().zip(&truth) {
        let (_, unix_ns, Some(bound)) = *found else { panic!("{found:?}") };
        assert!(unix_ns.abs_diff(*true_ns) <= bound.into(), "{found:?} {true_ns}");
        // Of 1100 ppm between exchanges that are 16 s apart.
        assert!(bound < 10_000_000, "{found:?}");
    }

    // Every interface says in the file how its time came about, and once only.
    let words = restamp(&["--apart", "50us", "-o", to, to]).unwrap();
    let plain = words.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("eth1: time by packets that another interface saw as well"), "{plain}");
    assert!(plain.contains(": TAI, 37 s ahead"), "{plain}");
    let bytes = std::fs::read(to).unwrap();
    let count = |words: &str| bytes.windows(words.len()).filter(|w| *w == words.as_bytes()).count();
    assert_eq!(count("Truechimer restamp: time by"), 3);
    assert_eq!(count("kept"), 376);

    // From its first stamps it is worked out anew: the same again, or better.
    let before = times(to);
    let again = json(&["--json", "--apart", "50us", "-o", to, to]);
    assert_eq!((&again["restamped"], &again["changed"]), (&376.into(), &0.into()));
    assert_eq!(times(to), before);
    json(&["--json", "--apart", "50us", "--max-rate-ppm", "100", "-o", to, to]);
    for ((_, unix_ns, bound), true_ns) in times(to).into_iter().zip(&truth) {
        assert!(unix_ns.abs_diff(*true_ns) <= bound.unwrap().into());
        assert!(bound.unwrap() < 2_000_000, "{bound:?}");
    }
    json(&["--json", "--apart", "50us", "--max-wander-ppm", "1", "-o", to, to]);
    for ((_, unix_ns, bound), true_ns) in times(to).into_iter().zip(&truth) {
        assert!(unix_ns.abs_diff(*true_ns) <= bound.unwrap().into());
        assert!(bound.unwrap() < 600_000, "{bound:?}");
    }
    // As it was recorded it stays.
    let before = std::fs::read(to).unwrap();
    json(&["--json", "--by", "recorded", "-o", to, to]);
    assert!(std::fs::read(to).unwrap() == before);
}

#[test]
fn what_nothing_tells_stays_and_is_named() {
    let files = Files::new();
    let (from, to) = files.names();
    pcapng(&interfaces(), from);
    let before = times(from);
    let summary = json(&["--json", "-o", to, from]);
    assert_eq!(others(&summary), ["eth0 ntp 136", "eth1 nothing 0", "card nothing 0"]);
    assert_eq!((&summary["restamped"], &summary["foreign"]), (&136.into(), &240.into()));
    assert!(summary["others"][1]["lacking"].as_str().unwrap().contains("--apart"));
    for (then, now) in before.iter().zip(times(to)) {
        assert_eq!(now.2.is_some(), now.0 == 0);
        assert!(now.0 == 0 || now == *then);
    }
    // With replies alone one side stays open: nothing is guessed.
    let mut replies = interfaces();
    replies[0].seen.retain(|(_, data)| data[37] != 123);
    pcapng(&replies, from);
    let why = restamp(&[from]).unwrap_err();
    assert!(why.contains("replies of NTP servers passed without their requests"), "{why}");
}

#[test]
fn pcap_becomes_pcapng_on_the_scale_of_utc() {
    let files = Files::new();
    let (from, to) = files.names();
    let [eth0, ..] = interfaces();
    for (magic, unit) in [(0xa1b2_c3d4u32, 1000), (0xa1b2_3c4d, 1)] {
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
        for (true_ns, data) in &eth0.seen {
            let at = tai(*true_ns);
            let length = data.len() as u32;
            let words = [(at / SECOND) as u32, (at % SECOND / unit) as u32, length, length];
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend(data);
        }
        std::fs::write(from, &bytes).unwrap();
        let summary = json(&["--json", "-o", to, from]);
        assert_eq!((&summary["restamped"], &summary["torn"]), (&136.into(), &Value::Null));
        for ((_, unix_ns, bound), (true_ns, _)) in times(to).iter().zip(&eth0.seen) {
            assert!(unix_ns.abs_diff(*true_ns) <= bound.unwrap().into(), "{unix_ns} {true_ns}");
        }
        // Cut off: up to there.
        std::fs::write(from, &bytes[..bytes.len() - 3]).unwrap();
        let summary = json(&["--json", "-o", to, from]);
        assert_eq!((&summary["restamped"], times(to).len()), (&135.into(), 135));
        assert!(summary["torn"].as_str().unwrap().contains("readable up to there"));
    }
}

#[test]
fn a_log_of_the_clock_tells_its_time() {
    let files = Files::new();
    let (from, to) = files.names();
    let truth = pcapng(&interfaces()[1..], from);
    let log = format!("{to}.clocks");
    let lines = (0..130).step_by(10).map(|n| {
        let true_ns = START + n * SECOND;
        let line = |kind, at| format!("{kind} {at} {} {}\n", true_ns - 300, true_ns + 200);
        line("system", true_ns) + &line("card", tai(true_ns))
    });
    let text: String = lines.collect();
    std::fs::write(&log, format!("truechimer clock log 1\n{text}")).unwrap();
    let clock = format!("eth1=card:{log}");
    let summary = json(&["--json", "--clock", &clock, "--apart", "50us", "-o", to, from]);
    assert_eq!(others(&summary), ["eth1 log 120", "card shared 120"]);
    for ((_, unix_ns, bound), true_ns) in times(to).into_iter().zip(&truth) {
        assert!(unix_ns.abs_diff(*true_ns) <= bound.unwrap().into());
        assert!(bound.unwrap() < 6_000_000);
    }
    // Of a clock that it does not name, an interface that is not there, a line that is none.
    for (clock, part) in [
        (format!("eth7=card:{log}"), "there are eth1, card"),
        (format!("0=card:{from}"), "no clock log"),
    ] {
        let why = restamp(&["--clock", &clock, from]).unwrap_err();
        assert!(why.contains(part), "{why}");
    }
    std::fs::write(&log, "truechimer clock log 1\ncard 1 2\n").unwrap();
    let why = restamp(&["--clock", &clock, from]).unwrap_err();
    assert!(why.contains(".clocks: line 2: must be"), "{why}");
}

#[test]
fn packets_of_ours_tell_the_time_of_others() {
    use truechimer_pcapng::records::{PacketRecord, Quality, StampedBy};
    use truechimer_time::{Count, CountSpan, Epoch};
    let files = Files::new();
    let (from, to) = files.names();
    let mut bytes = Vec::new();
    write::section(&mut bytes).end();
    write::interface(&mut bytes, 1, 0).text(2, "ours").end();
    write::interface(&mut bytes, 1, 0).text(2, "theirs").end();
    let mut truth = Vec::new();
    for n in 0..20 {
        let true_ns = START + n * SECOND;
        let data = ethernet(1, 3, [7, 8], &n.to_le_bytes());
        let record = PacketRecord {
            method: 1,
            stamped_by: StampedBy::Realtime,
            quality: Quality::Bounded,
            counted: Some((Count(n as u64), CountSpan(1), Epoch(1))),
            generation: 5,
            bound_ns: Some(1_000),
        };
        let length = data.len() as u32;
        let ours = write::packet(&mut bytes, 0, true_ns + 900, &[&data], length);
        ours.record(&record.encode()).end();
        write::packet(&mut bytes, 1, tai(true_ns + 5_000), &[&data], length).end();
        truth.extend([true_ns, true_ns + 5_000]);
    }
    std::fs::write(from, bytes).unwrap();
    let summary = json(&["--json", "--apart", "10us", "-o", to, from]);
    assert_eq!(others(&summary), ["theirs shared 20"]);
    for ((interface, unix_ns, bound), true_ns) in times(to).into_iter().zip(&truth) {
        let bound = if interface == 0 { 1_000 } else { bound.unwrap() };
        assert!(unix_ns.abs_diff(*true_ns) <= bound.into(), "{interface} {unix_ns} {true_ns}");
        assert!(bound < 600_000);
    }
}

#[test]
fn a_step_and_a_wrong_server_are_covered_and_counted() {
    let files = Files::new();
    let (from, to) = files.names();
    // Set back by half a second right after the reply of second 48.
    fn stepped(true_ns: i64) -> i64 {
        true_ns - if true_ns < START + 48 * SECOND + 124_000_000 { 0 } else { SECOND / 2 }
    }
    let [mut eth0, ..] = interfaces();
    eth0.shows = stepped;
    for (is_stepped, [begin, end]) in [(true, [48, 64]), (false, [16, 32])] {
        if !is_stepped {
            eth0.shows = |true_ns| true_ns;
            for n in [20, 22, 24, 26] {
                let now = START + n * SECOND;
                let off = now + 2 * SECOND;
                let [request, reply] = exchange_with(66, [off, off + 1_000], n as u64 + 1000);
                eth0.seen.extend([(now, request), (now + 100_000, reply)]);
            }
        }
        let data = |n: i64| ethernet(1, 9, [7, 8], format!("close {n}").as_bytes());
        eth0.seen.extend((0..1200).map(|n| (START + n * SECOND / 10, data(n))));
        let truth = pcapng(std::slice::from_ref(&eth0), from);
        let summary = json(&["--json", "-o", to, from]);
        let account = &summary["others"][0];
        assert_eq!((&account["breaks"], &summary["restamped"]), (&1.into(), &truth.len().into()));
        let contradicted = account["contradicted"].as_u64().unwrap();
        let mut wide = 0;
        for ((_, unix_ns, bound), true_ns) in times(to).into_iter().zip(truth) {
            let bound = bound.unwrap();
            assert!(unix_ns.abs_diff(true_ns) <= bound.into(), "{} ± {bound}", true_ns - START);
            let is_wide = bound > 100_000_000;
            wide += u64::from(is_wide);
            let second = (true_ns - START) / SECOND;
            assert!(!is_wide || (begin - 2..=end + 2).contains(&second), "{second} ± {bound}");
        }
        assert!(wide > 60 && wide == contradicted, "{wide} {contradicted}");
    }
}

#[test]
fn a_step_that_is_too_large_for_a_bound_leaves_one_scale() {
    let files = Files::new();
    let (from, to) = files.names();
    // Set from UTC to TAI right after the reply of second 48.
    fn set(true_ns: i64) -> i64 {
        true_ns + if true_ns < START + 48 * SECOND + 124_000_000 { 0 } else { 37 * SECOND }
    }
    let [mut eth0, ..] = interfaces();
    eth0.shows = set;
    let truth = pcapng(std::slice::from_ref(&eth0), from);
    let summary = json(&["--json", "-o", to, from]);
    let account = &summary["others"][0];
    let unbounded = account["unbounded"].as_u64().unwrap();
    assert!((10..=24).contains(&unbounded), "{account}");
    assert_eq!((&summary["unbounded"], &summary["foreign"]), (&unbounded.into(), &0.into()));
    for ((_, unix_ns, bound), true_ns) in times(to).into_iter().zip(&truth) {
        // Half of the step is all that is left open.
        let limit = bound.map_or(20 * SECOND.unsigned_abs(), u64::from);
        assert!(unix_ns.abs_diff(*true_ns) <= limit, "{unix_ns} {true_ns} {bound:?}");
    }
    let words = restamp(&["--list", "--by", "best", "-o", to, from]).unwrap();
    let plain = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = format!("{unbounded} packets have a time in UTC and no bound");
    assert!(plain.contains(&said) && plain.contains("- unsynchronised restamp"), "{plain}");
}

#[test]
fn long_after_the_last_exchange_there_is_a_time_and_no_bound() {
    let files = Files::new();
    let (from, to) = files.names();
    let [_, mut eth1, _] = interfaces();
    let [request, reply] = exchange(START + 200_000, START + 210_000, 1);
    let data = |n: i64| ethernet(1, 3, [7, 8], format!("minute {n}").as_bytes());
    let minutes = (1..120).map(|n| (START + n * 60 * SECOND, data(n)));
    eth1.seen = vec![(START, request), (START + 400_000, reply)];
    eth1.seen.extend(minutes);
    let truth = pcapng(std::slice::from_ref(&eth1), from);
    let summary = json(&["--json", "-o", to, from]);
    // 4.29 s at 1100 ppm are 65 minutes.
    assert_eq!((&summary["restamped"], &summary["unbounded"]), (&67.into(), &54.into()));
    for ((_, unix_ns, bound), true_ns) in times(to).into_iter().zip(&truth) {
        let limit = bound.map_or(8 * SECOND.unsigned_abs(), u64::from);
        assert!(unix_ns.abs_diff(*true_ns) <= limit, "{unix_ns} {true_ns} {bound:?}");
    }
}

#[test]
fn a_promise_that_new_conditions_do_not_bear_out_is_taken_away() {
    let files = Files::new();
    let (from, to) = files.names();
    pcapng(&interfaces(), from);
    json(&["--json", "--apart", "50us", "--max-rate-ppm", "100", "-o", to, from]);
    assert!(times(to).iter().all(|(.., bound)| bound.is_some()));
    // Nothing tells the others any more: the times of their clocks, and no bound.
    let summary = json(&["--json", "-o", to, to]);
    assert_eq!(others(&summary), ["eth0 ntp 136", "eth1 nothing 0", "card nothing 0"]);
    assert_eq!((&summary["restamped"], &summary["unbounded"]), (&136.into(), &240.into()));
    for (then, now) in times(from).into_iter().zip(times(to)) {
        assert_eq!(now.2.is_some(), now.0 == 0);
        assert!(now.0 == 0 || now.1 == then.1, "{then:?} {now:?}");
    }
    // The first stamps are still there.
    let again = json(&["--json", "--apart", "50us", "-o", to, to]);
    assert_eq!((&again["restamped"], &again["unbounded"]), (&376.into(), &0.into()));
}

#[test]
fn stamps_and_times_at_the_ends_of_what_there_is() {
    let files = Files::new();
    let (from, to) = files.names();
    // In 2262, within half a second of the last ns, where a server says that it is 1970.
    let mut bytes = Vec::new();
    write::section(&mut bytes).end();
    write::interface(&mut bytes, 1, 0).end();
    for (at, data) in exchange(SECOND, SECOND + 10, 1).iter().enumerate() {
        let at = i64::MAX - 400_000_000 + at as i64 * 1000;
        write::packet(&mut bytes, 0, at, &[data], data.len() as u32).end();
    }
    std::fs::write(from, bytes).unwrap();
    let summary = json(&["--json", "-o", to, from]);
    assert_eq!((&summary["packets"], times(to).len()), (&2.into(), 2));
}
