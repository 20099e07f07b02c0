package org.truechimer;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;

/**
 * A clock to read, for any number of threads: open it once.
 *
 * <p>A daemon ({@code truechimer run}) keeps a page of shared memory up to date. A reading takes no lock and
 * no system call, and allocates nothing but the answer. A daemon that is started again is followed.
 */
public final class Clock implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final Charset NAMES = Charset.forName(System.getProperty("sun.jnu.encoding", "UTF-8"));
    private static final int TEXT = 8192;
    /** Longest time that a thread's interruption, or the clock's end, may have to wait, ns. */
    private static final long SLICE = 50_000_000;

    private final long handle;
    private volatile boolean closed;

    private Clock(long handle) {
        this.handle = handle;
        // Not before no thread is in any method here: each keeps the clock reachable to its end.
        CLEANER.register(this, () -> Native.close(handle));
    }

    /**
     * Opens the clock of this machine: the page that $TRUECHIMER_PAGE names, else
     * $XDG_RUNTIME_DIR/truechimer/clock or /run/truechimer/clock. A page without any time yet is no error
     * here but one of {@link #now}.
     */
    public static Clock open() throws OpenException {
        return open(null, false);
    }

    /** Opens the clock whose page is at that path. */
    public static Clock open(Path page) throws OpenException {
        return open(page, false);
    }

    /**
     * Opens the clock whose page is at that path, or for null as {@link #open()}. Each fenced reading of
     * the counter waits for what is before it and holds up what is after it, for some 15 ns.
     */
    public static Clock open(Path page, boolean fenced) throws OpenException {
        Place path = page == null ? null : new Place(page.toString().getBytes(NAMES));
        Place text = new Place(TEXT);
        Place handle = Place.own();
        int code = Native.open(
                path == null ? 0 : path.address, fenced ? Native.FENCED : 0, handle.address, text.address, TEXT);
        Reference.reachabilityFence(path);
        if (code != 0) {
            throw new OpenException(text.text(StandardCharsets.UTF_8), code);
        }
        return new Clock(handle.bytes.getLong(0));
    }

    /**
     * Ends the use of the clock: from then on methods throw IllegalStateException, waits too. Other threads
     * may be reading meanwhile; the page is unmapped when nothing refers to the clock any more.
     */
    @Override
    public void close() {
        closed = true;
    }

    /** The time now, with its bound and status. */
    public Reading now() throws ReadException {
        try {
            Place place = asked();
            told(Native.now(handle, place.address));
            return new Reading(place.bytes, 0);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * The time now, never before what an earlier call on this clock gave in any thread: the best estimate
     * stands still while the clock goes back or nothing is promised, and through an inserted leap second, in
     * which Unix time shows 23:59:59 once more.
     */
    public Reading nowMonotone() throws ReadException {
        try {
            Place place = asked();
            told(Native.nowMonotone(handle, place.address));
            return new Reading(place.bytes, 0);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** The status of the clock now. */
    public Status status() throws ReadException {
        try {
            asked();
            int status = Native.status(handle);
            if (status < 0) {
                told(status);
            }
            return Status.of(status);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** This moment, to ask about later. */
    public Moment count() throws ReadException {
        try {
            Place place = asked();
            told(Native.count(handle, place.address));
            return new Moment(place.bytes.getLong(0), place.bytes.getLong(8));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** The time of a moment, by what is known now: the bound grows with the distance. */
    public Reading timeOf(Moment moment) throws ReadException {
        try {
            Place place = asked();
            told(Native.timeOf(handle, moment.count(), moment.stretch(), place.address), moment);
            return new Reading(place.bytes, 0);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Length of the time from one moment to another, by the clock that no correction of the time disturbs;
     * negative if the second one came first.
     */
    public Length elapsed(Moment from, Moment to) throws ReadException {
        try {
            Place place = asked();
            int code = Native.elapsed(
                    handle, from.count(), from.stretch(), to.count(), to.stretch(), place.address);
            if (code != 0) {
                // Of the two, the one that is at fault.
                boolean first = Native.timeOf(handle, from.count(), from.stretch(), place.address) == code;
                throw failed(code, first ? from : to);
            }
            return new Length(place);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Time for which the machine has been up, suspended or not, which no correction of the time moves. */
    public Length uptime() throws ReadException {
        try {
            Place place = asked();
            told(Native.uptime(handle, place.address));
            return new Length(place);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Waits until a time is over for sure: {@link #waitFor} with {@link Side#AFTER}, the commit wait. */
    public Reading waitAfter(Instant time, Duration timeout) throws WaitException, InterruptedException {
        return waitFor(time, Side.AFTER, timeout);
    }

    /**
     * Waits for a time, on that side of it, as long as the timeout says; null for ever. Of a time that a
     * leap second repeats the later one is meant. Interrupting the thread ends it, within 50 ms.
     */
    public Reading waitFor(Instant time, Side side, Duration timeout) throws WaitException, InterruptedException {
        int number = side.ordinal();
        Place place = Place.own();
        waitWith(timeout, (handle, slice) ->
                Native.waitFor(handle, time.getEpochSecond(), time.getNano(), number, slice, place.address));
        return new Reading(place.bytes, 0);
    }

    /**
     * Waits until the clock is synchronised, with a bound of at most maxBound unless that is null, as long as
     * the timeout says; null for ever.
     */
    public Reading waitSynchronised(Duration maxBound, Duration timeout) throws WaitException, InterruptedException {
        long most = maxBound == null ? -1 : Math.max(0, nanos(maxBound));
        Place place = Place.own();
        waitWith(timeout, (handle, slice) -> Native.waitSynchronised(handle, most, slice, place.address));
        return new Reading(place.bytes, 0);
    }

    /**
     * A timer for a first time and every period after it, on that side of each; a period below a microsecond
     * counts as that. Only once the clock was set is it known where the leap seconds are.
     */
    public Timer timer(Instant first, Duration period, Side side) throws ReadException {
        return new Timer(this, first, period, side);
    }

    /** The path of the clock's page. */
    public Path page() {
        Place text = new Place(TEXT);
        try {
            asked();
            Native.page(handle, text.address, TEXT);
        } finally {
            Reference.reachabilityFence(this);
        }
        return Path.of(text.text(NAMES));
    }

    @Override
    public String toString() {
        return closed ? "Clock, closed" : "Clock of " + page();
    }

    void begin(Place timer, Instant first, Duration period, Side side) throws ReadException {
        try {
            asked();
            told(Native.timer(handle, first.getEpochSecond(), first.getNano(), nanos(period), side.ordinal(),
                    timer.address));
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** A wait of the library's, of at most so many ns. */
    interface Wait {
        int on(long handle, long slice);
    }

    /** Waits a slice at a time. */
    void waitWith(Duration timeout, Wait wait) throws WaitException, InterruptedException {
        long whole = timeout == null ? Long.MAX_VALUE : Math.max(0, nanos(timeout));
        long start = System.nanoTime();
        try {
            while (true) {
                asked();
                long left = Math.max(0, whole - (System.nanoTime() - start));
                int code = wait.on(handle, Math.min(left, SLICE));
                if (code == 0) {
                    return;
                }
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
                if (timeout != null && System.nanoTime() - start >= whole) {
                    throw new WaitException("waited " + whole / 1e9 + " s in vain: " + last(), code);
                }
            }
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Last word of the clock, after a wait in vain. */
    private String last() {
        try {
            Reading last = now();
            String bound = last.boundNanos() < 0 ? "" : ", the bound " + last.boundNanos() + " ns";
            return "the status is " + last.status().name().toLowerCase(java.util.Locale.ROOT) + bound;
        } catch (ReadException error) {
            return error.getMessage();
        }
    }

    /** Length in ns, held at the ends of 64 bits. */
    private static long nanos(Duration length) {
        try {
            return length.toNanos();
        } catch (ArithmeticException beyond) {
            return length.isNegative() ? Long.MIN_VALUE : Long.MAX_VALUE;
        }
    }

    private Place asked() {
        if (closed) {
            throw new IllegalStateException("the clock is closed");
        }
        return Place.own();
    }

    private void told(int code) throws ReadException {
        if (code != 0) {
            throw failed(code, null);
        }
    }

    private void told(int code, Moment moment) throws ReadException {
        if (code != 0) {
            throw failed(code, moment);
        }
    }

    private ReadException failed(int code, Moment moment) {
        if (code == Native.E_ARGUMENT) {
            throw new IllegalArgumentException("no clock gave this moment: keep both words of it");
        }
        Place text = new Place(TEXT);
        if (moment == null) {
            Native.explain(handle, code, text.address, TEXT);
        } else {
            Native.explainOf(handle, moment.count(), moment.stretch(), code, text.address, TEXT);
        }
        return new ReadException(text.text(StandardCharsets.UTF_8), code);
    }
}
