use super::*;

const PATIENCE: i64 = 5_000_000_000;

/// Fronts over one stream, each of which gets it at its own pace.
struct World {
    fronts: Vec<(Order, usize, Log)>,
    stream: Vec<(Member, i64, Vec<u8>)>,
    seed: u64,
}

#[derive(Default)]
struct Log {
    ops: Vec<(Op, i64)>,
    dropped: usize,
    unfit: Vec<String>,
    restored: usize,
}

impl World {
    fn new(count: u32, seed: u64) -> World {
        let front = |member| {
            let me = FrontId { member: Member(member), incarnation: u64::from(member) * 100 };
            (Order::new(me, count as usize, true, PATIENCE), 0, Log::default())
        };
        World { fronts: (1..=count).map(front).collect(), stream: Vec::new(), seed }
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) as usize % below
    }

    fn send(&mut self, front: usize, message: &Message) {
        let me = self.fronts[front].0.me();
        let time = 1_000_000_000 + self.stream.len() as i64 * 1_000_000;
        self.stream.push((me.member, time, message.encode(me.incarnation)));
    }

    fn steps(&mut self, front: usize, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Send(message) => self.send(front, &message),
                Step::Run(Op::Checkpoint { to, serial, state }, _) => {
                    let bytes = state.position.chain.to_le_bytes();
                    for (at, piece) in [(0, &bytes[..5]), (5, &bytes[5..])] {
                        let state = (at == 0).then(|| state.clone());
                        let bytes = piece.to_vec();
                        let part = Message::Part { to, serial, total: 8, at, state, bytes };
                        self.send(front, &part);
                    }
                }
                Step::Run(op, time) => self.fronts[front].2.ops.push((op, time)),
                Step::Dropped(_) => self.fronts[front].2.dropped += 1,
                Step::Unfit(why) => self.fronts[front].2.unfit.push(why),
                Step::Restore(data) => {
                    let Standing::Restoring(state) = &self.fronts[front].0.standing else {
                        panic!("not restoring");
                    };
                    assert_eq!(data, state.position.chain.to_le_bytes());
                    self.fronts[front].2.restored += 1;
                    let steps = self.fronts[front].0.restored();
                    self.steps(front, steps);
                }
                Step::Entered | Step::Joined | Step::Report(_) | Step::Compare { .. } => {}
            }
        }
    }

    fn ask(&mut self, front: usize) {
        let steps = self.fronts[front].0.ask();
        self.steps(front, steps);
    }

    /// One message to one front, by chance; whether there was any.
    fn deliver_one(&mut self) -> bool {
        let length = self.stream.len();
        let behind: Vec<usize> =
            (0..self.fronts.len()).filter(|front| self.fronts[*front].1 < length).collect();
        if behind.is_empty() {
            return false;
        }
        let front = behind[self.random(behind.len())];
        let at = self.fronts[front].1;
        self.fronts[front].1 += 1;
        let (from, time, payload) = self.stream[at].clone();
        let steps = self.fronts[front].0.delivered(from, time, &payload);
        self.steps(front, steps);
        true
    }

    fn settle(&mut self) {
        while self.deliver_one() {}
    }

    /// A front is started anew at the end of the stream, with nothing.
    fn restart(&mut self, front: usize) {
        let size = self.fronts.len();
        let mut me = self.fronts[front].0.me();
        me.incarnation += 10;
        self.fronts[front] =
            (Order::new(me, size, true, PATIENCE), self.stream.len(), Log::default());
        self.ask(front);
    }

    fn all_in_and_equal(&self) {
        for (order, _, log) in &self.fronts {
            assert!(order.is_in(), "{:?} {:?}", order, log.unfit);
            assert!(log.unfit.is_empty());
            assert_eq!(order.state, self.fronts[0].0.state);
            assert!(order.conns.keys().eq(self.fronts[0].0.conns.keys()));
            assert_eq!(order.ready(), self.fronts.len());
        }
    }
}

fn traffic(world: &mut World, front: usize, conn: u32) {
    world.send(front, &Message::Open(vec![conn]));
    world.send(front, &Message::Requests(vec![(conn, vec![front as u8; 3])]));
    world.send(front, &Message::Tick);
}

#[test]
fn a_group_begins_when_all_are_there() {
    for seed in 0..300 {
        let mut world = World::new(3, seed);
        world.ask(0);
        for _ in 0..world.random(4) {
            world.deliver_one();
        }
        world.ask(1);
        world.settle();
        assert!(world.fronts.iter().all(|(order, ..)| !order.is_in()), "one is missing");
        // The third has seen nothing of what was before it.
        world.fronts[2].1 = world.stream.len();
        world.ask(2);
        world.settle();
        world.all_in_and_equal();
        for front in 0..3 {
            traffic(&mut world, front, 7);
        }
        world.settle();
        world.all_in_and_equal();
        assert_eq!(world.fronts[0].0.requests(), 3);
        assert!(world.fronts[0].0.may_answer());
        let ops = world.fronts[0].2.ops.clone();
        assert!(world.fronts.iter().all(|(_, _, log)| log.ops == ops));
    }
}

/// A message close behind one with many requests: each has a time of its own all the same.
#[test]
fn requests_have_times_of_their_own() {
    let mut world = World::new(1, 1);
    world.ask(0);
    world.settle();
    world.send(0, &Message::Open(vec![1]));
    for many in [100, 1, 2] {
        world.send(0, &Message::Requests(vec![(1, vec![1]); many]));
        let length = world.stream.len();
        // 10 ns after the one before, less than that one has requests.
        world.stream[length - 1].1 = 2_000_000_000 + length as i64 * 10;
    }
    world.settle();
    let times: Vec<i64> = world.fronts[0]
        .2
        .ops
        .iter()
        .flat_map(|(op, time)| match op {
            Op::Requests(requests) => (*time..).take(requests.len()).collect(),
            _ => Vec::new(),
        })
        .collect();
    assert_eq!(times.len(), 103);
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
}

#[test]
fn fronts_that_are_not_alike_do_not_begin_and_do_not_join() {
    let loops = |world: &mut World, front: usize| {
        let (order, at, _) = world.fronts.remove(front);
        world.fronts.insert(front, (order.with_event_loop(true), at, Log::default()));
    };
    let refused = |log: &Log| log.unfit.first().is_some_and(|why| why.contains("--event-loop"));
    let mut world = World::new(3, 1);
    loops(&mut world, 1);
    (0..3).for_each(|front| world.ask(front));
    world.settle();
    assert!(world.fronts.iter().all(|(order, _, log)| !order.is_in() && refused(log)));

    let mut world = World::new(3, 1);
    (0..3).for_each(|front| world.ask(front));
    world.settle();
    let me = world.fronts[1].0.me();
    let me = FrontId { incarnation: me.incarnation + 10, ..me };
    let order = Order::new(me, 3, true, PATIENCE).with_event_loop(true);
    world.fronts[1] = (order, world.stream.len(), Log::default());
    world.ask(1);
    world.settle();
    assert!(!world.fronts[1].0.is_in() && refused(&world.fronts[1].2));
    assert!([0, 2].iter().all(|front| world.fronts[*front].0.ready() == 2), "the others go on");
}

#[test]
fn one_that_restarts_joins_from_a_checkpoint_under_load() {
    for seed in 0..300 {
        let mut world = World::new(3, seed);
        (0..3).for_each(|front| world.ask(front));
        world.settle();
        traffic(&mut world, 0, 1);
        traffic(&mut world, 2, 1);
        for _ in 0..world.random(9) {
            world.deliver_one();
        }
        world.restart(1);
        for conn in 2..6 {
            traffic(&mut world, 0, conn);
            for _ in 0..world.random(30) {
                world.deliver_one();
            }
        }
        world.settle();
        world.all_in_and_equal();
        assert_eq!(world.fronts[1].2.restored, 1);
        assert!(world.fronts[0].0.conns.keys().all(|conn| conn.member != Member(2)));
    }
}

#[test]
fn without_a_way_to_restore_it_refuses() {
    let mut world = World::new(3, 1);
    (0..3).for_each(|front| world.ask(front));
    world.settle();
    traffic(&mut world, 0, 1);
    world.settle();
    world.restart(1);
    world.fronts[1].0.can_restore = false;
    world.settle();
    assert!(!world.fronts[1].0.is_in());
    assert!(
        world.fronts[1].2.unfit[0].contains("--restore-command"),
        "{:?}",
        world.fronts[1].2.unfit
    );
    assert_eq!(world.fronts[0].0.ready(), 2);
}

#[test]
fn one_that_missed_nothing_comes_back_as_it_is() {
    for seed in 0..100 {
        let mut world = World::new(3, seed);
        (0..3).for_each(|front| world.ask(front));
        world.settle();
        traffic(&mut world, 1, 1);
        traffic(&mut world, 2, 1);
        world.settle();
        let steps = world.fronts[1].0.interrupted();
        world.steps(1, steps);
        world.ask(1);
        traffic(&mut world, 0, 2);
        world.settle();
        world.all_in_and_equal();
        assert_eq!((world.fronts[1].2.restored, world.fronts[1].2.dropped), (0, 1));
        // Its clients are gone, at all replicas.
        assert!(world.fronts[0].0.conns.keys().all(|conn| conn.member != Member(2)));
    }
}

#[test]
fn one_that_missed_something_does_not() {
    let mut world = World::new(3, 5);
    (0..3).for_each(|front| world.ask(front));
    world.settle();
    let steps = world.fronts[1].0.interrupted();
    world.steps(1, steps);
    traffic(&mut world, 0, 1);
    world.fronts[1].1 = world.stream.len();
    world.ask(1);
    world.settle();
    world.all_in_and_equal();
    assert_eq!(world.fronts[1].2.restored, 1);
}

#[test]
fn after_all_were_out_those_with_the_latest_state_go_on() {
    for seed in 0..100 {
        let mut world = World::new(3, seed);
        (0..3).for_each(|front| world.ask(front));
        world.settle();
        traffic(&mut world, 0, 1);
        // Two have all of it, the third only the beginning.
        let end = world.stream.len();
        while world.fronts[0].1 < end || world.fronts[1].1 < end {
            world.deliver_one();
        }
        world.fronts[2].1 = end;
        let behind = world.fronts[2].0.state.position != world.fronts[0].0.state.position;
        for front in 0..3 {
            let steps = world.fronts[front].0.interrupted();
            world.steps(front, steps);
        }
        (0..3).for_each(|front| world.ask(front));
        world.settle();
        world.all_in_and_equal();
        assert_eq!(world.fronts[2].2.restored, usize::from(behind));
        assert_eq!(world.fronts[0].2.restored, 0);
        assert!(world.fronts[0].0.conns.is_empty());
    }
}

#[test]
fn who_is_silent_for_long_is_out_and_finds_back() {
    let mut world = World::new(3, 9);
    (0..3).for_each(|front| world.ask(front));
    world.settle();
    world.send(2, &Message::Open(vec![1]));
    // A hundred hours in one step are one second of silence.
    let tick = Message::Tick.encode(100);
    world.stream.push((Member(1), 360_000_000_000_000, tick.clone()));
    world.settle();
    world.all_in_and_equal();
    for second in 1..=11 {
        world.stream.push((Member(1), 360_000_000_000_000 + second * 1_000_000_000, tick.clone()));
        world.stream.push((
            Member(2),
            360_000_000_000_000 + second * 1_000_000_000,
            Message::Tick.encode(200),
        ));
    }
    world.settle();
    assert_eq!(world.fronts[0].0.ready(), 2);
    assert!(world.fronts[0].0.conns.is_empty());
    assert_eq!(world.fronts[2].2.dropped, 1);
    world.ask(2);
    world.settle();
    world.all_in_and_equal();
}

#[test]
fn what_outsiders_say_changes_nothing() {
    let mut world = World::new(3, 3);
    (0..3).for_each(|front| world.ask(front));
    world.settle();
    let before = world.fronts[0].0.state.position;
    for message in [
        Message::Open(vec![9]),
        Message::Requests(vec![(9, vec![1])]),
        Message::Close { conn: 9 },
        Message::Leave,
        Message::Ready,
    ] {
        // Another life of member 2, and a member that is none.
        world.stream.push((Member(2), 2_000_000_000, message.encode(999)));
        world.stream.push((Member(77), 2_000_000_000, message.encode(200)));
    }
    world.stream.push((Member(2), 2_000_000_000, b"nonsense".to_vec()));
    world.settle();
    world.all_in_and_equal();
    assert_eq!(world.fronts[0].0.state.position, before);
}

/// Fronts that are all in.
fn begun(count: u32, seed: u64) -> World {
    let mut world = World::new(count, seed);
    (0..count as usize).for_each(|front| world.ask(front));
    world.settle();
    world.all_in_and_equal();
    world
}

/// One says that another differs from it.
fn differs(world: &mut World, front: usize, other: usize) {
    let from = world.fronts[other].0.me();
    let conn = Conn { member: Member(1), number: 1 };
    world.send(front, &Message::Differs { from, conn, length: 7 });
}

fn members(all: &[u32]) -> Vec<Member> {
    all.iter().copied().map(Member).collect()
}

fn following(world: &World, front: usize) -> Vec<Member> {
    world.fronts[front].0.following().into_keys().collect()
}

#[test]
fn who_differs_from_a_majority_is_out_at_all_fronts_in_whatever_order_they_hear_of_it() {
    for seed in 0..50 {
        let mut world = begun(3, seed);
        let accusers = if seed % 2 == 0 { [0, 2] } else { [2, 0] };
        differs(&mut world, accusers[0], 1);
        world.settle();
        assert_eq!(following(&world, 0), members(&[1, 2, 3]), "one's word is no majority");
        differs(&mut world, accusers[1], 1);
        differs(&mut world, 1, 0);
        world.settle();
        for front in [0, 2] {
            assert_eq!(following(&world, front), members(&[1, 3]));
            assert!(world.fronts[front].0.may_answer());
            let standing = world.fronts[front].0.standings().remove(&Member(2));
            assert!(matches!(standing, Some(PeerStanding::Diverged(_))), "{standing:?}");
            assert!(world.fronts[front].2.unfit.is_empty());
        }
        let why = &world.fronts[1].2.unfit[0];
        assert!(
            why.starts_with("its program's replies differ from those of replica 1, 3"),
            "{why}"
        );
    }
}

#[test]
fn where_no_majority_agrees_all_stop() {
    let mut world = begun(3, 1);
    for (front, other) in [(0, 1), (1, 2), (2, 0)] {
        differs(&mut world, front, other);
    }
    world.settle();
    let all = world.fronts.iter().all(|(_, _, log)| !log.unfit.is_empty());
    assert!(all, "each ends, one as the odd one and the others without a majority");
    // Two of three are left, and differ.
    let mut world = begun(3, 2);
    world.send(2, &Message::Leave);
    differs(&mut world, 0, 1);
    world.settle();
    for front in [0, 1] {
        let why = &world.fronts[front].2.unfit[0];
        assert!(why.contains("no majority of the 3 replicas' programs"), "{why}");
    }
    // Of five, two agree with each other and differ from the rest: they are out, in any order.
    for seed in 0..20 {
        let mut world = begun(5, seed);
        let mut pairs = Vec::new();
        (0..3).for_each(|one| (3..5).for_each(|other| pairs.push((one, other))));
        while !pairs.is_empty() {
            let (one, other) = pairs.swap_remove(world.random(pairs.len()));
            differs(&mut world, one, other);
            world.settle();
        }
        for front in 0..3 {
            assert_eq!(following(&world, front), members(&[1, 2, 3]), "seed {seed}");
            assert!(world.fronts[front].2.unfit.is_empty(), "seed {seed}");
        }
        assert!((3..5).all(|front| !world.fronts[front].2.unfit.is_empty()), "seed {seed}");
    }
}

#[test]
fn a_program_that_stands_still_counts_no_more_until_it_goes_on() {
    let mut world = begun(3, 3);
    traffic(&mut world, 0, 1);
    // The first two have dealt with it, the third with nothing, while agreed time passes.
    let done = |count| Message::Done { count, replied: Vec::new() };
    world.send(0, &done(2));
    world.send(1, &done(2));
    let begin = world.stream.len() as i64;
    for second in 0..20 {
        for front in 0..3 {
            let me = world.fronts[front].0.me();
            let time = 1_000_000_000 * (second + 2) + begin * 1_000_000;
            let tick = Message::Tick.encode(me.incarnation);
            world.stream.push((me.member, time, tick));
        }
        world.settle();
        let stuck = (second + 1) * 1_000_000_000 >= PATIENCE;
        let expected: &[u32] = if stuck { &[1, 2] } else { &[1, 2, 3] };
        for front in 0..3 {
            assert_eq!(following(&world, front), members(expected), "{second} s");
            // Its own front does not answer either.
            assert_eq!(world.fronts[front].0.may_answer(), expected.len() == 3 || front < 2);
        }
    }
    let me = world.fronts[2].0.me();
    let last = world.fronts[2].0.time();
    for (count, follow) in [(1, &[1, 2, 3][..]), (99, &[1, 2, 3])] {
        world.stream.push((me.member, last, done(count).encode(me.incarnation)));
        world.settle();
        assert_eq!(following(&world, 0), members(follow));
    }
    // More than there was is not believed.
    assert_eq!(world.fronts[0].0.following()[&Member(3)], world.fronts[0].0.total());
    assert!(world.fronts.iter().all(|(_, _, log)| log.unfit.is_empty()));
}
