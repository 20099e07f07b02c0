//! The readers in other languages, held against this client: the same count is the same time, to the
//! nanosecond. Each language has a program that answers questions, one a line.
//!
//! A language that is missing is skipped, and says so: `go` for Go; for Python `$TRUECHIMER_PYTHON`, an interpreter that
//! has the module (`scripts/python` makes one); for Java and Node `$TRUECHIMER_JAVA` and `$TRUECHIMER_NODE`, the folders
//! that `scripts/java` and `scripts/node` make.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "languages/children.rs"]
mod children;
mod common;
#[path = "languages/moved.rs"]
mod moved;
#[path = "languages/page.rs"]
mod page;

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use common::Daemon;
use truechimer::{
    Clock, CounterKind, Hand, Instant, Leap, Leaps, Moment, Rate, Reading, Span, Status,
};
use truechimer_counter::{Choice, Counter, nominal};
use truechimer_time::{BootId, CountSpan, Epoch};
use truechimer_timehands::PageWriter;

const NANOS: i128 = 1_000_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said.concat());
    String::from_utf8(output.stdout).unwrap()
}

/// A language with a reader of its own.
#[derive(Clone, Copy, Debug)]
enum Language {
    Go,
    /// By JNI.
    Java,
    /// By the Foreign Function & Memory API.
    JavaForeign,
    /// By koffi, on the library for C.
    Node,
    Python,
}

impl Language {
    /// Command that starts its answering program; `None`, with a word, where that cannot be run here.
    fn answering(self) -> Option<Command> {
        match self {
            Language::Go => answer_in_go().map(Command::new),
            Language::Java => java("Answer"),
            Language::JavaForeign => java_foreign("Answer"),
            Language::Node => node(&root().join("clock/c/tests/node/answer.js")),
            Language::Python => {
                let mut command = Command::new(python()?);
                command.arg(root().join("clock/python/tests/answer.py"));
                Some(command)
            }
        }
    }
}

/// Said of a test that passes without having tried anything: past the harness, which would keep it to itself.
/// `scripts/test` takes it from those that passed. What is `SKIPPED` fails there where nothing may be; what is
/// `NOT TRIED`, as no package of the system's has it, does not.
fn lacks(word: &str, what: &str) {
    let thread = thread::current();
    let _ = writeln!(io::stderr(), "{word} {}: {what}", thread.name().unwrap_or_default());
}

const NO_JDK: &str = "the reader in Java 22: no JDK of that version or later is installed";

fn go() -> Option<Command> {
    let here = Command::new("go").arg("version").output().is_ok_and(|o| o.status.success());
    if !here {
        lacks("SKIPPED", "the reader in Go: go is not installed");
        return None;
    }
    let mut command = Command::new("go");
    command
        .current_dir(root().join("clock/go"))
        .envs([("GOPROXY", "off"), ("GOTOOLCHAIN", "local")]);
    Some(command)
}

/// The answering program in Go, built once.
fn answer_in_go() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        let mut go = go()?;
        let own = env::current_exe().unwrap();
        let program = own.with_file_name("answer-in-go");
        run(go
            .env("CGO_ENABLED", "0")
            .args(["build", "-o"])
            .arg(&program)
            .arg("./internal/answer"));
        Some(program)
    });
    built.as_deref()
}

fn python() -> Option<String> {
    let python = env::var("TRUECHIMER_PYTHON").ok().filter(|path| !path.is_empty());
    if python.is_none() {
        lacks(
            "SKIPPED",
            "the reader in Python: $TRUECHIMER_PYTHON names no interpreter that has it",
        );
    }
    python
}

/// A program in Node, which finds koffi and the library in the folder of both.
fn node(program: &Path) -> Option<Command> {
    let Some(folder) = env::var_os("TRUECHIMER_NODE").filter(|path| !path.is_empty()) else {
        lacks("SKIPPED", "the reader in Node: $TRUECHIMER_NODE names no folder with koffi");
        return None;
    };
    let mut command = Command::new("node");
    command.arg(program).env("LD_LIBRARY_PATH", &folder);
    command.env("NODE_PATH", Path::new(&folder).join("node_modules"));
    Some(command)
}

/// A class of the tests' in Java, to be run, by JNI on every machine.
fn java(class: &str) -> Option<Command> {
    let Some(folder) = env::var("TRUECHIMER_JAVA").ok().filter(|path| !path.is_empty()) else {
        lacks("SKIPPED", "the reader in Java: $TRUECHIMER_JAVA names no folder that has it");
        return None;
    };
    let java = env::var("JAVA_HOME").map_or("java".into(), |home| format!("{home}/bin/java"));
    Some(by_jni(&java, &folder, &folder, class))
}

/// A class of the tests', run by this machine with what is in the folders of the jar and of the library.
fn by_jni(java: &str, folder: &str, library: &str, class: &str) -> Command {
    let mut command = Command::new(java);
    // From Java 22 on the jar has another class, which goes by foreign functions.
    command.arg("-Djdk.util.jar.enableMultiRelease=false");
    // What the machine is asked for is looked at; a benchmark does without.
    command.args((class != "Bench").then_some("-Xcheck:jni"));
    command.args(["-cp", &format!("{folder}/truechimer.jar:{folder}/tests")]);
    command.args([&format!("-Djava.library.path={library}"), class]);
    command
}

/// A class of the tests' in Java 22 or later, with a library that has nothing for JNI.
fn java_foreign(class: &str) -> Option<Command> {
    let folder = env::var("TRUECHIMER_JAVA").unwrap_or_default();
    let foreign = format!("{folder}/foreign");
    if folder.is_empty() || !Path::new(&foreign).exists() {
        lacks("NOT TRIED", NO_JDK);
        return None;
    }
    let mut command = Command::new(format!("{foreign}/java"));
    command.arg("--enable-native-access=ALL-UNNAMED");
    command.args(["-cp", &format!("{folder}/truechimer.jar:{folder}/tests")]);
    command.args([&format!("-Djava.library.path={foreign}"), class]);
    Some(command)
}

/// A program that answers.
struct Speaker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Speaker {
    fn new(language: Language) -> Option<Speaker> {
        let mut command = language.answering()?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Some(Speaker { child, to, from: BufReader::new(from) })
    }

    /// One that has the daemon's page open.
    fn of(language: Language, daemon: &Daemon) -> Option<Speaker> {
        let mut speaker = Speaker::new(language)?;
        assert_eq!(speaker.open(&daemon.path()), "ok");
        Some(speaker)
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.to, "{question}").unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn open(&mut self, path: &Path) -> String {
        self.ask(&format!("open {}", path.display()))
    }

    fn numbers(&mut self, question: &str) -> Vec<i128> {
        let line = self.ask(question);
        let parsed: Result<Vec<i128>, _> = line.split(' ').map(str::parse).collect();
        parsed.unwrap_or_else(|_| panic!("{question}: {line}"))
    }

    fn told(&mut self, question: &str) -> Told {
        Told::of(&self.numbers(question))
    }

    fn moment(&mut self) -> Moment {
        let words = self.numbers("count");
        Moment::from_words([words[0] as u64, words[1] as u64]).unwrap()
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reading as other languages tell it: Unix time in ns, rounded outwards.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Told {
    count: u64,
    earliest: i128,
    best: i128,
    latest: i128,
    bound: i128,
    status: i128,
    tai_offset: i128,
    flags: i128,
}

impl Told {
    fn of(numbers: &[i128]) -> Told {
        let [count, earliest, best, latest, bound, status, tai_offset, flags] = numbers else {
            panic!("no reading: {numbers:?}")
        };
        Told {
            count: *count as u64,
            earliest: *earliest,
            best: *best,
            latest: *latest,
            bound: *bound,
            status: *status,
            tai_offset: *tai_offset,
            flags: *flags,
        }
    }

    /// Words in which this reading should be told.
    fn expected(reading: &Reading) -> Told {
        let leaps = reading.leaps();
        let down = |at: Instant| leaps.utc(at).unix_nanos();
        let up = |at: Instant| {
            let utc = leaps.utc(at);
            let whole = utc.frac.wrapping_mul(NANOS as u64) == 0;
            utc.unix_nanos() + i128::from(!whole)
        };
        let (mut earliest, best, mut latest) =
            (down(reading.earliest), down(reading.best), up(reading.latest));
        // The end of the second that is shown twice, and its beginning.
        for leap in [leaps.last, leaps.next].into_iter().flatten().filter(|leap| leap.step > 0) {
            let begins = Instant::new(leap.at - 1, 0);
            if reading.earliest < begins && begins <= reading.latest {
                earliest = earliest.min(down(begins));
                latest = latest.max(down(begins) + NANOS - 1);
            }
        }
        let held = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into());
        if !reading.status.bound_holds() {
            (earliest, latest) = (i64::MIN.into(), i64::MAX.into());
        }
        let [earliest, best, latest] = [earliest, best, latest].map(held);
        let bound = match reading.status.bound_holds() {
            true => held((best - earliest).max(latest - best)),
            false => -1,
        };
        let utc = leaps.utc(reading.best);
        Told {
            count: reading.count.0,
            earliest,
            best,
            latest,
            bound,
            status: reading.status as i128,
            tai_offset: leaps.offset_at(reading.best).into(),
            flags: i128::from(leaps.known) | i128::from(utc.leap_second) << 1,
        }
    }
}

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Of any magnitude up to so many bits, either sign.
    fn signed(&mut self, bits: u64) -> i64 {
        let magnitude = (self.next() >> 1 >> (63 - self.below(bits + 1))) as i64;
        if self.below(2) == 0 { magnitude } else { -magnitude }
    }

    /// A hand like `plain`, with all else as it may be.
    fn hand(&mut self, plain: &Hand) -> Hand {
        let difference = plain.period.scaled(Rate::from_ppb(self.signed(18)));
        let period = difference.scaled(Rate::from_ppb(self.signed(22)));
        let seconds = match self.below(4) {
            0 => self.signed(39),
            _ => 1_790_000_000 + self.signed(30),
        };
        let time = Instant::new(seconds, self.next());
        let span = |numbers: &mut Numbers| {
            Span(i128::from(numbers.signed(63).unsigned_abs()) << numbers.below(30))
        };
        let (path_bound, statistical_bound) = (span(self), span(self));
        let whole = (path_bound + statistical_bound).0;
        let imbalance = match self.below(3) {
            0 => Span::ZERO,
            1 => Span(whole / 3),
            _ => Span(-whole / 2),
        };
        // Around now, as often as not.
        let leap = |numbers: &mut Numbers| {
            let step = [1, -1, 1][numbers.below(3) as usize];
            (numbers.below(2) == 0).then_some(Leap { at: seconds + numbers.signed(3), step })
        };
        let (last, next) = match self.below(3) {
            0 => (leap(self), None),
            1 => (None, leap(self)),
            _ => (None, None),
        };
        Hand {
            base: plain.base + CountSpan(self.signed(56)),
            time,
            period,
            difference,
            difference_error: Rate(self.signed(50).abs()),
            path_bound,
            statistical_bound,
            growth: Rate(self.signed(55).abs()),
            imbalance,
            status: if self.below(4) == 0 { Status::Holdover } else { Status::Synchronised },
            leaps: Leaps {
                tai_offset: self.signed(7) as i32,
                known: self.below(2) == 0,
                last,
                next,
            },
            ..*plain
        }
    }
}

fn as_words(moment: Moment) -> String {
    let [count, stretch] = moment.to_words();
    format!("{count} {stretch}")
}

/// The time of the count in a reading, by the client here.
fn again(clock: &Clock, told: &Told) -> Told {
    let mut moment = clock.moment().unwrap();
    moment.count.0 = told.count;
    Told::expected(&clock.time_of(moment).unwrap())
}

/// True if both are of the same time; on a machine that is held up for three seconds in between, the
/// later one is of a holdover.
fn same(told: &Told, other: &Told) -> bool {
    let watched =
        |one: &Told| Told { status: if one.status == 2 { 1 } else { one.status }, ..one.clone() };
    watched(told) == watched(other)
}

/// Does something while the daemon looks at the host as it should.
fn tended<T>(daemon: &mut Daemon, act: impl FnOnce() -> T) -> T {
    let beat = |daemon: &mut Daemon| {
        let count = truechimer_counter::host_reading(daemon.counter).count;
        daemon.writer().heartbeat(count);
    };
    // The hand may be old: building a speaker takes seconds. Not left to a thread that may start late.
    beat(daemon);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                beat(daemon);
                thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        act()
    })
}

fn the_same_count_is_the_same_time_to_the_nanosecond(language: Language) {
    for (choice, seed) in [(Choice::Auto, 7), (Choice::Raw, 8)] {
        let mut daemon = Daemon::new(choice);
        let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
        let (clock, mut numbers) = (daemon.clock(), Numbers(seed));
        for n in 0..500 {
            let mut made = None;
            let hand = {
                let (plain, now) = daemon.hand();
                let hand = numbers.hand(&plain);
                daemon.writer().publish(&hand, &now);
                made.replace(now);
                hand
            };
            let first = speaker.moment();
            for question in ["now", "now"] {
                let told = speaker.told(question);
                let here = again(&clock, &told);
                assert!(same(&told, &here), "hand {n}: {told:?}, {here:?}: {hand:?} {made:?}");
            }
            // Of the past, and before the hand was made.
            let mut then = first;
            then.count = then.count - CountSpan(numbers.signed(50).abs());
            let told = speaker.told(&format!("timeof {}", as_words(then)));
            let here = Told::expected(&clock.time_of(then).unwrap());
            assert!(same(&told, &here), "hand {n}: {told:?}, {here:?}: {hand:?}");
            // Rounded to the nearest; the step that the counter shows is known by no time at all.
            let step = speaker.numbers(&format!("elapsed {} {}", as_words(first), as_words(first)));
            assert_eq!(step[0], 0);
            for (from, to) in [(then, first), (first, then)] {
                let said = speaker.numbers(&format!("elapsed {} {}", as_words(from), as_words(to)));
                let (span, error) = hand.elapsed(to.count - from.count);
                assert_eq!(said[0], i128::from(span.as_nanos_i64()), "hand {n}: {hand:?}");
                let bound = i128::from(error.as_nanos_up()) + step[1];
                assert!((bound - said[1]).abs() <= 3, "hand {n}: {said:?}, not {bound}");
            }
        }
    }
}

fn a_clock_never_goes_back_where_it_must_not(language: Language) {
    let mut daemon = Daemon::synchronised();
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    let first = speaker.told("mono");
    daemon.publish(|hand, _| hand.time = hand.time - Span::from_secs(5));
    let (plain, second) = (speaker.told("now"), speaker.told("mono"));
    assert!(plain.best < first.best && second.best >= first.best - 1, "{first:?} {second:?}");
    assert!(second.earliest <= second.best && second.best <= second.latest);
    leap_seconds_are_waited_out(&mut daemon, &mut speaker);
    let up = [speaker.numbers("uptime"), speaker.numbers("uptime")];
    let host = truechimer_counter::host_reading(daemon.counter);
    let now = i128::from(host.monotonic_ns + host.suspended_ns);
    assert!(up[0][0] <= up[1][0] && up[1][0] <= now + up[1][1], "{up:?}, {now}");
    assert!(now - up[0][0] < 60 * NANOS && up[0][1] >= 0, "{up:?}, {now}");
}

/// Unix time shows 23:59:59 twice, and who asks for a time that never goes back sees it once.
fn leap_seconds_are_waited_out(daemon: &mut Daemon, speaker: &mut Speaker) {
    let mut at = |n: i64, begun: bool| {
        daemon.publish(|hand, _| {
            let leap = Leap { at: hand.time.secs() + 1000 * n, step: 1 };
            // Of the second before it half, or nothing of itself.
            hand.time = Instant::new(leap.at - 2 + i64::from(begun), u64::from(!begun) << 63);
            hand.leaps.next = Some(leap);
        });
        (speaker.told("mono"), speaker.told("now"))
    };
    // Time goes on meanwhile, on a busy machine past the moment that matters.
    let went_back = (1..100).any(|n| {
        let ((before, _), (within, shown)) = (at(n, false), at(n, true));
        assert!(within.best >= before.best, "{before:?} {within:?}");
        assert!(within.earliest <= within.best && within.best <= within.latest, "{within:?}");
        shown.best < before.best
    });
    assert!(went_back);
}

fn waits_end_when_they_should(language: Language) {
    let mut daemon = Daemon::synchronised();
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    tended(&mut daemon, || {
        let before = speaker.told("now");
        let after = speaker.told(&format!("after {} 60000", before.latest));
        assert!(after.earliest > before.latest, "{before:?} {after:?}");
        let late = speaker.ask(&format!("after {} 10", before.latest + 3600 * NANOS));
        assert!(late.starts_with("error waited ") && late.contains("synchronised"), "{late}");
        assert_eq!(speaker.told("synchronised 1000000 60000").status, 1);
        let narrow = speaker.ask("synchronised 1000 10");
        assert!(narrow.starts_with("error waited "), "{narrow}");
    });
    daemon.publish(|hand, _| hand.status = Status::Disrupted);
    assert!(speaker.ask("after 0 10").starts_with("error waited "));
}

/// Numbers of the sides, in questions.
const BEFORE: i128 = 0;
const LIKELY: i128 = 1;
const AFTER: i128 = 2;

fn a_wait_ends_on_the_side_of_its_time_that_was_asked_for(language: Language) {
    let mut daemon = Daemon::synchronised();
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    tended(&mut daemon, || {
        // Surely before, unless the thread is stopped at that moment, as it often is on a busy machine.
        let in_time = (0..1000).any(|_| {
            let time = speaker.told("now").latest + 5_000_000;
            let before = speaker.told(&format!("for {time} {BEFORE} 60000"));
            // No sooner than it has to.
            assert!(time - before.latest <= 1000, "{time}: {before:?}");
            before.latest < time
        });
        assert!(in_time);
        // In whole nanoseconds too, however often.
        for n in 0..200 {
            let time = speaker.told("now").latest + n * 1000;
            let best = speaker.told(&format!("for {time} {LIKELY} 60000"));
            assert!(best.best >= time, "{time}: {best:?}");
            let after = speaker.told(&format!("for {time} {AFTER} 60000"));
            assert!(after.earliest > time && after.best > best.best, "{time}: {after:?}");
            // It is over: nothing is waited for, and the reading says so.
            let late = speaker.told(&format!("for {time} {BEFORE} 60000"));
            assert!(late.latest >= time, "{time}: {late:?}");
        }
        let far = speaker.told("now").latest + 3600 * NANOS;
        for side in [BEFORE, LIKELY, AFTER] {
            let late = speaker.ask(&format!("for {far} {side} 10"));
            assert!(late.starts_with("error waited "), "{late}");
        }
    });
    // A leap second shows 23:59:59 twice: the later one is meant, which begins half a second from here.
    let now = daemon.publish(|hand, _| {
        let leap = Leap { at: hand.time.secs() + 1, step: 1 };
        hand.time = Instant::new(leap.at - 2, 1 << 63);
        hand.leaps.next = Some(leap);
    });
    let shown = now.leaps.utc(now.time).unix_nanos();
    let over = shown - NANOS / 10;
    let early = speaker.ask(&format!("for {over} {AFTER} 10"));
    assert!(early.starts_with("error waited "), "{early}");
    let whole = tended(&mut daemon, || speaker.told(&format!("for {over} {AFTER} 60000")));
    assert_eq!(whole.flags, 3, "not in the inserted second: {whole:?}");
}

fn a_timer_keeps_to_its_times_and_says_what_it_missed(language: Language) {
    let mut daemon = Daemon::synchronised();
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    let period = 2_000_003;
    let tick = |speaker: &mut Speaker| {
        let words = speaker.numbers("tick 60000");
        (words[0], words[1], Told::of(&words[2..]))
    };
    tended(&mut daemon, || {
        for side in [BEFORE, LIKELY, AFTER] {
            let mut due = speaker.told("now").latest;
            assert_eq!(speaker.ask(&format!("timer {due} {period} {side}")), "ok");
            for n in 0..20 {
                if n == 10 {
                    thread::sleep(std::time::Duration::from_millis(50));
                }
                let (time, missed, told) = tick(&mut speaker);
                assert_eq!(time, due + missed * period, "{side}: tick {n}");
                assert!(n != 10 || missed >= 20, "{side}: {missed} missed");
                // The last one that had come.
                let (end, lead) =
                    [(told.latest, 1000), (told.best, 0), (told.earliest, -1)][side as usize];
                let late = end - (time - lead);
                assert!((0..=period).contains(&late), "{side}: {time}, {told:?}");
                due = time + period;
            }
        }
        let far = speaker.told("now").latest + 3600 * NANOS;
        assert_eq!(speaker.ask(&format!("timer {far} {period} {AFTER}")), "ok");
        let late = speaker.ask("tick 10");
        assert!(late.starts_with("error waited "), "{late}");
    });
    // Through a leap second the times keep their distance, and are shown as Unix time shows them.
    let hand = daemon.publish(|hand, _| {
        let leap = Leap { at: hand.time.secs() + 1, step: 1 };
        hand.time = Instant::new(leap.at - 2, 1 << 63);
        hand.leaps.next = Some(leap);
    });
    tended(&mut daemon, || {
        let second = hand.leaps.utc(hand.time).unix;
        let first = i128::from(second) * NANOS;
        assert_eq!(speaker.ask(&format!("timer {first} {} {LIKELY}", NANOS / 4)), "ok");
        let mut times = Vec::new();
        while times.len() < 6 {
            let (time, missed, _) = tick(&mut speaker);
            times.extend((0..=missed).map(|_| time));
        }
        // The beginning of the inserted second, then every quarter, the last one after it.
        let quarters = [0, 1, 2, 3, 4, 5].map(|n| first + n * NANOS / 4);
        assert!(times.iter().zip(quarters).all(|(time, due)| *time >= due), "{times:?}");
        assert!(times.windows(2).all(|two| two[0] <= two[1]), "{times:?}");
    });
    daemon.publish(|hand, _| hand.status = Status::Disrupted);
    assert!(speaker.ask("tick 10").starts_with("error waited "));
}

fn a_dead_daemon_and_a_new_one(language: Language) {
    let mut daemon = Daemon::new(Choice::Auto);
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    let starting = speaker.ask("now");
    assert!(starting.starts_with("error the clock is not set yet"), "{starting}");
    daemon.publish(|_, _| ());
    assert_eq!(tended(&mut daemon, || speaker.ask("status")), "synchronised");
    // A clean end.
    daemon.writer = None;
    assert_eq!(speaker.ask("status"), "holdover");
    let told = speaker.told("now");
    assert!(same(&told, &again(&daemon.clock(), &told)), "{told:?}");
    // The next daemon goes on in the same file, perhaps by another counter.
    for choice in [Choice::Raw, Choice::Auto] {
        daemon.writer = Some(PageWriter::create(daemon.path()).unwrap());
        daemon.counter = Counter::open(choice).unwrap();
        daemon.period = nominal(daemon.counter).unwrap().period;
        daemon.publish(|hand, _| hand.counter.epoch = Epoch(9));
        let told = tended(&mut daemon, || speaker.told("now"));
        assert_eq!(told.status, 1, "{choice:?}");
        assert!(same(&told, &again(&daemon.clock(), &told)), "{told:?}");
        assert_eq!(
            (speaker.moment().kind, speaker.moment().epoch),
            (daemon.counter.kind(), Epoch(9))
        );
        daemon.writer = None;
    }
    // Killed: nobody looks any more.
    daemon.writer = Some(PageWriter::create(daemon.path()).unwrap());
    daemon.publish(|_, _| ());
    let silent = daemon.counter.read() - daemon.counts(Span::from_secs(4));
    daemon.writer().heartbeat(silent);
    assert_eq!(speaker.ask("status"), "holdover");
    let old = speaker.moment();
    daemon.publish(|hand, _| hand.void_after = hand.base);
    let void = speaker.told("now");
    assert_eq!((void.status, void.bound), (0, -1));
    assert_eq!((void.earliest, void.latest), (i64::MIN.into(), i64::MAX.into()));
    // Breaks, each by one of the host's clocks.
    daemon.publish(|_, made| made.suspended_ns -= 1_000_000_000);
    assert_eq!(speaker.ask("status"), "disrupted");
    let text = speaker.ask("count");
    assert!(text.starts_with("error the counter lost its continuity"), "{text}");
    daemon.publish(|_, made| made.raw_ns += 1_000_000_000);
    assert_eq!(speaker.ask("status"), "disrupted");
    daemon.publish(|hand, _| hand.counter.epoch = Epoch(44));
    let text = speaker.ask(&format!("timeof {}", as_words(old)));
    assert!(text.contains("epoch 1") && text.contains("epoch 44"), "{text}");
    let new = speaker.moment();
    for (from, to) in [(old, new), (new, old)] {
        let text = speaker.ask(&format!("elapsed {} {}", as_words(from), as_words(to)));
        assert!(text.contains("epoch 1") && text.contains("epoch 44"), "{text}");
    }
    daemon.publish(|hand, _| hand.counter.kind = CounterKind::Simulated);
    assert!(speaker.ask("now").contains("nothing to read"));
    daemon.publish(|hand, _| hand.counter.boot = BootId([7; 16]));
    assert!(speaker.ask("now").starts_with("error the clock is not set yet"));
}

/// Says that something is done, also where a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All hands are of one and the same clock, each from another base: so every reading lies on the line.
fn no_reading_mixes_two_hands(language: Language) {
    let mut daemon = Daemon::new(Choice::Auto);
    let (mut first, made) = daemon.hand();
    first.growth = Rate::ZERO;
    daemon.writer().publish(&first, &made);
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    let (path, done) = (daemon.path(), AtomicBool::new(false));
    let writer = Mutex::new(daemon.writer.take().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = writer.lock().unwrap();
            for n in 0..i64::MAX {
                let base =
                    first.base + CountSpan(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 30);
                let time = first.time_at(base);
                writer.publish(&Hand { base, time, ..first }, &made);
                writer.heartbeat(truechimer_counter::host_reading(daemon.counter).count);
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let _done = Done(&done);
        let bound = i128::from(first.bound().as_nanos_up());
        for _ in 0..20_000 {
            let told = speaker.told("now");
            let line = first.leaps.utc(first.time_at(truechimer::Count(told.count))).unix_nanos();
            assert!((told.best - line).abs() <= 1, "{told:?}: {line}");
            assert!((told.best - told.earliest - bound).abs() <= 1, "{told:?}");
            assert!((told.latest - told.best - bound).abs() <= 1, "{told:?}");
        }
    });
    assert!(Clock::open_at(path).is_ok());
}

/// The programs in this language in the README and in its own page, between the lines that begin and end each.
fn examples(language: &str) -> [String; 2] {
    ["README.md".to_owned(), format!("docs/use/{language}.md")].map(|page| {
        let text = fs::read_to_string(root().join(page)).unwrap();
        fenced(&text, language)
    })
}

/// The first program in this language in a page.
fn fenced(text: &str, language: &str) -> String {
    let (_, begun) = text.split_once(&format!("```{language}\n")).unwrap();
    begun.split_once("```").unwrap().0.to_owned()
}

/// A program says so, and shows no time, while the clock promises none.
fn shows_no_time(daemon: &mut Daemon, program: &mut Command) {
    daemon.publish(|hand, _| hand.status = Status::Unknown);
    let ended = tended(daemon, || program.output().unwrap());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{program:?}: {ended:?}");
    assert!(said.contains(": nothing is promised"), "{program:?}: {said}");
    daemon.publish(|_, _| ());
}

/// The README's lines in Rust are those of a program, which runs.
#[test]
fn the_example_in_rust_runs() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let shown = fenced(&text, "rust");
    let program = fs::read_to_string(root().join("clock/client/examples/readme.rs")).unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&program).contains(&words(&shown)),
        "clock/client/examples/readme.rs is not: {shown}"
    );
    let mut daemon = Daemon::synchronised();
    let own = env::current_exe().unwrap();
    let profile = own.parent().unwrap().parent().unwrap();
    let mut cargo = Command::new(root().join("scripts/again"));
    // With the features that all have together, so that the tests' build has it already.
    cargo.args(["build", "--quiet", "--workspace", "--example", "readme"]);
    cargo.arg("--target-dir").arg(profile.parent().unwrap());
    run(cargo.args((!profile.ends_with("debug")).then_some("--release")));
    let mut built = Command::new(profile.join("examples/readme"));
    let path = daemon.path();
    let said = tended(&mut daemon, || run(built.env("TRUECHIMER_PAGE", path)));
    assert!(said.contains(", synchronised\nthat took "), "{said}");
}

#[test]
fn the_example_in_go_runs() {
    let (mut daemon, Some(_)) = (Daemon::synchronised(), go()) else { return };
    let (folder, path) = (daemon.directory.clone(), daemon.path());
    let replaced = format!("truechimer={}", root().join("clock/go").display());
    let go = |arguments: &[&str]| {
        let mut command = go().unwrap();
        run(command.current_dir(&folder).env("CGO_ENABLED", "0").args(arguments))
    };
    go(&["mod", "init", "example"]);
    go(&["mod", "edit", "-require", "truechimer@v0.0.0", "-replace", &replaced]);
    for example in examples("go") {
        fs::write(folder.join("main.go"), example).unwrap();
        go(&["build", "-o", "example"]);
        let mut built = Command::new(folder.join("example"));
        let said = tended(&mut daemon, || run(built.env("TRUECHIMER_PAGE", &path)));
        shows_no_time(&mut daemon, &mut built);
        assert!(said.starts_with("2026-09-21 "), "{said}");
        assert!(said.contains(" synchronised within "), "{said}");
    }
}

#[test]
fn go_finds_nothing_wrong() {
    let Some(mut vet) = go() else { return };
    run(vet.env("CGO_ENABLED", "0").args(["vet", "./..."]));
    // The one other for which there is a file of its own with anything in it. To vet takes all that is imported, compiled for
    // that processor: of those that differ by a line or two the types are looked at.
    run(go().unwrap().env("GOARCH", "arm64").args(["vet", "."]));
    let types = env::current_exe().unwrap().with_file_name("types-in-go");
    run(go().unwrap().args(["build", "-o"]).arg(&types).arg("internal/types/main.go"));
    for other in ["riscv64", "s390x"] {
        let mut types = Command::new(&types);
        let said = run(types.current_dir(root().join("clock/go")).env("GOARCH", other));
        assert!(said.starts_with(&format!("{other}: ")), "{said}");
    }
    let format = run(Command::new("gofmt").args(["-l", "."]).current_dir(root().join("clock/go")));
    assert_eq!(format, "", "not formatted");
    // Its race detector takes a C compiler.
    let race = Command::new("gcc").arg("--version").output().is_ok_and(|o| o.status.success());
    if !race {
        lacks("SKIPPED", "Go's race detector: gcc is not installed");
    }
    let mut test = go().unwrap();
    test.env("CGO_ENABLED", if race { "1" } else { "0" }).args(["test", "-count=1"]);
    run(test.args(race.then_some("-race")).arg("./..."));
}

#[test]
fn java_finds_nothing_wrong() {
    for check in [java("Check"), java_foreign("Check")] {
        let (mut daemon, Some(mut check)) = (Daemon::synchronised(), check) else { return };
        let path = daemon.path();
        let said = tended(&mut daemon, || run(check.env("TRUECHIMER_PAGE", path)));
        assert_eq!(said, "all\n");
    }
}

#[test]
fn the_example_in_java_runs() {
    let mut daemon = Daemon::synchronised();
    let (folder, path) = (daemon.directory.clone(), daemon.path());
    for example in examples("java") {
        fs::write(folder.join("Example.java"), example).unwrap();
        for program in [java("Example.java"), java_foreign("Example.java")] {
            let Some(mut program) = program else { return };
            program.current_dir(&folder).env("TRUECHIMER_PAGE", &path);
            let said = tended(&mut daemon, || run(&mut program));
            shows_no_time(&mut daemon, &mut program);
            assert!(said.starts_with("2026-09-21T"), "{said}");
            assert!(said.contains(" SYNCHRONISED within "), "{said}");
        }
    }
}

#[test]
fn the_examples_in_node_run() {
    for (page, early) in [("README.md", "error -11"), ("docs/use/node.md", "is not set yet")] {
        let mut daemon = Daemon::new(Choice::Auto);
        let program = daemon.directory.join("example.js");
        let text = fs::read_to_string(root().join(page)).unwrap();
        fs::write(&program, fenced(&text, "js")).unwrap();
        let Some(mut example) = node(&program) else { return };
        example.env("TRUECHIMER_PAGE", daemon.path());
        let output = example.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(early), "{page}: {said}");
        let hand = daemon.publish(|_, _| ());
        let said = tended(&mut daemon, || run(&mut example));
        // Seconds and nanoseconds in turn, whatever stands between them.
        let words = said.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
        let words: Vec<i128> = words.map(|word| word.parse().unwrap()).collect();
        let times: Vec<i128> = words.chunks(2).map(|two| two[0] * NANOS + two[1]).collect();
        assert!(times.len() >= 2 && times.is_sorted(), "{page}: {said}");
        // Best is between the hand and a reading that comes later.
        let (best, now) = (times[times.len() - 2], daemon.clock().now().unwrap());
        let shown = |at: Instant| hand.leaps.utc(at).unix_nanos();
        assert!(shown(hand.time) < best && best < shown(now.latest), "{page}: {said}");
        shows_no_time(&mut daemon, &mut example);
    }
}

/// Cost of a reading, beside the languages' own clocks in the same run.
#[test]
#[ignore = "prints figures, by release builds: with --ignored --nocapture figures"]
fn figures() {
    let mut daemon = Daemon::synchronised();
    let path = daemon.path();
    let python = python().map(|python| {
        let mut command = Command::new(python);
        command.arg(root().join("clock/python/tests/bench.py"));
        command
    });
    let node = node(&root().join("clock/c/tests/node/bench.js"));
    for mut bench in [java("Bench"), java_foreign("Bench"), python, node].into_iter().flatten() {
        println!("{}", tended(&mut daemon, || run(bench.env("TRUECHIMER_PAGE", &path))));
    }
}

#[test]
fn python_finds_nothing_wrong() {
    let (mut daemon, Some(python)) = (Daemon::synchronised(), python()) else { return };
    let folder = root().join("clock/python");
    let mypy = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-m"]).args(arguments).current_dir(&folder);
        run(command.env("MYPY_CACHE_DIR", env::current_exe().unwrap().with_file_name("mypy-cache")))
    };
    mypy(&["mypy", "--strict", "tests"]);
    mypy(&["mypy.stubtest", "truechimer"]);
    let (path, program) = (daemon.path(), daemon.directory.join("example.py"));
    let of = |program: &Path| run(Command::new(&python).arg(program).env("TRUECHIMER_PAGE", &path));
    tended(&mut daemon, || of(&folder.join("tests/check.py")));
    for example in examples("python") {
        fs::write(&program, example).unwrap();
        let said = tended(&mut daemon, || of(&program));
        assert!(said.starts_with("2026-09-21 ") && said.contains(" SYNCHRONISED "), "{said}");
        let mut python = Command::new(&python);
        shows_no_time(&mut daemon, python.arg(&program).env("TRUECHIMER_PAGE", &path));
    }
}

use children::{a_child_reads_too_and_inherits_no_file, a_child_that_cannot_read_says_so};
use moved::a_marker_that_moves_ends_the_hand_at_once;
use page::{a_page_that_is_mended_is_read_on, what_is_no_page_is_an_error_that_names_the_mend};

macro_rules! tried {
    ($module:ident, $language:ident, [$($test:ident),* $(,)?]) => {
        mod $module {
            $(#[test]
            fn $test() {
                super::$test(super::Language::$language);
            })*
        }
    };
}

macro_rules! tried_in {
    ($module:ident, $language:ident) => {
        tried!(
            $module,
            $language,
            [
                the_same_count_is_the_same_time_to_the_nanosecond,
                a_clock_never_goes_back_where_it_must_not,
                waits_end_when_they_should,
                a_wait_ends_on_the_side_of_its_time_that_was_asked_for,
                a_timer_keeps_to_its_times_and_says_what_it_missed,
                a_dead_daemon_and_a_new_one,
                what_is_no_page_is_an_error_that_names_the_mend,
                no_reading_mixes_two_hands,
                a_marker_that_moves_ends_the_hand_at_once,
                a_page_that_is_mended_is_read_on,
                a_child_reads_too_and_inherits_no_file,
                a_child_that_cannot_read_says_so,
            ]
        );
    };
}

/// Otherwise `in_java` would try foreign functions once more, where the machine is of Java 22 or later.
#[test]
fn java_by_jni_goes_by_jni_on_new_machines_too() {
    let folder = env::var("TRUECHIMER_JAVA").unwrap_or_default();
    let foreign = format!("{folder}/foreign");
    if folder.is_empty() || !Path::new(&foreign).exists() {
        lacks("NOT TRIED", NO_JDK);
        return;
    }
    let mut command = by_jni(&format!("{foreign}/java"), &folder, &foreign, "Answer");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Its input ends, and it with that, should the library have what JNI looks for.
    writeln!(child.stdin.take().unwrap(), "open /nonexistent/clock").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("UnsatisfiedLinkError") && said.contains("truechimer.Native"), "{said}");
}

tried_in!(in_go, Go);
tried_in!(in_java, Java);
tried_in!(in_java_by_foreign_functions, JavaForeign);
tried_in!(in_node, Node);
tried_in!(in_python, Python);
