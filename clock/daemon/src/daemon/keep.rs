//! Things that are kept for the next daemon, and those that a new configuration changes.

use truechimer_audit::Kind;
use truechimer_engine::{Event, Level};
use truechimer_time::Count;

use super::{CHANGES, Daemon, same_scale};
use crate::changes::Change;
use crate::config::Settings;
use crate::options::Options;
use crate::state::{Keeping, Retry};
use crate::{audit, leaps, options, state};

impl Daemon<'_> {
    /// Saves who agrees and who is held off, if that has changed: the next daemon should know,
    /// however this one ends.
    pub(super) fn keep_up(&mut self, now: Count) {
        let (holds, agreed) = (!self.engine.held(now).is_empty(), self.engine.agreed(now));
        let (held, kept, at) = &self.kept;
        let changed = agreed != *kept && self.nominal.span(now - *at) >= CHANGES;
        let changed = holds != *held || changed;
        if changed && self.told != (holds, agreed.clone()) {
            self.tell_next(now);
            self.told = (holds, agreed.clone());
        }
        let changed = self.retry == Retry::None && changed;
        if (changed || self.retry.is_due(now)) && self.save() {
            self.kept = (holds, agreed, now);
        }
    }

    /// Leaves beside the clock page what the next daemon on it should know, whoever that follows.
    pub(super) fn tell_next(&mut self, now: Count) {
        let left = self.engine.left(now);
        let Some((path, left)) = self.beside.as_ref().zip(left) else { return };
        if let Err(why) = state::save(path, &left) {
            let text = format!(
                "whose word the clock page is cannot be kept in {}: {why}; the next daemon will not \
                 know it",
                path.display()
            );
            self.beside = None;
            self.note(Level::Warning, &text);
        }
    }

    /// Has [`Daemon::read_again`] go by these options, and their file.
    pub(crate) fn reads_again_by(&mut self, options: &Options) {
        self.options.clone_from(options);
    }

    /// Reads the configuration again, and takes it over if it is any good. Returns what of it is not
    /// in force.
    ///
    /// # Errors
    /// The mistakes in it; nothing has changed then.
    pub(crate) fn read_again(&mut self) -> Result<Vec<String>, String> {
        match self.options.settings() {
            Ok(new) => Ok(self.configure(new)),
            Err(why) => {
                let text = format!(
                    "the configuration stays as it was, because the new one is wrong: {why}"
                );
                self.note(Level::Warning, &text);
                Err(text)
            }
        }
    }

    /// Takes over another configuration. Returns what of it is not in force.
    pub(super) fn configure(&mut self, mut new: Settings) -> Vec<String> {
        let mut warnings = Vec::new();
        let old = &self.settings;
        let fixed: Vec<&str> = [
            ("counter", old.counter != new.counter),
            ("page", old.page != new.page),
            ("control", old.control != new.control),
            ("replay-log", old.replay_log != new.replay_log),
            ("clockbound", old.clockbound != new.clockbound),
            ("sock-out", old.sock_out != new.sock_out),
            ("metrics", old.metrics != new.metrics),
            ("audit", old.audit != new.audit),
            ("sandbox", old.sandbox != new.sandbox),
            ("seccomp", old.seccomp != new.seccomp),
            ("lock-memory", old.lock_memory != new.lock_memory),
            ("hardware-stamps", old.hardware_stamps != new.hardware_stamps),
            ("vmclock", old.vmclock != new.vmclock),
        ]
        .into_iter()
        .filter_map(|(key, changed)| changed.then_some(key))
        .collect();
        if !fixed.is_empty() {
            warnings.push(format!("changed, but only at the next start: {}", fixed.join(", ")));
        }
        self.configured = new.engine.clone();
        self.changes.apply(&mut new.engine);
        let difference = audit::difference(&self.settings.engine, &new.engine);
        self.record(Kind::Configuration, |_| format!("read again: {difference}"));
        self.proofs.configure(&new);
        (self.settings.nts_ca, self.settings.nts_unset_clock) = (new.nts_ca, new.nts_unset_clock);
        self.settings.key_file = new.key_file;
        self.settings.leap_file = new.leap_file;
        self.settings.source_dir = new.source_dir;
        self.settings.left_out = new.left_out;
        self.settings.engine = new.engine;
        if let Some(pages) = &mut self.clockbound {
            pages.configure(self.settings.engine.step_above);
        }
        self.settings.state = new.state;
        let state = Keeping::at(&self.settings.state, self.page.path(), &self.settings.engine);
        if self.state != state {
            self.state = state;
            self.proofs.keep_beside(self.state.path());
            // Nothing is in the new place yet.
            (self.kept.0, self.kept.1, self.retry) = (false, Vec::new(), Retry::None);
            match self.state.note() {
                (Level::Warning, text) => warnings.push(text),
                (level, text) => self.note(level, &text),
            }
        }
        let discipline = self.settings.engine.discipline;
        if discipline {
            self.system_clock.configure(true);
        }
        warnings.extend(self.wanted().and_then(|wanted| self.sandbox.shut_out(&wanted)));
        warnings.append(&mut self.settings.left_out);
        self.note(Level::Info, "the configuration was read again");
        warnings.iter().for_each(|text| self.note(Level::Warning, text));
        self.read_leaps();
        self.handle(self.counter.read(), Event::Configure(self.settings.engine.clone()));
        if !discipline {
            // Only now: the engine has just ended the slew that was under way.
            self.system_clock.configure(false);
        }
        warnings
    }

    /// Changes the sources until the daemon ends. Returns the names of those that changed.
    ///
    /// # Errors
    /// Why they cannot be changed so; nothing has changed then.
    pub(super) fn make_change(
        &mut self,
        change: Change,
        source: Option<&str>,
    ) -> Result<Vec<String>, String> {
        let mut changes = self.changes.clone();
        let has_key_file = self.settings.key_file.is_some();
        let names = changes.make(change, source, &self.settings.engine, has_key_file)?;
        let mut engine = self.configured.clone();
        changes.apply(&mut engine);
        if change == Change::Delete && options::is_mute(&engine) {
            return Err("there would be nothing left to follow: add another source first".into());
        }
        // What may yet come makes it whole, and what is no worse than before is no harm.
        let could = options::never(&self.settings.engine).is_none();
        if self.settings.source_dir.is_none()
            && could
            && let Some((_, why)) = options::never(&engine)
        {
            return Err(why);
        }
        let settings = Settings { engine, ..self.settings.clone() };
        if change == Change::Add
            && let Some(text) =
                self.rules(&settings).and_then(|wanted| self.sandbox.shut_out(&wanted))
        {
            return Err(text);
        }
        let text = change.told(&names);
        self.record(Kind::Configuration, |_| text.clone());
        // Once in the record.
        (self.notes)(Level::Info, &text);
        (self.changes, self.settings) = (changes, settings);
        self.handle(self.counter.read(), Event::Configure(self.settings.engine.clone()));
        Ok(names)
    }

    /// Reads the list of leap seconds again. What it says is used if it fits what is in force: the
    /// time scale itself must not change under those who read it.
    pub(super) fn read_leaps(&mut self) {
        let hand = *self.engine.hand();
        if !hand.status.bound_holds() {
            return;
        }
        let now = hand.leaps.utc(hand.time_at(self.counter.read())).unix;
        let listed = match leaps::listed(&self.settings.leap_file, now) {
            Ok(Some(listed)) if listed != self.engine.leaps() => listed,
            Ok(_) => return self.note_leaps(None),
            Err(why) => return self.note_leaps(Some(why)),
        };
        if same_scale(&hand.leaps, &listed.leaps, &hand) {
            self.note_leaps(None);
            self.handle(self.counter.read(), Event::Leaps(listed));
        } else {
            self.note_leaps(Some("a new list will be used from the next start on".into()));
        }
    }

    /// Tells the user what is new about leap seconds.
    pub(super) fn note_leaps(&mut self, note: Option<String>) {
        if note != self.leap_note {
            if let Some(text) = &note {
                let tai = if self.engine.hand().leaps.known { "stays known" } else { "not known" };
                self.note(Level::Warning, &format!("leap seconds: {text} (TAI: {tai})"));
            }
            self.leap_note = note;
        }
    }

    /// Saves what is worth it; `false` if nothing is yet, or it could not be.
    pub(super) fn save(&mut self) -> bool {
        let Some(path) = self.state.path() else { return true };
        let now = self.counter.read();
        let Some(saved) = self.engine.saved(now) else { return false };
        let attempt = state::save(path, &saved);
        let (retry, note) = self.retry.after(&attempt, path, now, self.nominal);
        self.retry = retry;
        if let Some((level, text)) = note {
            self.note(level, &text);
        }
        attempt.is_ok()
    }

    /// Leaves everything in order.
    pub(crate) fn finish(mut self) {
        // The machine may just have been suspended, and the check that follows never come.
        let _ = self.check();
        let now = self.counter.read();
        self.handle(now, Event::Stop);
        self.tell_clockbound();
        self.tell_next(now);
        self.save();
        if let Some(why) = self.proofs.save() {
            self.note(Level::Warning, &why);
        }
        if let Some(log) = &mut self.log {
            log.flush();
        }
        if let Some(audit) = &mut self.audit {
            audit.finish(self.counter.read());
        }
        self.flush_audit();
        self.audit = None;
        self.note(Level::Info, "ended");
    }
}
