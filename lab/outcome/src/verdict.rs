//! The one verdict of all benchmarks: met, not met, or open where this run cannot judge.
//!
//! A figure by the wall clock is judged by its [`Interval`] over the rounds of the run, never by a
//! single number, and only where the run's [`Control`] held.

use serde::Serialize;

use crate::interval::Interval;

/// The share of its threads' processors by which the bare counter is to scale: what two threads of
/// one core share is more than that, what other programs leave of a busy machine less.
const LEAST_SCALING: f64 = 0.6;
/// No more is possible: where it is, the one thread was held up.
const MOST_SCALING: f64 = 1.4;

/// Verdict on a goal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "reason")]
pub enum Verdict {
    /// Reached.
    Met,
    /// Missed.
    NotMet,
    /// This run cannot judge it, for this reason.
    Open(String),
}

/// Something measured in the same run, or before and after it, that is known to come out well on a
/// machine that can judge: an error says what came of it instead.
pub type Control = Result<(), String>;

impl Verdict {
    /// Of something that is counted, or known without a doubt.
    #[must_use]
    pub fn of(met: bool) -> Verdict {
        if met { Verdict::Met } else { Verdict::NotMet }
    }

    /// Of a figure that is to be at least `wanted`: decided only where all of its interval is on
    /// one side.
    #[must_use]
    pub fn at_least(wanted: f64, measured: &Interval) -> Verdict {
        if measured.low >= wanted {
            Verdict::Met
        } else if measured.high < wanted {
            Verdict::NotMet
        } else {
            Verdict::Open(undecided(wanted, measured))
        }
    }

    /// Of a figure that is to be at most `wanted`.
    #[must_use]
    pub fn at_most(wanted: f64, measured: &Interval) -> Verdict {
        if measured.high <= wanted {
            Verdict::Met
        } else if measured.low > wanted {
            Verdict::NotMet
        } else {
            Verdict::Open(undecided(wanted, measured))
        }
    }

    /// Verdict, but open where the control did not come out as it should have.
    #[must_use]
    pub fn under(self, control: &Control) -> Verdict {
        match control {
            Ok(()) => self,
            Err(reason) => Verdict::Open(reason.clone()),
        }
    }

    /// Of all of them together: not met if one is not, else open if one is; of none, open.
    #[must_use]
    pub fn all(parts: impl IntoIterator<Item = Verdict>) -> Verdict {
        let mut all = None;
        for part in parts {
            match part {
                Verdict::NotMet => return Verdict::NotMet,
                Verdict::Open(_) if matches!(all, None | Some(Verdict::Met)) => all = Some(part),
                Verdict::Met if all.is_none() => all = Some(part),
                _ => {}
            }
        }
        all.unwrap_or_else(|| Verdict::Open("not measured".to_owned()))
    }

    /// True if the goal was missed.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        *self == Verdict::NotMet
    }

    /// In a word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::NotMet => "NOT MET",
            Verdict::Open(_) => "cannot judge",
        }
    }

    /// In a word, with the reason if there is one.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Verdict::Open(reason) => format!("{}: {reason}", self.word()),
            _ => self.word().to_owned(),
        }
    }

    /// For programs: true, false, or none where it is open.
    #[must_use]
    pub fn met(&self) -> Option<bool> {
        match self {
            Verdict::Met => Some(true),
            Verdict::NotMet => Some(false),
            Verdict::Open(_) => None,
        }
    }
}

/// The control of all that reads a clock in several threads: the bare counter, which nothing but
/// the machine keeps from being read by `readers` threads as many times as often as by one as
/// there are processors for them. `scaling` is by how much it was, in each round: all of its
/// interval is to be there or near, for on a busy machine one thread alone may be held up as well
/// as many.
///
/// # Errors
/// Where it is not: the threads had no processors to themselves.
pub fn counter_scaled(scaling: &[f64], readers: u16, processors: usize) -> Control {
    if readers < 2 {
        return Ok(());
    }
    let apart = usize::from(readers).min(processors.max(1)) as f64;
    let found = Interval::of(scaling);
    if !found.is_known() {
        return Err(too_few(found.rounds));
    }
    let Interval { median, low, high, .. } = found;
    if low >= LEAST_SCALING * apart && high <= MOST_SCALING * apart {
        return Ok(());
    }
    Err(format!(
        "the bare counter itself scaled by {median:.2} ({low:.2} to {high:.2}), with {readers} threads \
         on {processors} processors: this machine is busy"
    ))
}

fn too_few(count: usize) -> String {
    format!("{}, and it takes {}", rounds(count), Interval::LEAST_ROUNDS)
}

fn undecided(wanted: f64, measured: &Interval) -> String {
    if measured.rounds == 0 {
        "not measured".to_owned()
    } else if measured.is_known() {
        format!("{wanted} lies within the interval")
    } else {
        too_few(measured.rounds)
    }
}

/// `1 round`, `5 rounds`.
pub(crate) fn rounds(count: usize) -> String {
    format!("{count} round{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { median: f64::midpoint(low, high), low, high, rounds: 9 }
    }

    #[test]
    fn only_a_whole_interval_on_one_side_decides() {
        assert_eq!(Verdict::at_least(1.0, &interval(1.0, 1.2)), Verdict::Met);
        assert_eq!(Verdict::at_least(1.0, &interval(0.8, 0.99)), Verdict::NotMet);
        assert_eq!(Verdict::at_most(1.0, &interval(0.8, 1.0)), Verdict::Met);
        assert_eq!(Verdict::at_most(1.0, &interval(1.01, 4.4)), Verdict::NotMet);
        let open = Verdict::Open("1 lies within the interval".to_owned());
        assert_eq!(Verdict::at_least(1.0, &interval(0.9, 1.1)), open);
        assert_eq!(Verdict::at_most(1.0, &interval(0.9, 1.1)), open);
    }

    #[test]
    fn one_round_of_minutes_decides_nothing() {
        let once = Interval::of(&[4.4]);
        let verdict = Verdict::at_most(1.0, &once);
        assert_eq!(verdict.text(), "cannot judge: 1 round, and it takes 6");
        assert_eq!(verdict.met(), None);
        assert!(!verdict.is_missed());
        let none = Verdict::at_least(1.0, &Interval::of(&[]));
        assert_eq!(none, Verdict::Open("not measured".to_owned()));
    }

    #[test]
    fn nothing_is_judged_where_the_control_failed() {
        let busy: Control = Err("the bare counter itself scaled by 0.81".to_owned());
        for verdict in [Verdict::Met, Verdict::NotMet] {
            assert_eq!(verdict.clone().under(&Ok(())), verdict);
            let text = verdict.under(&busy).text();
            assert_eq!(text, "cannot judge: the bare counter itself scaled by 0.81");
        }
    }

    #[test]
    fn the_bare_counter_is_the_control() {
        let scaled = |each: f64, odd: f64, readers| {
            let mut rounds = [each; 15];
            rounds[..4].fill(odd);
            counter_scaled(&rounds, readers, 4)
        };
        assert_eq!(scaled(1.98, 1.7, 2), Ok(()));
        let why = scaled(0.81, 0.7, 2).unwrap_err();
        assert!(why.contains("scaled by 0.81 (0.70 to 0.81)") && why.contains("busy"), "{why}");
        assert!(scaled(2.2, 2.2, 4).is_err());
        // Its median may come out by chance where now many are held up, now the one.
        assert!(scaled(4.06, 0.5, 4).is_err());
        assert!(scaled(4.06, 9.0, 4).is_err());
        assert_eq!(counter_scaled(&[2.0; 14], 2, 4), Ok(()));
        assert!(counter_scaled(&[2.0; 5], 2, 4).is_err());
        // On one processor two threads cannot scale, and need not; one always does.
        assert_eq!(counter_scaled(&[1.0; 6], 2, 1), Ok(()));
        assert_eq!(counter_scaled(&[], 1, 4), Ok(()));
    }

    #[test]
    fn several_are_as_good_as_the_worst() {
        let open = || Verdict::Open("x".to_owned());
        assert_eq!(Verdict::all([Verdict::Met, Verdict::Met]), Verdict::Met);
        assert_eq!(Verdict::all([Verdict::Met, open()]), open());
        assert_eq!(Verdict::all([open(), Verdict::Met, Verdict::NotMet]), Verdict::NotMet);
        assert_eq!(Verdict::all([]).text(), "cannot judge: not measured");
    }
}
