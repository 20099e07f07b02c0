//! Threads and processes, and the numbers that they get.

use std::collections::BTreeMap;

use truechimer_group_client::Thread;
use truechimer_group_client::lineage::{self, Kind};

use crate::agent::lock;
use crate::stage::{Stage, said, until};

/// Number of rounds that each thread has read.
fn threads(stage: &Stage) -> BTreeMap<Thread, u64> {
    lock(&stage.agreement).threads().into_iter().collect()
}

#[test]
fn each_thread_and_process_has_its_own() {
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
static void *leaf(void *_) { time(0); time(0); pthread_exit(_); }
static void *branch(void *_) { pthread_t t; pthread_create(&t, 0, leaf, 0); pthread_join(t, 0); time(0); return _; }
static int plain(void *_) { (void)_; time(0); return 5; }
int main(void) {
    pthread_t a, b; thrd_t c; int status;
    pthread_create(&a, 0, branch, 0);
    pthread_create(&b, 0, branch, 0);
    pthread_join(a, 0); pthread_join(b, 0);
    thrd_create(&c, plain, 0); thrd_join(c, &status); if (status != 5) return 1;
    if (!fork()) { time(0); if (!fork()) { time(0); _exit(0); } wait(0); _exit(0); }
    wait(0);
    if (!vfork()) { time(0); _exit(0); }
    wait(0);
    if (!_Fork()) { time(0); _exit(0); }
    wait(0);
    time(0);
    return 0;
}
"#;
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(source, &[]) else { return };
    assert_eq!(said(&mut stage.command(program)), "");
    let first = lineage::FIRST;
    let thread = |parent, nth| lineage::child(parent, nth, Kind::Thread);
    let process = |nth| lineage::child(first, nth, Kind::Process);
    let expected = BTreeMap::from([
        (first, 1),
        (thread(first, 0), 1),
        (thread(first, 1), 1),
        (thread(thread(first, 0), 0), 2),
        (thread(thread(first, 1), 0), 2),
        (thread(first, 2), 1),
        (process(0), 1),
        (lineage::child(process(0), 0, Kind::Process), 1),
        (process(1), 1),
        (process(2), 1),
    ]);
    assert_eq!(threads(&stage), expected);
}

#[test]
fn executed_programs_keep_their_places() {
    let stage = Stage::new(1);
    // The first runs in place of the shell, the second is its child.
    said(stage.command("dash").args(["-c", "exec date"]));
    assert_eq!(threads(&stage), BTreeMap::from([(lineage::FIRST, 1)]));
    until("all have ended", || stage.agent().readers() == 0);

    // Bash keeps an environment of its own, and reads the clock when it starts.
    for shell in ["dash", "bash"] {
        let stage = Stage::new(1);
        said(stage.command(shell).args(["-c", "date; date; exec date"]));
        let child = |nth| lineage::child(lineage::FIRST, nth, Kind::Process);
        let mut threads = threads(&stage);
        assert!(threads.remove(&lineage::FIRST).is_some());
        assert_eq!(threads, BTreeMap::from([(child(0), 1), (child(1), 1)]), "{shell}");
    }
}

#[test]
fn children_born_unseen_are_numbered_in_their_order() {
    let source = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
extern char **environ;
int main(void) {
    char *words[] = { "date", "+x", 0 }; pid_t pid; char text[9];
    time(0);
    posix_spawnp(&pid, "date", 0, 0, words, environ); waitpid(pid, 0, 0);
    if (system("date +x >/dev/null")) return 1;
    FILE *f = popen("date +x", "r"); if (!fgets(text, 9, f)) return 1;
    return pclose(f);
}
"#;
    let of = |times: u32| {
        let stage = Stage::new(1);
        let program = stage.compiled(source, &[])?;
        (0..times).for_each(|_| {
            said(&mut stage.command(&program));
            until("all have ended", || stage.agent().readers() == 0);
        });
        Some(threads(&stage))
    };
    let Some(once) = of(1) else { return };
    assert_eq!(once.len(), 4, "{once:?}");
    assert_eq!(of(1), Some(once.clone()), "the same anywhere");
    let twice: BTreeMap<Thread, u64> = of(2).expect("it compiles");
    assert_eq!(twice, once, "and in another life");
}

#[test]
fn descriptors_that_are_closed_and_reused() {
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static int reads(void) { return time(0) != (time_t)-1; }
int main(int n, char **v) {
    if (n > 1) return !reads();
    for (int fd = 3; fd < 4096; fd++) close(fd);
    if (!reads()) return 1;
    closefrom(3); close_range(3, ~0U, 0);
    int file = open("/dev/null", O_WRONLY);
    for (int fd = 3; fd < 1000; fd++) dup2(file, fd);
    if (!reads()) return 2;
    if (!fork()) { execl(v[0], v[0], "again", (char *)0); _exit(9); }
    int status; wait(&status);
    return WEXITSTATUS(status);
}
"#;
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(source, &[]) else { return };
    assert_eq!(said(&mut stage.command(program)), "");
    let child = lineage::child(lineage::FIRST, 0, Kind::Process);
    assert_eq!(threads(&stage), BTreeMap::from([(lineage::FIRST, 2), (child, 1)]));
}

#[test]
fn a_storm_of_threads_and_forks() {
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void *work(void *_) {
    for (int i = 0; i < 20; i++) {
        time(0);
        if (i % 10 == 0) { pid_t p = fork(); if (!p) { time(0); _exit(0); } waitpid(p, 0, 0); }
    }
    return _;
}
int main(void) {
    pthread_t t[16];
    for (int i = 0; i < 16; i++) pthread_create(t + i, 0, work, 0);
    for (int i = 0; i < 16; i++) pthread_join(t[i], 0);
    return 0;
}
"#;
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(source, &[]) else { return };
    assert_eq!(said(&mut stage.command(program)), "");
    let threads = threads(&stage);
    assert_eq!(threads.len(), 16 * 3);
    assert_eq!(threads.values().sum::<u64>(), 16 * 22);
}
