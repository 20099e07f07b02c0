//! The agent's side of the link, for a loop around `poll(2)`.
//!
//! ```text
//! loop {
//!     door.work(&polled, &mut requests);     // accepts, reads, looks at slots, writes
//!     …handle requests, complete(), send()…
//!     door.descriptors(&mut polled);
//!     if door.sleep() {                      // false: something is there already
//!         poll(polled and others, at most door.patience())
//!     }
//!     door.wake();
//! }
//! ```

mod door;
mod listener;
mod peer;

use std::path::PathBuf;

use rustix::time::{ClockId, clock_gettime};
use truechimer_group::{Call, Member, Mode, Order, Point, Post, Round, Thread};

use crate::link::{Outside, Role, Together};
pub use crate::message::News;
pub use door::Door;
pub use listener::DoorError;

/// Settings of a door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The directory above the groups' (its group's is made if it is not there, for those to enter
    /// who may use the socket).
    pub directory: PathBuf,
    /// The group's name.
    pub group: String,
    /// Which member this is.
    pub member: Member,
    /// Which of the group's members that is, from 0, for programs to know; none of them: any.
    pub place: u8,
    /// The group's mode, for programs to know.
    pub mode: Mode,
    /// The group's order, for programs to know.
    pub order: Order,
    /// The socket's permissions (default 0o600: this user and root).
    pub permissions: u32,
    /// User that the socket is to belong to; none: this one. Only root may give it away.
    pub owner: Option<u32>,
    /// Which group's the socket and its directory are to be; none: this process's. Others than root
    /// must be in it. Where the permissions let it write to the socket it may make files of its own
    /// in the directory: a front's page is there.
    pub access_group: Option<u32>,
    /// Users that may attach besides this one and root; none: whoever the permissions let.
    pub users: Option<Vec<u32>>,
    /// Largest number of attachments at once (default 256: a shell script with many short commands has some
    /// dozens under way).
    pub links: usize,
    /// Largest number of bytes that may wait for a program before it is cut off (default 16 MiB). A single
    /// message may be longer, and does not count then: a checkpoint.
    pub queue: usize,
    /// The largest checkpoint, bytes (default, and most: [`crate::LARGEST_CHECKPOINT`]).
    pub checkpoint: usize,
}

impl Settings {
    /// With the defaults.
    #[must_use]
    pub fn new(directory: PathBuf, group: &str, member: Member) -> Settings {
        Settings {
            directory,
            group: group.into(),
            member,
            place: 0,
            mode: Mode::Active,
            order: Order::Monotone,
            permissions: 0o600,
            owner: None,
            access_group: None,
            users: None,
            links: 256,
            queue: 16 << 20,
            checkpoint: crate::LARGEST_CHECKPOINT,
        }
    }
}

/// Which attachment; never used twice in a door's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(u64);

/// Which read of which attachment; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket {
    link: LinkId,
    slot: u32,
    serial: u32,
}

impl Ticket {
    /// Of which attachment.
    #[must_use]
    pub fn link(&self) -> LinkId {
        self.link
    }
}

/// Requests of programs. All of it was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Somebody has attached.
    Attached {
        /// Link that attached.
        link: LinkId,
        /// Purpose of it.
        role: Role,
        /// The process, by the kernel's word.
        pid: u32,
        /// The user, by the kernel's word.
        uid: u32,
        /// True if it is of a family that was not there before: a new program.
        new: bool,
        /// With whom that starts.
        together: Together,
    },
    /// Link gone, or cut off. Its reads are void: an abandonment comes for each before this.
    Detached {
        /// Link that is gone.
        link: LinkId,
        /// Purpose for which it was there.
        role: Role,
        /// Reason, for the log.
        why: String,
        /// True if it was the last of its family: the program is gone.
        last: bool,
    },
    /// A thread reads the clock.
    Read {
        /// To be answered with [`Door::complete`].
        ticket: Ticket,
        /// Which thread, [`Thread::FIRST`] or more.
        thread: Thread,
        /// By which call.
        call: Call,
        /// Choice for outside the primary component: with [`Outside::Fail`] the agent rejects it,
        /// with the others it stays.
        outside: Outside,
    },
    /// The thread's patience is at an end, or it is dead: the ticket is void.
    Abandon {
        /// Which read.
        ticket: Ticket,
        /// Of which thread.
        thread: Thread,
    },
    /// A message for the group's order.
    Multicast {
        /// From whom.
        link: LinkId,
        /// Number that the program has for it.
        token: u64,
        /// Contents, at most [`truechimer_group::LARGEST_PAYLOAD`].
        payload: Vec<u8>,
    },
    /// A message for another group's order.
    SendTo {
        /// From whom.
        link: LinkId,
        /// To which group; a valid name.
        group: String,
        /// Number that the program has for it.
        token: u64,
        /// Reading of the sender's group clock.
        stamp: i64,
        /// Contents.
        payload: Vec<u8>,
    },
    /// Wants to know when a majority has the stream up to a place.
    Commit {
        /// Link that asks.
        link: LinkId,
        /// Number that the program has for it.
        token: u64,
        /// The place.
        point: Point,
    },
    /// The checkpoint that it was asked for.
    Checkpoint {
        /// From whom.
        link: LinkId,
        /// For which join.
        join: u64,
        /// The state.
        data: Vec<u8>,
        /// Number of rounds that each of its threads has read.
        position: Vec<(Thread, Round)>,
    },
    /// The checkpoint was taken over.
    Installed {
        /// By whom.
        link: LinkId,
        /// The gap that it came with.
        gap: u64,
    },
    /// A program starts without a checkpoint.
    Restarted {
        /// Which.
        link: LinkId,
        /// The last gap that it knows of.
        gap: u64,
    },
    /// Wants the status: answer with [`Door::send`] and [`News::Status`].
    Status {
        /// Link that asks.
        link: LinkId,
    },
    /// An operator says where a member is to stand: answer with [`Door::send`] and
    /// [`News::Shifted`]. Only the agent's own user and root are let through.
    Shift {
        /// Link that asks.
        link: LinkId,
        /// Member concerned.
        member: Member,
        /// Where to.
        to: Post,
    },
    /// Somebody else has said such a thing: answer that it is [denied](truechimer_group::Unshifted::Denied).
    Denied {
        /// Link that asked.
        link: LinkId,
    },
}

/// Counts since the door was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Attachments accepted.
    pub attached: u64,
    /// Attachments refused.
    pub refused: u64,
    /// Attachments cut off.
    pub cut_off: u64,
    /// Reads that came.
    pub reads: u64,
    /// Reads answered.
    pub answers: u64,
    /// Doorbells heard.
    pub rings: u64,
    /// Slots of dead processes taken back.
    pub reclaimed: u64,
}
/// `CLOCK_MONOTONIC`, ns, by way of libc, which needs no system call.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
