//! The part of the test bed that must run as a process of its own: inside a network namespace, or
//! under a preloaded clock.
#![deny(unsafe_code)]

mod breach;
mod card_clock;
mod card_server;
mod errors;
mod inject;
mod line_server;
mod look;
mod member;
mod pick;
mod ptp_master;
mod ptp_transparent;
mod stamps;
mod timex;
mod waits;

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;

use truechimer_counter::{Choice, Counter, CounterError, realtime_pair};
use truechimer_stamp::interface::Asker;
use truechimer_testbed::exchange::exchange;
use truechimer_testbed::receiver;
use truechimer_testbed::relay::Relay;
use truechimer_testbed::scale::Line;
use truechimer_testbed::truth::raw_ns;
use truechimer_testbed::udp::receive;

use breach::breach;
use errors::errors;
use inject::inject;
use line_server::serve;
use look::look;
use member::{member, stranger};
use pick::pick;
use stamps::stamps;
use waits::{waits, waits_by};

const USAGE: &str = "\
usage: truechimer-testbed query SERVER:PORT [COUNT EVERY_MS]
           ask an NTP server once and print its stratum; or COUNT times, and print each
       truechimer-testbed exchange SERVER:PORT
           ask it once and print what it says of itself, and how far its time is from the host's,
           as JSON
       truechimer-testbed relay LISTEN:PORT SERVER:PORT SEED THERE BACK
           relay UDP; THERE and BACK as in delay=2ms,jitter=500us,loss=0.2,duplicate=0.01
       truechimer-testbed pass LISTEN:PORT SERVER:PORT
           pass TCP connections on as they are, and print a line for each
       truechimer-testbed clock [COUNTER]
           print CLOCK_MONOTONIC_RAW (ns) or another counter, the system clock (ns), and the same
           counter again
       truechimer-testbed stamps COUNTER EXCHANGES STATE
           exchange datagrams with itself and print each stamp: its count, its error in counts,
           its method, and the host's own stamp (ns) as the preloaded warp left it in STATE
       truechimer-testbed serve LISTEN:PORT LINE
           an NTP server whose time is a LINE over CLOCK_MONOTONIC_RAW, whatever the system clock
           does: UNIX_S[+PPB|-PPB][,leap=UNIX_S], its time when the raw clock is 0
       truechimer-testbed serve LISTEN:PORT clock:DEVICE:SHIFT_S:LEAD_NS
           likewise, by a PTP hardware clock that many seconds ahead of UTC; a reply leaves so long after
           its time was read
       truechimer-testbed errors DEVICE SHIFT_S SECONDS EVERY_MS PAGE...
           print, again and again, the ms since the start and, beside such a clock read by cross stamps,
           the error of the system clock (ns), and error and bound of each clock that counts by the
           kernel's raw clock (ns:ns)
       truechimer-testbed receiver LISTEN:PORT LINE
           a receiver for gpsd, by TCP: sentences of NMEA 0183 that say which second of such a LINE
           has begun 50 ms before
       truechimer-testbed watch PAGE REFERENCE SECONDS [EVERY_MS]
           read a clock between readings of the REFERENCE, `system`, `line:LINE`, or a line over the
           TSC, `tsc:COUNT=UNIX_NS,COUNT=UNIX_NS`, or, of a clock that counts by the TSC, hold it
           against such a line at the count of each reading, `count:COUNT=UNIX_NS,COUNT=UNIX_NS`;
           print its error, whether its bound held, and each change of status and epoch, as JSON
       truechimer-testbed waits PAGE REFERENCE SECONDS EVERY_MS [SHIFT_MS PROGRAM]
           wait by a clock for a time in UTC, and meanwhile, on each side, for a timer's ticks (0:
           none); print how long after its time by the REFERENCE each kind of wait ended, as JSON.
           Or let a PROGRAM wait that answers questions by its lines, as a client in another
           language, with ticks that much later
       truechimer-testbed timex [REFERENCE SECONDS EVERY_MS]
           print what node_exporter makes of adjtimex(2); or read it again and again, as ScyllaDB
           does, and print whether its bound held, and each change of whether it is trusted, as JSON
       truechimer-testbed inject INTERFACE
           send each line of standard input, a frame in hexadecimal, as it is; print the system
           clock before and after each (ns)
       truechimer-testbed stamping INTERFACE
           print which stamps its card is set to take, of what is sent and of what arrives, as the
           numbers of the kernel's hwtstamp_config
       truechimer-testbed member GROUP
           be in a group of Corosync's: print what comes; standard input has lines like `say TEXT`,
           `flood N SIZE`, `time N SIZE` (own messages back, one in flight)
       truechimer-testbed stranger GROUP
           send rubbish to a group of Corosync's, and stay in it until standard input ends
       truechimer-testbed ptp-master ADDRESS LIES
           be a PTP master at that address; LIES as in identity=1,ahead=5000000,correction=-100 (ns),
           nothing for the truth
       truechimer-testbed ptp-transparent ADDRESS ADDRESS MICROSECONDS [silent]
           be a transparent clock of PTP between the networks of these two addresses, which has each
           message for so long, and says so unless it is `silent`
       truechimer-testbed json PATH
           print a value of the JSON on standard input; PATH as in counters/name=hpet/steps/0
       truechimer-testbed breach thread|sleep|wait|receive|sockets
           do what a clock simulator does not allow";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["query", server] => query(server),
        ["query", server, count, every] => query_often(server, count, every),
        ["exchange", server] => ask(server),
        ["relay", listen, server, seed, there, back] => relay(listen, server, seed, there, back),
        ["pass", listen, server] => pass(listen, server).map_err(|error| error.to_string()),
        ["clock"] => clock("raw"),
        ["clock", counter] => clock(counter),
        ["stamps", counter, exchanges, state] => stamps(counter, exchanges, state),
        ["serve", listen, time] => match time.strip_prefix("clock:") {
            Some(clock) => card_server::serve(listen, clock),
            None => serve(listen, time),
        },
        ["receiver", listen, line] => receive_satellites(listen, line),
        ["errors", device, ahead, seconds, every, pages @ ..] => {
            errors([device, ahead], seconds, every, pages)
        }
        ["watch", page, reference, seconds] => look(page, reference, seconds, "50"),
        ["watch", page, reference, seconds, every] => look(page, reference, seconds, every),
        ["waits", page, reference, seconds, every] => waits(page, reference, seconds, every),
        ["waits", page, reference, seconds, every, shift, program] => {
            waits_by(program, shift, [page, reference, seconds, every])
        }
        ["timex"] => timex::print(),
        ["timex", reference, seconds, every] => timex::watch(reference, seconds, every),
        ["inject", interface] => inject(interface),
        ["stamping", interface] => stamping(interface),
        ["member", group] => member(group),
        ["stranger", group] => stranger(group),
        ["ptp-master", address, lies] => ptp_master::run(address, lies),
        ["ptp-transparent", one, other, held, "silent"] => {
            ptp_transparent::run([one, other], held, false)
        }
        ["ptp-transparent", one, other, held] => ptp_transparent::run([one, other], held, true),
        ["json", path] => pick(path),
        ["breach", rule] => breach(rule),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn query(server: &str) -> Result<(), String> {
    let server: SocketAddr = server.parse().map_err(|_| format!("`{server}` is no address"))?;
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let answer = || -> std::io::Result<u8> {
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        let mut request = [0; 48];
        // Version 4, client.
        request[0] = 0x23;
        socket.send(&request)?;
        let mut reply = [0; 48];
        receive(&socket, &mut reply)?;
        Ok(reply[1])
    };
    println!("{}", answer().map_err(|error| format!("{server}: {error}"))?);
    Ok(())
}

/// Asks `count` times, `every` so many milliseconds; one that is not answered is said and passed over.
fn query_often(server: &str, count: &str, every: &str) -> Result<(), String> {
    let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
    let (count, every): (u64, u64) = (number(count)?, number(every)?);
    for _ in 0..count {
        if let Err(error) = query(server) {
            eprintln!("{error}");
        }
        std::thread::sleep(Duration::from_millis(every));
    }
    Ok(())
}

fn ask(server: &str) -> Result<(), String> {
    let server = server.parse().map_err(|_| format!("`{server}` is no address"))?;
    println!("{}", exchange(server)?);
    Ok(())
}

fn relay(listen: &str, server: &str, seed: &str, there: &str, back: &str) -> Result<(), String> {
    let relay = Relay {
        socket: UdpSocket::bind(listen).map_err(|error| format!("{listen}: {error}"))?,
        server: server.parse().map_err(|_| format!("`{server}` is no address"))?,
        there: there.parse()?,
        back: back.parse()?,
        seed: seed.parse().map_err(|_| format!("`{seed}` is no number"))?,
    };
    println!("relaying");
    relay.run().map_err(|error| error.to_string())
}

fn receive_satellites(listen: &str, line: &str) -> Result<(), String> {
    let line: Line = line.parse()?;
    let listener = TcpListener::bind(listen).map_err(|error| format!("{listen}: {error}"))?;
    println!("receiving");
    loop {
        receiver::serve(&listener, || line.unix_ns(raw_ns()), || false);
    }
}

fn pass(listen: &str, server: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    println!("passing");
    for near in listener.incoming() {
        let near = near?;
        println!("a connection");
        // Where nobody listens the client is hung up on.
        let Ok(far) = TcpStream::connect(server) else { continue };
        for (mut from, mut to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }
    Ok(())
}

fn stamping(interface: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{interface}: {error}");
    let set = Asker::new().and_then(|asker| asker.setting(interface)).map_err(told)?;
    println!("{} {}", set.transmit, set.receive_filter);
    Ok(())
}

fn clock(counter: &str) -> Result<(), String> {
    let choice: Choice = counter.parse().map_err(|error: CounterError| error.to_string())?;
    let counter = Counter::open(choice).map_err(|error| error.to_string())?;
    let pair = realtime_pair(counter, 32);
    println!("{} {} {}", pair.before.0, pair.unix_ns, pair.after.0);
    Ok(())
}
