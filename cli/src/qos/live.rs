//! Packets from interfaces, as they come.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use truechimer_capture::convert::{self, Change, Converter, Search};
use truechimer_capture::filter::Filter;
use truechimer_capture::packet::{self, PacketOptions, PacketTap};
use truechimer_capture::pipeline::{self, End, Progress, Summary};
use truechimer_capture::sink::{Mark, Sink, SinkError, Written, bound_ns};
use truechimer_capture::{Direction, Losses, Packet, Stamped, Tap};
use truechimer_counter::Counter;
use truechimer_qos::{At, Counted, Engine, Note, Observation, Report, Severity};

use super::files::{NOT_TOLD, hosts};
use super::peer::{self, Peer};
use super::{Found, Qos, files, layered, screen};
use truechimer_command::Failure;
use truechimer_command::report::host;
use truechimer_command::{show, signals};

/// So much of each packet is looked at, in bytes.
const SNAP_LENGTH: u32 = 256;
/// Rows of the table that is shown while it goes on.
const ROWS: usize = 12;

fn said(why: impl std::fmt::Display) -> Failure {
    Failure::Said(why.to_string())
}

/// The engine, whoever has it meanwhile.
pub fn lock(engine: &Mutex<Engine>) -> MutexGuard<'_, Engine> {
    // Whoever failed with it in hand has left whole packets behind.
    engine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Feeds the engine.
struct Feed {
    engine: Arc<Mutex<Engine>>,
    point: usize,
    link_type: u16,
    clock_known: bool,
    written: Written,
    tagged: Vec<u8>,
}

/// Where a VLAN tag belongs.
const TAG_AT: usize = 12;

impl Sink for Feed {
    fn packet(&mut self, packet: &Packet<'_>, stamped: &Stamped) -> Result<bool, SinkError> {
        let mut data = packet.data;
        let mut length = packet.length;
        if let (Some(tag), Some((front, rest))) = (&packet.tag, data.split_at_checked(TAG_AT)) {
            self.tagged.clear();
            self.tagged.extend_from_slice(front);
            self.tagged.extend_from_slice(tag);
            self.tagged.extend_from_slice(rest);
            data = &self.tagged;
            length = length.saturating_add(4);
        }
        let leap_free = stamped.instant.and_then(|i| i64::try_from(i.as_nanos()).ok());
        lock(&self.engine).observe(&Observation {
            point: self.point,
            at: At {
                unix_ns: stamped.unix_ns,
                leap_free_ns: leap_free,
                bound_ns: stamped.bound.and_then(bound_ns).map(u64::from),
            },
            counted: stamped.counted.map(|counted| Counted {
                count: counted.count,
                error: counted.error,
                epoch: counted.epoch,
            }),
            link_type: self.link_type,
            data,
            length,
            direction: match packet.direction {
                Direction::In => truechimer_qos::Direction::In,
                Direction::Out => truechimer_qos::Direction::Out,
                Direction::Unknown => truechimer_qos::Direction::Unknown,
            },
        });
        self.written.packets += 1;
        Ok(true)
    }

    fn change(&mut self, change: &Change) -> Result<(), SinkError> {
        if change.hand.is_some() || !self.clock_known {
            self.clock_known = true;
            lock(&self.engine).set_clock(self.point, Some(files::clock(change)));
        }
        Ok(())
    }

    fn mark(&mut self, _mark: Mark) -> Result<(), SinkError> {
        Ok(())
    }

    fn losses(&mut self, _losses: &Losses, _dropped: u64) {}

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn written(&self) -> &Written {
        &self.written
    }

    fn finish(&mut self) -> Result<Written, SinkError> {
        Ok(self.written.clone())
    }
}

/// Watches the interfaces until it is enough.
pub fn watch(args: &Qos, out: &mut dyn Write) -> Result<Found, Failure> {
    let stop = signals::finish()?;
    let search = args.page.page.clone().map_or(Search::Usual, Search::At);
    let mut names = args.interface.clone();
    names.extend(args.peer.iter().map(|_| peer::NAME.to_owned()));
    let (points, local) = (names.len(), args.interface.len());
    let engine = Arc::new(Mutex::new(Engine::new(args.options(points))));
    let mut runs = Vec::new();
    let mut counters = Vec::new();
    for (point, interface) in args.interface.iter().enumerate() {
        let clock = convert::clock(&search).map_err(said)?;
        let counter = convert::choose(clock.as_ref()).map_err(said)?;
        counters.push(counter);
        // Before the first packet comes, which has no count without a pair of before it.
        let converter = Converter::new(counter, clock).map_err(said)?.looking(search.clone());
        let tap = open(interface, args.filter.as_deref(), counter)?;
        let sink = Feed {
            engine: Arc::clone(&engine),
            point,
            link_type: tap.facts().link_type,
            clock_known: false,
            written: Written::default(),
            tagged: Vec::new(),
        };
        runs.push((tap, converter, sink));
    }
    // One host has one counter, unless the clock has just changed it.
    let one = counters.windows(2).all(|both| matches!(both, [a, b] if a == b));
    lock(&engine).set_one_counter(one && points == local);
    let watched = args.layers.then(|| layered::Watch::open(args)).transpose()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
    // A peer is known to watch from its first packet to its last, no longer.
    for point in 0..local {
        lock(&engine).watches(point, now, i64::MAX);
    }
    let options = pipeline::Options {
        duration: args.duration.map(|span| Duration::from_nanos(super::nanos(span).max(0) as u64)),
        ..pipeline::Options::default()
    };
    let progress: Vec<Progress> = runs.iter().map(|_| Progress::default()).collect();
    let (done, finished) = mpsc::channel();
    let mut layered = None;
    let (mut peer, output) = args.peer.as_deref().map(Peer::start).transpose()?.unzip();
    let early = AtomicBool::new(false);
    let (mut notes, mut theirs) = (Vec::new(), None);
    let summaries = std::thread::scope(|scope| -> Result<Vec<Summary>, Failure> {
        let mut threads = Vec::new();
        for ((tap, converter, sink), progress) in runs.into_iter().zip(&progress) {
            let (done, stop, options) = (done.clone(), &stop, &options);
            let thread = std::thread::Builder::new().name("capture".into());
            let thread = thread.spawn_scoped(scope, move || {
                let sink = Box::new(sink);
                let summary = pipeline::run(tap, None, converter, sink, options, stop, progress);
                let _ = done.send(());
                summary
            });
            threads.push(thread.map_err(|why| {
                stop.store(true, Ordering::Relaxed);
                Failure::new("cannot start a thread", why)
            })?);
        }
        drop(done);
        let streamed = args.peer.as_deref().zip(output).map(|(command, output)| {
            let stream = peer::Stream {
                engine: &engine,
                filter: args.filter.clone(),
                clock: convert::clock(&search).map_err(said)?,
                timeout_ns: super::nanos(args.timeout),
                stop: &stop,
                early: &early,
            };
            let thread = std::thread::Builder::new().name("peer".into());
            thread.spawn_scoped(scope, move || stream.follow(output, command)).map_err(|why| {
                stop.store(true, Ordering::Relaxed);
                Failure::new("cannot start a thread", why)
            })
        });
        let streamed = streamed.transpose()?;
        let mut shown = Shown { args, out, engine: &engine, names: &names, left: local };
        let ended = shown.until(&finished, watched, &stop);
        stop.store(true, Ordering::Relaxed);
        let summaries: Result<Vec<_>, _> = threads.into_iter().map(|t| t.join()).collect();
        if let (Some(peer), Some(streamed)) = (&mut peer, streamed) {
            let streamed = streamed
                .join()
                .map_err(|_| Failure::Said("the thread of --peer has failed".into()))?;
            let early = early.load(Ordering::SeqCst);
            let how = peer.end(early);
            notes.extend(early.then(|| peer::early(peer, how.as_deref())));
            let told = streamed.map_err(|why| peer::ended_so(why, how))?;
            notes.extend(told.notes);
            theirs = Some(told.host);
        }
        layered = ended?;
        summaries.map_err(|_| Failure::Said("a capture thread has failed".into()))
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
    let (layers, said) = layered.unzip();
    notes.extend(said.into_iter().flatten());
    for summary in &summaries {
        notes.extend(losses(summary));
        match &summary.end {
            End::Tap(_) | End::Sink(_) | End::Fault(_) => {
                return Err(Failure::Said(summary.end.to_string()));
            }
            End::Gone => notes.push(Note {
                severity: Severity::Warning,
                text: format!("{}: the interface has vanished", summary.facts.interface),
            }),
            _ => {}
        }
    }
    let engine = Arc::try_unwrap(engine)
        .map_err(|_| Failure::Said("the capture threads did not end".into()))?;
    let mut engine = engine.into_inner().unwrap_or_else(PoisonError::into_inner);
    for point in 0..local {
        let from = engine.points().get(point).and_then(|p| p.span).map_or(now, |(from, _)| from);
        engine.watches(point, from, now);
    }
    engine.finish();
    let ours = Some(host()).filter(|host| !host.is_empty());
    let ours = (names.first().map_or("", String::as_str), ours.unwrap_or_else(|| NOT_TOLD.into()));
    let hosts = hosts(std::iter::once(ours).chain(theirs.map(|host| (peer::NAME, host))).collect());
    Ok(Found { engine, names, notes, layers, hosts })
}

fn open(interface: &str, filter: Option<&str>, _counter: Counter) -> Result<Box<dyn Tap>, Failure> {
    let mut options = PacketOptions::new(interface);
    options.snap_length = SNAP_LENGTH;
    if let Some(text) = filter {
        let link_type = packet::link_type(interface).map_err(said)?;
        let filter = Filter::compile(text, Some(interface), link_type, SNAP_LENGTH);
        options.filter = Some(filter.map_err(said)?);
    }
    Ok(Box::new(PacketTap::open(&options).map_err(said)?))
}

/// Note of losses.
fn losses(summary: &Summary) -> Option<Note> {
    let live = &summary.live;
    let truechimer_capture::Losses { ring, kernel, interface, .. } = live.losses;
    let lost = ring + kernel + interface + live.dropped;
    (lost > 0).then(|| Note {
        severity: Severity::Warning,
        text: format!(
            "{}: up to {lost} passed that were not seen (up to {interface} before the capture, ring \
             full {ring}, kernel {kernel}, conversion {}): they look as if they were lost on the way",
            summary.facts.interface, live.dropped
        ),
    })
}

struct Shown<'a> {
    args: &'a Qos,
    out: &'a mut dyn Write,
    engine: &'a Mutex<Engine>,
    names: &'a [String],
    left: usize,
}

impl Shown<'_> {
    /// Shows how it goes until all have finished.
    fn until(
        &mut self,
        finished: &mpsc::Receiver<()>,
        mut watch: Option<layered::Watch>,
        stop: &AtomicBool,
    ) -> Result<Option<(truechimer_qos::LayersReport, Vec<Note>)>, Failure> {
        let every = Duration::from_nanos(super::nanos(self.args.interval).max(100_000_000) as u64);
        let mut next = std::time::Instant::now() + every;
        while self.left > 0 {
            let wait = next.saturating_duration_since(std::time::Instant::now());
            let waited = match &mut watch {
                // The layers' records are read here, so that waiting is for them.
                Some(watch) => {
                    watch.look(wait.min(Duration::from_millis(50)))?;
                    finished.try_recv().map_err(|why| match why {
                        mpsc::TryRecvError::Empty => RecvTimeoutError::Timeout,
                        mpsc::TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                    })
                }
                None => finished.recv_timeout(wait),
            };
            match waited {
                Ok(()) => self.left -= 1,
                Err(RecvTimeoutError::Disconnected) => self.left = 0,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if std::time::Instant::now() >= next && self.left > 0 {
                next += every;
                if !stop.load(Ordering::Relaxed) {
                    self.show(watch.as_ref())?;
                }
            }
        }
        watch.map(layered::Watch::finish).transpose()
    }

    fn show(&mut self, watch: Option<&layered::Watch>) -> Result<(), Failure> {
        if self.args.csv {
            return Ok(());
        }
        let terminal = io::stdout().is_terminal();
        if !self.args.json && !terminal {
            return self.state();
        }
        let mut report = Report::of(&lock(self.engine), self.names);
        report.layers = watch.map(layered::Watch::report);
        let most = if self.args.json { usize::MAX } else { ROWS };
        let more = self.args.choose(&mut report, most);
        if self.args.json {
            writeln!(self.out, "{}", show::json(&report)?)?;
        } else {
            // Losses of the last seconds are still open, notes come at the end.
            report.notes.retain(|note| note.severity > Severity::Note);
            let mut screen = Vec::new();
            screen::report(&report, more, false, &mut screen)?;
            write!(self.out, "\x1b[H\x1b[J")?;
            self.out.write_all(&screen)?;
        }
        self.out.flush()?;
        Ok(())
    }

    /// One line.
    fn state(&mut self) -> Result<(), Failure> {
        let engine = lock(self.engine);
        let packets: Vec<String> =
            engine.points().iter().map(|point| point.packets.to_string()).collect();
        let flows = engine.flows_made();
        let totals = (engine.points().len() == 2).then(|| engine.totals());
        drop(engine);
        let mut line = format!("{} packets, {flows} flows", packets.join(" + "));
        for (arrow, way) in ["1 > 2", "2 > 1"].iter().zip(totals.iter().flat_map(|t| &t.ways)) {
            if way.flows > 0 {
                let median = screen::span(way.delays.quantile(0.5));
                let worst = (way.bounds.unbounded == 0).then_some(way.bounds.greatest);
                let worst = screen::bound(worst);
                line += &format!("; {arrow} {median} {worst}, lost {}", way.lost);
            }
        }
        // Standard output is for what comes of it.
        let _ = writeln!(io::stderr(), "{}", line.replace('\u{a0}', " "));
        Ok(())
    }
}
