import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.truechimer.Clock;
import org.truechimer.ClockException;
import org.truechimer.Length;
import org.truechimer.Moment;
import org.truechimer.Reading;
import org.truechimer.Side;
import org.truechimer.Tick;
import org.truechimer.Timer;

/**
 * Reads questions about the clock, one a line, and prints one line for each: what
 * clock/client/tests/languages.rs asks to compare this client with the one in Rust.
 */
final class Answer {
    private static Clock clock;
    private static Timer timer;

    public static void main(String[] arguments) throws IOException, InterruptedException {
        if (arguments.length == 2 && arguments[0].equals("child")) {
            System.out.println(child(Path.of(arguments[1])));
            return;
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String said;
            try {
                said = answer(line.split(" "));
            } catch (ClockException error) {
                said = "error " + error.getMessage();
            }
            System.out.println(said);
        }
    }

    /** Words of a child, which has a memory of its own: no handle goes with it. */
    private static String started() throws IOException {
        ProcessHandle.Info own = ProcessHandle.current().info();
        List<String> command = new ArrayList<>(List.of(own.command().orElseThrow()));
        command.addAll(List.of(own.arguments().orElseThrow()));
        command.addAll(List.of("child", clock.page().toString()));
        Process child = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        return new String(child.getInputStream().readAllBytes()).trim();
    }

    private static String child(Path page) throws IOException {
        long inherited = holds(page);
        try {
            clock = Clock.open(page);
            return inherited + " " + holds(page) + " " + reading(clock.now());
        } catch (ClockException error) {
            return "error " + error.getMessage();
        }
    }

    /** Number of this process's files and mappings that are the page. */
    private static long holds(Path page) throws IOException {
        long number = 0;
        try (var files = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path file : files) {
                number += Files.exists(file) && Files.readSymbolicLink(file).equals(page) ? 1 : 0;
            }
        }
        var maps = Files.readAllLines(Path.of("/proc/self/maps"));
        return number + maps.stream().filter(line -> line.endsWith(" " + page)).count();
    }

    private static String answer(String[] words) throws ClockException, IOException, InterruptedException {
        switch (words[0]) {
            case "open":
                clock = Clock.open(Path.of(words[1]));
                return "ok";
            case "child":
                return started();
            case "now":
                return reading(clock.now());
            case "mono":
                return reading(clock.nowMonotone());
            case "count":
                Moment now = clock.count();
                return Long.toUnsignedString(now.count()) + " " + Long.toUnsignedString(now.stretch());
            case "timeof":
                return reading(clock.timeOf(moment(words, 1)));
            case "elapsed":
                return length(clock.elapsed(moment(words, 1), moment(words, 3)));
            case "uptime":
                return length(clock.uptime());
            case "status":
                return clock.status().name().toLowerCase(Locale.ROOT);
            case "after":
                return reading(clock.waitAfter(time(words[1]), milliseconds(words[2])));
            case "for":
                Side side = Side.values()[Integer.parseInt(words[2])];
                return reading(clock.waitFor(time(words[1]), side, milliseconds(words[3])));
            case "timer":
                Duration period = Duration.ofNanos(Long.parseLong(words[2]));
                timer = clock.timer(time(words[1]), period, Side.values()[Integer.parseInt(words[3])]);
                return "ok";
            case "tick":
                Tick tick = timer.tick(milliseconds(words[1]));
                return tick.timeNanos() + " " + tick.missed() + " " + reading(tick.reading());
            case "synchronised":
                Duration bound = Duration.ofNanos(Long.parseLong(words[1]));
                return reading(clock.waitSynchronised(bound, milliseconds(words[2])));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static Moment moment(String[] words, int at) {
        return new Moment(Long.parseUnsignedLong(words[at]), Long.parseUnsignedLong(words[at + 1]));
    }

    private static Instant time(String nanos) {
        return Instant.EPOCH.plusNanos(Long.parseLong(nanos));
    }

    private static Duration milliseconds(String word) {
        return Duration.ofMillis(Long.parseLong(word));
    }

    private static String length(Length length) {
        return length.nanos() + " " + length.boundNanos();
    }

    private static String reading(Reading r) {
        int flags = (r.taiKnown() ? 1 : 0) | (r.leapSecond() ? 2 : 0);
        return Long.toUnsignedString(r.count()) + " " + r.earliestNanos() + " " + r.bestNanos() + " " + r.latestNanos()
                + " " + r.boundNanos() + " " + r.status().ordinal() + " " + r.taiOffset() + " " + flags;
    }
}
