//! Packets on their way up and down, from layer to layer.

mod answers;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use truechimer_capture::layers::{self as kernel, Journey};
use truechimer_qos::{At, Counted, DifferenceClock, Layer, Layered, Layers, LayersReport};
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

    /// Ends and reports.
    pub fn finish(mut self) -> Result<LayersReport, Failure> {
        self.look(Duration::ZERO)?;
        for journey in self.answers.finish() {
            self.layers.packet(&stamps(&journey, &mut self.origin_ns));
        }
        self.layers.finish();
        Ok(self.layers.report())
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
