//! Fewer points that look the same: extremes and gaps survive.

/// At most about `most` of the points, in order, so that a plot of them looks like a plot of all:
/// from each stretch of equally many points the least and the greatest, and, where something in it
/// is no number, one that is none (a gap). The first and the last point are always among them.
/// With `most` points or fewer, all of them.
#[must_use]
pub fn decimate(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most.max(4) {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil((most / 2).max(2));
    let mut kept = Vec::with_capacity(most + 8);
    for (n, bucket) in points.chunks(stretch).enumerate() {
        let mut least: Option<(usize, f64)> = None;
        let mut greatest: Option<(usize, f64)> = None;
        let mut gap = None;
        for (i, &(_, y)) in bucket.iter().enumerate() {
            if !y.is_finite() {
                gap = gap.or(Some(i));
                continue;
            }
            if least.is_none_or(|(_, l)| y < l) {
                least = Some((i, y));
            }
            if greatest.is_none_or(|(_, g)| y > g) {
                greatest = Some((i, y));
            }
        }
        let last = (n + 1) * stretch >= points.len();
        let mut wanted = [
            least.map(|(i, _)| i),
            greatest.map(|(i, _)| i),
            gap,
            (n == 0).then_some(0),
            last.then_some(bucket.len() - 1),
        ];
        wanted.sort_unstable();
        let mut before = None;
        for i in wanted.into_iter().flatten() {
            if before != Some(i) {
                kept.extend(bucket.get(i).copied());
            }
            before = Some(i);
        }
    }
    kept
}

/// At most about `most` of the points, in order, so that a cloud of them stays a cloud: every so
/// many-th, and the extremes as [`decimate`] keeps them.
#[must_use]
pub fn thin(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most.max(4) {
        return points.to_vec();
    }
    let most = most.max(8);
    let stride = points.len().div_ceil(most - most / 4);
    let mut kept: Vec<(f64, f64)> = points.iter().step_by(stride).copied().collect();
    kept.extend(decimate(points, most / 4));
    kept.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    kept.dedup();
    kept
}

/// Thins like [`decimate`], for a band of (x, low, high): two rows for each stretch, its first and
/// its last x, both with the least low and the greatest high, so that the band drawn covers the one
/// given.
#[must_use]
pub fn envelope(rows: &[(f64, f64, f64)], most: usize) -> Vec<(f64, f64, f64)> {
    if rows.len() <= most.max(4) {
        return rows.to_vec();
    }
    let stretch = rows.len().div_ceil((most / 2).max(2));
    let mut kept = Vec::with_capacity(most + 8);
    for bucket in rows.chunks(stretch) {
        let (Some(first), Some(last)) = (bucket.first(), bucket.last()) else { continue };
        let mut widest: Option<(f64, f64)> = None;
        let mut gap = None;
        for &(x, low, high) in bucket {
            if !low.is_finite() || !high.is_finite() {
                gap = gap.or(Some((x, f64::NAN, f64::NAN)));
                continue;
            }
            let (l, h) = widest.unwrap_or((low, high));
            widest = Some((l.min(low), h.max(high)));
        }
        let end = |x| widest.map(|(low, high)| (x, low, high));
        kept.extend([end(first.0), gap, end(last.0)].into_iter().flatten());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_keeps_its_middle_and_its_extremes() {
        let mut points: Vec<(f64, f64)> =
            (0..10_000).map(|n| (f64::from(n), f64::from(n * 7919 % 1000))).collect();
        points[4321].1 = 1e6;
        let thinned = thin(&points, 400);
        assert!(thinned.len() > 300 && thinned.len() < 460, "{}", thinned.len());
        assert!(thinned.contains(&(4321.0, 1e6)));
        let middle = thinned.iter().filter(|(_, y)| (250.0..750.0).contains(y)).count();
        assert!(middle > 100, "{middle}");
        assert!(thinned.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thin(&points[..300], 400), points[..300]);
    }

    fn wave(n: usize) -> Vec<(f64, f64)> {
        (0..n).map(|i| (i as f64, ((i * 7919) % 1009) as f64)).collect()
    }

    #[test]
    fn extremes_and_ends_survive() {
        let mut points = wave(100_800);
        points[54_321].1 = -1e6;
        points[77_777].1 = 1e6;
        let kept = decimate(&points, 6000);
        assert!(kept.len() <= 6010, "{}", kept.len());
        assert!(kept.len() > 4000);
        assert!(kept.contains(&(54_321.0, -1e6)));
        assert!(kept.contains(&(77_777.0, 1e6)));
        assert_eq!(kept.first(), points.first());
        assert_eq!(kept.last(), points.last());
        assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn every_stretch_keeps_its_extremes() {
        let points = wave(1000);
        let kept = decimate(&points, 100);
        for bucket in points.chunks(20) {
            let of = |v: &[(f64, f64)]| {
                v.iter().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(p.1), h.max(p.1)))
            };
            let (from, to) = (bucket[0].0, bucket[19].0);
            let mine: Vec<_> = kept.iter().copied().filter(|p| p.0 >= from && p.0 <= to).collect();
            assert_eq!(of(&mine), of(bucket));
        }
    }

    #[test]
    fn gaps_survive() {
        let mut points = wave(10_000);
        points[5000].1 = f64::NAN;
        assert_eq!(decimate(&points, 100).iter().filter(|p| p.1.is_nan()).count(), 1);
        let nothing: Vec<_> = (0..10_000).map(|i| (f64::from(i), f64::NAN)).collect();
        let kept = decimate(&nothing, 100);
        assert!(!kept.is_empty() && kept.iter().all(|p| p.1.is_nan()));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        assert_eq!(decimate(&[], 100), []);
        assert_eq!(decimate(&[(1.0, 2.0)], 0), [(1.0, 2.0)]);
        assert_eq!(decimate(&wave(100), 100), wave(100));
        assert!(decimate(&wave(100), 0).len() >= 3);
    }

    #[test]
    fn the_envelope_covers_the_band() {
        let rows: Vec<_> = wave(5000).iter().map(|&(x, y)| (x, -y, 2.0 * y)).collect();
        let kept = envelope(&rows, 200);
        assert!(kept.len() <= 204);
        for &(x, low, high) in &rows {
            let after = kept.partition_point(|r| r.0 < x).min(kept.len() - 1);
            let before = if kept[after].0 == x { after } else { after - 1 };
            for row in [kept[before], kept[after]] {
                let same = row.0 == x
                    || (kept[before].1, kept[before].2) == (kept[after].1, kept[after].2);
                assert!(!same || (row.1 <= low && row.2 >= high), "{x}");
            }
        }
        let mut broken = rows.clone();
        broken[2500].1 = f64::NAN;
        assert_eq!(envelope(&broken, 200).iter().filter(|r| r.1.is_nan()).count(), 1);
    }
}
