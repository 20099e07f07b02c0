//! The exchanges of a scenario's only server, without a daemon around them.
//!
//! Host, path and server are those of [`crate::world`], with the same random streams. What a
//! daemon would add is left out: the requests go by the same schedule, but not by its own random
//! numbers, and nobody wakes up for anything else. So what shows is the estimator's doing alone, in
//! two thirds of the time.

use truechimer_engine::Beginning;
use truechimer_feedforward::number::span;
use truechimer_feedforward::{Exchange, RatePrior, Settings};
use truechimer_ntp::{Association, HEADER_LEN};
use truechimer_time::{Count, CountSpan, Instant, Rate, Span};

use crate::direct::first_interval;
use crate::host::{Host, as_heard};
use crate::random::Random;
use crate::scenario::{Scenario, ScenarioError};
use crate::server::Server;
use crate::stamps::{Declared, Reference, Stamped};
use crate::world::NOMINAL_ERROR;

/// A request leaves early by up to this share of the interval, as the engine's do.
const EARLY: f64 = 1.0 / 64.0;

/// The exchanges, in the order of arrival, and the counter between them.
#[derive(Debug)]
pub struct Exchanges {
    host: Host,
    server: Server,
    schedule: Random,
    request: [u8; HEADER_LEN],
    scenario: Scenario,
    /// Number of the next request, and when it leaves, s.
    number: u64,
    due: f64,
}

/// One exchange.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// When the reply arrived, true time, s.
    pub at: f64,
    /// Exchange as an estimator is told it.
    pub exchange: Exchange,
    /// True times of departure and arrival, s.
    stamped: (f64, f64),
}

impl Exchanges {
    /// Those of this scenario under this seed.
    ///
    /// # Errors
    /// If the scenario makes no sense, or has more than one server, pulses, or a host that sleeps.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Exchanges, ScenarioError> {
        scenario.check()?;
        let [spec] = scenario.servers.as_slice() else {
            return Err(ScenarioError::new("server: must be one for exchanges without a daemon"));
        };
        if !scenario.pulses.is_empty() || !scenario.host.suspends.is_empty() {
            return Err(ScenarioError::new("pps, host.suspend: need a daemon"));
        }
        let server = Server::new(spec, seed, "server 0", scenario.leap_second());
        let address = std::net::SocketAddr::from(([192, 0, 2, 1], truechimer_engine::NTP_PORT));
        let mut schedule = Random::new(seed, "schedule");
        Ok(Exchanges {
            host: Host::new(&scenario.host, &scenario.oscillator, seed),
            server,
            request: Association::new(address).request(1),
            // The daemon's first request leaves with its start.
            due: 1e-3 * schedule.uniform(),
            schedule,
            scenario: scenario.clone(),
            number: 0,
        })
    }

    /// Beginning of a new estimator of this host.
    #[must_use]
    pub fn beginning(&self) -> Beginning {
        let nominal = self.host.nominal();
        let settings = Settings {
            nominal,
            resolution: CountSpan(1),
            max_wander: Rate::from_ppb(libm::rint(self.scenario.max_wander_ppm * 1000.0) as i64),
            accept_step_after: span(self.scenario.accept_step_after_s),
            asymmetry: None,
            pulse: false,
        };
        let rate = RatePrior { period: nominal, error: NOMINAL_ERROR };
        Beginning { settings, rate, time: None, poll: self.scenario.poll }
    }

    /// Reading of the counter at `t`, s. Within a minute of the newest exchange it costs little.
    pub fn count(&mut self, t: f64) -> Count {
        self.host.count(t)
    }

    /// True time at `t`, s, on the server's leap-free scale.
    #[must_use]
    pub fn truth(&self, t: f64) -> Instant {
        self.origin() + span(t)
    }

    fn origin(&self) -> Instant {
        Instant::new(self.scenario.origin(), 0)
    }

    /// The next exchange whose packets both arrive; none is left after the scenario's end.
    pub fn next_heard(&mut self) -> Option<Heard> {
        while self.due < self.scenario.hours * 3600.0 {
            let (number, t) = (self.number, self.due);
            self.number += 1;
            self.due += self.interval(number) * (1.0 - EARLY * self.schedule.uniform());
            if let Some(heard) = self.exchange(number, t) {
                return Some(heard);
            }
        }
        None
    }

    /// Time from request `number` to the next one, s.
    fn interval(&self, number: u64) -> f64 {
        let poll = f64::from(self.scenario.poll);
        first_interval(number).map_or(poll, |interval| f64::from(interval).min(poll))
    }

    fn exchange(&mut self, number: u64, t: f64) -> Option<Heard> {
        let departure = self.host.send(number, t);
        let received = self.server.forward.pass(departure.wire).arrival?;
        let (origin, leaps) = (self.origin(), self.scenario.leaps());
        let answered = self.server.answer(received, &self.request, origin, &leaps)?;
        if !answered.claims {
            return None;
        }
        let back = self.server.backward.pass(answered.left).arrival?;
        let arrival = self.host.receive(number, false, back);
        let exchange = Exchange {
            sent: departure.stamp,
            server_received: answered.received_stamp,
            server_sent: answered.sent_stamp,
            received: as_heard(&arrival, &departure),
            root_distance: answered.distance,
            precision: answered.precision,
        };
        let stamped = (departure.stamped, arrival.stamped);
        Some(Heard { at: arrival.passed, exchange, stamped })
    }

    /// An exchange as a row of a stamp file.
    #[must_use]
    pub fn stamped(&self, heard: &Heard) -> Stamped {
        // Stamp files have Unix seconds without leaps: UTC as of the start goes on.
        let unix = |at: Instant| at - Span::from_secs(self.scenario.leaps().tai_offset.into());
        let Exchange { sent, server_received, server_sent, received, .. } = heard.exchange;
        Stamped {
            sent: sent.count,
            server_received: unix(server_received),
            server_sent: unix(server_sent),
            received: received.count,
            reference: Some(Reference {
                sent: unix(self.truth(heard.stamped.0)),
                received: unix(self.truth(heard.stamped.1)),
            }),
        }
    }

    /// Declarations that hold of all rows of a stamp file.
    #[must_use]
    pub fn declared(&self, heard: &Heard) -> Declared {
        let error = |count| self.host.nominal().span(count);
        let Exchange { sent, received, root_distance, precision, .. } = heard.exchange;
        Declared {
            nominal_hz: Some(self.scenario.host.counter_hz),
            stamp_error: Some(error(sent.error).max(error(received.error))),
            root_distance: Some(root_distance),
            precision: Some(precision),
            ..Declared::default()
        }
    }
}
