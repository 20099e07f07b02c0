//! Flows of few packets that differ in nothing but the port of one end: those of a client that
//! takes a new port for each request.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use crate::flow::{Flow, FlowKey, protocol_name};
use crate::totals::Totals;

/// A flow with fewer packets than this at each point may be put in a group.
pub const FEW: u64 = 3;

/// Largest number of groups kept of flows that had to make room.
const MOST: usize = 128;

/// Properties that flows of a group have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    /// The port that they share: the lower one, as services have it.
    port: u16,
    /// True if that is the source's.
    answers: bool,
}

impl GroupKey {
    /// The group that a flow is of, if it has few packets and no sequence numbers.
    #[must_use]
    pub fn of(flow: &Flow) -> Option<GroupKey> {
        let few = flow
            .seen
            .iter()
            .flatten()
            .all(|seen| seen.packets < FEW && seen.rtp.is_none() && seen.numbers.is_none());
        let FlowKey { protocol, source, destination, ssrc: None } = flow.key else { return None };
        let (from, to) = (source.port(), destination.port());
        few.then(|| GroupKey {
            protocol,
            source: source.ip(),
            destination: destination.ip(),
            // Echo has an identifier there, which differs from one request to the next.
            port: if matches!(protocol, 6 | 17) { from.min(to) } else { 0 },
            answers: from < to,
        })
    }

    /// The protocol's name, or its number.
    #[must_use]
    pub fn protocol_name(&self) -> String {
        protocol_name(self.protocol)
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |address: &IpAddr, service: bool| match (self.protocol, address) {
            (6 | 17, IpAddr::V6(six)) if service => format!("[{six}]:{}", self.port),
            (6 | 17, IpAddr::V6(six)) => format!("[{six}]:*"),
            (6 | 17, four) if service => format!("{four}:{}", self.port),
            (6 | 17, four) => format!("{four}:*"),
            (_, address) => address.to_string(),
        };
        let from = end(&self.source, self.answers);
        let to = end(&self.destination, !self.answers);
        write!(f, "{} {from} > {to}", self.protocol_name())
    }
}

/// Flows of a group, all together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Group {
    /// Number of flows.
    pub flows: u64,
    /// Their packets, at each point.
    pub packets: [u64; 2],
    /// Bytes of these.
    pub bytes: [u64; 2],
    /// TCP segments sent again.
    pub retransmitted: u64,
    /// Delays, losses, round trips.
    pub totals: Totals,
}

impl Group {
    /// Adds a flow.
    pub fn add(&mut self, flow: &Flow) {
        self.flows += 1;
        let counts = self.packets.iter_mut().zip(&mut self.bytes);
        for ((packets, bytes), seen) in counts.zip(&flow.seen) {
            let Some(seen) = seen else { continue };
            *packets += seen.packets;
            *bytes += seen.bytes;
            self.retransmitted += seen.retransmitted;
        }
        self.totals.add(flow);
    }
}

/// Groups of flows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Groups(pub(crate) BTreeMap<GroupKey, Group>);

impl Groups {
    /// Takes in a flow that has to make room for another.
    pub(crate) fn gone(&mut self, flow: &Flow) {
        let Some(key) = GroupKey::of(flow) else { return };
        if self.0.len() < MOST || self.0.contains_key(&key) {
            self.0.entry(key).or_default().add(flow);
        }
    }

    /// With the flows that are still there.
    pub(crate) fn with<'a>(mut self, flows: impl Iterator<Item = &'a Flow>) -> Groups {
        for flow in flows {
            if let Some(key) = GroupKey::of(flow) {
                self.0.entry(key).or_default().add(flow);
            }
        }
        self
    }

    /// That of a flow, if it is not alone there.
    #[must_use]
    pub fn of(&self, flow: &Flow) -> Option<(&GroupKey, &Group)> {
        let (key, group) = self.0.get_key_value(&GroupKey::of(flow)?)?;
        (group.flows > 1).then_some((key, group))
    }

    /// Those of more than one flow.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupKey, &Group)> {
        self.0.iter().filter(|(_, group)| group.flows > 1)
    }
}
