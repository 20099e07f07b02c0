//! Every call that tells the time, from C.

use truechimer_group_client::Call;

use crate::agent::lock;
use crate::stage::{Stage, is_group, run, said};

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timeb.h>
#include <time.h>
#include <unistd.h>
extern int ftime(struct timeb *);
extern int __gettimeofday(struct timeval *, void *);
static time_t early;
__attribute__((constructor)) static void before_main(void) { early = time(0); }
#define SAY(name, value) printf("%s %.9f\n", name, (double)(value))
int main(void) {
    struct timespec s; struct timeval v; struct timeb b; time_t t; struct timezone z;
    errno = 77;
    SAY("constructor", early);
    clock_gettime(CLOCK_REALTIME, &s); SAY("realtime", s.tv_sec + s.tv_nsec / 1e9);
    clock_gettime(CLOCK_REALTIME_COARSE, &s); SAY("coarse", s.tv_sec + s.tv_nsec / 1e9);
    clock_gettime(CLOCK_TAI, &s); SAY("tai", s.tv_sec - 37 + s.tv_nsec / 1e9);
    gettimeofday(&v, &z); SAY("gettimeofday", v.tv_sec + v.tv_usec / 1e6);
    __gettimeofday(&v, 0); SAY("__gettimeofday", v.tv_sec + v.tv_usec / 1e6);
    SAY("time", time(&t)); SAY("time by pointer", t); SAY("time of null", time(0));
    ftime(&b); SAY("ftime", b.time + b.millitm / 1e3);
    SAY("timespec_get", timespec_get(&s, TIME_UTC) == TIME_UTC ? s.tv_sec : 0);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &s); SAY("syscall clock_gettime", s.tv_sec);
    syscall(SYS_gettimeofday, &v, 0); SAY("syscall gettimeofday", v.tv_sec);
#ifdef SYS_time
    SAY("syscall time", syscall(SYS_time, 0));
#endif
    if (errno != 77) printf("errno %d\n", errno);
    if (syscall(SYS_getpid) != getpid()) printf("syscall\n");
    if (syscall(SYS_close, 12345) != -1 || errno != EBADF) printf("syscall's errno\n");
    if (clock_gettime(12345, &s) != -1 || errno != EINVAL) printf("unknown clock\n");
    clock_gettime(CLOCK_MONOTONIC, &s); if (s.tv_sec > 100000000) printf("monotonic\n");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &s); if (s.tv_sec > 100000000) printf("cpu\n");
    return 0;
}
"#;

#[test]
fn all_of_them_give_the_groups_time() {
    let stage = Stage::new(1);
    let Some(program) = stage.compiled(PROGRAM, &[]) else { return };
    let text = said(stage.command(program).env("TRUECHIMER_GROUP_TAI", "37"));
    let mut last = 0.0;
    for line in text.lines() {
        let (name, time) = line.rsplit_once(' ').unwrap_or((line, "0"));
        let time: f64 = time.parse().unwrap_or(0.0);
        assert!(is_group(time), "{line}\n{text}");
        // As whole seconds are cut off: never a second back.
        assert!(time > last - 1.0, "{name}: {time} after {last}");
        last = time;
    }
    assert!(text.lines().count() >= 13, "{text}");
    let agreement = lock(&stage.agreement);
    // Each call is a round of one thread, but the time by pointer.
    assert_eq!(agreement.rounds(), text.lines().count() - 1);
    assert_eq!(agreement.threads().len(), 1);
}

#[test]
fn another_call_in_a_round_is_noticed() {
    let stage = Stage::new(2);
    let Some(program) = stage.compiled(
        "#include <time.h>\n#include <sys/time.h>\nint main(int n, char **v) {\n\
         struct timeval t; if (n > 1) gettimeofday(&t, 0); else time(0); return 0; }",
        &[],
    ) else {
        return;
    };
    assert!(run(&mut stage.command_at(0, &program)).status.success());
    assert!(run(stage.command_at(1, &program).arg("other")).status.success());
    let agreement = lock(&stage.agreement);
    assert_eq!((agreement.rounds(), agreement.diverged.len()), (1, 1));
    // What the agents were told is what was called.
    assert_ne!(Call::Time as u8, Call::Gettimeofday as u8);
}

#[test]
fn a_static_program_is_not_reached() {
    let stage = Stage::new(1);
    let source = "#include <stdio.h>\n#include <time.h>\n\
                  int main(void) { printf(\"%ld\", (long)time(0)); return 0; }";
    // Where libc cannot be linked statically, there is nothing to show.
    let Some(program) = stage.compiled(source, &["-static"]) else { return };
    let time = said(&mut stage.command(program)).parse().expect("a number");
    assert!(!is_group(time));
    assert_eq!(lock(&stage.agreement).rounds(), 0);
}
