//! Every counter and clocksource of the machine.
