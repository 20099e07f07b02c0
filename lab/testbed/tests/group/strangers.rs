//! Members that are not as they should be, and those that are none.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use truechimer_group_agent::Report;
use truechimer_testbed::binary;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, GROUP, agree};
use crate::front::runs;

fn noticed(report: &Report, kind: &str) -> bool {
    report.notices.iter().any(|notice| notice.kind == kind)
}

#[test]
fn messages_that_are_not_ours_are_ignored_and_told() {
    let settings = Settings { nodes: 4, ..Settings::brisk() };
    let Some(ring) = or_skip(Ring::up(&settings)) else { return };
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..1, 20);
    // A node that is no member talks into the group.
    let mut command = ring.command(4, binary::testbed());
    command.args(["member", GROUP]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut stranger = command.spawn().unwrap();
    let input = stranger.stdin.as_mut().unwrap();
    writeln!(input, "say hello\nflood 5000 100\nflood 100 20000").unwrap();
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 200);
    for agent in &agents {
        agent.wait_until("all of it was noticed", |report| report.counts.foreign >= 5101);
        assert!(noticed(&agent.report(), "malformed"));
        let said = agent.process.output();
        assert!(said.contains("ignored a message from node 4"), "{said}");
        assert!(said.lines().count() < 40, "at a bounded rate:\n{said}");
    }
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 200);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Hears the ring's packets. Then sends them again, some with a bit the other way, and noise, from the address and port
/// of a node that was in the ring.
const HOSTILE: &str = "
import random, socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
heard = []
while len(heard) < 300:
    packet, source = link.recvfrom(65535)
    udp = packet[(packet[0] & 15) * 4:] if packet and source[1] == 0x0800 and packet[9] == 17 else b''
    if len(udp) > 8 and int.from_bytes(udp[2:4], 'big') == 5405:
        heard.append(udp[8:])
print('heard', flush=True)
sys.stdin.readline()
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.bind(('192.0.2.4', 5405))
random.seed(1)
for _ in range(7000):
    packet = random.choice(heard)
    changed = bytearray(packet)
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    for data in packet, bytes(changed), random.randbytes(random.randrange(1400)):
        try:
            out.sendto(data, ('192.0.2.%d' % random.randint(1, 3), 5405))
        except OSError:
            pass
print('sent', flush=True)
sys.stdin.readline()
";

/// Counts what comes from there.
const COUNTS: &str = "
import select, socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
# SO_RCVBUFFORCE: none is dropped before it is counted.
link.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
print('listens', flush=True)
came = 0
while sys.stdin not in select.select([sys.stdin, link], [], [])[0]:
    packet = link.recv(65535)
    came += packet[0] >> 4 == 4 and packet[12:16] == bytes([192, 0, 2, 4])
print(came, flush=True)
";

/// With knet's crypto, who has not the key is nobody: what it sends does not come to the group, and readings go on.
#[test]
fn datagrams_of_those_without_the_ring_key_change_nothing() {
    let Some(python) = or_skip(runs("python3")) else { return };
    let settings = Settings { nodes: 4, knet: true, crypto: true, ..Settings::brisk() };
    let Some(mut ring) = or_skip(Ring::up(&settings)) else { return };
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    let start = |node: u32, script: &str| {
        let mut command = ring.command(node, &python);
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, said)
    };
    let (mut hostile, mut said) = start(4, HOSTILE);
    let (mut counter, mut counts) = start(1, COUNTS);
    assert_eq!(counts.next().unwrap().unwrap(), "listens");
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 200);
    assert_eq!(said.next().unwrap().unwrap(), "heard");
    ring.kill(4);
    ring.wait_for(1, &[1, 2, 3]);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 20);
    let place = |agent: &Agent| (agent.report().generation, agent.report().counts.gaps);
    let before: Vec<_> = agents.iter().map(place).collect();
    writeln!(hostile.stdin.as_mut().unwrap(), "go").unwrap();
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 500);
    assert_eq!(said.next().unwrap().unwrap(), "sent");
    writeln!(counter.stdin.as_mut().unwrap(), "enough").unwrap();
    let came: u32 = counts.next().unwrap().unwrap().parse().unwrap();
    assert!(came > 3000, "of some 7000 {came} came to the first node");
    counter.wait().unwrap();
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 200);
    assert_eq!(agents.iter().map(place).collect::<Vec<_>>(), before, "nobody was cut off");
    for agent in &agents {
        let report = agent.report();
        assert_eq!((report.phase.as_str(), report.counts.foreign), ("live", 0));
        assert_eq!(report.connected, [1, 2, 3]);
    }
    hostile.kill().unwrap();
    hostile.wait().unwrap();
}

#[test]
fn other_settings_under_the_same_name_are_kept_out() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents: Vec<_> = (1..=2).map(|node| Agent::start(&ring, node, &[])).collect();
    for agent in &agents {
        agent.wait_for("live");
    }
    let other = Agent::start(&ring, 3, &["--steering-cap-ppm", "100"]);
    for agent in &agents {
        agent.wait_until("it was noticed", |report| noticed(report, "other-settings"));
    }
    other.wait_until("it was noticed there, too", |report| noticed(report, "other-settings"));
    let replicas = Agent::attach_all(&agents);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 100);
    assert_ne!(other.report().phase, "live");
    let said = other.process.output();
    assert!(said.contains("has other settings"), "{said}");
}

#[test]
fn a_member_without_utc_follows_those_that_have_it() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents: Vec<_> = [(1, vec![]), (2, vec![]), (3, vec!["--page", "none"])]
        .into_iter()
        .map(|(node, options)| Agent::start(&ring, node, &options))
        .collect();
    for agent in &agents {
        agent.wait_for("live");
    }
    let replicas = Agent::attach_all(&agents);
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 200);
    agents[0].wait_until("the others have reported", |report| {
        report.members.iter().filter(|member| member.ahead_of_utc_ns.is_some()).count() == 2
    });
    let report = agents[2].report();
    assert!(report.utc_bound_ns.is_none() && report.phase == "live", "{report:#?}");
    assert!(report.utc.contains("no UTC"), "{}", report.utc);
    let (earliest, latest) = (truth() - 60_000_000_000, truth() + 60_000_000_000);
    let value = crate::agents::read(&replicas[2], 7, crate::agents::PATIENCE).unwrap();
    assert!((earliest..latest).contains(&value), "the group is set by those that have UTC");
}

/// Hours from the truth, and sure of itself.
#[test]
fn a_wild_clock_is_suspected_shown_and_not_followed() {
    const HOURS: i64 = 3 * 3_600_000_000_000;
    // The last in the order of proposing, and the first, which sets the clock of a new group; too
    // late and too early.
    for (wild, offset) in [(3, HOURS), (1, HOURS), (3, -HOURS)] {
        let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
        let agents: Vec<_> = (1..=3)
            .map(|node| match node == wild {
                true => Agent::start_ahead(&ring, node, offset, &[]),
                false => Agent::start(&ring, node, &[]),
            })
            .collect();
        for agent in &agents {
            agent.wait_for("live");
        }
        let replicas = Agent::attach_all(&agents);
        let values = agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 200);
        for agent in &agents {
            agent.wait_until("the wild one is suspected, and nobody else", |report| {
                report.members.iter().all(|member| member.suspect == (member.member == wild))
            });
        }
        let more = agree(&replicas.iter().collect::<Vec<_>>(), 2..4, 200);
        let near = truth() - 120_000_000_000..truth() + 120_000_000_000;
        for value in values.values().chain(more.values()) {
            assert!(
                near.contains(value),
                "{value}: it has moved the group's clock ({wild}, {offset})"
            );
        }
        let report = agents[wild as usize % 3].report();
        // It is the last to propose; where the others are late, its proposal is worth 1 ns.
        assert!(report.recent_synchronizers.iter().any(|one| *one != wild), "{report:#?}");
        let shown = agents[0].status();
        let line = shown.lines().find(|line| line.contains("suspect"));
        let line = line.unwrap_or_else(|| panic!("{shown}"));
        assert!(line.trim_start().starts_with(&wild.to_string()), "{shown}");
        assert!(noticed(&report, "suspect"), "{report:#?}");
    }
}

/// The system clock, ns since 1970.
fn truth() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_nanos()).unwrap()
}
