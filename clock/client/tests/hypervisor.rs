//! Readers that hear the hypervisor's word that the machine was migrated or restored.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::vmclock::Device;
use common::{Daemon, TODAY};
use truechimer::{Clock, Epoch, Hand, Made, ReadError, Span, Status};
use truechimer_counter::Choice;
use truechimer_timehands::Marker;

const DEVICE: u16 = Marker::ELSEWHERE;

/// A daemon with a device, and a clock that may read both.
fn all(choice: Choice) -> (Daemon, Device, Clock) {
    let mut daemon = Daemon::new(choice);
    let device = Device::new(&daemon.directory, 7);
    daemon.writer().mark(Some(Marker { device: DEVICE, value: 7 }));
    daemon.publish(|_, _| ());
    let clock = daemon.clock().with_vmclock(device.path()).unwrap();
    (daemon, device, clock)
}

#[test]
fn a_marker_that_moves_ends_the_hand_at_once() {
    for choice in [Choice::Auto, Choice::Raw] {
        let (mut daemon, device, clock) = all(choice);
        assert_eq!(clock.status(), Ok(Status::Synchronised));
        // Vetted by now: the short way.
        let (before, reading) = (clock.moment().unwrap(), clock.now().unwrap());
        assert_eq!(reading.status, Status::Synchronised);
        let view = clock.view().unwrap();
        assert_eq!((view.hypervisor, view.reason), (Some(true), None));
        device.mark(8);
        let reading = clock.now().unwrap();
        assert_eq!((reading.status, reading.bound()), (Status::Disrupted, None));
        assert_eq!(clock.moment(), Err(ReadError::Disrupted));
        assert_eq!(clock.elapsed(before, before), Err(ReadError::Disrupted));
        assert_eq!(clock.time_of(before).unwrap().status, Status::Disrupted);
        assert_eq!(clock.uptime().unwrap_err(), ReadError::Disrupted);
        let reason = clock.view().unwrap().reason.unwrap();
        assert!(reason.contains("migrated or restored"), "{reason}");
        // Nor does a hand help that the daemon made before it knew.
        daemon.publish(|_, _| ());
        assert_eq!(clock.status(), Ok(Status::Disrupted));
        // The daemon knows by now, and then has a time again.
        daemon.writer().mark(Some(Marker { device: DEVICE, value: 8 }));
        for status in [Status::Disrupted, Status::Synchronised] {
            daemon.publish(|hand, _| (hand.status, hand.counter.epoch) = (status, Epoch(2)));
            assert_eq!(clock.status(), Ok(status));
        }
        assert_eq!(clock.moment().unwrap().epoch, Epoch(2));
        assert!(matches!(clock.time_of(before), Err(ReadError::OtherEpoch { .. })));
        // Back to what it was is another one, too.
        device.mark(7);
        assert_eq!(clock.status(), Ok(Status::Disrupted));
    }
}

#[test]
fn a_hand_that_says_nothing_is_as_without_a_device() {
    let (mut daemon, device, clock) = all(Choice::Auto);
    daemon.writer().mark(None);
    daemon.publish(|_, _| ());
    device.mark(9);
    for _ in 0..3 {
        assert_eq!(clock.status(), Ok(Status::Synchronised));
    }
    assert_eq!(clock.view().unwrap().hypervisor, None);
}

#[test]
fn a_device_that_is_not_there_is_not_asked() {
    let (mut daemon, _device, _) = all(Choice::Auto);
    // Nobody says where it is.
    let clock = daemon.clock();
    assert_eq!(clock.view().unwrap().hypervisor, Some(false));
    assert_eq!(clock.status(), Ok(Status::Synchronised));
    daemon.writer().mark(Some(Marker { device: 60_000, value: 1 }));
    daemon.publish(|_, _| ());
    let clock = daemon.clock();
    assert_eq!(clock.status(), Ok(Status::Synchronised));
    assert_eq!(clock.view().unwrap().hypervisor, Some(false));
    let none = daemon.directory.join("none");
    assert!(daemon.clock().with_vmclock(none).is_none());
}

#[test]
fn a_dead_daemon_cannot_hide_a_migration() {
    let (mut daemon, device, clock) = all(Choice::Auto);
    daemon.writer = None;
    assert_eq!(clock.status(), Ok(Status::Holdover));
    device.mark(8);
    assert_eq!(clock.status(), Ok(Status::Disrupted));
}

/// The time of each hand tells under which marker it was made: a thousand seconds for each.
#[test]
fn no_reading_by_a_hand_from_before_the_marker_moved() {
    let (mut daemon, device, clock) = all(Choice::Auto);
    let spaced = |marker: u64| TODAY + Span::from_secs(1000 * marker as i64);
    let (first, made): (Hand, Made) = daemon.hand();
    let under = |marker: u64| Hand {
        time: spaced(marker),
        counter: truechimer_time::CounterId { epoch: Epoch(marker as u32), ..first.counter },
        ..first
    };
    device.mark(0);
    // Markers up to this one are over.
    let over = AtomicU64::new(0);
    let counter = daemon.counter;
    let mut writer = daemon.writer.take().unwrap();
    let readings = thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut held, mut refused) = (0, 0);
                    loop {
                        let least = over.load(Ordering::SeqCst);
                        if least == u64::MAX {
                            return (held, refused);
                        }
                        let Ok(reading) = clock.now() else { continue };
                        if reading.status == Status::Disrupted {
                            refused += 1;
                        } else {
                            let marker = (reading.best - TODAY).as_nanos() / 1_000_000_000_000;
                            assert!(marker > i128::from(least), "{marker} is over, with {least}");
                            held += 1;
                        }
                        if let Ok(moment) = clock.moment() {
                            assert!(u64::from(moment.epoch.0) > least, "{moment:?}, {least}");
                        }
                    }
                })
            })
            .collect();
        for marker in 1..3000 {
            device.mark(marker);
            over.store(marker - 1, Ordering::SeqCst);
            // The daemon takes a while to notice.
            for _ in 0..marker % 7 * 200 {
                std::hint::spin_loop();
            }
            writer.mark(Some(Marker { device: DEVICE, value: marker }));
            writer.publish(&under(marker), &made);
            writer.heartbeat(counter.read());
            for _ in 0..marker % 5 * 400 {
                std::hint::spin_loop();
            }
        }
        over.store(u64::MAX, Ordering::SeqCst);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    println!("readings that held, and that did not: {readings:?}");
}
