//! The time at present: read at all members by programs that are no replicas of each other.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::thread;
use std::time::{Duration, Instant};

use crate::bed::{Bed, PATIENCE, Running, until};
use truechimer_group::{Call, Member, Mode, Rejection, Thread};
use truechimer_group_client::link::{Outside, ReadError, Role, Together};
use truechimer_group_client::{Gone, NextError, Options, Replica};

/// Patience with a value that may not come.
const SHORT: Duration = Duration::from_secs(2);

fn three(bed: &Bed, mode: Mode) -> Vec<Running> {
    let agent = |member| bed.agent_with(member, |membership| membership.group.mode = mode);
    let agents = (1..=3).map(agent).collect();
    until("all are live", || (1..=3).all(|member| bed.report(member).phase == "live"));
    agents
}

const APART: Options = Options {
    role: Role::Reader,
    family: 0,
    together: Together::Apart,
    outside: Outside::Wait,
    gone: Gone::Fail,
    patience: Some(PATIENCE),
    spin: None,
    wait_for_agent: None,
    silence: None,
};
const MISSED: Result<i64, ReadError> = Err(ReadError::Rejected(Rejection::Missed));

fn attach(bed: &Bed, member: u32, options: &Options) -> Replica {
    Replica::attach_with(&bed.place("test", member), options).unwrap()
}

fn reader(bed: &Bed, member: u32) -> Replica {
    attach(bed, member, &APART)
}

fn read_by(reader: &Replica, thread: Thread) -> Result<i64, ReadError> {
    reader.thread(thread).now(Call::Group, Some(PATIENCE)).map(|value| value.time.0)
}

fn read(reader: &Replica, member: u32) -> i64 {
    read_by(reader, Thread::now(member as u8 - 1, 0)).unwrap()
}

/// Tells the other threads that it is over, also where it ends in a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Cuts it off and brings it back, with a gap.
fn blink(bed: &Bed, member: u32) {
    let gaps = bed.report(member).counts.gaps;
    bed.hub.cut(&[&[Member(member)]]);
    bed.hub.heal();
    until("it is live again, with a gap", || {
        let report = bed.report(member);
        report.phase == "live" && report.counts.gaps > gaps
    });
}

/// Number of numbers of the time at present that the group knows.
fn numbers(bed: &Bed, member: u32) -> usize {
    let threads = bed.report(member).threads;
    threads.iter().filter(|thread| thread.thread.starts_with("ffff")).count()
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
            let over = Over(&over);
            for away in [1, 2, 3, 1] {
                bed.hub.cut(&[&[Member(away)]]);
                until("it is out", || bed.report(away).phase == "outside");
                bed.hub.heal();
                until("it is back", || bed.report(away).phase == "live");
                let reads = bed.report(away).programs.answers + 100;
                until("it reads again", || bed.report(away).programs.answers > reads);
            }
            drop(over);
        });
        for member in 1..=3 {
            let report = bed.report(member);
            assert!(report.counts.gaps > 0, "{mode}: it was out while the others went on");
            assert!(!report.programs.missed && report.is_well(), "{mode}: {report:?}");
            assert!(report.troubles().is_empty(), "{mode}: {:?}", report.troubles());
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
        let waiting = bed.report(1).waiting;
        assert!(waiting.longest_ns > Some(0) && waiting.longest_is_now);
        bed.hub.heal();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!((1..=5).contains(&values.len()), "{values:?}");
    assert_eq!(numbers(&bed, 1), values.len().min(4));
}

/// Numbers that a group knows are kept by all its members.
#[test]
fn many_attachments_take_few_numbers() {
    let bed = Bed::new();
    let _agents = three(&bed, Mode::Active);
    let mut last = 0;
    for _ in 0..50 {
        let reader = reader(&bed, 1);
        let value = read(&reader, 1);
        assert!(value > last, "{value} after {last}");
        last = value;
        drop(reader);
        until("it is gone", || bed.report(1).programs.family.is_none());
    }
    assert_eq!(numbers(&bed, 1), 1);
}

/// Reads that shall not wait.
#[test]
fn outside_there_is_none_for_those_that_do_not_wait() {
    let bed = Bed::new();
    let _agents = three(&bed, Mode::Active);
    let reader = attach(&bed, 1, &Options { outside: Outside::Fail, ..APART });
    let mut last = read(&reader, 1);
    for _ in 0..3 {
        bed.hub.cut(&[&[Member(1)]]);
        // Those too that have begun by then.
        let why = loop {
            match read_by(&reader, Thread::now(0, 0)) {
                Ok(value) if value > last => last = value,
                Ok(value) => panic!("{value} after {last}"),
                Err(why) => break why,
            }
        };
        assert_eq!(why, ReadError::Rejected(Rejection::Outside));
        bed.hub.heal();
        until("it is back", || bed.report(1).phase == "live");
        assert!(read(&reader, 1) > last);
    }
}

/// A front, say, and a job beside it.
#[test]
fn a_program_that_starts_with_nobody_is_told_of_its_gap() {
    let bed = Bed::new();
    let _agents = three(&bed, Mode::Active);
    let program = attach(&bed, 1, &Options { role: Role::Program, ..APART });
    let beside = attach(&bed, 1, &Options { family: program.family(), ..APART });
    let before = read(&beside, 1);
    blink(&bed, 1);
    let end = Instant::now() + PATIENCE;
    let why = loop {
        assert!(Instant::now() < end, "it is not told");
        match program.next(Some(PATIENCE)) {
            Ok(_) => {}
            Err(why) => break why,
        }
    };
    assert!(matches!(why, NextError::Missed), "{why}");
    assert!(bed.report(1).programs.missed);
    // The time at present can be read all the same.
    assert!(read(&beside, 1) > before && read(&program, 1) > before);
    program.restarted().unwrap();
    program.multicast(b"here").unwrap();
    assert!(read(&beside, 1) > before);
    assert!(!bed.report(1).programs.missed);
}

/// Shared threads have a place in the stream.
#[test]
fn whoever_shares_a_thread_is_told_of_a_gap() {
    let bed = Bed::new();
    let _agents = three(&bed, Mode::Active);
    let (one, two) = (reader(&bed, 1), reader(&bed, 2));
    let shared = Thread::shared(7);
    assert_eq!(read_by(&one, shared).unwrap(), read_by(&two, shared).unwrap());
    let before = read(&one, 1);
    blink(&bed, 1);
    assert_eq!(read_by(&one, shared), MISSED);
    assert!(read(&one, 1) > before);
    // Not those that have come since.
    drop(one);
    until("it is gone", || bed.report(1).programs.family.is_none());
    let one = reader(&bed, 1);
    assert_eq!(read_by(&one, shared).unwrap(), read_by(&two, shared).unwrap());
}

/// A value beyond the floor on the disk is nobody's yet, and one that is given up then is lost.
#[test]
fn the_disk_holds_it_up_no_longer_than_it_must() {
    let bed = Bed::new();
    let agents: Vec<_> = (1..=3).map(|member| bed.agent_by_itself(member)).collect();
    let reader = reader(&bed, 1);
    let clock = reader.thread(Thread::now(0, 0));
    let state = &agents[0].1;
    std::fs::remove_dir_all(state).unwrap();
    let mut last = 0;
    until("the disk is behind", || match clock.now(Call::Group, Some(SHORT)) {
        Ok(value) => {
            assert!(value.time.0 > last, "{value:?} after {last}");
            last = value.time.0;
            false
        }
        Err(why) => why == ReadError::Late,
    });
    std::fs::create_dir_all(state.join("test")).unwrap();
    assert!(read(&reader, 1) > last);
    until("nothing waits", || bed.report(1).waiting.operations == 0);
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
        assert!(clock.now(Call::Group, Some(Duration::from_millis(1))).is_err());
    }
    bed.hub.heal();
    assert!(read(&reader, 1) > before);
    until("nothing waits", || bed.report(1).waiting.operations == 0);
}

/// A program that waits for a majority's word is told of that, and of no primary.
#[test]
fn what_a_reading_of_the_time_at_present_waits_for_is_said() {
    let bed = Bed::new();
    for mode in [Mode::Active, Mode::SemiActive, Mode::Passive] {
        let agents = three(&bed, mode);
        let reader = reader(&bed, 3);
        read(&reader, 3);
        let mut report = bed.report(3);
        assert!(!report.waiting.longest_is_now, "none waits");
        report.waiting.longest_ns = Some(3_000_000_000);
        report.waiting.longest_is_now = true;
        let why = report.why_blocked();
        assert!(why.contains("2 of 3 members' agents have not acknowledged it"), "{mode}: {why}");
        report.waiting.disk = 1;
        assert!(report.why_blocked().contains("the disk"), "{mode}");
        drop((reader, agents));
    }
}
