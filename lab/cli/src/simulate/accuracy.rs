//! `truechimer-lab simulate accuracy`: every scenario under every estimator, as `docs/results/accuracy.md`.

use std::io::{self, Write};

use truechimer_estimators::{Kind, OURS, PUBLISHED, TABLE};
use truechimer_sim::{Scenario, Statistics, Trace, catalogue, simulate_alike};

use super::{affordable, jobs, screen, seeds};
use truechimer_command::program;
use truechimer_command::show::json;
use truechimer_command::{Ended, Failure, Outcome};

/// Figures of today's daemons in the reference scenarios: RMS error in µs, the largest in brackets,
/// run in a clock simulator with the same oscillator and delays (28 h, the first 4 not counted,
/// five seeds): chrony 4.8-dev at the scenario's poll, the same with maxdelayquant 0.5, the same
/// with its own choice of poll, ntpsec at the scenario's poll. Where it was not measured there is a
/// dash.
const PEERS: [(&str, [&str; 4]); 14] = [
    ("lan", ["2.63 (24)", "2.75 (19)", "19.9", "2.45 (12)"]),
    ("lan-bursts-down", ["11.1 (285)", "5.16 (47)", "26.9", "48.8 (568)"]),
    ("lan-bursts-up", ["–", "–", "–", "–"]),
    ("lan-bursts-both", ["5.38 (56)", "5.25 (47)", "97.4", "73.6 (674)"]),
    ("wan", ["102 (1267)", "65.7 (461)", "568", "144 (757)"]),
    ("temperature", ["4.16 (22)", "4.27 (22)", "18.5", "5.18 (19)"]),
    ("outage", ["31.0 (255)", "38.6 (368)", "39.1", "32.0 (264)"]),
    ("loss-20", ["3.53 (20)", "3.53 (20)", "50.4", "3.38 (18)"]),
    ("lan-poll-64", ["5.7", "–", "–", "15"]),
    ("lan-poll-256", ["11.9", "–", "–", "106"]),
    ("lan-poll-1024", ["60.5", "–", "–", "230"]),
    ("wan-poll-64", ["105", "–", "–", "152"]),
    ("wan-poll-256", ["196", "–", "–", "216"]),
    ("wan-poll-1024", ["554", "–", "–", "495"]),
];

/// Seeds for the start: it lasts minutes, and chance rules it.
const CONVERGENCE_SEEDS: u64 = 100;
/// The thresholds that are looked at, µs.
const CONVERGENCE: [f64; 3] = [500.0, 100.0, 10.0];
/// Multiple of the oscillator's limit that is near it.
const NEAR_LIMIT: f64 = 1.2;
/// Closer than this is the same.
const TIE: f64 = 0.01;

/// One scenario and what every estimator did in it, in the order of [`TABLE`].
struct Line {
    scenario: Scenario,
    honest: bool,
    clocks: Vec<Statistics>,
}

impl Line {
    fn of(&self, kind: Kind) -> Option<&Statistics> {
        self.each().find(|(other, _)| *other == kind).map(|(_, statistics)| statistics)
    }

    fn each(&self) -> impl Iterator<Item = (Kind, &Statistics)> {
        TABLE.iter().copied().zip(&self.clocks)
    }
}

/// Runs the study.
pub fn run(args: &super::Simulate, out: &mut dyn Write) -> Ended {
    for (given, option) in [
        (args.poll.is_some(), "--poll"),
        (args.stamps.is_some(), "--stamps"),
        (args.report.is_some(), "--report"),
        (args.csv.is_some(), "--csv"),
        (args.print, "--print"),
        (!args.estimator.is_empty(), "--estimator"),
    ] {
        if given {
            let why = "the study runs every scenario as it is, under every estimator; it takes \
                       --seeds, --hours, --jobs and --json";
            return Err(Failure::new(option, why));
        }
    }
    let mut scenarios = catalogue();
    if let Some(hours) = args.hours {
        let shorter = |s: Scenario| if s.hours > hours { s.with_hours(hours) } else { Ok(s) };
        let all = scenarios.into_iter().map(shorter).collect::<Result<_, _>>();
        scenarios = all.map_err(|why| Failure::new("--hours", why))?;
    }
    for scenario in &scenarios {
        affordable(scenario, seeds(args).len())?;
    }
    let mut lines = Vec::new();
    let progress = &mut io::stderr();
    jobs::each(
        &scenarios,
        jobs::width(args.jobs),
        |scenario| line(scenario, args),
        |scenario, line| {
            let line = line?;
            // Minutes pass; a terminal that cannot be written to is nobody's loss.
            let _ = writeln!(progress, "{}", scenario.name);
            lines.push(line);
            Ok::<(), Failure>(())
        },
    )?;
    if args.json {
        for line in &lines {
            for (estimator, statistics) in line.each() {
                let row = super::Row::new(&line.scenario, estimator, line.honest, statistics);
                writeln!(out, "{}", json(&row)?)?;
            }
        }
    } else {
        markdown(&lines, args, out)?;
    }
    let broken = |line: &Line| {
        line.scenario.broken_conditions().is_empty()
            && line.each().any(|(kind, s)| kind.is_bounded() && s.inside_bound.outside > 0)
    };
    Ok(Outcome::of(!lines.iter().any(broken)))
}

fn line(scenario: &Scenario, args: &super::Simulate) -> Result<Line, Failure> {
    let mut honest = true;
    let mut clocks = Vec::new();
    for estimator in TABLE {
        let mut traces: Vec<Trace> = Vec::new();
        for seed in seeds(args) {
            let run = simulate_alike(scenario, *estimator, seed);
            traces.push(run.map_err(|why| Failure::new(&scenario.name, why))?.trace);
        }
        honest &= traces.iter().all(|trace| trace.honest);
        clocks.push(Statistics::of(&traces.iter().collect::<Vec<_>>()));
    }
    Ok(Line { scenario: scenario.clone(), honest, clocks })
}

fn markdown(lines: &[Line], args: &super::Simulate, out: &mut dyn Write) -> Result<(), Failure> {
    let seeds = match seeds(args).as_slice() {
        [one] => format!("seed {one}"),
        several => format!("seeds 1 to {} pooled", several.len()),
    };
    writeln!(
        out,
        "# Accuracy in simulation\n\n\
         Made by `{}`\n\
         (version {}; {seeds}); `make accuracy` makes it anew. The same seed gives the same figures,\n\
         to the last digit, and the same packets to every estimator. Each scenario can be looked at by\n\
         itself: `truechimer-lab simulate NAME --report FILE.html`; what it is made of,\n\
         `truechimer-lab simulate NAME --print` says. The figures of `ours` are kept, seed by seed, in\n\
         `lab/sim/frozen`: `truechimer-lab simulate figures --against` that file sets those of any\n\
         estimator beside them, with the ratio and how far chance may have moved it.\n\n\
         Errors are clock − truth in µs, read once a second through the published hands, without the\n\
         time to settle. `ours` is [what the daemon runs](../explanation/algorithm.md); `published`, `ntp-pll` and\n\
         `pi` are [described here](../explanation/published.md). The last two are textbook versions and not the\n\
         programs whose methods they show.\n\n\
         ## The reference scenarios\n\n\
         RMS error in µs, the largest in brackets. The columns chrony and ntpsec are what those\n\
         daemons (chrony 4.8-dev, ntpsec) did in a clock simulator with the same oscillator and\n\
         delays, at the same poll unless it says otherwise; they are quoted, not run again here:\n\
         other random numbers, so no comparison to the last digits. [compare.md](compare.md) runs the\n\
         daemons themselves side by side.\n",
        program::line(),
        env!("CARGO_PKG_VERSION"),
    )?;
    writeln!(
        out,
        "| scenario | {} | chrony | chrony, maxdelayquant 0.5 | chrony, own poll | ntpsec |\n\
         |---|{}---|---|---|---|",
        TABLE.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" | "),
        "---|".repeat(TABLE.len()),
    )?;
    for (name, peers) in PEERS {
        let Some(line) = lines.iter().find(|line| line.scenario.name == name) else { continue };
        write!(out, "| {name}")?;
        for s in &line.clocks {
            let (rms, max) = (screen::number(s.error.rms_us), screen::number(s.error.max_us));
            write!(out, " | {rms} ({max})")?;
        }
        writeln!(out, " | {} |", peers.join(" | "))?;
    }
    writeln!(
        out,
        "\nIn `outage` seeds differ by chance more than clocks do, and the peers had other seeds:\n\
         `truechimer-lab simulate outage-end --seeds 100` has more of them.\n"
    )?;
    if args.hours.is_none() {
        writeln!(out, "## Two hours without a server\n")?;
        super::outage::section(args, out)?;
        convergence(args, out)?;
    }
    intervals(lines, args, out)?;
    writeln!(out, "## Where `published` is more accurate than `ours`\n")?;
    let rms_of = |line: &Line, kind| line.of(kind).map_or(f64::NAN, |s| s.error.rms_us);
    let ahead = |line: &&Line| rms_of(line, PUBLISHED) < rms_of(line, OURS) * (1.0 - TIE);
    let mut none = true;
    for line in lines.iter().filter(ahead) {
        none = false;
        let rms = [OURS, PUBLISHED].map(|kind| screen::number(rms_of(line, kind)));
        let (about, rms) = (&line.scenario.about, rms.join(" against "));
        writeln!(out, "- `{}`: {rms} µs RMS. {about}.", line.scenario.name)?;
    }
    if none {
        writeln!(out, "Nowhere (beyond {} %).", TIE * 100.0)?;
    }
    writeln!(
        out,
        "\n## Every scenario\n\n\
         `<100` and `<10`: seconds from the first request until the error stayed below so many µs for\n\
         300 s (median of the seeds). `inside`: share of the seconds with the truth inside the bound,\n\
         of all that promised one, in per cent; 100 means every one. `bound`: its median; `stat.`: the\n\
         median of its statistical part. `1 s`, `1000 s`: RMS error of intervals measured by the\n\
         difference clock; `of limit`: that of 1000 s ÷ the oscillator's own limit, as above.\n"
    )?;
    for line in lines {
        let scenario = &line.scenario;
        let poll = match scenario.adaptive {
            Some([low, high]) => format!("poll {low} to {high} s"),
            None => format!("poll {} s", scenario.poll),
        };
        writeln!(
            out,
            "### {}\n\n{}. {} h, {poll}.\n",
            scenario.name,
            scenario.about.trim_end_matches('.'),
            scenario.hours
        )?;
        for remark in screen::remarks(scenario) {
            writeln!(out, "*Note: {remark}.*\n")?;
        }
        writeln!(
            out,
            "| | RMS | median | IQR | 1 % | 99 % | max | <100 | <10 | inside | bound | stat. | 1 s | 1000 s | of limit |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
        )?;
        for (estimator, s) in line.each() {
            let e = &s.error;
            let numbers =
                [e.rms_us, e.median_us, e.iqr_us, e.p1_us, e.p99_us, e.max_us].map(screen::number);
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                estimator.name(),
                numbers.join(" | "),
                screen::converged(s, 100.0),
                screen::converged(s, 10.0),
                screen::inside(s),
                screen::number(s.bound_median_us),
                screen::number(s.statistical_median_us),
                short(s.one_second.error.rms_us),
                screen::number(s.thousand_seconds.error.rms_us),
                screen::number(of_limit(s)),
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Of what is far below a microsecond.
fn short(value: f64) -> String {
    if value.is_finite() && value.abs() < 0.0995 {
        format!("{value:.3}")
    } else {
        screen::number(value)
    }
}

/// The error of 1000 s by the difference clock, as a multiple of the oscillator's limit.
fn of_limit(s: &Statistics) -> f64 {
    s.thousand_seconds.error.rms_us / s.thousand_seconds.limit_us
}

/// Writes how fast the clocks become right, over more seeds than the rest.
fn convergence(args: &super::Simulate, out: &mut dyn Write) -> Result<(), Failure> {
    let seeds: Vec<u64> = (1..=CONVERGENCE_SEEDS).collect();
    writeln!(
        out,
        "\n## Start\n\n\
         Seconds from the first request until the error stayed below so many µs for 300 s, from a\n\
         counter that is 10 ppm off: the median of {CONVERGENCE_SEEDS} seeds, and what 95 % of them need. The\n\
         first eight requests are 2 s apart, three 4 s, thirteen 8 s (`burst` in [scenarios.md](../reference/scenarios.md)).\n\n\
         | scenario | | {} |\n|---|---|{}",
        CONVERGENCE.map(|us| format!("<{us} µs")).join(" | "),
        "---|".repeat(CONVERGENCE.len()),
    )?;
    for name in ["lan", "temperature", "lan-poll-64", "wan"] {
        let known = truechimer_sim::find(name).map_err(|why| Failure::new(name, why))?;
        let scenario = Scenario { hours: 0.5, warm_up_hours: 0.0, ..known };
        for estimator in TABLE {
            let mut traces: Vec<Trace> = Vec::new();
            jobs::each(
                &seeds,
                jobs::width(args.jobs),
                |seed| simulate_alike(&scenario, *estimator, *seed),
                |_, run| {
                    traces.push(run.map_err(|why| Failure::new(name, why))?.trace);
                    Ok::<(), Failure>(())
                },
            )?;
            let s = Statistics::of(&traces.iter().collect::<Vec<_>>());
            let cells = CONVERGENCE.map(|us| {
                let found = s.converged_s.iter().find(|c| (c.threshold_us - us).abs() < 0.5);
                let show = |s: Option<f64>| s.map_or_else(|| "-".into(), |s| format!("{s:.0}"));
                let (median, most) = found.map_or((None, None), |c| (c.median_s, c.p95_s));
                format!("{} / {}", show(median), show(most))
            });
            writeln!(out, "| {name} | {} | {} |", estimator.name(), cells.join(" | "))?;
        }
    }
    Ok(())
}

/// Statistics of the best that can be made of the same stamps, where that is known.
fn best(scenario: &Scenario, args: &super::Simulate) -> Result<Option<Statistics>, Failure> {
    let mut traces: Vec<Trace> = Vec::new();
    for seed in seeds(args) {
        let told = truechimer_sim::told(scenario, seed);
        traces.extend(told.map_err(|why| Failure::new(&scenario.name, why))?);
    }
    Ok((!traces.is_empty()).then(|| Statistics::of(&traces.iter().collect::<Vec<_>>())))
}

/// Intervals by the difference clock, beside what the oscillator allows.
fn intervals(lines: &[Line], args: &super::Simulate, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(
        out,
        "\n## Intervals by the difference clock\n\n\
         RMS error in µs of the last second and of the last 1000 s, measured by the rate that is\n\
         published at their end, which never sees a correction of the offset. The limit is the\n\
         oscillator's own: what the same 1000 s would be off by for a clock that had known the exact\n\
         rate when they began, and nothing after (for a random walk of 10⁻⁹ /√s: 18 µs). Who watches\n\
         the oscillator while the interval lasts can do better than that, as `ours` does: its rate is the\n\
         mean one of the last 1000 s. For a single second that is worth less than the rate of now would\n\
         be, by what the rate did meanwhile: 0.018 µs for that walk, 0.08 µs in `temperature`, where nothing\n\
         shows it sooner but to a clock that is told of the cycle.\n\n\
         A clock sees the oscillator through stamps. The best that can be made of these is found by a\n\
         filter that is told the walk, both floors and the mean of the queues, where there is no more to\n\
         be told (`best`). Where that is beyond 1.2 times the limit, no clock gets there.\n\n\
         | scenario | 1 s, ours | published | best | 1000 s, ours | published | best | limit | ours ÷ limit | published ÷ limit | ours ÷ best |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    )?;
    for (name, _) in PEERS {
        let Some(line) = lines.iter().find(|line| line.scenario.name == name) else { continue };
        let (Some(ours), Some(published)) = (line.of(OURS), line.of(PUBLISHED)) else { continue };
        let best = best(&line.scenario, args)?;
        let none = || "–".to_owned();
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            short(ours.one_second.error.rms_us),
            short(published.one_second.error.rms_us),
            best.as_ref().map_or_else(none, |best| short(best.one_second.error.rms_us)),
            screen::number(ours.thousand_seconds.error.rms_us),
            screen::number(published.thousand_seconds.error.rms_us),
            best.as_ref()
                .map_or_else(none, |best| screen::number(best.thousand_seconds.error.rms_us)),
            screen::number(ours.thousand_seconds.limit_us),
            screen::number(of_limit(ours)),
            screen::number(of_limit(published)),
            best.as_ref().map_or_else(none, |best| {
                let apart = ours.thousand_seconds.error.rms_us / best.thousand_seconds.error.rms_us;
                screen::number(apart)
            }),
        )?;
    }
    let worse: Vec<String> = lines
        .iter()
        .filter(|line| line.of(OURS).is_some_and(|ours| of_limit(ours) > NEAR_LIMIT))
        .map(|line| format!("`{}`", line.scenario.name))
        .collect();
    writeln!(
        out,
        "\nIn all scenarios but these, `ours` is within {NEAR_LIMIT} times the limit: {}.\n",
        if worse.is_empty() { "none".to_owned() } else { worse.join(", ") }
    )?;
    Ok(())
}
