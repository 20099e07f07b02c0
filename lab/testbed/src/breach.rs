//! Breaches that a program in a clock simulator must not commit.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use truechimer_counter::{Choice, Counter};
use truechimer_stamp::{PairLog, Socket};
use truechimer_time::{CountSpan, Period};

const MOMENT: Duration = Duration::from_millis(1);

/// Breaks the named rule, and says nothing if nobody minds.
pub fn breach(rule: &str) -> Result<(), String> {
    match rule {
        "thread" => {
            let read = thread::spawn(SystemTime::now);
            read.join().map(drop).map_err(|_| "the thread panicked".to_owned())
        }
        "sleep" => {
            thread::sleep(MOMENT);
            Ok(())
        }
        "wait" => {
            let nothing = Mutex::new(());
            let held = nothing.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = Condvar::new().wait_timeout(held, MOMENT);
            Ok(())
        }
        "receive" => receive_unasked().map_err(|error| error.to_string()),
        "sockets" => sockets(),
        _ => Err(format!("no rule `{rule}`")),
    }
}

/// Receives without having been told by `poll` that there is something.
fn receive_unasked() -> Result<(), Box<dyn std::error::Error>> {
    let counter = Counter::open(Choice::Raw)?;
    let mut log = PairLog::new(Period::NANOSECOND, CountSpan(1));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Socket::open(&any)?.receive(counter, &mut log, &mut [0; 48])?;
    Ok(())
}

/// Prints the errors of opening sockets that a simulator has not.
fn sockets() -> Result<(), String> {
    let udp = UdpSocket::bind("127.0.0.1:0").map(drop);
    let unix = UnixListener::bind(Path::new("")).map(drop);
    let six = Socket::open(&SocketAddr::from(([0; 16], 0))).map(drop);
    for opened in [udp, unix, six] {
        let error = opened.err().ok_or("a socket was opened")?;
        println!("{:?}", error.kind());
    }
    Ok(())
}
