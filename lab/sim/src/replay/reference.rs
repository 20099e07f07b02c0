//! The reference columns: on the server's timescale, and what they say of the clock.

use serde::Serialize;
use truechimer_report::percentile;
use truechimer_time::{Instant, Span};

use super::spread::{self, Spread};
use super::{Judged, ReplayError};
use crate::stamps::{Reference, Row};

/// Largest distance of the reference from a whole number of seconds off the server. A server that
/// is wrong by more than this cannot be told from another timescale.
const NEAR: Span = Span::from_millis(250);
/// Half a second: beyond, the difference is nearer to another whole second.
const ELSEWHERE: Span = Span::from_millis(500);

/// Comparison with the reference.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Referenced {
    /// The server's timescale − the reference's, whole seconds: −37 for a server that keeps UTC
    /// and a reference that keeps TAI.
    pub offset_s: i64,
    /// Rows in which the two differ by nearer to another number of whole seconds (a leap second,
    /// or a server that is wrong); their errors count as any other.
    pub elsewhere: u64,
    /// The line of the first such row.
    pub elsewhere_line: Option<u64>,
    /// Rows without an error because RefOut lies before RefIn.
    pub backwards: u64,
    /// Clock − reference, µs; `None` where there is nothing to count.
    pub error: Option<Spread>,
    /// Naive time − reference, µs, of the same rows.
    pub naive: Option<Spread>,
    /// The share of errors that were within the clock's bound, 0 to 1.
    pub inside_bound: Option<f64>,
}

#[derive(Clone, Debug)]
pub(super) struct Gathered {
    offset_s: i64,
    elsewhere: u64,
    elsewhere_line: Option<u64>,
    backwards: u64,
    inside: u64,
    errors: spread::Gathered,
    naive: spread::Gathered,
}

impl Gathered {
    /// Works out the offset from the first rows; `None` if there is no reference.
    pub(super) fn new(head: &[Row]) -> Result<Option<Gathered>, ReplayError> {
        let referenced = head.iter().filter(|row| row.stamped.reference.is_some()).count();
        if referenced == 0 {
            return Ok(None);
        }
        let mut apart: Vec<Span> = head.iter().filter_map(apart).collect();
        apart.sort_unstable();
        let median = percentile(&apart, 50).filter(|_| apart.len() * 2 > referenced);
        let Some(median) = median else {
            return Err(ReplayError::Reference(
                "in half of the first rows RefOut lies before RefIn or Te before Tb: RefIn is \
                 when the request passed the reference, RefOut when the reply did; are the columns \
                 in the order Ta Tb Te Tf RefIn RefOut?"
                    .into(),
            ));
        };
        let whole = (median + ELSEWHERE).0 >> 64;
        let whole = i64::try_from(whole).unwrap_or(0);
        let rest = median - Span::from_secs(whole);
        if rest.abs() > NEAR {
            let ms = median.as_picos() / 1_000_000_000;
            return Err(ReplayError::Reference(format!(
                "the server's times are {}{}.{:03} s from the reference's, which is no whole \
                 number of seconds (as between UTC, TAI and GPS): are both from the same packets? \
                 Cut off the reference columns to replay without them",
                if ms < 0 { "-" } else { "+" },
                ms.unsigned_abs() / 1000,
                ms.unsigned_abs() % 1000,
            )));
        }
        Ok(Some(Gathered {
            offset_s: whole,
            elsewhere: 0,
            elsewhere_line: None,
            backwards: 0,
            inside: 0,
            errors: spread::Gathered::default(),
            naive: spread::Gathered::default(),
        }))
    }

    /// RefOut on the server's timescale.
    pub(super) fn shifted(&mut self, row: &Row) -> Option<Instant> {
        let Reference { sent, received } = row.stamped.reference?;
        if received < sent {
            self.backwards += 1;
            return None;
        }
        let offset = Span::from_secs(self.offset_s);
        if apart(row).is_some_and(|span| (span - offset).abs() > ELSEWHERE) {
            self.elsewhere += 1;
            self.elsewhere_line.get_or_insert(row.line);
        }
        Some(received + offset)
    }

    pub(super) fn add(&mut self, judged: &Judged) {
        let (Some(error), Some(naive), Some(clock)) =
            (judged.error(), judged.naive_error(), judged.clock)
        else {
            return;
        };
        self.errors.add(error);
        self.naive.add(naive);
        self.inside += u64::from(error.abs() <= clock.bound);
    }

    pub(super) fn done(self) -> Referenced {
        let error = self.errors.spread();
        Referenced {
            offset_s: self.offset_s,
            elsewhere: self.elsewhere,
            elsewhere_line: self.elsewhere_line,
            backwards: self.backwards,
            error,
            naive: self.naive.spread(),
            inside_bound: error.map(|error| self.inside as f64 / error.count as f64),
        }
    }
}

/// The server's time − the reference's, in the middle of the exchange: free of the counter, and
/// off by half of the path's asymmetry only. `None` if either goes backwards.
fn apart(row: &Row) -> Option<Span> {
    let (stamped, reference) = (row.stamped, row.stamped.reference?);
    let server = stamped.server_sent - stamped.server_received;
    let tap = reference.received - reference.sent;
    let forward = !server.is_negative() && !tap.is_negative();
    forward.then(|| (stamped.server_received + server.half()) - (reference.sent + tap.half()))
}
