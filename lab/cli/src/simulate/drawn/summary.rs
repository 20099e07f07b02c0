//! Summary of many path-days.

use std::fmt::Write;

use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Goal, Grid, Outcome};
use truechimer_outcome::stats::{median, quantile};
use truechimer_outcome::verdict::Verdict;
use truechimer_sim::drawn::{Day, Judged, Range, Technology, Values, common_ranges};

use super::{LIMITS, Line, Plan};
use crate::simulate::screen;
use truechimer_command::program;

/// Fewer days cannot show that a goal is met, only that it is not.
const ENOUGH_DAYS: usize = 2000;
/// The poll interval at which hold-offs are judged, s.
const JUDGED_POLL: u32 = 16;
/// The deviation is to be at most this share of the best other clock's.
const SHARE: f64 = 0.5;
/// Number of the worst days that are named.
const WORST: usize = 12;

/// Explanation of the limits.
const LIMIT: &str = "The limits are told what no clock can know. Limit: the law of each packet's \
     delay (floors, loads, widths, satellites, slots, when a radio woke up) and the oscillator's \
     course but for its walk. Limit-learning: the same but for satellites, slots and wakings, and \
     the size and period of the oscillator's cycles in place of their course. The bound of each is \
     the standard deviation that it states.";

/// The name of all technologies together.
const ALL: &str = "all";

/// Technology as shown: its name and its days.
type Group<'a> = (&'static str, Vec<&'a Line>);

/// Median, 90 % and worst.
fn three(values: &[f64]) -> [f64; 3] {
    [0.5, 0.9, 1.0].map(|q| quantile(values, q))
}

/// The deviation of the best of those that the clock of this number is compared with.
fn best_other(line: &Line, clock: usize, plan: &Plan) -> f64 {
    let others = plan.others(clock).filter_map(|other| line.clocks.get(other));
    let best = others.map(|judged| judged.deviation_us).filter(|d| d.is_finite());
    best.fold(f64::INFINITY, f64::min)
}

/// The deviation of the clock of this number over that of the best of those it is compared with.
fn ratio(line: &Line, clock: usize, plan: &Plan) -> f64 {
    deviation(line, clock) / best_other(line, clock, plan)
}

/// The deviation of the clock of this number, µs.
fn deviation(line: &Line, clock: usize) -> f64 {
    line.clocks.get(clock).map_or(f64::NAN, |judged| judged.deviation_us)
}

/// A figure of the clock of this number on each of the days.
fn figures(lines: &[&Line], clock: usize, of: impl Fn(&Judged) -> f64) -> Vec<f64> {
    lines.iter().filter_map(|line| line.clocks.get(clock).map(&of)).collect()
}

fn sum(lines: &[&Line], clock: usize, of: impl Fn(&Judged) -> usize) -> usize {
    lines.iter().filter_map(|line| line.clocks.get(clock).map(&of)).sum()
}

fn held_hours(lines: &[&Line], clock: usize) -> f64 {
    figures(lines, clock, |j| j.held_s).iter().fold(0.0, |sum, held_s| sum + held_s / 3600.0)
}

fn groups(lines: &[Line]) -> Vec<Group<'_>> {
    let of = |technology: Technology| {
        let own = lines.iter().filter(|line| line.day.technology == technology).collect();
        (technology.name(), own)
    };
    let all = (ALL, lines.iter().collect());
    let mut groups: Vec<Group<'_>> = Technology::ALL.into_iter().map(of).collect();
    groups.retain(|(_, lines): &Group<'_>| !lines.is_empty());
    if groups.len() > 1 {
        groups.push(all);
    }
    groups
}

/// Goals and tables.
pub fn outcome(plan: &Plan, lines: &[Line]) -> Outcome {
    let groups = groups(lines);
    let mut outcome = Outcome {
        name: "drawn",
        title: "Drawn paths".to_owned(),
        about: about(plan),
        ..Outcome::default()
    };
    if !plan.without.is_empty() {
        let parts = plan.without.join(", ");
        outcome.about.push(format!("The model of ours lacks parts here: {parts}."));
    }
    for clock in 0..plan.judged {
        outcome.about.push(weak(plan, &groups, clock));
        outcome.goals.extend(goals(plan, lines, &groups, clock));
        outcome.grids.push(deviations(plan, &groups, clock));
        outcome.grids.push(trust(plan, &groups, clock));
        outcome.grids.push(worst(plan, lines, clock));
    }
    outcome.grids.push(others(plan, &groups));
    if lines.iter().any(|line| !line.limits.is_empty()) {
        outcome.about.push(LIMIT.to_owned());
        outcome.grids.extend((0..plan.judged).map(|clock| limits(plan, &groups, clock)));
    } else if plan.limit {
        outcome.about.push("No limits: the laws of delays of these days are not told.".to_owned());
    }
    outcome
}

fn about(plan: &Plan) -> Vec<String> {
    let first = plan.days.first();
    let (seed, poll, hours) =
        first.map_or((0, 0, 0.0), |day: &Day| (day.seed, day.poll, day.seconds / 3600.0));
    vec![
        format!(
            "{} path-days of seed {seed}, {hours} h each, poll {poll} s, each request up to a 64th \
             of that early, as the daemon's. Each is one technology, \
             its parameters drawn from ranges, with an oscillator within 0.5 ppm, one server that \
             is always right, loads by the hour, changes of route, of cells and of satellites. \
             One day by itself: `truechimer-lab simulate drawn --seed {seed} --day N`.",
            plan.days.len(),
        ),
        "Errors are clock − truth once a second, without the first two hours. Deviation: the \
         standard deviation of the error over the day, without its constant part, which the path's \
         asymmetry hides from every clock. All clocks see the same packets. The best other is the \
         best of published, ntp-pll and pi on that day, whichever that is. Three figures in a cell \
         are the median of the days, what 90 % of them have at most, and the worst."
            .to_owned(),
        "Held off: the estimator refused the server, which is right, as one that had stepped. At \
         route, queue, satellite, nothing: reports that the path had changed, by what had \
         happened in the half hour before; a standing queue's begin and end and another satellite \
         are no changes of route. Floor moved: another least round trip that was told without \
         saying so, as it is shorter or has changed by as much within a day. Found: longer routes \
         and farther cells that were reported within half an hour. Bound: the day's median, over half the best round trip since the \
         route changed, root distance and stamp error."
            .to_owned(),
    ]
}

/// Where the clock of this number is weakest, in words.
fn weak(plan: &Plan, groups: &[Group<'_>], clock: usize) -> String {
    let title = plan.clocks.get(clock).map_or("", |kind| kind.name());
    let most = |of: &dyn Fn(&[&Line]) -> f64, least: f64, unit: &str| {
        let technologies = groups.iter().filter(|(group, _)| *group != ALL);
        let mut found: Vec<(f64, &str)> =
            technologies.map(|(group, lines)| (of(lines), *group)).collect();
        found.retain(|(figure, _)| *figure > least);
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        // Counts are whole.
        let show = |figure: f64| match figure.fract() {
            0.0 => format!("{figure:.0}"),
            _ => screen::number(figure),
        };
        let words =
            found.iter().map(|(figure, group)| format!("{group} ({}{unit})", show(*figure)));
        let words: Vec<String> = words.collect();
        if words.is_empty() { "nowhere".to_owned() } else { words.join(", ") }
    };
    let held = most(&|lines| sum(lines, clock, |j| j.held + j.stepped) as f64, 0.0, "");
    let nothing = most(&|lines| sum(lines, clock, |j| j.reported.at_nothing) as f64, 0.0, "");
    let outside = most(&|lines| sum(lines, clock, |j| j.outside_s) as f64, 0.0, " s");
    let median = |lines: &[&Line]| median(lines.iter().map(|line| ratio(line, clock, plan)));
    let deviation = most(&median, SHARE, " ×");
    format!(
        "Where {title} falls short. The truth was outside the bound: {outside}. The server, which \
         is right, was held off or a step of its followed: {held}. \"Path changed\" at nothing: \
         {nothing}. Median deviation above half of the best other's: {deviation}."
    )
}

fn goals(plan: &Plan, lines: &[Line], groups: &[Group<'_>], clock: usize) -> Vec<Goal> {
    let all: Vec<&Line> = lines.iter().collect();
    let title = plan.clocks.get(clock).map_or("", |kind| kind.name());
    let days = |bad: &dyn Fn(&Judged) -> bool| {
        all.iter().filter(|line| line.clocks.get(clock).is_some_and(bad)).count()
    };
    let enough = |verdict: Verdict| match verdict {
        Verdict::Met if all.len() < ENOUGH_DAYS => {
            Verdict::Open(format!("{} path-days, and it takes {ENOUGH_DAYS}", all.len()))
        }
        verdict => verdict,
    };
    let counted = |what: &str, wanted: &str, measured: String, bad: usize| Goal {
        name: format!("{title}: {what}"),
        wanted: wanted.to_owned(),
        measured,
        verdict: enough(Verdict::of(bad == 0)),
    };
    let outside = sum(&all, clock, |j| j.outside_s);
    let promised = sum(&all, clock, |j| j.promised_s);
    let mut bound = counted(
        "truth inside the bound",
        "every second",
        format!("{outside} of {promised} seconds outside, on {} days", days(&|j| j.outside_s > 0)),
        outside,
    );
    let held = sum(&all, clock, |j| j.held + j.stepped);
    let hours = held_hours(&all, clock);
    let mut hold_offs = counted(
        "honest servers held off, or steps of theirs followed",
        "0 times at 16 s",
        format!("{held} times on {} days, {hours:.1} h", days(&|j| j.held + j.stepped > 0)),
        held,
    );
    if plan.days.iter().any(|day| day.poll != JUDGED_POLL) {
        hold_offs.verdict = Verdict::Open("judged at a poll of 16 s".to_owned());
    }
    let at_nothing = sum(&all, clock, |j| j.reported.at_nothing);
    let reports = counted(
        "\"path changed\" where it did not",
        "0 times",
        format!("{at_nothing} times on {} days", days(&|j| j.reported.at_nothing > 0)),
        at_nothing,
    );
    let is_bounded = plan.clocks.get(clock).is_some_and(|kind| kind.is_bounded());
    if !is_bounded {
        bound.verdict = Verdict::Open("its bound is no promise".to_owned());
    }
    let mut goals = vec![bound, hold_offs, reports];
    for (group, lines) in groups {
        let ratios: Vec<f64> = lines.iter().map(|line| ratio(line, clock, plan)).collect();
        let interval = Interval::of(&ratios);
        let goal = Goal::at_most(&format!("{title}: deviation, {group}"), SHARE, &interval);
        let measured = goal.measured.replace("round", "day");
        goals.push(Goal { measured, verdict: enough(goal.verdict), ..goal });
    }
    goals
}

fn deviations(plan: &Plan, groups: &[Group<'_>], clock: usize) -> Grid {
    let title = plan.clocks.get(clock).map_or("", |kind| kind.name());
    let mut head = vec![String::new(), "days".to_owned(), title.to_owned()];
    let others = || plan.others(clock);
    head.extend(others().filter_map(|other| Some(plan.clocks.get(other)?.name().to_owned())));
    head.push(format!("{title} ÷ best other"));
    let caption = format!("Standard deviation of the error of {title}, µs");
    let mut grid = Grid::new(&caption, head);
    for (group, lines) in groups {
        let mut row = vec![(*group).to_owned(), lines.len().to_string()];
        for clock in std::iter::once(clock).chain(others()) {
            row.push(slashes(&figures(lines, clock, |j| j.deviation_us)));
        }
        let ratios: Vec<f64> = lines.iter().map(|line| ratio(line, clock, plan)).collect();
        row.push(slashes(&ratios));
        grid.row(row);
    }
    grid
}

fn trust(plan: &Plan, groups: &[Group<'_>], clock: usize) -> Grid {
    let title = plan.clocks.get(clock).map_or("", |kind| kind.name());
    let caption = format!("What {title} believed, and its bound");
    let head = [
        "",
        "outside, s",
        "held off",
        "on days",
        "h",
        "steps followed",
        "at route",
        "at queue",
        "at satellite",
        "at nothing",
        "on days",
        "floor moved",
        "found",
        "bound ÷ causal",
    ];
    let mut grid = Grid::new(&caption, head);
    for (group, lines) in groups {
        let sum = |of: &dyn Fn(&Judged) -> usize| sum(lines, clock, of);
        let days = |of: &dyn Fn(&Judged) -> bool| sum(&|j| usize::from(of(j))).to_string();
        let held_h = held_hours(lines, clock);
        grid.row([
            (*group).to_owned(),
            sum(&|j| j.outside_s).to_string(),
            sum(&|j| j.held).to_string(),
            days(&|j| j.held > 0),
            format!("{held_h:.1}"),
            sum(&|j| j.stepped).to_string(),
            sum(&|j| j.reported.at_route).to_string(),
            sum(&|j| j.reported.at_queue).to_string(),
            sum(&|j| j.reported.at_satellite).to_string(),
            sum(&|j| j.reported.at_nothing).to_string(),
            days(&|j| j.reported.at_nothing > 0),
            sum(&|j| j.floors_moved).to_string(),
            format!("{} of {}", sum(&|j| j.found), sum(&|j| j.longer)),
            slashes(&figures(lines, clock, |j| j.bound_ratio)),
        ]);
    }
    grid
}

/// RMS and largest error of every clock.
fn others(plan: &Plan, groups: &[Group<'_>]) -> Grid {
    let head = plan.clocks.iter().flat_map(|kind| {
        let name = kind.name();
        [format!("{name}, RMS"), format!("{name}, largest")]
    });
    let head = std::iter::once(String::new()).chain(head);
    let caption = "The error with its constant part, µs: RMS of the day, and the day's largest";
    let mut grid = Grid::new(caption, head);
    for (group, lines) in groups {
        let figures = |clock: usize| {
            [
                slashes(&figures(lines, clock, |j| j.rms_us)),
                slashes(&figures(lines, clock, |j| j.largest_us)),
            ]
        };
        let row = (0..plan.clocks.len()).flat_map(figures);
        grid.row(std::iter::once((*group).to_owned()).chain(row));
    }
    grid
}

/// The clock of this number beside the limits, on days that have them.
fn limits(plan: &Plan, groups: &[Group<'_>], clock: usize) -> Grid {
    let title = plan.clocks.get(clock).map_or("", |kind| kind.name());
    let mut head = ["", "told", "days"].map(str::to_owned).to_vec();
    head.extend([format!("{title} ÷ best other"), "limit ÷ best other".to_owned()]);
    head.extend([format!("days below {SHARE}"), format!("{title} ÷ limit")]);
    head.push("rms ÷ stated, at most".to_owned());
    let mut grid = Grid::new("Limits: deviation, medians of the days", head);
    let each =
        groups.iter().flat_map(|group| LIMITS.into_iter().enumerate().map(move |l| (group, l)));
    for ((group, lines), (limit, told)) in each {
        let days: Vec<(&Line, &Judged)> =
            lines.iter().filter_map(|line| Some((*line, line.limits.get(limit)?))).collect();
        if days.is_empty() {
            continue;
        }
        let of = |of: &dyn Fn(&Line, &Judged) -> f64| -> Vec<f64> {
            days.iter().map(|(line, judged)| of(line, judged)).collect()
        };
        let ours = of(&|line, _| ratio(line, clock, plan));
        let ratios = of(&|line, limit| limit.deviation_us / best_other(line, clock, plan));
        let over = of(&|line, limit| deviation(line, clock) / limit.deviation_us);
        let stated = of(&|_, limit| limit.rms_us / limit.bound_us);
        let below = ratios.iter().filter(|ratio| **ratio < SHARE).count();
        let mut row = vec![(*group).to_owned(), told.to_owned(), days.len().to_string()];
        row.extend([&ours, &ratios].map(|ratios| screen::number(quantile(ratios, 0.5))));
        row.extend([below.to_string(), screen::number(quantile(&over, 0.5))]);
        row.push(screen::number(quantile(&stated, 1.0)));
        grid.row(row);
    }
    grid
}

/// The days to look at first.
fn worst(plan: &Plan, lines: &[Line], clock: usize) -> Grid {
    let title = plan.clocks.get(clock).map_or("", |kind| kind.name());
    let caption = format!("The worst days of {title}, by deviation against the best other");
    let head = ["day", "", "deviation, µs", "÷ best other", "held off, s", "at nothing"];
    let mut grid = Grid::new(&caption, head);
    let mut order: Vec<(f64, &Line)> =
        lines.iter().map(|line| (ratio(line, clock, plan), line)).collect();
    order.retain(|(ratio, _)| ratio.is_finite());
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (ratio, line) in order.into_iter().take(WORST) {
        let Some(judged) = line.clocks.get(clock) else { continue };
        grid.row([
            line.day.number.to_string(),
            line.day.technology.name().to_owned(),
            screen::number(judged.deviation_us),
            screen::number(ratio),
            screen::number(judged.held_s),
            judged.reported.at_nothing.to_string(),
        ]);
    }
    grid
}

/// Median, 90 % and worst in one cell.
pub fn slashes(values: &[f64]) -> String {
    three(values).map(screen::number).join(" / ")
}

/// The page of the documentation.
pub fn page(outcome: &Outcome) -> String {
    let mut page = format!(
        "# Accuracy on drawn paths\n\nMade by `{}`\n(version {}); `make drawn` makes it anew. The \
         same seed gives the same figures, to the last digit.\n`ours` is [what the daemon \
         runs](../explanation/algorithm.md), here without the engine around it; `published`,\n`ntp-pll` and \
         `pi` are [described here](../explanation/published.md). [scenarios.md](../reference/scenarios.md#drawn-paths) says \
         how\nto look at one day.\n\n",
        program::line(),
        env!("CARGO_PKG_VERSION"),
    );
    let _ = write!(page, "{}\n## What is drawn\n", outcome.markdown());
    let _ = writeln!(
        page,
        "\nEach parameter has a random stream of its own, so that a new one changes no other. The\n\
         technologies take turns: day N is of number N modulo {}.\n",
        Technology::ALL.len(),
    );
    ranges(&mut page, "Every path-day", "line, loads, oscillator, host, server", &common_ranges());
    for technology in Technology::ALL {
        ranges(&mut page, technology.name(), technology.about(), &technology.ranges());
    }
    page
}

/// A table of ranges that something is drawn from.
pub fn ranges(page: &mut String, title: &str, about: &str, ranges: &[Range]) {
    let _ =
        writeln!(page, "### {title}\n\n{about}\n\n| | | drawn from | reason |\n|---|---|---|---|");
    for Range { name, unit, values, reason } in ranges {
        let values = match values {
            Values::Even(low, high) => format!("{} to {}", short(*low), short(*high)),
            Values::Log(low, high) => format!("{} to {}, log", short(*low), short(*high)),
            Values::OneOf(values) => {
                let values: Vec<String> = values.iter().map(|v| short(*v)).collect();
                format!("one of {}", values.join(", "))
            }
        };
        let _ = writeln!(page, "| {name} | {unit} | {values} | {reason} |");
    }
    page.push('\n');
}

/// A number as people write it.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (1e-3..1e5).contains(&size) => {
            let text = format!("{value:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => format!("{value:.2e}"),
    }
}
