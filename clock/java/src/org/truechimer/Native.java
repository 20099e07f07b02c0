package org.truechimer;

import java.nio.ByteBuffer;

/** Functions of the library truechimer_java, which calls libtruechimer: native/truechimer_java.c. */
final class Native {
    static final int E_ARGUMENT = -1;
    static final int FENCED = 1;

    static {
        String file = System.getProperty("truechimer.library");
        if (file == null) {
            System.loadLibrary("truechimer_java");
        } else {
            System.load(file);
        }
    }

    private Native() {}

    static native long address(ByteBuffer buffer);

    static native int open(long page, int flags, long place, long text, int size);

    static native void close(long clock);

    static native void page(long clock, long text, int size);

    static native int now(long clock, long place);

    static native int nowMonotone(long clock, long place);

    static native int status(long clock);

    static native int count(long clock, long place);

    static native int uptime(long clock, long place);

    static native int timeOf(long clock, long count, long stretch, long place);

    static native int elapsed(long clock, long count, long stretch, long toCount, long toStretch, long place);

    /** Timeout in ns; below 0 for ever. */
    static native int waitFor(long clock, long seconds, int nanos, int side, long timeout, long place);

    /** Bound in ns; below 0 none. */
    static native int waitSynchronised(long clock, long bound, long timeout, long place);

    static native int timer(long clock, long seconds, int nanos, long period, int side, long place);

    static native int tick(long clock, long timer, long timeout, long place);

    static native void explain(long clock, int error, long text, int size);

    static native void explainOf(long clock, long count, long stretch, int error, long text, int size);
}
