/*
 * Answers questions about the clock, one a line, by one line each: those of the other languages' answering programs that
 * are about waits. For virtual machines, in which no Rust test can run: truechimer-testbed waits asks it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <truechimer.h>

static int64_t nanos(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

static struct timespec spec(int64_t ns) {
    struct timespec t;
    t.tv_sec = ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}

static void print(const truechimer_reading *r) {
    printf("%" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", r->count, nanos(r->earliest), nanos(r->best),
           nanos(r->latest), truechimer_reading_bound(r));
}

int main(void) {
    truechimer_clock *clock = NULL;
    truechimer_timer timer;
    truechimer_tick tick;
    truechimer_reading reading;
    struct timespec time, timeout;
    int64_t number[3];
    char line[4200];
    int error;

    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        error = TRUECHIMER_E_ARGUMENT;
        if (strncmp(line, "open ", 5) == 0) {
            error = truechimer_open_at(line + 5, 0, NULL, &clock, NULL, 0);
            if (error == 0)
                puts("ok");
        } else if (strcmp(line, "now") == 0) {
            error = truechimer_now(clock, &reading);
            if (error == 0)
                print(&reading);
        } else if (sscanf(line, "for %" SCNd64 " %" SCNd64 " %" SCNd64, number, number + 1, number + 2) == 3) {
            time = spec(number[0]);
            timeout = spec(number[2] * 1000000);
            error = truechimer_wait_for(clock, &time, (int)number[1], &timeout, &reading);
            if (error == 0)
                print(&reading);
        } else if (sscanf(line, "timer %" SCNd64 " %" SCNd64 " %" SCNd64, number, number + 1, number + 2) == 3) {
            time = spec(number[0]);
            error = truechimer_timer_begin(clock, &time, number[1], (int)number[2], &timer);
            if (error == 0)
                puts("ok");
        } else if (sscanf(line, "tick %" SCNd64, number) == 1) {
            timeout = spec(number[0] * 1000000);
            error = truechimer_timer_tick(clock, &timer, &timeout, &tick);
            if (error == 0) {
                printf("%" PRId64 " %" PRIu64 " ", nanos(tick.time), tick.missed);
                print(&tick.reading);
            }
        }
        if (error != 0)
            printf("error %s\n", truechimer_error_text(error));
        fflush(stdout);
    }
    truechimer_close(clock);
    return 0;
}
