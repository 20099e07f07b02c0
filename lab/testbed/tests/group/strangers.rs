//! Members that are not as they should be, and those that are none.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use truechimer_group_agent::Report;
use truechimer_testbed::binary;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, GROUP, SHORT, agree, read};
use crate::front::runs;

/// Exit status 1, as [`Agent::status`] shows it.
const FAILS: &str = "unix_wait_status(256)";

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
    // And to whoever asks.
    for (agent, trouble) in [
        (&other, "member 3: members 1, 2 have other settings, live by these"),
        (&agents[0], "member 3: it has other settings, and takes no part here"),
    ] {
        agent.wait_until("it stands apart", |report| {
            report.troubles().iter().any(|trouble| trouble.kind == "apart")
        });
        let status = agent.status();
        let line = status.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        assert!(line.contains(trouble) && line.contains(FAILS), "{status}");
        assert!(line.contains("must be the same on all nodes"), "{status}");
    }
}

/// Three members of three settings: none has a majority, and each says why it waits.
#[test]
fn members_of_which_no_two_are_alike_say_why_they_wait() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let start =
        |node: u32| Agent::start(&ring, node, &["--steering-cap-ppm", &(100 * node).to_string()]);
    let agents: Vec<_> = (1..=3).map(start).collect();
    for agent in &agents {
        agent.wait_until("it knows of both others", |report| {
            report.members.iter().filter(|member| member.apart.is_some()).count() == 2
        });
        let troubles = agent.report().troubles();
        let own = troubles.iter().find(|trouble| trouble.member == agent.node).unwrap();
        assert_eq!(own.kind, "apart", "{troubles:?}");
        assert!(own.why.contains("other settings"), "{}", own.why);
        assert!(own.why.ends_with("and knows of 1 of 3"), "{}", own.why);
        assert!(agent.status().contains(FAILS), "{}", agent.status());
    }
}

/// A member whose agent speaks another version of the protocol: the others go on as long as they are a majority without
/// it, and say what to do.
#[test]
fn a_member_of_another_version_stands_apart_and_bears_nobody_out() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let mut agents: Vec<_> = (1..=2).map(|node| Agent::start(&ring, node, &[])).collect();
    agents.iter().for_each(|agent| agent.wait_for("live"));
    let replicas = Agent::attach_all(&agents);
    let mut command = ring.command(3, binary::testbed());
    command.args(["member", GROUP]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut other = command.spawn().unwrap();
    let input = other.stdin.as_mut().unwrap();
    // The head of a message, and what nobody here understands: its version is that of two exclamation marks, and the
    // place that it has come to is not 0, as of one that is live.
    writeln!(input, "say TCGR!!{}", "x".repeat(60)).unwrap();
    agree(&replicas.iter().collect::<Vec<_>>(), 0..2, 100);
    for agent in &agents {
        agent.wait_until("it stands apart", |report| {
            let apart = report.members[2].apart;
            apart.is_some_and(|apart| apart.live && apart.version == Some(0x2121))
        });
        assert!(noticed(&agent.report(), "version"));
        let status = agent.status();
        let line = status.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        assert!(
            line.contains("member 3: it has version 8481 of the protocol, live by it"),
            "{status}"
        );
        assert!(line.contains("run one version of truechimer on all nodes"), "{status}");
        assert!(line.contains(FAILS), "{status}");
    }
    // One of the two is no majority, whoever else is connected.
    agents[1].kill();
    agents[0].wait_until("it is out", |report| report.phase == "joining");
    assert_eq!(read(&replicas[0], 5, SHORT), None, "a value by one of three");
    writeln!(other.stdin.as_mut().unwrap(), "say TCGR!!{}", "x".repeat(60)).unwrap();
    agents[0].wait_until("it knows why", |report| {
        let why = report.troubles().into_iter().find(|trouble| trouble.kind == "apart");
        why.is_some_and(|trouble| trouble.member == 1 && trouble.why.contains("1 of 3"))
    });
    agents[1] = Agent::start(&ring, 2, &[]);
    other.kill().unwrap();
    other.wait().unwrap();
    agents.iter().for_each(|agent| agent.wait_for("live"));
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
