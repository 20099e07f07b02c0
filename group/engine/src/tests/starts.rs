//! Programs that start, alone or together, after whatever was read before.

use super::*;

const ALL: [u32; 3] = [1, 2, 3];
const FIRST: u64 = Thread::FIRST.0;

/// Events that a node's program has had since its last start.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Had {
    /// Members whose programs ran when it began; none: it has not.
    began: Option<Vec<u32>>,
    /// Thread, round and time of what it read.
    read: Vec<(u64, u64, i64)>,
}

impl Net {
    /// A program starts, beginning with so many: the group's clock at its member then.
    fn begin(&mut self, id: u32, together: u8) -> i64 {
        let now = self.reading(id);
        let view = self.engine(id).view(now).map_or(i64::MIN, |view| view.0);
        self.nodes.get_mut(&id).unwrap().actions.clear();
        self.event(id, Event::Start { together });
        view
    }

    fn end(&mut self, id: u32) {
        self.event(id, Event::End);
    }

    fn had(&self, id: u32) -> Had {
        let began = self.nodes[&id].actions.iter().find_map(|action| match action {
            Action::Begun { running } => Some(running.iter().map(|member| member.0).collect()),
            _ => None,
        });
        let read =
            self.values(id).into_iter().map(|(thread, round, it)| (thread, round, it.time.0));
        Had { began, read: read.collect() }
    }

    /// All of these start at once and read once each: the value, which is as it must be.
    fn fresh(&mut self, ids: &[u32]) -> i64 {
        let starts: Vec<i64> = ids.iter().map(|&id| self.begin(id, ids.len() as u8)).collect();
        ids.iter().for_each(|&id| self.read(id, FIRST));
        self.settle();
        self.pass(2 * MS);
        let had = self.had(ids[0]);
        assert_eq!((had.began.as_deref(), had.read.len()), (Some(&[][..]), 1));
        assert!(starts.iter().all(|start| had.read[0].2 > *start), "{starts:?} {had:?}");
        ids.iter().for_each(|&id| assert_eq!(self.had(id), had));
        had.read[0].2
    }
}

/// The agents of such members say at their beginning that no program is there.
fn formed() -> Net {
    let mut net = Net::formed(&ALL);
    ALL.iter().for_each(|&id| net.end(id));
    net.settle();
    net
}

#[test]
fn what_one_has_read_alone_makes_no_difference() {
    let mut net = formed();
    let mut last = 0;
    for _ in 0..3 {
        let alone = net.fresh(&[1]);
        assert!(alone > last);
        last = alone;
        net.end(1);
        net.pass(10 * MS);
    }
    net.pass(5 * S);
    let together = net.fresh(&ALL);
    assert!(together >= last + 5 * S);
    // They go on together, whoever is ahead of the others.
    for _ in 0..5 {
        net.read(2, FIRST);
        net.settle();
        net.pass(2 * MS);
    }
    for _ in 0..5 {
        net.all_read(&[1, 3], FIRST);
    }
    assert_eq!(net.had(1), net.had(2));
    assert_eq!(net.had(3), net.had(2));
}

#[test]
fn all_that_are_killed_and_started_again_read_the_same_and_now() {
    let mut net = formed();
    net.fresh(&ALL);
    // They are not equally far when they die.
    for (id, reads) in [(1, 7), (2, 3), (3, 0)] {
        for _ in 0..reads {
            net.read(id, FIRST);
            net.settle();
            net.pass(2 * MS);
        }
    }
    net.pass(4 * S);
    ALL.iter().for_each(|&id| net.end(id));
    net.fresh(&ALL);
    // Nor does it matter in which order ends and starts come.
    net.end(2);
    net.begin(1, 3);
    net.settle();
    net.end(3);
    net.pass(100 * MS);
    net.fresh(&ALL);
    assert_eq!(net.engine(1).status().kept, 0, "nothing is kept of what no program will read");
}

#[test]
fn a_program_waits_for_those_of_all_live_members_but_not_for_ever() {
    let mut net = formed();
    let start = net.begin(2, 0);
    net.read(2, FIRST);
    net.settle();
    net.pass(900 * MS);
    assert_eq!(net.had(2), Had::default());
    net.pass(200 * MS);
    net.pass(2 * MS);
    let had = net.had(2);
    assert_eq!((had.began, had.read.len()), (Some(vec![]), 1));
    assert!(had.read[0].2 >= start + S, "it waited, and reads what is true then");
    net.end(2);
    net.settle();
    // Where all are there nobody waits.
    ALL.iter().for_each(|&id| {
        net.begin(id, 0);
        net.settle();
    });
    assert_eq!(ALL.map(|id| net.had(id).began), [(); 3].map(|()| Some(vec![])));
}

#[test]
fn as_many_as_are_wanted_start_however_long_that_takes() {
    let mut net = formed();
    net.begin(3, 2);
    net.pass(60 * S);
    assert_eq!(net.had(3).began, None);
    net.begin(1, 0);
    net.read(1, FIRST);
    net.settle();
    net.pass(900 * MS);
    assert_eq!(net.had(1).began, None, "it waits for the second as well");
    net.pass(200 * MS);
    assert_eq!([1, 3].map(|id| net.had(id).began), [Some(vec![]), Some(vec![])]);
    // More than there are members are all of them.
    ALL.iter().for_each(|&id| net.end(id));
    ALL.iter().for_each(|&id| {
        net.begin(id, 254);
    });
    net.settle();
    assert_eq!(ALL.map(|id| net.had(id).began), [(); 3].map(|()| Some(vec![])));
}

#[test]
fn one_that_wants_more_than_there_are_stops_nobody_else() {
    let mut net = formed();
    net.begin(3, 3);
    net.settle();
    net.begin(1, 1);
    net.settle();
    assert_eq!(net.had(1).began, Some(vec![]));
    net.end(1);
    net.begin(2, 0);
    net.settle();
    net.pass(1100 * MS);
    assert_eq!((net.had(2).began, net.had(3).began), (Some(vec![]), None));
    net.end(2);
    net.end(3);
    net.settle();
    net.fresh(&ALL);
}

#[test]
fn nobody_waits_for_one_that_is_gone() {
    for end in [Net::end as fn(&mut Net, u32), Net::kill] {
        let mut net = formed();
        net.begin(2, 0);
        net.settle();
        // It has enough, and the other has not.
        net.begin(3, 1);
        net.settle();
        end(&mut net, 2);
        net.settle();
        net.pass(1100 * MS);
        assert_eq!(net.had(3).began, Some(vec![]));
    }
}

#[test]
fn one_that_starts_beside_others_goes_on_with_them_and_is_told_what_it_lacks() {
    let mut net = formed();
    net.fresh(&[1, 2]);
    for _ in 0..4 {
        net.all_read(&[1, 2], FIRST);
    }
    net.pass(3 * S);
    let start = net.begin(3, 0);
    net.read(3, FIRST);
    net.settle();
    net.all_read(&[1, 2], FIRST);
    net.pass(1100 * MS);
    let had = net.had(3);
    assert_eq!((had.began, had.read.len()), (Some(vec![1, 2]), 1));
    assert!(had.read[0].2 > start + S);
    // What it has read is what the others read next.
    net.read(1, FIRST);
    net.settle();
    assert_eq!(net.values(1).last().unwrap(), net.values(3).last().unwrap());
    net.read(2, FIRST);
    net.settle();
    net.all_read(&ALL, FIRST);
}

#[test]
fn those_that_are_started_again_one_after_the_other_begin_together() {
    let mut net = formed();
    net.fresh(&ALL);
    for id in ALL {
        net.end(id);
        net.begin(id, 0);
        net.read(id, FIRST);
        net.settle();
        net.pass(300 * MS);
    }
    let had = net.had(1);
    assert_eq!((had.began.as_deref(), had.read.len()), (Some(&[][..]), 1));
    assert_eq!([net.had(2), net.had(3)], [had.clone(), had]);
}

#[test]
fn what_is_given_up_before_the_beginning_counts_as_read() {
    let mut net = formed();
    net.begin(1, 2);
    net.read(1, FIRST);
    net.settle();
    net.event(1, Event::Abandon { thread: Thread::FIRST });
    net.begin(2, 2);
    net.settle();
    for _ in 0..2 {
        net.read(2, FIRST);
        net.settle();
        net.pass(2 * MS);
    }
    net.read(1, FIRST);
    net.settle();
    net.pass(2 * MS);
    assert_eq!(net.had(1).read, net.had(2).read[1..]);
}

#[test]
fn a_start_survives_that_its_member_is_cut_off() {
    let mut net = formed();
    net.begin(3, 3);
    net.read(3, FIRST);
    net.settle();
    net.split(&[&[1, 2], &[3]]);
    net.settle();
    net.pass(2 * S);
    net.begin(1, 3);
    net.begin(2, 3);
    net.pass(2 * S);
    assert_eq!(net.had(1).began, None);
    net.configure(&ALL, &[]);
    net.settle();
    net.pass(2 * S);
    net.read(1, FIRST);
    net.settle();
    net.pass(2 * MS);
    assert_eq!(net.had(3).began, Some(vec![]));
    assert_eq!(net.had(1).read, net.had(3).read);
    // All are cut off from each other: it is as it was.
    net.split(&[&[1], &[2], &[3]]);
    net.settle();
    net.configure(&ALL, &[]);
    net.settle();
    net.all_live(&ALL);
    net.end(2);
    net.begin(2, 1);
    net.settle();
    assert_eq!(net.had(2).began, Some(vec![1, 3]), "they are still known to run");
}

#[test]
fn a_late_word_to_begin_is_not_for_those_that_wait_by_then() {
    let mut net = formed();
    net.begin(1, 0);
    net.settle();
    net.pass(S - MS);
    // Its word is under way when the others start, with whom it begins.
    net.now += 2 * MS;
    let ids = [2, 3];
    net.flush(1);
    ids.iter().for_each(|&id| {
        net.begin(id, 0);
    });
    net.settle();
    assert_eq!(net.had(1).began, Some(vec![]));
    net.pass(900 * MS);
    let began = ids.map(|id| net.had(id).began);
    // Either with it, if their word came first, or only after their own time.
    assert!(began == [Some(vec![]), Some(vec![])] || began == [None, None], "{began:?}");
}

#[test]
fn threads_that_are_no_programs_wait_for_none() {
    let mut net = formed();
    let (own, shared) = (Thread::of_member(0, 0).0, Thread::shared(77).0);
    for _ in 0..3 {
        net.read(1, own);
        net.read(1, shared);
        net.settle();
        net.pass(2 * MS);
    }
    assert_eq!(net.values(1).len(), 6);
    // A program comes and goes: they go on as they were.
    net.begin(2, 1);
    net.settle();
    net.end(2);
    for _ in 0..3 {
        net.read(2, shared);
        net.settle();
    }
    let of = |id| net.values(id).into_iter().filter(|it| it.0 == shared).collect::<Vec<_>>();
    assert_eq!(of(2), of(1));
}

/// Numbers from a seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

/// After any history, of any unevenness, three that start at once read the same, each value later
/// than all their starts; and whoever is alone reads nothing older than its own start.
#[test]
fn no_history_makes_replicas_differ() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut net = formed();
        if seed % 4 == 3 {
            net.way = 50_000;
        }
        let mut starts = [None; 3];
        for _ in 0..40 {
            let id = 1 + random.below(3) as u32;
            let start = &mut starts[id as usize - 1];
            match random.below(8) {
                0 | 1 => *start = Some(net.begin(id, random.below(4) as u8)),
                2 => {
                    net.end(id);
                    *start = None;
                }
                3 => net.pass(random.below(3000) as i64 * MS),
                4 if random.below(4) == 0 => {
                    // Its agent dies with its program, and starts again.
                    net.kill(id);
                    net.settle();
                    net.pass(random.below(2000) as i64 * MS);
                    net.start(id);
                    net.end(id);
                    net.join(&ALL);
                    net.settle();
                    *start = None;
                }
                _ if start.is_some() => {
                    for _ in 0..=random.below(3) {
                        net.read(id, FIRST + random.below(2));
                        net.settle();
                        net.pass(2 * MS);
                    }
                }
                _ => net.settle(),
            }
            for (id, start) in ALL.into_iter().zip(starts) {
                let had = net.had(id);
                if let Some(start) = start {
                    let fresh = had.read.iter().all(|&(.., time)| time > start);
                    assert!(fresh, "seed {seed}: {start} {had:?}");
                }
            }
        }
        ALL.iter().for_each(|&id| net.end(id));
        net.settle();
        net.pass(20 * MS);
        net.fresh(&ALL);
        for thread in [FIRST, FIRST + 1, FIRST + 9] {
            net.all_read(&ALL, thread);
        }
        assert_eq!([net.had(2), net.had(3)], [net.had(1), net.had(1)], "seed {seed}");
        net.all_live(&ALL);
    }
}
