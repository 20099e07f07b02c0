//! Agreement, and what it takes on the wire.

use truechimer_testbed::binary;
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::ring::{Ring, Settings};

use crate::agents::{Agent, GROUP, agree};

#[test]
fn three_nodes_agree_on_thousands_of_readings() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents = Agent::at_all(&ring);
    let replicas = Agent::attach_all(&agents);
    let gaps = || agents.iter().map(|agent| agent.report().counts.gaps).collect::<Vec<_>>();
    let before = gaps();
    let values = agree(&replicas.iter().collect::<Vec<_>>(), 0..4, 1000);
    let mut distinct: Vec<i64> = values.values().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 4000, "monotone for the whole group");
    assert_eq!(gaps(), before, "nobody has missed anything");
    let reports: Vec<_> = agents.iter().map(Agent::report).collect();
    let sum = |of: fn(&truechimer_group_agent::Counts) -> u64| -> u64 {
        reports.iter().map(|report| of(&report.counts)).sum()
    };
    let (rounds, sent) = (reports[0].counts.rounds, sum(|counts| counts.proposals_sent));
    let (suppressed, duplicates) = (sum(|c| c.suppressed), reports[0].counts.duplicates);
    println!(
        "{rounds} rounds: {sent} proposals sent ({:.3} a round), {suppressed} suppressed, \
         {duplicates} duplicates",
        sent as f64 / rounds as f64
    );
    for report in &reports {
        // A member that came a moment later did not count the round that let it in.
        assert!((4000..=rounds.max(4016)).contains(&report.counts.rounds), "{report:#?}");
        assert_eq!(report.waiting.operations, 0);
    }
    // Each read either sent a proposal or found the round decided, and no more was sent than that.
    assert!(sent >= 4000 && suppressed + sent >= 12_000, "{sent} sent, {suppressed} suppressed");
    assert!(duplicates <= sent - 4000 + 16, "{duplicates} of {sent}");
}

#[test]
fn the_commands_show_the_ring_and_scripts_agree() {
    let Some(ring) = or_skip(Ring::up(&Settings::brisk())) else { return };
    let agents = Agent::at_all(&ring);
    let directory = ring.dir().join("agents");
    let ask = |arguments: &[&str]| {
        let mut command = std::process::Command::new(binary::truechimer());
        command.arg("group").args(arguments).arg("--directory").arg(&directory);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text, errors)
    };
    // The same place by the same name at each member: the same value.
    let mut stamps = Vec::new();
    for member in ["1", "2", "3"] {
        for _ in 0..2 {
            let shared = [
                "now",
                "--group",
                GROUP,
                "--member",
                member,
                "--thread",
                "job",
                "--timeout",
                "60s",
            ];
            let (code, text, errors) = ask(&shared);
            assert_eq!(code, Some(0), "{errors}");
            stamps.push(text);
        }
    }
    assert_eq!((&stamps[..2], &stamps[..2]), (&stamps[2..4], &stamps[4..]), "{stamps:?}");
    assert!(stamps[0] < stamps[1], "{stamps:?}");
    // Without a name a new one.
    let (code, text, _) = ask(&["now", "--group", GROUP, "--member", "3", "--timeout", "60s"]);
    assert!(code == Some(0) && text > stamps[1], "{text} after {stamps:?}");
    let (code, _, errors) = ask(&["now", "--group", GROUP]);
    assert!(code == Some(2) && errors.contains("say which with --member"), "{errors}");

    let (code, text, errors) = ask(&["status"]);
    assert_eq!(code, Some(0), "{text}{errors}");
    for part in ["ledger: active, monotone; members 1 2 3", "live, primary component", "1 *", "3 *"]
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let (code, text, _) = ask(&["status", "--json", "--member", "2"]);
    let report = truechimer_group_agent::Report::from_json(text.trim()).unwrap();
    assert_eq!((code, report.member, report.group.members), (Some(0), 2, vec![1, 2, 3]));
    let (code, text, _) = ask(&["watch", "--once", "--interval", "100ms"]);
    assert!(code == Some(0) && text.lines().count() == 4 && text.contains("rounds/s"), "{text}");
    let (code, _, errors) = ask(&["status", "--group", "other"]);
    assert!(code == Some(2) && errors.contains("no agent of group 'other'"), "{errors}");
    drop(agents);
}
