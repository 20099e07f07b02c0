//! Waits for a moment of the group's clock, which is an hour ahead of the host's: without
//! translation each would take that hour.

use crate::agent::lock;
use crate::stage::{Stage, said};

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#define LONG 50000000L
static struct timespec until; static struct timespec begun;
static volatile sig_atomic_t rung;
static void ring(int signal) { rung = signal; }
static struct timespec *soon(void) {
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &begun);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LONG;
    if (until.tv_nsec >= 1000000000) { until.tv_nsec -= 1000000000; until.tv_sec++; }
    return &until;
}
static void is(const char *name, int good) {
    struct timespec now; int error = errno;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    long took = (now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec;
    if (!good) printf("%s: error %d\n", name, error);
    if (took < LONG) printf("%s: early by %ld ns\n", name, LONG - took);
}
static void *sleeper(void *_) { (void)_; for (;;) pause(); return 0; }
int main(void) {
    int r;
    r = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, soon(), 0); is("clock_nanosleep", r == 0);
    r = syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, soon(), 0); is("syscall clock_nanosleep", r == 0);
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&m);
    r = pthread_cond_timedwait(&c, &m, soon()); is("pthread_cond_timedwait", r == ETIMEDOUT);
    r = pthread_cond_clockwait(&c, &m, CLOCK_REALTIME, soon()); is("pthread_cond_clockwait", r == ETIMEDOUT);
    pthread_condattr_t a; pthread_cond_t host; struct timespec mono;
    pthread_condattr_init(&a); pthread_condattr_setclock(&a, CLOCK_MONOTONIC); pthread_cond_init(&host, &a);
    soon(); mono = begun; mono.tv_sec += 1;
    r = pthread_cond_timedwait(&host, &m, &mono); is("a condition variable of the host's clock", r == ETIMEDOUT);
    pthread_mutex_t n = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&n);
    r = pthread_mutex_timedlock(&n, soon()); is("pthread_mutex_timedlock", r == ETIMEDOUT);
    r = pthread_mutex_clocklock(&n, CLOCK_REALTIME, soon()); is("pthread_mutex_clocklock", r == ETIMEDOUT);
    mtx_t x; mtx_init(&x, mtx_timed); mtx_lock(&x);
    r = mtx_timedlock(&x, soon()); is("mtx_timedlock", r == thrd_timedout);
    cnd_t d; cnd_init(&d);
    r = cnd_timedwait(&d, &x, soon()); is("cnd_timedwait", r == thrd_timedout);
    pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER; pthread_rwlock_rdlock(&l);
    r = pthread_rwlock_timedwrlock(&l, soon()); is("pthread_rwlock_timedwrlock", r == ETIMEDOUT);
    r = pthread_rwlock_clockwrlock(&l, CLOCK_REALTIME, soon()); is("pthread_rwlock_clockwrlock", r == ETIMEDOUT);
    sem_t s; sem_init(&s, 0, 0);
    r = sem_timedwait(&s, soon()); is("sem_timedwait", r == -1 && errno == ETIMEDOUT);
    r = sem_clockwait(&s, CLOCK_REALTIME, soon()); is("sem_clockwait", r == -1 && errno == ETIMEDOUT);
    pthread_t t; pthread_create(&t, 0, sleeper, 0);
    r = pthread_timedjoin_np(t, 0, soon()); is("pthread_timedjoin_np", r == ETIMEDOUT);
    r = pthread_clockjoin_np(t, 0, CLOCK_REALTIME, soon()); is("pthread_clockjoin_np", r == ETIMEDOUT);
    char name[64]; snprintf(name, sizeof name, "/tc-%d", getpid());
    struct mq_attr q = { .mq_maxmsg = 1, .mq_msgsize = 8 };
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &q);
    if (queue != (mqd_t)-1) {
        char message[8];
        r = mq_timedreceive(queue, message, 8, 0, soon()); is("mq_timedreceive", r == -1 && errno == ETIMEDOUT);
        mq_send(queue, message, 8, 0);
        r = mq_timedsend(queue, message, 8, 0, soon()); is("mq_timedsend", r == -1 && errno == ETIMEDOUT);
        mq_unlink(name);
    }
    int f = timerfd_create(CLOCK_REALTIME, 0); uint64_t times;
    struct itimerspec i = { .it_value = *soon() };
    timerfd_settime(f, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &i, 0);
    r = read(f, &times, 8); is("timerfd_settime", r == 8 && times == 1);
    i.it_value = *soon(); syscall(SYS_timerfd_settime, f, TFD_TIMER_ABSTIME, &i, 0);
    r = read(f, &times, 8); is("syscall timerfd_settime", r == 8 && times == 1);
    int g = timerfd_create(CLOCK_MONOTONIC, 0); soon(); i.it_value = begun; i.it_value.tv_sec += 1;
    timerfd_settime(g, TFD_TIMER_ABSTIME, &i, 0);
    r = read(g, &times, 8); is("a timer of the host's clock", r == 8 && times == 1);
    i.it_value.tv_sec = 1; soon(); begun.tv_sec -= 1; timerfd_settime(f, TFD_TIMER_ABSTIME, &i, 0);
    r = read(f, &times, 8); is("a moment that is over", r == 8);
    signal(SIGUSR1, ring);
    struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 }; timer_t timer;
    sigset_t block, old; sigemptyset(&block); sigaddset(&block, SIGUSR1); sigprocmask(SIG_BLOCK, &block, &old);
    timer_create(CLOCK_REALTIME, &e, &timer);
    i.it_value = *soon(); timer_settime(timer, TIMER_ABSTIME, &i, 0);
    while (!rung) sigsuspend(&old);
    is("timer_settime", rung == SIGUSR1);
    timer_delete(timer);
    int word = 0;
    r = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME | FUTEX_PRIVATE_FLAG, 0, soon(), 0, ~0);
    is("futex", r == -1 && errno == ETIMEDOUT);
    int pi = 0; struct timespec *u = soon(); (void)u;
    pi = 1; /* held by process 1, for all the kernel knows: another's, or refused at once */
    r = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &(struct timespec){ 1, 0 }, 0);
    begun.tv_sec -= 1; is("a moment long ago", r == 0);
    r = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &(struct timespec){ 1, 1000000000 }, 0);
    is("no moment at all", r == EINVAL);
    puts("done");
    return pi - 1;
}
"#;

#[test]
fn deadlines_come_when_they_should() {
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(PROGRAM, &["-lrt"]) else { return };
    assert_eq!(said(&mut stage.command(&program)), "done");
    let mut command = stage.command(&program);
    // The monotonic clocks' deadlines in there are the host's.
    assert_eq!(said(command.env("TRUECHIMER_GROUP_OFF", "1")), "done");
}

#[test]
fn a_deadline_before_any_read_is_a_round() {
    let stage = Stage::new(1);
    let source = "#include <time.h>\nint main(int n, char **v) {\n\
        struct timespec until = { n > 1 ? 4000000000 : 1, 0 };\n\
        return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0); }";
    let Some(program) = stage.compiled(source, &[]) else { return };
    assert_eq!(said(&mut stage.command(&program)), "");
    assert_eq!(lock(&stage.agreement).rounds(), 1);
}
