//! Table of how the directions of each path differ.

use std::io::{self, Write};

use truechimer_command::table::{Side, Table};
use truechimer_engine::{Asymmetry, SourceReport};
use truechimer_time::Span;

/// Writes what is used and what is learnt of each server's path, and what to write into the
/// configuration to have it used.
pub(super) fn write(sources: &[SourceReport], out: &mut dyn Write) -> io::Result<()> {
    let servers = || sources.iter().filter(|source| !source.kind.is_refclock());
    let mut table = Table::new(&[
        ("server", Side::Left),
        ("floor", Side::Right),
        ("used", Side::Right),
        ("learnt", Side::Right),
        ("± error", Side::Right),
        ("exchanges", Side::Right),
    ]);
    for source in servers() {
        let none = || "-".to_owned();
        let by = |asymmetry: &Asymmetry| format!("{:+}", asymmetry.by);
        let learnt = source.learnt.as_ref();
        table.row(vec![
            source.name.clone(),
            source.rtt_floor.map_or_else(none, |floor| floor.to_string()),
            source.asymmetry.as_ref().map_or_else(none, by),
            learnt.map_or_else(none, |learnt| by(&learnt.asymmetry)),
            learnt.map_or_else(none, |learnt| learnt.asymmetry.error.to_string()),
            learnt.map_or_else(none, |learnt| learnt.exchanges.to_string()),
        ]);
    }
    table.write(out)?;
    writeln!(out, "asymmetry: what the fastest request takes - what the fastest reply takes")?;
    let mut known =
        servers().filter_map(|source| Some((source, source.learnt.as_ref()?.asymmetry)));
    let Some((source, Asymmetry { by, error })) = known.next() else {
        return writeln!(
            out,
            "nothing is learnt yet: it takes a clock whose bound is less than half of a path's round \
             trip,\nby a reference clock, a PTP port or a nearer server, and 16 exchanges"
        );
    };
    let up = |span: Span| span.as_nanos_up();
    writeln!(
        out,
        "to use one when that clock fails, below that server: asymmetry = \"learn\", or by hand, as \
         for {}:\n    asymmetry = \"{}ns\"\n    asymmetry-error = \"{}ns\"",
        source.name,
        by.as_nanos_i64(),
        up(error + Span::from_nanos(1)),
    )
}
