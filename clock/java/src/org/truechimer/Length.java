package org.truechimer;

import java.time.Duration;

/** A length of time by the difference clock. */
public final class Length {
    private final long nanos;
    private final long boundNanos;

    Length(Place place) {
        nanos = place.bytes.getLong(0);
        boundNanos = place.bytes.getLong(8);
    }

    /** Length, ns, to the nearest; negative if the second moment came first. */
    public long nanos() {
        return nanos;
    }

    /** Farthest that the true length may be from nanos, ns, 0 or more, rounded up. */
    public long boundNanos() {
        return boundNanos;
    }

    /** The length as a duration. */
    public Duration duration() {
        return Duration.ofNanos(nanos);
    }

    @Override
    public String toString() {
        return nanos + " ns, within " + boundNanos;
    }
}
