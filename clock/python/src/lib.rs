//! The Truechimer clock for Python: the client `truechimer` as the module `truechimer._truechimer`,
//! which the package `truechimer` (`python/`) gives out. `docs/use/python.md` shows how it is used.
//!
//! Times are whole nanoseconds of Unix time, rounded outwards. What is made of them in Python, dates
//! and the status, is in `python/truechimer/_times.py`.

mod give;
mod wait;

use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use give::Told;
use truechimer::{Side, UnixNanos};

create_exception!(truechimer, ClockError, PyException, "There is no clock, or no time from it.");
create_exception!(truechimer, OpenError, ClockError, "The clock cannot be opened.");
create_exception!(truechimer, ReadError, ClockError, "The clock cannot tell.");
create_exception!(truechimer, WaitError, ClockError, "A wait was over in vain.");

fn no_reading(error: truechimer::ReadError) -> PyErr {
    ReadError::new_err(error.to_string())
}

/// The module of what is better said in Python.
fn times(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static TIMES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = TIMES.get_or_try_init(py, || {
        Ok::<_, PyErr>(PyModule::import(py, "truechimer._times")?.unbind())
    })?;
    Ok(module.bind(py))
}

/// A clock to read. All threads may use it at the same time, and children after a fork.
#[pyclass(frozen, module = "truechimer")]
struct Clock {
    // Of an alignment that Python gives no object.
    clock: Box<truechimer::Clock>,
}

#[pymethods]
impl Clock {
    #[new]
    #[pyo3(signature = (path = None, *, fenced = false))]
    fn new(path: Option<PathBuf>, fenced: bool) -> PyResult<Clock> {
        let opened = path.map_or_else(truechimer::Clock::open, truechimer::Clock::open_at);
        let clock = opened.map_err(|error| OpenError::new_err(error.to_string()))?;
        Ok(Clock { clock: Box::new(if fenced { clock.fenced() } else { clock }) })
    }

    /// The time now, with its bound and status.
    fn now(&self) -> PyResult<Reading> {
        self.clock.now().map(Reading::of).map_err(no_reading)
    }

    /// The time now, never before what an earlier call on this clock gave, in any thread.
    fn now_monotone(&self) -> PyResult<Reading> {
        let now = self.clock.now_monotone_unix();
        now.map(|(now, unix)| Reading(Told::with(&now, &unix))).map_err(no_reading)
    }

    /// The status of the clock now.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        status(py, self.clock.status().map_err(no_reading)?)
    }

    /// This moment, to ask about later.
    fn count(&self) -> PyResult<Moment> {
        self.clock.moment().map(Moment).map_err(no_reading)
    }

    /// The time of a moment, by what is known now.
    fn time_of(&self, moment: &Moment) -> PyResult<Reading> {
        self.clock.time_of(moment.0).map(Reading::of).map_err(no_reading)
    }

    /// Length of the time from one moment to another, by the clock that no correction disturbs.
    fn elapsed(&self, start: &Moment, end: &Moment) -> PyResult<Length> {
        self.clock.elapsed(start.0, end.0).map(Length::of).map_err(no_reading)
    }

    /// Time since the machine was started, suspended or not, which no correction of the time moves.
    fn uptime(&self) -> PyResult<Length> {
        self.clock.uptime().map(Length::of).map_err(no_reading)
    }

    /// Waits until a time is over for sure: until earliest is after it.
    #[pyo3(signature = (time, timeout = None))]
    fn wait_after(
        &self,
        py: Python<'_>,
        time: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Reading> {
        let time = unix(time)?;
        wait::wait(py, timeout, |slice| self.clock.wait_for_unix(time, Side::After, Some(slice)))
            .map(Reading::of)
    }

    /// Waits for a time, on that side of it.
    #[pyo3(signature = (time, side, timeout = None))]
    fn wait_for(
        &self,
        py: Python<'_>,
        time: &Bound<'_, PyAny>,
        side: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Reading> {
        let (time, side) = (unix(time)?, give::side(side.extract()?)?);
        wait::wait(py, timeout, |slice| self.clock.wait_for_unix(time, side, Some(slice)))
            .map(Reading::of)
    }

    /// A timer for a first time and every period after it, on that side of each.
    fn timer(
        slf: &Bound<'_, Clock>,
        first: &Bound<'_, PyAny>,
        period_ns: i64,
        side: &Bound<'_, PyAny>,
    ) -> PyResult<Timer> {
        let (first, side) = (unix(first)?, give::side(side.extract()?)?);
        let leaps = slf.get().clock.now().map_err(no_reading)?.leaps();
        let period = u64::try_from(period_ns).unwrap_or(0);
        let timer = truechimer::UnixTimer::new(&leaps, first, period, side);
        Ok(Timer { clock: slf.clone().unbind(), timer })
    }

    /// Waits until the clock is synchronised, with a bound of at most max_bound_ns if one is given.
    #[pyo3(signature = (max_bound_ns = None, timeout = None))]
    fn wait_synchronised(
        &self,
        py: Python<'_>,
        max_bound_ns: Option<i64>,
        timeout: Option<f64>,
    ) -> PyResult<Reading> {
        let max = max_bound_ns.map(truechimer::Span::from_nanos);
        wait::wait(py, timeout, |slice| self.clock.wait_synchronised(max, slice)).map(Reading::of)
    }

    /// The path of the clock's page.
    #[getter]
    fn page(&self) -> PathBuf {
        self.clock.page().path().to_path_buf()
    }

    fn __repr__(&self) -> String {
        format!("<truechimer.Clock of {}>", self.clock.page().path().display())
    }
}

fn status(py: Python<'_>, status: truechimer::Status) -> PyResult<Bound<'_, PyAny>> {
    times(py)?.getattr("Status")?.call1((status as u8,))
}

/// A time as a program gives it: a date with its zone, or ns of Unix time.
fn unix(time: &Bound<'_, PyAny>) -> PyResult<UnixNanos> {
    let ns = times(time.py())?.call_method1("ns", (time,))?.extract()?;
    Ok(UnixNanos::from_nanos(ns))
}

/// Times at even distances, to be waited for one after the other.
#[pyclass(module = "truechimer")]
struct Timer {
    clock: Py<Clock>,
    timer: truechimer::UnixTimer,
}

#[pymethods]
impl Timer {
    /// Waits for the next time.
    #[pyo3(signature = (timeout = None))]
    fn tick(&mut self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Tick> {
        let (clock, timer) = (&self.clock.get().clock, self.timer);
        let (timer, tick) = wait::wait(py, timeout, |slice| {
            let mut timer = timer;
            timer.tick(clock, Some(slice)).map(|tick| (timer, tick))
        })?;
        self.timer = timer;
        Ok(Tick(tick))
    }

    fn __iter__(slf: Py<Timer>) -> Py<Timer> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Tick> {
        self.tick(py, None)
    }
}

/// A time of a timer that has come.
#[pyclass(frozen, module = "truechimer")]
struct Tick(truechimer::UnixTick);

#[pymethods]
impl Tick {
    #[getter]
    fn time_ns(&self) -> i128 {
        self.0.time.as_nanos()
    }

    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times(py)?.call_method1("down", (self.time_ns(),))
    }

    #[getter]
    fn missed(&self) -> u64 {
        self.0.missed
    }

    #[getter]
    fn reading(&self) -> Reading {
        Reading::of(self.0.reading)
    }

    fn __repr__(&self) -> String {
        format!("<truechimer.Tick {} ns, {} missed>", self.time_ns(), self.0.missed)
    }
}

/// The time, and how well it is known.
#[pyclass(frozen, module = "truechimer")]
struct Reading(Told);

impl Reading {
    fn of(reading: truechimer::Reading) -> Reading {
        Reading(Told::of(&reading))
    }
}

#[pymethods]
impl Reading {
    #[getter]
    fn earliest_ns(&self) -> i64 {
        self.0.earliest
    }

    #[getter]
    fn best_ns(&self) -> i64 {
        self.0.best
    }

    #[getter]
    fn latest_ns(&self) -> i64 {
        self.0.latest
    }

    #[getter]
    fn bound_ns(&self) -> Option<i64> {
        self.0.bound
    }

    #[getter]
    fn earliest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times(py)?.call_method1("down", (self.0.earliest,))
    }

    #[getter]
    fn best<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times(py)?.call_method1("down", (self.0.best,))
    }

    #[getter]
    fn latest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times(py)?.call_method1("up", (self.0.latest,))
    }

    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        status(py, self.0.status)
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.count
    }

    #[getter]
    fn tai_offset(&self) -> i32 {
        self.0.tai_offset
    }

    #[getter]
    fn tai_known(&self) -> bool {
        self.0.tai_known
    }

    #[getter]
    fn leap_second(&self) -> bool {
        self.0.leap_second
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Told { earliest, best, latest, .. } = self.0;
        let best = times(py)?.call_method1("down", (best,))?.str()?;
        let status = self.0.status;
        Ok(format!("<truechimer.Reading {best}, {status}, from {earliest} to {latest} ns>"))
    }
}

/// A count that knows which counter it is of.
#[pyclass(frozen, eq, hash, module = "truechimer")]
#[derive(PartialEq, Eq, Hash)]
struct Moment(truechimer::Moment);

#[pymethods]
impl Moment {
    #[new]
    fn new(count: u64, stretch: u64) -> PyResult<Moment> {
        let no_moment =
            || PyValueError::new_err("no clock gave this moment: keep both words of it");
        truechimer::Moment::from_words([count, stretch]).map(Moment).ok_or_else(no_moment)
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.to_words()[0]
    }

    #[getter]
    fn stretch(&self) -> u64 {
        self.0.to_words()[1]
    }

    fn __getnewargs__(&self) -> (u64, u64) {
        (self.count(), self.stretch())
    }

    fn __repr__(&self) -> String {
        format!("truechimer.Moment({}, {})", self.count(), self.stretch())
    }
}

/// A length of time by the difference clock.
#[pyclass(frozen, module = "truechimer")]
struct Length {
    ns: i64,
    bound_ns: i64,
}

impl Length {
    fn of(elapsed: truechimer::Elapsed) -> Length {
        let (ns, bound_ns) = give::length(&elapsed);
        Length { ns, bound_ns }
    }
}

#[pymethods]
impl Length {
    #[getter]
    fn ns(&self) -> i64 {
        self.ns
    }

    #[getter]
    fn bound_ns(&self) -> i64 {
        self.bound_ns
    }

    fn __repr__(&self) -> String {
        format!("<truechimer.Length {} ns, within {}>", self.ns, self.bound_ns)
    }
}

/// The classes and exceptions.
#[pymodule]
fn _truechimer(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<Clock>()?;
    module.add_class::<Reading>()?;
    module.add_class::<Moment>()?;
    module.add_class::<Length>()?;
    module.add_class::<Timer>()?;
    module.add_class::<Tick>()?;
    module.add("ClockError", py.get_type::<ClockError>())?;
    module.add("OpenError", py.get_type::<OpenError>())?;
    module.add("ReadError", py.get_type::<ReadError>())?;
    module.add("WaitError", py.get_type::<WaitError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
