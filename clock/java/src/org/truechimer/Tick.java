package org.truechimer;

import java.time.Instant;

/** A time of a {@link Timer} that has come. */
public final class Tick {
    private final long time;
    private final long missed;
    private final Reading reading;

    Tick(Place place, int at) {
        time = Reading.nanos(place.bytes, at);
        missed = place.bytes.getLong(at + 16);
        reading = new Reading(place.bytes, at + 24);
    }

    /** The time, ns since 1970. */
    public long timeNanos() {
        return time;
    }

    /** {@link #timeNanos} as an instant. */
    public Instant time() {
        return Reading.instant(time);
    }

    /** Number of times before this one that had come already when it was asked for, and were left out. */
    public long missed() {
        return missed;
    }

    /** The reading that ended the wait. */
    public Reading reading() {
        return reading;
    }

    @Override
    public String toString() {
        return time() + ", " + missed + " missed";
    }
}
