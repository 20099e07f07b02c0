package org.truechimer;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.File;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Functions of libtruechimer by the Foreign Function and Memory API, final from Java 22 on: in place of the class
 * that calls them by JNI. The library truechimer_java has them for both. Pointers are numbers here as there, and
 * the layouts are those that native/truechimer_java.c asserts.
 */
final class Native {
    static final int E_ARGUMENT = -1;
    static final int FENCED = 1;

    private static final String NAME = System.mapLibraryName("truechimer_java");
    /** The library for C, which has the same functions, where that for Java is not. */
    private static final String PLAIN = "libtruechimer.so.0";
    private static final SymbolLookup LIBRARY = library();

    private static final MethodHandle OPEN =
            handle("open_at", JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle CLOSE = handle("close", null, JAVA_LONG);
    private static final MethodHandle PAGE = handle("page", JAVA_LONG, JAVA_LONG);
    private static final MethodHandle NOW = handle("now", JAVA_INT, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle NOW_MONOTONE = handle("now_monotone", JAVA_INT, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle STATUS = handle("status", JAVA_INT, JAVA_LONG);
    private static final MethodHandle COUNT = handle("count", JAVA_INT, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle UPTIME = handle("uptime", JAVA_INT, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle TIME_OF = handle("time_of", JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle ELAPSED =
            handle("elapsed", JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle WAIT_FOR =
            handle("wait_for", JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle WAIT_SYNCHRONISED =
            handle("wait_synchronised", JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle TIMER_BEGIN =
            handle("timer_begin", JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG);
    private static final MethodHandle TIMER_TICK =
            handle("timer_tick", JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle EXPLAIN =
            handle("explain", null, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG);

    /** Room for the arguments that a call points at: two moments or two lengths, of two numbers each. */
    private static final ThreadLocal<MemorySegment> ARGUMENTS =
            ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(32, 8));

    private Native() {}

    private static SymbolLookup library() {
        String file = System.getProperty("truechimer.library");
        try {
            if (file != null) {
                return SymbolLookup.libraryLookup(Path.of(file), Arena.global());
            }
            for (String folder : System.getProperty("java.library.path", "").split(File.pathSeparator)) {
                Path there = Path.of(folder, NAME);
                if (!folder.isEmpty() && Files.exists(there)) {
                    return SymbolLookup.libraryLookup(there.toAbsolutePath(), Arena.global());
                }
            }
            return SymbolLookup.libraryLookup(PLAIN, Arena.global());
        } catch (IllegalArgumentException why) {
            throw new UnsatisfiedLinkError((file == null ? "no " + NAME + " in java.library.path, no " + PLAIN : file)
                    + ": " + why.getMessage() + "; name the file by -Dtruechimer.library=FILE");
        }
    }

    private static MethodHandle handle(String name, MemoryLayout result, MemoryLayout... arguments) {
        MemorySegment function = LIBRARY.find("truechimer_" + name).orElseThrow(() ->
                new UnsatisfiedLinkError("no function truechimer_" + name + " in the library: it is of another"
                        + " release than the jar"));
        FunctionDescriptor descriptor = result == null
                ? FunctionDescriptor.ofVoid(arguments)
                : FunctionDescriptor.of(result, arguments);
        return Linker.nativeLinker().downcallHandle(function, descriptor);
    }

    /** A function of C throws nothing: what comes is a fault of this class. */
    private static AssertionError fault(Throwable why) {
        return new AssertionError(why);
    }

    /** Puts two numbers down, the first or second pair of a call, and returns where they are. */
    private static long pair(int which, long first, long second) {
        MemorySegment arguments = ARGUMENTS.get();
        arguments.setAtIndex(JAVA_LONG, 2L * which, first);
        arguments.setAtIndex(JAVA_LONG, 2L * which + 1, second);
        return arguments.address() + 16L * which;
    }

    /** A length in ns as the library has it; below 0 none. */
    private static long perhaps(int which, long ns) {
        return ns < 0 ? 0 : pair(which, ns / 1_000_000_000, ns % 1_000_000_000);
    }

    static long address(ByteBuffer buffer) {
        return MemorySegment.ofBuffer(buffer).address();
    }

    static int open(long page, int flags, long place, long text, int size) {
        try {
            return (int) OPEN.invokeExact(page, flags, 0L, place, text, (long) size);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static void close(long clock) {
        try {
            CLOSE.invokeExact(clock);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static void page(long clock, long text, int size) {
        long from;
        try {
            from = (long) PAGE.invokeExact(clock);
        } catch (Throwable why) {
            throw fault(why);
        }
        MemorySegment source = MemorySegment.ofAddress(from).reinterpret(Long.MAX_VALUE);
        MemorySegment to = MemorySegment.ofAddress(text).reinterpret(size);
        for (long at = 0; at < size; at++) {
            byte letter = at == size - 1 ? 0 : source.get(JAVA_BYTE, at);
            to.set(JAVA_BYTE, at, letter);
            if (letter == 0) {
                return;
            }
        }
    }

    static int now(long clock, long place) {
        try {
            return (int) NOW.invokeExact(clock, place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int nowMonotone(long clock, long place) {
        try {
            return (int) NOW_MONOTONE.invokeExact(clock, place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int status(long clock) {
        try {
            return (int) STATUS.invokeExact(clock);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int count(long clock, long place) {
        try {
            return (int) COUNT.invokeExact(clock, place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int uptime(long clock, long place) {
        try {
            return (int) UPTIME.invokeExact(clock, place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int timeOf(long clock, long count, long stretch, long place) {
        try {
            return (int) TIME_OF.invokeExact(clock, pair(0, count, stretch), place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int elapsed(long clock, long count, long stretch, long toCount, long toStretch, long place) {
        try {
            return (int) ELAPSED.invokeExact(clock, pair(0, count, stretch), pair(1, toCount, toStretch), place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int waitFor(long clock, long seconds, int nanos, int side, long timeout, long place) {
        try {
            return (int) WAIT_FOR.invokeExact(clock, pair(0, seconds, nanos), side, perhaps(1, timeout), place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int waitSynchronised(long clock, long bound, long timeout, long place) {
        try {
            return (int) WAIT_SYNCHRONISED.invokeExact(clock, perhaps(0, bound), perhaps(1, timeout), place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int timer(long clock, long seconds, int nanos, long period, int side, long place) {
        try {
            return (int) TIMER_BEGIN.invokeExact(clock, pair(0, seconds, nanos), period, side, place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static int tick(long clock, long timer, long timeout, long place) {
        try {
            return (int) TIMER_TICK.invokeExact(clock, timer, perhaps(0, timeout), place);
        } catch (Throwable why) {
            throw fault(why);
        }
    }

    static void explain(long clock, int error, long text, int size) {
        explain(clock, 0, error, text, size);
    }

    static void explainOf(long clock, long count, long stretch, int error, long text, int size) {
        explain(clock, pair(0, count, stretch), error, text, size);
    }

    private static void explain(long clock, long moment, int error, long text, int size) {
        try {
            EXPLAIN.invokeExact(clock, moment, error, text, (long) size);
        } catch (Throwable why) {
            throw fault(why);
        }
    }
}
