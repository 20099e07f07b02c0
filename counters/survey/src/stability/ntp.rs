//! An NTP server as the reference: one plain exchange per sample.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};
use truechimer_counter::Counter;
use truechimer_ntp::{Association, Timestamp};
use truechimer_stamp::{PairLog, Received, Socket, readable};
use truechimer_time::{CountSpan, Period, Span, StampMethod};

use super::reference::{Exchanges, Sample};

/// Longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(1);
/// Datagrams that are looked at before the reply is given up: a flood must not hold us.
const MOST_HEARD: u32 = 64;

/// A server that is asked now and then.
pub(super) struct Ntp {
    association: Association,
    server: SocketAddr,
    counter: Counter,
    log: PairLog,
    /// Never used, only kept: while one socket asks for stamps, the kernel takes them from the
    /// first packet on.
    _keeper: Option<Socket>,
    sent: u64,
    answered: u64,
    kernel_stamped: u64,
}

impl Ntp {
    pub(super) fn open(
        host: &str,
        port: u16,
        counter: Counter,
        period: Period,
        step: CountSpan,
    ) -> Result<Ntp, String> {
        let mut addresses = (host, port)
            .to_socket_addrs()
            .map_err(|why| format!("{host} has no address: {why}"))?;
        let server = addresses.next().ok_or_else(|| format!("{host} has no address"))?;
        Ok(Ntp {
            association: Association::new(server),
            server,
            counter,
            log: PairLog::new(period, step),
            _keeper: Socket::open(&server).ok(),
            sent: 0,
            answered: 0,
            kernel_stamped: 0,
        })
    }

    /// One exchange: the server's clock half-way between its stamps at the count half-way between
    /// ours. `None` if no good reply came.
    pub(super) fn take(&mut self) -> Result<Option<Sample>, String> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(|why| why.to_string())?;
        let request = self.association.request(u64::from_ne_bytes(random));
        // From a fresh port each time, so that nobody can guess it.
        let mut socket = Socket::open(&self.server).map_err(|why| why.to_string())?;
        // What cannot be sent now may be sent later: an interface that is down for a while.
        if socket.send(self.counter, &mut self.log, &self.server, &request).is_err() {
            return Ok(None);
        }
        self.sent += 1;
        let begun = Instant::now();
        for _ in 0..MOST_HEARD {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            if left.is_zero() || !readable(&socket, left).map_err(|why| why.to_string())? {
                break;
            }
            let mut buffer = [0; 1024];
            match socket.receive(self.counter, &mut self.log, &mut buffer) {
                Ok(Some(got)) => {
                    if let Some(sample) =
                        self.accept(&got, buffer.get(..got.len).unwrap_or(&buffer))?
                    {
                        return Ok(Some(sample));
                    }
                }
                Ok(None) => {}
                // Nobody listens there now.
                Err(_) => break,
            }
        }
        self.association.give_up();
        Ok(None)
    }

    fn accept(&mut self, got: &Received, datagram: &[u8]) -> Result<Option<Sample>, String> {
        let reply = match self.association.accept(datagram, got.from) {
            Ok(reply) => reply,
            Err(refusal) => {
                return match refusal.demand() {
                    Some(_) => Err(format!("it asks to be left alone: {refusal}")),
                    None => Ok(None),
                };
            }
        };
        let Some(sent) = got.sent else { return Ok(None) };
        let round_trip = got.received.count - sent.count;
        if round_trip.0 < 0 {
            return Ok(None);
        }
        self.answered += 1;
        let kernel = |method| method == StampMethod::Kernel;
        self.kernel_stamped += u64::from(kernel(sent.method) && kernel(got.received.method));
        let residence = self.log.period().counts(reply.residence());
        Ok(Some(Sample {
            count: sent.count.midpoint(got.received.count),
            reference: since_1970(reply.receive) + reply.residence().half(),
            // The reply may have taken all of the way or nothing of it.
            half_width: CountSpan((round_trip - residence).0.max(0) / 2),
        }))
    }

    /// Tells what it did, `half_widths` being those of the samples that counted.
    pub(super) fn exchanges(&self, half_widths: &[CountSpan], period: Period) -> Exchanges {
        let trips = || half_widths.iter().map(|half| seconds(period.span(*half)) * 2.0);
        Exchanges {
            sent: self.sent,
            answered: self.answered,
            round_trip_min_s: trips().reduce(f64::min).unwrap_or(0.0),
            round_trip_median_s: crate::analysis::median(trips()).unwrap_or(0.0),
            kernel_stamped: self.kernel_stamped,
        }
    }
}

/// The time since 1970 that it stands for, in the era that is nearest to now.
fn since_1970(timestamp: Timestamp) -> Span {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (secs, frac) = timestamp.to_unix(i64::try_from(now).unwrap_or(0));
    Span((i128::from(secs) << 64) + i128::from(frac))
}

/// Converts to a floating-point number of seconds: good for short spans only.
pub(super) fn seconds(span: Span) -> f64 {
    span.0 as f64 / (1_u128 << 64) as f64
}
