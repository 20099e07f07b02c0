//! Every reading of a run, for other programs.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use truechimer_sim::Trace;

use truechimer_command::Failure;

/// Writes the readings of a run, one line a second.
pub fn save(trace: &Trace, path: &Path) -> Result<(), Failure> {
    let failed = |why| Failure::new(path.display(), why);
    let mut out = BufWriter::new(truechimer_files::create(path, 0o666).map_err(failed)?);
    write(trace, &mut out).and_then(|()| out.flush()).map_err(failed)
}

/// Seconds since the first request by true time; clock − truth; its bound, and the statistical part
/// of that; the error of the published rate; the counter's own. What there is not is left empty.
fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "at_s,status,error_ns,bound_ns,statistical_ns,rate_error_ppb,skew_ppb")?;
    for s in &trace.samples {
        write!(out, "{},{}", s.at, s.status)?;
        for value in [s.error, s.bound, s.statistical, s.rate_error, s.skew] {
            match value.is_finite() {
                true => write!(out, ",{:.4}", value * 1e9)?,
                false => write!(out, ",")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
