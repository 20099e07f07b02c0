//! A system clock that somebody else slews and steps, or that we are asked to steer: simulated for
//! the daemon alone, by a preloaded library.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use truechimer::{Count, Span, Status};
use truechimer_counter::{Choice, Counter, HostPair, realtime_pair};
use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{Server, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::{Means, Pair};
use truechimer_testbed::truth::Truth;
use truechimer_testbed::watch::{Watch, long, median};
use truechimer_testbed::{binary, process, temp};

use crate::number;

/// Slewed as hard as the kernel does, back and forth, on top of a drift.
const SLEWED: &str = "rate=-100ppm,toggle=500ppm/3ms";
/// Stepped ten times a second, by 1 ms to 1 s either way.
const STEPPED: &str = "steps=1ms..1s/100ms,seed=3";
/// Both, as a daemon that asks once a second sees it.
const SLEWED_AND_STEPPED: &str = "rate=80ppm,toggle=500ppm/3ms,steps=1ms..1s/900ms,seed=5";

/// The environment of a process whose clock is warped like this from now on.
pub(crate) fn warped(what: &str, state: Option<&Path>) -> Vec<(&'static str, String)> {
    let text = |path: &Path| path.to_str().expect("a path of plain text").to_owned();
    let mut environment = vec![
        ("LD_PRELOAD", text(&binary::warp())),
        ("TRUECHIMER_WARP", format!("epoch={},{what}", Truth::host().now_ns())),
    ];
    environment.extend(state.map(|path| ("TRUECHIMER_WARP_STATE", text(path))));
    environment
}

/// The host's clock against a counter, a pair every few milliseconds.
struct HostClock(Vec<HostPair>);

impl HostClock {
    /// Watches the host's clock while `work` is under way.
    fn during<T>(counter: Counter, work: impl FnOnce() -> T) -> (T, HostClock) {
        let done = AtomicBool::new(false);
        let mut pairs = vec![realtime_pair(counter, 8)];
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(3));
                    pairs.push(realtime_pair(counter, 8));
                }
            });
            let result = work();
            done.store(true, Ordering::Relaxed);
            result
        });
        pairs.push(realtime_pair(counter, 8));
        (result, HostClock(pairs))
    }

    /// The counts between which the host's clock showed `unix_ns`.
    fn counts(&self, unix_ns: i64) -> Range<f64> {
        let origin = self.0[0].before;
        let after = self.0.partition_point(|pair| pair.unix_ns <= unix_ns);
        assert!((1..self.0.len()).contains(&after), "not while we looked");
        let (left, right) = (&self.0[after - 1], &self.0[after]);
        let at = |pair: &HostPair| (pair.mid() - origin).0 as f64;
        let part = (unix_ns - left.unix_ns) as f64 / (right.unix_ns - left.unix_ns) as f64;
        let count = at(left) + (at(right) - at(left)) * part;
        // What is not known of a pair is when, between its two counts, the clock was read.
        let error = left.width().0.max(right.width().0) as f64 / 2.0;
        count - error..count + error
    }

    fn since_origin(&self, count: u64) -> f64 {
        (Count(count) - self.0[0].before).0 as f64
    }
}

#[test]
fn stamps_keep_their_word_while_the_clock_is_slewed() {
    stamps(SLEWED);
}

#[test]
fn stamps_keep_their_word_while_the_clock_is_stepped() {
    stamps(STEPPED);
}

/// Every stamp that a process with a warped clock makes must be where the host's own clock has
/// it, within the error that it states.
fn stamps(what: &str) {
    let dir = temp::Dir::new();
    let state = dir.join("warp");
    let counter = Counter::open(Choice::Raw).expect("the kernel has a raw clock");
    let mut command = process::command(binary::testbed());
    command.args(["stamps", "raw", "400"]).arg(&state).envs(warped(what, Some(&state)));
    let (output, host) = HostClock::during(counter, move || command.output().expect("it runs"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut errors, mut stated, mut all, mut late) = (Vec::new(), Vec::new(), 0, 0);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if line == "late" {
            late += 2;
            continue;
        }
        let fields: Vec<&str> = line.split(' ').collect();
        let [count, error, method, host_ns] = fields[..] else { panic!("`{line}`") };
        all += 1;
        let error: f64 = error.parse().expect("a number");
        let truth = host.counts(host_ns.parse().expect("a number"));
        let count = host.since_origin(count.parse().expect("a number"));
        assert!(
            truth.start <= count + error && count - error <= truth.end,
            "{method} stamp at {count} ± {error}, in truth within {truth:?}"
        );
        if method == "kernel" {
            errors.push((count - (truth.start + truth.end) / 2.0).abs() as i64);
            stated.push(error as i64);
        }
    }
    assert!(all + late > 600 && all > 100, "few exchanges were stamped: {all}, late {late}");
    assert!(errors.len() * 10 > all * 9, "{} of {all} by the kernel", errors.len());
    errors.sort_unstable();
    println!(
        "{all} stamps, {} by the kernel: off by {} ns (median), {} ns (99 %), stated ± {} ns (median)",
        errors.len(),
        median(errors.iter().copied()),
        truechimer_report::percentile(&errors, 99).expect("some"),
        median(stated.iter().copied()),
    );
}

#[test]
fn a_daemon_with_a_warped_clock_tells_the_same_time_as_one_without() {
    let dir = temp::Dir::new();
    let server =
        Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "1.5s", "--skew-ppm", "37"]);
    let mut plain = Setup { name: "plain", ..Setup::new(&dir, &*server.address) }.start();
    let environment = warped(SLEWED_AND_STEPPED, None);
    let mut strange =
        Setup { name: "warped", environment, ..Setup::new(&dir, &*server.address) }.start();
    let mut watches = [plain.watch(server.truth), strange.watch(server.truth)];
    let (mut kernel, mut all, mut apart) = (0, 0, Vec::new());
    let end = Instant::now() + long(Duration::from_secs(60));
    while Instant::now() < end {
        // Every reading of either is held against the truth in here.
        for watch in &mut watches {
            watch.run(Duration::from_millis(400));
        }
        // Their server's own distance is the same for both: what is left of the bounds must
        // cover all that path and stamps do.
        let source = strange.source();
        let root = Span::from_nanos(number(&source, "root_distance_ns"));
        let [a, b] = watches.each_ref().map(|watch| watch.clock().view().expect("a hand").hand);
        let at = watches[0].clock().view().expect("a hand").count;
        let difference = b.time_at(at) - a.time_at(at);
        apart.push(difference.abs().as_nanos_i64());
        let [stated_a, stated_b] = [a, b].map(|hand| hand.bound_at(at) - root);
        assert!(
            difference.abs() <= stated_a + stated_b,
            "{difference} apart, but said to be within {stated_a} and {stated_b}"
        );
        all += 1;
        kernel +=
            u32::from(source["sent_stamp"] == "kernel" && source["received_stamp"] == "kernel");
    }
    println!("without: {}", watches[0].summary());
    println!("warped:  {}", watches[1].summary());
    println!("apart by {} ns (median)", median(apart.iter().copied()));
    println!("kernel stamps in {kernel} of {all} looks");
    assert!(kernel * 10 >= all * 8, "kernel stamps in {kernel} of {all} looks only");

    let sources = [&plain, &strange].map(|daemon| daemon.source());
    let floors = sources.each_ref().map(|source| number(source, "rtt_floor_ns"));
    let stated: i64 = sources
        .iter()
        .map(|s| number(s, "sent_stamp_error_ns") + number(s, "received_stamp_error_ns"))
        .sum();
    println!("round trips at least {} ns without, {} ns warped", floors[0], floors[1]);
    // Two clients of one server do not meet the very same least delay; a step would show as 1 ms.
    let natural = crate::ALLOWANCE_NS;
    assert!((floors[0] - floors[1]).abs() <= stated + natural, "{floors:?}, ± {stated}");
}

#[test]
fn the_system_clock_is_brought_to_time_and_ours_is_none_the_worse() {
    // Only where the kernel itself would refuse: this daemon must never reach the host's clock.
    let Some(net) = or_skip(Pair::by(Means::UserNamespace)) else { return };
    let dir = temp::Dir::new();
    let Some(_server) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    let state = dir.join("warp");
    let environment = warped("offset=3s,rate=80ppm", Some(&state));
    let shown = |environment: &[(&'static str, String)]| offset_of_warped(environment);
    let at_first = shown(&environment);
    assert!((2_900_000_000..3_100_000_000).contains(&at_first), "not warped: {at_first} ns");
    let before = host_against_raw();
    let mut daemon = Setup {
        network: Some(&net.client),
        sections: "[system-clock]\ndiscipline = true\n",
        environment: environment.clone(),
        ..Setup::new(&dir, "192.0.2.1")
    }
    .start();
    let mut watch: Watch = daemon.watch(Truth::host());
    let (mut steps, mut last, mut settled) = (0, at_first, Vec::new());
    let end = daemon.started + long(Duration::from_secs(100));
    while Instant::now() < end {
        watch.run(Duration::from_millis(500));
        let offset = shown(&environment);
        steps += u32::from((offset - last).abs() > 100_000_000);
        last = offset;
        if daemon.started.elapsed() > Duration::from_secs(60) {
            assert!(offset.abs() <= 1_000_000, "{offset} ns off after a minute");
            settled.push(offset.abs());
        }
    }
    println!("{}", watch.summary());
    println!(
        "the system clock, after a minute: off by {} ns (median), {} ns (worst); {steps} step",
        median(settled.iter().copied()),
        settled.iter().max().expect("some")
    );
    assert_eq!(steps, 1, "steps seen");
    assert!(watch.samples.iter().all(|s| s.status == Status::Synchronised));
    // Three seconds or 80 ppm would show.
    let moved = (host_against_raw() - before).abs();
    println!("the host's clock went {moved} ns from its raw clock meanwhile");
    assert!(moved < 50_000_000, "the host's clock was moved by {moved} ns");
}

/// Lead of the warped system clock over the host's, ns: asked of a process that sees it.
fn offset_of_warped(environment: &[(&'static str, String)]) -> i64 {
    let raw = Counter::open(Choice::Raw).expect("the kernel has a raw clock");
    let left = realtime_pair(raw, 32);
    let mut command = Command::new(binary::testbed());
    command.arg("clock").envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.output().expect("it runs");
    let right = realtime_pair(raw, 32);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<i64> = text.split_whitespace().map(|n| n.parse().expect("ns")).collect();
    let [before, warped, after] = numbers[..] else { panic!("`{text}`") };
    let at = |pair: &HostPair| pair.mid().0 as i64;
    let part = ((before + after) / 2 - at(&left)) as f64 / (at(&right) - at(&left)) as f64;
    let host = left.unix_ns + ((right.unix_ns - left.unix_ns) as f64 * part) as i64;
    warped - host
}

/// The host's system clock − its raw clock, ns.
fn host_against_raw() -> i64 {
    let raw = Counter::open(Choice::Raw).expect("the kernel has a raw clock");
    let pair = realtime_pair(raw, 32);
    pair.unix_ns - pair.mid().0 as i64
}
