//! More threads than are remembered.

use proptest::prelude::*;

use super::*;

fn net(threads: u32) -> Net {
    let mut net = Net::of(Group { threads, ..Group::new("test", &members(&[1, 2, 3])) });
    net.boot(&[1, 2, 3]);
    net
}

#[test]
fn nobody_keeps_the_values_of_another_members_own_thread() {
    let mut net = Net::formed(&[1, 2, 3]);
    let own = Thread::of_member(1, 0).0;
    for _ in 0..5 {
        net.read(2, own);
        net.settle();
    }
    assert_eq!(net.values(2).len(), 5);
    net.pass(S);
    for id in 1..=3 {
        let status = net.engine(id).status();
        assert_eq!((status.kept, status.pending), (0, 0));
        assert_eq!(status.threads[&Thread(own)].decided, Round(5));
    }
    // It is nobody else's to read.
    net.read(1, own);
    net.settle();
    assert_eq!(net.engine(1).status().pending, 0);
    assert_eq!(net.values(1).len(), 0);
}

#[test]
fn a_thread_for_each_request_for_ever() {
    let mut net = net(10);
    for thread in 100..400 {
        net.all_read(&[1, 2, 3], thread);
        net.all_read(&[1, 2, 3], thread);
    }
    net.all_live(&[1, 2, 3]);
    for id in 1..=3 {
        let engine = net.engine(id);
        assert_eq!(engine.state.as_ref().unwrap().threads.len(), 10);
        // Nothing is left of those that have read all.
        assert!(engine.threads.all.is_empty());
        assert_eq!(engine.status().duplicates, 0);
    }
}

#[test]
fn a_forgotten_thread_goes_on_above_all_that_were() {
    let mut net = net(4);
    for _ in 0..7 {
        net.all_read(&[1, 2, 3], 16);
    }
    for thread in 100..105 {
        net.all_read(&[1, 2, 3], thread);
    }
    assert!(!net.engine(1).state.as_ref().unwrap().threads.contains_key(&Thread(16)));
    net.all_read(&[1, 2, 3], 16);
    let rounds = |net: &Net, thread| -> Vec<u64> {
        let of = net.values(2).into_iter().filter(|value| value.0 == thread);
        of.map(|value| value.1).collect()
    };
    assert_eq!(rounds(&net, 16), [0, 1, 2, 3, 4, 5, 6, 7]);
    // A new one cannot be told from a forgotten one.
    net.all_read(&[1, 2, 3], 200);
    assert_eq!(rounds(&net, 200), [7]);
    net.all_live(&[1, 2, 3]);
}

#[test]
fn an_operation_that_waits_goes_on_when_its_thread_is_forgotten() {
    let mut net = net(2);
    net.all_read(&[1, 2, 3], 16);
    // 3 waits for round 1, and its proposal is under way when the thread is forgotten.
    net.read(3, 16);
    for thread in 100..103 {
        net.read(1, thread);
        net.read(1, thread);
        net.settle();
        net.read(1, thread);
        net.settle();
    }
    net.pass(2 * MS);
    for id in 1..=2 {
        net.read(id, 16);
    }
    net.pass(2 * MS);
    let last = |id| *net.values(id).iter().rev().find(|value| value.0 == 16).unwrap();
    assert_eq!(last(1), last(3));
    assert_eq!(last(2), last(3));
    net.all_live(&[1, 2, 3]);
}

#[test]
fn values_of_a_forgotten_thread_are_still_there_for_the_slow() {
    let mut net = net(2);
    for _ in 0..3 {
        net.all_read(&[1, 2], 16);
    }
    for thread in 100..110 {
        net.all_read(&[1, 2], thread);
    }
    for _ in 0..3 {
        net.read(3, 16);
    }
    let of = |id| -> Vec<_> { net.values(id).into_iter().filter(|it| it.0 == 16).collect() };
    assert_eq!(of(3), of(1));
    net.all_read(&[1, 2, 3], 16);
}

#[test]
fn rounds_given_up_are_decided_all_the_same() {
    let mut net = net(2);
    for thread in 100..200 {
        net.read(2, thread);
        net.event(2, Event::Abandon { thread: Thread(thread) });
    }
    assert_eq!(net.engine(2).threads.all.len(), 100);
    net.pass(2 * MS);
    assert!(net.engine(2).threads.all.is_empty() && net.engine(2).threads.waiting.is_empty());
    net.all_live(&[1, 2, 3]);
}

#[test]
fn many_rounds_given_up_are_not_sent_again_and_again() {
    let mut net = net(100);
    net.split(&[&[1], &[2], &[3]]);
    net.settle();
    for _ in 0..200 {
        net.read(2, 16);
        net.event(2, Event::Abandon { thread: Thread(16) });
    }
    net.join(&[1, 2, 3]);
    net.settle();
    net.read(2, 16);
    net.pass(20 * MS);
    assert_eq!(net.values(2).last().unwrap().1, 200);
    assert!(net.engine(2).status().proposals_sent <= 201);
    net.all_live(&[1, 2, 3]);
}

#[test]
fn a_program_that_is_behind_everywhere_takes_no_memory() {
    let mut net = net(16);
    net.buffer = 4;
    net.kill(3);
    net.settle();
    net.start(3);
    net.join(&[1, 2, 3]);
    net.settle();
    for chunk in 0..70 {
        for thread in 0..1000 {
            net.read(1, 1000 + chunk * 1000 + thread);
        }
        net.settle();
    }
    let threads = &net.engine(3).threads;
    assert!(threads.all.len() < 66_000 && threads.kept <= 4, "{}", threads.all.len());
    let reject = Action::Reject { thread: Thread(500_000), why: Rejection::Behind };
    net.read(3, 500_000);
    assert!(net.nodes[&3].actions.contains(&reject));
    net.event(3, Event::Restarted);
    net.all_read(&[1, 2, 3], 500_000);
}

/// Acts of a member of the property test.
#[derive(Clone, Debug)]
enum Do {
    Read(u32, u64),
    Abandon(u32, u64),
    Flush(u32),
    Step(u32, usize),
    Pass,
    Settle,
}

fn doing() -> impl Strategy<Value = Do> {
    let (id, thread) = (1u32..=3, 16u64..22);
    prop_oneof![
        6 => (id.clone(), thread.clone()).prop_map(|(id, thread)| Do::Read(id, thread)),
        1 => (id.clone(), thread).prop_map(|(id, thread)| Do::Abandon(id, thread)),
        5 => id.clone().prop_map(Do::Flush),
        5 => (id, 1usize..6).prop_map(|(id, many)| Do::Step(id, many)),
        2 => Just(Do::Pass),
        1 => Just(Do::Settle),
    ]
}

proptest! {
    /// With room for one or two threads of six, whatever is under way when one is forgotten: no
    /// round has two values, the k-th operation of a thread gets the same value everywhere, numbers
    /// and times go up, and nothing waits for ever.
    #[test]
    fn no_round_has_two_values(limit in 1u32..3, what in prop::collection::vec(doing(), 1..300)) {
        let mut net = net(limit);
        // Which operation of its thread, as the program counts, each member is at.
        let mut begun: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        for step in what {
            match step {
                Do::Read(id, thread) => {
                    let waits = net.engine(id).threads.all.get(&Thread(thread));
                    if !waits.is_some_and(crate::threads::Local::waits) {
                        net.read(id, thread);
                        *begun.entry((id, thread)).or_default() += 1;
                    }
                }
                Do::Abandon(id, thread) => {
                    net.event(id, Event::Abandon { thread: Thread(thread) });
                }
                Do::Flush(id) => net.flush(id),
                Do::Step(id, many) => (0..many).for_each(|_| { net.step(id); }),
                Do::Pass => net.now += MS / 3,
                Do::Settle => net.settle(),
            }
        }
        net.pass(20 * MS);
        net.pass(12 * S);
        net.all_live(&[1, 2, 3]);
        let mut decided: BTreeMap<(u64, u64), Agreed> = BTreeMap::new();
        for id in 1..=3 {
            let engine = net.engine(id);
            prop_assert!(engine.threads.all.values().all(|it| !it.waits()), "{id} waits");
            prop_assert!(engine.state.as_ref().unwrap().threads.len() <= limit as usize + 1);
            let mut before: BTreeMap<u64, (u64, i64)> = BTreeMap::new();
            for (thread, round, value) in net.values(id) {
                let there = *decided.entry((thread, round)).or_insert(value);
                prop_assert_eq!(there, value);
                let now = (round, value.time.0);
                if let Some(before) = before.insert(thread, now) {
                    prop_assert!(before.0 < now.0 && before.1 < now.1);
                }
            }
        }
        // All come to the same place of each thread: what each reads next is the same.
        for thread in 16..22 {
            let most = (1..=3).filter_map(|id| begun.get(&(id, thread))).max().copied();
            for id in 1..=3 {
                for _ in begun.get(&(id, thread)).copied().unwrap_or(0)..most.unwrap_or(0) {
                    net.read(id, thread);
                    net.pass(2 * MS);
                }
            }
            net.pass(2 * MS);
            net.all_read(&[1, 2, 3], thread);
        }
        net.all_live(&[1, 2, 3]);
    }
}
