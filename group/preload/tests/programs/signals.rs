//! Reads in signal handlers, inside reads and out of them.

use std::io::Write;
use std::process::Stdio;

use truechimer_group_client::Thread;
use truechimer_group_client::lineage::{self, Kind};

use crate::agent::lock;
use crate::stage::{Stage, said, until, wait};

const HEAD: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
"#;

fn signal(pid: u32, signal: i32) {
    // SAFETY: a child of ours that was not waited for.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

#[test]
fn a_read_inside_a_read_is_another_threads() {
    let source = format!(
        "{HEAD}
static volatile time_t inner;
static void handler(int _) {{ (void)_; int e = errno; inner = time(0); if (errno != e) abort(); }}
int main(void) {{
    signal(SIGUSR1, handler);
    errno = 55;
    time_t outer = time(0);
    if (errno != 55) return 1;
    printf(\"%d %d\", outer > 0, inner > 0);
    return 0;
}}"
    );
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(&source, &[]) else { return };
    stage.agent().hold(true);
    let child = stage.command(program).spawn().expect("it starts");
    until("it reads", || stage.agent().waiting() == 1);
    signal(child.id(), libc::SIGUSR1);
    until("it reads inside", || stage.agent().waiting() == 2);
    stage.agent().hold(false);
    let output = wait(child);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 1", "{output:?}");
    let threads = lock(&stage.agreement).threads();
    assert_eq!(threads.len(), 2);
    assert!(threads.contains_key(&inside(0)), "{threads:?}");
}

/// The thread of what interrupts reads of the first thread of that member's program.
fn inside(place: u8) -> Thread {
    Thread::of_member(place, lineage::child(lineage::FIRST, 0, Kind::Signal).0)
}

/// Signals come at other moments at each replica. One has interrupted three reads; when the other
/// interrupts its first, it must not read what the first had then, which is older than what it has
/// read itself since.
#[test]
fn what_interrupts_a_read_never_sees_time_go_back() {
    let source = format!(
        "{HEAD}
static volatile long long inner;
static long long ns(void) {{
    struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec * 1000000000LL + t.tv_nsec;
}}
static void handler(int _) {{ (void)_; inner = ns(); }}
int main(void) {{
    signal(SIGUSR1, handler);
    long long last = 0; char line;
    while (read(0, &line, 1) == 1) {{
        inner = 0;
        long long outer = ns();
        printf(\"%d%d \", outer > last, !inner || inner > last);
        fflush(stdout);
        last = outer;
    }}
    return 0;
}}"
    );
    let stage = Stage::new(2);
    let Some(program) = stage.compiled(&source, &[]) else { return };
    let start = |member| stage.command_at(member, &program).stdin(Stdio::piped()).spawn().unwrap();
    let mut children = [start(0), start(1)];
    let mut read = |member: usize, interrupted: bool| {
        let agent = &stage.agents[member];
        agent.hold(true);
        children[member].stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        until("it reads", || agent.waiting() == 1);
        if interrupted {
            signal(children[member].id(), libc::SIGUSR1);
            until("it reads inside", || agent.waiting() == 2);
        }
        agent.hold(false);
        until("it has read", || agent.waiting() == 0);
    };
    for _ in 0..3 {
        read(0, true);
    }
    for _ in 0..3 {
        read(1, false);
    }
    for _ in 0..3 {
        read(1, true);
    }
    for (mut child, seen) in children.into_iter().zip(["11 11 11 ", "11 11 11 11 11 11 "]) {
        drop(child.stdin.take());
        assert_eq!(String::from_utf8_lossy(&wait(child).stdout), seen);
    }
    // And their rounds are the same, whatever was interrupted.
    let threads = lock(&stage.agreement).threads();
    assert_eq!(threads[&lineage::FIRST], 6);
    assert_eq!((threads[&inside(0)], threads[&inside(1)]), (3, 3));
}

#[test]
fn a_handler_may_jump_out_of_a_read() {
    let source = format!(
        "{HEAD}
static sigjmp_buf back;
static void handler(int _) {{ (void)_; siglongjmp(back, 1); }}
int main(void) {{
    signal(SIGUSR1, handler);
    if (!sigsetjmp(back, 1)) {{ time(0); return 1; }}
    time_t a = time(0), b = time(0);
    printf(\"%d\", a > 0 && b >= a);
    return 0;
}}"
    );
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(&source, &[]) else { return };
    stage.agent().hold(true);
    let child = stage.command(program).spawn().expect("it starts");
    until("it reads", || stage.agent().waiting() == 1);
    signal(child.id(), libc::SIGUSR1);
    until("it reads anew", || stage.agent().waiting() >= 2);
    stage.agent().hold(false);
    let output = wait(child);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1", "{output:?}");
    let threads = lock(&stage.agreement).threads();
    // The round that was left behind was read by its own thread all the same.
    assert_eq!(threads.into_iter().collect::<Vec<_>>(), [(lineage::FIRST, 3)]);
}

#[test]
fn a_storm_of_signals() {
    let source = format!(
        "{HEAD}
static volatile sig_atomic_t rung;
static volatile int bad;
/* On a busy machine a read takes longer than it is to the next signal: then so many wait in each other. */
static volatile sig_atomic_t depth;
static void handler(int _) {{
    (void)_; rung++; struct timespec t; int e = errno;
    if (depth >= 5) return;
    depth++;
    if (clock_gettime(CLOCK_REALTIME, &t) || errno != e) bad = 1;
    depth--;
}}
int main(void) {{
    struct sigaction action = {{ .sa_handler = handler, .sa_flags = SA_NODEFER }};
    struct itimerval each = {{ {{ 0, 700 }}, {{ 0, 700 }} }};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &each, 0);
    struct timespec last = {{ 0, 0 }}, t; int reads = 0;
    for (; rung < 100 || reads < 500; reads++) {{
        if (clock_gettime(CLOCK_REALTIME, &t)) return 1;
        if (t.tv_sec < last.tv_sec || (t.tv_sec == last.tv_sec && t.tv_nsec <= last.tv_nsec)) return 2;
        last = t;
        each.it_interval.tv_usec = each.it_value.tv_usec = 3000;
        if (reads == 400) setitimer(ITIMER_REAL, &each, 0);
    }}
    each.it_interval.tv_usec = each.it_value.tv_usec = 0;
    setitimer(ITIMER_REAL, &each, 0);
    printf(\"%d\", bad);
    return 0;
}}"
    );
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(&source, &[]) else { return };
    assert_eq!(said(&mut stage.command(program)), "0");
    assert!(lock(&stage.agreement).rounds() >= 600);
}

#[test]
fn a_thread_may_be_cancelled_where_it_waits() {
    let source = "
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static int cleaned;
static void clean(void *_) { (void)_; cleaned++; }
static void *sleeper(void *_) {
    pthread_cleanup_push(clean, 0);
    struct timespec t; clock_gettime(CLOCK_REALTIME, &t); t.tv_sec += 1000;
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, 0);
    pthread_cleanup_pop(0);
    return _;
}
static void *reader(void *_) {
    char c; int p[2]; if (pipe(p)) return _;
    pthread_cleanup_push(clean, 0);
    if (read(p[0], &c, 1)) {}
    pthread_cleanup_pop(0);
    return _;
}
static void *waiter(void *_) {
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    struct timespec t; clock_gettime(CLOCK_REALTIME, &t); t.tv_sec += 1000;
    pthread_mutex_lock(&m);
    pthread_cleanup_push(clean, 0);
    pthread_cond_timedwait(&c, &m, &t);
    pthread_cleanup_pop(0);
    return _;
}
int main(void) {
    void *(*all[])(void *) = { sleeper, reader, waiter };
    for (int i = 0; i < 3; i++) {
        pthread_t t; void *result;
        pthread_create(&t, 0, all[i], 0);
        usleep(20000);
        pthread_cancel(t);
        pthread_join(t, &result);
        if (result != PTHREAD_CANCELED) return 1;
    }
    printf(\"%d\", cleaned);
    return 0;
}
";
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(source, &[]) else { return };
    assert_eq!(said(&mut stage.command(program)), "3");
}
