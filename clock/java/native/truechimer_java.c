/*
 * The functions of libtruechimer as the Java virtual machine calls them (class org.truechimer.Native).
 *
 * Nothing is decided here. Pointers come as numbers: clocks as truechimer_open_at() gave them, places as
 * the addresses of direct buffers, which the caller keeps alive during the call and which are as large
 * as the structures below. No object of the machine's is made or kept, and no exception thrown.
 */
#include <jni.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <truechimer.h>

/* What Reading.java, Moment.java, Timer.java and Tick.java have in numbers. */
#define HOLDS(truth) _Static_assert(truth, #truth)
HOLDS(sizeof(long) == 8 && sizeof(struct timespec) == 16);
HOLDS(sizeof(truechimer_reading) == 72);
HOLDS(offsetof(truechimer_reading, earliest) == 0 && offsetof(truechimer_reading, best) == 16);
HOLDS(offsetof(truechimer_reading, latest) == 32 && offsetof(truechimer_reading, count) == 48);
HOLDS(offsetof(truechimer_reading, status) == 56 && offsetof(truechimer_reading, tai_offset) == 60);
HOLDS(offsetof(truechimer_reading, flags) == 64);
HOLDS(TRUECHIMER_LEAP_SECOND == 1 && TRUECHIMER_TAI_KNOWN == 2);
HOLDS(offsetof(truechimer_moment, count) == 0 && offsetof(truechimer_moment, stretch) == 8);
HOLDS(offsetof(truechimer_length, ns) == 0 && offsetof(truechimer_length, bound_ns) == 8);
HOLDS(sizeof(truechimer_timer) == 24 && sizeof(truechimer_tick) == 96);
HOLDS(offsetof(truechimer_tick, time) == 0 && offsetof(truechimer_tick, missed) == 16);
HOLDS(offsetof(truechimer_tick, reading) == 24);
HOLDS(TRUECHIMER_UNKNOWN == 0 && TRUECHIMER_SYNCHRONISED == 1);
HOLDS(TRUECHIMER_HOLDOVER == 2 && TRUECHIMER_DISRUPTED == 3);
HOLDS(TRUECHIMER_BEFORE == 0 && TRUECHIMER_LIKELY == 1 && TRUECHIMER_AFTER == 2);
HOLDS(TRUECHIMER_E_ARGUMENT == -1 && TRUECHIMER_FENCED == 1);

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_org_truechimer_Native_##name
#define UNUSED (void)env, (void)class

static void *at(jlong address) { return (void *)(intptr_t)address; }

/* A length in ns, not below 0. */
static struct timespec length_of(jlong ns) {
    struct timespec length = {ns / 1000000000, ns % 1000000000};
    return length;
}

/* Fills in a length, or is NULL for ns below 0. */
static const struct timespec *perhaps(jlong ns, struct timespec *length) {
    *length = length_of(ns < 0 ? 0 : ns);
    return ns < 0 ? NULL : length;
}

static void put(const char *from, jlong to, jint size) {
    size_t length = strlen(from);
    if (size < 1) {
        return;
    }
    if (length > (size_t)size - 1) {
        length = (size_t)size - 1;
    }
    memcpy(at(to), from, length);
    ((char *)at(to))[length] = '\0';
}

NATIVE(jlong, address)(JNIEnv *env, jclass class, jobject buffer) {
    (void)class;
    return (jlong)(intptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

NATIVE(jint, open)(JNIEnv *env, jclass class, jlong page, jint flags, jlong place, jlong text, jint size) {
    UNUSED;
    return truechimer_open_at(at(page), (uint32_t)flags, NULL, at(place), at(text), (size_t)size);
}

NATIVE(void, close)(JNIEnv *env, jclass class, jlong clock) {
    UNUSED;
    truechimer_close(at(clock));
}

NATIVE(void, page)(JNIEnv *env, jclass class, jlong clock, jlong text, jint size) {
    UNUSED;
    put(truechimer_page(at(clock)), text, size);
}

NATIVE(jint, now)(JNIEnv *env, jclass class, jlong clock, jlong place) {
    UNUSED;
    return truechimer_now(at(clock), at(place));
}

NATIVE(jint, nowMonotone)(JNIEnv *env, jclass class, jlong clock, jlong place) {
    UNUSED;
    return truechimer_now_monotone(at(clock), at(place));
}

NATIVE(jint, status)(JNIEnv *env, jclass class, jlong clock) {
    UNUSED;
    return truechimer_status(at(clock));
}

NATIVE(jint, count)(JNIEnv *env, jclass class, jlong clock, jlong place) {
    UNUSED;
    return truechimer_count(at(clock), at(place));
}

NATIVE(jint, uptime)(JNIEnv *env, jclass class, jlong clock, jlong place) {
    UNUSED;
    return truechimer_uptime(at(clock), at(place));
}

NATIVE(jint, timeOf)(JNIEnv *env, jclass class, jlong clock, jlong count, jlong stretch, jlong place) {
    truechimer_moment moment = {(uint64_t)count, (uint64_t)stretch};
    UNUSED;
    return truechimer_time_of(at(clock), &moment, at(place));
}

NATIVE(jint, elapsed)(JNIEnv *env, jclass class, jlong clock, jlong from_count, jlong from_stretch,
                      jlong to_count, jlong to_stretch, jlong place) {
    truechimer_moment from = {(uint64_t)from_count, (uint64_t)from_stretch};
    truechimer_moment to = {(uint64_t)to_count, (uint64_t)to_stretch};
    UNUSED;
    return truechimer_elapsed(at(clock), &from, &to, at(place));
}

NATIVE(jint, waitFor)(JNIEnv *env, jclass class, jlong clock, jlong seconds, jint nanos, jint side,
                      jlong timeout, jlong place) {
    struct timespec time = {seconds, nanos}, longest;
    UNUSED;
    return truechimer_wait_for(at(clock), &time, side, perhaps(timeout, &longest), at(place));
}

NATIVE(jint, waitSynchronised)(JNIEnv *env, jclass class, jlong clock, jlong bound, jlong timeout,
                               jlong place) {
    struct timespec most, longest;
    UNUSED;
    return truechimer_wait_synchronised(at(clock), perhaps(bound, &most), perhaps(timeout, &longest),
                                        at(place));
}

NATIVE(jint, timer)(JNIEnv *env, jclass class, jlong clock, jlong seconds, jint nanos, jlong period,
                    jint side, jlong place) {
    struct timespec first = {seconds, nanos};
    UNUSED;
    return truechimer_timer_begin(at(clock), &first, period, side, at(place));
}

NATIVE(jint, tick)(JNIEnv *env, jclass class, jlong clock, jlong timer, jlong timeout, jlong place) {
    struct timespec longest;
    UNUSED;
    return truechimer_timer_tick(at(clock), at(timer), perhaps(timeout, &longest), at(place));
}

NATIVE(void, explain)(JNIEnv *env, jclass class, jlong clock, jint error, jlong text, jint size) {
    UNUSED;
    truechimer_explain(at(clock), NULL, error, at(text), (size_t)size);
}

NATIVE(void, explainOf)(JNIEnv *env, jclass class, jlong clock, jlong count, jlong stretch, jint error,
                        jlong text, jint size) {
    truechimer_moment moment = {(uint64_t)count, (uint64_t)stretch};
    UNUSED;
    truechimer_explain(at(clock), &moment, error, at(text), (size_t)size);
}
