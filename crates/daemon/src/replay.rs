//! The replay log: every event that reached the engine and everything the engine decided, so that
//! every decision can be repeated, bit for bit.
//!
//! JSON lines; counts and times are integers in the units of `truechimer-time`.
//!
//! | line | content |
//! |---|---|
//! | the first | `{"truechimer-replay":2,"version":"…"}`: version of the format, of the program |
//! | the second | `{"start":…,"config":…}`: what the engine was started with |
//! | then, in order | `{"at":count,"event":…}`: something happened |
//! | | `{"hand":…}`: the engine published this |
//! | | `{"action":…}`: the engine wanted this done |
//!
//! A log repeats from its beginning only: what the engine has learnt by a later line is in all the
//! lines before it and in no start record. So it is not begun anew while the daemon runs; to rotate
//! it, move it away and restart the daemon. It grows by some 18 MB a day with one server at a poll of
//! 16 s.
//!
//! The log contains the seed of the daemon's random numbers. While that daemon runs, whoever can
//! read the log can forge replies to it: the file is readable by its owner only, and should stay
//! so until the daemon has ended.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use truechimer_engine::{Action, Config, Engine, Event, Start};
use truechimer_time::Count;
use truechimer_timehands::Hand;

/// The version of the format.
const FORMAT: u32 = 2;
/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 4 << 20;
/// Only the owner may read: the seed is in it.
const MODE: u32 = 0o600;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(rename = "truechimer-replay")]
    format: u32,
    version: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beginning {
    start: Start,
    config: Config,
}

#[derive(Serialize)]
struct EventLine<'a> {
    at: Count,
    event: &'a Event,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Decided<'a> {
    Hand(&'a Hand),
    Action(&'a Action),
}

/// Any line but the first two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at: Option<Count>,
    event: Option<Event>,
    hand: Option<Hand>,
    action: Option<Action>,
}

/// A log that is being written. Once writing has failed it is as if there were none.
#[derive(Debug)]
pub(crate) struct Log<W: Write = File> {
    out: Option<BufWriter<W>>,
    trouble: Option<io::Error>,
}

impl Log {
    /// Begins a log at `path`. A log that is there already is kept beside it, with `.old` after its
    /// name: it may tell why the daemon had to be started again.
    pub(crate) fn create(path: &Path, start: &Start, config: &Config) -> io::Result<Log> {
        if fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0) {
            let mut old = path.as_os_str().to_owned();
            old.push(".old");
            fs::rename(path, old)?;
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path)?;
        // It may have been there before, with another mode. Devices keep theirs.
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(MODE))?;
        }
        Log::begin(file, start, config)
    }
}

impl<W: Write> Log<W> {
    fn begin(out: W, start: &Start, config: &Config) -> io::Result<Log<W>> {
        let mut log = Log { out: Some(BufWriter::new(out)), trouble: None };
        log.line(&Header { format: FORMAT, version: crate::VERSION.into() });
        log.line(&Beginning { start: start.clone(), config: config.clone() });
        log.flush();
        log.trouble.take().map_or(Ok(log), Err)
    }

    /// Something happened.
    pub(crate) fn event(&mut self, at: Count, event: &Event) {
        self.line(&EventLine { at, event });
    }

    /// The engine decided.
    pub(crate) fn action(&mut self, action: &Action) {
        self.line(&match action {
            Action::Publish(hand) => Decided::Hand(hand),
            other => Decided::Action(other),
        });
    }

    /// Hands everything to the system.
    pub(crate) fn flush(&mut self) {
        if let Some(Err(error)) = self.out.as_mut().map(Write::flush) {
            self.fail(error);
        }
    }

    /// Why there is no log any more, once.
    pub(crate) fn trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }

    fn line(&mut self, line: &impl Serialize) {
        let Some(out) = &mut self.out else { return };
        let written = serde_json::to_writer(&mut *out, line)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"));
        if let Err(error) = written {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.trouble = Some(error);
        if let Some(out) = self.out.take() {
            // What is still in the buffer would only fail again.
            drop(out.into_parts());
        }
    }
}

/// What a log holds, once all of it has been found right.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// The version of the program that wrote it.
    pub version: String,
    /// Events in it.
    pub events: u64,
    /// Hands published.
    pub hands: u64,
    /// All that the engine wanted done, hands included.
    pub actions: u64,
    /// Whether it breaks off in the middle, as when the daemon was killed. All before is right.
    pub truncated: bool,
}

/// Why a log could not be repeated.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is not a replay log, or not of this version of the format.
    NotALog(String),
    /// A line is not as it should be.
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The engine decided otherwise.
    Differs {
        /// The number of the first line that differs, from 1.
        line: u64,
        /// What the log has there.
        logged: String,
        /// What the engine decided now.
        decided: String,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Unreadable(why) => write!(f, "cannot be read: {why}"),
            ReplayError::NotALog(why) => {
                write!(f, "not a replay log that this version can read: {why}")
            }
            ReplayError::Line { line, why } => write!(f, "line {line}: {why}"),
            ReplayError::Differs { line, logged, decided } => {
                write!(f, "line {line} differs:\n  logged:  {logged}\n  decided: {decided}")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// Repeats every decision of a daemon from its log.
///
/// # Errors
/// If the log cannot be read, or at the first decision that is not the same to the last bit.
pub fn verify(reader: impl BufRead) -> Result<Summary, ReplayError> {
    let mut lines = Lines { reader, number: 0, truncated: false };
    let header: Header = lines
        .next()?
        .ok_or_else(|| ReplayError::NotALog("it is empty".into()))
        .and_then(|text| parse(&text).map_err(ReplayError::NotALog))?;
    if header.format != FORMAT {
        let why = format!("its format is {}, known is {FORMAT}", header.format);
        return Err(ReplayError::NotALog(why));
    }
    let mut summary =
        Summary { version: header.version, events: 0, hands: 0, actions: 0, truncated: false };
    let Some(text) = lines.next()? else { return Ok(Summary { truncated: true, ..summary }) };
    let Beginning { start, config } = parse(&text).map_err(|why| lines.error(why))?;
    let (mut engine, actions) = Engine::new(config, start);
    let mut decided = VecDeque::from(actions);
    while let Some(text) = lines.next()? {
        let logged = match parse(&text).map_err(|why| lines.error(why))? {
            Line { at: Some(at), event: Some(event), hand: None, action: None } => {
                if let Some(action) = decided.pop_front() {
                    return Err(lines.differs("nothing more".into(), &action));
                }
                summary.events += 1;
                decided.extend(engine.handle(at, event));
                continue;
            }
            Line { at: None, event: None, hand: Some(hand), action: None } => {
                summary.hands += 1;
                Action::Publish(hand)
            }
            Line { at: None, event: None, hand: None, action: Some(action) } => action,
            _ => return Err(lines.error("neither an event nor a decision".into())),
        };
        summary.actions += 1;
        match decided.pop_front() {
            Some(action) if action == logged => {}
            Some(action) => return Err(lines.differs(format!("{logged:?}"), &action)),
            None => {
                let (line, decided) = (lines.number, "nothing".into());
                return Err(ReplayError::Differs { line, logged: format!("{logged:?}"), decided });
            }
        }
    }
    summary.truncated = lines.truncated || !decided.is_empty();
    Ok(summary)
}

/// The complete lines of a log.
struct Lines<R> {
    reader: R,
    /// Of the line that was read last, from 1.
    number: u64,
    /// The last line has no end.
    truncated: bool,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<String>, ReplayError> {
        let mut text = String::new();
        let read = self.reader.by_ref().take(MAX_LINE).read_line(&mut text);
        match read {
            // A line cut in the middle of a character, too, was cut.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                return Err(ReplayError::Unreadable(error));
            }
            Err(error) => {
                self.number += 1;
                return Err(self.error(error.to_string()));
            }
            Ok(0) => return Ok(None),
            Ok(_) => self.number += 1,
        }
        if !text.ends_with('\n') {
            if text.len() as u64 >= MAX_LINE {
                return Err(self.error("too long".into()));
            }
            self.truncated = true;
            return Ok(None);
        }
        Ok(Some(text))
    }

    fn error(&self, why: String) -> ReplayError {
        ReplayError::Line { line: self.number, why }
    }

    fn differs(&self, logged: String, decided: &Action) -> ReplayError {
        ReplayError::Differs { line: self.number, logged, decided: format!("{decided:?}") }
    }
}

fn parse<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;
    use truechimer_engine::{HostCheck, SourceConfig, SourceId};
    use truechimer_ntp::server::{ServerState, respond};
    use truechimer_ntp::{LeapIndicator, Log2, RefId, Short, Timestamp};
    use truechimer_time::{
        BootId, CountSpan, CounterId, CounterKind, Epoch, Leaps, Period, Rate, Stamp, StampMethod,
    };

    const SECOND: u64 = 1_000_000_000;

    fn start() -> Start {
        Start {
            at: Count(5 * SECOND),
            counter: CounterId {
                kind: CounterKind::Simulated,
                boot: BootId([3; 16]),
                epoch: Epoch(1),
            },
            nominal: Period::NANOSECOND,
            nominal_error: Rate::from_ppb(500_000),
            resolution: CountSpan(1),
            seed: [9; 32],
            leaps: Leaps::default(),
            warm: None,
            saved: None,
        }
    }

    fn server_time(count: u64) -> Timestamp {
        let frac = ((u128::from(count % SECOND) << 64) / u128::from(SECOND)) as u64;
        Timestamp::from_unix(1_800_000_000 + (count / SECOND) as i64, frac)
    }

    /// An engine, its log, and what it wants done.
    struct Bench {
        engine: Engine,
        log: Log<Vec<u8>>,
        wanted: VecDeque<Action>,
    }

    impl Bench {
        fn new(config: Config) -> Bench {
            let log = Log::begin(Vec::new(), &start(), &config).unwrap();
            let (engine, actions) = Engine::new(config, start());
            let mut bench = Bench { engine, log, wanted: VecDeque::new() };
            bench.want(actions);
            bench
        }

        fn feed(&mut self, now: u64, event: Event) {
            self.log.event(Count(now), &event);
            let actions = self.engine.handle(Count(now), event);
            self.want(actions);
        }

        fn want(&mut self, actions: Vec<Action>) {
            actions.iter().for_each(|action| self.log.action(action));
            self.wanted.extend(actions);
        }
    }

    /// The answer of a server 0.2 ms away, at count `back`.
    fn reply(source: SourceId, to: SocketAddr, packet: &[u8], sent: u64, back: u64) -> Event {
        let state = ServerState {
            leap: LeapIndicator::None,
            stratum: 1,
            precision: Log2(-24),
            root_delay: Short(0),
            root_dispersion: Short(1),
            reference_id: RefId(*b"GPS\0"),
            reference_timestamp: Timestamp::UNKNOWN,
        };
        let stamp = |count| Stamp {
            count: Count(count),
            error: CountSpan(20),
            method: StampMethod::Kernel,
        };
        let (there, left) = (server_time(sent + 200_000), server_time(back - 200_000));
        let packet = respond(packet, there, left, &state).unwrap().to_vec();
        Event::Reply { source, from: to, sent: stamp(sent), received: stamp(back), packet }
    }

    /// The log of a daemon that follows a server for half a minute, in virtual time.
    fn log() -> String {
        let config = Config { sources: vec![SourceConfig::new("192.0.2.1")], ..Config::default() };
        let mut bench = Bench::new(config);
        let mut now = start().at.0;
        while now < 35 * SECOND {
            match bench.wanted.pop_front() {
                Some(Action::Resolve { source, port, .. }) => {
                    let result = Ok(vec![([192, 0, 2, 1], port).into()]);
                    bench.feed(now, Event::Resolved { source, result });
                }
                Some(Action::Send { source, to, packet }) => {
                    let back = now + 400_000 + now % 7_000;
                    bench.feed(back + 30_000, reply(source, to, &packet, now, back));
                    now = back + 30_000;
                }
                Some(_) => {}
                None => {
                    now = bench.engine.next_deadline().unwrap().0.max(now + 1);
                    let raw_ns = now as i64;
                    let (count, width) = (Count(now), CountSpan(300));
                    let check = HostCheck { count, raw_ns, suspended_ns: 0, width };
                    bench.feed(now, Event::Check(check));
                    bench.feed(now, Event::Timer);
                }
            }
        }
        bench.log.flush();
        String::from_utf8(bench.log.out.unwrap().into_inner().unwrap()).unwrap()
    }

    #[test]
    fn every_decision_is_repeated() {
        let summary = verify(log().as_bytes()).unwrap();
        assert_eq!((summary.version.as_str(), summary.truncated), (crate::VERSION, false));
        assert!(summary.hands > 8 && summary.actions > 2 * summary.hands, "{summary:?}");
        assert!(summary.events > 20, "{summary:?}");
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        let log = log();
        let hand = log
            .lines()
            .position(|line| line.starts_with("{\"hand\":") && line.contains("synchronised"));
        let hand = hand.unwrap();
        let altered: Vec<String> = log
            .lines()
            .enumerate()
            .map(|(i, line)| {
                if i == hand {
                    line.replacen("\"base\":", "\"base\":1", 1)
                } else {
                    line.to_owned()
                }
            })
            .collect();
        let error = verify((altered.join("\n") + "\n").as_bytes()).unwrap_err();
        assert!(
            matches!(&error, ReplayError::Differs { line, .. } if *line == hand as u64 + 1),
            "{error}"
        );
        // One decision fewer, one more.
        let without: Vec<&str> =
            log.lines().enumerate().filter(|(i, _)| *i != hand).map(|(_, line)| line).collect();
        assert!(matches!(
            verify((without.join("\n") + "\n").as_bytes()),
            Err(ReplayError::Differs { .. })
        ));
        let last_hand = log.lines().rfind(|line| line.starts_with("{\"hand\":")).unwrap();
        let more = format!("{log}{last_hand}\n{last_hand}\n");
        assert!(matches!(verify(more.as_bytes()), Err(ReplayError::Differs { .. })));
    }

    #[test]
    fn a_log_may_break_off_anywhere_after_its_first_line() {
        let log = log();
        let first = log.find('\n').unwrap() + 1;
        for end in (first..log.len()).step_by(997).chain([first, log.len() - 1]) {
            let summary = verify(log.get(..end).unwrap().as_bytes()).unwrap();
            assert!(summary.truncated || log.as_bytes()[end - 1] == b'\n', "{end}");
        }
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let log = log();
        let with = |line: &str| format!("{log}{line}\n");
        for (text, part) in [
            (String::new(), "it is empty"),
            ("{}\n".into(), "missing field"),
            ("{\"truechimer-replay\":1,\"version\":\"9\"}\n".into(), "its format is 1, known is 2"),
            (with("{}"), "neither an event nor a decision"),
            (with("x"), "expected value"),
            (with("{\"at\":1}"), "neither an event nor a decision"),
            (with("{\"extra\":1}"), "unknown field `extra`"),
        ] {
            let error = verify(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let abnormal = log.replace(&start().nominal.mantissa().to_string(), "5");
        assert!(verify(abnormal.as_bytes()).unwrap_err().to_string().contains("mantissa"));
        assert!(verify(&b"\xff\xfe\n"[..]).is_err());
    }

    #[test]
    fn an_older_log_is_kept() {
        let dir = std::env::temp_dir().join(format!("truechimer-replay-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("log");
        let config = Config::default();
        drop(Log::create(&path, &start(), &config).unwrap());
        let first = std::fs::read(&path).unwrap();
        drop(Log::create(&path, &Start { at: Count(77), ..start() }, &config).unwrap());
        assert_eq!(std::fs::read(dir.join("log.old")).unwrap(), first);
        assert_ne!(std::fs::read(&path).unwrap(), first);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_disk_that_fills_up_ends_the_log_and_nothing_else() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(Log::begin(Full(100), &start(), &Config::default()).is_err());
        let mut log = Log::begin(Full(2_000), &start(), &Config::default()).unwrap();
        for _ in 0..100 {
            log.event(Count(1), &Event::Timer);
            log.flush();
        }
        assert_eq!(log.trouble().unwrap().kind(), io::ErrorKind::StorageFull);
        assert!(log.trouble().is_none());
        assert!(Log::create(Path::new("/dev/full"), &start(), &Config::default()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_line_panics(line in "\\{\"(at|event|hand|action)\":(-?[0-9]{1,20}|\"timer\"|\\{.{0,30}\\})\\}|.{0,60}") {
            let log = format!(
                "{}\n{}\n{line}\n",
                serde_json::to_string(&Header { format: FORMAT, version: "0".into() }).unwrap(),
                serde_json::to_string(&Beginning { start: start(), config: Config::default() }).unwrap(),
            );
            let _ = verify(log.as_bytes());
        }
    }
}
