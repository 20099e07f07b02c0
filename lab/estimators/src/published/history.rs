//! The stamps of the recent past, by their number.

use std::collections::VecDeque;

use truechimer_feedforward::Exchange;
use truechimer_time::{Count, Instant};

/// A stamp: the four readings of an exchange, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Number of the record since the start.
    pub(super) index: u64,
    pub(super) ta: Count,
    pub(super) tb: Instant,
    pub(super) te: Instant,
    pub(super) tf: Count,
    /// Round trip in counts, the server's residence time not subtracted.
    pub(super) rtt: i64,
    /// R̂_j: the baseline in force for it, counts.
    pub(super) baseline: i64,
    /// θ_j: the uncorrected clock − the server's, by this stamp alone, s.
    pub(super) theta: f64,
}

impl Record {
    pub(super) fn new(index: u64, x: &Exchange) -> Record {
        let rtt = (x.received.count - x.sent.count).0;
        Record {
            index,
            ta: x.sent.count,
            tb: x.server_received,
            te: x.server_sent,
            tf: x.received.count,
            rtt,
            baseline: rtt,
            theta: 0.0,
        }
    }
}

/// The newest stamps, a warm-up's worth at most.
#[derive(Clone, Debug)]
pub(super) struct History {
    records: VecDeque<Record>,
    limit: u64,
}

impl History {
    pub(super) fn new(limit: u64) -> History {
        History { records: VecDeque::new(), limit }
    }

    /// Remembers so many from now on.
    pub(super) fn resize(&mut self, limit: u64) {
        self.limit = limit;
        self.forget();
    }

    pub(super) fn push(&mut self, record: Record) {
        self.records.push_back(record);
        self.forget();
    }

    fn forget(&mut self) {
        while self.records.len() as u64 > self.limit {
            self.records.pop_front();
        }
    }

    pub(super) fn last(&self) -> Option<&Record> {
        self.records.back()
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Record> {
        self.records.back_mut()
    }

    /// The number of the oldest one remembered.
    pub(super) fn first_index(&self) -> u64 {
        self.records.front().map_or(0, |r| r.index)
    }

    fn place(&self, index: u64) -> usize {
        let place = index.saturating_sub(self.first_index());
        usize::try_from(place).unwrap_or(usize::MAX).min(self.records.len())
    }

    /// Those with numbers from `from` to before `to`, as far as they are remembered, oldest first.
    pub(super) fn range(&self, from: u64, to: u64) -> impl Iterator<Item = &Record> {
        let (from, to) = (self.place(from), self.place(to));
        self.records.range(from.min(to)..to)
    }

    pub(super) fn range_mut(&mut self, from: u64, to: u64) -> impl Iterator<Item = &mut Record> {
        let (from, to) = (self.place(from), self.place(to));
        self.records.range_mut(from.min(to)..to)
    }

    /// The one of these with the smallest round trip; the oldest of equals.
    pub(super) fn best(&self, from: u64, to: u64) -> Option<&Record> {
        self.range(from, to).min_by_key(|r| r.rtt)
    }
}
