//! The primary: it follows the programs, and what operators say.

use super::starts::Random;
use super::*;

const ALL: [u32; 3] = [1, 2, 3];
const FIRST: u64 = Thread::FIRST.0;
const MODES: [Mode; 2] = [Mode::SemiActive, Mode::Passive];

/// A group whose agents tell of programs; those of these members run.
fn running(mode: Mode, programs: &[u32]) -> Net {
    let mut net = Net::of(Group { mode, ..Group::new("test", &members(&ALL)) });
    net.boot(&ALL);
    ALL.iter().for_each(|&id| net.event(id, Event::End));
    net.settle();
    programs.iter().for_each(|&id| net.run(id, programs.len() as u8));
    net.settle();
    net
}

impl Net {
    fn run(&mut self, id: u32, together: u8) {
        self.event(id, Event::Start { together });
    }

    /// The primary, as all that are live have it.
    fn primary(&self) -> u32 {
        let live: Vec<u32> = self.nodes.keys().copied().filter(|&id| self.is_live(id)).collect();
        let firsts: BTreeSet<_> =
            live.iter().map(|&id| self.engine(id).status().first.unwrap().0).collect();
        assert_eq!(firsts.len(), 1, "{firsts:?}");
        let own = live.iter().filter(|&&id| self.engine(id).is_first()).count();
        assert!(own <= 1, "{own} take themselves for the primary");
        firsts.into_iter().next().unwrap()
    }

    fn is_live(&self, id: u32) -> bool {
        let engine = self.nodes[&id].engine.as_ref();
        engine.is_some_and(|engine| engine.phase() == Phase::Live)
    }

    /// Outcome of an operator's word, said at the agent of `at`.
    fn shift(&mut self, at: u32, member: u32, to: Post) -> Result<(), Unshifted> {
        self.event(at, Event::Shift { token: 7, member: Member(member), to });
        self.settle();
        let mut actions = std::mem::take(&mut self.nodes.get_mut(&at).unwrap().actions);
        let place = actions.iter().position(|one| matches!(one, Action::Shifted { .. })).unwrap();
        let Action::Shifted { token: 7, outcome } = actions.remove(place) else { panic!() };
        self.nodes.get_mut(&at).unwrap().actions = actions;
        outcome
    }

    fn cause(&self, id: u32) -> (u32, u32, Cause) {
        let Handover { from, to, cause, .. } = self.engine(id).status().handover.unwrap();
        (from.0, to.0, cause)
    }
}

#[test]
fn the_end_of_its_program_hands_over_at_once() {
    for mode in MODES {
        let mut net = running(mode, &ALL);
        assert_eq!(net.primary(), 1);
        // That agents have said that there is no program yet is none's end.
        assert!(net.engine(2).status().handover.is_none_or(|it| it.cause != Cause::Ended));
        assert_eq!(net.all_read(&ALL, FIRST).synchronizer, Member(1));
        // The backups wait for it.
        net.read(2, FIRST);
        net.read(3, FIRST);
        net.pass(20 * MS);
        assert_eq!(net.values(2).len(), 1);
        let before = net.now;
        net.event(1, Event::End);
        net.settle();
        assert_eq!((net.primary(), net.now), (2, before), "{mode}");
        let second = *net.values(3).last().unwrap();
        assert_eq!((second.1, second.2.synchronizer), (1, Member(2)));
        assert!(second.2.time > net.values(3)[0].2.time);
        net.pass(10 * MS);
        net.flush(3);
        ALL.iter().for_each(|&id| assert_eq!(net.cause(id), (1, 2, Cause::Ended)));
        assert_eq!(net.engine(3).status().handover.unwrap().ago_ns, 10 * MS);
        // Its next program is a backup's.
        net.run(1, 1);
        net.settle();
        assert_eq!(net.primary(), 2);
        assert!(net.engine(1).status().members.iter().all(|member| member.has_program));
        // Where all have ended there is a primary, which has nothing to say.
        ALL.iter().for_each(|&id| net.event(id, Event::End));
        net.settle();
        net.primary();
        net.run(3, 1);
        net.settle();
        assert_eq!((net.primary(), net.cause(1).2), (3, Cause::Began));
        net.all_live(&ALL);
    }
}

#[test]
fn a_passive_backups_log_survives_that_programs_end() {
    let mut net = running(Mode::Passive, &[1, 2]);
    for _ in 0..5 {
        net.read(1, FIRST);
        net.settle();
    }
    let log = net.values(1);
    // That of a member without a program as well.
    net.event(2, Event::End);
    net.settle();
    net.event(1, Event::End);
    net.run(3, 0);
    net.settle();
    assert_eq!(net.primary(), 3);
    (0..6).for_each(|_| net.read(3, FIRST));
    net.settle();
    assert_eq!(net.values(3)[..5], log);
    assert_eq!(net.values(3)[5].2.synchronizer, Member(3));
    assert!(net.values(3)[5].2.time > log[4].2.time);
}

#[test]
fn a_member_whose_agent_is_gone_is_told_as_such() {
    let mut net = running(Mode::SemiActive, &ALL);
    net.kill(1);
    net.settle();
    assert_eq!((net.primary(), net.cause(3)), (2, (1, 2, Cause::Left)));
}

#[test]
fn operators_promote_demote_and_drain() {
    for mode in MODES {
        let mut net = running(mode, &ALL);
        assert_eq!(net.shift(3, 2, Post::First), Ok(()));
        assert_eq!((net.primary(), net.cause(1)), (2, (1, 2, Cause::Operator)));
        assert_eq!(net.all_read(&ALL, FIRST).synchronizer, Member(2));
        assert_eq!(net.shift(2, 2, Post::Last), Ok(()));
        assert_eq!((net.primary(), net.cause(2)), (1, (2, 1, Cause::Operator)));
        assert_eq!(net.shift(2, 1, Post::Drained), Ok(()));
        assert_eq!((net.primary(), net.cause(3)), (3, (1, 3, Cause::Drained)));
        assert_eq!(net.all_read(&ALL, FIRST).synchronizer, Member(3));
        let ranks = |net: &Net| -> Vec<_> {
            net.engine(2).status().members.iter().map(|it| (it.rank, it.drained)).collect()
        };
        assert_eq!(ranks(&net), [(Some(2), true), (Some(1), false), (Some(0), false)]);
        // A drain outlives that its member is cut off for a while.
        net.split(&[&[2, 3], &[1]]);
        net.settle();
        net.configure(&ALL, &[]);
        net.settle();
        net.all_live(&ALL);
        assert_eq!(ranks(&net)[0], (Some(2), true));
        // While others have programs; then it is better than nothing.
        net.event(3, Event::End);
        net.settle();
        assert_eq!(net.primary(), 2);
        assert_eq!(net.shift(1, 2, Post::Drained), Err(Unshifted::NobodyElse));
        assert_eq!(net.shift(1, 2, Post::Last), Err(Unshifted::NobodyElse));
        assert_eq!(net.shift(1, 3, Post::First), Err(Unshifted::NoProgram));
        assert_eq!(net.shift(1, 4, Post::First), Err(Unshifted::NotLive));
        net.event(2, Event::End);
        net.settle();
        assert_eq!(net.primary(), 1);
        // The end of a drain.
        assert_eq!(net.shift(1, 1, Post::Last), Ok(()));
        assert_eq!(ranks(&net)[0], (Some(0), false));
        net.all_live(&ALL);
        net.split(&[&[1], &[2, 3]]);
        net.settle();
        assert_eq!(net.shift(1, 2, Post::First), Err(Unshifted::Outside));
    }
}

#[test]
fn in_the_mode_active_a_member_can_only_be_drained() {
    let mut net = running(Mode::Active, &[1, 2]);
    assert_eq!(net.shift(1, 2, Post::First), Err(Unshifted::NoPrimary));
    assert_eq!(net.shift(1, 2, Post::Last), Err(Unshifted::NoPrimary));
    assert_eq!(net.shift(1, 1, Post::Drained), Ok(()));
    assert_eq!(net.engine(3).status().first, Some(Member(2)));
    // No program begins there, and nobody waits for one.
    net.event(1, Event::End);
    net.event(2, Event::End);
    ALL.iter().for_each(|&id| net.nodes.get_mut(&id).unwrap().actions.clear());
    ALL.iter().for_each(|&id| net.run(id, 0));
    net.settle();
    let begun = |net: &Net, id: u32| {
        net.nodes[&id].actions.iter().any(|it| matches!(it, Action::Begun { .. }))
    };
    assert_eq!(ALL.map(|id| begun(&net, id)), [false, true, true]);
    net.pass(5 * S);
    assert!(!begun(&net, 1));
    assert_eq!(net.shift(2, 1, Post::Last), Ok(()));
    net.settle();
    assert!(begun(&net, 1));
}

/// Programs end and start, members die, come and are cut off, operators say this and that: all
/// that are live have one primary, no round has two values, and each program reads what never goes
/// back.
#[test]
fn whatever_happens_there_is_one_primary_and_one_value() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mode = MODES[seed as usize % 2];
        let mut net = running(mode, &ALL);
        if seed % 4 > 1 {
            net.way = 50_000;
        }
        let mut agreed: BTreeMap<(u64, u64), Agreed> = BTreeMap::new();
        let mut cut = false;
        for _ in 0..60 {
            let id = 1 + random.below(3) as u32;
            let up = net.nodes[&id].engine.is_some();
            match random.below(12) {
                0 => net.event(id, Event::End),
                1 | 2 => net.run(id, 1 + random.below(3) as u8),
                3 => net.pass(random.below(1500) as i64 * MS),
                4 if up && !cut && random.below(3) == 0 => {
                    net.kill(id);
                    net.settle();
                    net.start(id);
                    net.event(id, Event::End);
                    net.join(&ALL);
                }
                5 if cut => {
                    net.configure(&ALL, &[]);
                    cut = false;
                }
                5 if random.below(3) == 0 => {
                    let rest: Vec<u32> = ALL.into_iter().filter(|&other| other != id).collect();
                    net.split(&[&rest, &[id]]);
                    cut = true;
                }
                6 | 7 => {
                    let to = [Post::First, Post::Last, Post::Drained][random.below(3) as usize];
                    let member = Member(1 + random.below(3) as u32);
                    net.event(id, Event::Shift { token: 1, member, to });
                }
                _ => net.read(id, FIRST + random.below(2)),
            }
            if random.below(2) == 0 {
                net.settle();
                net.primary();
            } else {
                net.step(id);
                net.flush(id);
            }
            for id in ALL {
                let mut last = BTreeMap::new();
                for (thread, round, value) in net.values(id) {
                    let first = *agreed.entry((thread, round)).or_insert(value);
                    assert_eq!(first, value, "seed {seed}: {thread} {round}");
                    let before = last.insert(thread, value.time);
                    assert!(before.is_none_or(|before| before < value.time), "seed {seed}");
                }
                net.nodes.get_mut(&id).unwrap().actions.clear();
            }
        }
        net.configure(&ALL, &[]);
        net.settle();
        net.pass(2 * S);
        net.all_live(&ALL);
        // The primary has a program if any member has, and none that is drained where another is
        // not: whoever reads there gets a value.
        let primary = net.primary();
        let status = net.engine(primary).status();
        let of = |id: u32| status.members.iter().find(|it| it.member.0 == id).unwrap();
        let fit = |id: u32| (of(id).has_program, of(id).has_program && !of(id).drained);
        assert_eq!(fit(primary), ALL.map(fit).into_iter().max().unwrap(), "seed {seed}");
        if of(primary).has_program {
            net.event(primary, Event::Abandon { thread: Thread(FIRST + 5) });
            net.read(primary, FIRST + 5);
            net.settle();
            let got = net.values(primary).into_iter().any(|(thread, ..)| thread == FIRST + 5);
            assert!(got, "seed {seed}");
        }
    }
}
