package org.truechimer;

import java.nio.ByteBuffer;
import java.time.Instant;

/**
 * The time, and how well it is known: Unix time (UTC).
 *
 * <p>While {@link Status#boundHolds} true time lay from earliest to latest at the moment of the reading.
 * Otherwise nothing is promised and those two are the ends of the scale, so that a program which looks
 * at nothing else cannot be deceived.
 */
public final class Reading {
    private static final long SECOND = 1_000_000_000L;
    private static final int LEAP_SECOND = 1;
    private static final int TAI_KNOWN = 2;

    private final long earliest;
    private final long best;
    private final long latest;
    private final long count;
    private final int status;
    private final int taiOffset;
    private final int flags;

    /** The reading that the library has put at that place. */
    Reading(ByteBuffer bytes, int at) {
        earliest = nanos(bytes, at);
        best = nanos(bytes, at + 16);
        latest = nanos(bytes, at + 32);
        count = bytes.getLong(at + 48);
        status = bytes.getInt(at + 56);
        taiOffset = bytes.getInt(at + 60);
        flags = bytes.getInt(at + 64);
    }

    /** A time of the library's in ns since 1970, held at the ends of 64 bits. */
    static long nanos(ByteBuffer bytes, int at) {
        long seconds = bytes.getLong(at);
        long rest = bytes.getLong(at + 8);
        if (seconds >= Long.MAX_VALUE / SECOND) {
            boolean beyond = seconds > Long.MAX_VALUE / SECOND || rest > Long.MAX_VALUE % SECOND;
            return beyond ? Long.MAX_VALUE : seconds * SECOND + rest;
        }
        long first = Math.floorDiv(Long.MIN_VALUE, SECOND);
        if (seconds <= first && (seconds < first || rest < Math.floorMod(Long.MIN_VALUE, SECOND))) {
            return Long.MIN_VALUE;
        }
        // That of the first second goes out of the scale and comes back.
        return seconds * SECOND + rest;
    }

    /** Those nanoseconds as an instant; the ends of the scale as those of instants. */
    static Instant instant(long nanos) {
        if (nanos == Long.MIN_VALUE) {
            return Instant.MIN;
        }
        if (nanos == Long.MAX_VALUE) {
            return Instant.MAX;
        }
        return Instant.ofEpochSecond(Math.floorDiv(nanos, SECOND), Math.floorMod(nanos, SECOND));
    }

    /** True time was not before this: ns since 1970, rounded down. */
    public long earliestNanos() {
        return earliest;
    }

    /**
     * The best estimate: ns since 1970, rounded down. Not necessarily half-way between the others. While
     * nothing is promised it is only what the clock shows, in 1970 perhaps.
     */
    public long bestNanos() {
        return best;
    }

    /** True time was not after this: ns since 1970, rounded up. */
    public long latestNanos() {
        return latest;
    }

    /** Farthest that true time may be from the best estimate, ns, 0 or more; -1 if nothing is promised. */
    public long boundNanos() {
        if (!status().boundHolds()) {
            return -1;
        }
        long most = Math.max(best - earliest, latest - best);
        // Farther than can be said.
        return best - earliest < 0 || latest - best < 0 ? Long.MAX_VALUE : most;
    }

    /** {@link #earliestNanos} as an instant. */
    public Instant earliest() {
        return instant(earliest);
    }

    /** {@link #bestNanos} as an instant. */
    public Instant best() {
        return instant(best);
    }

    /** {@link #latestNanos} as an instant. */
    public Instant latest() {
        return instant(latest);
    }

    /** Status of the clock. */
    public Status status() {
        return Status.of(status);
    }

    /** The count that the time is of, 64 bits without a sign. */
    public long count() {
        return count;
    }

    /** TAI - UTC at the best estimate, s, if {@link #taiKnown}; else leap seconds since the daemon began. */
    public int taiOffset() {
        return taiOffset;
    }

    /** True if {@link #taiOffset} is TAI - UTC. */
    public boolean taiKnown() {
        return (flags & TAI_KNOWN) != 0;
    }

    /** True if the best estimate lies within an inserted second, 23:59:60, shown as another 23:59:59. */
    public boolean leapSecond() {
        return (flags & LEAP_SECOND) != 0;
    }

    @Override
    public String toString() {
        return best() + ", " + status() + ", from " + earliest + " to " + latest + " ns";
    }
}
