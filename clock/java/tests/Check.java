import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.truechimer.Clock;
import org.truechimer.ClockException;
import org.truechimer.Length;
import org.truechimer.Moment;
import org.truechimer.OpenException;
import org.truechimer.Reading;
import org.truechimer.Side;
import org.truechimer.Status;
import org.truechimer.Tick;
import org.truechimer.Timer;
import org.truechimer.WaitException;

/** Tries what is of Java's making, over the page that $TRUECHIMER_PAGE names and a daemon tends. */
final class Check {
    private static final int MANY = 200_000;

    public static void main(String[] arguments) throws Exception {
        instantsAreExact();
        momentsAreValues();
        errorsAreOfOneFamily();
        waitsEndOnTheirSide();
        aTimerKeepsItsDistance();
        anInterruptEndsAWait();
        aReadingAllocatesNoMoreThanItself();
        manyThreadsReadOne();
        aClockIsClosedWhileItIsRead();
        aClockIsGivenBackWhileOthersAreRead();
        System.out.println("all");
    }

    private static void check(boolean truth, Object what) {
        if (!truth) {
            throw new AssertionError(what);
        }
    }

    private interface Act {
        void run() throws Exception;
    }

    private static <E extends Exception> E thrown(Class<E> kind, Act act) throws Exception {
        try {
            act.run();
        } catch (Exception error) {
            check(kind.isInstance(error), error);
            return kind.cast(error);
        }
        throw new AssertionError("no " + kind);
    }

    private static void instantsAreExact() throws Exception {
        try (Clock clock = Clock.open()) {
            check(clock.page().equals(Path.of(System.getenv("TRUECHIMER_PAGE"))), clock.page());
            Reading now = clock.now();
            check(now.status() == Status.SYNCHRONISED && now.status().boundHolds(), now);
            check(now.earliest().equals(Instant.EPOCH.plusNanos(now.earliestNanos())), now);
            check(now.best().equals(Instant.EPOCH.plusNanos(now.bestNanos())), now);
            check(now.latest().equals(Instant.EPOCH.plusNanos(now.latestNanos())), now);
            check(!now.best().isBefore(now.earliest()) && !now.latest().isBefore(now.best()), now);
            check(now.taiKnown() && now.taiOffset() == 37 && !now.leapSecond(), now);
            check(clock.uptime().nanos() > 0, clock.uptime());
        }
    }

    private static void momentsAreValues() throws Exception {
        Clock clock = Clock.open(null, true);
        Moment moment = clock.count();
        Moment again = new Moment(moment.count(), moment.stretch());
        check(moment.equals(again) && moment.hashCode() == again.hashCode(), moment);
        check(!moment.equals(new Moment(moment.count() + 1, moment.stretch())), moment);
        check(clock.timeOf(again).count() == moment.count(), moment);
        Length length = clock.elapsed(moment, clock.count());
        check(length.nanos() >= 0 && length.boundNanos() >= 0, length);
        thrown(IllegalArgumentException.class, () -> clock.timeOf(new Moment(1, 0)));
        thrown(IllegalArgumentException.class, () -> clock.elapsed(moment, new Moment(1, 0)));
    }

    private static void errorsAreOfOneFamily() throws Exception {
        OpenException error = thrown(OpenException.class, () -> Clock.open(Path.of("/nonexistent/ä")));
        check(error.getMessage().contains("/nonexistent/") && error.getMessage().contains("truechimer run"), error);
        check(ClockException.class.isInstance(error) && error.code() == -2, error.code());
    }

    private static void waitsEndOnTheirSide() throws Exception {
        Clock clock = Clock.open();
        Instant time = clock.now().latest().plusNanos(100_000);
        check(!clock.waitFor(time, Side.LIKELY, null).best().isBefore(time), time);
        check(clock.waitAfter(time, null).earliest().isAfter(time), time);
        check(!clock.waitFor(time, Side.BEFORE, null).latest().isBefore(time), time);
        check(clock.waitSynchronised(null, null).status() == Status.SYNCHRONISED, clock);
        WaitException late = thrown(WaitException.class,
                () -> clock.waitAfter(Instant.MAX, Duration.ofMillis(-1)));
        check(late.getMessage().startsWith("waited 0.0 s in vain: the status is synchronised, the bound "), late);
        thrown(WaitException.class,
                () -> clock.waitSynchronised(Duration.ofSeconds(Long.MIN_VALUE), Duration.ofNanos(1)));
        check(clock.waitFor(Instant.MIN, Side.AFTER, Duration.ofSeconds(Long.MAX_VALUE)) != null, clock);
    }

    private static void aTimerKeepsItsDistance() throws Exception {
        Clock clock = Clock.open();
        Instant due = clock.now().latest();
        Timer timer = clock.timer(due, Duration.ofMillis(1), Side.AFTER);
        for (int n = 0; n < 20; n++) {
            Tick tick = timer.tick(null);
            check(tick.time().equals(due.plusMillis(tick.missed())), tick);
            check(tick.reading().earliest().isAfter(tick.time()), tick);
            due = tick.time().plusMillis(1);
        }
    }

    private static void anInterruptEndsAWait() throws Exception {
        Clock clock = Clock.open();
        AtomicReference<Throwable> end = new AtomicReference<>();
        Act[] waits = {
            () -> clock.waitAfter(clock.now().latest().plusSeconds(86_400), null),
            () -> clock.timer(clock.now().latest().plusSeconds(86_400), Duration.ZERO, Side.BEFORE).tick(null),
        };
        for (Act wait : waits) {
            Thread waiting = begun(wait, end);
            waiting.interrupt();
            waiting.join();
            check(end.get() instanceof InterruptedException, end.get());
        }
        // So does the end of the clock.
        Thread waiting = begun(waits[0], end);
        clock.close();
        waiting.join();
        check(end.get() instanceof IllegalStateException, end.get());
        thrown(IllegalStateException.class, clock::now);
        clock.close();
    }

    private static Thread begun(Act act, AtomicReference<Throwable> end) {
        Thread thread = new Thread(() -> {
            try {
                act.run();
                end.set(null);
            } catch (Throwable error) {
                end.set(error);
            }
        });
        thread.start();
        return thread;
    }

    private static Object kept;

    private static void aReadingAllocatesNoMoreThanItself() throws Exception {
        Clock clock = Clock.open();
        com.sun.management.ThreadMXBean threads =
                (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId();
        long least = Long.MAX_VALUE;
        for (int round = 0; round < 5; round++) {
            long before = threads.getThreadAllocatedBytes(self);
            for (int n = 0; n < MANY; n++) {
                kept = clock.now();
            }
            least = Math.min(least, threads.getThreadAllocatedBytes(self) - before);
        }
        // Four words, three half words, and the machine's own two at most.
        check(least <= 64L * MANY + 4096, least);
        check(clock.status() == Status.SYNCHRONISED, clock);
    }

    private static void manyThreadsReadOne() throws Exception {
        Clock clock = Clock.open();
        readByMany(clock, () -> {
            long last = 0;
            for (int n = 0; n < MANY; n++) {
                Reading now = clock.nowMonotone();
                check(now.earliestNanos() <= now.bestNanos() && now.bestNanos() <= now.latestNanos(), now);
                check(now.bestNanos() >= last, now);
                last = now.bestNanos();
            }
        }, () -> { });
    }

    private static void aClockIsClosedWhileItIsRead() throws Exception {
        for (int round = 0; round < 20; round++) {
            Clock clock = Clock.open();
            readByMany(clock, () -> {
                try {
                    while (true) {
                        check(clock.now().status() == Status.SYNCHRONISED, clock);
                        clock.elapsed(clock.count(), clock.count());
                    }
                } catch (IllegalStateException closed) {
                    // As it should.
                }
            }, () -> {
                Thread.sleep(5);
                clock.close();
            });
        }
    }

    private static void readByMany(Clock clock, Act read, Act meanwhile) throws Exception {
        AtomicReference<Throwable> wrong = new AtomicReference<>();
        List<Thread> readers = new ArrayList<>();
        for (int n = 0; n < 4; n++) {
            Thread reader = new Thread(() -> {
                try {
                    read.run();
                } catch (Throwable error) {
                    wrong.set(error);
                }
            });
            readers.add(reader);
            reader.start();
        }
        meanwhile.run();
        for (Thread reader : readers) {
            reader.join();
        }
        check(wrong.get() == null, wrong.get());
    }

    /** Clocks that nobody refers to are unmapped while others are opened and read: so the process stays small. */
    private static void aClockIsGivenBackWhileOthersAreRead() throws Exception {
        for (int n = 0; n < 2000; n++) {
            Clock clock = Clock.open();
            check(clock.now().status() == Status.SYNCHRONISED, clock);
            if (n % 2 == 0) {
                clock.close();
            }
            if (n % 200 == 0) {
                System.gc();
            }
        }
    }
}
