//! A timestamp oracle as TiKV's placement driver has one, of this benchmark's own: one process that hands out
//! times from memory, within a window that it has reserved in etcd.
//!
//! A whole one elects another leader where this one has gone; this has no more than a request takes: the clock of
//! one host, a lock, and TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use truechimer_outcome::outcome::Failure;

use crate::bench::group::moment::realtime;
use crate::bench::group::sizes::etcd::{self, Etcd, patiently};

/// Port that it listens at.
const PORT: u16 = 2377;
/// Length of a window when it is reserved, and what is left of it when the next one is, ns.
const AHEAD_NS: i64 = 3_000_000_000;
const NEAR_NS: i64 = 1_500_000_000;
/// Time between two looks at that.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two tries of a request that no window has a time for.
const WITHOUT: Duration = Duration::from_millis(1);
/// Key of the window's end in etcd ("pd" in base64, as its JSON has keys).
const KEY: &str = "cGQ=";

/// Orders of the oracle.
#[derive(clap::Args, Clone, Debug)]
pub struct Orders {
    /// The node that it is at
    #[arg(long)]
    pub node: u32,
}

/// Times that were handed out, and those that may be.
#[derive(Debug)]
struct Times {
    last: Mutex<i64>,
    /// The end of the window, which a majority of etcd's members has in its log.
    end: AtomicI64,
}

impl Times {
    /// Time at which it is, by a clock that says this and may have been set back.
    fn now(&self, clock: i64) -> i64 {
        clock.max(*self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next one, by a clock that says this; none if it is beyond the window.
    fn next(&self, now: i64) -> Option<i64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let next = now.max(last.saturating_add(1));
        if next >= self.end.load(Ordering::Acquire) {
            return None;
        }
        *last = next;
        Some(next)
    }
}

/// The end of a window as a text that is base64, as etcd's JSON has values: 20 digits are that.
fn written(end: i64) -> String {
    format!("{end:020}")
}

/// Reserves the window that a time at this end of the last begins.
fn reserve(etcd: &mut Etcd, times: &Times, now: i64) -> Result<(), Failure> {
    let end = now.saturating_add(AHEAD_NS);
    patiently(|| etcd.put(KEY, &written(end)))?;
    times.end.store(end, Ordering::Release);
    Ok(())
}

/// Serves until the process is ended.
///
/// # Errors
/// Where etcd fails, or nobody may listen there.
pub fn run(orders: &Orders) -> Result<(), Failure> {
    let mut etcd = Etcd::connect(orders.node)?;
    // Beyond all that one before it can have handed out.
    let before = patiently(|| etcd.get(KEY, false))?.parse().unwrap_or(0);
    let times = Times { last: Mutex::new(before), end: AtomicI64::new(0) };
    reserve(&mut etcd, &times, realtime().max(before))?;
    let address = etcd::address(orders.node, PORT);
    let failed = |why| Failure::of(format_args!("the oracle at {address}"), why);
    let listener = TcpListener::bind(address).map_err(failed)?;
    std::thread::scope(|scope| {
        let times = &times;
        scope.spawn(move || {
            for stream in listener.incoming().flatten() {
                scope.spawn(move || serve(&stream, times));
            }
        });
        loop {
            std::thread::sleep(LOOK);
            let now = times.now(realtime());
            if times.end.load(Ordering::Acquire) - now < NEAR_NS {
                reserve(&mut etcd, times, now)?;
            }
        }
    })
}

/// Answers each request, a byte, with a time, as soon as a window has one.
fn serve(mut stream: &TcpStream, times: &Times) {
    let _ = stream.set_nodelay(true);
    let mut request = [0];
    while stream.read_exact(&mut request).is_ok() {
        let time = loop {
            match times.next(realtime()) {
                Some(time) => break time,
                None => std::thread::sleep(WITHOUT),
            }
        };
        if stream.write_all(&time.to_le_bytes()).is_err() {
            return;
        }
    }
}

/// A client of it.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    address: SocketAddr,
}

impl Client {
    /// Connects to the one at this node, as soon as it is there.
    ///
    /// # Errors
    /// Where it does not come.
    pub fn connect(node: u32) -> Result<Client, Failure> {
        let address = etcd::address(node, PORT);
        Ok(Client { stream: etcd::connect(address, "the oracle")?, address })
    }

    /// A time.
    ///
    /// # Errors
    /// Where it does not answer within a minute.
    pub fn time(&mut self) -> Result<i64, Failure> {
        let mut time = [0; 8];
        let asked = self.stream.write_all(&[1]).and_then(|()| self.stream.read_exact(&mut time));
        asked.map_err(|why| Failure::of(format_args!("the oracle at {}", self.address), why))?;
        Ok(i64::from_le_bytes(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_on_and_none_is_beyond_the_window() {
        let times = Times { last: Mutex::new(100), end: AtomicI64::new(0) };
        assert_eq!(times.next(200), None, "nothing is reserved");
        times.end.store(203, Ordering::Release);
        assert_eq!(times.next(50), Some(101), "the clock was set back");
        assert_eq!([times.now(50), times.now(150)], [101, 150]);
        let all = [200, 200, 10, 200].map(|now| times.next(now));
        assert_eq!(all, [Some(200), Some(201), Some(202), None]);
        times.end.store(300, Ordering::Release);
        assert_eq!(times.next(200), Some(203));
    }

    #[test]
    fn an_end_is_written_as_base64_of_whole_groups() {
        for end in [0, 1_700_000_000_000_000_000, i64::MAX] {
            let text = written(end);
            assert_eq!(text.len() % 4, 0, "{text}");
            assert_eq!(text.parse(), Ok(end));
        }
    }
}
