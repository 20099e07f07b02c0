//! `truechimer-lab bench read`: what reading the clock costs.

use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Instant as HostInstant, SystemTime};
use truechimer_command::clock::Page;

use serde::Serialize;
use truechimer::{Clock, Hand, Instant, Made, Rate, Span, Status};
use truechimer_counter::{Choice, Counter, boot_id, host_reading, nominal};
use truechimer_outcome::interval::Interval;
use truechimer_outcome::stats::median;
use truechimer_outcome::verdict::{Control, Verdict};
use truechimer_time::{CounterId, CounterKind, Epoch};
use truechimer_timehands::{Marker, PageWriter};

use truechimer_command::clock;
use truechimer_command::scratch::Scratch;
use truechimer_command::show::json;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

/// Calls of one kind in a row.
const CALLS: u32 = 500;
/// Number of turns of each kind: one after the other, so that whatever else the machine does hits
/// all alike.
const ROUNDS: usize = 4000;
/// Limit of the clock's cost beyond reading the counter, ns.
const LIMIT: f64 = 5.0;
/// Limit of what it costs to hear the hypervisor, ns.
const HEARD_LIMIT: f64 = 1.0;
/// Reading the counter costs as much as reading it again, to this.
const EVEN: f64 = 0.1;

/// Options of `truechimer-lab bench read`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Compares reading the clock, with its bound and status, to reading the bare counter and to the
system's own clocks (CLOCK_REALTIME by way of std's SystemTime). Each figure is the median of many
batches, taken in turn. If no daemon tends a clock page, one is made for the occasion.

The goal: now costs at most 5 ns more than an unfenced read of the counter, and no more than
clock_gettime(CLOCK_REALTIME), on one thread; and where the hypervisor has a vmclock, at most 1 ns
more than without, which a made-up one shows. For the counter raw, which is the system's own raw
clock, there is none. It is judged by intervals that hold the true medians with 95 %, and not at all
where reading the bare counter costs another time in the same round, which is the control.

Exit status: 0 no goal was missed, 1 one was, 2 error.")]
pub struct ReadArgs {
    /// Number of threads that read at once; several numbers are measured one after the other
    #[arg(long, value_name = "N,...", default_value = "1,2", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
}

/// Call that is measured.
#[derive(Clone, Copy)]
enum Call {
    Now,
    /// Likewise, by a page and a device of our own: what hearing the hypervisor costs.
    Heard,
    /// By the same page, without the device.
    Deaf,
    Unfenced,
    Fenced,
    Realtime,
    MonotonicRaw,
    /// The control: what is the same costs the same.
    Again,
}

const ALL: [Call; 8] = [
    Call::Now,
    Call::Heard,
    Call::Deaf,
    Call::Unfenced,
    Call::Fenced,
    Call::Realtime,
    Call::MonotonicRaw,
    Call::Again,
];
/// Costs of each kind of call in each round, ns.
type Rounds = [Vec<f64>; ALL.len()];

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Now => "now, with bound and status",
            Call::Heard => "now, with a vmclock looked at",
            Call::Deaf => "now, with a vmclock not there",
            Call::Unfenced => "counter, unfenced",
            Call::Fenced => "counter, fenced",
            Call::Realtime => "clock_gettime(CLOCK_REALTIME)",
            Call::MonotonicRaw => "clock_gettime(CLOCK_MONOTONIC_RAW)",
            Call::Again => "counter, unfenced, once more",
        }
    }
}

/// Runs the command.
pub fn read(args: &ReadArgs, out: &mut dyn Write) -> Ended {
    let private = Private::new()?;
    let clock = Private::unless_tended(&private, &args.page)?;
    let bench = Bench::new(clock, &private)?;
    let report = bench.report(&args.threads);
    if args.json {
        writeln!(out, "{}", json(&report)?)?;
    } else {
        report.write(out)?;
    }
    Ok(Outcome::of(report.goal_met != Some(false)))
}

/// A page of our own, for when there is no other.
struct Private {
    writer: PageWriter,
    device: PathBuf,
    _scratch: Scratch,
}

impl Private {
    /// The clock that the user means if it is tended and can be read, else this one.
    fn unless_tended(&self, page: &Page) -> Result<Clock, Failure> {
        match clock::open(page) {
            Err(failure) if page.page.is_some() => Err(failure),
            Ok(clock) if page.page.is_some() || usable(&clock) => Ok(clock),
            _ => clock::open(&self.page()),
        }
    }

    fn new() -> Result<Private, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::new("cannot make a clock page", why);
        let scratch = Scratch::new().map_err(|why| failed(&why))?;
        let counter = Counter::open(Choice::Auto).map_err(|why| failed(&why))?;
        let period = nominal(counter).map_err(|why| failed(&why))?;
        let boot = boot_id().map_err(|why| failed(&why))?;
        let mut writer =
            PageWriter::create(scratch.path().join("clock")).map_err(|why| failed(&why))?;
        let host = host_reading(counter);
        let hand = Hand {
            difference_error: period.error,
            path_bound: Span::from_micros(50),
            statistical_bound: Span::from_micros(5),
            growth: Rate::from_ppb(500),
            ..Hand::exact(
                CounterId { kind: counter.kind(), boot, epoch: Epoch(1) },
                host.count,
                Instant::from_nanos(1_000_000_000_000_000_000),
                period.period,
                host.count + period.period.counts(Span::from_secs(3600)),
            )
        };
        let made = Made {
            count: host.count,
            monotonic_ns: host.monotonic_ns,
            raw_ns: host.raw_ns,
            suspended_ns: host.suspended_ns,
            device: None,
        };
        let device = scratch.path().join("vmclock");
        std::fs::write(&device, device_page()).map_err(|why| failed(&why))?;
        writer.mark(Some(Marker { device: Marker::ELSEWHERE, value: MARKER }));
        writer.publish(&hand, &made);
        Ok(Private { writer, device, _scratch: scratch })
    }

    fn page(&self) -> Page {
        Page { page: Some(self.writer.path().to_owned()) }
    }
}

/// Marker of our own device.
const MARKER: u64 = 7;

/// Page of a vmclock device with that marker, and nothing else to say.
fn device_page() -> Vec<u8> {
    let mut page = vec![0; 65536];
    let header = [&b"VCLK"[..], &4096u32.to_le_bytes(), &1u32.to_le_bytes(), &[0; 4]].concat();
    for (byte, from) in page.iter_mut().zip(header.into_iter().chain(MARKER.to_le_bytes())) {
        *byte = from;
    }
    page
}

/// True if the clock is in the state that most readings find it in.
fn usable(clock: &Clock) -> bool {
    clock.page().tended() && clock.status().is_ok_and(Status::bound_holds)
}

/// State that the threads share.
struct Bench<'a> {
    clock: Clock,
    /// Clocks by a page of our own, with the device and without.
    heard: Clock,
    deaf: Clock,
    counter: Counter,
    /// Counter of our own page.
    own: Counter,
    raw: Counter,
    /// Of our own page, which nobody else tends.
    writer: &'a PageWriter,
}

impl<'a> Bench<'a> {
    fn new(clock: Clock, private: &'a Private) -> Result<Bench<'a>, Failure> {
        let failed = |why| Failure::new("the clock's counter", why);
        let deaf = clock::open(&private.page())?;
        let heard = clock::open(&private.page())?.with_vmclock(&private.device);
        let heard = heard.ok_or_else(|| Failure::new("the vmclock of our own", "not read"))?;
        let own = deaf.view().map_err(clock::unreadable)?.hand.counter.kind;
        let own = Counter::of_kind(own).map_err(failed)?;
        let kind = clock.view().map_err(clock::unreadable)?.hand.counter.kind;
        let counter = Counter::of_kind(kind).map_err(failed)?;
        let raw = Counter::of_kind(CounterKind::Raw).map_err(failed)?;
        Ok(Bench { clock, heard, deaf, counter, own, raw, writer: &private.writer })
    }

    fn report(&self, threads: &[u16]) -> Report {
        let path = self.clock.page().path();
        let page = (path != self.writer.path()).then(|| path.display().to_string());
        let mut alone = None;
        let mut results = Vec::new();
        for n in threads {
            let rounds = self.measure(*n);
            results.push(Costs::of(*n, rounds.clone().map(median)));
            if *n == 1 {
                alone = Some(rounds);
            }
        }
        let alone = alone.unwrap_or_else(|| self.measure(1));
        let judged = Judged::of(&alone);
        let parts = (self.counter.kind() != CounterKind::Raw)
            .then(|| judged.parts().map(|part| part.under(&release_build())));
        let verdict = parts.clone().map(Verdict::all);
        Report {
            page,
            counter: self.counter.kind().name(),
            calls: CALLS,
            rounds: ROUNDS,
            results,
            now_above_unfenced_ns: judged.above,
            vmclock_ns: judged.heard,
            now_to_realtime: judged.to_realtime,
            goal_met: verdict.as_ref().and_then(Verdict::met),
            verdict,
            parts,
        }
    }

    /// Costs of all calls, made by so many threads at once.
    fn measure(&self, threads: u16) -> Rounds {
        let start = Barrier::new(threads.into());
        let mut costs = [const { Vec::new() }; ALL.len()];
        thread::scope(|scope| {
            let work = || {
                start.wait();
                self.rounds()
            };
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for measured in workers.into_iter().filter_map(|worker| worker.join().ok()) {
                for (all, mut these) in costs.iter_mut().zip(measured) {
                    all.append(&mut these);
                }
            }
        });
        costs
    }

    fn rounds(&self) -> Rounds {
        let mut costs = [const { Vec::new() }; ALL.len()];
        for _ in 0..ROUNDS {
            self.writer.heartbeat(self.own.read());
            for (costs, call) in costs.iter_mut().zip(ALL) {
                costs.push(self.batch(call));
            }
        }
        costs
    }

    /// Cost of one call in a row of them, ns.
    fn batch(&self, call: Call) -> f64 {
        let (counter, fenced) = (self.counter, self.counter.fenced());
        match call {
            Call::Now => timed(|| self.clock.now()),
            Call::Heard => timed(|| self.heard.now()),
            Call::Deaf => timed(|| self.deaf.now()),
            Call::Unfenced | Call::Again => timed(|| counter.read()),
            Call::Fenced => timed(|| fenced.read()),
            Call::Realtime => timed(SystemTime::now),
            Call::MonotonicRaw => timed(|| self.raw.read()),
        }
    }
}

/// Cost of a call that is made again and again, its result each time left in memory, ns.
fn timed<T>(call: impl Fn() -> T) -> f64 {
    let start = HostInstant::now();
    for _ in 0..CALLS {
        black_box(&call());
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The goal is set for what users run.
fn release_build() -> Control {
    if cfg!(debug_assertions) { Err("this is a debug build".to_owned()) } else { Ok(()) }
}

/// Figures that the goal is judged by.
struct Judged {
    /// Cost of `now` beyond an unfenced read of the counter, ns.
    above: Interval,
    /// Cost of hearing the hypervisor: of `now` with its device beyond that without, ns.
    heard: Interval,
    /// Cost of `now`, over that of clock_gettime(CLOCK_REALTIME).
    to_realtime: Interval,
    /// A read of the counter, over another in the same round.
    to_itself: Interval,
}

impl Judged {
    fn of([now, heard, deaf, unfenced, _, realtime, _, again]: &Rounds) -> Judged {
        let beyond = |more: &[f64], less: &[f64]| -> Vec<f64> {
            more.iter().zip(less).map(|(more, less)| more - less).collect()
        };
        let [above, heard, to_realtime, to_itself] = [
            Interval::of(&beyond(now, unfenced)),
            Interval::of(&beyond(heard, deaf)),
            Interval::of_ratios(now, realtime),
            Interval::of_ratios(again, unfenced),
        ]
        .map(|one| Interval {
            median: hundredths(one.median),
            low: hundredths(one.low),
            high: hundredths(one.high),
            ..one
        });
        Judged { above, heard, to_realtime, to_itself }
    }

    /// Verdicts on what `now` costs, on what hearing the hypervisor does, and on `now` beside the system's own clock.
    fn parts(&self) -> [Verdict; 3] {
        let Interval { median, low, high, .. } = self.to_itself;
        let control = if low >= 1.0 - EVEN && high <= 1.0 + EVEN {
            Ok(())
        } else {
            Err(format!(
                "the bare counter itself costs {median} times what it costs in the same round: this \
                 machine is busy"
            ))
        };
        [(LIMIT, self.above), (HEARD_LIMIT, self.heard), (1.0, self.to_realtime)]
            .map(|(limit, measured)| Verdict::at_most(limit, &measured).under(&control))
    }
}

/// Findings; costs are in ns.
#[derive(Serialize)]
struct Report {
    /// The page that was read; none: one of our own.
    page: Option<String>,
    counter: &'static str,
    calls: u32,
    rounds: usize,
    results: Vec<Costs>,
    now_above_unfenced_ns: Interval,
    vmclock_ns: Interval,
    now_to_realtime: Interval,
    /// None where this run cannot judge, and for a counter that no goal is set for.
    goal_met: Option<bool>,
    /// None for a counter that no goal is set for.
    verdict: Option<Verdict>,
    /// Verdicts on the three figures above, in their order.
    parts: Option<[Verdict; 3]>,
}

/// Median costs, ns.
#[derive(Clone, Serialize)]
struct Costs {
    threads: u16,
    now_ns: f64,
    now_with_vmclock_ns: f64,
    now_without_vmclock_ns: f64,
    counter_unfenced_ns: f64,
    counter_fenced_ns: f64,
    clock_gettime_realtime_ns: f64,
    clock_gettime_monotonic_raw_ns: f64,
    counter_unfenced_again_ns: f64,
}

impl Costs {
    fn of(threads: u16, costs: [f64; ALL.len()]) -> Costs {
        let [now_ns, heard, deaf, unfenced, fenced, realtime, raw, again] = costs.map(hundredths);
        Costs {
            threads,
            now_ns,
            now_with_vmclock_ns: heard,
            now_without_vmclock_ns: deaf,
            counter_unfenced_ns: unfenced,
            counter_fenced_ns: fenced,
            clock_gettime_realtime_ns: realtime,
            clock_gettime_monotonic_raw_ns: raw,
            counter_unfenced_again_ns: again,
        }
    }

    fn get(&self, call: Call) -> f64 {
        match call {
            Call::Now => self.now_ns,
            Call::Heard => self.now_with_vmclock_ns,
            Call::Deaf => self.now_without_vmclock_ns,
            Call::Unfenced => self.counter_unfenced_ns,
            Call::Fenced => self.counter_fenced_ns,
            Call::Realtime => self.clock_gettime_realtime_ns,
            Call::MonotonicRaw => self.clock_gettime_monotonic_raw_ns,
            Call::Again => self.counter_unfenced_again_ns,
        }
    }
}

impl Report {
    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let page = self.page.as_deref().unwrap_or("of its own, for no daemon tends another");
        writeln!(out, "clock page {page}, counter {}", self.counter)?;
        writeln!(out, "median of {} batches of {} calls, ns per call\n", self.rounds, self.calls)?;
        let mut columns = vec![("".to_owned(), Side::Left)];
        for costs in &self.results {
            let s = if costs.threads == 1 { "" } else { "s" };
            columns.push((format!("{} thread{s}", costs.threads), Side::Right));
            columns.push(("ratio".to_owned(), Side::Right));
        }
        let columns: Vec<_> = columns.iter().map(|(name, side)| (name.as_str(), *side)).collect();
        let mut table = Table::new(&columns);
        for call in ALL {
            let mut cells = vec![call.name().to_owned()];
            for costs in &self.results {
                cells.push(format!("{:.1}", costs.get(call)));
                cells.push(format!("{:.2}", costs.get(call) / costs.counter_unfenced_ns));
            }
            table.row(cells);
        }
        table.write(out)?;
        let goal = match &self.verdict {
            Some(verdict) => format!("goal {}", verdict.text()),
            None => "no goal for this counter".to_owned(),
        };
        writeln!(out, "\n{goal}")?;
        let figures = [
            (self.now_above_unfenced_ns, "ns more than an unfenced read of the counter", LIMIT),
            (self.vmclock_ns, "ns more with a vmclock than without", HEARD_LIMIT),
            (self.now_to_realtime, "times clock_gettime(CLOCK_REALTIME)", 1.0),
        ];
        for (place, (figure, what, limit)) in figures.into_iter().enumerate() {
            let Interval { median, low, high, .. } = figure;
            let part = self.parts.as_ref().and_then(|parts| parts.get(place));
            let judged = part.map(|part| format!(": {}", part.text())).unwrap_or_default();
            writeln!(out, "now costs {median} ({low} to {high}) {what} (at most {limit}){judged}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goal_is_judged_by_intervals_where_the_counter_costs_what_it_costs() {
        let rounds = |now: f64, again: f64| -> Rounds {
            [now, 9.9, 9.3, 9.0, 12.0, 21.0, 22.0, again].map(|ns| vec![ns; 9])
        };
        let parts = |rounds: &Rounds| Judged::of(rounds).parts();
        let verdict = |rounds: &Rounds| Verdict::all(parts(rounds));
        assert_eq!(verdict(&rounds(9.5, 9.0)), Verdict::Met);
        assert_eq!(verdict(&rounds(14.5, 9.1)), Verdict::NotMet);
        // Each by itself: the cost of hearing the hypervisor is none of that.
        let each = [Verdict::NotMet, Verdict::Met, Verdict::Met];
        assert_eq!(parts(&rounds(14.5, 9.1)), each);
        let mut dear = rounds(9.5, 9.0);
        dear[1].fill(10.5);
        assert_eq!(verdict(&dear), Verdict::NotMet);
        let mut spread = rounds(9.5, 9.0);
        spread[0][..4].fill(40.0);
        assert_eq!(verdict(&spread).met(), None);
        let busy = verdict(&rounds(14.5, 12.0)).text();
        assert!(
            busy.starts_with("cannot judge: the bare counter itself costs 1.33 times"),
            "{busy}"
        );
    }

    #[test]
    fn a_page_of_its_own_can_be_read_all_the_while() {
        let private = Private::new().unwrap();
        let bench = Bench::new(clock::open(&private.page()).unwrap(), &private).unwrap();
        let costs = ALL.map(|call| bench.batch(call));
        assert!(costs.iter().all(|ns| *ns > 0.0), "{costs:?}");
        for clock in [&bench.clock, &bench.heard, &bench.deaf] {
            assert_eq!(clock.status(), Ok(Status::Synchronised));
        }
        assert_eq!(bench.heard.view().unwrap().hypervisor, Some(true));
        assert_eq!(bench.deaf.view().unwrap().hypervisor, Some(false));
    }
}
