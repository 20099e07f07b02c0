//! Messages of program and agent over the control socket, and the words of a slot.

use truechimer_group::{
    Agreed, Bound, Call, GroupTime, LARGEST_PAYLOAD, LONGEST_NAME, Member, Mode, Order, Phase,
    Point, Post, Refusal, Rejection, Round, Thread, Unshifted,
};

use crate::link::{Answer, Outside, Role, Together, Welcome, WhyRefused};
use crate::memory::{MAGIC, VERSION, phase_number, phase_of};
use crate::packet::{Body, Malformed, malformed, packets};
use crate::place::valid_group;
use crate::slots::{ANSWER, REQUEST};

/// Kinds of messages from program to agent.
mod to_agent {
    pub const HELLO: u16 = 1;
    pub const MULTICAST: u16 = 2;
    pub const SEND_TO: u16 = 3;
    pub const COMMIT: u16 = 4;
    pub const CHECKPOINT: u16 = 5;
    pub const INSTALLED: u16 = 6;
    pub const RESTARTED: u16 = 7;
    pub const STATUS: u16 = 8;
    pub const SHIFT: u16 = 9;
}

/// Kinds of messages from agent to program.
mod to_program {
    pub const WELCOME: u16 = 65;
    pub const UNWELCOME: u16 = 66;
    pub const DELIVER: u16 = 67;
    pub const REFUSED: u16 = 68;
    pub const COMMITTED: u16 = 69;
    pub const UNCOMMITTED: u16 = 70;
    pub const TAKE_CHECKPOINT: u16 = 71;
    pub const INSTALL_CHECKPOINT: u16 = 72;
    pub const PHASE: u16 = 73;
    pub const STATUS: u16 = 74;
    pub const MISSED: u16 = 75;
    pub const SHIFTED: u16 = 76;
}

/// The most threads whose positions go with a checkpoint.
pub const MOST_THREADS: usize = 1 << 16;
/// The longest status, bytes.
pub const LONGEST_STATUS: usize = 4 << 20;
/// The length of a hello, packet header included.
pub const HELLO: usize = 32;
/// The longest answer to it, packet header included.
pub const WELCOME: usize = 24;

/// The first message of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The version of memory and protocol that it knows.
    pub version: u16,
    /// Purpose for which it comes.
    pub role: Role,
    /// To which family of processes it belongs; 0: a new one.
    pub family: u64,
    /// With whom its program starts.
    pub together: Together,
}

/// Messages from a program to the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToAgent {
    /// A message for the group's order.
    Multicast {
        /// The program's number for it.
        token: u64,
        /// Contents.
        payload: Vec<u8>,
    },
    /// A message for another group's order.
    SendTo {
        /// The program's number for it.
        token: u64,
        /// Reading of the sender's group clock.
        stamp: i64,
        /// To which group.
        group: String,
        /// Contents.
        payload: Vec<u8>,
    },
    /// When has a majority the stream up to there?
    Commit {
        /// The program's number for it.
        token: u64,
        /// The place.
        point: Point,
    },
    /// The checkpoint that was asked for.
    Checkpoint {
        /// For which join.
        join: u64,
        /// Number of rounds that each thread has read.
        position: Vec<(Thread, Round)>,
        /// The state.
        data: Vec<u8>,
    },
    /// The checkpoint has been taken over.
    Installed {
        /// The gap that it came with.
        gap: u64,
    },
    /// The program starts without one.
    Restarted {
        /// The last gap that it knows of.
        gap: u64,
    },
    /// Request for the status.
    Status,
    /// An operator's word on where a member stands.
    Shift {
        /// Member concerned.
        member: Member,
        /// Where to.
        to: Post,
    },
}

/// Messages from an agent to programs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum News {
    /// A message.
    Deliver {
        /// Sender.
        from: Member,
        /// The sender's number for it.
        token: u64,
        /// Contents.
        payload: Vec<u8>,
        /// The group's time at its delivery.
        time: Agreed,
        /// The last value of its lease.
        lease_end: i64,
        /// The sending group's time, for a message from another group.
        stamp: Option<i64>,
    },
    /// A message was refused.
    Refused {
        /// The program's number for it.
        token: u64,
        /// Reason.
        why: Refusal,
    },
    /// A majority has what was asked about.
    Committed {
        /// The program's number for it.
        token: u64,
    },
    /// That place is lost.
    Uncommitted {
        /// The program's number for it.
        token: u64,
        /// True if nothing can be committed as the program has missed part of the stream.
        missed: bool,
    },
    /// A checkpoint is wanted.
    TakeCheckpoint {
        /// For which join.
        join: u64,
    },
    /// Start from this one.
    InstallCheckpoint {
        /// The gap that it closes: for [`ToAgent::Installed`].
        gap: u64,
        /// The state.
        data: Vec<u8>,
        /// Number of rounds that each thread had read.
        position: Vec<(Thread, Round)>,
    },
    /// Where the member stands. Better by [`crate::agent::Door::phase`].
    Phase(Phase),
    /// The status, JSON.
    Status(String),
    /// Outcome of an operator's word.
    Shifted(Result<(), Unshifted>),
    /// Gap: what comes next in the stream is missing here, and no more comes until the program says
    /// that it knows ([`ToAgent::Restarted`]).
    Missed {
        /// Which gap it is, counted from 1.
        gap: u64,
    },
}

/// Longest body of a message of a kind from a program, bytes; none: no such kind.
#[must_use]
pub fn limit_to_agent(kind: u16, checkpoint: usize) -> Option<usize> {
    Some(match kind {
        to_agent::MULTICAST => 8 + LARGEST_PAYLOAD,
        to_agent::SEND_TO => 17 + LONGEST_NAME + LARGEST_PAYLOAD,
        to_agent::COMMIT => 24,
        to_agent::CHECKPOINT => checkpoint.saturating_add(12 + 16 * MOST_THREADS),
        to_agent::INSTALLED | to_agent::RESTARTED => 8,
        to_agent::STATUS => 0,
        to_agent::SHIFT => 5,
        _ => return None,
    })
}

/// Longest body of a message of a kind from an agent, bytes; none: no such kind.
#[must_use]
pub fn limit_to_program(kind: u16, checkpoint: usize) -> Option<usize> {
    Some(match kind {
        to_program::DELIVER => 77 + LARGEST_PAYLOAD,
        to_program::REFUSED | to_program::UNCOMMITTED => 9,
        to_program::COMMITTED | to_program::TAKE_CHECKPOINT | to_program::MISSED => 8,
        to_program::INSTALL_CHECKPOINT => checkpoint.saturating_add(12 + 16 * MOST_THREADS),
        to_program::PHASE | to_program::SHIFTED => 1,
        to_program::STATUS => LONGEST_STATUS,
        _ => return None,
    })
}

impl Hello {
    /// Packet form. Allocates nothing.
    #[must_use]
    pub fn packet(&self) -> [u8; HELLO] {
        let mut packet = [0; HELLO];
        let parts: [&[u8]; 5] = [
            &crate::packet::header(to_agent::HELLO, 0, HELLO - crate::packet::HEADER),
            &MAGIC.to_le_bytes(),
            &self.version.to_le_bytes(),
            &[self.role as u8, self.together.byte(), 0, 0, 0, 0],
            &self.family.to_le_bytes(),
        ];
        fill(&mut packet, &parts);
        packet
    }

    /// Of a packet. Of another version only that is certain: role and family may mean nothing.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(packet: &[u8]) -> Result<Hello, Malformed> {
        let (kind, flags, body) = crate::packet::open(packet)?;
        let mut body = Body(body);
        if kind != to_agent::HELLO || flags != 0 || body.u64()? != MAGIC {
            return Err(malformed("not a greeting of a program of this project"));
        }
        let version = body.u16()?;
        if version != VERSION {
            let together = Together::Apart;
            return Ok(Hello { version, role: Role::Watcher, family: 0, together });
        }
        let role = match body.u8()? {
            0 => Role::Program,
            1 => Role::Reader,
            2 => Role::Watcher,
            3 => Role::Passing,
            _ => return Err(malformed("a greeting with no known role")),
        };
        let together = Together::of(body.u8()?);
        if body.bytes::<4>()? != [0; 4] {
            return Err(malformed("a greeting with spare bytes in use"));
        }
        let family = body.u64()?;
        body.end()?;
        Ok(Hello { version, role, family, together })
    }
}

fn fill(packet: &mut [u8], parts: &[&[u8]]) {
    let bytes = parts.iter().flat_map(|part| part.iter());
    packet.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
}

/// A welcome as a packet.
#[must_use]
pub fn welcome_packet(welcome: &Welcome) -> [u8; WELCOME] {
    let mut packet = [0; WELCOME];
    let parts: [&[u8]; 5] = [
        &crate::packet::header(to_program::WELCOME, 0, WELCOME - crate::packet::HEADER),
        &VERSION.to_le_bytes(),
        &[welcome.mode as u8, welcome.order as u8],
        &welcome.member.0.to_le_bytes(),
        &welcome.family.to_le_bytes(),
    ];
    fill(&mut packet, &parts);
    packet
}

/// A refusal as a packet, with the agent's version and the process that is there already (or 0).
#[must_use]
pub fn unwelcome_packet(why: WhyRefused, process: u32) -> [u8; WELCOME] {
    let mut packet = [0; WELCOME];
    let parts: [&[u8]; 5] = [
        &crate::packet::header(to_program::UNWELCOME, 0, WELCOME - crate::packet::HEADER),
        &VERSION.to_le_bytes(),
        &[why as u8, 0],
        &process.to_le_bytes(),
        &[0; 8],
    ];
    fill(&mut packet, &parts);
    packet
}

/// The answer to a greeting: a welcome, or why not, with the agent's version and the process that
/// is there already. Allocates nothing.
///
/// # Errors
/// If it is none.
#[allow(clippy::type_complexity)]
pub fn greeting(packet: &[u8]) -> Result<Result<Welcome, (WhyRefused, u16, u32)>, Malformed> {
    let (kind, flags, body) = crate::packet::open(packet)?;
    let mut body = Body(body);
    let version = body.u16()?;
    if flags != 0 || !matches!(kind, to_program::WELCOME | to_program::UNWELCOME) {
        return Err(malformed("not an answer to a greeting"));
    }
    if kind == to_program::UNWELCOME {
        let why = match body.u16()? {
            1 => WhyRefused::Version,
            2 => WhyRefused::Taken,
            3 => WhyRefused::TooMany,
            4 => WhyRefused::NotPermitted,
            _ => return Err(malformed("a refusal for no known reason")),
        };
        return Ok(Err((why, version, body.u32()?)));
    }
    if version != VERSION {
        return Err(malformed("a welcome of another version"));
    }
    let mode = match body.u8()? {
        0 => Mode::Active,
        1 => Mode::SemiActive,
        2 => Mode::Passive,
        _ => return Err(malformed("a welcome with no known mode")),
    };
    let order = match body.u8()? {
        0 => Order::Monotone,
        1 => Order::Published,
        _ => return Err(malformed("a welcome with no known order")),
    };
    let (member, family) = (Member(body.u32()?), body.u64()?);
    body.end()?;
    if member.0 == 0 {
        return Err(malformed("a welcome from no member"));
    }
    Ok(Ok(Welcome { member, family, mode, order }))
}

impl ToAgent {
    /// Packets of it.
    #[must_use]
    pub fn packets(&self) -> Vec<Vec<u8>> {
        let mut body = Vec::new();
        let kind = match self {
            ToAgent::Multicast { token, payload } => {
                body.extend_from_slice(&token.to_le_bytes());
                body.extend_from_slice(payload);
                to_agent::MULTICAST
            }
            ToAgent::SendTo { token, stamp, group, payload } => {
                body.extend_from_slice(&token.to_le_bytes());
                body.extend_from_slice(&stamp.to_le_bytes());
                body.push(group.len() as u8);
                body.extend_from_slice(group.as_bytes());
                body.extend_from_slice(payload);
                to_agent::SEND_TO
            }
            ToAgent::Commit { token, point } => {
                for word in [*token, point.generation, point.index] {
                    body.extend_from_slice(&word.to_le_bytes());
                }
                to_agent::COMMIT
            }
            ToAgent::Checkpoint { join, position, data } => {
                body.extend_from_slice(&join.to_le_bytes());
                put_position(&mut body, position);
                body.extend_from_slice(data);
                to_agent::CHECKPOINT
            }
            ToAgent::Installed { gap } => {
                body.extend_from_slice(&gap.to_le_bytes());
                to_agent::INSTALLED
            }
            ToAgent::Restarted { gap } => {
                body.extend_from_slice(&gap.to_le_bytes());
                to_agent::RESTARTED
            }
            ToAgent::Status => to_agent::STATUS,
            ToAgent::Shift { member, to } => {
                body.extend_from_slice(&member.0.to_le_bytes());
                body.push(*to as u8);
                to_agent::SHIFT
            }
        };
        packets(kind, &body)
    }

    /// Of kind and body.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(kind: u16, body: &[u8]) -> Result<ToAgent, Malformed> {
        let mut body = Body(body);
        let message = match kind {
            to_agent::MULTICAST => {
                ToAgent::Multicast { token: body.u64()?, payload: body.rest().to_vec() }
            }
            to_agent::SEND_TO => {
                let (token, stamp, length) = (body.u64()?, body.i64()?, body.u8()?);
                let group = std::str::from_utf8(body.take(length.into())?).unwrap_or_default();
                if !valid_group(group) {
                    return Err(malformed("a message to what is no group's name"));
                }
                let payload = body.rest().to_vec();
                ToAgent::SendTo { token, stamp, group: group.into(), payload }
            }
            to_agent::COMMIT => ToAgent::Commit { token: body.u64()?, point: point(&mut body)? },
            to_agent::CHECKPOINT => ToAgent::Checkpoint {
                join: body.u64()?,
                position: take_position(&mut body)?,
                data: body.rest().to_vec(),
            },
            to_agent::INSTALLED => ToAgent::Installed { gap: body.u64()? },
            to_agent::RESTARTED => ToAgent::Restarted { gap: body.u64()? },
            to_agent::STATUS => ToAgent::Status,
            to_agent::SHIFT => ToAgent::Shift {
                member: Member(body.u32()?),
                to: Post::of(body.u8()?)
                    .ok_or(malformed("a place in the order that does not exist"))?,
            },
            _ => return Err(malformed("a message of no known kind")),
        };
        let too_long = match &message {
            ToAgent::Multicast { payload, .. } | ToAgent::SendTo { payload, .. } => {
                payload.len() > LARGEST_PAYLOAD
            }
            _ => false,
        };
        body.end()?;
        if too_long { Err(malformed("a message that is too long")) } else { Ok(message) }
    }
}

impl News {
    /// Packets of it.
    #[must_use]
    pub fn packets(&self) -> Vec<Vec<u8>> {
        let mut body = Vec::new();
        let kind = match self {
            News::Deliver { from, token, payload, time, lease_end, stamp } => {
                body.extend_from_slice(&from.0.to_le_bytes());
                body.push(stamp.is_some().into());
                body.extend_from_slice(&token.to_le_bytes());
                for word in agreed_words(time) {
                    body.extend_from_slice(&word.to_le_bytes());
                }
                body.extend_from_slice(&lease_end.to_le_bytes());
                body.extend_from_slice(&stamp.unwrap_or(0).to_le_bytes());
                body.extend_from_slice(payload);
                to_program::DELIVER
            }
            News::Refused { token, why } => {
                body.extend_from_slice(&token.to_le_bytes());
                body.push(match why {
                    Refusal::StampTooFarAhead => 1,
                    Refusal::Outside => 2,
                    Refusal::TooMuch => 3,
                });
                to_program::REFUSED
            }
            News::Committed { token } => {
                body.extend_from_slice(&token.to_le_bytes());
                to_program::COMMITTED
            }
            News::Uncommitted { token, missed } => {
                body.extend_from_slice(&token.to_le_bytes());
                body.push((*missed).into());
                to_program::UNCOMMITTED
            }
            News::TakeCheckpoint { join } => {
                body.extend_from_slice(&join.to_le_bytes());
                to_program::TAKE_CHECKPOINT
            }
            News::InstallCheckpoint { gap, data, position } => {
                body.extend_from_slice(&gap.to_le_bytes());
                put_position(&mut body, position);
                body.extend_from_slice(data);
                to_program::INSTALL_CHECKPOINT
            }
            News::Phase(phase) => {
                body.push(phase_number(*phase));
                to_program::PHASE
            }
            News::Status(text) => {
                body.extend_from_slice(text.as_bytes());
                to_program::STATUS
            }
            News::Shifted(outcome) => {
                body.push(outcome.map_or_else(|why| why as u8, |()| 0));
                to_program::SHIFTED
            }
            News::Missed { gap } => {
                body.extend_from_slice(&gap.to_le_bytes());
                to_program::MISSED
            }
        };
        packets(kind, &body)
    }

    /// Of kind and body.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(kind: u16, body: &[u8]) -> Result<News, Malformed> {
        let mut body = Body(body);
        let news = match kind {
            to_program::DELIVER => {
                let (from, stamped, token) = (Member(body.u32()?), body.u8()?, body.u64()?);
                let mut words = [0; 6];
                for word in &mut words {
                    *word = body.u64()?;
                }
                let (time, lease_end, stamp) = (agreed(&words)?, body.i64()?, body.i64()?);
                if from.0 == 0 || stamped > 1 || (stamped == 0 && stamp != 0) {
                    return Err(malformed("a delivery with an impossible sender or stamp"));
                }
                if lease_end < time.time.0 {
                    return Err(malformed("a lease that ends before it begins"));
                }
                let stamp = (stamped == 1).then_some(stamp);
                let payload = body.rest().to_vec();
                News::Deliver { from, token, payload, time, lease_end, stamp }
            }
            to_program::REFUSED => News::Refused {
                token: body.u64()?,
                why: match body.u8()? {
                    1 => Refusal::StampTooFarAhead,
                    2 => Refusal::Outside,
                    3 => Refusal::TooMuch,
                    _ => return Err(malformed("a refusal for no known reason")),
                },
            },
            to_program::COMMITTED => News::Committed { token: body.u64()? },
            to_program::UNCOMMITTED => News::Uncommitted {
                token: body.u64()?,
                missed: match body.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(malformed("a lost place for no known reason")),
                },
            },
            to_program::MISSED => News::Missed { gap: body.u64()? },
            to_program::TAKE_CHECKPOINT => News::TakeCheckpoint { join: body.u64()? },
            to_program::INSTALL_CHECKPOINT => {
                let (gap, position) = (body.u64()?, take_position(&mut body)?);
                News::InstallCheckpoint { gap, data: body.rest().to_vec(), position }
            }
            to_program::PHASE => {
                News::Phase(phase_of(body.u8()?.into()).ok_or(malformed("no known phase"))?)
            }
            to_program::STATUS => match std::str::from_utf8(body.rest()) {
                Ok(text) => News::Status(text.into()),
                Err(_) => return Err(malformed("a status that is no text")),
            },
            to_program::SHIFTED => News::Shifted(match body.u8()? {
                0 => Ok(()),
                why => Err(Unshifted::of(why).ok_or(malformed("a refusal for no known reason"))?),
            }),
            _ => return Err(malformed("a message of no known kind")),
        };
        body.end()?;
        Ok(news)
    }
}

fn point(body: &mut Body<'_>) -> Result<Point, Malformed> {
    Ok(Point { generation: body.u64()?, index: body.u64()? })
}

fn put_position(body: &mut Vec<u8>, position: &[(Thread, Round)]) {
    body.extend_from_slice(&(position.len() as u32).to_le_bytes());
    for (thread, round) in position {
        body.extend_from_slice(&thread.0.to_le_bytes());
        body.extend_from_slice(&round.0.to_le_bytes());
    }
}

fn take_position(body: &mut Body<'_>) -> Result<Vec<(Thread, Round)>, Malformed> {
    let count = body.u32()? as usize;
    if count > MOST_THREADS {
        return Err(malformed("a checkpoint with too many threads"));
    }
    let mut entries = Body(body.take(count * 16)?);
    (0..count).map(|_| Ok((Thread(entries.u64()?), Round(entries.u64()?)))).collect()
}

/// A value as six words.
#[must_use]
pub fn agreed_words(agreed: &Agreed) -> [u64; 6] {
    let bound = agreed.utc.unwrap_or(Bound { earliest: 0, latest: 0 });
    [
        agreed.time.0 as u64,
        bound.earliest as u64,
        bound.latest as u64,
        agreed.point.generation,
        agreed.point.index,
        u64::from(agreed.synchronizer.0) | u64::from(agreed.utc.is_some()) << 32,
    ]
}

/// The value of six words.
///
/// # Errors
/// If they are none.
pub fn agreed(words: &[u64; 6]) -> Result<Agreed, Malformed> {
    let [time, earliest, latest, generation, index, who] = *words;
    let bound = Bound { earliest: earliest as i64, latest: latest as i64 };
    let utc = match who >> 32 {
        0 if (earliest, latest) == (0, 0) => None,
        1 if bound.earliest <= bound.latest => Some(bound),
        _ => return Err(malformed("a value with an impossible bound")),
    };
    let synchronizer = Member(who as u32);
    if synchronizer.0 == 0 {
        return Err(malformed("a value of no member"));
    }
    let point = Point { generation, index };
    Ok(Agreed { time: GroupTime(time as i64), utc, synchronizer, point })
}

/// A request as the words of a slot.
#[must_use]
pub fn request_words(thread: Thread, call: Call, outside: Outside) -> [u64; REQUEST] {
    let flags = match outside {
        Outside::Wait => 0,
        Outside::Fail => 1 << 8,
        Outside::Resume => 2 << 8,
    };
    [thread.0, call as u64 | flags, 0, 0, 0, 0, 0]
}

/// The request of a slot's words.
///
/// # Errors
/// If they are none.
pub fn request(words: &[u64; REQUEST]) -> Result<(Thread, Call, Outside), Malformed> {
    let [thread, what, spare @ ..] = *words;
    if thread < Thread::FIRST.0 {
        return Err(malformed("a read by a thread that is the group's own"));
    }
    let call = Call::from_number(what.to_le_bytes()[0])
        .ok_or_else(|| malformed("a read by no known call"))?;
    let outside = match what >> 8 {
        0 => Outside::Wait,
        1 => Outside::Fail,
        2 => Outside::Resume,
        _ => return Err(malformed("a read with an unknown flag")),
    };
    if spare != [0; REQUEST - 2] {
        return Err(malformed("a read with spare words in use"));
    }
    Ok((Thread(thread), call, outside))
}

/// An answer as the words of a slot.
#[must_use]
pub fn answer_words(result: &Result<Answer, Rejection>) -> [u64; ANSWER] {
    match result {
        Ok(Answer { value, round }) => {
            let [a, b, c, d, e, f] = agreed_words(value);
            [0, round.0, a, b, c, d, e, f]
        }
        Err(why) => {
            let code = match why {
                Rejection::Outside => 1,
                Rejection::Behind => 2,
                Rejection::Busy => 3,
                Rejection::TooManyThreads => 4,
                Rejection::Observer => 5,
                Rejection::Missed => 6,
                Rejection::Full => 7,
            };
            [code, 0, 0, 0, 0, 0, 0, 0]
        }
    }
}

/// The answer of a slot's words.
///
/// # Errors
/// If they are none.
pub fn answer(words: &[u64; ANSWER]) -> Result<Result<Answer, Rejection>, Malformed> {
    let [code, round, a, b, c, d, e, f] = *words;
    Ok(match code {
        0 => Ok(Answer { value: agreed(&[a, b, c, d, e, f])?, round: Round(round) }),
        1 => Err(Rejection::Outside),
        2 => Err(Rejection::Behind),
        3 => Err(Rejection::Busy),
        4 => Err(Rejection::TooManyThreads),
        5 => Err(Rejection::Observer),
        6 => Err(Rejection::Missed),
        7 => Err(Rejection::Full),
        _ => return Err(malformed("an answer of no known kind")),
    })
}
