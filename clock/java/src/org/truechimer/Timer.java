package org.truechimer;

import java.time.Duration;
import java.time.Instant;

/**
 * Times at even distances, to be waited for one after the other. They keep to true time, never drift, and
 * keep their distance through a leap second. Nothing runs by itself, and nothing is to be stopped.
 */
public final class Timer {
    private static final int TICK = 24;

    private final Clock clock;
    /** The library's timer, and behind it the tick. */
    private final Place place = new Place(TICK + 96);

    Timer(Clock clock, Instant first, Duration period, Side side) throws ReadException {
        this.clock = clock;
        clock.begin(this.place, first, period, side);
    }

    /**
     * Waits for the next time, as long as the timeout says; null for ever. Of times that have come already
     * only the last is given out, so that a program that was held up catches up at once. After an
     * exception the same time is waited for once more. One thread at a time.
     */
    public synchronized Tick tick(Duration timeout) throws WaitException, InterruptedException {
        clock.waitWith(timeout, (handle, slice) -> Native.tick(handle, place.address, slice, place.address + TICK));
        return new Tick(place, TICK);
    }
}
