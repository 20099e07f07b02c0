/*
 * Truechimer: a clock that knows how wrong it may be. Made by cbindgen of the sources in clock/c: see there.
 *
 * A clock is opened once and shared by all threads. Every function that can fail returns 0 or more if it
 * did not, and one of the negative TRUECHIMER_E_... otherwise: truechimer_error_text() says it in words.
 *
 * Times are UTC as Unix time, in the system's struct timespec.
 */

#ifndef TRUECHIMER_H
#define TRUECHIMER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>

/* Where a program asks for the C of a standard alone, glibc's public headers leave this one out. */
#if defined(__GLIBC__) && !defined(_STRUCT_TIMESPEC)
#include <bits/types/struct_timespec.h>
#endif

/*
 Status: never synchronised, or too old to say; no bound is promised.
 */
#define TRUECHIMER_UNKNOWN 0

/*
 Status: the clock follows its sources; the bound holds.
 */
#define TRUECHIMER_SYNCHRONISED 1

/*
 Status: no fresh word from any source, or no daemon; the bound holds and grows.
 */
#define TRUECHIMER_HOLDOVER 2

/*
 Status: the counter lost its continuity (suspend, migration, a jump); nothing is promised until
 the clock has synchronised again.
 */
#define TRUECHIMER_DISRUPTED 3

/*
 Error: an argument is a null pointer or out of range.
 */
#define TRUECHIMER_E_ARGUMENT -1

/*
 Error: there is no clock page where one was looked for.
 */
#define TRUECHIMER_E_NO_PAGE -2

/*
 Error: the system refused to open or map the page.
 */
#define TRUECHIMER_E_SYSTEM -3

/*
 Error: the page belongs to somebody, or can be written by somebody, who must not be trusted.
 */
#define TRUECHIMER_E_UNTRUSTED -4

/*
 Error: the file is not a clock page.
 */
#define TRUECHIMER_E_FOREIGN -5

/*
 Error: the file is too short for a clock page, or nobody has finished making it.
 */
#define TRUECHIMER_E_SHORT -6

/*
 Error: the page has another version of the layout.
 */
#define TRUECHIMER_E_VERSION -7

/*
 Error: the page holds what no daemon writes.
 */
#define TRUECHIMER_E_CORRUPT -8

/*
 Error: the page was left by another boot, and no daemon tends it.
 */
#define TRUECHIMER_E_OTHER_BOOT -9

/*
 Error: this process cannot read the counter that the clock goes by.
 */
#define TRUECHIMER_E_COUNTER -10

/*
 Error: the clock is not set yet.
 */
#define TRUECHIMER_E_NOT_YET -11

/*
 Error: the counter lost its continuity since that moment, so that nobody knows when it was; or
 the moment is of another counter than the clock goes by now.
 */
#define TRUECHIMER_E_OTHER_EPOCH -12

/*
 Error: the counter has just lost its continuity, and no daemon has caught up with it yet.
 */
#define TRUECHIMER_E_DISRUPTED -13

/*
 Error: the page is so old that it promises nothing for that moment; or the moment is not over,
 or of another boot.
 */
#define TRUECHIMER_E_VOID -14

/*
 Error: what was waited for did not come in time.
 */
#define TRUECHIMER_E_TIMEOUT -15

/*
 Error: something that this version of the library has no number for.
 */
#define TRUECHIMER_E_OTHER -16

/*
 Flag for opening: each reading of the counter waits for what the program has before it and holds
 up what comes after it, for some 15 ns.
 */
#define TRUECHIMER_FENCED 1

/*
 Flag of a reading: best lies within an inserted leap second (23:59:60), in which Unix time shows
 23:59:59 once more.
 */
#define TRUECHIMER_LEAP_SECOND 1

/*
 Flag of a reading: tai_offset is TAI - UTC, and not only leap seconds since the daemon began.
 */
#define TRUECHIMER_TAI_KNOWN 2

/*
 Origin of a count: a reading of the counter itself.
 */
#define TRUECHIMER_BY_COUNTER 0

/*
 Origin of a count: a reading of a device that rolls over.
 */
#define TRUECHIMER_BY_DEVICE 1

/*
 Origin of a count: CLOCK_MONOTONIC_RAW, which the kernel makes of the device.
 */
#define TRUECHIMER_BY_RAW_CLOCK 2

/*
 Side of a time on which a wait ends: while the time is surely not over, as soon as latest is
 within a microsecond of it. Whether the program was woken early enough the reading says: its
 latest is before the time.
 */
#define TRUECHIMER_BEFORE 0

/*
 Side of a time on which a wait ends: when it is likely to be, as soon as best has reached it.
 */
#define TRUECHIMER_LIKELY 1

/*
 Side of a time on which a wait ends: when it is surely over, as soon as earliest is after it
 (commit wait).
 */
#define TRUECHIMER_AFTER 2

/*
 A clock, opened; for all threads. Only pointers to it are handed out.
 */
typedef struct truechimer_clock truechimer_clock;

/*
 The time, and how well it is known.

 While the status is TRUECHIMER_SYNCHRONISED or TRUECHIMER_HOLDOVER, true time lay between
 earliest and latest at the moment of the reading. Otherwise those two are the ends of the scale
 (INT64_MIN and INT64_MAX seconds), and best is only what the clock shows,
 in 1970 perhaps.
 */
typedef struct truechimer_reading {
    /*
     True time was not before this (UTC, rounded down to ns).
     */
    struct timespec earliest;
    /*
     The best estimate (UTC, rounded down to ns); not necessarily half-way between the others.
     */
    struct timespec best;
    /*
     True time was not after this (UTC, rounded up to ns).
     */
    struct timespec latest;
    /*
     The count of the counter that the time is of.
     */
    uint64_t count;
    /*
     Status: TRUECHIMER_SYNCHRONISED and so on.
     */
    int32_t status;
    /*
     TAI - UTC at best, s; see TRUECHIMER_TAI_KNOWN.
     */
    int32_t tai_offset;
    /*
     Flags: TRUECHIMER_LEAP_SECOND, TRUECHIMER_TAI_KNOWN; other bits may come.
     */
    uint32_t flags;
    /*
     Zero.
     */
    uint32_t reserved;
} truechimer_reading;

/*
 A moment to ask about later: a count, and of which unbroken stretch of which counter.
 */
typedef struct truechimer_moment {
    /*
     The count.
     */
    uint64_t count;
    /*
     The stretch: counts of different ones are not to be compared. Not to be made by hand.
     */
    uint64_t stretch;
} truechimer_moment;

/*
 A length of time, by the difference clock.
 */
typedef struct truechimer_length {
    /*
     Length, ns; negative if the second moment came first.
     */
    int64_t ns;
    /*
     Most that the true length differs from that, ns; 0 or more, rounded up.
     */
    int64_t bound_ns;
} truechimer_length;

/*
 A timer: times at even distances, to be waited for one after the other. They keep to true time,
 never drift, and keep their distance through a leap second. For one thread at a time; nothing is
 to be freed. Not to be made by hand: see truechimer_timer_begin().
 */
typedef struct truechimer_timer {
    /*
     The next time, s on the scale without leap seconds.
     */
    int64_t seconds;
    /*
     From one time to the next, ns.
     */
    int64_t period_ns;
    /*
     The next time's nanoseconds after that second's beginning.
     */
    uint32_t nanoseconds;
    /*
     Side of each time on which its wait ends: TRUECHIMER_BEFORE and so on.
     */
    int32_t side;
} truechimer_timer;

/*
 A time of a timer that has come.
 */
typedef struct truechimer_tick {
    /*
     The time (UTC).
     */
    struct timespec time;
    /*
     Number of earlier times that had come already when it was asked for, and were left out.
     */
    uint64_t missed;
    /*
     The reading that ended the wait.
     */
    struct truechimer_reading reading;
} truechimer_tick;

/*
 Where the bound of a reading comes from, and the state of the clock behind it.
 */
typedef struct truechimer_bound {
    /*
     The reading that all this is about.
     */
    struct truechimer_reading reading;
    /*
     The whole bound: how far true time is from best at most, ns, rounded up; -1 while nothing is
     promised. At most the sum of the four parts.
     */
    int64_t total_ns;
    /*
     Part: half of the smallest round trip and the server's own bound, ns, rounded up.
     */
    int64_t path_ns;
    /*
     Part: stamping, queueing, drift, ns, rounded up.
     */
    int64_t statistical_ns;
    /*
     Part: growth since the daemon's last word, ns, rounded up.
     */
    int64_t growth_ns;
    /*
     Part: how the counter was read, ns, rounded up; 0 for a counter that anybody can read.
     */
    int64_t counter_ns;
    /*
     Part of statistical_ns that is there only as a server's word is held off, ns, rounded up.
     */
    int64_t disputed_ns;
    /*
     Likely error of best, by statistics and no bound, ns, rounded up; -1 if none is known.
     */
    int64_t likely_ns;
    /*
     Standard deviation of the difference clock's rate, 10^-12; -1 if nothing is known of that.
     */
    int64_t deviation_ppt;
    /*
     Time since the daemon last looked at the clock, ns; negative: in the future.
     */
    int64_t silence_ns;
    /*
     The number of the daemon's word that all this goes by.
     */
    uint64_t generation;
    /*
     The counter: 1 TSC, 2 Arm generic timer, 3 CLOCK_MONOTONIC_RAW, 4 HPET, 5 ACPI PM timer.
     */
    uint32_t counter;
    /*
     Origin of the count: TRUECHIMER_BY_COUNTER and so on.
     */
    uint32_t read_by;
    /*
     Reason why the status is not what the daemon said last, in words; empty if it is.
     */
    char reason[64];
} truechimer_bound;

#ifdef __cplusplus
extern "C" {
#endif

/*
 Opens the clock of this machine: the page that $TRUECHIMER_PAGE names, else
 $XDG_RUNTIME_DIR/truechimer/clock or /run/truechimer/clock.

 Returns 0 and sets *clock, or an error and sets *clock to NULL. A page without any time yet is
 no error here. Open a clock once: all threads may use it at the same time, and children after
 fork().
 */
int truechimer_open(struct truechimer_clock **clock);

/*
 Opens the clock whose page is at that path, or for NULL as truechimer_open() does.

 Flags: 0 or TRUECHIMER_FENCED. A daemon that is just starting is given until timeout to make its
 page, for NULL no time at all. A text of the error, with the path and what to do, goes into the
 size bytes at text, cut off if need be; text may be NULL.
 */
int truechimer_open_at(const char *page,
                       uint32_t flags,
                       const struct timespec *timeout,
                       struct truechimer_clock **clock,
                       char *text,
                       size_t size);

/*
 Closes a clock that nobody uses any more. NULL is none.
 */
void truechimer_close(struct truechimer_clock *clock);

/*
 Reads the time now, with its bound and status, at about the cost of reading the counter.
 */
int truechimer_now(const struct truechimer_clock *clock, struct truechimer_reading *reading);

/*
 Reads the time now, never before what an earlier call with this clock gave in any thread: best
 stands still while the clock goes back or nothing is promised, and through an inserted leap
 second, in which Unix time shows 23:59:59 once more.
 */
int truechimer_now_monotone(const struct truechimer_clock *clock,
                            struct truechimer_reading *reading);

/*
 Tells the status of the clock now: TRUECHIMER_UNKNOWN (0) to TRUECHIMER_DISRUPTED (3), or an
 error.
 */
int truechimer_status(const struct truechimer_clock *clock);

/*
 Takes this moment down, to ask about later: at the cost of reading the counter.
 */
int truechimer_count(const struct truechimer_clock *clock, struct truechimer_moment *moment);

/*
 Tells the time of a moment, by what is known now: the bound grows with the distance.
 */
int truechimer_time_of(const struct truechimer_clock *clock,
                       const struct truechimer_moment *moment,
                       struct truechimer_reading *reading);

/*
 Tells how long it was from one moment to another, by the clock that no correction of the time
 disturbs; negative if the second one came first.
 */
int truechimer_elapsed(const struct truechimer_clock *clock,
                       const struct truechimer_moment *from,
                       const struct truechimer_moment *to,
                       struct truechimer_length *length);

/*
 Tells how long the machine has been up, suspended or not, never before what an earlier call with
 this clock gave: CLOCK_BOOTTIME at the first call and after a break of the counter, from there
 by the difference clock; the bound is that of the length since.
 */
int truechimer_uptime(const struct truechimer_clock *clock, struct truechimer_length *length);

/*
 Waits until a time (UTC) is over for sure, which is when earliest is after it: the commit wait of
 databases. For ever if timeout is NULL; a negative one is 0.

 Returns 0 and sets *reading to the reading that was, or an error. reading may be NULL. Of a time
 that a leap second repeats the later one is meant. Timeouts are of CLOCK_MONOTONIC, here and
 elsewhere: while the machine is suspended they stand still.
 */
int truechimer_wait_after(const struct truechimer_clock *clock,
                          const struct timespec *time,
                          const struct timespec *timeout,
                          struct truechimer_reading *reading);

/*
 Waits for a time (UTC), on that side of it: TRUECHIMER_BEFORE, TRUECHIMER_LIKELY or
 TRUECHIMER_AFTER. Otherwise as truechimer_wait_after().
 */
int truechimer_wait_for(const struct truechimer_clock *clock,
                        const struct timespec *time,
                        int side,
                        const struct timespec *timeout,
                        struct truechimer_reading *reading);

/*
 Begins a timer for a first time (UTC) and every period after it, ns, on that side of each; a
 period below 1000 ns counts as that.

 Returns 0 and sets *timer, or an error. Only once the clock was set is it known where the leap
 seconds are: until then there is TRUECHIMER_E_NOT_YET.
 */
int truechimer_timer_begin(const struct truechimer_clock *clock,
                           const struct timespec *first,
                           int64_t period_ns,
                           int side,
                           struct truechimer_timer *timer);

/*
 Waits for the next time of a timer. Of times that have come already only the last is given out,
 so that a program that was held up catches up at once. For ever if timeout is NULL; a negative
 one is 0.

 Returns 0 and sets *tick and the timer's next time, or an error: the same time is then waited for
 once more. tick may be NULL.
 */
int truechimer_timer_tick(const struct truechimer_clock *clock,
                          struct truechimer_timer *timer,
                          const struct timespec *timeout,
                          struct truechimer_tick *tick);

/*
 Waits until the clock is synchronised, with a bound of at most max_bound unless that is NULL. For
 ever if timeout is NULL; a negative one is 0. Looks fifty times a second.

 Returns 0 and sets *reading to the reading that was, or an error. reading may be NULL.
 */
int truechimer_wait_synchronised(const struct truechimer_clock *clock,
                                 const struct timespec *max_bound,
                                 const struct timespec *timeout,
                                 struct truechimer_reading *reading);

/*
 Tells where the bound comes from, and the state of the clock behind it, after a look at the
 host's own clocks: about a microsecond.
 */
int truechimer_bound_sources(const struct truechimer_clock *clock, struct truechimer_bound *bound);

/*
 Tells how far true time may be from best of a reading at most, ns, rounded up; -1 if nothing is
 promised, or for NULL.
 */
int64_t truechimer_reading_bound(const struct truechimer_reading *reading);

/*
 Tells the path of a clock's page, which stays where it is until the clock is closed; NULL for
 NULL.
 */
const char *truechimer_page(const struct truechimer_clock *clock);

/*
 Tells what a returned number means, in words, for any number.
 */
const char *truechimer_error_text(int code);

/*
 Tells in full why there was no time: of that moment, or now if moment is NULL. A text with what
 truechimer_error_text() does not know, such as which counter it is, goes into the size bytes at
 text, cut off if need be.

 The clock is asked once more; where that ends otherwise than with this error, the text is that of
 truechimer_error_text(). Returns 0 or TRUECHIMER_E_ARGUMENT.
 */
int truechimer_explain(const struct truechimer_clock *clock,
                       const struct truechimer_moment *moment,
                       int error,
                       char *text,
                       size_t size);

/*
 Tells the name of a status, in lower case, for any number.
 */
const char *truechimer_status_name(int status);

/*
 Tells the version of the library, such as "0.1.0".
 */
const char *truechimer_version(void);

#ifdef __cplusplus
}
#endif

#endif  /* TRUECHIMER_H */
