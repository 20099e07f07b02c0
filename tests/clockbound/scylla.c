/*
 * What ScyllaDB does with the C library of ClockBound 3: opens it once, reads it once to see that it
 * can be read, and from then on trusts a bound only if there was no error and the status is
 * synchronized; otherwise it goes without.
 *
 *     clockbound-scylla PAGE SECONDS READINGS UNIX_S PPB [LEAP_UNIX_S]
 *
 * Prints how many readings there were, how many it trusted, how many of those do not contain the
 * truth, how many it did without because of the status free running and because of an error, and how
 * many times it went from trust to none or back, as JSON. Ends with 2 if it would not start.
 */
#define _GNU_SOURCE
#include <clockbound.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static __int128 nanos(struct timespec t) { return (__int128)t.tv_sec * 1000000000 + t.tv_nsec; }

/* The line of the server; before the Unix second `leap`, unless that is 0, a second is inserted. */
static __int128 truth(long long unix_s, long long ppb, long long leap) {
    struct timespec raw;
    clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
    __int128 smooth = (__int128)unix_s * 1000000000 + nanos(raw) + nanos(raw) * ppb / 1000000000;
    int is_over = leap != 0 && smooth >= (__int128)leap * 1000000000;
    return is_over ? smooth - 1000000000 : smooth;
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) return 64;
    double seconds = atof(argv[2]);
    long readings = atol(argv[3]);
    long long unix_s = atoll(argv[4]), ppb = atoll(argv[5]), leap = argc == 7 ? atoll(argv[6]) : 0;
    clockbound_err err = {0};
    clockbound_now_result now = {0};
    clockbound_ctx *ctx = clockbound_open_with(argv[1], VMCLOCK_SHM_DEFAULT_PATH, &err);
    if (ctx == NULL) {
        fprintf(stderr, "cannot open: %.*s\n", CLOCKBOUND_ERROR_DETAIL_SIZE, err.detail);
        return 2;
    }
    if (clockbound_now(ctx, &now, &err) != NULL) {
        fprintf(stderr, "cannot read: %.*s\n", CLOCKBOUND_ERROR_DETAIL_SIZE, err.detail);
        return 2;
    }
    printf("opened\n");
    fflush(stdout);
    long trusted = 0, broken = 0, free_running = 0, errors = 0, changes = 0;
    int last = -1;
    struct timespec pause = {0, 0};
    long bursts = readings / 100 > 0 ? readings / 100 : 1;
    double each = seconds / bursts;
    pause.tv_sec = (long)each;
    pause.tv_nsec = (long)((each - (double)pause.tv_sec) * 1e9);
    for (long burst = 0; burst < bursts; burst++) {
        for (int i = 0; i < 100; i++) {
            __int128 before = truth(unix_s, ppb, leap);
            int is_read = clockbound_now(ctx, &now, &err) == NULL;
            int good = is_read && now.clock_status == CLOCKBOUND_STA_SYNCHRONIZED;
            __int128 after = truth(unix_s, ppb, leap);
            if (good) {
                trusted++;
                broken += nanos(now.earliest) > after || nanos(now.latest) < before;
            }
            errors += !is_read;
            free_running += is_read && now.clock_status == CLOCKBOUND_STA_FREE_RUNNING;
            changes += last != -1 && last != good;
            last = good;
        }
        nanosleep(&pause, NULL);
    }
    printf("{\"readings\":%ld,\"trusted\":%ld,\"broken\":%ld,\"free_running\":%ld,\"errors\":%ld,"
           "\"changes\":%ld}\n",
           bursts * 100, trusted, broken, free_running, errors, changes);
    return clockbound_close(ctx, &err) != NULL;
}
