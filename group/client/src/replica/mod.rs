//! Replica for a program that takes part in a group.

mod clock;
mod error;
mod inbox;
mod rounds;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use truechimer_group::{
    Call, GroupTime, LARGEST_PAYLOAD, Member, Mode, Order, Phase, Point, Refusal, Round, Thread,
};

use crate::lead::Lead;
use crate::lineage::{FIRST, MESSAGES};
use crate::link::{
    Address, Answer, As, How, Link, Outside, ReadError, Refused, Role, SPIN, Together,
};
use crate::memory::{Began, Closed};
use crate::message::{MOST_THREADS, News, ToAgent};
use crate::place::valid_group;
use crate::silence::Silence;
use crate::sys;
use crate::{LARGEST_CHECKPOINT, Where};
pub use clock::{Delivered, ThreadClock};
pub use error::{AttachError, CommitError, NextError, ReplyError, SendError};
use inbox::{Commit, Ended, Inbox, State};
use rounds::Rounds;

/// Interval between looks for an agent.
const RETRY: Duration = Duration::from_millis(50);
/// Longest wait at a time for an agent that takes nothing, ns.
const PAUSE_NS: u64 = 100_000_000;

/// Options of an attachment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Purpose of the attachment.
    pub role: Role,
    /// To which family of processes one belongs ([`Replica::family`] of the first; 0: a new one).
    pub family: u64,
    /// With whom this program starts, if nobody of its family is attached yet.
    pub together: Together,
    /// Fate of reads while the member is outside the primary component.
    pub outside: Outside,
    /// Fate of reads when the agent goes.
    pub gone: Gone,
    /// Longest wait of reads that do not say it themselves; none: for ever.
    pub patience: Option<Duration>,
    /// Number of looks for an answer before the thread sleeps; none: [`SPIN`].
    pub spin: Option<u32>,
    /// Longest wait of an attachment for an agent that is not there yet; none: not at all.
    pub wait_for_agent: Option<Duration>,
    /// Time that what is sent waits for an agent that shows no sign of life
    /// ([`SendError::Silent`]), three seconds at least; none: as long as it stands still. The silence is one for all that
    /// wait: who comes while it lasts on does not wait for another three. Where the agent has a part
    /// of a message by then, nothing more is sent by this attachment: attach anew.
    pub silence: Option<Duration>,
}

/// Fate of reads when the agent goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gone {
    /// They fail: the program has missed part of the group's stream from then on.
    #[default]
    Fail,
    /// They wait for the next agent at the same place, and go on with it. The program gets
    /// [`Event::NewAgent`]; what came between is missing.
    WaitForNext,
}

/// A program's part in a group.
///
/// It may be used by several threads. The children of a fork may go on reading the clocks that
/// they had (they are the same threads to the group: give each a number of its own), but leave the
/// messages to the parent.
#[derive(Clone)]
pub struct Replica {
    shared: Arc<Shared>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Replica({})", self.shared.path.display())
    }
}

/// Identity of the attached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    /// Which member this is.
    pub member: Member,
    /// The family of processes.
    pub family: u64,
    /// The group's mode.
    pub mode: Mode,
    /// The group's order.
    pub order: Order,
}

/// Events for a program.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A message.
    Delivered(Delivered),
    /// A message of ours was refused everywhere alike.
    Refused {
        /// Our number for it.
        token: u64,
        /// Reason.
        why: Refusal,
    },
    /// A checkpoint is wanted of the state at this place of the stream of events:
    /// [`Replica::checkpoint`].
    CheckpointWanted {
        /// For which join.
        join: u64,
    },
    /// Start from this state, which takes the place of whatever there was, then say
    /// [`Replica::installed`].
    Install {
        /// The state, as [`Replica::checkpoint`] got it at another replica.
        data: Vec<u8>,
        /// Number of rounds that each thread had read.
        position: Vec<(Thread, Round)>,
    },
    /// Where the member stands has changed. What was missed since [`Phase::Outside`], if anything
    /// was, shows as [`NextError::Missed`] or [`Event::Install`].
    Phase(Phase),
    /// The agent has gone and there is another: part of the stream is missing
    /// ([`Gone::WaitForNext`] only).
    NewAgent,
}

/// A question whether a majority has the group's stream up to a place.
pub struct Committing {
    shared: Arc<Shared>,
    link: Arc<Link>,
    token: u64,
}

impl fmt::Debug for Committing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Committing({})", self.token)
    }
}

impl Committing {
    /// The answer, if it has come with what [`Replica::next`] has read; as an error, that the place is lost: a reply that
    /// depends on it must not be sent.
    pub fn answer(&self) -> Option<Result<(), CommitError>> {
        let answer = self.shared.inbox.look(&self.link, |state| self.became(state));
        match answer {
            Ok(commit) => commit.map(became),
            Err(why) => Some(Err(CommitError::Gone(why))),
        }
    }

    fn became(&self, state: &State) -> Option<Commit> {
        state.commits.get(&self.token).copied().flatten()
    }
}

impl Drop for Committing {
    fn drop(&mut self) {
        self.shared.inbox.lock().commits.remove(&self.token);
    }
}

fn became(commit: Commit) -> Result<(), CommitError> {
    match commit {
        Commit::Done => Ok(()),
        Commit::Lost => Err(CommitError::Lost),
        Commit::Missed => Err(CommitError::Missed),
    }
}

/// Things that wait to become an [`Event`].
enum Notice {
    News(News),
    NewAgent,
}

/// State that a replica and its clocks have in common.
struct Shared {
    path: PathBuf,
    address: Address,
    options: Options,
    link: Mutex<Arc<Link>>,
    inbox: Inbox,
    /// Held while the packets of one message are sent; the attachment that nothing more can be sent by
    /// ([`SendError::Silent`]), with the silence.
    sending: Mutex<Option<(Arc<Link>, Duration)>>,
    /// Silence of the agent of that attachment, since somebody waited first.
    silence: Mutex<Option<(Arc<Link>, Silence)>>,
    token: AtomicU64,
    /// The latest value of the group's clock that this program has, ns.
    latest: AtomicI64,
    rounds: Mutex<Rounds>,
    /// The gap in the stream of events that [`Replica::next`] has come to; 0: none.
    missed: AtomicU64,
    /// The gap that the last checkpoint to install came with.
    install: AtomicU64,
    /// The last gap that [`Replica::restarting`] has answered; 0: none.
    restarting: AtomicU64,
}

impl Shared {
    fn link(&self) -> Arc<Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn saw(&self, time: GroupTime) {
        self.latest.fetch_max(time.0, Relaxed);
    }

    fn read(
        &self,
        thread: Thread,
        call: Call,
        patience: Option<Duration>,
    ) -> Result<Answer, ReadError> {
        let until = patience.or(self.options.patience).and_then(after);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let how = How {
                spin: self.options.spin.unwrap_or(SPIN),
                patience_ns: left.map(|left| left.as_nanos().min(u128::from(u64::MAX)) as u64),
                outside: self.options.outside,
                note: None,
            };
            let link = self.link();
            match link.read(thread, call, &how) {
                Err(ReadError::Gone) if self.options.gone == Gone::WaitForNext => {
                    self.renew(&link, until).ok_or(ReadError::Gone)?.ok_or(ReadError::Late)?;
                }
                read => return read,
            }
        }
    }

    /// Attaches to the next agent, in place of `old`. None: that will not work; none within: it
    /// has taken too long.
    fn renew(&self, old: &Arc<Link>, until: Option<Instant>) -> Option<Option<()>> {
        // Whoever was cut off for what it did would be cut off again.
        if matches!(old.closed(), Some(Closed::Foul | Closed::CutOff)) {
            return None;
        }
        loop {
            {
                let mut current = self.link.lock().unwrap_or_else(PoisonError::into_inner);
                if !Arc::ptr_eq(&current, old) {
                    return Some(Some(()));
                }
                let Options { role, together, .. } = self.options;
                let as_ = As { role, family: old.welcome().family, together };
                match Link::attach(&self.address, as_) {
                    Ok(link) => {
                        *current = Arc::new(link);
                        self.missed.store(0, Relaxed);
                        self.install.store(0, Relaxed);
                        self.restarting.store(0, Relaxed);
                        self.inbox.renew(&current);
                        return Some(Some(()));
                    }
                    Err(Refused::NoAgent | Refused::Silent) => {}
                    Err(_) => return None,
                }
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Some(None);
            }
            std::thread::sleep(RETRY);
        }
    }

    fn tell(&self, message: &ToAgent) -> Result<(), SendError> {
        let packets = message.packets();
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let link = self.link();
        if let Some((_, silent)) = sending.as_ref().filter(|(spoilt, _)| Arc::ptr_eq(spoilt, &link))
        {
            return Err(SendError::Silent(*silent));
        }
        for (at, packet) in packets.iter().enumerate() {
            loop {
                match sys::send(link.socket(), packet, &[]) {
                    Ok(()) => break,
                    Err(libc::EINTR) => {}
                    // The agent takes no more at present. What it sends is taken meanwhile, as
                    // it would cut off a program that does not read.
                    Err(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {
                        if let Err(silent) = self.look(&link) {
                            // Of which it has a part already.
                            if at > 0 {
                                *sending = Some((link, silent));
                            }
                            return Err(SendError::Silent(silent));
                        }
                        let full = self.inbox.full();
                        let for_ = libc::POLLOUT | if full { 0 } else { libc::POLLIN };
                        let has = sys::poll(link.socket(), for_, Some(PAUSE_NS)).unwrap_or(0);
                        if has & (libc::POLLHUP | libc::POLLERR) != 0 {
                            return Err(SendError::Gone(link.closed()));
                        }
                        if has & libc::POLLIN != 0 && !self.inbox.pump(&link, Duration::ZERO) {
                            // Somebody else reads.
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                    Err(_) => return Err(SendError::Gone(link.closed())),
                }
            }
        }
        Ok(())
    }

    /// Looks for a sign of life of the agent; the silence as an error if that is too long. It is one for all that wait,
    /// one after the other too.
    fn look(&self, link: &Arc<Link>) -> Result<(), Duration> {
        let Some(most) = self.options.silence else { return Ok(()) };
        let mut known = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match &mut *known {
            Some((of, silence)) if Arc::ptr_eq(of, link) => silence,
            other => &mut other.insert((link.clone(), Silence::since(link.beat()))).1,
        };
        known.longer_than(most, link.beat()).map_or(Ok(()), Err)
    }

    fn clock(self: &Arc<Shared>, thread: Thread) -> ThreadClock {
        let mut all = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let rounds = all.of(thread);
        ThreadClock { shared: self.clone(), thread, rounds }
    }
}

impl Replica {
    /// Attaches to the group's agent on this node.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(at: &Where) -> Result<Replica, AttachError> {
        Replica::attach_with(at, &Options::default())
    }

    /// Attaches with choices.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach_with(at: &Where, options: &Options) -> Result<Replica, AttachError> {
        let until = options.wait_for_agent.map(after);
        loop {
            let error = match Replica::attach_once(at, options) {
                Ok(replica) => return Ok(replica),
                Err(error) => error,
            };
            let may_come = match &error {
                AttachError::Place(error) => {
                    matches!(error, crate::place::PlaceError::None { .. })
                }
                AttachError::Refused { why: Refused::NoAgent | Refused::Silent, .. } => true,
                _ => false,
            };
            let waits = until.is_some_and(|until| until.is_none_or(|end| end > Instant::now()));
            if !may_come || !waits {
                return Err(error);
            }
            std::thread::sleep(RETRY);
        }
    }

    fn attach_once(at: &Where, options: &Options) -> Result<Replica, AttachError> {
        let path = at.socket().map_err(AttachError::Place)?;
        let address = Address::of(&path).ok_or_else(|| AttachError::TooLong(path.clone()))?;
        if options.role == Role::Watcher {
            let why = Refused::Malformed;
            return Err(AttachError::Refused { path, why });
        }
        let &Options { role, family, together, .. } = options;
        let as_ = As { role, family, together };
        let link = Link::attach(&address, as_)
            .map_err(|why| AttachError::Refused { path: path.clone(), why })?;
        let link = Arc::new(link);
        let inbox = Inbox::new();
        inbox.renew(&link);
        let shared = Shared {
            path,
            address,
            options: options.clone(),
            link: Mutex::new(link),
            inbox,
            sending: Mutex::default(),
            silence: Mutex::default(),
            token: AtomicU64::new(1),
            latest: AtomicI64::new(i64::MIN),
            rounds: Mutex::default(),
            missed: AtomicU64::new(0),
            install: AtomicU64::new(0),
            restarting: AtomicU64::new(0),
        };
        Ok(Replica { shared: Arc::new(shared) })
    }

    /// Identity that we have.
    #[must_use]
    pub fn attached(&self) -> Attached {
        let welcome = self.shared.link().welcome();
        let crate::link::Welcome { member, family, mode, order } = welcome;
        Attached { member, family, mode, order }
    }

    /// Start of this program among those of the other members. One that began [late](Began::Late)
    /// lacks the state that the others have by what they have read before: its reads are theirs
    /// from then on, if it does what they do.
    #[must_use]
    pub fn began(&self) -> Began {
        self.shared.link().began()
    }

    /// The primary in the modes semi-active and passive, and why: what a read of a backup's
    /// waits for.
    #[must_use]
    pub fn lead(&self) -> Lead {
        self.shared.link().lead()
    }

    /// Reason why the agent has ended this attachment, if it has. One that was killed has not.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.shared.link().closed()
    }

    /// The family of processes, for children that attach by themselves.
    #[must_use]
    pub fn family(&self) -> u64 {
        self.attached().family
    }

    /// Where the member stands; none once the agent is gone.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        let link = self.shared.link();
        link.phase().filter(|_| link.stands())
    }

    /// The clock of a logical thread (see [`crate::lineage`]). All clocks of one number are one.
    ///
    /// Of threads that no clock is held of, the 65 536 that had one last are remembered, as the
    /// group does: only [`ThreadClock::rounds`] begins at 0 again for an older one, until its next
    /// reading.
    #[must_use]
    pub fn thread(&self, thread: Thread) -> ThreadClock {
        self.shared.clock(thread)
    }

    /// The clock of the program's first thread.
    #[must_use]
    pub fn first_thread(&self) -> ThreadClock {
        self.thread(FIRST)
    }

    /// The latest value of the group's clock that this program has: of its reads and of messages.
    #[must_use]
    pub fn latest(&self) -> Option<GroupTime> {
        let latest = self.shared.latest.load(Relaxed);
        (latest != i64::MIN).then_some(GroupTime(latest))
    }

    fn programs(&self) -> Result<(), SendError> {
        match self.shared.options.role {
            Role::Program => Ok(()),
            _ => Err(SendError::Role),
        }
    }

    fn token(&self) -> u64 {
        self.shared.token.fetch_add(1, Relaxed)
    }

    /// Sends a message into the group's order. Returns its token: 1, 2, …. It comes back as
    /// [`Event::Delivered`], here as at all replicas; where it does not because of a fail-over is
    /// for the program to notice and repeat.
    ///
    /// # Errors
    /// If the agent is gone or the message too long.
    pub fn multicast(&self, payload: &[u8]) -> Result<u64, SendError> {
        self.programs()?;
        short(payload)?;
        let token = self.token();
        self.shared.tell(&ToAgent::Multicast { token, payload: payload.to_vec() })?;
        Ok(token)
    }

    /// Sends a message into another group's order, stamped with [`Replica::latest`]: that group
    /// delivers it when its own clock has come there. This node's agent must be of that group as
    /// well.
    ///
    /// # Errors
    /// If the agent is gone, the message too long or the name none.
    pub fn send_to(&self, group: &str, payload: &[u8]) -> Result<u64, SendError> {
        self.programs()?;
        short(payload)?;
        if !valid_group(group) {
            return Err(SendError::Group(group.into()));
        }
        let (token, group, payload) = (self.token(), group.into(), payload.to_vec());
        let stamp = self.shared.latest.load(Relaxed);
        self.shared.tell(&ToAgent::SendTo { token, stamp, group, payload })?;
        Ok(token)
    }

    /// The next event; none if none comes within `patience` (none: it waits for ever).
    ///
    /// # Errors
    /// If the agent is gone, or part of the stream is missing from here
    /// ([`NextError::Missed`], until [`Replica::restarted`]).
    pub fn next(&self, patience: Option<Duration>) -> Result<Option<Event>, NextError> {
        let until = patience.and_then(after);
        loop {
            let link = self.shared.link();
            let missed = self.shared.missed.load(Relaxed);
            if missed != 0 && link.is_unsettled(missed) {
                return Err(NextError::Missed);
            }
            match self.shared.inbox.wait(&link, until, inbox::State::take) {
                Ok(Notice::News(News::Missed { gap })) => self.shared.missed.store(gap, Relaxed),
                Ok(notice) => return Ok(Some(self.event(notice))),
                Err(Ended::Late) => return Ok(None),
                // There is something to take, then.
                Err(Ended::Full) => {}
                Err(Ended::Gone(why)) => {
                    if self.shared.options.gone == Gone::Fail {
                        return Err(why);
                    }
                    match self.shared.renew(&link, until) {
                        None => return Err(why),
                        Some(None) => return Ok(None),
                        Some(Some(())) => {}
                    }
                }
            }
        }
    }

    fn event(&self, notice: Notice) -> Event {
        let news = match notice {
            Notice::News(news) => news,
            Notice::NewAgent => return Event::NewAgent,
        };
        match news {
            News::Deliver { from, token, payload, time, lease_end, stamp } => {
                self.shared.saw(time.time);
                let (next, point) = (Some(time.time.0), time.point);
                let clock = self.thread(MESSAGES);
                Event::Delivered(Delivered {
                    from,
                    token,
                    payload,
                    time,
                    lease_end,
                    stamp,
                    next,
                    point,
                    clock,
                })
            }
            News::Refused { token, why } => Event::Refused { token, why },
            News::TakeCheckpoint { join } => Event::CheckpointWanted { join },
            News::InstallCheckpoint { gap, data, position } => {
                self.shared.install.store(gap, Relaxed);
                for (thread, round) in &position {
                    self.thread(*thread).rounds.store(round.0, Relaxed);
                }
                Event::Install { data, position }
            }
            News::Phase(phase) => Event::Phase(phase),
            // The inbox keeps these for those who wait for them.
            News::Committed { .. }
            | News::Uncommitted { .. }
            | News::Status(_)
            | News::Shifted(_)
            | News::Missed { .. } => Event::NewAgent,
        }
    }

    /// The file descriptor that becomes readable when more has come. What has been read of it
    /// already waits in [`Replica::next`]: call that until it has nothing before waiting here.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.shared.link().socket()
    }

    /// Waits until a majority has the group's stream up to `point` (none: for ever).
    ///
    /// # Errors
    /// If that place is lost or patience at an end: a reply that depends on it must not be sent.
    pub fn commit(&self, point: Point, patience: Option<Duration>) -> Result<(), CommitError> {
        let until = patience.and_then(after);
        let asked = self.committing(point).map_err(CommitError::Send)?;
        let inbox = &self.shared.inbox;
        let waited = inbox.wait(&asked.link, until, |state| asked.became(state));
        became(waited.map_err(|ended| match ended {
            Ended::Late => CommitError::Late,
            Ended::Full => CommitError::Unread,
            Ended::Gone(why) => CommitError::Gone(why),
        })?)
    }

    /// Newest sign of life of the agent, for a [`Silence`].
    #[must_use]
    pub fn beat(&self) -> u64 {
        self.shared.link().beat()
    }

    /// Asks whether a majority has the group's stream up to `point`, and does not wait for the answer: [`Committing::answer`].
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn committing(&self, point: Point) -> Result<Committing, SendError> {
        let (token, link) = (self.token(), self.shared.link());
        self.shared.inbox.lock().commits.insert(token, None);
        let asked = Committing { shared: self.shared.clone(), link, token };
        self.shared.tell(&ToAgent::Commit { token, point })?;
        Ok(asked)
    }

    /// Waits until a majority has all that the reply to `to` depends on, then sends it by `send`:
    /// the way in which a reply may leave the group. (Replies that are sent into the group's order,
    /// by [`Replica::multicast`], need no such wait.)
    ///
    /// # Errors
    /// If it must not be sent, in which case `send` was not called, or `send` fails.
    pub fn reply<T>(
        &self,
        to: &Delivered,
        patience: Option<Duration>,
        send: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, ReplyError> {
        self.commit(to.point(), patience).map_err(ReplyError::Commit)?;
        send().map_err(ReplyError::Send)
    }

    /// Gives the state that [`Event::CheckpointWanted`] asked for, with how many rounds each of
    /// this replica's clocks has read. In the passive mode the primary's program may also give its
    /// state of its own accord, as `join` 0: the backups' programs that take checkpoints get it as
    /// [`Event::Install`], and their members no longer keep what had been read before it. That
    /// comes at a later place of their streams than the state was taken at here: of the messages
    /// that they have got already, those that the state does not have yet are still to be done. So
    /// the state says how many messages it has.
    ///
    /// # Errors
    /// If the agent is gone, or it is longer than [`LARGEST_CHECKPOINT`]: then nothing was sent,
    /// and another replica may still give its own.
    pub fn checkpoint(&self, join: u64, data: &[u8]) -> Result<(), SendError> {
        let position = {
            let mut all = self.shared.rounds.lock().unwrap_or_else(PoisonError::into_inner);
            all.position()
        };
        self.checkpoint_at(join, data, position)
    }

    /// Sends a checkpoint of a program that knows better where its threads are.
    ///
    /// # Errors
    /// As [`Replica::checkpoint`].
    pub fn checkpoint_at(
        &self,
        join: u64,
        data: &[u8],
        position: Vec<(Thread, Round)>,
    ) -> Result<(), SendError> {
        self.programs()?;
        for (length, limit) in [(data.len(), LARGEST_CHECKPOINT), (position.len(), MOST_THREADS)] {
            if length > limit {
                return Err(SendError::TooLong { length, limit });
            }
        }
        self.shared.tell(&ToAgent::Checkpoint { join, position, data: data.to_vec() })
    }

    /// The state of the last [`Event::Install`] has been taken over. From then on reads go on from
    /// there.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn installed(&self) -> Result<(), SendError> {
        let gap = self.shared.install.load(Relaxed);
        self.settle(&ToAgent::Installed { gap }, gap)
    }

    /// This program starts without a checkpoint: its threads go on where the group's are. What it
    /// has missed is missed. It waits until the agent knows.
    ///
    /// # Errors
    /// If the agent is gone, or silent for longer than [`Options::silence`].
    pub fn restarted(&self) -> Result<(), SendError> {
        let gap = self.shared.link().gap();
        self.settle(&ToAgent::Restarted { gap }, gap)
    }

    /// Says the same after [`NextError::Missed`], once for each gap, and does not wait: more comes from
    /// [`Replica::next`] once the agent knows. True if it was said now.
    ///
    /// # Errors
    /// If the agent is gone, or silent for longer than [`Options::silence`].
    pub fn restarting(&self) -> Result<bool, SendError> {
        self.programs()?;
        let gap = self.shared.link().gap();
        if self.shared.restarting.load(Relaxed) == gap {
            return Ok(false);
        }
        self.shared.tell(&ToAgent::Restarted { gap })?;
        self.shared.restarting.store(gap, Relaxed);
        Ok(true)
    }

    /// Says that the program has dealt with that gap. Reads go another way than this: none is made
    /// before the agent has it.
    fn settle(&self, message: &ToAgent, gap: u64) -> Result<(), SendError> {
        self.programs()?;
        self.shared.tell(message)?;
        let link = self.shared.link();
        while link.is_unsettled(gap) {
            if !link.await_settled(gap) {
                return Err(SendError::Gone(link.closed()));
            }
            self.shared.look(&link).map_err(SendError::Silent)?;
        }
        // Where there was no gap to be settled, the answer to what is said next is the sign.
        match self.status_by(None) {
            Ok(_) => Ok(()),
            Err(NextError::Send(why)) => Err(why),
            Err(_) => Err(SendError::Gone(link.closed())),
        }
    }

    /// The agent's status, JSON; none if it does not come within `patience`.
    ///
    /// # Errors
    /// If the agent is gone, or silent for longer than [`Options::silence`].
    pub fn status(&self, patience: Duration) -> Result<Option<String>, NextError> {
        self.status_by(after(patience))
    }

    fn status_by(&self, until: Option<Instant>) -> Result<Option<String>, NextError> {
        self.shared.inbox.lock().status_wanted += 1;
        let told = self.shared.tell(&ToAgent::Status).map_err(NextError::Send);
        let status = told.and_then(|()| self.await_status(until));
        self.shared.inbox.lock().status_wanted -= 1;
        status
    }

    fn await_status(&self, until: Option<Instant>) -> Result<Option<String>, NextError> {
        let (inbox, link) = (&self.shared.inbox, self.shared.link());
        loop {
            let slice = Instant::now() + RETRY;
            let look = until.map_or(slice, |until| until.min(slice));
            match inbox.wait(&link, Some(look), |state| state.statuses.pop_front()) {
                Ok(text) => return Ok(Some(text)),
                Err(Ended::Full) => return Ok(None),
                Err(Ended::Late) if until == Some(look) => return Ok(None),
                Err(Ended::Late) => {}
                Err(Ended::Gone(why)) => return Err(why),
            }
            let silent = self.shared.look(&link).map_err(SendError::Silent);
            silent.map_err(NextError::Send)?;
        }
    }
}

/// When patience is at an end; none: never, or not in the time of this machine.
fn after(patience: Duration) -> Option<Instant> {
    Instant::now().checked_add(patience)
}

fn short(payload: &[u8]) -> Result<(), SendError> {
    let (length, limit) = (payload.len(), LARGEST_PAYLOAD);
    if length > limit { Err(SendError::TooLong { length, limit }) } else { Ok(()) }
}
