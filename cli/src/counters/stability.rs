//! `truechimer counters stability`: how stable a counter is, over all time scales.

mod section;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;
use truechimer_counter::Choice;
use truechimer_report::{Page, Unit};
use truechimer_survey::analysis::{self, Minimum, Removal, Taus, write_row};
use truechimer_survey::stability::{self, Against, Progress, Setup, Stability, analyse_file};
use truechimer_survey::stress::{Phases, Stress};
use truechimer_time::Span;

use super::bench::grouped;
use super::stress;
use crate::run;
use truechimer_command::output::{ready, save_report};
use truechimer_command::report::{self, Watch};
use truechimer_command::show::{frequency, json, wrapped};
use truechimer_command::signals;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome, parse};

pub use section::section;

/// Interval at which an NTP server is asked unless the user says otherwise, s: servers are
/// somebody's.
const NTP_INTERVAL_S: f64 = 16.0;
/// Lines of progress where there is no terminal: as many, and not more often than that.
const LINES: f64 = 10.0;
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Options of `truechimer counters stability`.
#[derive(Args, Debug)]
#[command(after_help = "\
The phase is the counter - the reference, positive = the counter is ahead, both 0 at the first
sample and each count lasting what it lasts nominally. Of the phases come the Allan deviation and
its kin (NIST Special Publication 1065) and the noise that they show.

References:
  raw                CLOCK_MONOTONIC_RAW. On most PCs it is made of the TSC: then only the noise of
                     reading the two shows, which is said
  realtime           CLOCK_REALTIME: as steered by whoever keeps it
  ntp:HOST[:PORT]    single NTP exchanges: at short times the network's noise shows
  pps[:PATH]         pulses per second, by the kernel's stamps: a device (/dev/pps0 unless it is
                     named), or a plain file as /sys/class/pps/pps0/assert
  phc[:PATH]         a network card's PTP clock (/dev/ptp0)
  counter:NAME       another counter of this machine
  file:PATH          nothing is measured: this phase file is analysed, as others write them, too

Phase files have a phase in seconds a line, or seconds and a phase; '# tau0: 1' says how far they
are apart, 'nan' is a gap. Stable32 and allantools read what --phase-file writes.

Columns:
  tau      the averaging time
  adev     the overlapping Allan deviation, and between which limits the true one is
  mdev     the modified Allan deviation
  tdev     the time deviation
  noise    the dominant type; in brackets, that of a shorter tau (too few samples to tell)

The minimum of adev is where averaging stops helping: the scale tau* of feed-forward clocks.

Examples:
  truechimer counters stability --duration 1min
  truechimer counters stability --against ntp:ntp.example.org --duration 12h --log day.phase
  truechimer counters stability --against ntp:ntp.example.org --duration 12h --log day.phase \\
      --resume
  truechimer counters stability --against pps --duration 1h --report pps.html
  truechimer counters stability --against realtime --stress all --phase 30s --duration 6min
  truechimer counters stability --against file:day.phase --taus decade --json

Spans of time are written 500ms, 10s, 5min, 1h or 2d.

Exit status: 0 (also if interrupted, or if the reference was lost or set in the middle: with what
there was by then, which it says), 2 on an error.")]
pub struct Options {
    /// The counter to measure, as 'truechimer counters list' names it
    #[arg(long, value_name = "NAME", default_value = "auto")]
    #[arg(value_parser = run::counter(), hide_possible_values = true)]
    pub counter: Choice,
    /// Reference that it is compared with; see below
    #[arg(long, value_name = "REFERENCE", default_value = "raw")]
    pub against: Against,
    /// Time to measure
    #[arg(long, value_name = "SPAN", default_value = "10min", value_parser = duration)]
    pub duration: Duration,
    /// Between samples, 1ms to 1h [default: 1s; with NTP 16s; of a file, what it says]
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    pub interval: Option<Duration>,
    /// Of so many NTP exchanges at a time, the one with the shortest round trip counts
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=8))]
    pub best_of: u32,
    /// Write every sample to FILE as it comes
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Go on with that log: same counter, reference, interval and boot
    #[arg(long, requires = "log")]
    pub resume: bool,
    /// Which loads alternate with quiet: none, cpu, net or all
    #[arg(long, value_name = "LOAD", default_value = "none")]
    #[arg(value_parser = stress(), hide_possible_values = true)]
    pub stress: Stress,
    /// Length of each phase of the load
    #[arg(long, value_name = "SPAN", default_value = "1min", value_parser = duration)]
    pub phase: Duration,
    /// Which averaging times: octave, decade or all
    #[arg(long, value_name = "LIST", default_value = "octave")]
    #[arg(value_parser = parse::one_of(["octave", "decade", "all"], Taus::from_str), hide_possible_values = true)]
    pub taus: Taus,
    /// Part to take away first: none, offset (of the frequency) or drift (and offset)
    #[arg(long, value_name = "WHAT", default_value = "offset")]
    #[arg(value_parser = parse::one_of(["none", "offset", "drift"], Removal::from_str), hide_possible_values = true)]
    pub remove: Removal,
    /// Leave out single samples that are far off (5 median deviations)
    #[arg(long)]
    pub drop_spikes: bool,
    /// Probability that the limits enclose the true deviation, 0.5 to 0.999
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = confidence)]
    pub confidence: f64,
    /// Print one JSON object; times end in _s, deviations are ratios
    #[arg(long)]
    pub json: bool,
    /// Write a report to FILE: one HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the phases to FILE, evenly spaced, for other programs
    #[arg(long, value_name = "FILE")]
    pub phase_file: Option<PathBuf>,
}

impl Options {
    fn analysis(&self) -> analysis::Options {
        analysis::Options {
            taus: self.taus,
            removal: self.remove,
            confidence: self.confidence,
            drop_spikes: self.drop_spikes,
        }
    }

    fn setup(&self) -> Setup {
        let usual = if matches!(self.against, Against::Ntp(..)) { NTP_INTERVAL_S } else { 1.0 };
        let best_of = if matches!(self.against, Against::Ntp(..)) { self.best_of } else { 1 };
        Setup {
            counter: self.counter,
            against: self.against.clone(),
            interval_s: self.interval.map_or(usual, |interval| interval.as_secs_f64()),
            duration: self.duration,
            best_of,
            phases: Phases { stress: self.stress, each: self.phase },
            log: self.log.clone(),
            resume: self.resume,
            options: self.analysis(),
        }
    }
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    for path in [&options.report, &options.phase_file].into_iter().flatten() {
        ready(path)?;
    }
    let clock = Watch::usual();
    let found = match &options.against {
        Against::File(path) => {
            if options.log.is_some() || options.stress != Stress::None {
                let why = "a phase file is analysed, not measured: --log and --stress mean nothing";
                return Err(Failure::Said(why.into()));
            }
            let interval_s = options.interval.map(|interval| interval.as_secs_f64());
            analyse_file(path, interval_s, &options.analysis())
                .map_err(|why| Failure::Said(why.to_string()))?
        }
        _ => measure(&options.setup(), &*signals::stop()?)?,
    };
    if let Some(path) = &options.phase_file {
        write_phases(&found, path).map_err(|why| Failure::new(path.display(), why))?;
    }
    if options.json {
        writeln!(out, "{}", json(&found)?)?;
    } else {
        write(&found, out)?;
    }
    if let Some(path) = &options.report {
        save_report(path, &page(&found).fact("clock", &clock.told()))?;
    }
    Ok(Outcome::Good)
}

/// Measures, and says on standard error how far it is.
pub fn measure(setup: &Setup, stop: &AtomicBool) -> Result<Stability, Failure> {
    let mut teller = Teller::new();
    let found = stability::measure(setup, stop, &mut |progress| {
        // There is nobody to tell if that fails.
        let _ = teller.tell(progress);
    });
    let _ = teller.end();
    found.map_err(|why| Failure::Said(why.to_string()))
}

/// Says on standard error how far it is: on a terminal in one line, else in lines now and then.
struct Teller {
    terminal: bool,
    told: Option<Instant>,
    share: f64,
}

impl Teller {
    fn new() -> Teller {
        let terminal = io::stderr().is_terminal();
        // Whoever does not wait long is told nothing.
        Teller { terminal, told: (!terminal).then(Instant::now), share: 0.0 }
    }

    fn tell(&mut self, progress: &Progress) -> io::Result<()> {
        let text = format!(
            "{} of {}: {} samples, phase {}",
            short((progress.elapsed_s * 10.0).round() / 10.0),
            short(progress.duration_s),
            progress.samples,
            Unit::Seconds.show(progress.phase_s, 4)
        );
        let mut stderr = io::stderr().lock();
        let since = self.told.map(|told| told.elapsed());
        if self.terminal {
            if since.is_none_or(|since| since > Duration::from_millis(100)) {
                self.told = Some(Instant::now());
                write!(stderr, "\r\x1b[K{text}")?;
                stderr.flush()?;
            }
        } else if since.is_none_or(|since| since >= LINE_EVERY)
            && progress.elapsed_s >= self.share * progress.duration_s
        {
            let tenths = (progress.elapsed_s / progress.duration_s.max(1e-9) * LINES).floor();
            (self.told, self.share) = (Some(Instant::now()), (tenths + 1.0) / LINES);
            writeln!(stderr, "{text}")?;
        }
        Ok(())
    }

    fn end(&self) -> io::Result<()> {
        if self.terminal && self.told.is_some() {
            write!(io::stderr(), "\r\x1b[K")?;
        }
        Ok(())
    }
}

/// A page of its own.
fn page(found: &Stability) -> Page {
    let mut page = report::page(&format!("Stability of {}", subject(found)));
    if let Some(first) = found.analysis.points.first() {
        let name = format!("Allan deviation at {}", short(first.tau_s));
        page = page.highlight(&name, ratio(first.adev));
    }
    if let Some(least) = found.analysis.minimum {
        let name = format!("least Allan deviation, at {}", short(least.tau_s));
        page = page.highlight(&name, ratio(least.deviation));
    }
    page = page.highlight("samples", grouped(found.analysis.samples as u64));
    page.section(section(found))
}

fn write_phases(found: &Stability, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(truechimer_files::create(path, 0o666)?);
    writeln!(out, "# truechimer phase file: {}, phase in seconds", subject(found))?;
    if let Some(counter) = &found.counter {
        writeln!(out, "# counter: {counter}")?;
    }
    writeln!(out, "# reference: {}", found.reference)?;
    writeln!(out, "# tau0: {}", found.analysis.interval_s)?;
    for phase in &found.phase {
        write_row(&mut out, None, *phase)?;
    }
    out.flush()
}

/// The counter and its reference.
fn subject(found: &Stability) -> String {
    match &found.counter {
        Some(counter) => format!("{counter} against {}", found.reference),
        None => found.reference.clone(),
    }
}

/// The terminal's view.
fn write(found: &Stability, out: &mut dyn Write) -> io::Result<()> {
    for line in summary(found) {
        wrapped(&line, "  ", out)?;
    }
    let analysis = &found.analysis;
    if !analysis.points.is_empty() {
        writeln!(out)?;
        table(analysis).write(out)?;
    }
    writeln!(out)?;
    for line in verdict(found) {
        wrapped(&line, "  ", out)?;
    }
    if let Some(stressed) = &found.stressed {
        writeln!(out, "\nfrequency under load, in ppm from its mean:")?;
        let right = ["intervals", "mean", "median", "sd", "min", "max"].map(|n| (n, Side::Right));
        let mut table = Table::new(&[&[("load", Side::Left)][..], &right[..]].concat());
        for of in &stressed.loads {
            let ppm = [of.mean_ppm, of.median_ppm, of.deviation_ppm, of.min_ppm, of.max_ppm];
            let mut row = vec![of.load.to_string(), of.intervals.to_string()];
            row.extend(ppm.map(|ppm| format!("{ppm:.4}")));
            table.row(row);
        }
        table.write(out)?;
    }
    if !found.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &found.notes {
        wrapped(note, "", out)?;
    }
    Ok(())
}

fn table(analysis: &analysis::Analysis) -> Table {
    let limits = format!("{} % limits", rounded(analysis.confidence * 100.0));
    let mut table = Table::new(&[
        ("tau", Side::Right),
        ("adev", Side::Right),
        (&limits, Side::Left),
        ("mdev", Side::Right),
        ("tdev", Side::Right),
        ("noise", Side::Left),
    ]);
    for point in &analysis.points {
        let noise = match point.noise {
            Some(noise) if point.identified => noise.short().to_owned(),
            Some(noise) => format!("({})", noise.short()),
            None => "-".into(),
        };
        let optional = |value: Option<f64>| value.map_or_else(|| "-".into(), ratio);
        table.row(vec![
            short(point.tau_s),
            ratio(point.adev),
            format!("{} {}", ratio(point.adev_limits.low), ratio(point.adev_limits.high)),
            optional(point.mdev),
            point.tdev_s.map_or_else(|| "-".into(), |s| Unit::Seconds.show(s, 3)),
            noise,
        ]);
    }
    table
}

/// Summary of what was measured.
fn summary(found: &Stability) -> Vec<String> {
    let analysis = &found.analysis;
    let nominal = found.nominal_hz.map(|hz| format!(" (nominally {})", frequency(hz)));
    let mut said = vec![
        format!("{}{}", subject(found), nominal.unwrap_or_default()),
        format!(
            "{} samples {} apart, over {}; {} missing{}",
            analysis.samples,
            short(analysis.interval_s),
            short(analysis.span_s),
            analysis.missing,
            if found.ended_early { "; ended early" } else { "" }
        ),
    ];
    if let Some(reading) = found.reading_s {
        said.push(format!("each read to within ± {} (median)", Unit::Seconds.show(reading, 3)));
    }
    if let Some(ntp) = &found.exchanges {
        said.push(format!(
            "{} requests, {} answered, {} of them with kernel stamps on both packets; round trips \
             of the samples {} at least, {} (median)",
            ntp.sent,
            ntp.answered,
            ntp.kernel_stamped,
            Unit::Seconds.show(ntp.round_trip_min_s, 3),
            Unit::Seconds.show(ntp.round_trip_median_s, 3)
        ));
    }
    if let Some(trend) = &analysis.trend {
        // What a drift adds to the last deviation, if it is more than noise.
        let drift = trend.drift_per_s * analysis.span_s;
        let seen = analysis.points.last().is_some_and(|last| drift.abs() > 3.0 * last.adev);
        let drift = match seen {
            true => format!("drifting by {:+.3e} a day", trend.drift_per_s * 86_400.0),
            false => "no drift to be seen".to_owned(),
        };
        said.push(format!("frequency {:+.6} ppm from nominal, {drift}", trend.frequency * 1e6));
    }
    let outliers = &analysis.outliers;
    let (spikes, steps) = (outliers.spikes.len(), outliers.steps.len());
    if analysis.spikes_dropped && spikes > 0 {
        said.push(format!("{spikes} single samples far off, left out; {steps} steps"));
    } else if many_outliers(analysis) {
        let all = spikes + steps;
        said.push(format!(
            "{all} samples or steps far off: so many that they are part of the noise"
        ));
    } else if !outliers.is_empty() {
        said.push(format!("{spikes} single samples far off, {steps} steps"));
    }
    said
}

/// True if there are so many that they are none.
fn many_outliers(analysis: &analysis::Analysis) -> bool {
    let outliers = &analysis.outliers;
    (outliers.spikes.len() + outliers.steps.len()) * 20 > analysis.samples
}

/// Judgement by the deviations.
fn verdict(found: &Stability) -> Vec<String> {
    let analysis = &found.analysis;
    let mut said = Vec::new();
    let Some(least) = analysis.minimum else {
        said.push("no deviation above zero: too few samples, or phases that do not vary".into());
        return said;
    };
    if let Some(fit) = &analysis.fit {
        let levels: Vec<String> = fit
            .levels
            .iter()
            .map(|level| {
                let percent = level.relative_error * 100.0;
                format!("{} {} ± {percent:.0} %", level.noise.name(), ratio(level.deviation_1s))
            })
            .collect();
        said.push(format!("noise, as its share of adev at 1 s: {}", levels.join(", ")));
    }
    let at = |minimum: Minimum| format!("{} at {}", ratio(minimum.deviation), short(minimum.tau_s));
    let fitted = match analysis.fitted_minimum {
        Some(minimum) => format!("; by the fit {}", at(minimum)),
        None => String::new(),
    };
    let beyond = if analysis.still_falling {
        ", the longest tau that there is: the true minimum may be further on"
    } else {
        ""
    };
    said.push(format!("least adev: {}{beyond}{fitted}", at(least)));
    said
}

/// A ratio, as the field writes it.
fn ratio(value: f64) -> String {
    format!("{value:.2e}")
}

/// A time in the unit that fits.
fn short(seconds: f64) -> String {
    if seconds < 1.0 { Unit::Seconds.show(seconds, 3) } else { format!("{} s", rounded(seconds)) }
        .replace('\u{a0}', " ")
}

/// To three decimals, without zeros at the end.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// `1.5s`, `10min`, `1h`, `2d`.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("min", 60.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let long = units.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?.trim().parse::<f64>().ok()?;
        Some(number * seconds)
    });
    let seconds = match long {
        Some(seconds) => seconds,
        None => {
            let hint = |_| "a span of time is written 500ms, 10s, 5min, 1h or 2d".to_owned();
            text.parse::<Span>().map_err(hint)?.as_nanos() as f64 * 1e-9
        }
    };
    // A century is longer than anybody waits, and far from any overflow.
    match Duration::try_from_secs_f64(seconds) {
        Ok(span) if !span.is_zero() && seconds < 3.2e9 => Ok(span),
        _ => Err("must be more than zero, and less than a century".into()),
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|p: &f64| (0.5..=0.999).contains(p));
    value.ok_or_else(|| "must be from 0.5 to 0.999".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        for (text, seconds) in [
            ("10min", 600.0),
            ("1h", 3600.0),
            ("1.5d", 129_600.0),
            ("250ms", 0.25),
            ("2s", 2.0),
            ("3m", 180.0),
        ] {
            assert_eq!(duration(text).unwrap(), Duration::from_secs_f64(seconds), "{text}");
        }
        for text in ["", "10", "0s", "-1s", "nanh", "infd", "1e300d", "1 fortnight", "h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_read_well() {
        for (seconds, text) in [(1.0, "1 s"), (0.25, "250 ms"), (4096.0, "4096 s"), (1.5, "1.5 s")]
        {
            assert_eq!(short(seconds), text);
        }
    }
}
