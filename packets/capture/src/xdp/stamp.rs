//! Source of a program's stamps, opened.

use std::sync::Arc;
use std::time::Duration;

use truechimer_counter::{Counter, nominal};
use truechimer_time::{CountSpan, CounterKind};

use super::chunk::Reading;
use super::program::Stamp;
use super::{StampAt, failed};
use crate::bpf::Tsc;
use crate::tap::TapError;

/// Packets that come fast are taken this late at the most.
const LATE: Duration = Duration::from_micros(200);
/// Most lateness where it is in the stamp. (Shorter sleeps end no earlier: the kernel lets them go
/// on by 50 µs.)
const LATE_AT_DEQUEUE: Duration = Duration::from_micros(20);

/// The stamp of a tap's life.
#[derive(Debug)]
pub(super) struct Source {
    at: StampAt,
    tsc: Option<Tsc>,
    pub reading: Arc<Reading>,
    /// |count − true count| is not above this because of how it was made.
    pub error: CountSpan,
    pub counter: Counter,
}

impl Source {
    pub fn open(at: StampAt, counter: Counter) -> Result<Source, TapError> {
        let plain = |reading| Source {
            at,
            tsc: None,
            reading: Arc::new(reading),
            error: CountSpan(0),
            counter,
        };
        match at {
            StampAt::Xdp => Ok(plain(Reading::Clock)),
            StampAt::Dequeue => Ok(plain(Reading::Dequeue)),
            StampAt::Tsc => tsc(counter),
        }
    }

    /// True if packets are stamped when they are taken.
    pub fn is_at_dequeue(&self) -> bool {
        self.at == StampAt::Dequeue
    }

    /// Longest time that packets which come fast may wait to be taken.
    pub fn lateness(&self) -> Duration {
        if self.is_at_dequeue() { LATE_AT_DEQUEUE } else { LATE }
    }

    /// For the program.
    pub fn stamp(&self) -> Stamp<'_> {
        match (&self.tsc, self.at) {
            (Some(tsc), _) => Stamp::Tsc(tsc),
            (None, StampAt::Dequeue) => Stamp::None,
            (None, _) => Stamp::Clock,
        }
    }

    /// For people.
    pub fn described(&self) -> String {
        match self.at {
            StampAt::Xdp => "XDP program (CLOCK_MONOTONIC)".to_owned(),
            StampAt::Tsc => {
                format!("XDP program (TSC by perf event, ± {} counts)", self.error.0)
            }
            StampAt::Dequeue => format!(
                "user space when taken from the ring ({}, one reading per batch)",
                self.counter.description()
            ),
        }
    }
}

fn tsc(counter: Counter) -> Result<Source, TapError> {
    let refused = |why: String| TapError {
        doing: "stamping with the TSC in XDP".to_owned(),
        why,
        mend: Some("stamp with the kernel's clock there (the default)".to_owned()),
    };
    if counter.kind() != CounterKind::Tsc {
        return Err(refused(format!("counts are of {}", counter.description())));
    }
    let hz = nominal(counter).map_err(|error| refused(error.to_string()))?.period.hz();
    let tsc = Tsc::open().map_err(failed)?;
    let counter = counter.fenced();
    let bases = tsc.bases(1e9 / hz as f64, &mut || counter.read().0).map_err(failed)?;
    let most = bases.iter().map(|base| base.cpu as usize + 1).max().unwrap_or(0);
    let mut table = vec![None; most];
    for base in &bases {
        if let Some(place) = table.get_mut(base.cpu as usize) {
            *place = Some(base.counts);
        }
    }
    let error = bases.iter().map(|base| base.error).max().unwrap_or(0);
    Ok(Source {
        at: StampAt::Tsc,
        tsc: Some(tsc),
        reading: Arc::new(Reading::Tsc(table)),
        error: CountSpan(i64::try_from(error).unwrap_or(i64::MAX)),
        counter,
    })
}
