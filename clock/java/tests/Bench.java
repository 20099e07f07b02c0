import java.time.Instant;
import java.util.Arrays;
import org.truechimer.Clock;

/**
 * Tells what a reading costs beside System.nanoTime() and Instant.now(), in ns, over the page that
 * $TRUECHIMER_PAGE names and a daemon tends: the median of rounds that take turns.
 */
final class Bench {
    private static final int ROUNDS = 31;
    private static final int CALLS = 200_000;
    private static long sum;
    private static Object kept;

    private interface Call {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Clock clock = Clock.open();
        String[] names = {"Clock.now()", "Clock.count()", "System.nanoTime()", "Instant.now()"};
        Call[] calls = {
            () -> { for (int n = 0; n < CALLS; n++) kept = clock.now(); },
            () -> { for (int n = 0; n < CALLS; n++) kept = clock.count(); },
            () -> { for (int n = 0; n < CALLS; n++) sum += System.nanoTime(); },
            () -> { for (int n = 0; n < CALLS; n++) kept = Instant.now(); },
        };
        double[][] taken = new double[calls.length][ROUNDS];
        // The first rounds are for the compiler.
        for (int round = -10; round < ROUNDS; round++) {
            for (int call = 0; call < calls.length; call++) {
                long start = System.nanoTime();
                calls[call].run();
                taken[call][Math.max(round, 0)] = (System.nanoTime() - start) / (double) CALLS;
            }
        }
        for (double[] one : taken) {
            Arrays.sort(one);
        }
        double reading = taken[0][ROUNDS / 2];
        for (int call = 0; call < calls.length; call++) {
            double median = taken[call][ROUNDS / 2];
            System.out.printf("%-18s %6.1f ns (%.1f to %.1f), a reading takes %.2f of it%n", names[call], median,
                    taken[call][ROUNDS / 20], taken[call][ROUNDS - 1 - ROUNDS / 20], reading / median);
        }
    }
}
