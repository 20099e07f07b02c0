//! Behaviour of the transport on a real ring: order, and who is there when nodes and cables fail.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use truechimer_testbed::binary;
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::ring::{PATIENCE, Ring, Settings};

const GROUP: &str = "ledger";

/// A process that is a node's member of the group. It ends when dropped.
struct Member {
    node: u32,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Member {
    fn start(ring: &Ring, node: u32) -> Member {
        Member::run(ring, node, "member")
    }

    fn run(ring: &Ring, node: u32, what: &str) -> Member {
        let mut command = ring.command(node, binary::testbed());
        command.args([what, GROUP]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("nsenter runs");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        Member { node, child, lines }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_ref().expect("piped"), "{line}").expect("it listens");
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// All it has received of what begins so.
    fn all(&self, begin: &str) -> Vec<String> {
        self.lines().into_iter().filter(|line| line.starts_with(begin)).collect()
    }

    /// Waits for such a line at `from` or later; where it is.
    fn expect(&self, from: usize, line: &str) -> usize {
        self.wait(|lines| Some(from + lines.iter().skip(from).position(|one| one == line)?), line)
    }

    /// Waits until so many lines that begin so have come.
    fn expect_all(&self, count: usize, begin: &str) -> Vec<String> {
        let enough = |lines: &[String]| {
            let all: Vec<_> =
                lines.iter().filter(|line| line.starts_with(begin)).cloned().collect();
            (all.len() >= count).then_some(all)
        };
        self.wait(enough, begin)
    }

    fn wait<T>(&self, found: impl Fn(&[String]) -> Option<T>, what: &str) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            let lines = self.lines();
            if let Some(found) = found(&lines) {
                return found;
            }
            let last: Vec<_> = lines.iter().rev().take(12).rev().collect();
            assert!(Instant::now() < end, "node {}: no `{what}` in … {last:#?}", self.node);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end. Returns its last word.
    fn end(&mut self) -> String {
        let end = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < end, "node {}'s member does not end", self.node);
            std::thread::sleep(Duration::from_millis(5));
        }
        self.wait(|lines| lines.last().cloned(), "anything")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A member at each node of a ring of three, which all see each other.
fn three(settings: &Settings) -> Option<(Ring, [Member; 3])> {
    let ring = or_skip(Ring::up(settings))?;
    let members = [1, 2, 3].map(|node| Member::start(&ring, node));
    for member in &members {
        member.expect(0, "configuration 1,2,3 lost none");
    }
    Some((ring, members))
}

#[test]
fn all_members_receive_the_same_in_the_same_order() {
    let Some((_ring, mut members)) = three(&Settings::brisk()) else { return };
    for member in &mut members {
        member.tell("flood 500 100");
    }
    let [first, others @ ..] = &members;
    assert_eq!(first.all("node "), ["node 1 node1", "node 2 node2", "node 3 node3"]);
    let order = first.expect_all(1500, "message ");
    assert_eq!(order.len(), 1500);
    for member in others {
        assert_eq!(member.expect_all(1500, "message "), order);
    }
    // Each sender's messages in its own order.
    for node in 1..=3 {
        let begin = format!("message {node} flood ");
        let own = order.iter().filter_map(|line| line.strip_prefix(&begin));
        let numbers: Vec<usize> =
            own.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, (0..500).collect::<Vec<_>>());
    }
}

#[test]
fn members_that_end_leave_and_nodes_that_die_are_lost() {
    let Some((mut ring, [mut one, two, mut three])) = three(&Settings::brisk()) else { return };
    three.child.kill().unwrap();
    let left = one.expect(0, "configuration 1,2 lost none");
    drop(three);
    let mut three = Member::start(&ring, 3);
    let back = one.expect(left, "configuration 1,2,3 lost none");
    three.expect(0, "configuration 1,2,3 lost none");

    ring.kill(3);
    assert!(three.end().starts_with("gone passing "), "{:?}", three.lines());
    assert_eq!(three.all("configuration ").last().unwrap(), "configuration 3 lost 1,2");
    let lost = one.expect(back, "configuration 1,2 lost 3");
    two.expect(0, "configuration 1,2 lost 3");
    one.tell("say without three");
    two.expect(0, "message 1 without three");

    ring.start(3);
    ring.wait_for(3, &[1, 2, 3]);
    let three = Member::start(&ring, 3);
    let whole = three.expect(0, "configuration 1,2,3 lost none");
    one.expect(lost, "configuration 1,2,3 lost none");
    one.tell("say with three");
    three.expect(whole, "message 1 with three");
    assert!(!three.lines().contains(&"message 1 without three".to_owned()));
}

#[test]
fn a_node_that_was_stopped_learns_that_it_was_out() {
    let Some((ring, [mut one, two, three])) = three(&Settings::brisk()) else { return };
    let before = three.lines().len();
    ring.pause(3);
    let lost = one.expect(0, "configuration 1,2 lost 3");
    one.tell("say meanwhile");
    two.expect(0, "message 1 meanwhile");
    assert_eq!(three.lines().len(), before);
    ring.cont(3);
    one.expect(lost, "configuration 1,2,3 lost none");
    one.tell("say afterwards");
    let last = three.expect(before, "message 1 afterwards");
    let seen = three.lines();
    let alone = three.expect(before, "configuration 3 lost 1,2");
    let whole = three.expect(alone, "configuration 1,2,3 lost none");
    assert!(alone < whole && whole < last, "{seen:#?}");
    assert!(!seen.contains(&"message 1 meanwhile".to_owned()), "{seen:#?}");
}

#[test]
fn a_part_goes_on_by_itself_until_the_ring_is_whole() {
    let Some((ring, [mut one, two, mut three])) = three(&Settings::brisk()) else { return };
    for cable in [false, true] {
        let start = one.lines().len();
        let start3 = three.lines().len();
        if cable {
            ring.cut(3);
        } else {
            ring.partition(&[&[1, 2], &[3]]);
        }
        let lost = one.expect(start, "configuration 1,2 lost 3");
        let alone = three.expect(start3, "configuration 3 lost 1,2");
        one.tell("say majority");
        three.tell("say minority");
        let said = one.expect(lost, "message 1 majority");
        two.expect(0, "message 1 majority");
        let said3 = three.expect(alone, "message 3 minority");
        if cable {
            ring.plug(3);
        } else {
            ring.heal();
        }
        let whole = one.expect(said, "configuration 1,2,3 lost none");
        three.expect(said3, "configuration 1,2,3 lost none");
        one.tell("say together");
        one.expect(whole, "message 1 together");
        two.expect(0, "message 1 together");
        three.expect(said3, "message 1 together");
        assert!(!one.lines().contains(&"message 3 minority".to_owned()));
        assert!(!three.lines().contains(&"message 1 majority".to_owned()));
    }
}

#[test]
fn without_corosync_it_is_said_what_to_do() {
    let Some((mut ring, [one, _two, mut three])) = three(&Settings::brisk()) else { return };
    ring.stop(3);
    let last = three.end();
    assert!(last.starts_with("gone passing ") && last.contains("Corosync has ended"), "{last}");
    // It said good-bye, and closed its members' connections before that.
    one.expect(0, "configuration 1,2 lost none");
    let mut command = ring.command(3, binary::testbed());
    let output = command.args(["member", GROUP]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("systemctl start corosync"), "{said}");
}

#[test]
fn a_full_queue_loses_nothing() {
    let Some((ring, [mut one, two, _three])) = three(&Settings::brisk()) else { return };
    // A Corosync that is stopped takes what fits its buffers, and not more.
    let before = one.lines().len();
    ring.pause(1);
    one.tell("flood 5000 1000");
    one.expect(before, "full");
    two.expect(0, "configuration 2,3 lost 1");
    ring.cont(1);
    let report = one.expect_all(1, "flooded 5000 later ").remove(0);
    assert_ne!(report, "flooded 5000 later 0");
    let own = one.expect_all(5000, "message 1 flood ");
    for (number, line) in own.iter().enumerate() {
        assert!(line.starts_with(&format!("message 1 flood {number} ")), "{number}: {line:.60}");
    }
}

#[test]
fn strangers_change_nothing() {
    let Some((ring, [mut one, two, mut three])) = three(&Settings::brisk()) else { return };
    let whole = one.expect(0, FULL);
    let mut stranger = Member::run(&ring, 1, "stranger");
    stranger.expect(0, "stranger at 1");
    one.expect(0, "message 1 not of your kind");
    one.tell("say and now?");
    two.expect(0, "message 1 and now?");
    assert_eq!(one.expect_all(6, "message "), two.expect_all(6, "message "));

    // A second member of a node is told off, and the others do not notice.
    let mut command = ring.command(3, binary::testbed());
    let output = command.args(["member", GROUP]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("of this node (3) is in group"), "{said}");
    three.tell("say still here");
    let before = one.expect(0, "message 3 still here");
    let since: Vec<String> = one.lines().drain(whole + 1..before).collect();
    assert!(!since.iter().any(|line| line.starts_with("configuration ")), "{since:#?}");

    // Whoever shared a node with a stranger was away when that one leaves, as all see alike.
    drop(stranger.child.stdin.take());
    stranger.end();
    let away = two.expect(0, "configuration 2,3 lost none");
    two.expect(away, FULL);
    let alone = one.expect(before, "configuration 1 lost 2,3");
    one.expect(alone, FULL);
}

const FULL: &str = "configuration 1,2,3 lost none";

#[test]
fn as_an_ordinary_user_and_over_knet() {
    let settings =
        Settings { user_namespace: true, knet: true, crypto: true, ..Settings::default() };
    let Some((_ring, [mut one, two, three])) = three(&settings) else { return };
    one.tell("say hello");
    two.expect(0, "message 1 hello");
    three.expect(0, "message 1 hello");
}

/// The processors that a process may use, as the kernel lists them.
fn processors(status: &str) -> String {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.expect("Linux says so").trim().to_owned()
}

#[test]
fn corosyncs_stay_on_the_processors_that_they_are_given() {
    let ours = processors(&std::fs::read_to_string("/proc/self/status").unwrap());
    let last = ours.rsplit([',', '-']).next().unwrap().to_owned();
    let given = Settings { nodes: 1, processors: Some(last.clone()), ..Settings::brisk() };
    let Some(mut ring) = or_skip(Ring::up(&given)) else { return };
    let corosync = |ring: &Ring| {
        let status = format!("/proc/{}/status", ring.process(1).pid());
        processors(&std::fs::read_to_string(status).unwrap())
    };
    assert_eq!(corosync(&ring), last);
    ring.kill(1);
    ring.start(1);
    ring.wait_for(1, &[1]);
    assert_eq!(corosync(&ring), last, "also when it is started again");
    let output = ring.command(1, "cat").arg("/proc/self/status").output().unwrap();
    let theirs = processors(&String::from_utf8_lossy(&output.stdout));
    match ring.others() {
        // All but that one, however they are listed.
        Some(others) => {
            assert!(others.split(',').all(|other| other != last), "{others}, not {last}");
            assert_ne!(theirs, ours);
            assert!(!theirs.split([',', '-']).any(|end| end == last), "{theirs}, not {last}");
        }
        None => assert_eq!(theirs, ours, "there is but one"),
    }
    drop(ring);

    for (list, why) in
        [("x", "takes a list"), ("3-1", "takes a list"), ("9999", "may be used here")]
    {
        let wrong = Settings { processors: Some(list.to_owned()), ..given.clone() };
        let said = Ring::bare(&wrong).expect_err(list).to_string();
        assert!(said.contains("--processors") && said.contains(why), "{said}");
    }
}

#[test]
fn nothing_stays_behind_when_a_ring_is_dropped() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let nodes: Vec<String> =
        ring.nodes().map(|node| format!("/proc/{}", ring.process(node).pid())).collect();
    let folder = ring.dir().path().to_owned();
    assert!(nodes.iter().all(|node| std::path::Path::new(node).exists()));
    drop(ring);
    assert!(!nodes.iter().any(|node| std::path::Path::new(node).exists()));
    assert!(!folder.exists());
}

/// The files of docs/use/group-setup.md, as they are but for where keys and state are.
#[test]
fn the_documented_configurations_make_rings() {
    let text = include_str!("../../../../docs/use/group-setup.md");
    for (name, nodes) in [("three", 3), ("five", 5)] {
        let begin = format!("```corosync {name}\n");
        let (_, rest) = text.split_once(&begin).unwrap();
        let (documented, _) = rest.split_once("```").unwrap();
        let settings = Settings { nodes, knet: true, crypto: true, ..Settings::default() };
        let Some(mut ring) = or_skip(Ring::bare(&settings)) else { return };
        let all: Vec<u32> = ring.nodes().collect();
        for node in &all {
            let file = ring.configuration(*node);
            let folder = file.parent().unwrap();
            let key = folder.with_file_name("key");
            let mut own = documented
                .replace("totem {\n", &format!("totem {{\n    keyfile: {}\n", key.display()));
            own.push_str(&format!(
                "system {{\n    move_to_root_cgroup: no\n    state_dir: {}\n}}\n",
                folder.join("kept").display()
            ));
            std::fs::write(&file, own).unwrap();
            ring.start(*node);
        }
        for node in &all {
            ring.wait_for(*node, &all);
        }
    }
}

#[test]
fn another_user_is_let_in_by_an_entry() {
    let settings = Settings { user: Some(65_534), ..Settings::brisk() };
    for (settings, fine) in [(Settings::brisk(), false), (settings, true)] {
        let Some(ring) = or_skip(Ring::up(&settings)) else { return };
        if !ring.is_by_root() {
            return or_skip(Err::<(), _>(Lacking("root, to be another user".to_owned())))
                .unwrap_or_default();
        }
        // Where that user may run it.
        let program = ring.dir().join("member");
        std::fs::copy(binary::testbed(), &program).unwrap();
        let mut command = ring.command(1, "setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        let output = command.args(["member", GROUP]).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), fine, "{said}");
        assert!(fine || said.contains("uidgid { uid: 65534 }"), "{said}");
    }
}
