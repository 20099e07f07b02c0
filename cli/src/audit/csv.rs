//! Comma-separated values: a row for each interval, gap and what is not known yet; or for each stretch of a source.

use std::io::{self, Write};

use truechimer_audit::{Gap, Piece, SourceState, Stretch, Time};
use truechimer_command::output::csv_field;

use super::Report;

/// Status in the rows of which the record says nothing,
const NO_RECORD: &str = "no-record";
/// or whose lines do not fit the chain,
const BROKEN: &str = "broken";
/// or of which it says nothing yet.
const NOT_YET: &str = "not-yet";

/// All intervals, and what lies between, in order of time.
pub fn intervals(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let account = report.account;
    writeln!(out, "from,to,length_ns,status,bound_ns,source")?;
    let mut gaps = account.gaps().into_iter().peekable();
    for piece in account.pieces() {
        while let Some(gap) = gaps.next_if(|gap| gap.from < piece.from) {
            silent(&gap, out)?;
        }
        let Piece { from, to, bound_ns, .. } = piece;
        let bound = bound_ns.map_or_else(String::new, |ns| ns.to_string());
        let source = account.source(&piece).map_or_else(String::new, csv_field);
        row(out, from, to, account.status(&piece), &bound, &source)?;
    }
    for gap in gaps {
        silent(&gap, out)?;
    }
    if account.judged() < account.to {
        row(out, account.judged(), account.to, NOT_YET, "", "")?;
    }
    Ok(())
}

/// All stretches of the sources, in the order in which these begin.
pub fn sources(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "from,to,length_ns,source,status,reason,address,stratum,reference,root_distance_ns"
    )?;
    for stretch in report.account.stretches().iter().filter(|s| s.length_ns() > 0) {
        let Stretch { from, to, state } = stretch;
        let SourceState { name, address, status, stratum, reference, root_distance_ns, reason } =
            state;
        let text = |text: &Option<String>| text.as_deref().map_or_else(String::new, csv_field);
        let number = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
        writeln!(
            out,
            "{from},{to},{},{},{},{},{},{},{},{}",
            stretch.length_ns(),
            csv_field(name),
            csv_field(status),
            text(reason),
            text(address),
            number(stratum.map(u64::from)),
            text(reference),
            number(*root_distance_ns)
        )?;
    }
    Ok(())
}

fn silent(gap: &Gap, out: &mut dyn Write) -> io::Result<()> {
    row(out, gap.from, gap.to, if gap.is_broken { BROKEN } else { NO_RECORD }, "", "")
}

fn row(
    out: &mut dyn Write,
    from: Time,
    to: Time,
    status: &str,
    bound: &str,
    source: &str,
) -> io::Result<()> {
    let length = to.0.saturating_sub(from.0);
    writeln!(out, "{from},{to},{length},{},{bound},{source}", csv_field(status))
}
