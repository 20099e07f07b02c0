use super::*;

const CONN: Conn = Conn { member: Member(1), number: 1 };

/// The replicas 1 to 3 over an order: what each says, all hear.
struct World {
    all: [Streams; 3],
    done: [u64; 3],
    found: Vec<(u32, Difference)>,
}

impl World {
    fn new() -> World {
        let mut world = World { all: Default::default(), done: [0; 3], found: Vec::new() };
        world.all.iter_mut().for_each(|streams| streams.begin(CONN));
        world.count();
        world
    }

    fn count(&mut self) {
        for to in 0..3 {
            let counted = (0..3).filter(|of| *of != to);
            let counted = counted.map(|of| (World::member(of), self.done[of])).collect();
            self.all[to].count(counted);
        }
    }

    fn member(at: usize) -> Member {
        Member(at as u32 + 1)
    }

    fn note(&mut self, at: usize, found: Vec<Difference>) {
        self.found.extend(found.into_iter().map(|one| (at as u32 + 1, one)));
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let found = self.all[at].wrote(CONN, bytes, self.done[at] + 1);
        self.note(at, found);
    }

    /// The request is dealt with, and that is said.
    fn done(&mut self, at: usize) {
        self.done[at] += 1;
        self.say(at);
    }

    fn say(&mut self, at: usize) {
        let news = self.all[at].news(100);
        self.count();
        for to in (0..3).filter(|to| *to != at) {
            let found = self.all[to].heard(World::member(at), self.done[at], news.clone());
            self.note(to, found);
        }
    }

    fn close(&mut self, at: usize) {
        self.all[at].closed(CONN, self.done[at] + 1);
    }

    fn pass(&mut self, ns: i64) {
        for at in 0..3 {
            let found = self.all[at].pass(ns, 100);
            self.note(at, found);
        }
    }

    /// The most bytes that may go.
    fn agreed(&self, at: usize) -> Option<u64> {
        let all = &self.all[at];
        let may_go = |until: &u64| all.may_go(CONN, *until, 2, self.done[at]) == Some(true);
        all.may_go(CONN, 0, 2, self.done[at])?;
        (0..100).rev().find(may_go)
    }

    /// Pairs of members that differ.
    fn pairs(&self) -> BTreeSet<(u32, u32)> {
        let pair =
            |(one, other): &(u32, Difference)| (*one.min(&other.with.0), *one.max(&other.with.0));
        self.found.iter().map(pair).collect()
    }
}

#[test]
fn the_same_bytes_in_other_pieces_at_other_moments_are_the_same() {
    let text = b"one two three";
    for first in 0..text.len() {
        for second in 0..text.len() {
            let mut world = World::new();
            world.write(0, text);
            world.done(0);
            assert_eq!(world.agreed(0), Some(0), "nobody has confirmed it");
            world.write(1, &text[..first]);
            world.say(1);
            world.write(1, &text[first..]);
            world.write(2, &text[..second]);
            world.done(2);
            world.done(1);
            assert_eq!(world.agreed(0), Some(13));
            world.write(2, &text[second..]);
            world.say(2);
            assert_eq!((world.agreed(1), world.agreed(2)), (Some(13), Some(13)));
            world.pass(1000);
            assert_eq!(world.found, []);
            assert!(world.all.iter().all(|streams| streams.open.is_empty()));
        }
    }
}

#[test]
fn the_odd_one_is_found_by_all_and_its_bytes_are_nobodys() {
    for late in 0..3 {
        let mut world = World::new();
        for at in (0..3).filter(|at| *at != late).chain([late]) {
            world.write(at, if at == 1 { b"odd" } else { b"one" });
            world.done(at);
        }
        assert_eq!(world.pairs(), BTreeSet::from([(1, 2), (2, 3)]));
        assert_eq!([0, 1, 2].map(|at| world.agreed(at)), [Some(3), Some(0), Some(3)]);
    }
}

/// Two have written a whole reply, one its beginning.
fn short(end: impl Fn(&mut World, usize)) -> World {
    let mut world = World::new();
    for at in 0..3 {
        world.write(at, if at == 2 { b"begin" } else { b"beginning" });
        end(&mut world, at);
        world.done(at);
    }
    world
}

#[test]
fn who_leaves_out_the_rest_is_found() {
    // The program of the third has ended the connection.
    let ended = short(|world, at| world.all[at].ended(CONN, End::Finished));
    assert_eq!(ended.pairs(), BTreeSet::from([(1, 3), (2, 3)]));
    // Or has not: it has time.
    let mut open = short(|_, _| {});
    open.pass(100);
    assert_eq!(open.found, []);
    open.pass(1);
    assert_eq!(open.pairs(), BTreeSet::from([(1, 3), (2, 3)]));
    // It has taken that time, but come to the end.
    let mut late = short(|_, _| {});
    late.pass(100);
    late.write(2, b"ning");
    late.say(2);
    late.pass(100);
    assert_eq!(late.found, []);
    // Where its program is not as far as the others', it is only behind.
    let mut behind = World::new();
    for at in 0..2 {
        behind.write(at, b"reply");
        behind.done(at);
    }
    behind.pass(1000);
    assert_eq!((behind.found.len(), behind.agreed(0)), (0, Some(5)));
}

#[test]
fn connections_that_end_at_other_moments_are_no_difference() {
    // The client has ended it, and the program was told before it had written all.
    let mut client = short(|world, at| world.close(at));
    client.pass(1000);
    assert_eq!(client.found, []);
    assert_eq!(client.agreed(0), Some(9), "two have it");
    // The programs have, and one in a way that loses bytes in the kernel.
    for cut in [End::Finished, End::Cut] {
        let end = |at: usize| if at == 2 { End::Cut } else { cut };
        let mut program = short(|world, at| world.all[at].ended(CONN, end(at)));
        program.pass(1000);
        assert_eq!(program.found, []);
        // What differs within the bytes that they have in common is a difference still.
        let mut other = World::new();
        for at in 0..3 {
            other.write(at, if at == 2 { b"bugin" } else { b"beginning" });
            other.all[at].ended(CONN, end(at));
            other.done(at);
        }
        assert_eq!(other.pairs(), BTreeSet::from([(1, 3), (2, 3)]));
    }
    // But where the others' go on, later requests get no answer there.
    let mut goes_on = short(|world, at| {
        if at == 2 {
            world.all[at].ended(CONN, End::Cut);
        }
    });
    assert_eq!(goes_on.found, []);
    for at in 0..2 {
        goes_on.write(at, b"more");
        goes_on.done(at);
    }
    assert_eq!(goes_on.pairs(), BTreeSet::from([(1, 3), (2, 3)]));
}

#[test]
fn what_all_are_done_with_is_forgotten() {
    let mut world = short(|world, at| world.close(at));
    world.all[0].forget(1, &BTreeSet::from([CONN]));
    assert_eq!(world.all[0].may_go(CONN, 10, 2, 1), None, "nobody will have more");
    assert_eq!(world.agreed(0), Some(9));
    world.all[0].forget(1, &BTreeSet::new());
    assert_eq!(world.agreed(0), None);
    world.done[2] = 0;
    world.say(1);
    world.all[1].forget(1, &BTreeSet::new());
    assert_eq!(world.agreed(1), Some(9), "the third may say something yet");
    let mut long = Streams::default();
    long.begin(CONN);
    long.count(BTreeMap::from([(Member(2), 0)]));
    assert_eq!(long.wrote(CONN, &vec![1; 3 * MOST_KEPT], 1), []);
    assert!(long.all[&CONN].tail.len() <= MOST_KEPT && long.all[&CONN].length() > 0);
    let news = long.news(1);
    let mut other = Streams::default();
    other.begin(CONN);
    assert_eq!(other.heard(Member(1), 1, news), []);
    assert_eq!(other.wrote(CONN, &vec![1; 3 * MOST_KEPT], 1), []);
    assert_eq!(other.same, 1);
    for number in 0..2 * MOST_ENDED as u32 {
        let conn = Conn { number, ..CONN };
        long.begin(conn);
        long.closed(conn, 0);
    }
    long.count(BTreeMap::from([(Member(2), 0)]));
    long.forget(1, &BTreeSet::new());
    assert!(long.all.len() <= MOST_ENDED + 1);
}

/// Words of a program on a connection on which it writes these bytes, one by one.
fn words(bytes: &[u8]) -> Vec<Replied> {
    let mut program = Streams::default();
    program.begin(CONN);
    let mut word = |byte: &u8| {
        assert_eq!(program.wrote(CONN, &[*byte], 1), []);
        program.news(1).remove(0)
    };
    bytes.iter().map(&mut word).collect()
}

#[test]
fn a_program_that_is_far_behind_has_every_word_of_the_others_when_it_comes_there() {
    let text = [7; 300];
    let mut late = Streams::default();
    late.begin(CONN);
    late.count([(Member(2), 0), (Member(3), 0)].into());
    for word in words(&text) {
        assert_eq!(late.heard(Member(2), 300, vec![word]), []);
    }
    // The client ends the connection, and the program leaves the rest out.
    assert_eq!(late.wrote(CONN, &text[..150], 1), []);
    late.closed(CONN, 2);
    assert_eq!(late.may_go(CONN, 150, 2, 1), Some(true));
    assert_eq!((late.same, late.forgotten), (150, 0));
}

#[test]
fn who_is_ahead_leaves_nothing_out() {
    let mut late = Streams::default();
    late.begin(CONN);
    late.count([(Member(2), 9), (Member(3), 9)].into());
    let whole = words(b"whole").pop().unwrap();
    assert_eq!(late.heard(Member(2), 9, vec![whole]), []);
    assert_eq!(late.wrote(CONN, b"who", 1), []);
    // The third has written nothing.
    let differences = late.pass(101, 100);
    assert_eq!(differences, [Difference { with: Member(3), conn: CONN, length: 3 }]);
}

#[test]
fn words_are_forgotten_only_where_they_are_too_many_and_are_counted() {
    let text = vec![7; MOST_PENDING + 2];
    let mut late = Streams::default();
    late.begin(CONN);
    late.count([(Member(2), 0)].into());
    assert_eq!(late.heard(Member(2), 1, words(&text)), []);
    assert_eq!(late.forgotten, 2);
    assert_eq!(late.all[&CONN].others[&Member(2)].pending.len(), MOST_PENDING);
    // The newest confirms all.
    assert_eq!(late.wrote(CONN, &text, 1), []);
    assert_eq!(late.may_go(CONN, text.len() as u64, 2, 1), Some(true));
    // Many connections share the memory.
    for number in 0..MOST_PENDING_OF_ALL as u32 / 100 {
        late.begin(Conn { number, ..CONN });
    }
    assert_eq!(late.heard(Member(2), 1, words(&text[..150])), []);
    assert_eq!(late.forgotten, 2 + 50);
}

/// (8 MiB of each, however many there were.)
#[test]
fn many_connections_that_a_slow_replica_has_not_confirmed_share_the_memory() {
    let mut streams = Streams::default();
    streams.count([(Member(2), 0), (Member(3), 0)].into());
    let piece = vec![7; 256 << 10];
    for number in 0..2000 {
        let conn = Conn { number, ..CONN };
        streams.begin(conn);
        assert_eq!(streams.wrote(conn, &piece, 1), []);
    }
    let kept: usize = streams.all.values().map(|stream| stream.tail.capacity()).sum();
    assert!(kept < 4 * MOST_OF_ALL, "{kept}");
    // What they have said in the end is confirmed all the same.
    let mut theirs = Streams::default();
    let conn = Conn { number: 1999, ..CONN };
    theirs.begin(conn);
    assert_eq!(theirs.wrote(conn, &piece, 1), []);
    let news = theirs.news(10);
    assert_eq!(streams.heard(Member(2), 1, news), []);
    assert_eq!((streams.same, streams.different), (1, 0));
}

/// Where no majority is counted, an end without a byte waits for nobody; any byte does.
#[test]
fn an_end_before_the_first_byte_waits_for_nobody() {
    let mut alone = Streams::default();
    alone.begin(CONN);
    assert_eq!(alone.may_go(CONN, 0, 2, 0), Some(true));
    assert!(alone.wrote(CONN, b"a", 1).is_empty());
    assert_eq!(alone.may_go(CONN, 1, 2, 0), Some(false));
}
