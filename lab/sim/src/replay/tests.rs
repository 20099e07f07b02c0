use super::*;
use crate::stamps::{LATEST, Reference, write_stamps};
use proptest::prelude::*;
use truechimer_estimators::{OURS, TABLE};

/// Unix time at count 0 of [`Path::rows`].
const BEGUN: i64 = 1_750_000_000;

/// A server over a path, asked every 16 s.
struct Path {
    hz: u64,
    /// Skew of the counter, ppb; positive: fast.
    skew: i64,
    /// Reference − server, s.
    scale: f64,
    rows: u64,
}

const LAN: Path = Path { hz: 1_000_000_000, skew: 37_000, scale: 0.0, rows: 300 };

impl Path {
    /// The rows, with delays of 200 µs and up to 50 µs more.
    fn rows(&self) -> Vec<Stamped> {
        let mut state = 7u64;
        let mut delay = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Span::from_nanos(200_000 + (state >> 33) as i64 % 50_000)
        };
        let period = Period::from_hz(self.hz).scaled(Rate::from_ppb(-self.skew));
        let count = |t: Span| Count(5_000_000_000) + period.counts(t);
        let scale = Span::from_nanos((self.scale * 1e9) as i64);
        let row = |i: u64| {
            let sent = Span::from_secs(16 * i as i64);
            let there = sent + delay();
            let left = there + Span::from_micros(20);
            let back = left + delay();
            let at = |t: Span| Instant::new(BEGUN, 0) + t;
            Stamped {
                sent: count(sent),
                server_received: at(there),
                server_sent: at(left),
                received: count(back),
                reference: Some(Reference { sent: at(sent) + scale, received: at(back) + scale }),
            }
        };
        (0..self.rows).map(row).collect()
    }
}

fn text(rows: &[Stamped]) -> String {
    let mut text = String::new();
    write_stamps(rows, &mut text).unwrap();
    text
}

fn without_reference(mut rows: Vec<Stamped>) -> Vec<Stamped> {
    rows.iter_mut().for_each(|row| row.reference = None);
    rows
}

fn replay(text: &str, options: &ReplayOptions) -> Result<(Replayed, Vec<Judged>), ReplayError> {
    let mut rows = Vec::new();
    let sum = replay_stamps(text.as_bytes(), options, &mut |judged| {
        rows.push(*judged);
        Ok(())
    })?;
    Ok((sum, rows))
}

fn fails(text: &str, options: &ReplayOptions) -> String {
    replay(text, options).expect_err("it cannot be replayed").to_string()
}

#[test]
fn a_replay_is_the_estimator_on_the_same_rows() {
    let rows = LAN.rows();
    for kind in TABLE {
        let options = ReplayOptions {
            estimator: *kind,
            nominal: Some(Period::NANOSECOND),
            stamp_error: Some(Span::from_nanos(300)),
            root_distance: Some(Span::from_micros(7)),
            max_wander: Some(Rate::from_ppb(100)),
            poll: Some(16),
            settle: Span::ZERO,
        };
        let (sum, judged) = replay(&text(&rows), &options).unwrap();
        let settings = Settings {
            nominal: Period::NANOSECOND,
            resolution: CountSpan(1),
            max_wander: Rate::from_ppb(100),
            accept_step_after: truechimer_feedforward::ACCEPT_STEP_AFTER,
            asymmetry: None,
            pulse: false,
        };
        let rate = RatePrior { period: Period::NANOSECOND, error: Rate::from_ppb(500_000) };
        let mut direct = kind.estimator(&Beginning { settings, rate, time: None, poll: 16 });
        let error = Period::NANOSECOND.counts(Span::from_nanos(300));
        for (row, judged) in rows.iter().zip(&judged) {
            let exchange = exchange(row, error, [Span::from_micros(7), Span::ZERO]);
            assert_eq!(judged.outcome, direct.exchange(&exchange).map_err(Refused::Estimator));
            let estimate = direct.estimate(row.received).unwrap();
            let told = judged.clock.unwrap();
            assert_eq!((told.period, told.deviation), (estimate.period, estimate.deviation));
            assert_eq!(told.floor, estimate.rtt_floor);
            if estimate.base == row.received {
                assert_eq!((told.time, told.bound), (estimate.time, estimate.bound));
            }
        }
        assert_eq!((sum.rows, judged.len()), (300, 300));
        assert_eq!(sum.used + sum.refused.values().map(|r| r.rows).sum::<u64>(), 300);
    }
}

#[test]
fn the_clock_is_right_and_its_bound_holds() {
    for (hz, skew) in [(1_000_000_000, 37_000), (2_400_000_000, -12_000), (24_000_000, 0)] {
        let (sum, judged) =
            replay(&text(&Path { hz, skew, ..LAN }.rows()), &ReplayOptions::default()).unwrap();
        assert_eq!((sum.used, sum.poll), (300, 16));
        assert!((sum.duration_s.unwrap() - 16.0 * 299.0).abs() < 1.0, "{:?}", sum.duration_s);
        let reference = sum.reference.unwrap();
        assert_eq!(reference.offset_s, 0);
        let error = reference.error.unwrap();
        assert_eq!((reference.inside_bound, error.count), (Some(1.0), 300));
        assert!(error.rms_us < 10.0, "{reference:?}");
        let last = judged[299];
        assert!(last.error().unwrap().abs() < Span::from_micros(10), "{last:?}");
        assert_eq!(last.offset().unwrap(), last.error().unwrap() - last.naive_error().unwrap());
        if hz == 1_000_000_000 {
            // Taken for a counter of nanoseconds, so that its skew shows.
            assert_eq!((sum.nominal.hz, sum.nominal.from), (hz, From::Inferred));
            assert!((sum.skew_ppb.unwrap() - 37_000.0).abs() < 100.0, "{:?}", sum.skew_ppb);
        }
    }
}

#[test]
fn another_timescale_is_found_out() {
    // TAI, GPS, GPS counted from its own epoch, and a server 150 ms off.
    for (scale, offset) in [(37.0, -37), (18.0, -18), (-315_964_782.0, 315_964_782), (0.15, 0)] {
        let (sum, _) =
            replay(&text(&Path { scale, ..LAN }.rows()), &ReplayOptions::default()).unwrap();
        let reference = sum.reference.unwrap();
        assert_eq!(reference.offset_s, offset);
        assert_eq!(reference.elsewhere, 0);
        let expected = if offset == 0 { -150_000.0 } else { 0.0 };
        assert!((reference.error.unwrap().median_us - expected).abs() < 10.0, "{reference:?}");
    }
    let error = fails(&text(&Path { scale: 0.4, ..LAN }.rows()), &ReplayOptions::default());
    assert!(error.contains("-0.400 s from the reference's, which is no whole number"), "{error}");
    let error = fails(&text(&Path { scale: -36.6, ..LAN }.rows()), &ReplayOptions::default());
    assert!(error.contains("+36.599 s") || error.contains("+36.600 s"), "{error}");
}

#[test]
fn a_leap_of_the_server_is_noticed() {
    let mut rows = LAN.rows();
    for row in &mut rows[200..] {
        row.server_received = row.server_received - Span::from_secs(1);
        row.server_sent = row.server_sent - Span::from_secs(1);
    }
    let reference = replay(&text(&rows), &ReplayOptions::default()).unwrap().0.reference.unwrap();
    assert_eq!((reference.offset_s, reference.elsewhere), (0, 100));
    assert_eq!(reference.elsewhere_line, Some(201));
}

#[test]
fn reference_columns_in_the_wrong_order_are_refused() {
    let mut rows = LAN.rows();
    let swap = |row: &mut Stamped| {
        let Reference { sent, received } = row.reference.unwrap();
        row.reference = Some(Reference { sent: received, received: sent });
    };
    rows.iter_mut().take(3).for_each(swap);
    let (sum, judged) = replay(&text(&rows), &ReplayOptions::default()).unwrap();
    let reference = sum.reference.unwrap();
    assert_eq!((reference.backwards, reference.error.unwrap().count), (3, 297));
    assert_eq!(judged[0].error(), None);
    rows.iter_mut().skip(3).for_each(swap);
    let error = fails(&text(&rows), &ReplayOptions::default());
    assert!(error.contains("are the columns in the order Ta Tb Te Tf RefIn RefOut?"), "{error}");
}

#[test]
fn rows_out_of_order_are_counted_and_left_out() {
    let rows = without_reference(LAN.rows());
    let clean = replay(&text(&rows), &ReplayOptions::default()).unwrap().1;
    let mut bad = rows.clone();
    // The same row again, a reply before the request, a server that replies before it was asked.
    bad.insert(50, rows[49]);
    bad.insert(100, Stamped { received: rows[99].sent, ..rows[99] });
    bad[100].sent = rows[98].received + CountSpan(5);
    bad[100].received = rows[98].received + CountSpan(1);
    bad.insert(
        150,
        Stamped { server_sent: rows[148].server_received - Span::from_secs(1), ..rows[148] },
    );
    let (sum, judged) = replay(&text(&bad), &ReplayOptions::default()).unwrap();
    assert_eq!((sum.rows, sum.used), (303, 300));
    let refused: Vec<_> = sum.refused.iter().map(|(n, r)| (*n, r.rows, r.first_line)).collect();
    assert_eq!(
        refused,
        [
            ("counter-backwards", 1, 101),
            ("not-after-previous", 1, 51),
            ("server-backwards", 1, 151)
        ]
    );
    // The rest is as if they had not been.
    assert_eq!(judged[302].clock, clean[299].clock);
    assert_eq!(judged[50].clock.map(|t| t.time), judged[49].clock.map(|t| t.time));
}

#[test]
fn the_nominal_rate_may_be_given_declared_or_inferred() {
    let rows = without_reference(Path { hz: 2_400_000_000, ..LAN }.rows());
    let plain = text(&rows);
    let nominal = |text: &str, hz: Option<u64>| {
        let options = ReplayOptions { nominal: hz.map(Period::from_hz), ..Default::default() };
        replay(text, &options).map(|(sum, _)| sum.nominal)
    };
    let given = nominal(&plain, Some(2_400_000_000)).unwrap();
    assert_eq!((given.hz, given.from), (2_400_000_000, From::Given));
    let declared = format!("# nominal-hz: 2400001000\n# nominal-error: 50\n{plain}");
    let nominal_of_it = nominal(&declared, None).unwrap();
    assert_eq!((nominal_of_it.hz, nominal_of_it.from), (2_400_001_000, From::Declared));
    assert_eq!(nominal_of_it.error, Rate::from_ppb(50_000));
    assert_eq!(nominal(&declared, Some(2_400_000_000)).unwrap().from, From::Given);
    let inferred = nominal(&plain, None).unwrap();
    assert!(inferred.hz.abs_diff(2_400_088_800) < 1000, "{inferred:?}");
    assert_eq!(inferred.from, From::Inferred);
    assert!(inferred.error < Rate::from_ppb(501_000), "{inferred:?}");

    let error = nominal(&plain, Some(1_000_000_000)).unwrap_err().to_string();
    assert!(error.contains("1000000000 counts per second by --hz, but about 24000"), "{error}");
    let wrong = format!("# nominal-hz: 24000000\n{plain}");
    let error = nominal(&wrong, None).unwrap_err().to_string();
    assert!(error.contains("24000000 counts per second by the comment in line 1"), "{error}");
    // One row says nothing of a rate.
    let one = text(&rows[..1]);
    let error = nominal(&one, None).unwrap_err().to_string();
    assert!(error.contains("Give it with --hz or in a comment '# nominal-hz"), "{error}");
    assert!(nominal(&one, Some(2_400_000_000)).is_ok());
    // Two of them do.
    assert!(nominal(&text(&rows[..2]), None).unwrap().hz.abs_diff(2_400_088_800) < 100_000);
}

#[test]
fn a_quarter_of_the_first_rows_may_be_wrong() {
    let mut rows = without_reference(LAN.rows());
    for (i, row) in rows.iter_mut().enumerate().filter(|(i, _)| i % 5 == 2) {
        let off = Span::from_secs([900, -4000, 77_777][i % 3]);
        row.server_received += off;
        row.server_sent += off;
    }
    let sum = replay(&text(&rows), &ReplayOptions::default()).unwrap().0;
    assert_eq!(sum.nominal.hz, 1_000_000_000);
}

#[test]
fn what_is_declared_is_used() {
    let plain = text(&LAN.rows());
    let declared = format!("# stamp-error: 20us\n# root-distance: 1ms\n{plain}");
    let wide = replay(&declared, &ReplayOptions::default()).unwrap().0;
    assert_eq!((wide.stamp_error_us, wide.root_distance_us), (20.0, 1000.0));
    let options = ReplayOptions {
        stamp_error: Some(Span::from_nanos(100)),
        root_distance: Some(Span::ZERO),
        ..Default::default()
    };
    let narrow = replay(&declared, &options).unwrap().0;
    assert_eq!((narrow.stamp_error_us, narrow.root_distance_us), (0.1, 0.0));
    assert!(wide.bound.unwrap().median_us > narrow.bound.unwrap().median_us + 1000.0);
    let plain = replay(&plain, &ReplayOptions::default()).unwrap().0;
    assert_eq!((plain.stamp_error_us, plain.root_distance_us), (1.0, 0.0));
}

#[test]
fn rows_are_written_as_text() {
    let (_, judged) = replay(&text(&LAN.rows()), &ReplayOptions::default()).unwrap();
    let bare = Judged { clock: None, reference: None, ..judged[0] };
    for row in [&judged[0], &judged[299], &bare] {
        let (mut csv, mut json) = (String::new(), String::new());
        write_csv(row, &mut csv).unwrap();
        write_json(row, &mut json).unwrap();
        let names: Vec<&str> = CSV_HEADER.split(',').collect();
        let cells: Vec<&str> = csv.split(',').collect();
        assert_eq!(names.len(), cells.len(), "{csv}");
        let cell = |name: &str| cells[names.iter().position(|n| *n == name).unwrap()];
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object["line"].to_string(), cell("line"));
        assert_eq!(object["count"].to_string(), cell("count"));
        assert_eq!(object["time"].as_str().unwrap_or(""), cell("time_s"));
        assert_eq!(object["outcome"], cell("outcome"));
        let skew =
            object["skew_ppb"].as_f64().map(|s| s - cell("skew_ppb").parse::<f64>().unwrap());
        assert!(skew.is_none_or(|apart| apart.abs() < 1e-9), "{csv} {json}");
        // The parser of JSON is not exact in the last bit of a float.
        let period =
            object["period_s"].as_f64().map(|p| p / cell("period_s").parse::<f64>().unwrap());
        assert!(period.is_none_or(|ratio| (ratio - 1.0).abs() < 1e-15), "{csv} {json}");
        for name in ["offset", "rtt", "floor", "bound", "deviation", "error", "naive_error"] {
            // The same digits but for the point.
            let ps = object.get(format!("{name}_ps")).and_then(serde_json::Value::as_i64);
            let ns = cell(&format!("{name}_ns")).replace('.', "");
            assert_eq!(ps, ns.parse().ok(), "{name}: {csv} {json}");
        }
    }
    let time = judged[0].clock.unwrap().time;
    let mut csv = String::new();
    write_csv(&judged[0], &mut csv).unwrap();
    assert!(csv.starts_with(&format!(
        "1,{},{:.12},",
        judged[0].count.0,
        crate::stamps::Digits(time)
    )));
}

/// Rows of a machine that boots again at row `at` and writes on: its counter begins at `from`.
fn restarted(mut rows: Vec<Stamped>, at: usize, from: u64) -> Vec<Stamped> {
    let by = rows[at].sent - Count(from);
    for row in &mut rows[at..] {
        row.sent = row.sent - by;
        row.received = row.received - by;
    }
    rows
}

#[test]
fn rows_whose_counts_make_no_sense_are_in_no_statistics() {
    let rows = LAN.rows();
    let clean = replay(&text(&rows), &ReplayOptions::default()).unwrap().0;
    let error = clean.reference.unwrap().error.unwrap();
    let mut swapped = rows.clone();
    (swapped[120].sent, swapped[120].received) = (rows[120].received, rows[120].sent);
    // One digit too many, in both counts, in one, and one too few.
    let mut far = rows.clone();
    far[120].sent = Count(far[120].sent.0 * 10);
    far[120].received = Count(far[120].received.0 * 10);
    let mut late = rows.clone();
    late[120].received = Count(late[120].received.0 * 10);
    let mut early = rows.clone();
    early[120].sent = Count(early[120].sent.0 / 10);
    early[120].received = Count(early[120].received.0 / 10);
    let mut backwards = rows.clone();
    backwards[120].server_sent = backwards[120].server_received - Span::from_secs(400);
    let mut last = rows.clone();
    let end = last[299].sent;
    (last[299].sent, last[299].received) = (last[299].received, end);
    for (bad, reason) in [
        (swapped, "counter-backwards"),
        (far, "counter-ahead"),
        (late, "counter-ahead"),
        (early, "not-after-previous"),
        (backwards, "server-backwards"),
        (last, "counter-backwards"),
    ] {
        let sum = replay(&text(&bad), &ReplayOptions::default()).unwrap().0;
        assert_eq!(sum.used, 299, "{reason}: {:?}", sum.refused);
        assert_eq!(sum.refused.keys().copied().collect::<Vec<_>>(), [reason]);
        assert_eq!(
            (sum.nominal.hz, sum.poll, sum.restarts.count),
            (clean.nominal.hz, 16, 0),
            "{reason}"
        );
        let bad = sum.reference.unwrap().error.unwrap();
        assert_eq!(bad.count, 299);
        let worse = (bad.rms_us - error.rms_us) / error.rms_us;
        assert!(worse.abs() < 0.1 && bad.max_us <= error.max_us * 1.1, "{reason}: {bad:?}");
        assert!(
            (sum.duration_s.unwrap() - clean.duration_s.unwrap()).abs() < 20.0,
            "{reason}: {:?}",
            sum.duration_s
        );
    }
    // What the server did is the clock's concern.
    let mut stepped = rows.clone();
    for row in &mut stepped[120..125] {
        row.server_received += Span::from_secs(30);
        row.server_sent += Span::from_secs(30);
    }
    let sum = replay(&text(&stepped), &ReplayOptions::default()).unwrap().0;
    assert_eq!((sum.refused["server-step"].rows, sum.restarts.count), (5, 0));
    assert_eq!(sum.reference.unwrap().error.unwrap().count, 300);
}

#[test]
fn the_duration_is_that_of_the_file() {
    // A server that is off by a minute from the start on, and never used again.
    let mut rows = without_reference(LAN.rows());
    for (i, row) in rows.iter_mut().enumerate().skip(200) {
        let off = Span::from_millis(if i % 2 == 0 { 400 } else { -400 });
        row.server_received += off;
        row.server_sent += off;
    }
    let sum = replay(&text(&rows), &ReplayOptions::default()).unwrap().0;
    assert!(sum.used < 250, "{}", sum.used);
    assert!((sum.duration_s.unwrap() - 16.0 * 299.0).abs() < 1.0, "{:?}", sum.duration_s);
}

#[test]
fn what_was_not_measured_is_not_zero() {
    let mut rows = LAN.rows();
    rows.truncate(20);
    rows.iter_mut().for_each(|row| row.server_sent = row.server_received - Span::from_secs(1));
    let rows = without_reference(rows);
    let options = ReplayOptions { nominal: Some(Period::NANOSECOND), ..ReplayOptions::default() };
    let sum = replay(&text(&rows), &options).unwrap().0;
    assert_eq!((sum.rows, sum.used, sum.rtt_least_us), (20, 0, None));
    let json = serde_json::to_value(&sum).unwrap();
    for name in ["bound", "offset", "rtt_least_us", "skew_ppb", "reference"] {
        assert!(json[name].is_null(), "{name} of {json}");
    }
}

#[test]
fn a_counter_that_begins_again_begins_a_new_epoch() {
    for (hz, at, from) in [
        (1_000_000_000, 150, 3_000_000_000),
        (2_400_000_000, 30, 7),
        (1_000_000_000, 295, 3_000_000_000),
        // It jumps ahead, as after a move to another machine.
        (1_000_000_000, 150, 900_000_000_000_000),
    ] {
        let path = Path { hz, ..LAN };
        let rows = restarted(path.rows(), at, from);
        for referenced in [true, false] {
            let rows = if referenced { rows.clone() } else { without_reference(rows.clone()) };
            for kind in TABLE {
                let options = ReplayOptions { estimator: *kind, ..Default::default() };
                let plain = text(&rows);
                let (sum, judged) = replay(&plain, &options).unwrap();
                assert_eq!((sum.rows, sum.used), (300, 300), "{kind:?}: {:?}", sum.refused);
                assert_eq!(
                    (sum.restarts.count, &sum.restarts.lines[..]),
                    (1, &[at as u64 + 1][..])
                );
                assert_eq!((judged[at - 1].epoch, judged[at].epoch, judged[299].epoch), (1, 2, 2));
                assert!(
                    (sum.duration_s.unwrap() - 16.0 * 299.0).abs() < 1.0,
                    "{:?}",
                    sum.duration_s
                );
                let skewed = hz + hz / 1_000_000 * 37;
                let off = sum.nominal.hz.abs_diff(hz).min(sum.nominal.hz.abs_diff(skewed));
                assert!(off < 10_000, "{:?}", sum.nominal);
                if referenced && *kind == OURS {
                    let reference = sum.reference.unwrap();
                    assert_eq!(reference.inside_bound, Some(1.0));
                    assert!(reference.error.unwrap().max_us < 100.0, "{reference:?}");
                }
                // What the file says of the rate is right, and remains so.
                let declared = format!("# nominal-hz: {hz}\n{plain}");
                let (sum, _) = replay(&declared, &options).unwrap();
                assert_eq!((sum.used, sum.restarts.count), (300, 1));
            }
        }
    }
}

#[test]
fn what_is_out_of_order_or_the_servers_doing_is_no_restart() {
    let rows = LAN.rows();
    let restarts =
        |rows: &[Stamped]| replay(&text(rows), &ReplayOptions::default()).unwrap().0.restarts.count;
    // The same file twice, one row far back, the server a minute off for good, one row so.
    assert_eq!(restarts(&[&rows[..], &rows[..]].concat()), 0);
    let mut moved = rows.clone();
    let row = moved.remove(10);
    moved.insert(200, row);
    assert_eq!(restarts(&moved), 0);
    let off = |row: &mut Stamped| {
        row.server_received += Span::from_secs(60);
        row.server_sent += Span::from_secs(60);
    };
    let mut stepped = rows.clone();
    stepped[150..].iter_mut().for_each(off);
    assert_eq!(restarts(&stepped), 0);
    let mut once = without_reference(rows.clone());
    off(&mut once[0]);
    off(&mut once[150]);
    off(&mut once[299]);
    assert_eq!(restarts(&once), 0);
}

#[test]
fn many_restarts_take_no_memory() {
    let mut rows = without_reference(Path { rows: 1200, ..LAN }.rows());
    for at in (12..1200).step_by(12) {
        rows = restarted(rows, at, 5);
    }
    let sum = replay(&text(&rows), &ReplayOptions::default()).unwrap().0;
    assert_eq!((sum.restarts.count, sum.restarts.lines.len()), (99, LINES));
    assert_eq!(sum.used, 1200);
}

#[test]
fn the_start_may_be_left_out_of_the_statistics() {
    let rows = LAN.rows();
    let all = replay(&text(&rows), &ReplayOptions::default()).unwrap();
    let options = ReplayOptions { settle: Span::from_secs(1600), ..Default::default() };
    let settled = replay(&text(&rows), &options).unwrap();
    assert_eq!(all.1, settled.1);
    assert_eq!((settled.0.rows, settled.0.used, settled.0.settle_s), (300, 300, 1600.0));
    let counted = |sum: &Replayed| {
        let reference = sum.reference.as_ref().unwrap();
        [sum.bound, sum.offset, reference.error, reference.naive].map(|s| s.map(|s| s.count))
    };
    assert_eq!(counted(&all.0), [Some(300); 4]);
    // 1600 s by the counter, which is fast.
    assert_eq!(counted(&settled.0), [Some(200); 4]);
    let max = |sum: &Replayed| sum.reference.as_ref().unwrap().error.unwrap().max_us;
    assert!(max(&settled.0) < max(&all.0));
    // After a restart it starts up again.
    let again = replay(&text(&restarted(rows, 150, 9)), &options).unwrap().0;
    assert_eq!(counted(&again), [Some(100); 4]);
    let options = ReplayOptions { settle: Span::from_secs(16_000), ..Default::default() };
    assert_eq!(counted(&replay(&text(&LAN.rows()), &options).unwrap().0), [None; 4]);
}

#[test]
fn seconds_since_1900_are_recognised() {
    let since = |rows: &[Stamped]| replay(&text(rows), &ReplayOptions::default()).unwrap().0;
    let mut rows = LAN.rows();
    assert!(!since(&rows).since_1900);
    for row in &mut rows {
        row.server_received += Span::from_secs(2_208_988_800);
        row.server_sent += Span::from_secs(2_208_988_800);
    }
    let sum = since(&rows);
    assert!(sum.since_1900);
    assert_eq!(sum.reference.unwrap().offset_s, 2_208_988_800);
}

#[test]
fn whoever_takes_the_rows_may_stop() {
    let text = text(&LAN.rows());
    let mut left = 3;
    let error = replay_stamps(text.as_bytes(), &ReplayOptions::default(), &mut |_| {
        left -= 1;
        if left == 0 { Err(io::Error::from(io::ErrorKind::BrokenPipe)) } else { Ok(()) }
    });
    let Err(ReplayError::Output(error)) = error else { panic!("{error:?}") };
    assert_eq!((error.kind(), left), (io::ErrorKind::BrokenPipe, 0));
}

fn time() -> impl Strategy<Value = Instant> {
    prop_oneof![
        (0..LATEST as i64, any::<u64>()).prop_map(|(secs, frac)| Instant::new(secs, frac)),
        (0i64..1000).prop_map(|s| Instant::new(BEGUN + s, 0)),
    ]
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![
        any::<u64>().prop_map(Count),
        (0u64..1_000_000_000_000).prop_map(Count),
        (0u64..9).prop_map(Count),
        (u64::MAX - 9..).prop_map(Count),
    ]
}

fn stamped() -> impl Strategy<Value = Stamped> {
    (count(), count(), [time(), time(), time(), time()]).prop_map(|(sent, received, times)| {
        let [server_received, server_sent, a, b] = times;
        let reference = Some(Reference { sent: a, received: b });
        Stamped { sent, server_received, server_sent, received, reference }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Hostile rows among good ones.
    #[test]
    fn no_rows_panic(
        hostile in proptest::collection::vec((0usize..40, stamped()), 0..30),
        kind in 0usize..4,
        given in any::<bool>(),
        referenced in any::<bool>(),
        spans in any::<[i64; 2]>(),
    ) {
        let mut rows = Path { rows: 40, ..LAN }.rows();
        for (at, row) in hostile {
            rows.insert(at, row);
        }
        if !referenced {
            rows = without_reference(rows);
        }
        let span = |i: usize| Some(Span::from_nanos(spans[i] & i64::MAX));
        let options = ReplayOptions {
            estimator: TABLE[kind],
            nominal: given.then_some(Period::NANOSECOND),
            stamp_error: span(0).filter(|_| given),
            root_distance: span(1).filter(|_| given),
            max_wander: None,
            poll: None,
            settle: Span::ZERO,
        };
        if let Ok((sum, judged)) = replay(&text(&rows), &options) {
            prop_assert_eq!(sum.rows as usize, rows.len());
            for row in &judged {
                if let Some(clock) = row.clock {
                    prop_assert!(!clock.bound.is_negative() && !clock.floor.is_negative());
                }
                write_csv(row, &mut String::new()).unwrap();
                write_json(row, &mut String::new()).unwrap();
            }
            serde_json::to_string(&sum).unwrap();
        }
    }

    #[test]
    fn no_text_panics(text in "([0-9.]{1,12}[ \\t\\n]){0,40}") {
        for estimator in TABLE {
            let _ = replay(&text, &ReplayOptions { estimator: *estimator, ..Default::default() });
        }
    }
}
