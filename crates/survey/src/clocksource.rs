//! The kernel's choice of clocksource: looked at, changed, put back.
