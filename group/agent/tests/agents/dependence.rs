//! Dependence on something else: on another group's clock, on the disk, on the system's leave.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bed::{Bed, PATIENCE, until};
use truechimer_group::{Call, Refusal, Thread};
use truechimer_group_client::{CommitError, Event, Replica};

fn host() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_nanos()).unwrap()
}

/// A floor as an agent keeps it.
fn write_floor(bed: &Bed, group: &str, member: u32, floor: i64) {
    let text = format!("1 {group} {member} {floor}");
    let check = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let folder = bed.dir.join("state").join(group);
    std::fs::create_dir_all(&folder).unwrap();
    let line = format!(
        "{{\"format\":1,\"group\":\"{group}\",\"member\":{member},\"floor-ns\":{floor},\
         \"check\":{check}}}\n"
    );
    std::fs::write(folder.join(format!("{member}.floor")), line).unwrap();
}

fn now(replica: &Replica) -> i64 {
    replica.first_thread().now(Call::Group, Some(PATIENCE)).unwrap().time.0
}

#[test]
fn a_message_to_another_group_waits_until_that_groups_clock_is_there() {
    let bed = Bed::new();
    let ahead = host() + 2_000_000_000;
    write_floor(&bed, "early", 2, ahead);
    let agent = bed.agent_of(&[("early", 3), ("late", 3)], |_| {});
    let early = bed.attach_to("early", 1);
    let late: Vec<Replica> = (1..=3).map(|member| bed.attach_to("late", member)).collect();
    let sent = now(&early);
    assert!(sent > ahead, "{sent}: its clock begins behind the floor {ahead}");
    assert!(now(&late[0]) < sent, "there is nothing to wait for");
    early.send_to("late", b"from the other group").unwrap();
    until("it is held", || bed.report_of("late", 3).waiting.causal == 1);
    let mut times = Vec::new();
    for replica in &late {
        loop {
            let event = replica.next(Some(PATIENCE)).unwrap().expect("in time");
            if let Event::Delivered(mut message) = event {
                assert_eq!(message.payload, b"from the other group");
                assert_eq!(message.stamp, Some(sent));
                // Nobody asks that group for its time: it starts a round for this.
                times.push(message.now().unwrap().time.0);
                break;
            }
        }
    }
    assert!(times[0] >= sent && times.iter().all(|time| *time == times[0]), "{times:?} {sent}");
    // And back: what was received is the latest that the sender has seen.
    late[0].send_to("early", b"thanks").unwrap();
    late[0].send_to("nowhere", b"lost").unwrap();
    let answer = loop {
        if let Some(Event::Delivered(message)) = early.next(Some(PATIENCE)).unwrap() {
            break message;
        }
    };
    assert!(answer.stamp == Some(times[0]) && answer.time.time.0 >= times[0], "{answer:?}");
    loop {
        if let Event::Refused { why, .. } = late[0].next(Some(PATIENCE)).unwrap().expect("in time")
        {
            assert_eq!(why, Refusal::Outside);
            break;
        }
    }
    agent.stop();
}

#[test]
fn what_is_beyond_the_floor_on_a_members_disk_it_does_not_acknowledge() {
    let bed = Bed::new();
    let agents: Vec<_> = (1..=3).map(|member| bed.agent_by_itself(member)).collect();
    // A reply waits for a majority of the programs; those of the two never read.
    let others = [1, 2].map(|member| bed.attach(member));
    let program = bed.attach(3);
    let clock = program.thread(Thread(Thread::FIRST.0));
    let value = clock.now(Call::Group, Some(PATIENCE)).unwrap();
    program.commit(value.point, Some(PATIENCE)).unwrap();
    // The disks of two take nothing more; neither has a program that would have to wait for it.
    for (_, state) in &agents[..2] {
        std::fs::remove_dir_all(state).unwrap();
    }
    let short = Some(Duration::from_secs(2));
    until("a majority's disks are behind", || {
        let Ok(value) = clock.now(Call::Group, short) else { return true };
        match program.commit(value.point, short) {
            Ok(()) => false,
            Err(CommitError::Late) => true,
            Err(why) => panic!("{why}"),
        }
    });
    for member in [1, 2] {
        let report = bed.report(member);
        assert!(report.last.unwrap().time_ns > report.floor_ns.unwrap(), "{report:#?}");
    }
    for (_, state) in &agents[..2] {
        std::fs::create_dir_all(state.join("test")).unwrap();
    }
    let value = clock.now(Call::Group, Some(PATIENCE)).unwrap();
    program.commit(value.point, Some(PATIENCE)).unwrap();
    drop((others, agents));
}

#[test]
fn a_real_time_priority_is_taken_or_it_is_said_why_not() {
    let bed = Bed::new();
    let agent = bed.agent_of(&[("test", 1)], |settings| settings.real_time = Some(7));
    now(&bed.attach(1));
    // Policy and priority of each thread: fields 41 and 40 of its stat.
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let real_time = tasks.filter_map(Result::ok).any(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        (fields.get(37), fields.get(38)) == (Some(&"7"), Some(&"2"))
    });
    let said = agent.lines();
    let says = |what: &str| said.iter().any(|line| line.contains(what));
    match real_time {
        true => assert!(says("real-time priority 7"), "{said:?}"),
        false => assert!(says("no real-time priority") && says("CAP_SYS_NICE"), "{said:?}"),
    }
    agent.stop();
}
