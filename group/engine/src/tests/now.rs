use super::starts::Random;
use super::*;

const ALL: [u32; 3] = [1, 2, 3];

/// Members that read again and again, as they please and beside each other, while one after the
/// other is cut off, dies and comes back.
struct Readers {
    net: Net,
    random: Random,
    thread: fn(u8) -> Thread,
    /// Readings under way: the greatest value that had been given out when each began.
    open: BTreeMap<u32, i64>,
    /// Actions of each node that have been looked at.
    seen: BTreeMap<u32, usize>,
    newest: i64,
    /// Readings that have ended, and those that were not later than one that had ended before.
    ended: usize,
    early: usize,
    /// Member that is cut off, or dead.
    away: Option<u32>,
    /// True while that one does not know it yet: what it says comes to itself alone.
    unaware: bool,
}

impl Readers {
    fn new(seed: u64, thread: fn(u8) -> Thread) -> Readers {
        let mut net = Net::new(&ALL);
        // Clocks that are apart.
        for (id, off) in [(1, 2 * MS), (2, 0), (3, -2 * MS)] {
            net.start(id);
            net.nodes.get_mut(&id).unwrap().utc = Some((off, 5 * MS));
        }
        net.join(&ALL);
        net.settle();
        let random = Random(seed);
        let (open, seen) = (BTreeMap::new(), BTreeMap::new());
        let (newest, ended, early, away, unaware) = (0, 0, 0, None, false);
        Readers { net, random, thread, open, seen, newest, ended, early, away, unaware }
    }

    /// Takes up what has come of the readings.
    fn look(&mut self) {
        for id in ALL {
            let node = &self.net.nodes[&id];
            let seen = self.seen.insert(id, node.actions.len()).unwrap_or(0);
            for action in &node.actions[seen.min(node.actions.len())..] {
                let Action::Return { value, .. } = action else { continue };
                let floor = self.open.remove(&id).expect("somebody waits for it");
                self.ended += 1;
                self.early += usize::from(value.time.0 <= floor);
                self.newest = self.newest.max(value.time.0);
            }
        }
    }

    fn is_up(&self, id: u32) -> bool {
        self.net.nodes[&id].engine.is_some()
    }

    fn act(&mut self) {
        let id = self.random.below(3) as u32 + 1;
        match self.random.below(100) {
            0..30 if self.is_up(id) && !self.open.contains_key(&id) => {
                self.open.insert(id, self.newest);
                self.net.read(id, (self.thread)(id as u8 - 1).0);
            }
            0..30 => {}
            30..55 => self.flush(id),
            55..85 => {
                self.net.step(id);
            }
            85..98 => self.net.now += self.random.below(200_000) as i64,
            98 => self.fault(id),
            _ => self.heal(),
        }
        self.look();
    }

    fn others(id: u32) -> Vec<u32> {
        ALL.into_iter().filter(|other| *other != id).collect()
    }

    fn fault(&mut self, id: u32) {
        if self.away.is_some() || !ALL.iter().all(|id| self.net.phase(*id) == Phase::Live) {
            return;
        }
        self.away = Some(id);
        let others = Readers::others(id);
        match self.random.below(3) {
            0 => {
                self.net.kill(id);
                self.open.remove(&id);
            }
            1 => self.net.split(&[&[id][..], &others[..]]),
            _ => {
                self.net.configure(&others, &[]);
                self.unaware = true;
            }
        }
    }

    fn flush(&mut self, id: u32) {
        let others = Readers::others(id);
        let had: Vec<usize> = others.iter().map(|it| self.net.nodes[it].inbox.len()).collect();
        self.net.flush(id);
        if self.unaware && self.away == Some(id) {
            for (other, had) in others.iter().zip(had) {
                self.net.nodes.get_mut(other).unwrap().inbox.truncate(had);
            }
        }
    }

    fn heal(&mut self) {
        let Some(id) = self.away.take() else { return };
        if std::mem::take(&mut self.unaware) {
            self.net.configure(&[id], &[]);
        }
        if !self.is_up(id) {
            self.net.start(id);
            self.seen.insert(id, 0);
        }
        self.net.join(&ALL);
    }

    fn run(mut self) -> Readers {
        for _ in 0..3_000 {
            self.act();
        }
        self.heal();
        self.net.settle();
        self.net.pass(10 * S);
        self.look();
        assert_eq!(self.open, BTreeMap::new(), "all have ended");
        self
    }
}

/// Readings that have ended, and those that were early, over many runs.
fn totals(thread: fn(u8) -> Thread) -> (usize, usize) {
    let runs = (0..30).map(|seed| Readers::new(seed, thread).run());
    runs.fold((0, 0), |(ended, early), run| (ended + run.ended, early + run.early))
}

/// One that has ended is never followed by an earlier one, wherever: through crashes of whoever
/// proposes, members that are cut off, and those that come back. Where a reading does not wait for
/// a majority the same runs find what is not so.
#[test]
fn the_time_at_present_is_later_than_what_was_read_before_it() {
    let (ended, early) = totals(|index| Thread::now(index, 0));
    assert!(ended > 1_500 && early == 0, "{early} of {ended}");
    let (ended, early) = totals(|index| Thread::of_member(index, 0));
    assert!(ended > 1_500 && early > 0, "{early} of {ended}");
}

#[test]
fn what_one_that_is_cut_off_has_alone_is_read_anew() {
    let mut net = Net::formed(&ALL);
    let own = Thread::now(2, 0).0;
    net.read(3, own);
    net.flush(3);
    for id in [1, 2] {
        net.nodes.get_mut(&id).unwrap().inbox.clear();
    }
    net.step(3);
    net.split(&[&[1, 2], &[3]]);
    net.settle();
    net.pass(2 * S);
    assert!(net.values(3).is_empty(), "no majority has it");
    let there = net.all_read(&[1, 2], 16);
    net.join(&ALL);
    net.settle();
    net.pass(2 * S);
    let all = net.values(3);
    assert!(all.len() == 1 && all[0].2.time > there.time, "{all:?}");
    // Nothing is kept of them, and nobody is in doubt.
    assert_eq!((net.engine(3).status().kept, net.engine(3).status().commits), (0, 0));
}

/// The others acknowledge it without being asked.
#[test]
fn it_takes_one_message_of_each() {
    let mut net = Net::formed(&ALL);
    net.pass(2 * MS);
    let sent = |net: &Net| ALL.map(|id| net.engine(id).status().messages_sent);
    let before = sent(&net);
    net.read(2, Thread::now(1, 0).0);
    net.settle();
    assert_eq!(net.values(2).len(), 1);
    assert_eq!(sent(&net), before.map(|sent| sent + 1));
}

/// In any mode, also where a program of another kind is the primary.
#[test]
fn any_member_reads_it_in_any_mode() {
    for mode in [Mode::Active, Mode::SemiActive, Mode::Passive] {
        let mut net = Net::of(Group { mode, ..Group::new("test", &members(&ALL)) });
        net.boot(&ALL);
        let mut last = 0;
        for turn in 0..30 {
            let id = turn % 3 + 1;
            net.read(id, Thread::now(id as u8 - 1, 0).0);
            net.settle();
            let value = net.values(id).last().unwrap().2.time.0;
            assert!(value > last, "{mode}");
            last = value;
        }
    }
}

/// Nobody waits for it any more while it waits for a majority.
#[test]
fn one_that_is_given_up_does_not_come() {
    let mut net = Net::formed(&ALL);
    let own = Thread::now(0, 0);
    net.read(1, own.0);
    net.flush(1);
    net.step(1);
    let waits = |net: &Net| (net.engine(1).status().pending, net.engine(1).status().commits);
    assert_eq!((net.values(1), waits(&net)), (Vec::new(), (1, 0)));
    net.event(1, Event::Abandon { thread: own });
    net.settle();
    net.pass(2 * S);
    assert_eq!((net.values(1), waits(&net)), (Vec::new(), (0, 0)));
}

/// Numbers that are not used again are not the group's to know.
#[test]
fn those_that_are_given_up_outside_leave_nothing() {
    let mut net = Net::formed(&ALL);
    net.split(&[&[1, 2], &[3]]);
    net.settle();
    for number in 0..10 {
        let own = Thread::now(2, number);
        net.read(3, own.0);
        net.event(3, Event::Abandon { thread: own });
    }
    net.join(&ALL);
    net.settle();
    net.pass(2 * S);
    let status = net.engine(3).status();
    let left = status.threads.keys().filter(|thread| thread.is_now()).count();
    assert_eq!((left, status.pending, net.values(3)), (0, 0, Vec::new()));
}

/// A member proposes for its own at once, which says nothing of those before it.
#[test]
fn they_do_not_shorten_the_wait_for_others() {
    let mut net = Net::formed(&ALL);
    let engine = net.nodes.get_mut(&3).unwrap().engine.as_mut().unwrap();
    engine.stagger.wasted(400_000, Point { generation: 1, index: 1 });
    let before = engine.stagger.ns(0);
    for _ in 0..5 {
        net.read(3, Thread::now(2, 0).0);
        net.settle();
    }
    assert_eq!(net.values(3).len(), 5);
    assert_eq!((net.engine(3).stagger.ns(0), before > 0), (before, true));
}
