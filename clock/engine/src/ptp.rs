//! A PTP port: its configuration, what happens at it and what it wants done, and its state.
//!
//! The port is slave only ([`Slave`]). What it has to say of the time goes through the [`Source`]
//! that it belongs to, which votes as a server does.
//!
//! [`Source`]: crate::source::Source

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use truechimer_ntp::LeapIndicator;
use truechimer_ptp::{
    ClockIdentity, DelayMechanism, Flags, Grant, MASTERS, Master, PortIdentity, Slave,
};
use truechimer_time::{Count, Period, Span, Stamp};

use crate::backoff::{Backoff, TO_OPEN};
use crate::event::SourceId;
use crate::report::SourceReport;

/// The UDP port of messages that are stamped (annex C).
pub(crate) const EVENT_PORT: u16 = 319;
/// Seconds between looks while there is no master.
const LOOK: Span = Span::from_secs(2);
/// Looks without a master after which the port is opened again: its interface may have gone and come back,
/// which the sockets of the old one do not tell.
const REOPEN: u32 = 15;
/// The largest `error` that makes sense: a master further off is of no use.
pub const PTP_ERROR_LIMIT: Span = Span::from_secs(1);

/// The most masters that a port asks by address.
pub const PTP_MASTERS_LIMIT: usize = MASTERS;

/// A PTP port on a network interface, slave only.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PtpConfig {
    /// The domain.
    pub domain: u8,
    /// The profile.
    #[serde(default, skip_serializing_if = "is_default")]
    pub profile: Profile,
    /// Timescale of the master's timestamps.
    #[serde(default)]
    pub timescale: Timescale,
    /// Carrier of the messages.
    #[serde(default)]
    pub transport: Transport,
    /// Mechanism by which the delay to the master is measured.
    #[serde(default)]
    pub delay: Delay,
    /// Addresses of masters that are asked for unicast messages, at most [`PTP_MASTERS_LIMIT`], over UDP
    /// and end to end; none: all is multicast.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masters: Vec<IpAddr>,
    /// The most that the master's time may be off by, whatever it says itself; `None`: it has to
    /// say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Span>,
}

/// Timescale of a master's timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timescale {
    /// PTP's own, which is TAI (7.2.1). Masters on an arbitrary timescale (ARB) are not used.
    #[default]
    Ptp,
    /// UTC in place of an arbitrary timescale, as masters have that serve their system clock.
    Utc,
}

/// Profile of the standard that a port is in, as its messages say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// None in particular, and those that give no other number.
    #[default]
    Default,
    /// IEEE 802.1AS (gPTP): over Ethernet, peer to peer.
    #[serde(rename = "802.1as")]
    Ieee8021as,
}

impl Profile {
    /// Word for it in configuration and names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Default => "default",
            Profile::Ieee8021as => "802.1as",
        }
    }

    /// The number in messages (sdoId, 7.1.4).
    fn sdo_id(self) -> u16 {
        match self {
            Profile::Default => 0,
            Profile::Ieee8021as => 0x100,
        }
    }
}

/// Carrier of a port's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// UDP over IPv4 (annex C).
    #[default]
    Udp4,
    /// UDP over IPv6 (annex D), questions in the global scope.
    Udp6,
    /// UDP over IPv6, questions in the scope of the link.
    Udp6Link,
    /// Ethernet (annex E).
    Ethernet,
}

impl Transport {
    /// Word for it in configuration and names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp4 => "udp4",
            Transport::Udp6 => "udp6",
            Transport::Udp6Link => "udp6-link",
            Transport::Ethernet => "ethernet",
        }
    }
}

/// Mechanism by which the delay to the master is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// End to end: the master is asked (11.3).
    #[default]
    E2e,
    /// Peer to peer: the neighbour on the link is asked, which has to be the master (11.4).
    P2p,
}

impl From<Delay> for DelayMechanism {
    fn from(delay: Delay) -> DelayMechanism {
        match delay {
            Delay::E2e => DelayMechanism::EndToEnd,
            Delay::P2p => DelayMechanism::PeerToPeer,
        }
    }
}

fn is_default(profile: &Profile) -> bool {
    *profile == Profile::Default
}

impl PtpConfig {
    /// Name of the source: interface, domain if that is not 0, transport if that is not UDP over IPv4,
    /// profile if it is in one, and `unicast` if it is that.
    #[must_use]
    pub fn name(&self, interface: &str) -> String {
        let mut name = format!("ptp:{interface}");
        if self.domain != 0 {
            name += &format!("/{}", self.domain);
        }
        if self.transport != Transport::Udp4 {
            name += &format!("/{}", self.transport.name());
        }
        if self.profile != Profile::Default {
            name += &format!("/{}", self.profile.name());
        }
        if self.is_unicast() {
            name += "/unicast";
        }
        name
    }

    /// Part that tells two ports on one interface apart, or makes another of one.
    pub(crate) fn identity(&self) -> (u8, Profile, Timescale, Transport, Delay, &[IpAddr]) {
        (self.domain, self.profile, self.timescale, self.transport, self.delay, &self.masters)
    }

    /// True if its masters are asked by address.
    #[must_use]
    pub fn is_unicast(&self) -> bool {
        !self.masters.is_empty()
    }
}

impl crate::SourceConfig {
    /// A PTP port on that interface, in domain 0.
    #[must_use]
    pub fn ptp(interface: impl Into<String>) -> crate::SourceConfig {
        crate::SourceConfig {
            port: EVENT_PORT,
            poll: 1,
            burst: false,
            ptp: Some(PtpConfig::default()),
            ..crate::SourceConfig::new(interface)
        }
    }
}

/// Something that happened at a PTP port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PtpEvent {
    /// A datagram came. Nothing in it has been checked.
    Message {
        /// At whose port.
        source: SourceId,
        /// From where: over Ethernet the link-local address that is made of the hardware's (RFC 4291).
        from: IpAddr,
        /// When it came, if it is an event message by its port or, over Ethernet, by its type.
        received: Option<Stamp>,
        /// The datagram.
        packet: Vec<u8>,
    },
    /// The newest [`PtpAction::Ask`] or [`PtpAction::Answer`] was done.
    Sent {
        /// At whose port.
        source: SourceId,
        /// When the message left.
        sent: Stamp,
        /// True if it was an [`Answer`](PtpAction::Answer).
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        answer: bool,
    },
    /// The port cannot be had: [`PtpAction::Listen`] failed, or it was lost since. It is asked for
    /// again.
    Failed {
        /// Source of the port.
        source: SourceId,
        /// Trouble, for people.
        error: String,
    },
}

/// Something to do at a PTP port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PtpAction {
    /// Listen on this interface, and report what comes ([`PtpEvent::Message`]).
    Listen {
        /// For which source.
        source: SourceId,
        /// The network interface.
        interface: String,
        /// Carrier of the messages.
        transport: Transport,
        /// Mechanism, which decides to which group is sent.
        delay: Delay,
        /// No group is listened to: masters send to our own address.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        unicast: bool,
    },
    /// Send this message to the event port, and report when it left ([`PtpEvent::Sent`]).
    Ask {
        /// For which source.
        source: SourceId,
        /// The receiver; none: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<IpAddr>,
        /// The message.
        packet: Vec<u8>,
    },
    /// Send this answer to a neighbour to the event port of all, and report when it left
    /// ([`PtpEvent::Sent`]).
    Answer {
        /// For which source.
        source: SourceId,
        /// The message.
        packet: Vec<u8>,
    },
    /// Send this message to the general port. If it gets lost it is sent again in time.
    Tell {
        /// For which source.
        source: SourceId,
        /// The receiver; none: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<IpAddr>,
        /// The message.
        packet: Vec<u8>,
    },
}

/// A PTP port, for `sources`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PtpReport {
    /// The domain.
    pub domain: u8,
    /// The master that is followed, if any.
    pub master: Option<MasterReport>,
    /// Other masters that announce themselves.
    pub others: Vec<MasterReport>,
    /// Masters that are asked by address, in the user's order.
    #[serde(default)]
    pub asked: Vec<AskedReport>,
}

/// A master that is asked by address, and the state of what it was asked for: `granted`, `asked`, `refused`
/// or `unwanted`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AskedReport {
    /// The address.
    pub address: IpAddr,
    /// State of its announcements.
    pub announce: String,
    /// State of its time.
    pub sync: String,
    /// State of its answers to questions.
    pub delay_resp: String,
}

impl AskedReport {
    fn of((address, grants): (IpAddr, [Grant; 3])) -> AskedReport {
        let [announce, sync, delay_resp] = grants.map(|grant| grant.name().to_string());
        AskedReport { address, announce, sync, delay_resp }
    }
}

/// A master, by its own words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MasterReport {
    /// Identity of its port.
    pub port: String,
    /// The address that it sends from.
    pub address: IpAddr,
    /// Identity of the grandmaster.
    pub grandmaster: String,
    /// The grandmaster's first priority; less is better.
    pub priority1: u8,
    /// The grandmaster's class.
    pub class: u8,
    /// The accuracy that the grandmaster states, if it states one.
    pub accuracy: Option<Span>,
    /// The grandmaster's second priority; less is better.
    pub priority2: u8,
    /// Boundary clocks between grandmaster and this port.
    pub steps_removed: u16,
    /// TAI − UTC in s that it announces as valid.
    pub utc_offset: Option<i16>,
    /// True if its timescale is PTP's, and no arbitrary one.
    pub ptp_timescale: bool,
    /// True if enough announcements came for it to be followed.
    pub qualified: bool,
}

impl MasterReport {
    fn of(master: &Master, qualified: bool) -> MasterReport {
        let announce = &master.announce;
        let valid = master.flags.has(Flags::UTC_OFFSET_VALID);
        MasterReport {
            port: master.port.to_string(),
            address: master.from,
            grandmaster: announce.grandmaster.to_string(),
            priority1: announce.priority1,
            class: announce.quality.class,
            accuracy: announce.quality.accuracy(),
            priority2: announce.priority2,
            steps_removed: announce.steps_removed,
            utc_offset: valid.then_some(announce.utc_offset),
            ptp_timescale: master.flags.has(Flags::PTP_TIMESCALE),
            qualified,
        }
    }
}

/// The span in whole seconds, rounded up.
pub(crate) fn seconds_up(span: Span) -> u32 {
    let second = Span::from_secs(1).0;
    u32::try_from(span.0.saturating_add(second - 1).div_euclid(second)).unwrap_or(u32::MAX)
}

/// Next thing that a port does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// Have it opened at that count.
    Open(Count),
    /// Listen, and look at that count whether there is a master.
    Look(Count),
}

/// State of a PTP port.
#[derive(Debug)]
pub(crate) struct Port {
    /// There is one from when it first listens on: its identity is random.
    pub(crate) slave: Option<Slave>,
    plan: Plan,
    /// Waits before it is opened again.
    retry: Backoff,
    /// When it was last heard of.
    last_at: Count,
    /// Looks in a row that found no master.
    lacking: u32,
    /// Questions since the last exchange.
    pub(crate) unused: u32,
    /// The port that the last exchange was with, and the address that it sends from.
    pub(crate) used: Option<(PortIdentity, IpAddr)>,
    /// Leap indicator of the master then.
    pub(crate) leap: Option<LeapIndicator>,
    /// The user has been told that its UTC offset is not ours.
    pub(crate) offset_told: bool,
}

/// Action that is due at a port.
pub(crate) enum PortDue {
    Open,
    /// There is no master still.
    NoMaster,
    /// Anything that the slave has due.
    Slave,
}

impl Port {
    /// A port to be opened at `at`.
    pub(crate) fn new(at: Count) -> Port {
        Port {
            slave: None,
            plan: Plan::Open(at),
            retry: Backoff::new(TO_OPEN),
            last_at: at,
            lacking: 0,
            unused: 0,
            used: None,
            leap: None,
            offset_told: false,
        }
    }

    /// The master that is followed.
    pub(crate) fn master(&self) -> Option<&Master> {
        self.slave.as_ref()?.master()
    }

    /// When it wants to act next.
    pub(crate) fn deadline(&self) -> Option<Count> {
        let own = match self.plan {
            Plan::Open(due) => return Some(due),
            Plan::Look(due) => due,
        };
        let slave = self.slave.as_ref().and_then(|slave| slave.deadline(self.last_at));
        [Some(own), slave].into_iter().flatten().min_by_key(|due| (*due - self.last_at).0)
    }

    /// Action that is due, if any. It is taken to be done.
    pub(crate) fn due(&mut self, at: Count, nominal: Period) -> Option<PortDue> {
        self.last_at = at;
        match self.plan {
            Plan::Open(due) if at.at_or_after(due) => {
                self.plan = Plan::Look(at + nominal.counts(LOOK));
                Some(PortDue::Open)
            }
            Plan::Open(_) => None,
            Plan::Look(due) if at.at_or_after(due) => {
                self.plan = Plan::Look(at + nominal.counts(LOOK));
                if self.slave.as_ref().is_some_and(Slave::is_served) {
                    self.lacking = 0;
                    return Some(PortDue::Slave);
                }
                self.lacking = self.lacking.wrapping_add(1);
                if self.lacking.is_multiple_of(REOPEN) {
                    self.plan = Plan::Open(at + nominal.counts(LOOK));
                }
                Some(PortDue::NoMaster)
            }
            Plan::Look(_) => Some(PortDue::Slave),
        }
    }

    /// The slave; a fresh one has a random identity, as none may be another's (7.5.2.2).
    pub(crate) fn slave(
        &mut self,
        config: &PtpConfig,
        (at, nominal): (Count, Period),
        random: &mut dyn FnMut() -> u64,
    ) -> &mut Slave {
        self.slave.get_or_insert_with(|| {
            let mut clock = random().to_be_bytes();
            if let Some(first) = clock.first_mut() {
                // Assigned by nobody, and no group's.
                *first = (*first | 0x02) & !0x01;
            }
            let own = PortIdentity { clock: ClockIdentity(clock), port: 1 };
            let slave = Slave::new(own, config.domain, nominal, random() as u16);
            let slave = slave.in_profile(config.profile.sdo_id());
            slave.by(config.delay.into()).with_masters(&config.masters, at)
        })
    }

    /// Something came: it can be read.
    pub(crate) fn is_open(&mut self, at: Count) {
        self.last_at = at;
        self.retry.reset();
    }

    /// Tries to open it once more, later.
    pub(crate) fn failed(&mut self, at: Count, nominal: Period) {
        self.plan = Plan::Open(at + nominal.counts(Span::from_secs(self.retry.take().into())));
    }

    /// The newest question was not sent.
    pub(crate) fn undelivered(&mut self) {
        if let Some(slave) = &mut self.slave {
            slave.unsent();
        }
    }

    /// The counter broke.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        self.last_at = at;
        let (Plan::Open(due) | Plan::Look(due)) = &mut self.plan;
        *due = at;
        if let Some(slave) = &mut self.slave {
            slave.new_epoch(at);
        }
    }

    /// Leap indicator of the master at the last exchange.
    pub(crate) fn leap(&self) -> Option<LeapIndicator> {
        self.leap
    }

    /// Stratum that an NTP server with this master's time would have: a grandmaster has 1.
    pub(crate) fn stratum(&self) -> Option<u8> {
        let steps = self.master()?.announce.steps_removed;
        Some(u8::try_from(steps.saturating_add(1)).unwrap_or(15).min(15))
    }

    /// Address of the master that the last exchange was with.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.used.map(|(_, address)| SocketAddr::new(address, EVENT_PORT))
    }

    /// Row in `sources` with what is particular to PTP.
    pub(crate) fn report(&self, config: Option<&PtpConfig>, shown: SourceReport) -> SourceReport {
        let domain = config.map_or(0, |config| config.domain);
        let mut refused = shown.refused;
        let (mut master, mut others, mut poll) = (None, Vec::new(), shown.poll);
        let mut asked = Vec::new();
        if let Some(slave) = &self.slave {
            refused.extend(slave.refused().iter().map(|(name, n)| (name.to_string(), n)));
            poll = seconds_up(slave.interval());
            asked.extend(slave.grants().map(AskedReport::of));
            let followed = slave.master().map(|master| master.port);
            for (heard, qualified) in slave.masters() {
                let row = MasterReport::of(heard, qualified);
                if followed == Some(heard.port) {
                    master = Some(row);
                } else {
                    others.push(row);
                }
            }
        }
        SourceReport {
            address: self.address(),
            poll,
            stratum: self.stratum(),
            reference: self.master().map(|master| master.announce.grandmaster.to_string()),
            leap: self.leap.map(|leap| leap as u8),
            refused,
            ptp: Some(PtpReport { domain, master, others, asked }),
            ..shown
        }
    }
}
