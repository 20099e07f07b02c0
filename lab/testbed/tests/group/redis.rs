//! A Redis on a ring, behind fronts that know it for an event loop: clients that only read, beside the order; clients whom
//! nobody can be asked for.

use std::path::Path;
use std::process::Command;

use truechimer_testbed::binary;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::process::{Process, Signal};
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, GROUP, PATIENCE, until};
use crate::front::runs;

const MEMBERS: [u32; 3] = [1, 2, 3];

/// Asks the Redis behind a front. `write` counts up and writes down what it was answered; `read` never finds less than was
/// written down before it asked, nor a time that goes back; `crowd` are so many connections that say nothing, of which it
/// tells how many are left; `idle` waits to be cut off; all else is a command, whose answer is told.
const SCRIPT: &str = "
import mmap, socket, struct, sys
port, shared, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
stream = socket.create_connection(('127.0.0.1', port), 100)
lines = stream.makefile('rb')
def ask(*words):
    data = b'*%d\\r\\n' % len(words)
    for word in words: data += b'$%d\\r\\n%s\\r\\n' % (len(word), word.encode())
    try:
        stream.sendall(data)
        return answer()
    except ConnectionError:
        return None
def answer():
    line = lines.readline()
    if line[:1] == b'$': return lines.read(int(line[1:]) + 2)[:-2].decode()
    if line[:1] in b'*%': return [answer() for _ in range(int(line[1:]) * (2 if line[:1] == b'%' else 1))]
    return line.decode().strip() or None
with open(shared, 'r+b') as file: told = mmap.mmap(file.fileno(), 8)
if words[0] == 'write':
    for _ in range(int(words[1])):
        told[:] = struct.pack('q', int(ask('INCR', 'n')[1:]))
elif words[0] == 'read':
    last = 0
    for _ in range(int(words[1])):
        before = struct.unpack('q', told[:])[0]
        n, time = ask('GET', 'n'), ask('TIME')
        time = int(time[0]) * 1000000 + int(time[1])
        if int(n) < before: sys.exit('old: %s, and %d was told before' % (n, before))
        if time < last: sys.exit('back: %d after %d' % (time, last))
        last = time
elif words[0] == 'idle':
    lines.read(1)
    sys.exit('cut off')
elif words[0] == 'crowd':
    import select
    waits, crowd = select.poll(), {stream.fileno(): stream}
    for _ in range(int(words[1]) - 1):
        one = socket.create_connection(('127.0.0.1', port), 100)
        crowd[one.fileno()] = one
    for one in crowd.values():
        one.setblocking(False)
        waits.register(one, select.POLLIN)
    print('there', flush=True)
    while crowd:
        for fd, _ in waits.poll():
            waits.unregister(fd)
            crowd.pop(fd).close()
        print('left %d' % len(crowd), flush=True)
else:
    print(ask(*words), flush=True)
print('all', flush=True)
";

/// A Redis with a front at each node of a ring, where clients that only read are at port 7002.
struct Service {
    fronts: Vec<Process>,
    _programs: Vec<Process>,
    agents: Vec<Agent>,
    python: std::path::PathBuf,
    ring: Ring,
}

impl Service {
    fn start(server: &Path, python: std::path::PathBuf, ring: Ring) -> Service {
        let agents = Agent::at_all(&ring);
        let (mut fronts, mut programs) = (Vec::new(), Vec::new());
        for node in MEMBERS {
            let log = |what: &str| ring.dir().join(&format!("{what}{node}.log"));
            let mut front = ring.command(node, binary::truechimer());
            front.args(["group", "front", "--group", GROUP, "--member", &node.to_string()]);
            front.arg("--directory").arg(ring.dir().join("agents"));
            front.args(["--listen", "127.0.0.1:7001", "--connect", "127.0.0.1:7000"]);
            front.args(["--protocol", "resp", "--event-loop"]);
            front.args(["--read-only", "127.0.0.1:7002", "--read-only-age", "0s"]);
            front.arg("--record").arg(ring.dir().join(&format!("record{node}")));
            fronts.push(Process::start(front, &log("front")));
            let mut program = ring.command(node, binary::truechimer());
            program.args(["group", "exec", "--group", GROUP, "--member", &node.to_string()]);
            program.arg("--directory").arg(ring.dir().join("agents"));
            program.args(["--together", "3", "--reads", "delivery", "--"]).arg(server);
            program.args(["--port", "7000", "--bind", "127.0.0.1", "--save", "", "--dir", "/tmp"]);
            programs.push(Process::start(program, &log("program")));
        }
        for front in &mut fronts {
            front.expect_output("answering: 3 of 3", PATIENCE);
        }
        std::fs::write(ring.dir().join("told"), [0; 8]).unwrap();
        Service { fronts, _programs: programs, agents, python, ring }
    }

    fn command(&self, node: u32, port: u16, words: &[&str]) -> Command {
        let mut command = self.ring.command(node, &self.python);
        command.args(["-c", SCRIPT, &port.to_string()]).arg(self.ring.dir().join("told"));
        command.args(words);
        command
    }

    /// A client that goes on.
    fn client(&self, name: &str, node: u32, port: u16, words: &[&str]) -> Process {
        Process::start(self.command(node, port, words), &self.ring.dir().join(name))
    }

    /// The answer to one command.
    fn ask(&self, node: u32, port: u16, words: &[&str]) -> String {
        let output = self.command(node, port, words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().next().unwrap().to_owned()
    }
}

#[test]
fn on_a_ring_reads_beside_the_order_see_all_that_was_answered_and_who_differs_serves_none() {
    let Some(server) = or_skip(runs("redis-server")) else { return };
    let Some(python) = or_skip(runs("python3")) else { return };
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let mut service = Service::start(&server, python, ring);
    assert_eq!(service.ask(1, 7001, &["SET", "n", "1"]), "+OK");
    let mut writers =
        [1, 2].map(|node| service.client(&format!("write{node}"), node, 7001, &["write", "200"]));
    let mut readers: Vec<Process> = MEMBERS
        .iter()
        .map(|node| service.client(&format!("read{node}"), *node, 7002, &["read", "150"]))
        .collect();
    for client in writers.iter_mut().chain(&mut readers) {
        client.expect_output("all\n", PATIENCE);
    }
    assert_eq!(service.ask(3, 7002, &["GET", "n"]), "401");
    assert!(service.ask(3, 7002, &["INCR", "n"]).starts_with("-ERR 'INCR' is none"));
    // The programs have had other connections, and Redis numbers them.
    assert_ne!(service.ask(1, 7002, &["CLIENT", "ID"]), service.ask(3, 7002, &["CLIENT", "ID"]));
    assert!(service.ask(1, 7001, &["HELLO", "3"]).contains("'proto', ':3', 'id'"));
    for node in MEMBERS {
        assert_eq!(service.ask(node, 7001, &["GET", "n"]), "401");
    }
    // Behind the front's back: it's found by the next answer that shows it, and its clients are cut off.
    let mut reader = service.client("last", 2, 7002, &["idle"]);
    assert_eq!(service.ask(2, 7000, &["SET", "n", "9"]), "+OK");
    assert_eq!(service.ask(1, 7001, &["GET", "n"]), "401");
    service.fronts[1].expect_output("this replica cannot go on: its program's replies", PATIENCE);
    assert!(reader.wait(PATIENCE).is_some_and(|status| !status.success()), "cut off");
    let refused = service.command(2, 7002, &["GET", "n"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("ConnectionRefused"), "{refused:?}");
    assert_eq!(service.ask(3, 7002, &["GET", "n"]), "401");
    for at in [0, 2] {
        service.fronts[at].signal(Signal::Term);
        assert!(service.fronts[at].wait(PATIENCE).is_some_and(|status| status.success()));
    }
    let record = |node| {
        let file = service.ring.dir().join(&format!("record{node}"));
        let text = std::fs::read_to_string(file).unwrap();
        // The answer to `HELLO` has the connection's number.
        let lines = text.lines().filter(|line| !line.contains("proto"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    // The one that ended first may not have come to the end.
    let (first, third) = (record(1), record(3));
    let length = first.len().min(third.len());
    assert!(first[..length] == third[..length], "{first}\n{third}");
    assert!(third.lines().count() >= 404, "{third}");
    // One at the beginning, the writers' requests, four at the end; and none that only reads.
    assert_eq!(first.lines().count(), 405, "{first}");
}

/// Clients come while a node's Corosync stands still, and the others go on without it: what its front has sent for them is
/// refused, and nobody is left to hang.
#[test]
fn on_a_ring_whose_opening_is_refused_is_sent_away() {
    let Some(server) = or_skip(runs("redis-server")) else { return };
    let Some(python) = or_skip(runs("python3")) else { return };
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let mut service = Service::start(&server, python, ring);
    assert_eq!(service.ask(3, 7001, &["SET", "n", "1"]), "+OK");
    service.ring.pause(3);
    let mut crowd = service.client("crowd", 3, 7001, &["crowd", "100"]);
    crowd.expect_output("there\n", PATIENCE);
    until("the others go on without it", || service.agents[0].report().connected == [1, 2]);
    for (node, answer) in [(1, ":2"), (2, ":3")] {
        assert_eq!(service.ask(node, 7001, &["INCR", "n"]), answer);
    }
    assert!(!crowd.output().contains("left"), "{}", crowd.output());
    service.ring.cont(3);
    crowd.expect_output("left 0\n", PATIENCE);
    assert!(crowd.wait(PATIENCE).is_some_and(|status| status.success()));
    service.fronts[2].expect_output("out: this member is outside the majority", PATIENCE);
    for node in [1, 2] {
        assert_eq!(service.ask(node, 7001, &["INCR", "n"]), format!(":{}", node + 3));
    }
}
