/*
 * Four threads read one clock where seccomp lets them make no system call but their end: any other, as for a
 * lock that is waited for or for memory, ends the process. (Its strict mode takes the counter away as well.)
 */
#include <truechimer.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 4
#define READINGS 20000

static truechimer_clock *theirs;
/* Of each thread: its number once it has one, and whether it came to its end. */
static volatile int ids[THREADS], done[THREADS];

/* All that reads the clock without waiting for a time. Returns whether each call worked. */
static int everything(truechimer_clock *clock) {
    truechimer_reading now, then;
    truechimer_moment from, to;
    truechimer_length length;
    truechimer_bound bound;
    struct timespec none = {0, 0};
    char text[256];
    return truechimer_now(clock, &now) == 0 && truechimer_now_monotone(clock, &now) == 0 &&
           truechimer_status(clock) == TRUECHIMER_SYNCHRONISED && truechimer_count(clock, &from) == 0 &&
           truechimer_count(clock, &to) == 0 && truechimer_time_of(clock, &from, &then) == 0 &&
           truechimer_elapsed(clock, &from, &to, &length) == 0 && truechimer_uptime(clock, &length) == 0 &&
           truechimer_reading_bound(&now) >= 0 && truechimer_bound_sources(clock, &bound) == 0 &&
           truechimer_wait_for(clock, &now.earliest, TRUECHIMER_LIKELY, &none, NULL) == 0 &&
           truechimer_wait_synchronised(clock, NULL, &none, NULL) == 0 &&
           strcmp(truechimer_error_text(0), "no error") == 0 && truechimer_page(clock) != NULL &&
           truechimer_explain(clock, NULL, TRUECHIMER_E_VOID, text, sizeof text) == 0;
}

/* From here on this thread may make no system call but exit. Returns whether that is so. */
static int hush(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void *silently(void *mine) {
    int i, fine = everything(theirs);
    long which = (volatile int *)mine - done;
    ids[which] = (int)syscall(SYS_gettid);
    fine = fine && hush();
    for (i = 0; i < READINGS && fine; i++) {
        fine = everything(theirs);
    }
    done[which] = fine;
    /* The thread alone: what the library of threads does at an end are other calls. */
    syscall(SYS_exit, 0);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int i, all = 0;
    if (argc != 2 || truechimer_open_at(argv[1], 0, NULL, &theirs, NULL, 0) != 0) {
        return 1;
    }
    for (i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, silently, (void *)&done[i]) != 0) {
            return 1;
        }
    }
    for (i = 0; i < THREADS; i++) {
        /* Not joined, as the library of threads did not see their end: asked for until they are gone. */
        while (ids[i] == 0 || syscall(SYS_tgkill, getpid(), ids[i], 0) == 0) {
            usleep(1000);
        }
        all += done[i];
    }
    printf("%d of %d read in silence\n", all, THREADS);
    /* A clock is left to the end of the process: its threads never gave back theirs. */
    fflush(stdout);
    _exit(all == THREADS ? 0 : 1);
}
