//! Check that counts and times of a file go on as they did: the line that they lie on, where it
//! breaks off, and what lies beside it.

use truechimer_time::{Instant, Period, Rate, Span};

use super::forward;
use crate::stamps::Stamped;

/// Furthest that counts may run away from times between two rows, and remain on the line.
const JUMP: Span = Span::from_secs(1);
/// Limit as a share of the time between them, on top of what the nominal rate may be wrong by.
const SLACK: Rate = Rate::from_ppb(1_000_000);
/// Number of the rows that follow which say what a row off the line means.
pub(super) const AHEAD: usize = 8;
/// A single row says nothing of the ones around it.
const WITNESSES: usize = 2;

/// Where a row lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Counts and times go on as they did.
    On,
    /// They do not, but the rows that follow do: it stands alone.
    Off,
    /// Ta or Tf is later than those of the rows that follow.
    Ahead,
    /// They do not, and those of the rows that follow go on as here: the counter began again, or
    /// jumped by so much (by its own time − by the server's).
    Break(Span),
}

/// The line so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    period: Period,
    slack: Rate,
    /// The newest row on the line.
    newest: Option<Stamped>,
    /// From the first Ta to the newest Tf on the line: by the counter, over breaks by the server.
    elapsed: Span,
    /// Part of that since the newest break.
    pub(super) epoch: Span,
}

impl Track {
    /// For a counter whose nominal rate is right within `error`.
    pub(super) fn new(period: Period, error: Rate) -> Track {
        let slack = Rate(SLACK.0.saturating_add(error.0));
        Track { period, slack, newest: None, elapsed: Span::ZERO, epoch: Span::ZERO }
    }

    /// Length of the line by now, if it has begun.
    pub(super) fn elapsed(&self) -> Option<Span> {
        self.newest.map(|_| self.elapsed)
    }

    /// Where `row` lies; `following` are the ones after it. It must not go backwards within itself.
    pub(super) fn place<'r>(
        &mut self,
        row: &Stamped,
        following: impl Iterator<Item = &'r Stamped>,
    ) -> Place {
        let (mut witnesses, mut with_row, mut with_newest, mut before) = (0, 0, 0, 0);
        for next in following.filter(|next| forward(next)).take(AHEAD) {
            witnesses += 1;
            with_row += usize::from(self.agree(row, next));
            let on = self.newest.is_none_or(|newest| self.agree(&newest, next));
            with_newest += usize::from(on);
            before += usize::from(on && (row.received - next.received).0 >= 0);
        }
        let alone = self.newest.is_some() || with_row == 0;
        if alone && witnesses >= WITNESSES && before * 2 > witnesses {
            return Place::Ahead;
        }
        let trip = self.period.span(row.received - row.sent);
        match &self.newest {
            Some(newest) if self.agree(newest, row) => {
                let more = self.period.span(row.received - newest.received);
                if more.is_negative() {
                    return Place::On;
                }
                (self.elapsed, self.epoch) = (self.elapsed + more, self.epoch + more);
            }
            None if witnesses == 0 || with_row > 0 => (self.elapsed, self.epoch) = (trip, trip),
            Some(newest) if with_newest == 0 && with_row * 2 > witnesses => {
                let by = self.apart(newest, row, |x| x.server_received);
                let over = (row.server_sent - newest.server_sent).max(Span::ZERO);
                (self.elapsed, self.epoch) = (self.elapsed + over, trip);
                self.newest = Some(*row);
                return Place::Break(by);
            }
            _ => return Place::Off,
        }
        self.newest = Some(*row);
        Place::On
    }

    /// True if two rows lie on one line, whichever of them is first. Where there is a reference it
    /// vouches for the counter when the server does not.
    fn agree(&self, a: &Stamped, b: &Stamped) -> bool {
        let limit = JUMP + self.slack.over(self.period.span(b.sent - a.sent).abs());
        let near = |at: fn(&Stamped) -> Instant| self.apart(a, b, at).abs() <= limit;
        let tapped = |x: &Stamped| x.reference.is_some_and(|r| r.received >= r.sent);
        near(|x| x.server_received)
            || (tapped(a)
                && tapped(b)
                && near(|x| x.reference.map_or(Instant::new(0, 0), |r| r.sent)))
    }

    /// From one row to another by the counter − by the time of them.
    fn apart(&self, a: &Stamped, b: &Stamped, at: fn(&Stamped) -> Instant) -> Span {
        self.period.span(b.sent - a.sent) - (at(b) - at(a))
    }
}
