//! A replica's two ways to the group's clock, as `docs/use/group.md` shows them:
//!
//!     truechimer group agent --group ledger --local 1 --system-clock 50ms &
//!     cargo run -p truechimer-group-client --example replica

use std::io::Write;

use truechimer_group_client::{Call, Event, Replica, Thread, Where};

fn main() {
    if let Err(error) = replica() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn replica() -> Result<(), Box<dyn std::error::Error>> {
    let replica = Replica::attach(&Where::group("ledger"))?;

    // A round. The thread's number says which work this is: the same at each replica.
    let now = replica.thread(Thread::FIRST).now(Call::Group, None)?;
    println!("{} ns since 1970, by member {}", now.time.0, now.synchronizer);

    // Requests in the group's order, each with its time.
    replica.multicast(b"transfer 5 from a to b")?;
    loop {
        if let Some(Event::Delivered(mut request)) = replica.next(None)? {
            let when = request.now()?.time; // the time of delivery: no message, no wait
            let later = request.now()?.time; // 1 ns later, at each replica
            let answer = format!("done at {}, {} ns later\n", when.0, later.0 - when.0);
            let say = || std::io::stdout().write_all(answer.as_bytes());
            return Ok(replica.reply(&request, None, say)?); // when a majority has the request
        }
    }
}
