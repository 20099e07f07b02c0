//! Programs get no time that is not tied to UTC, unless the user wants it so.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bed::{Bed, PATIENCE, until};
use truechimer_group::{Call, Thread};
use truechimer_group_agent::config::UtcSource;
use truechimer_group_client::Event;

/// The year 2020, ns: what is before has nothing to do with UTC.
const LONG_AGO: i64 = 1_577_836_800_000_000_000;

fn system() -> UtcSource {
    UtcSource::SystemClock { bound_ns: 1_000_000 }
}

fn utc_now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

#[test]
fn readings_and_messages_wait_until_the_clock_is_tied_to_utc() {
    let bed = Bed::new();
    let first = bed.agent_by(1, UtcSource::None);
    let second = bed.agent_by(2, UtcSource::None);
    until("live", || bed.report(1).phase == "live" && bed.report(2).phase == "live");
    let replica = bed.attach(1);
    replica.multicast(b"early").unwrap();
    let before = utc_now();
    let value = thread::scope(|scope| {
        let reading =
            scope.spawn(|| replica.thread(Thread::FIRST).now(Call::Group, Some(PATIENCE)));
        until("both wait", || {
            let waiting = bed.report(1).waiting;
            waiting.operations == 1 && waiting.messages == 1
        });
        let report = bed.report(1);
        assert!(!report.timed && !report.tied && !report.is_well());
        let said = |what: &str| first.lines().iter().any(|line| line.contains(what));
        until("it is said", || said("programs wait"));
        assert!(said("--system-clock BOUND") && said("--without-utc"), "{:?}", first.lines());

        // One of three is no majority, and the group's clock is not where that one's is.
        let third = bed.agent_by(3, system());
        until("the third is live", || bed.report(3).phase == "live");
        thread::sleep(Duration::from_millis(50));
        assert!(!bed.report(1).timed && !bed.report(3).timed);
        assert!(!reading.is_finished());
        second.stop();
        let _second = bed.agent_by(2, system());
        until("tied", || bed.report(1).tied);
        let value = reading.join().unwrap().unwrap();
        until("that is said", || said("set ahead at a stroke") && said("programs go on"));
        assert!(bed.report(1).is_well());
        third.stop();
        value
    });
    assert!(value.time.0 > before, "{value:?} {before}");
    match replica.next(Some(PATIENCE)).unwrap() {
        Some(Event::Delivered(message)) => {
            assert_eq!(message.payload, b"early");
            assert!(message.time.time.0 > LONG_AGO, "{message:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_that_wants_no_utc_goes_on_without() {
    let bed = Bed::new();
    let _agent = bed.agent_of(&[("free", 3)], |settings| {
        settings.utc = Some(UtcSource::None);
        settings.groups[0].without_utc = true;
    });
    let clock = bed.attach_to("free", 2).thread(Thread::FIRST);
    let value = clock.now(Call::Group, Some(PATIENCE)).unwrap();
    assert!(value.time.0 < LONG_AGO, "{value:?}");
    assert_eq!(value.error_bound(), None);
    let report = bed.report_of("free", 2);
    assert!(report.timed && !report.tied && report.is_well(), "{report:?}");
}
