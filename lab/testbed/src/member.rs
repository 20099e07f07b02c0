//! A member of a group by Corosync, without a clock: it says what it receives and sends what it is
//! told to.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use truechimer_corosync::{CorosyncError, Cpg, Sent as Told, nodes};
use truechimer_group::Member;
use truechimer_group_agent::transport::{Corosync, Incoming, Sent, Transport, TransportError};
use truechimer_stamp::Ready;

/// Between two attempts to send.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs until the input ends; a line for each event. Lines of input: `say TEXT`; `flood N SIZE`:
/// messages as fast as they are taken; `time N SIZE`: how long one's own message takes to come
/// back, one in flight.
pub fn member(group: &str) -> Result<(), String> {
    let mut transport = Corosync::open(group).map_err(|error| error.to_string())?;
    println!("member {}", transport.member());
    for node in nodes().map_err(|error| error.to_string())? {
        println!("node {} {}", node.id, node.name.unwrap_or_default());
    }
    let mut incoming = Vec::new();
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let mut input = BufReader::new(File::from(input));
    loop {
        let mut told = !input.buffer().is_empty();
        if !told {
            let mut descriptors = transport.descriptors();
            descriptors.push(input.get_ref().as_fd());
            told = wait(&descriptors, Duration::MAX)?.pop() == Some(true);
        }
        let outcome = transport.receive(&mut incoming);
        for event in incoming.drain(..) {
            say(&event);
        }
        if let Err(error) = outcome {
            println!("gone {} {error}", if error.passing { "passing" } else { "for-good" });
            return Err(error.to_string());
        }
        if told {
            let mut line = String::new();
            if input.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Ok(());
            }
            let words: Vec<&str> = line.trim_end().splitn(3, ' ').collect();
            let number = |word: &str| word.parse().map_err(|_| format!("`{word}` is no number"));
            match words.as_slice() {
                ["say", text @ ..] => {
                    send(&mut transport, text.join(" ").as_bytes())?;
                }
                ["flood", count, size] => flood(&mut transport, number(count)?, number(size)?)?,
                ["time", count, size] => time(&mut transport, number(count)?, number(size)?)?,
                _ => return Err(format!("`{line}`?")),
            }
        }
        let _ = std::io::stdout().flush();
    }
}

/// Somebody who has no business in a group: is in it beside the node's own member, and sends bytes
/// that nobody can read, until its input ends.
pub fn stranger(group: &str) -> Result<(), String> {
    let failed = |error: CorosyncError| error.to_string();
    let mut cpg = Cpg::join(&format!("truechimer/{group}")).map_err(failed)?;
    for message in [&[][..], &[0xff; 3], &[0; 60], b"not of your kind", &[0xa5; 4096]] {
        while cpg.multicast(message).map_err(failed)? == Told::TryAgain {
            std::thread::sleep(PAUSE);
        }
    }
    println!("stranger at {}", cpg.local_node());
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).map(|_| ()).map_err(|error| error.to_string())
}

fn say(event: &Incoming) {
    match event {
        Incoming::Message { from, bytes } => {
            println!("message {from} {}", String::from_utf8_lossy(bytes));
        }
        Incoming::Configuration { members, lost } => {
            println!("configuration {} lost {}", list(members), list(lost));
        }
        Incoming::Quorum { quorate } => println!("quorum {quorate}"),
    }
}

fn list(members: &[Member]) -> String {
    let numbers: Vec<String> = members.iter().map(Member::to_string).collect();
    if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") }
}

/// Sends, however long it takes, and says so if it takes any; how often it was told to wait.
fn send(transport: &mut Corosync, message: &[u8]) -> Result<u32, String> {
    let failed = |error: TransportError| error.to_string();
    let mut later = 0;
    while transport.send(message).map_err(failed)? == Sent::Later {
        if later == 0 {
            println!("full");
        }
        later += 1;
        let mut incoming = Vec::new();
        transport.receive(&mut incoming).map_err(failed)?;
        incoming.iter().for_each(say);
        std::thread::sleep(PAUSE);
    }
    Ok(later)
}

/// Nothing is received unless the transport is full.
fn flood(transport: &mut Corosync, count: usize, size: usize) -> Result<(), String> {
    let mut later = 0;
    for number in 0..count {
        let mut message = format!("flood {number} ").into_bytes();
        message.resize(size.max(message.len()), b'.');
        later += send(transport, &message)?;
    }
    println!("flooded {count} later {later}");
    Ok(())
}

fn time(transport: &mut Corosync, count: usize, size: usize) -> Result<(), String> {
    let own = transport.member();
    let mut took = Vec::with_capacity(count);
    let mut incoming = Vec::new();
    for number in 0..count {
        let mut message = format!("time {number} ").into_bytes();
        message.resize(size.max(message.len()), b'.');
        let sent = Instant::now();
        send(transport, &message)?;
        let back = Incoming::Message { from: own, bytes: message };
        loop {
            wait(&transport.descriptors(), Duration::from_secs(60))?;
            transport.receive(&mut incoming).map_err(|error| error.to_string())?;
            let came = incoming.contains(&back);
            incoming.retain(|event| *event != back);
            if came {
                break;
            }
            if sent.elapsed() > Duration::from_secs(60) {
                return Err(format!("message {number} does not come back"));
            }
        }
        took.push(sent.elapsed());
        incoming.iter().for_each(say);
        incoming.clear();
    }
    took.sort();
    let at = |part: f64| {
        let place = (count as f64 * part) as usize;
        took.get(place.min(count.saturating_sub(1))).map_or(0, Duration::as_nanos) as f64 / 1e3
    };
    println!(
        "timed {count} p50 {:.1} p90 {:.1} p99 {:.1} p99.9 {:.1} us",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999)
    );
    Ok(())
}

/// Waits until one of these is readable, or for so long; which are. A signal ends it early.
fn wait(descriptors: &[BorrowedFd<'_>], limit: Duration) -> Result<Vec<bool>, String> {
    let mut ready = vec![Ready::default(); descriptors.len()];
    truechimer_stamp::any(descriptors.iter().copied(), &mut ready, limit)
        .map_err(|error| format!("poll: {error}"))?;
    Ok(ready.into_iter().map(|one| one.readable || one.errors).collect())
}
