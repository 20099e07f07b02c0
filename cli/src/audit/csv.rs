//! Comma-separated values: a row for each interval and for each gap.

use std::io::{self, Write};

use truechimer_audit::{Gap, Piece, Time};
use truechimer_command::output::csv_field;

use super::Report;

/// Status in the rows of which the record says nothing.
const NO_RECORD: &str = "no-record";

/// All rows, in order of time.
pub fn rows(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
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
    Ok(())
}

fn silent(gap: &Gap, out: &mut dyn Write) -> io::Result<()> {
    row(out, gap.from, gap.to, NO_RECORD, "", "")
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
