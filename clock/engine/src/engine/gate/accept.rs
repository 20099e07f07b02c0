//! The user's word that a source is right, whatever stands against it.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use truechimer_time::{Count, Instant, Span};

use crate::engine::{Engine, note};
use crate::event::{Action, Level, SourceId};
use crate::source::Source;

impl Engine {
    /// The source that the user means by this name, `host:port` or `host`; without one the one that
    /// is held off.
    ///
    /// # Errors
    /// Why there is none, and which could be meant.
    pub fn acceptable(&self, name: Option<&str>, at: Count) -> Result<SourceId, String> {
        let names = |of: &[&Source]| -> String {
            of.iter().map(|s| s.name()).collect::<Vec<_>>().join(", ")
        };
        let speak: Vec<&Source> = self.sources.iter().filter(|s| s.votes()).collect();
        let Some(name) = name else {
            let held = |s: &&&Source| s.hold_off(at).is_some() || s.peer.trust.is_held();
            let held: Vec<&Source> = speak.iter().filter(held).copied().collect();
            let waits = self.gate.hold.is_some();
            let answered = |s: &&&Source| waits && s.peer.says_between(at).is_some();
            let held = if held.is_empty() {
                speak.iter().filter(answered).copied().collect()
            } else {
                held
            };
            return match held.as_slice() {
                [] => {
                    Err("nothing is held off; to believe one source against the others, name it"
                        .into())
                }
                [one] => Ok(one.id()),
                several => Err(format!("which one? held off are {}", names(several))),
            };
        };
        let named = |s: &&&Source| s.name() == name || s.config.host == name;
        let found: Vec<&Source> = speak.iter().filter(named).copied().collect();
        match found.as_slice() {
            [one] if one.peer.says_between(at).is_some() => Ok(one.id()),
            [one] => Err(format!("{} has said nothing usable yet", one.name())),
            [] if self.sources.iter().any(|source| named(&&source)) => Err(format!(
                "{name} has no vote, and so is not followed; those that have one: {}",
                names(&speak)
            )),
            [] => Err(format!("no such server; there are {}", names(&speak))),
            several => Err(format!("which one? {}", names(several))),
        }
    }

    /// The user wants this source believed.
    pub(in crate::engine) fn accept(&mut self, id: SourceId, at: Count, actions: &mut Vec<Action>) {
        let Some(said) =
            self.source(id).filter(|s| s.votes()).and_then(|s| s.peer.says_between(at))
        else {
            return;
        };
        let meets = |(from, to): (Instant, Instant)| from <= said.1 && to >= said.0;
        let mut name = String::new();
        for source in &mut self.sources {
            let with_it = source.peer.says_between(at).is_none_or(meets);
            if with_it && source.peer.believe().is_some() {
                source.peer.trust.moved = Some(at);
            }
            source.peer.trust.overruled = !with_it && source.id() != id;
            source.is_not_waited_for();
            source.forget_path();
            if source.id() == id {
                name = source.name().to_owned();
            }
        }
        for pool in &mut self.pools {
            pool.is_not_waited_for();
        }
        self.servo.interrupt();
        self.combination.forget();
        self.reckoning = None;
        (self.gate.hold, self.gate.moved, self.gate.rtc_offset) = (None, Span::ZERO, None);
        (self.gate.stepped, self.gate.course) = (false, None);
        let before = self.hand.status.bound_holds().then(|| self.hand.time_at(at));
        let by = before.map_or_else(String::new, |before| {
            format!(", {:+} from where it was", said.0 + (said.1 - said.0).half() - before)
        });
        let text = format!("{name}: accepted by the user: the clock goes by it from now on{by}");
        note(actions, Level::Warning, text);
        self.gate.accepted = true;
        self.publish(at, actions);
        self.gate.accepted = false;
    }
}
