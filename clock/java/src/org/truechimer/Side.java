package org.truechimer;

/** Side of a time on which a wait ends, as the time is only known to lie between earliest and latest. */
public enum Side {
    /**
     * While the time is surely not over: as soon as latest is within a microsecond of it. Whether the
     * thread was woken early enough the reading says: its latest is before the time.
     */
    BEFORE,
    /** When it is likely to have come: as soon as best has reached it. */
    LIKELY,
    /** When it is surely over: as soon as earliest is after it (commit wait). */
    AFTER
}
