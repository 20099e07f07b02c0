//! The time at present: read at all members by programs that are no replicas of each other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[allow(dead_code, reason = "other tests use the rest")]
mod bed;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::thread;

use bed::{Bed, PATIENCE, Running, until};
use truechimer_group::{Call, Member, Mode, Thread};
use truechimer_group_client::link::{Role, Together};
use truechimer_group_client::{Options, Replica};

fn three(bed: &Bed, mode: Mode) -> Vec<Running> {
    let agent = |member| bed.agent_with(member, |membership| membership.group.mode = mode);
    let agents = (1..=3).map(agent).collect();
    until("all are live", || (1..=3).all(|member| bed.report(member).phase == "live"));
    agents
}

fn reader(bed: &Bed, member: u32) -> Replica {
    let options = Options { role: Role::Reader, together: Together::Apart, ..Options::default() };
    Replica::attach_with(&bed.place("test", member), &options).unwrap()
}

fn read(reader: &Replica, member: u32) -> i64 {
    let clock = reader.thread(Thread::now(member as u8 - 1, 0));
    clock.now(Call::Group, Some(PATIENCE)).unwrap().time.0
}

/// A reading is later than all that had ended when it began; then that has ended, too.
fn read_after(reader: &Replica, member: u32, ended: &AtomicI64) {
    let before = ended.load(SeqCst);
    let value = read(reader, member);
    assert!(value > before, "member {member}: {value} after {before}");
    ended.fetch_max(value, SeqCst);
}

/// Many threads at each member, while one after the other is cut off and comes back.
#[test]
fn readings_that_follow_each_other_do_not_go_back_wherever_they_are_made() {
    for mode in [Mode::Active, Mode::SemiActive, Mode::Passive] {
        let bed = Bed::new();
        let agents = three(&bed, mode);
        let readers: Vec<Replica> = (1..=3).map(|member| reader(&bed, member)).collect();
        let (ended, over) = (AtomicI64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for (reader, member) in readers.iter().zip(1..) {
                for _ in 0..4 {
                    let (ended, over) = (&ended, &over);
                    scope.spawn(move || {
                        while !over.load(SeqCst) {
                            read_after(reader, member, ended);
                        }
                    });
                }
            }
            for away in [1, 2, 3, 1] {
                bed.hub.cut(&[&[Member(away)]]);
                until("it is out", || bed.report(away).phase == "outside");
                bed.hub.heal();
                until("it is back", || bed.report(away).phase == "live");
                let reads = bed.report(away).programs.answers + 100;
                until("it reads again", || bed.report(away).programs.answers > reads);
            }
            over.store(true, SeqCst);
        });
        for member in 1..=3 {
            let report = bed.report(member);
            assert!(report.counts.gaps > 0, "{mode}: it was out while the others went on");
            assert!(!report.programs.missed && report.is_well(), "{mode}: {:?}", report.troubles());
            assert!(report.members.iter().all(|one| !one.program), "{mode}: it is no program");
        }
        drop(agents);
    }
}

#[test]
fn those_that_wait_together_share_rounds() {
    let bed = Bed::new();
    let _agents = three(&bed, Mode::Active);
    let reader = reader(&bed, 1);
    bed.hub.cut(&[&[Member(1)]]);
    until("it is out", || bed.report(1).phase == "outside");
    let values: BTreeSet<i64> = thread::scope(|scope| {
        let all: Vec<_> = (0..40).map(|_| scope.spawn(|| read(&reader, 1))).collect();
        until("all wait", || bed.report(1).programs.reads == 40);
        assert!(bed.report(1).waiting.longest_ns > Some(0));
        bed.hub.heal();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!((1..=5).contains(&values.len()), "{values:?}");
    assert_eq!(bed.report(1).threads.len(), values.len().min(4));
}

/// A program that has no patience any more is not waited for, and the next reading is later.
#[test]
fn one_that_is_given_up_holds_up_nobody() {
    let bed = Bed::new();
    let _agents = three(&bed, Mode::Active);
    let reader = reader(&bed, 1);
    let before = read(&reader, 1);
    bed.hub.cut(&[&[Member(1)]]);
    until("it is out", || bed.report(1).phase == "outside");
    let clock = reader.thread(Thread::now(0, 0));
    for _ in 0..10 {
        let patience = std::time::Duration::from_millis(1);
        assert!(clock.now(Call::Group, Some(patience)).is_err());
    }
    bed.hub.heal();
    assert!(read(&reader, 1) > before);
    until("nothing waits", || bed.report(1).waiting.operations == 0);
}
