package org.truechimer;

/** State of a clock by its own word. */
public enum Status {
    /** Never synchronised, or too old to say: no bound is promised. */
    UNKNOWN,
    /** Following its sources; the bound holds. */
    SYNCHRONISED,
    /** No fresh word from any source, or no daemon; the bound holds and grows. */
    HOLDOVER,
    /** The counter lost its continuity; the bound is void until the clock has synchronised again. */
    DISRUPTED;

    private static final Status[] ALL = values();

    /** True if the bound is promised to hold. */
    public boolean boundHolds() {
        return this == SYNCHRONISED || this == HOLDOVER;
    }

    static Status of(int number) {
        return number >= 0 && number < ALL.length ? ALL[number] : UNKNOWN;
    }
}
