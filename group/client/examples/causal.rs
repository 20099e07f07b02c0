//! Messages between groups keep cause before effect: a message from the group `orders` carries that
//! group's time, and the group `stock` delivers it only when its own clock has come there, at all
//! its replicas at the same place and time.
//!
//!     truechimer group agent --config examples/group/causal.toml --system-clock 1s --state none
//!     cargo run -p truechimer-group-client --example causal

use std::error::Error;
use std::time::{Duration, Instant};

use truechimer_group_client::{Delivered, Event, Member, Replica, Where};

/// Each message takes up a millisecond of the group's time (`lease` in the configuration).
const BURST: usize = 500;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("causal: {why}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let attach = |group: &str, member| {
        let member = Some(Member(member));
        Replica::attach(&Where { member, ..Where::group(group) })
    };
    let orders = attach("orders", 1)?;
    let stock = [attach("stock", 1)?, attach("stock", 2)?, attach("stock", 3)?];

    // A burst: the clock of `orders` is ahead of real time after it.
    for number in 1..=BURST {
        orders.multicast(format!("order {number}").as_bytes())?;
    }
    let mut last = message(&orders)?;
    for _ in 1..BURST {
        last = message(&orders)?;
    }
    let sent = Instant::now();
    orders.send_to("stock", b"take one from the shelf")?;
    println!("orders: sent at group time {}", seconds(last.time.time.0));

    let mut times = Vec::new();
    for replica in &stock {
        let mut delivered = message(replica)?;
        let waited = sent.elapsed();
        // The effect has a time after that of its cause.
        let now = delivered.now()?;
        let stamp = delivered.stamp.ok_or("it comes from another group")?;
        println!(
            "stock, member {}: '{}', stamped {}, delivered at {}, {} ms after it was sent",
            replica.attached().member,
            String::from_utf8_lossy(&delivered.payload),
            seconds(stamp),
            seconds(now.time.0),
            waited.as_millis()
        );
        if now.time.0 < stamp || stamp < last.time.time.0 {
            return Err("the effect is before its cause".into());
        }
        times.push(now.time);
    }
    if times.windows(2).any(|pair| pair.first() != pair.last()) {
        return Err("the replicas do not agree".into());
    }
    println!("all three replicas: the same time, not before the cause's");
    Ok(())
}

/// The next message.
fn message(replica: &Replica) -> Result<Delivered, Box<dyn Error>> {
    let end = Instant::now() + PATIENCE;
    loop {
        match replica.next(Some(end.saturating_duration_since(Instant::now())))? {
            Some(Event::Delivered(message)) => return Ok(message),
            Some(Event::Refused { why, .. }) => return Err(format!("refused: {why:?}").into()),
            Some(_) => {}
            None => return Err("nothing came: is the agent live?".into()),
        }
    }
}

fn seconds(nanoseconds: i64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}
