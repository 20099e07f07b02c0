/* Uses all of the library over the page in argv[1], and prints what the test in c.rs compares. */
#ifdef ERRNO_FIRST
#include <errno.h>
#endif
#include <truechimer.h>

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READINGS 20000

/* How glibc declares them in C++. */
#ifdef __cplusplus
#define MALLOC_THROWS throw()
extern "C" {
#else
#define MALLOC_THROWS
#endif

/* Allocations so far, by the library as well, by every door that glibc has. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t number, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
static unsigned long allocated;
void *malloc(size_t size) MALLOC_THROWS {
    allocated++;
    return __libc_malloc(size);
}
void *calloc(size_t number, size_t size) MALLOC_THROWS {
    allocated++;
    return __libc_calloc(number, size);
}
void *realloc(void *old, size_t size) MALLOC_THROWS {
    allocated++;
    return __libc_realloc(old, size);
}
void *aligned_alloc(size_t alignment, size_t size) MALLOC_THROWS {
    allocated++;
    return __libc_memalign(alignment, size);
}
int posix_memalign(void **place, size_t alignment, size_t size) MALLOC_THROWS {
    allocated++;
    *place = __libc_memalign(alignment, size);
    return *place == NULL ? ENOMEM : 0;
}
#ifdef __cplusplus
}
#endif

static void check(int truth, const char *what) {
    if (!truth) {
        fprintf(stderr, "not so: %s\n", what);
        exit(1);
    }
}
#define CHECK(x) check((x) != 0, #x)

/* Each of them is counted. */
static void doors(void) {
    unsigned long so_far = allocated;
    void *aligned = NULL;
    free(malloc(1));
    free(calloc(1, 1));
    free(realloc(NULL, 1));
    free(aligned_alloc(16, 16));
    CHECK(posix_memalign(&aligned, 16, 1) == 0);
    free(aligned);
    CHECK(allocated == so_far + 5);
}

static int before(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static void print_time(const struct timespec *t) { printf(" %ld %ld", (long)t->tv_sec, t->tv_nsec); }

/* Readings of one thread: monotone ones never go back, and best is in its interval. */
static void *read_on(void *shared) {
    const truechimer_clock *clock = (const truechimer_clock *)shared;
    truechimer_reading last, now;
    int i;
    CHECK(truechimer_now_monotone(clock, &last) == 0);
    for (i = 0; i < READINGS; i++) {
        CHECK(truechimer_now_monotone(clock, &now) == 0);
        CHECK(!before(&now.best, &last.best));
        last = now;
        CHECK(truechimer_now(clock, &now) == 0);
        CHECK(now.status == TRUECHIMER_SYNCHRONISED);
        CHECK(!before(&now.best, &now.earliest) && !before(&now.latest, &now.best));
    }
    return NULL;
}

static void null_pointers(truechimer_clock *clock) {
    truechimer_reading reading;
    truechimer_moment moment, made_up;
    truechimer_length length;
    truechimer_clock *none = clock;
    truechimer_timer timer;
    struct timespec wrong;
    char text[256];
    wrong.tv_sec = 0;
    wrong.tv_nsec = 1000000000;
    made_up.count = 1;
    made_up.stretch = 0xffff;
    CHECK(truechimer_open(NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_open_at(NULL, 2, NULL, &none, NULL, 0) == TRUECHIMER_E_ARGUMENT && none == NULL);
    CHECK(truechimer_now(NULL, &reading) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_now(clock, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_status(NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_count(clock, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_count(clock, &moment) == 0);
    CHECK(truechimer_time_of(clock, NULL, &reading) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_time_of(clock, &made_up, &reading) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_elapsed(clock, &moment, &made_up, &length) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_wait_after(clock, &wrong, NULL, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_wait_for(clock, &wrong, TRUECHIMER_BEFORE, NULL, NULL) == TRUECHIMER_E_ARGUMENT);
    wrong.tv_nsec = 0;
    CHECK(truechimer_wait_for(clock, &wrong, 3, NULL, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_wait_for(clock, NULL, TRUECHIMER_AFTER, NULL, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_timer_begin(clock, &wrong, 1, -1, &timer) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_timer_begin(clock, NULL, 1, TRUECHIMER_LIKELY, &timer) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_timer_begin(clock, &wrong, 1, TRUECHIMER_LIKELY, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_timer_tick(clock, NULL, NULL, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_timer_begin(clock, &wrong, 1, TRUECHIMER_LIKELY, &timer) == 0);
    timer.nanoseconds = 1000000000;
    CHECK(truechimer_timer_tick(clock, &timer, NULL, NULL) == TRUECHIMER_E_ARGUMENT);
    wrong.tv_nsec = 1000000000;
    CHECK(truechimer_explain(clock, NULL, 0, NULL, 9) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_explain(NULL, NULL, 0, text, sizeof text) == TRUECHIMER_E_ARGUMENT);
    /* There is a time: the error is said as far as the number goes. */
    CHECK(truechimer_explain(clock, NULL, TRUECHIMER_E_VOID, text, sizeof text) == 0);
    CHECK(strcmp(text, truechimer_error_text(TRUECHIMER_E_VOID)) == 0);
    CHECK(truechimer_wait_synchronised(clock, &wrong, NULL, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_bound_sources(clock, NULL) == TRUECHIMER_E_ARGUMENT);
    CHECK(truechimer_reading_bound(NULL) == -1 && truechimer_page(NULL) == NULL);
    truechimer_close(NULL);
}

/* From one time to another, ns. */
static long from_to(const struct timespec *a, const struct timespec *b) {
    return (long)(b->tv_sec - a->tv_sec) * 1000000000 + (b->tv_nsec - a->tv_nsec);
}

static struct timespec later(struct timespec t, long ns) {
    t.tv_nsec += ns;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Each wait ends on the side of its time that was asked for, in whole nanoseconds. */
static void sides(truechimer_clock *clock) {
    truechimer_reading now, then;
    struct timespec time;
    int i, in_time = 0;
    /* Surely before, unless the thread is stopped at that moment. */
    for (i = 0; i < 10000 && !in_time; i++) {
        CHECK(truechimer_now(clock, &now) == 0);
        time = later(now.latest, 300000);
        CHECK(truechimer_wait_for(clock, &time, TRUECHIMER_BEFORE, NULL, &then) == 0);
        CHECK(from_to(&then.latest, &time) <= 1000);
        in_time = before(&then.latest, &time);
    }
    CHECK(in_time);
    for (i = 0; i < 200; i++) {
        CHECK(truechimer_now(clock, &now) == 0);
        CHECK(truechimer_wait_for(clock, &now.latest, TRUECHIMER_LIKELY, NULL, &then) == 0);
        CHECK(!before(&then.best, &now.latest));
        CHECK(truechimer_wait_for(clock, &now.latest, TRUECHIMER_AFTER, NULL, &then) == 0);
        CHECK(before(&now.latest, &then.earliest));
    }
    /* It is over: nothing is waited for, and the reading says so. */
    CHECK(truechimer_wait_for(clock, &now.latest, TRUECHIMER_BEFORE, NULL, &then) == 0);
    CHECK(!before(&then.latest, &now.latest));
}

/* A timer keeps to its times and says what it missed. */
static void ticks(truechimer_clock *clock) {
    truechimer_reading now;
    truechimer_timer timer;
    truechimer_tick tick;
    struct timespec pause, none, due;
    int i;
    pause.tv_sec = none.tv_sec = none.tv_nsec = 0;
    pause.tv_nsec = 20000000;
    CHECK(truechimer_now(clock, &now) == 0);
    CHECK(truechimer_timer_begin(clock, &now.latest, 2000000, TRUECHIMER_AFTER, &timer) == 0);
    due = now.latest;
    for (i = 0; i < 5; i++) {
        if (i == 3) {
            nanosleep(&pause, NULL);
        }
        CHECK(truechimer_timer_tick(clock, &timer, NULL, &tick) == 0);
        CHECK(from_to(&due, &tick.time) == (long)tick.missed * 2000000);
        CHECK(before(&tick.time, &tick.reading.earliest));
        /* The last one that had come. */
        CHECK(from_to(&tick.time, &tick.reading.earliest) <= 2000001);
        CHECK(i != 3 || tick.missed >= 9);
        due = later(tick.time, 2000000);
    }
    due = later(due, 900000000);
    CHECK(truechimer_timer_begin(clock, &due, 2000000, TRUECHIMER_LIKELY, &timer) == 0);
    CHECK(truechimer_timer_tick(clock, &timer, &none, &tick) == TRUECHIMER_E_TIMEOUT);
    CHECK(truechimer_timer_tick(clock, &timer, NULL, &tick) == 0 && !before(&tick.time, &due));
}

static void waits(truechimer_clock *clock) {
    truechimer_reading now, then;
    struct timespec soon;
    soon.tv_sec = 0;
    soon.tv_nsec = 1000000;
    CHECK(truechimer_now(clock, &now) == 0);
    CHECK(truechimer_wait_after(clock, &now.latest, NULL, &then) == 0);
    CHECK(before(&now.latest, &then.earliest));
    now.latest.tv_sec += 3600;
    CHECK(truechimer_wait_after(clock, &now.latest, &soon, &then) == TRUECHIMER_E_TIMEOUT);
    CHECK(truechimer_wait_synchronised(clock, NULL, NULL, &then) == 0);
    CHECK(then.status == TRUECHIMER_SYNCHRONISED);
    sides(clock);
    ticks(clock);
    soon.tv_nsec = 1;
    CHECK(truechimer_wait_synchronised(clock, &soon, &soon, NULL) == TRUECHIMER_E_TIMEOUT);
}

int main(int argc, char **argv) {
    truechimer_clock *clock = NULL;
    truechimer_moment from, to;
    truechimer_reading reading;
    truechimer_length length, none, up;
    struct timespec pause;
    truechimer_bound bound;
    char text[256];
    pthread_t threads[4];
    int i, status, error;
    pid_t child;
    unsigned long opened;

    CHECK(argc == 2);
    error = truechimer_open_at(argv[1], 0, NULL, &clock, text, sizeof text);
    if (error != 0) {
        CHECK(error < 0 && clock == NULL);
        printf("error %d %s|%s\n", error, truechimer_error_text(error), text);
        return 0;
    }
    CHECK(text[0] == '\0' && strcmp(truechimer_page(clock), argv[1]) == 0);
    error = truechimer_now(clock, &reading);
    if (error != 0) {
        opened = allocated;
        CHECK(truechimer_explain(clock, NULL, error, text, sizeof text) == 0);
        /* Why a device cannot be read is another matter. */
        CHECK(allocated == opened || error == TRUECHIMER_E_COUNTER);
        printf("error %d %s|%s\n", error, truechimer_error_text(error), text);
        truechimer_close(clock);
        return 0;
    }
    status = truechimer_status(clock);
    printf("status %s %d\n", truechimer_status_name(status), status);
    if (status != TRUECHIMER_SYNCHRONISED) {
        printf("bound %ld\n", (long)truechimer_reading_bound(&reading));
        truechimer_close(clock);
        return 0;
    }

    pause.tv_sec = 0;
    pause.tv_nsec = 20000000;
    CHECK(truechimer_count(clock, &from) == 0);
    nanosleep(&pause, NULL);
    CHECK(truechimer_count(clock, &to) == 0);
    CHECK(truechimer_time_of(clock, &from, &reading) == 0 && reading.count == from.count);
    printf("time %lu", (unsigned long)from.count);
    print_time(&reading.earliest);
    print_time(&reading.best);
    print_time(&reading.latest);
    printf(" %ld %d\n", (long)truechimer_reading_bound(&reading), reading.tai_offset);
    CHECK(truechimer_elapsed(clock, &from, &to, &length) == 0);
    CHECK(truechimer_elapsed(clock, &from, &from, &none) == 0 && none.ns == 0);
    printf("elapsed %lu %lu %lu %lu %ld %ld %ld\n", (unsigned long)from.count,
           (unsigned long)from.stretch, (unsigned long)to.count, (unsigned long)to.stretch,
           (long)length.ns, (long)length.bound_ns, (long)none.bound_ns);
    CHECK(truechimer_uptime(clock, &up) == 0 && up.ns > 0 && up.bound_ns >= 0);
    CHECK(truechimer_bound_sources(clock, &bound) == 0 && bound.reason[0] == '\0');
    CHECK(bound.total_ns <= bound.path_ns + bound.statistical_ns + bound.growth_ns + bound.counter_ns);
    printf("parts %ld %ld\n", (long)bound.path_ns, (long)bound.statistical_ns);

    doors();
    opened = allocated;
    read_on(clock);
    waits(clock);
    null_pointers(clock);
    CHECK(truechimer_count(clock, &from) == 0 && truechimer_time_of(clock, &from, &reading) == 0);
    CHECK(truechimer_elapsed(clock, &from, &from, &none) == 0);
    CHECK(truechimer_status(clock) == TRUECHIMER_SYNCHRONISED);
    CHECK(truechimer_reading_bound(&reading) >= 0 && truechimer_page(clock) != NULL);
    CHECK(truechimer_version() != NULL && truechimer_status_name(status) != NULL);
    CHECK(truechimer_uptime(clock, &up) == 0 && truechimer_bound_sources(clock, &bound) == 0);
    /* A moment of the epoch after. */
    from.stretch += (uint64_t)1 << 32;
    CHECK(truechimer_time_of(clock, &from, &reading) == TRUECHIMER_E_OTHER_EPOCH);
    CHECK(truechimer_explain(clock, &from, TRUECHIMER_E_OTHER_EPOCH, text, sizeof text) == 0);
    CHECK(strstr(text, "that moment is of epoch ") != NULL);
    CHECK(allocated == opened);
    for (i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, read_on, clock) == 0);
    }
    for (i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        read_on(clock);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    truechimer_close(clock);
    printf("sizes %lu %lu %lu %lu %lu %lu %lu %lu\n", (unsigned long)sizeof(truechimer_reading),
           (unsigned long)sizeof(truechimer_moment), (unsigned long)sizeof(truechimer_length),
           (unsigned long)sizeof(truechimer_bound), (unsigned long)offsetof(truechimer_bound, generation),
           (unsigned long)offsetof(truechimer_bound, reason), (unsigned long)sizeof(truechimer_timer),
           (unsigned long)sizeof(truechimer_tick));
#define AT(field) printf(" %lu", (unsigned long)offsetof(truechimer_bound, field))
    printf("offsets");
    AT(total_ns);
    AT(path_ns);
    AT(statistical_ns);
    AT(growth_ns);
    AT(counter_ns);
    AT(disputed_ns);
    AT(likely_ns);
    AT(deviation_ppt);
    AT(silence_ns);
    AT(counter);
    AT(read_by);
    printf("\nall %s\n", truechimer_version());
    return 0;
}
