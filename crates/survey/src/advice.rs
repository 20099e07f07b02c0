//! Advice on the machine's counters, in plain words.
