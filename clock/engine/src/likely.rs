//! Likely error of the published time: by one source, or by several together.
//!
//! What each is likely to be off by is independent of the others', but for the part that the path
//! out of one's own house adds to all of them. No source can tell that part; it is no more than
//! what the nearest is off by in all, and is taken to be that. Given it, the truth is where a
//! majority of the sources' likely intervals overlap, unless as many of them are wrong at once as
//! that takes: so each may be doubted the more, the more there are, and a minority that lies moves
//! nothing. Whoever may say nothing of what is likely counts with its bound.

use truechimer_feedforward::number::fraction;
use truechimer_feedforward::{Estimate, Spread};
use truechimer_time::{Instant, Period, Rate, Span};
use truechimer_timehands::Likely;

use crate::few::Few;
use crate::select::{Claim, agreement};

/// The time that is published, and by how much it may be off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) time: Instant,
    pub(crate) period: Period,
    pub(crate) bound: Span,
}

/// Likely error by these sources at this doubt. `None` where that is no narrower than the bound.
pub(crate) fn likely(sources: &[Estimate], place: &Place, doubt: Rate) -> Option<Likely> {
    let doubt = fraction(doubt);
    let known = || sources.iter().map(|e| e.spread).filter(|spread| spread.is_known);
    let nearest = known().min_by_key(|spread| (spread.route + spread.access, spread.server))?;
    let alone = sources.len() == 1;
    // Half of the doubt is about what is shared, and half about what is not.
    let halves = if alone { doubt } else { doubt / 2.0 };
    let each = doubt_of_each(sources.len(), halves);
    let within = |spread: &Spread| {
        if alone {
            return spread.within(doubt);
        }
        let (shared, own) = parted(spread, &nearest);
        let ((a, growth), (b, _)) = (shared.within(halves)?, own.within(each)?);
        Some((a + b, growth))
    };
    let times = sources.iter().map(|e| {
        let [before, after] = e.reach();
        let Span(middle) = e.time - place.time;
        let half = within(&e.spread).map_or(Span::MAX, |(half, _)| half);
        let [before, after] = [before, after].map(|reach| reach.min(half).0);
        Claim { low: middle.saturating_sub(before), high: middle.saturating_add(after) }
    });
    let rates = sources.iter().map(|e| {
        let growth = within(&e.spread).map_or(e.growth, |(_, growth)| growth.min(e.growth));
        Claim::around(e.period.relative_to(place.period).0.into(), growth.0.into())
    });
    let time = agreement(&times.collect::<Few<_>>(), 0)?;
    let rate = agreement(&rates.collect::<Few<_>>(), 0)?;
    // A half of nothing at all would say that nothing is known.
    let half = Span(time.reach(0).max(1));
    let growth = Rate(i64::try_from(rate.reach(0)).unwrap_or(i64::MAX));
    (half < place.bound).then_some(Likely { half, growth })
}

/// Parts of a likely error: first the one that another source over the same access network may have
/// in common with this one, as much as `nearest` has in all; then the rest, which is this one's own.
fn parted(all: &Spread, nearest: &Spread) -> (Spread, Spread) {
    let (route, access) = (all.route.min(nearest.route), all.access.min(nearest.access));
    let shared = Spread { route, access, server: Span::ZERO, ..*all };
    let (route, access) = (all.route - route, all.access - access);
    (shared, Spread { route, access, rate: Rate::ZERO, ..*all })
}

/// A server is wrong beyond what it claims, and nobody has noticed yet, with this probability: an
/// hour in a year.
const WRONG: f64 = 1e-4;

/// The doubt that each of so many independent sources may leave where a majority of them is to be
/// wrong with a probability of `doubt` at most, its own servers being wrong now and then included:
/// that takes k = ⌊(n − 1) / 2⌋ + 1 of n, and C(n, k) ways to choose them. A majority of one or two
/// is one: nothing protects from its server.
fn doubt_of_each(sources: usize, doubt: f64) -> f64 {
    let wrong = sources.saturating_sub(1) / 2 + 1;
    let ways: f64 = (0..wrong).map(|i| (sources - i) as f64 / (i + 1) as f64).product();
    let each = libm::pow(doubt / ways.max(1.0), 1.0 / wrong as f64);
    if each > 2.0 * WRONG { each - WRONG } else { each }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::Count;

    /// A source this far ahead, µs, that is likely to be off by multiples of so much, and by no
    /// more than 18 ms.
    fn source(ahead: i64, route: i64) -> Estimate {
        let error = Rate::from_ppb(600);
        Estimate {
            base: Count(0),
            time: Instant::default() + Span::from_micros(ahead),
            period: Period::NANOSECOND,
            difference: Period::NANOSECOND,
            difference_error: error,
            difference_deviation: error,
            bound: Span::from_millis(18),
            imbalance: Span::ZERO,
            path_bound: Span::from_millis(18),
            growth: error,
            deviation: Span::ZERO,
            rtt_floor: Span::from_millis(36),
            spread: Spread {
                is_known: true,
                route: Span::from_micros(route),
                access: Span::ZERO,
                server: Span::ZERO,
                rate: Rate::from_ppb(10),
            },
            last_used: Count(0),
            heard: Count(0),
        }
    }

    fn half_us(sources: &[Estimate], doubt: f64) -> Option<f64> {
        let (time, period) = (Instant::default(), Period::NANOSECOND);
        let place = Place { time, period, bound: Span::from_millis(18) };
        let doubt = truechimer_feedforward::number::rate(doubt);
        let half = likely(sources, &place, doubt)?.half;
        Some(truechimer_feedforward::number::seconds(half) * 1e6)
    }

    #[test]
    fn one_source_is_as_likely_as_it_says() {
        let half = half_us(&[source(0, 200)], 1e-6).unwrap();
        assert!((half - 200.0 * 13.8155).abs() < 1.0, "{half}");
        let half = half_us(&[source(50, 200)], 1e-2).unwrap();
        assert!((half - 50.0 - 200.0 * 4.605).abs() < 1.0, "{half}");
        let vague = Estimate { spread: Spread::default(), ..source(0, 0) };
        assert_eq!(half_us(&[vague], 1e-6), None, "nothing but the bound");
        assert_eq!(half_us(&[source(0, 5000)], 1e-6), None, "no narrower than the bound");
    }

    #[test]
    fn three_are_better_than_one_and_a_liar_among_them_moves_nothing() {
        let far = source(0, 200);
        let one = half_us(&[far], 1e-6).unwrap();
        // A near one says how little they share.
        let near = source(0, 5);
        let three = half_us(&[near, far, far], 1e-6).unwrap();
        assert!(three < 0.6 * one, "{three} {one}");
        let liar = source(5000, 5);
        let with_liar = half_us(&[liar, far, far], 1e-6).unwrap();
        assert!(with_liar < 1.2 * one, "{with_liar} {one}");
        assert_eq!(half_us(&[source(-9000, 5), source(9000, 5)], 1e-6), None, "no majority");
        let vague = Estimate { spread: Spread::default(), ..far };
        assert_eq!(half_us(&[near, vague, vague], 1e-6), None, "who knows nothing has a vote");
    }

    #[test]
    fn paths_that_share_their_beginning_are_no_independent_witnesses() {
        let alike = half_us(&[source(0, 200), source(0, 200), source(0, 200)], 1e-6).unwrap();
        let one = half_us(&[source(0, 200)], 1e-6).unwrap();
        assert!(alike > one, "all of it may be shared: {alike} {one}");
    }

    #[test]
    fn many_sources_may_each_be_doubted_more() {
        let each = |n| doubt_of_each(n, 1e-6);
        assert_eq!((each(1), each(2)), (1e-6, 0.5e-6));
        // 3 · (4.77 · 10⁻⁴ + 10⁻⁴)² = 10⁻⁶, and so on.
        assert!((each(3) - 4.774e-4).abs() < 1e-6, "{}", each(3));
        assert!((each(5) - 4.542e-3).abs() < 1e-5, "{}", each(5));
        assert!(each(4) < each(3), "a majority of four is wrong by two of them, as one of three");
    }

    #[test]
    fn what_is_shared_and_what_is_not_are_all_of_it() {
        let all = Spread {
            is_known: true,
            route: Span::from_micros(100),
            access: Span::from_micros(50),
            server: Span::from_micros(800),
            rate: Rate::from_ppb(10),
        };
        let nearest = Spread { route: Span::from_micros(10), access: Span::from_millis(1), ..all };
        let (shared, own) = parted(&all, &nearest);
        assert_eq!((shared.route, shared.route + own.route), (nearest.route, all.route));
        assert_eq!((shared.access, own.access), (all.access, Span::ZERO));
        assert_eq!((shared.server, own.server), (Span::ZERO, all.server));
        let (shared, own) = parted(&nearest, &nearest);
        assert_eq!((shared.access, own.access), (nearest.access, Span::ZERO));
    }
}
