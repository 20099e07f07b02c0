//! From a run to its figures.

use truechimer_engine::{SourceConfig, SourceStatus};
use truechimer_report::{quantile, sorted};

use super::{Figure, Figures};
use crate::scenario::Scenario;
use crate::world::Run;
use truechimer_trace::Statistics;
use truechimer_trace::{Sample, Trace};

/// A time without replies is an outage from this length on, s.
const OUTAGE: f64 = 3600.0;
/// A change of the path explains reports of it for so long, s: the longest poll interval times the
/// exchanges that it takes to be sure.
const EXPLAINED: f64 = 6.0 * 3600.0;
/// Times of a scenario and of its trace are the same to this, s: a trace begins with the first
/// request.
const APART: f64 = 60.0;
/// Readings further apart than this have a gap between them, s.
const GAP: f64 = 1.5;
/// Report of the engine of a path that changed ...
const PATH_CHANGED: &str = "the path changed";
/// ... and of a server whose time moved, and is believed.
const MOVED: [&str; 2] = ["its time moved by", "off what the previous daemon left"];

/// The figures of a run of this scenario.
pub(super) fn figures(scenario: &Scenario, run: &Run) -> Figures {
    let trace = &run.trace;
    let s = Statistics::of(&[trace]);
    let below = |us: f64| {
        let found = s.converged_s.iter().find(|c| (c.threshold_us - us).abs() < 0.5);
        found.and_then(|c| c.median_s)
    };
    let count = |n: usize| Some(n as f64);
    let held = Held::of(run);
    let (path_changes, false_path_changes) = path_changes(scenario, trace);
    let differences = [&s.one_second, &s.thousand_seconds];
    let all = [
        (Figure::RmsUs, Some(s.error.rms_us)),
        (Figure::LargestUs, Some(s.error.max_us)),
        (Figure::OutageEndUs, outage_end(trace).map(|error| error.abs() * 1e6)),
        (Figure::SecondUs, Some(s.one_second.error.rms_us)),
        (Figure::ThousandSecondsUs, Some(s.thousand_seconds.error.rms_us)),
        (Figure::BoundUs, Some(s.bound_median_us)),
        (Figure::Bound99Us, Some(bound_99(trace) * 1e6)),
        (Figure::Below500UsS, below(500.0)),
        (Figure::Below100UsS, below(100.0)),
        (Figure::Below10UsS, below(10.0)),
        (Figure::PromisedS, count(s.inside_bound.seconds)),
        (Figure::OutsideS, count(s.inside_bound.outside)),
        (Figure::OutsideLongestS, Some(longest_outside(&trace.samples))),
        (
            Figure::DifferenceOutsideS,
            count(differences.iter().map(|d| d.inside_bound.outside).sum()),
        ),
        (Figure::HeldOff, count(held.times)),
        (Figure::HeldOffS, Some(held.seconds)),
        (Figure::HeldOffLongestS, Some(held.longest)),
        (Figure::PathChanges, count(path_changes)),
        (Figure::FalsePathChanges, count(false_path_changes)),
        (Figure::FalseSteps, count(false_steps(run))),
        (Figure::Exchanges, count(s.exchanges.seen)),
        (Figure::Used, count(s.exchanges.used)),
    ];
    all.into_iter().map(|(figure, value)| (figure, value.filter(|v| v.is_finite()))).collect()
}

/// The error at the last reading before the longest time without a reply ends, s.
fn outage_end(trace: &Trace) -> Option<f64> {
    let end = trace.samples.last()?.at;
    let times = trace.exchanges.iter().map(|exchange| exchange.at);
    let (mut before, mut longest, mut ends) = (0.0, 0.0, 0.0);
    for at in times.chain([end]) {
        if at - before > longest {
            (longest, ends) = (at - before, at);
        }
        before = at;
    }
    let read = trace.samples.partition_point(|sample| sample.at <= ends);
    let last = trace.samples.get(read.checked_sub(1)?)?;
    (longest >= OUTAGE - APART).then_some(last.error)
}

/// The bound that 99 % of the seconds that count do not exceed, s.
fn bound_99(trace: &Trace) -> f64 {
    let counts = |s: &&Sample| s.at >= trace.warm_up && s.status.bound_holds();
    let bounds = sorted(trace.samples.iter().filter(counts).map(|s| s.bound));
    quantile(&bounds, 0.99)
}

/// The longest time that the truth was outside the bound that was promised, s.
fn longest_outside(samples: &[Sample]) -> f64 {
    let (mut since, mut longest) = (None, 0.0_f64);
    let mut before = f64::NEG_INFINITY;
    for sample in samples {
        let inside = !sample.status.bound_holds() || sample.error.abs() <= sample.reach();
        if inside || sample.at - before > GAP {
            since = None;
        }
        if !inside {
            // Each reading stands for a second.
            longest = longest.max(sample.at - *since.get_or_insert(sample.at) + 1.0);
        }
        before = sample.at;
    }
    longest
}

/// Hold-offs of honest servers.
#[derive(Default)]
struct Held {
    /// Number of them.
    times: usize,
    /// For how long altogether, s.
    seconds: f64,
    /// For how long at most, s.
    longest: f64,
}

impl Held {
    fn of(run: &Run) -> Held {
        let mut held = Held::default();
        let honest = run.honest.iter().enumerate().filter(|(_, honest)| **honest);
        honest.for_each(|(source, _)| held.add(run, source));
        held
    }

    /// Adds what became of one server.
    fn add(&mut self, run: &Run, source: usize) {
        let mut marks = run.marks.iter().filter(|mark| mark.source == source).peekable();
        let mut accused = false;
        let mut since: Option<f64> = None;
        let mut last = 0.0;
        for exchange in run.trace.exchanges.iter().filter(|x| x.source == source) {
            while let Some(mark) = marks.next_if(|mark| mark.at <= exchange.at) {
                accused = mark.status == SourceStatus::Falseticker;
            }
            last = exchange.at;
            if !exchange.used || accused {
                self.times += usize::from(since.is_none());
                since.get_or_insert(exchange.at);
            } else if let Some(since) = since.take() {
                self.ends(exchange.at - since);
            }
        }
        if let Some(since) = since {
            self.ends(last - since);
        }
    }

    fn ends(&mut self, seconds: f64) {
        self.seconds += seconds;
        self.longest = self.longest.max(seconds);
    }
}

/// Number of reports of a changed path, and of those that nothing explains.
fn path_changes(scenario: &Scenario, trace: &Trace) -> (usize, usize) {
    let begun = (trace.begun - scenario.origin()) as f64;
    let (mut all, mut unexplained) = (0, 0);
    for server in &scenario.servers {
        let ways = server.machines().flat_map(|machine| [&machine.forward, &machine.backward]);
        let shifts = ways.flat_map(|path| &path.shifts);
        let moves = server.addresses.iter().flat_map(|a| [Some(a.from_s), a.to_s]);
        let changes: Vec<f64> = shifts
            .flat_map(|shift| [Some(shift.at_s), shift.until_s])
            .chain(moves)
            .flatten()
            .map(|at| at - begun)
            .collect();
        for note in
            trace.notes.iter().filter(|note| is_said(&note.text, &server.name, PATH_CHANGED))
        {
            let explains = |at: &f64| (at - APART..at + EXPLAINED).contains(&note.at);
            all += 1;
            unexplained += usize::from(!changes.iter().any(explains));
        }
    }
    (all, unexplained)
}

/// Number of times that the time of an honest server was taken to have moved.
fn false_steps(run: &Run) -> usize {
    let servers = || run.trace.sources.iter().zip(&run.honest);
    let is_false = |text: &str| {
        let said = |name: &str| MOVED.iter().any(|moved| is_said(text, name, moved));
        servers().any(|(name, honest)| *honest && said(name))
    };
    run.trace.notes.iter().filter(|note| is_false(&note.text)).count()
}

/// True if the engine's line is of the server of this name, and says that.
fn is_said(line: &str, server: &str, what: &str) -> bool {
    let of = line.strip_prefix(&SourceConfig::new(server).name());
    of.and_then(|rest| rest.strip_prefix(": ")).is_some_and(|rest| rest.contains(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Options, simulate};

    fn run(happens: &str) -> (Scenario, Run) {
        let toml = format!(
            "name = \"mine\"\nhours = 3\nwarm-up-hours = 0.5\naccept-step-after-s = 600\n\
             [[server]]\nname = \"a\"\n\
             forward.queue = [{{ law.exponential.mean-ms = 0.01 }}]\n\
             backward.queue = [{{ law.exponential.mean-ms = 0.01 }}]\n{happens}"
        );
        let scenario = Scenario::from_toml(&toml).unwrap_or_else(|why| panic!("{why}\n{toml}"));
        let run = simulate(&scenario, &Options { seed: 1, ..Options::default() }).unwrap();
        (scenario, run)
    }

    fn of(happens: &str, figure: Figure) -> Option<f64> {
        let (scenario, run) = run(happens);
        figures(&scenario, &run).get(&figure).copied().flatten()
    }

    /// Reports of the engine are recognised, whatever its words.
    #[test]
    fn reports_of_the_engine_are_counted() {
        let longer = "[[server.forward.shift]]\nat-s = 5400\nby-ms = 3\n";
        assert_eq!(of(longer, Figure::PathChanges), Some(1.0));
        assert_eq!(of(longer, Figure::FalsePathChanges), Some(0.0));
        let (mut scenario, run) = run(longer);
        scenario.servers[0].forward.shifts[0].at_s = 9000.0;
        assert_eq!(path_changes(&scenario, &run.trace), (1, 1), "it comes before its reason");

        let step = "[[server.step]]\nat-s = 5400\nby-ms = 20\n";
        assert_eq!(of(step, Figure::FalseSteps), Some(0.0), "it did step");
        assert_eq!(of(step, Figure::HeldOff), Some(0.0), "and was no honest server");
        let (_, mut run) = super::tests::run(step);
        run.honest[0] = true;
        assert_eq!(false_steps(&run), 1);
        let held = Held::of(&run);
        assert_eq!(held.times, 1);
        assert!((550.0..800.0).contains(&held.seconds) && held.longest == held.seconds);
    }

    #[test]
    fn the_end_of_an_outage_is_the_last_reading_without_a_reply() {
        let away = |to: u32| format!("[[server.forward.outage]]\nfrom-s = 5400\nto-s = {to}\n");
        let (_, run) = run(&away(9100));
        let error = outage_end(&run.trace).unwrap();
        let at = run.trace.samples.iter().find(|sample| sample.error == error).unwrap().at;
        assert!((9080.0..9120.0).contains(&at), "{at}");
        assert_eq!(of(&away(8000), Figure::OutageEndUs), None, "shorter than an hour");
        let last = super::tests::run(&away(20_000)).1;
        assert_eq!(outage_end(&last.trace), last.trace.samples.last().map(|s| s.error));
    }

    #[test]
    fn seconds_outside_are_counted_without_a_break() {
        let (_, mut run) = run("");
        assert_eq!(longest_outside(&run.trace.samples), 0.0);
        for outside in [100, 101, 102, 200, 201] {
            run.trace.samples[outside].error = 1.0;
        }
        assert_eq!(longest_outside(&run.trace.samples), 3.0);
    }
}
