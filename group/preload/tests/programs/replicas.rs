//! Three replicas of a program that knows nothing of it.

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
