//! p_l: the period of the last hour or so, which follows temperature (IMC §5.2).

use super::clock::Uncorrected;
use super::constants::{Class, LOCAL_FAR, RATE_SANITY};
use super::history::History;
use super::rate::pair_error;
use super::windows::Windows;

/// The local rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    /// ρ of p_l.
    pub(super) ratio: f64,
    /// plerr: its own idea of its relative error; negative after a shift that was corrected for.
    pub(super) error: f64,
    /// The first stamp that its windows may hold.
    from: u64,
    /// True if the windows are filled; p_l is p̂ until then.
    pub(super) filled: bool,
}

impl Local {
    pub(super) fn new(ratio: f64) -> Local {
        Local { ratio, error: 0.0, from: 0, filled: false }
    }

    /// Parked at p̂ until the windows are filled with stamps after `index`.
    pub(super) fn park(&mut self, index: u64) {
        self.from = index + 1;
        self.filled = false;
    }

    /// p_l is p̂.
    pub(super) fn follow(&mut self, clock: &Uncorrected, error: f64) {
        self.ratio = clock.ratio;
        self.error = error;
    }

    /// The full estimator: the best stamps of two windows, `windows.local` stamps apart.
    pub(super) fn full(
        &mut self,
        history: &History,
        windows: &Windows,
        clock: &Uncorrected,
        baseline: i64,
        class: &Class,
        far_server: bool,
    ) {
        let Some(index) = history.last().map(|r| r.index) else { return };
        self.filled = index >= self.from + windows.local_reach();
        if !self.filled {
            self.ratio = clock.ratio;
            return;
        }
        let width = windows.local_end();
        let begin = index - windows.local - width / 2;
        let far = history.best(begin, begin + width);
        let near = history.best(index + 1 - width, index + 1);
        let Some((far, near)) = far.zip(near) else { return };
        let Some(error) = pair_error(far, near, clock, baseline) else { return };
        let limit = class.local_quality * if far_server { LOCAL_FAR } else { 1.0 };
        if error.abs() >= limit {
            return;
        }
        let Some(ratio) = clock.reference.pair(far, near) else { return };
        if (ratio - self.ratio).abs() / (1.0 + self.ratio) > RATE_SANITY * class.rate_bound {
            return;
        }
        (self.ratio, self.error) = (ratio, error);
    }
}
