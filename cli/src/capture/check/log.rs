//! The clock log: what the clocks that stamp show beside true time.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use truechimer::{Clock, Reading, Span};
use truechimer_capture::hardware::{claims, read_clock};
use truechimer_command::clock::{self, Page};
use truechimer_command::{Failure, show};
use truechimer_scale::log::{HEADER, line};

/// Time between readings.
const EVERY: Duration = Duration::from_millis(100);
/// Readings of which one is taken.
const TRIES: usize = 4;

/// A log under way.
pub struct Log {
    clock: Clock,
    file: BufWriter<File>,
    name: String,
    card: Option<File>,
    /// Widest interval of a line, ns.
    widest: u64,
}

impl Log {
    /// Begins; the card's clock is taken in if the interface has one that can be opened.
    pub fn create(path: &Path, page: &Page, interface: &str) -> Result<Log, Failure> {
        let name = path.display().to_string();
        let failed = |why: io::Error| Failure::new(&name, why);
        let clock = clock::open(page)?;
        let mut file = BufWriter::new(truechimer_files::create(path, 0o666).map_err(failed)?);
        writeln!(file, "{HEADER}").map_err(failed)?;
        let number = claims(interface).ok().and_then(|claims| claims.clock);
        let card = number.and_then(|number| File::open(format!("/dev/ptp{number}")).ok());
        Ok(Log { clock, file, name, card, widest: 0 })
    }

    /// Writes until it is over; says what was written.
    pub fn keep(&mut self, over: &AtomicBool) -> Result<String, Failure> {
        let (mut system, mut card) = (0u64, 0u64);
        while !over.load(Ordering::Relaxed) {
            system += self.put("system", narrowest(&self.clock, system_clock))?;
            if let Some(device) = &self.card {
                card += self.put("card", narrowest(&self.clock, || read_clock(device).ok()))?;
            }
            std::thread::sleep(EVERY);
        }
        self.file.flush().map_err(|why| Failure::new(&self.name, why))?;
        if system == 0 {
            return Ok(format!("{}: nothing written, as the clock promised nothing", self.name));
        }
        Ok(format!(
            "{}: {system} readings of the system clock, {card} of the card's, each with true time \
             to within {} or less",
            self.name,
            show::nanos(self.widest)
        ))
    }

    /// Writes a line, if there is one; how many it wrote.
    fn put(&mut self, kind: &str, anchor: Option<(i64, i64, i64)>) -> Result<u64, Failure> {
        let Some(anchor) = anchor else { return Ok(0) };
        self.widest = self.widest.max(anchor.2.abs_diff(anchor.1));
        let written = writeln!(self.file, "{}", line(kind, anchor));
        written.map(|()| 1).map_err(|why| Failure::new(&self.name, why))
    }
}

/// The best of some readings: the scheduler may come between any of them.
fn narrowest(clock: &Clock, read: impl Fn() -> Option<i64>) -> Option<(i64, i64, i64)> {
    let readings = (0..TRIES).filter_map(|_| beside(clock, &read));
    readings.min_by_key(|(_, earliest, latest)| latest.abs_diff(*earliest))
}

/// A clock's reading, and true time then: not before the earliest of just before, nor after the
/// latest of just after. `None` while the clock promises nothing.
fn beside(clock: &Clock, read: impl FnOnce() -> Option<i64>) -> Option<(i64, i64, i64)> {
    let known = |reading: Reading| reading.status.bound_holds().then_some(reading);
    let before = known(clock.now().ok()?)?;
    let shown = read()?;
    let after = known(clock.now().ok()?)?;
    let nanos = |span: Span| i64::try_from(span.as_nanos()).ok()?.checked_add(1);
    let best = |reading: &Reading| i64::try_from(reading.utc().unix_nanos()).ok();
    let earliest = best(&before)?.checked_sub(nanos(before.best - before.earliest)?)?;
    let latest = best(&after)?.checked_add(nanos(after.latest - after.best)?)?.checked_add(1)?;
    Some((shown, earliest, latest))
}

/// System clock, ns since 1970.
fn system_clock() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}
