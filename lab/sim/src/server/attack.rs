//! Parts that somebody between host and server plays: replies made in the server's name, replies
//! sent again; and leap seconds that a server announces wrongly.

use serde::{Deserialize, Serialize};
use truechimer_ntp::{LeapIndicator, Timestamp};
use truechimer_time::{Instant, Leaps};

use super::{Answered, Server, ServerSpec, during};
use truechimer_feedforward::number::span;

/// Bytes of the three timestamps in a reply (RFC 5905 §7.3): of the request, its arrival, the reply.
const ORIGIN: core::ops::Range<usize> = 24..32;
const RECEIVE: core::ops::Range<usize> = 32..40;
const TRANSMIT: core::ops::Range<usize> = 40..48;

/// A stretch in which a server announces a leap second that is not to come, or none.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Warning {
    /// When it begins, s.
    pub from_s: f64,
    /// When it ends, s.
    pub to_s: f64,
    /// Step that it announces for the end of the month.
    pub leap: Warned,
}

/// Step that a leap indicator announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warned {
    /// A second is inserted.
    Insert,
    /// A second is left out.
    Delete,
    /// No step.
    Nothing,
}

impl Warned {
    pub(super) fn indicator(self) -> LeapIndicator {
        match self {
            Warned::Insert => LeapIndicator::Insert,
            Warned::Delete => LeapIndicator::Delete,
            Warned::Nothing => LeapIndicator::None,
        }
    }
}

/// A stretch in which somebody answers each request in the server's name, before the server does.
/// Who is on the path has seen the request; who is not has to guess its 64 random bits, and is
/// granted address and port. Proof is never forged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Forgery {
    /// When it begins, s.
    pub from_s: f64,
    /// When it ends, s.
    pub to_s: f64,
    /// Time of the forged reply − the truth, ms.
    pub by_ms: f64,
    /// Kiss code, if it is a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// True if its maker sees the requests.
    #[serde(default = "yes")]
    pub on_path: bool,
}

fn yes() -> bool {
    true
}

/// Sender of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    /// The server itself, to the request that was sent.
    Server,
    /// Somebody who saw the request.
    Forger,
    /// Somebody who did not.
    Guesser,
    /// Somebody who sends again what the server said to an earlier request.
    Replayer,
}

impl ServerSpec {
    /// Step that it wrongly announces at `t`, if it does.
    pub(super) fn warned(&self, t: f64) -> Option<Warned> {
        let found = self.warnings.iter().find(|w| during(t, w.from_s, w.to_s));
        found.map(|warning| warning.leap)
    }

    /// True if others give wrong times in its name, and can be believed.
    pub(super) fn is_forged(&self) -> bool {
        !self.proof
            && self.forgeries.iter().any(|f| f.on_path && f.code.is_none() && f.by_ms != 0.0)
    }
}

impl Server {
    /// Replies that others send before that of the server, `answered`, to the request that came at
    /// `t`: they are there as soon as it has been sent. `origin` and `leaps` are as in
    /// [`Server::answer`].
    pub(crate) fn interposed(
        &mut self,
        t: f64,
        answered: &Answered,
        origin: Instant,
        leaps: &Leaps,
    ) -> Vec<Answered> {
        let mut all = Vec::new();
        let keeps = !self.spec.replays.is_empty();
        if self.spec.replays.iter().any(|replay| during(t, replay.from_s, replay.to_s)) {
            let place = self.attacker.uniform() * self.kept.len() as f64;
            let old = self.kept.get((place as usize).min(self.kept.len().saturating_sub(1)));
            all.extend(old.map(|old| Answered { left: answered.left, ..old.clone() }));
        }
        if keeps {
            self.kept.push(Answered { by: Sender::Replayer, ..answered.clone() });
        }
        let forgeries = self.spec.forgeries.iter().filter(|f| during(t, f.from_s, f.to_s));
        for forgery in forgeries.cloned().collect::<Vec<_>>() {
            all.push(self.forged(&forgery, t, answered, origin, leaps));
        }
        all
    }

    fn forged(
        &mut self,
        forgery: &Forgery,
        t: f64,
        answered: &Answered,
        origin: Instant,
        leaps: &Leaps,
    ) -> Answered {
        let at = |t: f64| {
            let exact = origin + span(t) + span(1e-3 * forgery.by_ms);
            Instant(exact.0 >> 32 << 32)
        };
        let (received_stamp, sent_stamp) = (at(t), at(answered.left));
        let mut packet = answered.packet;
        let wire = |stamp| Timestamp::from_instant(stamp, leaps).0.to_be_bytes();
        packet[RECEIVE].copy_from_slice(&wire(received_stamp));
        packet[TRANSMIT].copy_from_slice(&wire(sent_stamp));
        if let Some(code) = forgery.code.as_deref().and_then(|c| c.as_bytes().first_chunk::<4>()) {
            packet[1] = 0;
            packet[12..16].copy_from_slice(code);
        }
        let by = if forgery.on_path { Sender::Forger } else { Sender::Guesser };
        if by == Sender::Guesser {
            packet[ORIGIN].copy_from_slice(&self.attacker.bits().to_be_bytes());
        }
        let claims = answered.claims && forgery.code.is_none();
        let believed = by == Sender::Forger && !self.spec.proof && claims;
        self.honest &= !believed || forgery.by_ms == 0.0;
        Answered { packet, received_stamp, sent_stamp, claims, by, ..answered.clone() }
    }
}
