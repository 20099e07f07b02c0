//! Programs that read unlike: found, judged by a majority of the programs, fenced.

use super::*;
use crate::likeness::MOST_CONTESTS;
use crate::message::Contest;

const ALL: [u32; 3] = [1, 2, 3];
const THREAD: Thread = Thread::FIRST;

/// Members whose programs have started together.
fn running(universe: &[u32]) -> Net {
    let mut net = Net::formed(universe);
    universe.iter().for_each(|&id| net.event(id, Event::End));
    net.settle();
    start(&mut net, universe);
    net
}

fn start(net: &mut Net, ids: &[u32]) {
    ids.iter().for_each(|&id| net.event(id, Event::Start { together: ids.len() as u8 }));
    net.settle();
    net.pass(2 * MS);
}

fn reads(net: &mut Net, id: u32, call: Call) {
    net.event(id, Event::Read { thread: THREAD, call });
    net.settle();
    net.pass(5 * MS);
}

/// Members whose programs are fenced, as every live member has it.
fn fenced(net: &Net, ids: &[u32]) -> Vec<u32> {
    let known = |id: u32| -> Vec<u32> {
        let status = net.engine(id).status();
        status.members.iter().filter(|it| it.fenced).map(|it| it.member.0).collect()
    };
    let first = known(ids[0]);
    ids.iter().for_each(|&id| assert_eq!(known(id), first, "as member {id} has it"));
    net.all_live(ids);
    first
}

fn contests(net: &Net, id: u32) -> usize {
    net.engine(id).state.as_ref().unwrap().contests.len()
}

fn committed(net: &mut Net, id: u32, token: u64) -> bool {
    let point = net.engine(id).point();
    committed_at(net, id, token, point)
}

fn committed_at(net: &mut Net, id: u32, token: u64, point: Point) -> bool {
    net.event(id, Event::Commit { token, point });
    net.settle();
    net.pass(20 * MS);
    net.nodes[&id].actions.contains(&Action::Committed { token })
}

#[test]
fn programs_that_read_alike_say_nothing_of_it() {
    let mut net = running(&ALL);
    let before = net.engine(1).status().messages_delivered;
    for call in [Call::Time, Call::ClockGettime, Call::Time] {
        // Whoever is first, and however late the others are.
        for id in [2, 1, 3] {
            net.event(id, Event::Read { thread: THREAD, call });
            net.settle();
        }
        net.pass(2 * MS);
    }
    // Some proposals, and no word more.
    assert!(net.engine(1).status().messages_delivered - before <= 9);
    assert_eq!((fenced(&net, &ALL), contests(&net, 1)), (vec![], 0));
    assert!(committed(&mut net, 1, 1));
}

#[test]
fn whoever_differs_from_a_majority_is_fenced_whoever_was_first() {
    for odd in ALL {
        for first in ALL {
            let mut net = running(&ALL);
            let order = ALL.into_iter().cycle().skip(first as usize - 1).take(3);
            for id in order {
                reads(&mut net, id, if id == odd { Call::Time } else { Call::ClockGettime });
            }
            assert_eq!(fenced(&net, &ALL), [odd], "first {first}");
            assert_eq!(contests(&net, 1), 0);
            let fence = net.engine(odd).fence().unwrap();
            let found = (fence.thread, fence.round, fence.ours, fence.theirs);
            assert_eq!(found, (THREAD, Round(0), Call::Time, Call::ClockGettime));
            for id in ALL {
                let told = Notice::Fenced { member: Member(odd), fence };
                let times = net.notices(id).iter().filter(|it| **it == told).count();
                assert_eq!((times, net.engine(id).gaps()), (1, u64::from(id == odd)));
            }
            // No service; and the others go on without it.
            assert!(!committed(&mut net, odd, 1));
            let right: Vec<u32> = ALL.into_iter().filter(|id| *id != odd).collect();
            assert!(committed(&mut net, right[0], 2));
            net.all_read(&right, 17);
        }
    }
}

#[test]
fn one_that_is_late_is_judged_when_it_comes() {
    let universe = [1, 2, 3, 4, 5];
    let mut net = running(&universe);
    reads(&mut net, 1, Call::Time);
    for id in [2, 3, 4] {
        reads(&mut net, id, Call::ClockGettime);
    }
    assert_eq!((fenced(&net, &universe), contests(&net, 1)), (vec![1], 1));
    // It reads as the round was decided: for it alone nothing is odd.
    reads(&mut net, 5, Call::Time);
    assert_eq!((fenced(&net, &universe), contests(&net, 1)), (vec![1, 5], 0));
}

#[test]
fn of_two_that_differ_one_commits_and_only_after_a_majority_has_judged() {
    let mut net = running(&ALL);
    let before = net.engine(1).point();
    reads(&mut net, 1, Call::Time);
    reads(&mut net, 2, Call::ClockGettime);
    assert_eq!((fenced(&net, &ALL), contests(&net, 1)), (vec![], 1));
    // The third has not come so far: it may come to what either of them has.
    assert!(!committed(&mut net, 1, 1) && !committed(&mut net, 2, 1) && !committed(&mut net, 3, 1));
    // They do not quarrel about what was before.
    assert!(committed_at(&mut net, 1, 2, before) && committed_at(&mut net, 2, 2, before));
    reads(&mut net, 3, Call::ClockGettime);
    assert_eq!((fenced(&net, &ALL), contests(&net, 1)), (vec![1], 0));
    let done = |id: u32, action: Action| net.nodes[&id].actions.contains(&action);
    assert!([2, 3].iter().all(|&id| done(id, Action::Committed { token: 1 })));
    assert!(done(1, Action::Uncommitted { token: 1 }));
    assert!(!done(1, Action::Committed { token: 1 }));
}

/// All agents have acknowledged the place by then, and nothing of the difference is in the stream.
#[test]
fn whoever_differs_has_its_vote_in_the_stream_before_it_commits() {
    let mut net = running(&ALL);
    reads(&mut net, 1, Call::Time);
    // The first to read is not held up: the others' programs may come as far a while later.
    assert!(committed(&mut net, 1, 1));
    net.event(2, Event::Read { thread: THREAD, call: Call::ClockGettime });
    let point = net.engine(2).point();
    net.event(2, Event::Commit { token: 1, point });
    assert!(!net.nodes[&2].actions.contains(&Action::Committed { token: 1 }));
    net.settle();
    net.pass(20 * MS);
    assert!(!net.nodes[&2].actions.contains(&Action::Committed { token: 1 }));
    reads(&mut net, 3, Call::Time);
    assert_eq!(fenced(&net, &ALL), [2]);
    assert!(net.nodes[&2].actions.contains(&Action::Uncommitted { token: 1 }));
}

#[test]
fn without_a_majority_nobody_is_fenced_and_nobody_commits() {
    let mut net = running(&ALL);
    reads(&mut net, 1, Call::Time);
    reads(&mut net, 2, Call::ClockGettime);
    net.event(3, Event::End);
    net.settle();
    assert_eq!((fenced(&net, &ALL), contests(&net, 1)), (vec![], 1));
    assert!(!committed(&mut net, 1, 2) && !committed(&mut net, 2, 2));
    // Readings go on; and the difference is said once, however many follow.
    for _ in 0..100 {
        reads(&mut net, 1, Call::Time);
        reads(&mut net, 2, Call::ClockGettime);
    }
    assert_eq!((fenced(&net, &ALL), contests(&net, 1)), (vec![], 1));
    // A program that starts now has read nothing of it, and cannot tell.
    start(&mut net, &[3]);
    assert_eq!((fenced(&net, &ALL), contests(&net, 1)), (vec![], 1));
    assert!(ALL.iter().all(|&id| !committed(&mut net, id, 3)));
    // Where one ends there is no difference left.
    net.event(2, Event::End);
    net.settle();
    assert_eq!(contests(&net, 1), 0);
    net.pass(20 * MS);
    assert!(
        [1, 3].iter().all(|&id| net.nodes[&id].actions.contains(&Action::Committed { token: 3 }))
    );
}

#[test]
fn a_commit_waits_for_a_majority_of_programs() {
    let mut net = Net::formed(&ALL);
    ALL.iter().for_each(|&id| net.event(id, Event::End));
    net.settle();
    // No program's: the agents' word is enough, as for a front.
    assert!(committed(&mut net, 1, 1));
    start(&mut net, &[1]);
    assert!(!committed(&mut net, 1, 2));
    start(&mut net, &[2]);
    net.pass(2 * S);
    assert!(net.nodes[&1].actions.contains(&Action::Committed { token: 2 }));
    net.event(2, Event::Missed);
    net.settle();
    assert_eq!(fenced(&net, &ALL), [2]);
    assert!(!committed(&mut net, 1, 3), "one that has missed something has not got it");
    net.event(2, Event::Restarted);
    net.pass(2 * S);
    assert!(net.nodes[&1].actions.contains(&Action::Committed { token: 3 }));
}

#[test]
fn a_fence_lasts_until_the_program_begins_anew() {
    let mut net = running(&ALL);
    for id in ALL {
        reads(&mut net, id, if id == 3 { Call::Time } else { Call::Group });
    }
    let fence = net.engine(3).fence();
    // Also while its member is away.
    net.split(&[&[1, 2], &[3]]);
    net.settle();
    net.join(&ALL);
    net.settle();
    net.pass(S);
    assert_eq!(fenced(&net, &ALL), [3]);
    let status = net.engine(1).status();
    assert_eq!(status.members[2].differs, fence);
    net.event(3, Event::Restarted);
    net.settle();
    assert_eq!(fenced(&net, &ALL), [0; 0]);
    assert_eq!(net.engine(3).fence(), None);
    // It is judged by what it reads from here on.
    net.all_read(&ALL, THREAD.0);
    for id in ALL {
        reads(&mut net, id, if id == 3 { Call::Time } else { Call::Group });
    }
    assert_eq!(fenced(&net, &ALL), [3]);
    net.event(3, Event::End);
    net.settle();
    assert_eq!(fenced(&net, &ALL), [0; 0]);
}

/// The one that differs is two rounds ahead, is fenced for the first, and ends: nobody says of the
/// second what it is not, whoever has read it before the fence, after it or after the end.
#[test]
fn rounds_of_one_that_was_fenced_set_nobody_against_another() {
    for universe in [&[1, 2, 3][..], &[1, 2, 3, 4, 5]] {
        let mut net = running(universe);
        let (first, last) = (&universe[1..universe.len() - 1], universe[universe.len() - 1]);
        for _ in 0..2 {
            net.event(1, Event::Read { thread: THREAD, call: Call::Time });
            net.settle();
        }
        // The second round before the verdict on the first, where nothing of that is heard yet.
        for id in first {
            for _ in 0..2 {
                net.event(*id, Event::Read { thread: THREAD, call: Call::Group });
            }
        }
        net.settle();
        net.pass(5 * MS);
        for _ in 0..2 {
            reads(&mut net, last, Call::Group);
        }
        assert_eq!((fenced(&net, universe), contests(&net, 1)), (vec![1], 0));
        net.event(1, Event::End);
        net.settle();
        net.pass(2 * S);
        assert_eq!((fenced(&net, universe), contests(&net, 1)), (vec![], 0));
        for id in [2, last] {
            assert!(committed(&mut net, id, 1), "member {id} of {universe:?}");
        }
        net.all_read(&universe[1..], THREAD.0);
    }
}

/// (It was fenced in the place of the one before it; a random run found that.)
#[test]
fn a_program_that_starts_before_the_verdict_on_the_former_is_not_fenced_for_it() {
    let mut net = running(&ALL);
    for id in ALL {
        net.event(id, Event::Read { thread: THREAD, call: Call::Group });
    }
    net.settle();
    net.pass(5 * MS);
    for id in [1, 2] {
        reads(&mut net, id, Call::Group);
    }
    net.event(3, Event::Read { thread: THREAD, call: Call::Time });
    // Its member's word is under way, and the others'; here nothing of that has come.
    net.flush(3);
    for id in [1, 2] {
        while net.step(id) {}
        net.flush(id);
    }
    net.event(3, Event::End);
    net.event(3, Event::Start { together: 3 });
    net.settle();
    assert!(net.notices(3).iter().any(|it| matches!(it, Notice::Fenced { member: Member(3), .. })));
    assert_eq!((net.engine(3).fence(), net.engine(3).gaps()), (None, 0));
    net.pass(2 * S);
    assert_eq!(fenced(&net, &ALL), [0; 0]);
}

#[test]
fn a_primary_that_differs_hands_over() {
    let mode = Mode::SemiActive;
    let mut net = Net::of(Group { mode, ..Group::new("test", &members(&ALL)) });
    net.boot(&ALL);
    ALL.iter().for_each(|&id| net.event(id, Event::End));
    net.settle();
    start(&mut net, &ALL);
    assert_eq!(net.engine(2).primary(), Some(Member(1)));
    for id in ALL {
        reads(&mut net, id, if id == 1 { Call::Time } else { Call::Group });
    }
    assert_eq!(fenced(&net, &ALL), [1]);
    let handover = net.engine(3).handover().unwrap();
    assert_eq!((handover.to, handover.cause), (Member(2), Cause::Fenced));
    net.all_read(&[2, 3], THREAD.0);
}

#[test]
fn one_that_takes_checkpoints_comes_in_anew_with_anothers() {
    let mut net = Net::new(&ALL);
    net.checkpoints = true;
    net.boot(&ALL);
    for id in ALL {
        net.event(id, Event::Read { thread: THREAD, call: Call::Group });
    }
    net.settle();
    net.pass(2 * MS);
    for id in ALL {
        reads(&mut net, id, if id == 2 { Call::Time } else { Call::Group });
    }
    assert!(net.notices(1).iter().any(|it| matches!(it, Notice::Fenced { member: Member(2), .. })));
    assert_ne!(net.phase(2), Phase::Live);
    let asked = |net: &Net| {
        net.nodes[&1].actions.iter().find_map(|action| match action {
            Action::TakeCheckpoint { join } => Some(*join),
            _ => None,
        })
    };
    let join = asked(&net).unwrap();
    let position = [(THREAD, Round(2))];
    net.event(1, Event::Checkpoint { join, data: b"state", position: &position });
    net.settle();
    net.pass(S);
    let installs = |action: &Action| matches!(action, Action::InstallCheckpoint { data, .. } if data == b"state");
    assert!(net.nodes[&2].actions.iter().any(installs));
    net.event(2, Event::Installed);
    net.all_read(&ALL, THREAD.0);
    assert_eq!(fenced(&net, &ALL), [0; 0]);
}

/// Members whose programs take checkpoints and have started; the second's has just been fenced.
fn one_has_left() -> Net {
    let mut net = Net::new(&ALL);
    net.checkpoints = true;
    net.boot(&ALL);
    start(&mut net, &ALL);
    for id in ALL {
        reads(&mut net, id, if id == 2 { Call::Time } else { Call::Group });
    }
    assert_ne!(net.phase(2), Phase::Live);
    assert_eq!(net.engine(2).fence(), None);
    net
}

#[test]
fn where_all_go_on_with_what_they_have_a_fenced_program_does_not() {
    let mut net = one_has_left();
    net.split(&[&[1], &[2], &[3]]);
    net.settle();
    net.join(&ALL);
    net.settle();
    let revived = Notice::Revived { members: 2 };
    assert!([1, 3].iter().all(|&id| net.notices(id).contains(&revived)));
    net.all_live(&[1, 3]);
    assert!(net.nodes[&1].actions.iter().any(|it| matches!(it, Action::TakeCheckpoint { .. })));
    assert!(!net.notices(2).contains(&revived));
}

#[test]
fn a_fenced_program_whose_member_alone_has_the_state_stays_fenced() {
    let mut net = one_has_left();
    net.kill(1);
    net.kill(3);
    net.settle();
    let last = net.engine(2).last().unwrap();
    net.boot(&[1]);
    net.join(&[1, 2]);
    net.settle();
    assert!(net.notices(2).contains(&Notice::Revived { members: 1 }));
    assert!(net.engine(2).last().unwrap() >= last);
    assert!(net.engine(2).fence().is_some() && net.engine(2).gaps() == 1);
    assert_eq!(fenced(&net, &[2]), [2]);
    // Its state is for nobody: it is not asked for, and not taken where it was asked for before.
    let asked = |net: &Net| {
        let actions = net.nodes[&2].actions.iter();
        let asked = actions.filter_map(|action| match action {
            Action::TakeCheckpoint { join } => Some(*join),
            _ => None,
        });
        asked.collect::<Vec<u64>>()
    };
    net.pass(5 * S);
    let before = asked(&net);
    assert_eq!(before, [0; 0]);
    for join in 1..100 {
        net.event(2, Event::Checkpoint { join, data: b"differs", position: &[] });
    }
    net.settle();
    net.pass(S);
    let installs = |action: &Action| matches!(action, Action::InstallCheckpoint { .. });
    assert!(!net.nodes[&1].actions.iter().any(installs));
    assert!(net.notices(2).contains(&Notice::NoCheckpoint { member: Member(1) }));
    net.event(2, Event::Restarted);
    net.settle();
    net.pass(2 * MS);
    assert_eq!((net.engine(2).fence(), fenced(&net, &[2])), (None, vec![]));
    // Begun anew it has one, for whoever asks again.
    for _ in 0..100 {
        net.pass(S);
    }
    let join = *asked(&net).last().unwrap();
    net.event(2, Event::Checkpoint { join, data: b"anew", position: &[] });
    net.settle();
    net.pass(S);
    let installs = |action: &Action| matches!(action, Action::InstallCheckpoint { data, .. } if data == b"anew");
    assert!(net.nodes[&1].actions.iter().any(installs));
}

/// The vote that fences a program may come with a message of another's, before it. The member goes
/// then, and as what it keeps may be what goes on, it has all of that place first.
#[test]
fn whoever_leaves_has_all_of_the_message_that_fences_it() {
    let mut net = Net::new(&ALL);
    net.checkpoints = true;
    net.boot(&ALL);
    for id in [1, 3] {
        reads(&mut net, id, if id == 3 { Call::Time } else { Call::Group });
    }
    net.event(2, Event::Read { thread: THREAD, call: Call::Group });
    net.event(2, Event::Multicast { token: 1, payload: b"with it", stamp: None });
    net.flush(2);
    net.deliver();
    let states: Vec<u64> =
        ALL.iter().map(|&id| net.engine(id).state.as_ref().unwrap().digest()).collect();
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    let place = |id: u32, wanted: fn(&Action) -> bool| {
        net.nodes[&id].actions.iter().rposition(wanted).unwrap()
    };
    let got = |action: &Action| matches!(action, Action::Deliver { token: 1, .. });
    let gone = place(3, |action| matches!(action, Action::Phase(Phase::Outside)));
    assert!(place(3, |action| matches!(action, Action::Notice(Notice::Fenced { .. }))) < gone);
    assert!(place(3, got) < gone);
    assert!(place(1, got) > 0);
}

#[test]
fn threads_that_are_no_programs_are_not_compared() {
    let mut net = running(&ALL);
    let thread = Thread::shared(7);
    for (id, call) in [(1, Call::Time), (2, Call::Group), (3, Call::Group)] {
        net.event(id, Event::Read { thread, call });
        net.settle();
        net.pass(5 * MS);
    }
    assert_eq!((fenced(&net, &ALL), contests(&net, 1)), (vec![], 0));
}

/// So that nothing goes out that depends on what was not said.
#[test]
fn a_vote_for_which_there_is_no_room_is_said_again() {
    let mut net = running(&ALL);
    reads(&mut net, 1, Call::Time);
    net.event(2, Event::Read { thread: THREAD, call: Call::ClockGettime });
    let engine = net.nodes.get_mut(&2).unwrap().engine.as_mut().unwrap();
    let (before, vote) = (engine.told_before(), engine.vote_owed().unwrap());
    let contest = |number: u64| Contest {
        thread: Thread(100 + number),
        round: Round(0),
        at: Point::default(),
        decided: Call::Time,
        since: GroupTime(0),
        ballots: Vec::new(),
    };
    let all = (0..MOST_CONTESTS as u64).map(contest).collect();
    engine.state.as_mut().unwrap().contests = all;
    engine.voted(Member(2), &vote);
    assert_eq!(engine.told_before(), before);
    // Nor by one that is about the round as another stream has it.
    let (thread, round, since) = (vote.thread, vote.round, GroupTime(0));
    let (at, decided, ballots) = (Point::default(), Call::Time, Vec::new());
    let other = Contest { thread, round, at, decided, since, ballots };
    engine.state.as_mut().unwrap().contests = vec![other];
    engine.voted(Member(2), &vote);
    assert_eq!(engine.told_before(), before);
    engine.state.as_mut().unwrap().contests = Vec::new();
    engine.voted(Member(2), &vote);
    assert!(engine.told_before() > before);
}
