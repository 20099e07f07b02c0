//! Ring: needs of a front from the group.

use std::os::fd::RawFd;
use std::time::Duration;

use truechimer_group_client::{Event, Member, NextError, Phase, Point, Replica, Silence};

/// Events from the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RingEvent {
    /// A message, in order.
    Delivered {
        /// Sender.
        from: Member,
        /// The sender's number for it.
        token: u64,
        /// The agreed time of its delivery, ns since 1970.
        time: i64,
        /// Place of the message in the stream.
        point: Point,
        /// Contents.
        payload: Vec<u8>,
    },
    /// A message of ours was refused.
    Refused(u64),
    /// Where the member stands has changed.
    Phase(Phase),
    /// Nothing for a front.
    Other,
}

/// The answer to whether a majority has the stream up to some place, once it has come; as an error, why it never will.
pub type Committing = Box<dyn Fn() -> Option<Result<(), String>> + Send>;

/// The group, as a front sees it.
pub trait Ring: Send {
    /// Member whose front this is.
    fn member(&self) -> Member;
    /// Where the member stands now; none if the agent is gone.
    fn phase(&self) -> Option<Phase>;
    /// Descriptor that becomes readable when something comes; none while what comes has to wait.
    fn descriptor(&self) -> Option<RawFd>;
    /// Takes what has come; does not wait.
    ///
    /// # Errors
    /// If nothing will come any more.
    fn next(&mut self) -> Result<Option<RingEvent>, String>;
    /// Sends a message; returns its token.
    ///
    /// # Errors
    /// If nothing can be sent any more.
    fn multicast(&mut self, payload: &[u8]) -> Result<u64, String>;
    /// Asks whether a majority has the stream up to there. The answer comes with [`Ring::next`].
    ///
    /// # Errors
    /// If nothing can be sent any more.
    fn commit(&mut self, point: Point) -> Result<Committing, String>;
    /// Looks whether there is still somebody to be had here, whatever becomes of the group. To be
    /// called at each turn.
    ///
    /// # Errors
    /// If there has been no sign of life for so long.
    fn look(&mut self, patience: Duration) -> Result<(), String>;
}

/// The group by its agent on this node.
pub struct AgentRing {
    replica: Replica,
    silence: Silence,
    /// True while the agent has yet to answer that the program starts anew: nothing is read until then.
    restarting: bool,
}

impl AgentRing {
    /// By this attachment.
    pub fn new(replica: Replica) -> AgentRing {
        AgentRing { silence: Silence::since(replica.beat()), restarting: false, replica }
    }
}

impl Ring for AgentRing {
    fn member(&self) -> Member {
        self.replica.attached().member
    }

    fn phase(&self) -> Option<Phase> {
        self.replica.phase()
    }

    fn descriptor(&self) -> Option<RawFd> {
        // [`Ring::next`] looks again at each turn.
        (!self.restarting).then(|| self.replica.descriptor())
    }

    fn next(&mut self) -> Result<Option<RingEvent>, String> {
        let event = self.replica.next(Some(Duration::ZERO));
        self.restarting = matches!(event, Err(NextError::Missed));
        let event = match event {
            // As after any interruption: what is missing here comes with another replica's state.
            Err(NextError::Missed) => {
                let told = self.replica.restarting().map_err(|why| why.to_string())?;
                return Ok(told.then_some(RingEvent::Phase(Phase::Joining)));
            }
            event => event.map_err(|why| why.to_string())?,
        };
        Ok(event.map(|event| match event {
            Event::Delivered(message) => RingEvent::Delivered {
                from: message.from,
                token: message.token,
                time: message.time.time.0,
                point: message.time.point,
                payload: message.payload,
            },
            Event::Refused { token, .. } => RingEvent::Refused(token),
            Event::Phase(phase) => RingEvent::Phase(phase),
            _ => RingEvent::Other,
        }))
    }

    fn multicast(&mut self, payload: &[u8]) -> Result<u64, String> {
        self.replica.multicast(payload).map_err(|why| why.to_string())
    }

    fn commit(&mut self, point: Point) -> Result<Committing, String> {
        let asked = self.replica.committing(point).map_err(|why| why.to_string())?;
        Ok(Box::new(move || Some(asked.answer()?.map_err(|why| why.to_string()))))
    }

    fn look(&mut self, patience: Duration) -> Result<(), String> {
        match self.silence.longer_than(patience, self.replica.beat()) {
            None => Ok(()),
            Some(silent) => Err(format!(
                "the group's agent on this node stands still: no sign of life for {:.1} s",
                silent.as_secs_f64()
            )),
        }
    }
}
