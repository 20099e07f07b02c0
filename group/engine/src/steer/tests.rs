use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::compared::Places;
use crate::types::Bound;

const LAW: Law = Law { time_ns: 8_000_000_000, cap_ppb: 500_000 };
const MS: i64 = 1_000_000;

fn report(member: u32, view: i64, gain: i64, bound: i64) -> ClockReport {
    let best = view + gain;
    let bound = Bound { earliest: best - bound, latest: best + bound };
    blind(member, view, Some(Utc { best, bound }))
}

/// One that has heard nobody.
fn blind(member: u32, view: i64, utc: Option<Utc>) -> ClockReport {
    let (member, compared) = (Member(member), Compared::default());
    ClockReport { member, place: member.0 as usize, view, utc, compared }
}

/// All of them have heard all the others, at once.
fn heard(mut reports: Vec<ClockReport>) -> Vec<ClockReport> {
    let said: Vec<(usize, Option<Utc>)> = reports.iter().map(|it| (it.place, it.utc)).collect();
    for report in &mut reports {
        for &(place, utc) in said.iter().filter(|(place, _)| *place != report.place) {
            report.compared.hear(place, utc, report.utc);
        }
    }
    reports
}

fn suspects(reports: &[ClockReport]) -> Vec<Member> {
    let verdict = judge(reports);
    let all = reports.iter().map(|report| report.member);
    all.filter(|&member| verdict.suspects(member) == Some(true)).collect()
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
        |(member, view, utc)| {
            let utc = utc.map(|mut times| {
                times.sort_unstable();
                let [earliest, best, latest] = times;
                Utc { best, bound: Bound { earliest, latest } }
            });
            blind(member, view, utc)
        },
    )
}

#[test]
fn the_wild_one_is_suspected() {
    for wild in [3_600_000 * MS, -3_600_000 * MS] {
        let reports = [report(1, 0, 0, MS), report(2, MS, -MS, MS), report(3, 0, wild, MS)];
        let reports = heard(reports.to_vec());
        assert_eq!(suspects(&reports), [Member(3)]);
        let verdict = judge(&reports);
        assert_eq!(verdict.borne_out, [Member(1), Member(2)]);
        assert_eq!(median_gain(&reports, &verdict.borne_out), Some(-MS / 2));
    }
}

#[test]
fn who_has_not_been_heard_is_neither_suspected_nor_borne_out() {
    let reports = [report(1, 0, 0, MS), report(2, 0, 0, MS), report(3, 0, 9_000 * MS, MS)];
    assert_eq!(judge(&reports), Verdict::default());
    let mut some = heard(reports.to_vec());
    some[2].compared = Compared::default();
    for report in &mut some[..2] {
        report.compared.forget(3);
    }
    let verdict = judge(&some);
    assert_eq!(verdict.borne_out, [Member(1), Member(2)]);
    assert_eq!(verdict.suspects(Member(3)), None);
    // Without UTC there is nothing to be suspected of.
    some[2].utc = None;
    assert_eq!(judge(&some).suspects(Member(3)), Some(false));
}

#[test]
fn one_clock_alone_is_borne_out_by_itself() {
    let reports = [report(1, 0, 7, MS), blind(2, 0, None), blind(3, 0, None)];
    assert_eq!(judge(&reports).borne_out, [Member(1)]);
}

#[test]
fn without_a_majority_nobody_is_suspected() {
    let reports = [report(1, 0, 0, MS), report(2, 0, 1000 * MS, MS), report(3, 0, -1000 * MS, MS)];
    for many in 2..=3 {
        let reports = heard(reports[..many].to_vec());
        assert_eq!(suspects(&reports), []);
        // And nobody is followed: not the middle of two that contradict each other.
        assert_eq!(judge(&reports).borne_out, []);
        let mut steering = Steering { trend_ppt: 40_000_000, ..Steering::default() };
        steering.update(LAW, &reports, &[]);
        assert_eq!(steering.rate_ppb, 40_000);
    }
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
    let reports = heard(reports.to_vec());
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
        steering.update(LAW, &reports, &judge(&reports).borne_out);
        utc += 1_000_000_000;
        group += advance(1_000_000_000 - 40_000, steering.rate_ppb);
    }
    assert!((utc - group).abs() < 1_000, "{}", utc - group);
    assert!((steering.rate_ppb - 40_000).abs() < 100, "{}", steering.rate_ppb);
    // Its own clock's rate goes on when nobody knows UTC any more.
    steering.update(LAW, &[blind(1, group, None)], &[]);
    assert!((steering.rate_ppb - 40_000).abs() < 100, "{}", steering.rate_ppb);
}

#[test]
fn a_long_way_is_gone_at_the_cap_and_does_not_overshoot() {
    let (mut group, mut utc) = (0i64, 1_000 * MS);
    let mut steering = Steering::default();
    let mut ahead = 0;
    for _ in 0..4000 {
        let reports = [report(1, group, utc - group, MS)];
        steering.update(LAW, &reports, &[Member(1)]);
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
        for reports in [&heard(reports), &heard(more)] {
            steering.update(law, reports, &judge(reports).borne_out);
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
            .prop_map(|mut reports| {
                // One of each.
                reports.sort_by_key(|report| report.place);
                reports.dedup_by_key(|report| report.place);
                reports
            })
            .prop_flat_map(|reports| (Just(reports.clone()), Just(reports).prop_shuffle()))
    ) {
        let sorted = |mut members: Vec<Member>| { members.sort(); members };
        let (reports, shuffled) = (heard(reports), heard(shuffled));
        let borne_out = judge(&reports).borne_out;
        prop_assert_eq!(sorted(borne_out.clone()), sorted(judge(&shuffled).borne_out));
        prop_assert_eq!(sorted(suspects(&reports)), sorted(suspects(&shuffled)));
        prop_assert_eq!(median_gain(&reports, &borne_out), median_gain(&shuffled, &borne_out));
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
        lie in 0u32..3,
        before in -200_000_000i64..200_000_000,
        since in 0i64..5_000_000_000,
    ) {
        let mut reports: Vec<ClockReport> = honest.iter().enumerate().map(|(k, &(view, bound, part))| {
            // The truth is anywhere within the bound.
            let best = truth + view + bound * part / 500 - bound;
            let bound = Bound { earliest: best - bound, latest: best + bound };
            blind(k as u32 + 10, view, Some(Utc { best, bound }))
        }).collect();
        let steering = Steering { rate_ppb: 0, trend_ppt: before, updated: Some(-since) };
        let spread: Vec<i32> = reports.iter().flat_map(|one| {
            // The time since the last update is an honest one's too.
            reports.iter().map(|other| {
                let mut alone = steering;
                let gain = to_i64(one.gain().unwrap());
                alone.update(LAW, &[report(1, other.view, gain, 0)], &[Member(1)]);
                alone.rate_ppb
            }).collect::<Vec<_>>()
        }).collect();
        reports.insert(place.min(reports.len()), wild);
        let mut reports = heard(reports);
        // It may say of the others what it likes.
        if let Some(report) = reports.iter_mut().find(|report| report.member == wild.member) {
            let all = Places([u64::MAX; 4]);
            match lie {
                0 => report.compared = Compared { possible: all, ..Compared::default() },
                1 => report.compared = Compared { ahead: all, ..Compared::default() },
                _ => {}
            }
        }
        let out = suspects(&reports);
        prop_assert!(out.iter().all(|&member| member == wild.member), "{:?}", out);
        let mut together = steering;
        together.update(LAW, &reports, &judge(&reports).borne_out);
        let (least, most) = (*spread.iter().min().unwrap(), *spread.iter().max().unwrap());
        prop_assert!(
            (least - 1..=most + 1).contains(&together.rate_ppb),
            "{} not within {least} to {most}", together.rate_ppb
        );
    }
}
