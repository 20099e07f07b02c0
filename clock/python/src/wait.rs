//! Waits in which other threads of Python go on, and that Ctrl-C ends.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use truechimer::WaitError;

/// Longest time that Python's signals may have to wait.
const SLICE: Duration = Duration::from_millis(50);

/// Waits for `timeout` seconds, or for ever, a slice at a time.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    slice: impl Fn(Duration) -> Result<T, WaitError> + Sync,
) -> PyResult<T> {
    let timeout = timeout.map(duration).transpose()?;
    let start = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        let slice = &slice;
        match py.detach(|| slice(left.map_or(SLICE, |left| left.min(SLICE)))) {
            Ok(came) => return Ok(came),
            Err(WaitError { last, .. }) => {
                py.check_signals()?;
                if let Some(timeout) = timeout.filter(|timeout| start.elapsed() >= *timeout) {
                    let error = WaitError { timeout, last };
                    return Err(crate::WaitError::new_err(error.to_string()));
                }
            }
        }
    }
}

fn duration(seconds: f64) -> PyResult<Duration> {
    match seconds {
        s if s.is_nan() => Err(PyValueError::new_err("timeout is no number: give seconds")),
        s if s <= 0.0 => Ok(Duration::ZERO),
        s => Ok(Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)),
    }
}
