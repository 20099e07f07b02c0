use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::types::Bound;

const LAW: Law = Law { time_ns: 8_000_000_000, cap_ppb: 500_000 };
const MS: i64 = 1_000_000;

fn report(member: u32, view: i64, gain: i64, bound: i64) -> ClockReport {
    let best = view + gain;
    let bound = Bound { earliest: best - bound, latest: best + bound };
    ClockReport { member: Member(member), view, utc: Some(Utc { best, bound }) }
}

fn any_report() -> impl Strategy<Value = ClockReport> {
    let edge = || {
        prop_oneof![
            any::<i64>(),
            Just(i64::MIN),
            Just(i64::MAX),
            Just(0),
            -1_000_000_000i64..1_000_000_000
        ]
    };
    (1u32..8, edge(), proptest::option::of([edge(), edge(), edge()])).prop_map(
        |(member, view, utc)| ClockReport {
            member: Member(member),
            view,
            utc: utc
                .map(|[earliest, best, latest]| Utc { best, bound: Bound { earliest, latest } }),
        },
    )
}

#[test]
fn the_wild_one_is_suspected() {
    let reports = [report(1, 0, 0, MS), report(2, MS, -MS, MS), report(3, 0, 3_600_000 * MS, MS)];
    assert_eq!(suspects(&reports), [Member(3)]);
    assert_eq!(median_gain(&reports, &[Member(3)]), Some(-MS / 2));
}

#[test]
fn without_a_majority_nobody_is_suspected() {
    let reports = [report(1, 0, 0, MS), report(2, 0, 1000 * MS, MS)];
    assert_eq!(suspects(&reports), []);
    let reports = [report(1, 0, 0, MS), report(2, 0, 1000 * MS, MS), report(3, 0, -1000 * MS, MS)];
    assert_eq!(suspects(&reports), []);
}

#[test]
fn a_gap_inside_the_majority_is_no_shelter() {
    // Two majorities of three of five, with one short interval between them that nobody shares.
    let wide = |member, from: i64, to: i64| report(member, 0, (from + to) / 2, (to - from) / 2);
    let reports = [
        wide(1, -500 * MS, 500 * MS),
        wide(2, -500 * MS, -300 * MS),
        wide(3, -500 * MS, -300 * MS),
        wide(4, 300 * MS, 500 * MS),
        wide(5, 0, 0),
    ];
    assert_eq!(suspects(&reports), [Member(4), Member(5)]);
}

#[test]
fn the_limit_takes_a_majority_of_the_living() {
    let reports = [report(1, 10, 0, 1), report(2, 30, 0, 1), report(3, i64::MAX, 0, 0)];
    assert_eq!(limit(&reports, 3, 5), Some(35));
    assert_eq!(limit(&reports[..2], 3, 5), Some(15));
    assert_eq!(limit(&reports[..1], 3, 5), None);
    assert_eq!(limit(&reports[2..], 1, 5), Some(i64::MAX));
    assert_eq!(limit(&[], 0, 5), None);
}

#[test]
fn steering_takes_away_the_offset_and_the_rate() {
    // Physical clocks that lose 40 parts in 10⁶, and a group clock that starts 3 ms behind.
    let (mut group, mut utc) = (0i64, 3 * MS);
    let mut steering = Steering::default();
    for _ in 0..600 {
        let reports = [report(1, group, utc - group, MS)];
        steering.update(LAW, &reports, &suspects(&reports));
        utc += 1_000_000_000;
        group += advance(1_000_000_000 - 40_000, steering.rate_ppb);
    }
    assert!((utc - group).abs() < 1_000, "{}", utc - group);
    assert!((steering.rate_ppb - 40_000).abs() < 100, "{}", steering.rate_ppb);
    // Its own clock's rate goes on when nobody knows UTC any more.
    let blind = ClockReport { member: Member(1), view: group, utc: None };
    steering.update(LAW, &[blind], &[]);
    assert!((steering.rate_ppb - 40_000).abs() < 100, "{}", steering.rate_ppb);
}

#[test]
fn a_long_way_is_gone_at_the_cap_and_does_not_overshoot() {
    let (mut group, mut utc) = (0i64, 1_000 * MS);
    let mut steering = Steering::default();
    let mut ahead = 0;
    for _ in 0..4000 {
        let reports = [report(1, group, utc - group, MS)];
        steering.update(LAW, &reports, &[]);
        utc += 1_000_000_000;
        group += advance(1_000_000_000, steering.rate_ppb);
        ahead = ahead.max(group - utc);
    }
    assert!((utc - group).abs() < 1_000, "{}", utc - group);
    assert!(ahead < 4 * MS, "{ahead}");
}

proptest! {
    #[test]
    fn nothing_overflows_and_the_cap_holds(
        reports in vec(any_report(), 0..8),
        more in vec(any_report(), 0..8),
        time_ns in prop_oneof![Just(0), Just(1), any::<u64>()],
        cap_ppb in any::<u32>(),
        mut steering in (any::<i32>(), any::<i64>(), any::<Option<i64>>()).prop_map(
            |(rate_ppb, trend_ppt, updated)| Steering { rate_ppb, trend_ppt, updated }
        ),
        live in 0usize..9,
        horizon in any::<u64>(),
    ) {
        let law = Law { time_ns, cap_ppb };
        for reports in [&reports, &more] {
            let out = suspects(reports);
            steering.update(law, reports, &out);
            prop_assert!(u32::try_from(steering.rate_ppb.abs()).unwrap() <= cap_ppb);
            prop_assert!(steering.rate_ppb > -1_000_000_000);
            if let Some(limit) = limit(reports, live, horizon) {
                let bearing = reports.iter()
                    .filter(|report| report.view.saturating_add_unsigned(horizon) >= limit);
                prop_assert!(bearing.count() > live / 2);
            }
        }
    }

    #[test]
    fn time_always_goes_forward(
        elapsed in 0i64..i64::MAX / 4, more in 0i64..1_000_000_000_000, rate in -999_999_999i32..
    ) {
        prop_assert!(advance(elapsed, rate) >= 0);
        prop_assert!(advance(elapsed + more, rate) >= advance(elapsed, rate));
    }

    #[test]
    fn the_order_of_the_reports_does_not_matter(
        (reports, shuffled) in vec(any_report(), 0..7)
            .prop_flat_map(|reports| (Just(reports.clone()), Just(reports).prop_shuffle()))
    ) {
        let sorted = |mut members: Vec<Member>| { members.sort(); members };
        let out = suspects(&reports);
        prop_assert_eq!(sorted(out.clone()), sorted(suspects(&shuffled)));
        prop_assert_eq!(median_gain(&reports, &out), median_gain(&shuffled, &out));
        prop_assert_eq!(limit(&reports, 3, 1), limit(&shuffled, 3, 1));
    }

    /// Two or more members whose bounds hold, and one with anything at all: the honest ones are
    /// never suspected, and the rate stays between those that the honest ones by themselves would
    /// have made.
    #[test]
    fn one_wild_member_moves_nothing_beyond_the_honest_ones(
        truth in -1_000_000 * MS..1_000_000 * MS,
        honest in vec((-1_000i64..1_000, 0i64..10 * MS, 0i64..=1000), 2..6),
        wild in any_report(),
        place in 0usize..6,
        before in -200_000_000i64..200_000_000,
        since in 0i64..5_000_000_000,
    ) {
        let mut reports: Vec<ClockReport> = honest.iter().enumerate().map(|(k, &(view, bound, part))| {
            // The truth is anywhere within the bound.
            let best = truth + view + bound * part / 500 - bound;
            let bound = Bound { earliest: best - bound, latest: best + bound };
            ClockReport { member: Member(k as u32 + 10), view, utc: Some(Utc { best, bound }) }
        }).collect();
        let steering = Steering { rate_ppb: 0, trend_ppt: before, updated: Some(-since) };
        let spread: Vec<i32> = reports.iter().flat_map(|one| {
            // The time since the last update is an honest one's too.
            reports.iter().map(|other| {
                let mut alone = steering;
                let gain = to_i64(one.gain().unwrap().best);
                alone.update(LAW, &[report(1, other.view, gain, 0)], &[]);
                alone.rate_ppb
            }).collect::<Vec<_>>()
        }).collect();
        reports.insert(place.min(reports.len()), wild);
        let out = suspects(&reports);
        prop_assert!(out.iter().all(|&member| member == wild.member), "{:?}", out);
        let mut together = steering;
        together.update(LAW, &reports, &out);
        let (least, most) = (*spread.iter().min().unwrap(), *spread.iter().max().unwrap());
        prop_assert!(
            (least - 1..=most + 1).contains(&together.rate_ppb),
            "{} not within {least} to {most}", together.rate_ppb
        );
    }
}
