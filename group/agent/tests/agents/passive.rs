//! Passive replication by real agents: the primary's own checkpoints, its end, and its return.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use crate::bed::service::{Done, Service, serve};
use crate::bed::{Bed, PATIENCE, Running, until};
use truechimer_group::{Call, Member, Mode, Thread};
use truechimer_group_client::link::{Role, Together};
use truechimer_group_client::{Options, Replica};

fn agent(bed: &Bed, member: u32) -> Running {
    bed.agent_with(member, |membership| {
        membership.group.mode = Mode::Passive;
        membership.checkpoints = true;
    })
}

fn live(bed: &Bed, members: &[u32]) -> bool {
    members.iter().all(|member| bed.report(*member).phase == "live")
}

/// Rounds that the member keeps, as its program has not read them.
fn kept(bed: &Bed, member: u32) -> usize {
    bed.report(member).waiting.values
}

/// Three replicas of the service; the first is the primary, as it was there first.
fn three(bed: &Bed) -> (Vec<Running>, [Service; 3]) {
    let mut agents = vec![agent(bed, 1), agent(bed, 2)];
    let mut one = Service::new(bed.attach(1));
    let mut two = Service::new(bed.attach(2));
    serve(&mut [&mut one, &mut two], PATIENCE, "two are live", |_| live(bed, &[1, 2]));
    agents.push(agent(bed, 3));
    let mut three = Service::new(bed.attach(3));
    // A member is live as soon as its agent has the state; its program still has to take that over.
    serve(&mut [&mut one, &mut two, &mut three], PATIENCE, "all are live", |all| {
        all[2].installs == 1 && live(bed, &[1, 2, 3])
    });
    (agents, [one, two, three])
}

/// Checkpoints that come while the time at present is read leave no numbers behind.
/// Sets a mark when it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn checkpoints_beside_readings_of_the_time_at_present_take_no_numbers() {
    let bed = Bed::new();
    let (agents, [mut one, mut two, mut three]) = three(&bed);
    let family = two.replica.family();
    let apart =
        Options { role: Role::Reader, family, together: Together::Apart, ..Options::default() };
    let reader = Replica::attach_with(&bed.place("test", 2), &apart).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let (mut last, mut many) = (0, 0);
            while !over.load(SeqCst) {
                let read = reader.thread(Thread::now(1, 0)).now(Call::Group, Some(PATIENCE));
                let time = read.expect("it waits for the checkpoint, at most").time.0;
                assert!(time > last, "{time} after {last}");
                (last, many) = (time, many + 1);
            }
            many
        });
        // Also where this fails: the reader is waited for.
        let _end = Ends(&over);
        for _ in 0..30 {
            let installs = two.installs;
            one.checkpoint();
            serve(&mut [&mut one, &mut two, &mut three], PATIENCE, "it is there", |all| {
                all[1].installs == installs + 1
            });
        }
        over.store(true, SeqCst);
        assert!(read.join().unwrap() > 0);
    });
    let threads = bed.report(2).threads;
    let present = threads.iter().filter(|it| it.thread.starts_with("ffff")).count();
    assert!((1..=4).contains(&present), "{present} numbers: {threads:?}");
    drop((reader, agents));
}

#[test]
fn a_backup_takes_over_from_the_primarys_checkpoint_and_the_rounds_since() {
    let bed = Bed::new();
    let (mut agents, [mut one, mut two, mut three]) = three(&bed);
    let before = [two.installs, three.installs];
    // Ten requests, of which the primary works on seven; it gives its state after the fourth.
    for request in 0..10 {
        one.replica.multicast(&[request]).unwrap();
    }
    serve(&mut [&mut one, &mut two, &mut three], PATIENCE, "all have them", |all| {
        all.iter().all(|service| service.seen() == 10)
    });
    for _ in 0..4 {
        assert_eq!(one.work(PATIENCE).synchronizer, Member(1));
    }
    serve(&mut [&mut two, &mut three], PATIENCE, "backups keep them", |_| {
        (2..=3).all(|member| kept(&bed, member) == 4)
    });
    one.checkpoint();
    serve(&mut [&mut two, &mut three], PATIENCE, "backups have its state", |all| {
        all.iter().zip(before).all(|(service, before)| service.installs == before + 1)
    });
    let at_checkpoint: &[Done] = &one.done.clone();
    for backup in [&two, &three] {
        assert_eq!(backup.done, at_checkpoint);
        assert_eq!(backup.queue, one.queue);
    }
    assert_eq!([kept(&bed, 2), kept(&bed, 3)], [0, 0], "what was read before it is not kept");
    for _ in 0..3 {
        one.work(PATIENCE);
    }
    serve(&mut [&mut two, &mut three], PATIENCE, "backups keep what came since", |_| {
        (2..=3).all(|member| kept(&bed, member) == 3)
    });

    // The primary is gone, from one moment to the next. What it had done, the next one does again,
    // by the same times; then it goes on by itself.
    bed.hub.cut(&[&[Member(1)]]);
    for k in 4..10 {
        let value = two.work(PATIENCE);
        let by = if k < 7 { Member(1) } else { Member(2) };
        assert_eq!(value.synchronizer, by, "request {k}");
    }
    assert_eq!(two.done[..7], one.done);
    assert!(two.done.windows(2).all(|pair| pair[0].1 < pair[1].1), "{:?}", two.done);

    // The same once more, from the new primary's checkpoint.
    two.checkpoint();
    let installs = three.installs;
    serve(&mut [&mut three], PATIENCE, "the last has the new state", |all| {
        all[0].installs == installs + 1
    });
    assert_eq!(three.done, two.done);
    assert_eq!((three.queue.len(), kept(&bed, 3)), (0, 0));

    // Who comes back starts from the others' state, and is a backup.
    let installs = one.installs;
    bed.hub.heal();
    serve(&mut [&mut one, &mut two, &mut three], PATIENCE, "the first is back", |all| {
        all[0].installs == installs + 1 && live(&bed, &[1, 2, 3])
    });
    assert_eq!(one.done, two.done);
    two.replica.multicast(&[10]).unwrap();
    serve(&mut [&mut one, &mut two, &mut three], PATIENCE, "all have it", |all| {
        all.iter().all(|service| service.seen() == 11)
    });
    assert_eq!(two.work(PATIENCE).synchronizer, Member(2));
    let last = two.done.clone();
    agents.remove(1).stop();
    drop(two);
    for service in [&mut one, &mut three] {
        service.work(PATIENCE);
        assert_eq!(service.done, last);
    }
    drop(agents);
}

#[test]
fn only_the_primarys_checkpoints_are_heard_and_one_too_long_is_refused() {
    let bed = Bed::new();
    let (agents, [mut one, mut two, mut three]) = three(&bed);
    let before = [one.installs, two.installs, three.installs];
    one.replica.multicast(&[7]).unwrap();
    serve(&mut [&mut one, &mut two, &mut three], PATIENCE, "all have it", |all| {
        all.iter().all(|service| service.seen() == 1)
    });
    let time = one.work(PATIENCE).time;
    two.checkpoint();
    let large = vec![0; truechimer_group_client::LARGEST_CHECKPOINT + 1];
    let refused = one.replica.checkpoint(0, &large).unwrap_err().to_string();
    assert!(refused.contains(&large.len().to_string()), "{refused}");
    // Whatever the backup's would have done, it would have done before this one's.
    one.checkpoint();
    serve(&mut [&mut one, &mut two, &mut three], PATIENCE, "the primary's is there", |all| {
        all[1].installs > before[1] && all[2].installs > before[2]
    });
    assert_eq!(
        [one.installs, two.installs, three.installs],
        [before[0], before[1] + 1, before[2] + 1]
    );
    assert_eq!((&two.done, &three.done), (&vec![(7, time.0)], &vec![(7, time.0)]));
    drop(agents);
}

/// Reads the time at present until it is over: how often.
fn read_on(reader: &Replica, member: u8, over: &AtomicBool, reads: &AtomicUsize) {
    let clock = reader.thread(Thread::now(member - 1, 0));
    let mut last = 0;
    while !over.load(SeqCst) {
        let value = clock.now(Call::Group, Some(PATIENCE)).unwrap().time.0;
        assert!(value > last, "{value} after {last}");
        last = value;
        reads.fetch_add(1, SeqCst);
    }
}

/// Ends the other thread, also where this one ends in a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// One checkpoint after the other takes its program's place in the stream from it, and nothing else.
#[test]
fn beside_a_backup_the_time_at_present_goes_on() {
    let bed = Bed::new();
    let (agents, [mut one, mut two, mut three]) = three(&bed);
    let family = two.replica.family();
    let options = Options { role: Role::Reader, family, ..Options::default() };
    let reader = Replica::attach_with(&bed.place("test", 2), &options).unwrap();
    let (over, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_on(&reader, 2, &over, &reads));
        let _over = Over(&over);
        for request in 0..5_u8 {
            one.replica.multicast(&[request]).unwrap();
            let seen = usize::from(request) + 1;
            serve(&mut [&mut one, &mut two, &mut three], PATIENCE, "all have it", |all| {
                all.iter().all(|service| service.seen() == seen)
            });
            one.work(PATIENCE);
            let installs = two.installs;
            one.checkpoint();
            serve(&mut [&mut two, &mut three], PATIENCE, "backups have its state", |all| {
                all[0].installs > installs
            });
            let by_now = reads.load(SeqCst);
            until("it reads on", || reads.load(SeqCst) > by_now + 1);
        }
        over.store(true, SeqCst);
        reading.join().unwrap();
    });
    assert_eq!(bed.report(2).waiting.operations, 0);
    drop(agents);
}
