//! Packets on their way up and down, from layer to layer.

mod answers;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use truechimer_capture::layers::{self as kernel, Journey, Unfollowed};
use truechimer_qos::{
    At, Counted, DifferenceClock, Layer, Layered, Layers, LayersReport, Note, Severity,
};
use truechimer_time::{Count, CountSpan, Epoch, Period, Rate};

use super::{Qos, nanos};
use answers::Answers;
use truechimer_command::Failure;

/// The kernel slews `CLOCK_MONOTONIC`, by which layers are stamped, by no more (500 ppm).
const SLEWED: Rate = Rate::from_ppb(500_000);

/// Watches the layers of interfaces.
pub struct Watch {
    taps: Vec<kernel::Layers>,
    layers: Layers,
    answers: Answers,
    /// Unix time when `CLOCK_MONOTONIC` began, ns: for the time axis of plots.
    origin_ns: Option<i64>,
}

impl Watch {
    /// Begins.
    pub fn open(args: &Qos) -> Result<Watch, Failure> {
        let taps = args.interface.iter().map(|interface| kernel::Layers::open(interface));
        let taps = taps.collect::<Result<_, _>>().map_err(|why| Failure::Said(why.to_string()))?;
        let mut layers =
            Layers::new(nanos(args.timeout), args.max_waiting, nanos(args.interval).max(1));
        layers.set_clock(Some(DifferenceClock { period: Period::NANOSECOND, error: SLEWED }));
        let answers = Answers::new(nanos(args.timeout), args.max_waiting);
        Ok(Watch { taps, layers, answers, origin_ns: None })
    }

    /// Takes what has come, or waits for it.
    pub fn look(&mut self, timeout: Duration) -> Result<(), Failure> {
        let (layers, origin, answers) = (&mut self.layers, &mut self.origin_ns, &mut self.answers);
        let share = timeout / u32::try_from(self.taps.len().max(1)).unwrap_or(1);
        for tap in &mut self.taps {
            let took = tap.next(share, |journey| {
                for whole in answers.see(journey) {
                    layers.packet(&stamps(&whole, origin));
                }
            });
            took.map_err(|why| Failure::Said(why.to_string()))?;
        }
        Ok(())
    }

    /// Reports on what came so far.
    pub fn report(&self) -> LayersReport {
        self.layers.report()
    }

    /// Ends and reports, with notes on what is not in the report.
    pub fn finish(mut self) -> Result<(LayersReport, Vec<Note>), Failure> {
        self.look(Duration::ZERO)?;
        for journey in self.answers.finish() {
            self.layers.packet(&stamps(&journey, &mut self.origin_ns));
        }
        self.layers.finish();
        let mut missing = Missing::default();
        for tap in &self.taps {
            missing.records += tap.lost().map_err(|why| Failure::Said(why.to_string()))?;
            let Unfollowed { unread, misfits, mixed, unsent } = tap.unfollowed();
            missing.up += unread + misfits;
            missing.mixed += mixed;
            missing.down += unsent;
        }
        Ok((self.layers.report(), missing.notes()))
    }
}

/// Counts of what the layers' figures leave out.
#[derive(Clone, Copy, Default)]
struct Missing {
    /// Records that found no room.
    records: u64,
    /// Packets that no program was seen to read.
    up: u64,
    /// Packets of which nobody can tell which thread read them.
    mixed: u64,
    /// Packets that were not seen to reach the driver.
    down: u64,
}

impl Missing {
    fn notes(self) -> Vec<Note> {
        let Missing { records, up, mixed, down } = self;
        let texts = [
            (
                Severity::Warning,
                records,
                "records of the kernel found no room: their packets are missing, or end early",
            ),
            (
                Severity::Note,
                up,
                "packets that came in were not seen to be read by a program, and are left out: \
                 forwarded, answered by the kernel, merged, dropped or still waiting",
            ),
            (
                Severity::Note,
                mixed,
                "packets are left out because several threads read their socket at once",
            ),
            (
                Severity::Note,
                down,
                "packets to be sent were not seen to reach the driver whole, and are left out: cut \
                 into several there, dropped in the queue or begun before",
            ),
        ];
        texts
            .into_iter()
            .filter(|(_, number, _)| *number > 0)
            .map(|(severity, number, text)| Note {
                severity,
                text: format!("layers: {number} {text}"),
            })
            .collect()
    }
}

fn stamps(journey: &Journey, origin: &mut Option<i64>) -> Vec<Layered> {
    let newest = journey.monotonic_ns.iter().flatten().max().copied().unwrap_or(0);
    // A packet is looked at within milliseconds: near enough for a plot.
    let origin = *origin.get_or_insert_with(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        now.saturating_sub(newest as i64)
    });
    let places = [
        (kernel::Layer::Driver, Layer::Driver),
        (kernel::Layer::Stack, Layer::Stack),
        (kernel::Layer::Socket, Layer::Socket),
        (kernel::Layer::Application, Layer::Application),
        (kernel::Layer::Send, Layer::Send),
        (kernel::Layer::Scheduler, Layer::Scheduler),
        (kernel::Layer::Transmit, Layer::Transmit),
        (kernel::Layer::Sent, Layer::Sent),
    ];
    let stamp = |(from, layer): (kernel::Layer, Layer)| {
        let ns = journey.at(from)?;
        Some(Layered {
            layer,
            at: At {
                unix_ns: origin.saturating_add_unsigned(ns),
                leap_free_ns: None,
                bound_ns: None,
            },
            counted: Some(Counted { count: Count(ns), error: CountSpan(1), epoch: Epoch(0) }),
        })
    };
    places.into_iter().filter_map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_told() {
        assert!(Missing::default().notes().is_empty());
        let notes = Missing { records: 5, up: 1, mixed: 2, down: 30 }.notes();
        let told: Vec<_> = notes.iter().map(|note| (note.severity, &note.text[..10])).collect();
        let (warning, note) = (Severity::Warning, Severity::Note);
        let all = ["layers: 5 ", "layers: 1 ", "layers: 2 ", "layers: 30"];
        assert_eq!(told, [(warning, all[0]), (note, all[1]), (note, all[2]), (note, all[3])]);
    }
}
