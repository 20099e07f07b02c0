//! Words on it all.

use std::io::{self, Write};

use serde::Serialize;
use truechimer_capture::Counted;
use truechimer_pcapng::Torn;
use truechimer_pcapng::records::{self, Quality};
use truechimer_time::Utc;

use truechimer_command::Failure;
use truechimer_command::show;

use super::others::{Account, Others};
use super::scan::{Found, Scanned};
use super::stamper::{Anew, Stampers};

/// A line for each packet.
pub struct List {
    json: bool,
    number: u64,
}

/// A packet, as JSON.
#[derive(Serialize)]
struct Row<'a> {
    packet: u64,
    unix_ns: Option<i64>,
    bound_ns: Option<u32>,
    quality: &'a str,
    method: &'a str,
    later_ns: i64,
    count: Option<u64>,
    count_error: Option<i64>,
    epoch: Option<u32>,
    hand: Option<u64>,
}

impl List {
    /// Nothing yet.
    pub fn new(json: bool) -> List {
        List { json, number: 0 }
    }

    /// The line of a packet, whose time in the file is `before`.
    pub fn packet(
        &mut self,
        before: Option<i64>,
        anew: Option<&Anew>,
        found: &Found,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        self.number += 1;
        let record = anew.map(|anew| anew.record);
        let unix_ns = anew.map(|anew| anew.unix_ns).or(before);
        let counted = record.and_then(|record| record.counted);
        let row = Row {
            packet: self.number,
            unix_ns,
            bound_ns: record.and_then(|record| record.bound_ns),
            quality: match record.map(|record| record.quality) {
                Some(Quality::Bounded) => "bounded",
                Some(Quality::Unsynchronised) => "unsynchronised",
                Some(Quality::Uncounted) => "uncounted",
                None if found.unknown > 0 => "later-version",
                None => "foreign",
            },
            method: record.map_or("-", |record| records::method_name(record.method)),
            later_ns: unix_ns.zip(before).map_or(0, |(now, then)| now.saturating_sub(then)),
            count: counted.map(|(count, _, _)| count.0),
            count_error: counted.map(|(_, error, _)| error.0),
            epoch: counted
                .map(|(.., epoch)| epoch)
                .filter(|e| *e != Counted::NO_EPOCH)
                .map(|e| e.0),
            hand: record.map(|record| record.generation).filter(|hand| *hand > 0),
        };
        if self.json {
            writeln!(out, "{}", show::json(&row)?)?;
            return Ok(());
        }
        if self.number == 1 {
            let heads = line("packet", "time (UTC)", "± bound", "quality", "method", "moved");
            writeln!(out, "{heads}  {:>20}  {:>5}  hand", "count", "epoch")?;
        }
        let or = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let moved = match row.later_ns {
            0 => "=".to_owned(),
            ns => {
                let sign = if ns < 0 { '-' } else { '+' };
                format!("{sign}{}", show::nanos(ns.unsigned_abs()))
            }
        };
        let front = line(
            &row.packet.to_string(),
            &row.unix_ns.map_or_else(|| "-".to_owned(), time),
            &row.bound_ns.map_or_else(|| "-".to_owned(), |ns| show::nanos(ns.into())),
            row.quality,
            row.method,
            &moved,
        );
        let (count, epoch) = (or(row.count), or(row.epoch.map(u64::from)));
        writeln!(out, "{front}  {count:>20}  {epoch:>5}  {}", or(row.hand))?;
        Ok(())
    }
}

/// The front of a line, and of what stands above it.
fn line(packet: &str, time: &str, bound: &str, quality: &str, method: &str, moved: &str) -> String {
    format!("{packet:>7}  {time:<30}  {bound:>10}  {quality:<14}  {method:<8}  {moved:>11}")
}

/// Outcome for the file.
#[derive(Serialize)]
pub struct Summary {
    packets: u64,
    recorded: u64,
    foreign: u64,
    restamped: u64,
    unbounded: u64,
    later_version: u64,
    bounded_before: u64,
    bounded: u64,
    changed: u64,
    kept: u64,
    contradicted: u64,
    median_shift_ns: Option<u64>,
    largest_shift_ns: Option<u64>,
    median_bound_before_ns: Option<u64>,
    largest_bound_before_ns: Option<u64>,
    median_bound_ns: Option<u64>,
    largest_bound_ns: Option<u64>,
    torn: Option<String>,
    notes: Vec<String>,
    /// Interfaces of others.
    others: Vec<Account>,
    output: Option<String>,
}

impl Summary {
    /// All there is to say.
    pub fn new(
        stampers: &Stampers,
        scanned: &Scanned,
        others: &Others,
        torn: Option<Torn>,
        output: Option<String>,
    ) -> Summary {
        let sum =
            |of: fn(&truechimer_capture::restamp::Report) -> u64| stampers.reports().map(of).sum();
        let mut notes: Vec<_> = stampers.reports().flat_map(|r| r.notes.clone()).collect();
        notes.extend_from_slice(others.notes());
        notes.dedup();
        Summary {
            packets: scanned.packets,
            recorded: scanned.recorded,
            foreign: stampers.foreign,
            restamped: stampers.restamped,
            unbounded: stampers.unbounded,
            later_version: scanned.unknown,
            bounded_before: stampers.before.count(),
            bounded: stampers.after.count(),
            changed: stampers.changed,
            kept: sum(|report| report.kept),
            contradicted: sum(|report| report.contradicted),
            median_shift_ns: stampers.shifts.quantile(0.5),
            largest_shift_ns: stampers.shifts.quantile(1.0),
            median_bound_before_ns: stampers.before.quantile(0.5),
            largest_bound_before_ns: stampers.before.quantile(1.0),
            median_bound_ns: stampers.after.quantile(0.5),
            largest_bound_ns: stampers.after.quantile(1.0),
            torn: torn.map(|torn| torn.to_string()),
            notes,
            others: others.accounts(),
            output,
        }
    }

    /// Writes it in words.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "packets   {}, of which {} bear a raw count's record",
            self.packets, self.recorded
        )?;
        match self.changed {
            0 => writeln!(out, "times     none changed")?,
            changed => writeln!(
                out,
                "times     {changed} changed, by about {} (median), {} at most",
                bound(self.median_shift_ns),
                bound(self.largest_shift_ns)
            )?,
        }
        for (title, many, median, largest) in [
            (
                "before  ",
                self.bounded_before,
                self.median_bound_before_ns,
                self.largest_bound_before_ns,
            ),
            ("after   ", self.bounded, self.median_bound_ns, self.largest_bound_ns),
        ] {
            match many {
                0 => writeln!(out, "{title}  no packet within a bound")?,
                many => writeln!(
                    out,
                    "{title}  {many} within a bound: about ± {} (median), ± {} at most",
                    bound(median),
                    bound(largest)
                )?,
            }
        }
        for (number, what) in [
            (self.kept, "kept their time, as no hand can be used for them"),
            (
                self.contradicted,
                "had hands that contradicted each other (a broken promise, or another clock's log): the bound covers all",
            ),
            (self.restamped, "of others have a time in UTC with a bound now"),
            (self.unbounded, "of others have no bound, and a record that says so"),
            (self.foreign, "bear no record of ours, and kept their time"),
            (self.later_version, "records are of a later version, and were left alone"),
        ] {
            if number > 0 {
                writeln!(out, "          {number} {what}")?;
            }
        }
        for account in &self.others {
            let words = format!("others    {}: {}", account.name(), account.words());
            show::wrapped(&words, "          ", out)?;
        }
        for note in &self.notes {
            show::wrapped(&format!("note      {note}"), "          ", out)?;
        }
        if let Some(torn) = &self.torn {
            show::wrapped(&format!("note      the file {torn}"), "          ", out)?;
        }
        match &self.output {
            Some(name) => writeln!(out, "written   {name}"),
            None => writeln!(out, "          nothing written; -o FILE writes it"),
        }
    }
}

fn bound(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), show::nanos)
}

fn time(unix_ns: i64) -> String {
    let nanos = unix_ns.rem_euclid(1_000_000_000) as u128;
    let frac = ((nanos << 64) / 1_000_000_000 + 1) as u64;
    show::utc(Utc { unix: unix_ns.div_euclid(1_000_000_000), frac, leap_second: false })
}
