//! A virtual machine that is migrated, by the word of its vmclock: a file stands for the device, all
//! else is real. That the counter jumps as well only the hypervisor knows, which is the point.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use truechimer::{Clock, CounterKind, Period, Status};
use truechimer_testbed::daemon::{SOON, Server, Setup};
use truechimer_testbed::temp;
use truechimer_testbed::truth::Truth;

/// Page of a device with this marker, and nothing else to say.
pub(crate) fn page(marker: u64) -> Vec<u8> {
    let mut page = [&b"VCLK"[..], &4096u32.to_le_bytes(), &1u16.to_le_bytes(), &[255, 1]].concat();
    page.resize(16, 0);
    page.extend(marker.to_le_bytes());
    page.resize(65536, 0);
    page
}

/// Error that the hypervisor below states: of its time at the page's count, ns, and of the counter's period,
/// 2⁻³² of it.
const STATED: (u64, u64) = (20_000, 1 << 13);

/// A count of the counter of a clock page, and this host's time then, ns since 1970.
fn moment(clock: &Clock) -> (u64, u64) {
    let (mut narrowest, mut best) = (u64::MAX, (0, 0));
    for _ in 0..20 {
        let before = clock.moment().unwrap().count.0;
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let after = clock.moment().unwrap().count.0;
        if after - before < narrowest {
            (narrowest, best) = (after - before, (before + (after - before) / 2, unix_ns));
        }
    }
    best
}

/// A hypervisor that writes the time of this host into the page now, with the period that the counter has had since
/// `began`: a page's own may be as wrong as a busy host makes it, and more than is stated.
fn write_time(file: &fs::File, clock: &Clock, began: (u64, u64)) {
    let (count, unix_ns) = moment(clock);
    let (counts, ns) = (count - began.0, unix_ns - began.1);
    let hz = u128::from(counts) * 1_000_000_000 / u128::from(ns);
    let period = Period::from_hz(u64::try_from(hz).unwrap());
    let mantissa = period.mantissa();
    let fraction = (u128::from(unix_ns % 1_000_000_000) << 64) / 1_000_000_000;
    let words = |at: usize, words: &[u64]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.write_all_at(&bytes, at as u64 * 8).unwrap();
    };
    // The sequence is odd while it is written; version 1, counter TSC, scale UTC.
    let sequence = |n: u64| [n << 32 | 1 << 16 | 1];
    words(1, &sequence(1));
    // All stated; synchronised.
    words(3, &[1 << 3 | 1 << 4 | 1 << 5 | 1 << 6, 2 << 16 | u64::from(period.shift()) << 56]);
    let relative = (u128::from(mantissa) * u128::from(STATED.1)) >> 32;
    let (error, deviation) = (STATED.0, STATED.0 / 3);
    words(5, &[count, mantissa, 0, relative as u64]);
    words(9, &[unix_ns / 1_000_000_000, fraction as u64, deviation, error]);
    words(1, &sequence(2));
}

#[test]
fn the_hypervisor_s_time_is_followed_without_any_server() {
    let dir = temp::Dir::new();
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0"]);
    // Another daemon's page has the count for the hypervisor to write of.
    let mut other = Setup { name: "other", ..Setup::new(&dir, &server.address) }.start();
    other.source_when(|source| source["status"] == "selected");
    let host = other.clock();
    if host.view().unwrap().hand.counter.kind != CounterKind::Tsc {
        println!("SKIPPED the hypervisor's time: no time stamp counter here");
        return;
    }
    let began = moment(&host);
    let device = dir.join("vmclock");
    fs::write(&device, page(100)).unwrap();
    let file = OpenOptions::new().write(true).open(&device).unwrap();
    let sections = format!("[[source]]\nvmclock = {device:?}\ntrust = true\n");
    let settings = format!("vmclock = {device:?}\n");
    let setup = Setup {
        settings: &settings,
        sections: &sections,
        servers: Vec::new(),
        ..Setup::new(&dir, "")
    };
    let mut daemon = setup.start();
    let silent = daemon.source_when(|source| !source["trouble"].is_null());
    assert!(silent["trouble"].as_str().unwrap().contains("gives no time"), "{silent:#}");
    // Long enough for a period as good as is stated.
    thread::sleep(Duration::from_secs(1));
    write_time(&file, &host, began);
    let source = daemon.source_when(|source| source["status"] == "selected");
    assert_eq!((&source["kind"], &source["reference"]), (&"vmclock".into(), &"vmclock".into()));
    let mut watch = daemon.watch(Truth::host());
    watch.run(Duration::from_secs(5));
    println!("{}", watch.summary());
    let bound = watch.samples.last().unwrap().bound_ns();
    // As stated: 20 µs, and 2 ppm of the seconds since.
    assert!((20_000..80_000).contains(&bound), "{bound}");
    // Moved to another host, whose hypervisor tells the time at once: so do we.
    write_time(&file, &host, began);
    file.write_all_at(&101u64.to_le_bytes(), 16).unwrap();
    watch.run_until_status(Status::Synchronised, SOON);
    watch.run(Duration::from_secs(3));
    println!("{}", watch.summary());
}

#[test]
fn a_migration_is_disrupted_at_once_and_forgotten_with_the_first_reply() {
    let dir = temp::Dir::new();
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0"]);
    let device = dir.join("vmclock");
    fs::write(&device, page(100)).unwrap();
    let log = dir.join("replay.jsonl");
    let settings = format!("vmclock = {device:?}\nreplay-log = {log:?}");
    let setup = Setup { settings: &settings, ..Setup::new(&dir, &server.address) };
    let mut daemon = setup.start();
    daemon.source_when(|source| source["status"] == "selected");
    let clock = daemon.clock().with_vmclock(&device).unwrap();
    let synchronised = |clock: &Clock| {
        let begun = Instant::now();
        while clock.status() != Ok(Status::Synchronised) {
            assert!(begun.elapsed() < SOON, "{:?}", clock.view());
            thread::yield_now();
        }
    };
    synchronised(&clock);
    let first = clock.moment().unwrap().epoch.0;
    // Epochs before this one are over. A reader in its own thread uses none of them.
    let least = AtomicU64::new(first.into());
    let file = OpenOptions::new().write(true).open(&device).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut readings = 0u64;
            loop {
                let over = least.load(Ordering::SeqCst);
                if over == u64::MAX {
                    return readings;
                }
                if let Ok(moment) = clock.moment() {
                    readings += 1;
                    assert!(u64::from(moment.epoch.0) >= over, "{moment:?}: {over}");
                }
            }
        });
        for n in 1..=5u64 {
            file.write_all_at(&(100 + n).to_le_bytes(), 16).unwrap();
            // Said by the hypervisor, so seen by every reading that begins now.
            least.store(u64::from(first) + n, Ordering::SeqCst);
            let reading = clock.now().unwrap();
            let known = clock.view().unwrap().hand.counter.epoch.0;
            let again = u64::from(known) >= u64::from(first) + n;
            assert!(reading.status == Status::Disrupted || again, "{reading:?}");
            synchronised(&clock);
            assert_eq!(u64::from(clock.moment().unwrap().epoch.0), u64::from(first) + n);
        }
        least.store(u64::MAX, Ordering::SeqCst);
        assert!(reader.join().unwrap() > 100);
    });
    let status = daemon.ask(&["status"]);
    assert_eq!(status.json["status"], "synchronised", "{:#}", status.json);
    // This program was not told where the device is.
    assert_eq!(status.json["vmclock"], false, "{:#}", status.json);
    let source = daemon.source();
    assert!(source["held_off"].is_null(), "{source:#}");
    let said = daemon.process.output();
    let times = said.matches("the hypervisor says that the machine was migrated").count();
    assert!(times >= 5 && !said.contains("held off"), "{said}");
}
