//! A virtual machine that is migrated, by the word of its vmclock: a file stands for the device, all
//! else is real. That the counter jumps as well only the hypervisor knows, which is the point.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use truechimer::{Clock, Status};
use truechimer_testbed::daemon::{SOON, Server, Setup};
use truechimer_testbed::temp;

/// Page of a device with this marker, and nothing else to say.
fn page(marker: u64) -> Vec<u8> {
    let mut page = [&b"VCLK"[..], &4096u32.to_le_bytes(), &1u16.to_le_bytes(), &[255, 1]].concat();
    page.resize(16, 0);
    page.extend(marker.to_le_bytes());
    page.resize(65536, 0);
    page
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
