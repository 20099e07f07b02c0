//! Packet stamps as a process with a warped system clock takes them.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use truechimer_counter::{Choice, Counter, nominal, resolution};
use truechimer_stamp::{PairLog, Received, Socket};
use truechimer_time::Stamp;

/// Where the warp's state remembers stamps: `lab/warp/src/state.rs`.
const REMEMBERED: u64 = 64;

/// Time within which the warp steps the clock once at most: steps every 100 ms come in the first half
/// of their intervals. A stamp keeps its word through one step.
const ONE_STEP: Duration = Duration::from_millis(50);

/// Exchanges datagrams with a server and prints the client's stamps, each with the host's own.
pub fn stamps(counter: &str, exchanges: &str, state: &str) -> Result<(), String> {
    let choice: Choice = counter.parse().map_err(|_| format!("`{counter}` is no counter"))?;
    let exchanges: u32 = exchanges.parse().map_err(|_| format!("`{exchanges}` is no number"))?;
    let counter = Counter::open(choice).map_err(|error| error.to_string())?;
    let period = nominal(counter).map_err(|error| error.to_string())?.period;
    let log = || PairLog::new(period, resolution(counter));
    let (mut asking, mut answering) = (log(), log());
    let failed = |error: std::io::Error| error.to_string();
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let mut server = Socket::bind(&any, counter, &mut answering).map_err(failed)?;
    let address = server.local_address().map_err(failed)?;
    let mut begun = Instant::now();
    for n in 0..exchanges {
        // Arrivals at the server are between its readings of this exchange and of the one before.
        let since = std::mem::replace(&mut begun, Instant::now());
        // Between immediate answers and a receiver that comes late, at no regular beat.
        let late = Duration::from_micros(u64::from(n % 8) * u64::from(n % 13) * 350);
        let before = remembered(state)?;
        // A fresh one for every request, as the daemon has it.
        let mut client = Socket::open(&address).map_err(failed)?;
        client.send(counter, &mut asking, &address, &[1; 48]).map_err(failed)?;
        sleep(late / 2);
        let request = receive(&mut server, counter, &mut answering)?;
        server.answer(&request.from, &[2; 48]).map_err(failed)?;
        sleep(late);
        let reply = receive(&mut client, counter, &mut asking)?;
        // Read in this order: departure and arrival of the request, arrival of the reply.
        let host = remembered(state)?;
        if host.count - before.count != 3 || n == 0 {
            // Not all by the kernel, as for the first packets of a machine.
            continue;
        }
        if since.elapsed() > ONE_STEP {
            println!("late");
            continue;
        }
        let Some(sent) = reply.sent else { return Err("no departure".into()) };
        print(sent, host.stamp(before.count)?);
        print(reply.received, host.stamp(before.count + 2)?);
    }
    Ok(())
}

fn receive(socket: &mut Socket, counter: Counter, log: &mut PairLog) -> Result<Received, String> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        let mut buffer = [0; 64];
        match socket.receive(counter, log, &mut buffer) {
            Ok(Some(received)) => return Ok(received),
            Ok(None) => sleep(Duration::from_micros(50)),
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("nothing came".into())
}

fn print(stamp: Stamp, host_ns: i64) {
    let Stamp { count, error, method } = stamp;
    let method = method.name();
    println!("{} {} {method} {host_ns}", count.0, error.0);
}

/// The stamps that the warp remembers.
struct Remembered {
    count: u64,
    words: Vec<i64>,
}

impl Remembered {
    /// The host's stamp number `n`.
    fn stamp(&self, n: u64) -> Result<i64, String> {
        let place = 2 * (n % REMEMBERED) as usize;
        self.words.get(place).copied().ok_or_else(|| "the state is short".to_owned())
    }
}

fn remembered(path: &str) -> Result<Remembered, String> {
    let mut bytes = vec![0; 8 * (1 + 2 * REMEMBERED as usize)];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, 0));
    read.map_err(|error| format!("{path}: {error}"))?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| i64::from_ne_bytes(*word));
    Ok(Remembered { count: words.next().unwrap_or(0) as u64, words: words.collect() })
}
