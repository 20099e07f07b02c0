//! Several interfaces in one capture.

use std::fs::File;
use std::io::BufReader;

use serde_json::Value;
use truechimer_pcapng::Frames;
use truechimer_pcapng::records::Quality;
use truechimer_testbed::binary;

use super::clock::hosts;
use super::traffic::{OURS, inject, inject_on, last, numbered, tap};
use super::{assert_readable, bed, tools};

/// Frames of each turn.
const EACH: u32 = 50;

#[test]
fn two_interfaces_are_in_one_file_on_one_scale() {
    let Some((net, dir)) = bed() else { return };
    let Some((_server, near, _far)) = hosts(&net, &dir) else { return };
    tap(&net.client);
    let file = dir.join("several.pcapng");
    let mut command = net.client.command(binary::truechimer());
    command.args(["capture", "-i", "wire=packet", "-i", "tap0", "--json"]);
    command.args(["--page", near.page.to_str().unwrap(), "-w"]).arg(&file).arg(OURS);
    let mut capture = tools::ready(command, &dir, "several", file.clone());
    let frames = |from: u32| (from..from + EACH).map(|n| numbered(n, 40)).collect::<Vec<_>>();
    let mut sent = inject_on(&net.client, "tap1", &frames(0));
    sent.extend(inject(&net.server, &frames(EACH)));
    sent.extend(inject_on(&net.client, "tap1", &frames(2 * EACH)));
    inject_on(&net.client, "tap1", &[last()]);
    inject(&net.server, &[last()]);
    assert!(capture.end().success(), "{}", capture.process.output());

    let mut found = Frames::new(BufReader::new(File::open(&file).unwrap())).unwrap();
    let mut seen = vec![Vec::new(); 2];
    while let Some(frame) = found.next_frame().unwrap() {
        let (record, at) = (frame.record.unwrap(), frame.unix_ns.unwrap());
        assert_eq!(record.quality, Quality::Bounded, "{record:?}");
        let bound = i64::from(record.bound_ns.unwrap());
        seen[frame.interface as usize].push((frame.data.to_vec(), at, bound));
    }
    let names = [0, 1].map(|number| found.interface(number).to_owned());
    assert_eq!(names, ["wire", "tap0"]);
    let expected = [frames(EACH), [frames(0), frames(2 * EACH)].concat()];
    for (seen, mut expected) in seen.iter().zip(expected) {
        expected.push(last());
        let data: Vec<_> = seen.iter().map(|(data, ..)| data.clone()).collect();
        assert_eq!(data, expected);
        for (data, at, bound) in seen.iter().filter(|(data, ..)| *data != last()) {
            let (before, after) = sent[super::number(data) as usize];
            // Of the system's clock, which the test goes by, chronyd is the server: it is right to within the bound,
            // too. A frame is stamped within the call that sends it, also at the other end of a wire of a namespace.
            let apart = (before - at).max(at - after);
            assert!(apart <= 2 * bound, "{apart} ± {bound}");
        }
    }
    let output = capture.process.output();
    let of = |kind: &str| -> Vec<(String, u64)> {
        let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines = lines.filter(|line| line["type"] == kind);
        let packets = |line: &Value| line["packets"].as_u64().unwrap_or(0);
        lines.map(|line| (line["interface"].as_str().unwrap().to_owned(), packets(&line))).collect()
    };
    let each = u64::from(EACH);
    let told = [("wire".to_owned(), each + 1), ("tap0".to_owned(), 2 * each + 1)];
    assert_eq!(of("summary"), told, "{output}");
    assert_readable(&file, 3 * EACH as usize + 2);
}
