//! The primary, and why: told to programs in the modes semi-active and passive.

use core::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use truechimer_group::{Cause, Handover, Member};

use crate::sys;

/// Set in the first word where an operator has drained the program's own member.
const DRAINED: u64 = 1 << 40;

/// Order of the members that propose, as far as a program that waits is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lead {
    /// The primary; none in the mode active, or where it is not known.
    pub primary: Option<Member>,
    /// True if an operator has drained this member.
    pub drained: bool,
    /// The last change of the primary.
    pub handover: Option<Handover>,
}

impl fmt::Display for Lead {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.drained {
            out.write_str("an operator has drained this member; ")?;
        }
        let Some(primary) = self.primary else { return out.write_str("the primary is not known") };
        match self.handover {
            None => write!(out, "the program of member {primary} is the primary")?,
            Some(handover) => {
                let tenths = handover.ago_ns.max(0) / 100_000_000;
                let (s, tenth) = (tenths / 10, tenths % 10);
                write!(
                    out,
                    "the program of member {primary} has been the primary for {s}.{tenth} s, as \
                     {handover}"
                )?;
            }
        }
        out.write_str("; a value comes when that has read as far")
    }
}

/// The words of the memory that say it. They are for people: read while they are written they may
/// not fit each other.
#[repr(C)]
pub(crate) struct LeadWords {
    /// Primary (32 bits), cause of the last change (8), [`DRAINED`].
    now: AtomicU64,
    /// Former primary.
    before: AtomicU64,
    /// When it changed, `CLOCK_MONOTONIC`, ns.
    since: AtomicU64,
}

impl LeadWords {
    /// The agent says it.
    pub(crate) fn set(&self, lead: &Lead) {
        let number = |member: Option<Member>| u64::from(member.map_or(0, |member| member.0));
        let cause = lead.handover.map_or(0, |handover| handover.cause as u64);
        let drained = if lead.drained { DRAINED } else { 0 };
        let ago = lead.handover.map_or(0, |handover| handover.ago_ns.max(0) as u64);
        self.before.store(number(lead.handover.map(|handover| handover.from)), Relaxed);
        self.since.store(sys::monotonic().saturating_sub(ago), Relaxed);
        self.now.store(number(lead.primary) | cause << 32 | drained, Release);
    }

    /// The program reads it.
    pub(crate) fn get(&self) -> Lead {
        let member = |word: u64| Some(Member(word as u32)).filter(|member| member.0 > 0);
        let now = self.now.load(Acquire);
        let (primary, from) = (member(now), member(self.before.load(Relaxed)));
        let ago = sys::monotonic().saturating_sub(self.since.load(Relaxed));
        let handover = Cause::of((now >> 32) as u8).zip(primary.zip(from));
        Lead {
            primary,
            drained: now & DRAINED != 0,
            handover: handover.map(|(cause, (to, from))| Handover {
                from,
                to,
                cause,
                ago_ns: i64::try_from(ago).unwrap_or(i64::MAX),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_told() {
        let words = LeadWords {
            now: AtomicU64::new(0),
            before: AtomicU64::new(0),
            since: AtomicU64::new(0),
        };
        assert_eq!(words.get(), Lead::default());
        let (from, to, ago_ns) = (Member(1), Member(2), 300_000_000);
        let mut number = 0;
        while let Some(cause) = Cause::of(number + 1) {
            number += 1;
            let handover = Some(Handover { from, to, cause, ago_ns });
            words.set(&Lead { primary: Some(to), drained: number % 2 == 0, handover });
            let read = words.get();
            let got = read.handover.expect("one");
            assert_eq!((got.from, got.to, got.cause), (from, to, cause));
            assert!(got.ago_ns >= ago_ns && read.drained == (number % 2 == 0));
        }
        assert_eq!(number, Cause::Fenced as u8);
        let handover = Some(Handover { from, to, cause: Cause::Ended, ago_ns });
        let text = Lead { primary: Some(to), drained: true, handover }.to_string();
        assert_eq!(
            text,
            "an operator has drained this member; the program of member 2 has been the primary \
             for 0.3 s, as the program of member 1 has ended; a value comes when that has read as \
             far"
        );
        // Whatever is in the memory is no reason to fail.
        words.now.store(u64::MAX, Relaxed);
        words.before.store(u64::MAX, Relaxed);
        words.since.store(u64::MAX, Relaxed);
        assert!(words.get().handover.is_none() && !words.get().to_string().is_empty());
    }
}
