//! Comma-separated values.

use std::io::{self, Write};

use truechimer_command::output::csv_field;
use truechimer_qos::{Bins, Engine, FlowReport, Kind, Report, RttReport, Spread, Way};

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The kind of round trip that a row shows: the most frequent one. A single first answer is none:
/// nothing but its place says that the packet is an answer.
pub fn most_rtts(rtts: &[RttReport]) -> Option<&RttReport> {
    let sound = |rtt: &&RttReport| rtt.kind != Kind::FirstAnswer || rtt.time.n > 1;
    rtts.iter().filter(sound).max_by_key(|rtt| rtt.time.n)
}

fn spread(spread: Option<&Spread>) -> [String; 4] {
    let one = |pick: fn(&Spread) -> Option<i64>| optional(spread.and_then(pick));
    [one(|s| s.min_ns), one(|s| s.median_ns), one(|s| s.p99_ns), one(|s| s.max_ns)]
}

fn way(flow: &FlowReport) -> &'static str {
    match flow.path.as_ref().and_then(|path| path.way) {
        Some(Way::Forward) => "forward",
        Some(Way::Backward) => "backward",
        None => "",
    }
}

fn rtt_name(kind: Kind) -> &'static str {
    kind.name()
}

/// A row for each flow.
pub fn flows(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "number,flow,point,packets,bytes,lasted_ns,packets_per_s,bits_per_s,gap_median_ns,\
         lost,loss_ratio,longest_loss,duplicates,reordered,reorder_extent_max,jitter_ns,\
         jitter_mean_ns,jitter_max_ns,rtt_kind,rtt_n,rtt_min_ns,rtt_median_ns,rtt_p99_ns,rtt_max_ns,rtt_bound_max_ns,\
         way,delay_n,delay_min_ns,delay_median_ns,delay_p99_ns,delay_max_ns,delay_bound_max_ns,\
         delay_negative,pdv_p99_ns,ipdv_p99_ns,ambiguous"
    )?;
    for flow in &report.flows {
        for (point, seen) in report.points.iter().zip(&flow.seen) {
            let Some(seen) = seen else { continue };
            let (numbers, rtp) = (seen.numbers.as_ref(), seen.rtp.as_ref());
            let rtt = most_rtts(&seen.rtt);
            let mut cells = vec![
                flow.number.to_string(),
                csv_field(&flow.name),
                csv_field(&point.name),
                seen.packets.to_string(),
                seen.bytes.to_string(),
                seen.lasted_ns.to_string(),
                optional(seen.packets_per_s),
                optional(seen.bits_per_s),
                optional(seen.gap.median_ns),
                optional(numbers.map(|n| n.loss.lost)),
                optional(numbers.and_then(|n| n.loss.ratio)),
                optional(numbers.and_then(|n| n.loss.longest_run)),
                optional(numbers.map(|n| n.copies)),
                optional(numbers.map(|n| n.reordering.reordered)),
                optional(numbers.and_then(|n| n.reordering.max_extent)),
                optional(rtp.and_then(|rtp| rtp.jitter_ns)),
                optional(rtp.and_then(|rtp| rtp.jitter_mean_ns)),
                optional(rtp.and_then(|rtp| rtp.jitter_max_ns)),
                rtt.map_or("", |rtt| rtt_name(rtt.kind)).to_owned(),
                optional(rtt.map(|rtt| rtt.time.n)),
            ];
            cells.extend(spread(rtt.map(|rtt| &rtt.time)));
            cells.push(optional(rtt.and_then(|rtt| rtt.bound_max_ns)));
            cells.extend(std::iter::repeat_n(String::new(), 11));
            writeln!(out, "{}", cells.join(","))?;
        }
        let Some(path) = &flow.path else { continue };
        let mut cells = vec![flow.number.to_string(), csv_field(&flow.name), "between".to_owned()];
        cells.extend(std::iter::repeat_n(String::new(), 6));
        cells.extend([
            path.loss.lost.to_string(),
            optional(path.loss.ratio),
            optional(path.loss.longest_run),
            path.duplicates.to_string(),
            path.reordering.reordered.to_string(),
            optional(path.reordering.max_extent),
            optional(path.jitter_ns),
            optional(path.jitter_mean_ns),
            optional(path.jitter_max_ns),
        ]);
        cells.extend(std::iter::repeat_n(String::new(), 7));
        cells.extend([way(flow).to_owned(), path.delay.n.to_string()]);
        cells.extend(spread(Some(&path.delay)));
        cells.extend([
            optional(path.bound_max_ns),
            path.negative.to_string(),
            optional(path.pdv.p99_ns),
            optional(path.ipdv.p99_ns),
            path.ambiguous.iter().sum::<u64>().to_string(),
        ]);
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

/// A row for each flow and interval.
pub fn series(report: &Report, engine: &Engine, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "number,flow,point,from_unix_ns,width_ns,packets,bytes,wire_bytes,lost,delay_n,\
         delay_min_ns,delay_mean_ns,delay_max_ns,delay_bound_max_ns"
    )?;
    let mut rows = |flow: &FlowReport, point: &str, bins: &Bins| {
        for (from, bin) in bins.iter() {
            let values = (bin.values > 0).then_some(bin);
            let cells = [
                flow.number.to_string(),
                csv_field(&flow.name),
                csv_field(point),
                from.to_string(),
                bins.width_ns().to_string(),
                bin.packets.to_string(),
                bin.bytes.to_string(),
                bin.wire_bytes.to_string(),
                bin.lost.to_string(),
                bin.values.to_string(),
                optional(values.map(|bin| bin.least)),
                optional(bin.mean()),
                optional(values.map(|bin| bin.greatest)),
                optional(bin.bound),
            ];
            writeln!(out, "{}", cells.join(","))?;
        }
        io::Result::Ok(())
    };
    for flow in &report.flows {
        let Some(kept) = engine.flow(flow.number) else { continue };
        for (point, seen) in report.points.iter().zip(&kept.seen) {
            if let Some(seen) = seen {
                rows(flow, &point.name, &seen.bins)?;
            }
        }
        if let Some(path) = &kept.path {
            rows(flow, "between", &path.bins)?;
        }
    }
    Ok(())
}
