//! The primary by real agents: it follows the programs, and operators' words.

use std::thread;

use crate::bed::{Bed, PATIENCE, Running, until};
use truechimer_group::{Call, Member, Mode};
use truechimer_group_agent::ThreadReport;
use truechimer_group_client::{Agreed, Post, Replica, Unshifted, Watcher};

fn three(bed: &Bed, mode: Mode) -> (Vec<Running>, Vec<Replica>) {
    let agent = |member| bed.agent_with(member, |membership| membership.group.mode = mode);
    let agents = (1..=3).map(agent).collect();
    let programs = |count: usize| {
        (1..=3).all(|member| {
            let members = bed.report(member).members;
            let known = members.iter().filter(|it| it.live && it.program == (count > 0));
            known.count() == 3
        })
    };
    until("all are live, without programs", || programs(0));
    let replicas = (1..=3).map(|member| bed.attach(member)).collect();
    until("all programs read", || programs(3));
    (agents, replicas)
}

fn read(replica: &Replica) -> Agreed {
    replica.first_thread().now(Call::Group, Some(PATIENCE)).unwrap()
}

fn primary(bed: &Bed) -> u32 {
    bed.report(3).first.expect("one is live")
}

fn shift(bed: &Bed, member: u32, to: Post) -> Result<(), Unshifted> {
    let mut operator = Watcher::attach(&bed.place("test", 3)).unwrap();
    operator.shift(Member(member), to, PATIENCE).unwrap().expect("in time")
}

#[test]
fn a_program_that_ends_hands_over_though_its_agent_lives() {
    for mode in [Mode::SemiActive, Mode::Passive] {
        let bed = Bed::new();
        let (agents, mut replicas) = three(&bed, mode);
        let first = primary(&bed);
        let primary = replicas.remove(first as usize - 1);
        let before = read(&primary);
        assert_eq!(before.synchronizer, Member(first));
        // The backups have that too, and wait for the next.
        let waiting: Vec<_> = replicas
            .into_iter()
            .map(|replica| {
                thread::spawn(move || {
                    let had = read(&replica);
                    let (next, lead) = (read(&replica), replica.lead());
                    (replica, had, next, lead)
                })
            })
            .collect();
        until("both backups wait", || {
            let others = (1..=3).filter(|member| *member != first);
            others.into_iter().all(|member| {
                let report = bed.report(member);
                let read =
                    |it: &ThreadReport| it.thread == "10" && (it.read, it.waits) == (1, true);
                report.threads.iter().any(read)
            })
        });
        let told = bed.report(if first == 1 { 2 } else { 1 }).why_blocked();
        assert!(told.contains(&format!("member {first} has been the primary")), "{told}");
        drop(primary);
        let ended: Vec<_> = waiting.into_iter().map(|one| one.join().unwrap()).collect();
        let (_, _, next, lead) = &ended[0];
        for (_, had, same, _) in &ended {
            assert_eq!((*had, *same), (before, *next), "{mode}");
        }
        assert!(next.time > before.time && next.synchronizer != Member(first));
        let text = lead.to_string();
        let why = format!("as the program of member {first} has ended");
        assert!(text.contains(&why) && lead.primary == Some(next.synchronizer), "{text}");
        let report = bed.report(first);
        assert_eq!((report.phase.as_str(), report.members.len()), ("live", 3));
        let handover = report.handover.expect("one");
        assert_eq!((handover.from, handover.cause.as_str()), (first, "ended"));
        assert_eq!(Member(handover.to), next.synchronizer);
        drop((ended, agents));
    }
}

#[test]
fn an_operator_promotes_demotes_and_drains() {
    let bed = Bed::new();
    let (agents, mut replicas) = three(&bed, Mode::SemiActive);
    assert_eq!(shift(&bed, 2, Post::First), Ok(()));
    assert_eq!(primary(&bed), 2);
    assert_eq!(shift(&bed, 2, Post::Last), Ok(()));
    assert_ne!(primary(&bed), 2);
    assert_eq!(shift(&bed, 3, Post::First), Ok(()));
    assert_eq!(shift(&bed, 3, Post::Drained), Ok(()));
    let report = bed.report(3);
    let own = report.members.iter().find(|member| member.member == 3).unwrap();
    assert_eq!((own.drained, own.rank), (true, Some(2)));
    assert_eq!(report.handover.unwrap().cause, "drained");
    assert!(replicas[2].lead().to_string().starts_with("an operator has drained this member"));
    assert_eq!(shift(&bed, 4, Post::First), Err(Unshifted::NotLive));
    // The others can go, but not all of them.
    replicas.remove(0);
    until("its end is known", || !bed.report(3).members[0].program);
    assert_eq!(shift(&bed, 1, Post::First), Err(Unshifted::NoProgram));
    assert_eq!(shift(&bed, 2, Post::Drained), Err(Unshifted::NobodyElse));
    let lines = agents[2].lines();
    assert!(lines.iter().any(|line| line.contains("an operator here drains member 3")));
    drop(agents);
}
