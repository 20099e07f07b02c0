//! Three replicas of a program that knows nothing of it.

use truechimer_group_client::Thread;

use crate::agent::lock;
use crate::stage::{Stage, said};

/// Answers to requests, each by a thread of its own, that depend on when they were given.
const PROGRAM: &str = "
import threading, time, datetime, random
answers = {}
def serve(request):
    begun = time.time()
    token = random.Random(time.time_ns()).getrandbits(64)
    answers[request] = (begun, token, datetime.datetime.now().isoformat(), time.time() - begun)
for request in range(40):
    threads = [threading.Thread(target=serve, args=(request * 4 + i,)) for i in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(sorted(answers.items()))
";

#[test]
fn three_replicas_give_the_same_answers() {
    if std::process::Command::new("python3").arg("-c").arg("").status().is_err() {
        println!("not here: python3");
        return;
    }
    let stage = Stage::new(3);
    let answers = |with: bool| -> Vec<String> {
        std::thread::scope(|scope| {
            let stage = &stage;
            let replicas: Vec<_> = (0..3)
                .map(|member| {
                    scope.spawn(move || {
                        let mut command = stage.command_at(member, "python3");
                        command.args(["-c", PROGRAM]);
                        if !with {
                            command.env("TRUECHIMER_GROUP_OFF", "1");
                        }
                        said(&mut command)
                    })
                })
                .collect();
            replicas.into_iter().map(|replica| replica.join().expect("it ends")).collect()
        })
    };
    let with = answers(true);
    assert!(with[0].len() > 1000);
    assert_eq!(with[0], with[1]);
    assert_eq!(with[0], with[2]);
    assert!(lock(&stage.agreement).diverged.is_empty());
    let without = answers(false);
    assert!(without[0] != without[1] && without[0] != without[2] && without[1] != without[2]);
}

/// Processes and threads that come and go, and read the time at present when they please.
const READERS: &str = "
import os, threading, time
def read():
    for _ in range(20): time.time_ns()
for _ in range(5):
    child = os.fork()
    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads: thread.start()
    read()
    for thread in threads: thread.join()
    if child == 0: os._exit(0)
    os.waitpid(child, 0)
before = time.time_ns()
print(os.popen('date +%s%N').read().strip(), before, time.time_ns())
";

#[test]
fn the_time_at_present_needs_no_numbers() {
    if std::process::Command::new("python3").arg("-c").arg("").status().is_err() {
        println!("not here: python3");
        return;
    }
    let stage = Stage::new(1);
    let mut command = stage.command("python3");
    let text = said(command.args(["-c", READERS]).env("TRUECHIMER_GROUP_READS", "now"));
    let times: Vec<i64> = text.split(' ').map(|time| time.parse().expect("a number")).collect();
    assert!(times[1] < times[0] && times[0] < times[2], "{times:?}");
    let threads = lock(&stage.agreement).threads();
    assert!(threads.len() == 1 && threads[&Thread::now(0, 0)] > 800, "{threads:?}");
}
