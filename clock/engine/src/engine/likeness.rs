//! Two sources that are likely one machine, asked at two addresses.
//!
//! Address and port are all that tells servers apart for certain. Whoever lies makes up the rest of
//! a reply, and so nothing that is in it takes a vote away. But a machine that was named twice by
//! mistake (by IPv4 and by IPv6, say) says the same at both addresses of when and by what its clock
//! was set last, and no two others go on doing so: that is worth a warning.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use truechimer_ntp::{RefId, Reply, Timestamp};

use super::{Engine, note};
use crate::event::{Action, Level, SourceId};

/// Number of settings of the clock that two have in common and are no chance.
const LIKE_SETTINGS: u32 = 4;
/// After as many replies in a row to which the other's are unlike they were one.
const UNLIKE_REPLIES: u32 = 16;

/// When and by what a server's clock was set last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Setting {
    at: Timestamp,
    by: RefId,
    stratum: u8,
}

impl Setting {
    /// Setting by a reply; none where that tells nobody apart: receivers of one signal are all set
    /// at whole seconds.
    fn of(reply: &Reply) -> Option<Setting> {
        let Reply { reference_timestamp: at, reference_id: by, stratum, .. } = *reply;
        (at.0 as u32 != 0).then_some(Setting { at, by, stratum })
    }

    /// True if it was at another fraction of a second.
    fn is_elsewhere(&self, other: &Setting) -> bool {
        self.at.0 as u32 != other.at.0 as u32
    }
}

/// Last word of a server, and whether it had said so before: some say when they answer.
#[derive(Debug)]
struct Said {
    last: Option<Setting>,
    again: bool,
}

/// Likeness of two.
#[derive(Debug, Default)]
struct Pair {
    last: Option<Setting>,
    like: u32,
    unlike: u32,
    told: bool,
}

/// Likeness of all of them.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    said: BTreeMap<SourceId, Said>,
    pairs: BTreeMap<(SourceId, SourceId), Pair>,
}

impl Likeness {
    /// Only these sources are left.
    pub(super) fn keep(&mut self, is_there: impl Fn(SourceId) -> bool) {
        self.said.retain(|id, _| is_there(*id));
        self.pairs.retain(|(one, other), _| is_there(*one) && is_there(*other));
    }

    /// A reply was used: those that turn out to be likely the same machine, each once.
    fn heard(&mut self, id: SourceId, reply: &Reply) -> Vec<SourceId> {
        let setting = Setting::of(reply);
        let before = self.said.get(&id).and_then(|said| said.last);
        let again = setting.is_some() && setting == before;
        self.said.insert(id, Said { last: setting, again });
        let Some(setting) = setting.filter(|_| again) else { return Vec::new() };
        let mut alike = Vec::new();
        for (other, said) in self.said.iter().filter(|(other, said)| **other != id && said.again) {
            let key = (id.min(*other), id.max(*other));
            if said.last == Some(setting) {
                let pair = self.pairs.entry(key).or_default();
                if pair.is_found(setting) {
                    alike.push(*other);
                }
            } else if let Some(pair) = self.pairs.get_mut(&key) {
                pair.unlike += 1;
                if pair.unlike >= UNLIKE_REPLIES {
                    (pair.like, pair.unlike) = (0, 0);
                }
            }
        }
        alike
    }
}

impl Pair {
    /// Both have this setting: whether they are found to be one by that.
    fn is_found(&mut self, setting: Setting) -> bool {
        self.unlike = 0;
        if self.last.is_none_or(|last| last.is_elsewhere(&setting)) {
            self.last = Some(setting);
            self.like = self.like.saturating_add(1);
        }
        let found = self.like >= LIKE_SETTINGS && !self.told;
        self.told |= found;
        found
    }
}

impl Engine {
    /// Warns of a machine that is asked at two addresses, once.
    pub(super) fn tell_likeness(&mut self, id: SourceId, reply: &Reply, actions: &mut Vec<Action>) {
        for other in self.likeness.heard(id, reply) {
            let name = |id| self.sources.iter().find(|s| s.id() == id).map(|s| s.name());
            let (Some(one), Some(other)) = (name(id.min(other)), name(id.max(other))) else {
                continue;
            };
            let text = format!(
                "{one} and {other}: their clocks are set at the same moments by the same reference: \
                 most likely one machine, which counts as two servers here. Name it once"
            );
            note(actions, Level::Warning, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_ntp::{LeapIndicator, Log2};
    use truechimer_time::Span;

    const ONE: SourceId = SourceId(1);
    const OTHER: SourceId = SourceId(4);

    fn reply(at: u64, by: [u8; 4]) -> Reply {
        Reply {
            interleaved: None,
            receive: Timestamp(1),
            transmit: Timestamp(1),
            leap: LeapIndicator::None,
            stratum: 2,
            poll: Log2(4),
            precision: Log2(-20),
            root_delay: Span::ZERO,
            root_dispersion: Span::ZERO,
            reference_id: RefId(by),
            reference_timestamp: Timestamp(at),
            version: 4,
            unread: 0,
            later_requests: 0,
        }
    }

    /// A moment of the `n`th setting, at a fraction of a second that nobody foresees.
    fn moment(n: u64) -> u64 {
        (n << 38) | (n.wrapping_mul(0x9e37_79b9) & 0xffff_ffff)
    }

    /// Both are heard twice of each of so many settings; whether they were found to be one.
    fn found(times: u64, said: impl Fn(u64) -> [Reply; 2]) -> u32 {
        let mut likeness = Likeness::default();
        let mut found = 0;
        for n in 1..=times {
            let [one, other] = said(n);
            for _ in 0..2 {
                found += likeness.heard(ONE, &one).len();
                found += likeness.heard(OTHER, &other).len();
            }
        }
        found as u32
    }

    #[test]
    fn a_machine_that_is_asked_at_two_addresses_is_found_once() {
        let same = |n| [reply(moment(n), *b"GPS\0"); 2];
        assert_eq!(found(u64::from(LIKE_SETTINGS) - 1, same), 0);
        assert_eq!(found(u64::from(LIKE_SETTINGS), same), 1);
        assert_eq!(found(100, same), 1);
    }

    #[test]
    fn honest_servers_are_not() {
        let each = |n, by| reply(moment(n), by);
        // Of one reference, at moments of their own.
        assert_eq!(found(1000, |n| [each(2 * n, [1; 4]), each(2 * n + 1, [1; 4])]), 0);
        // At the same moments, by other references.
        assert_eq!(found(1000, |n| [each(n, [1; 4]), each(n, [2; 4])]), 0);
        // Receivers of one signal, at whole seconds or at one and the same fraction of each.
        assert_eq!(found(1000, |n| [reply(n << 32, *b"GPS\0"); 2]), 0);
        assert_eq!(found(1000, |n| [reply((n << 32) | 0x8000, *b"GPS\0"); 2]), 0);
        // By chance, now and then.
        let rare = |n: u64| if n.is_multiple_of(20) { 2 * n } else { 2 * n + 1 };
        assert_eq!(found(10_000, |n| [each(2 * n, [1; 4]), each(rare(n), [1; 4])]), 0);
        // Two that are asked at once, and say so rather than when they were set.
        let mut likeness = Likeness::default();
        for n in 1..1000 {
            assert!(likeness.heard(ONE, &each(n, [1; 4])).is_empty());
            assert!(likeness.heard(OTHER, &each(n, [1; 4])).is_empty());
        }
    }
}
