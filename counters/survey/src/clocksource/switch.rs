//! Changing the clocksource for a while.

use std::io::Write;

use truechimer_files::{Entry, Lock};

use super::Clocksources;
use super::error::ClocksourceError;

/// The clocksource, changed for as long as this lives: it is put back when this is dropped, also
/// by an error or a panic on the way. Whoever may be ended by a signal must catch it, and drop
/// this. Nothing helps against SIGKILL: see [`Switch::mend`].
///
/// A change that somebody else made meanwhile is left as it is.
///
/// The kernel remembers the name it was told last, and prefers it as long as it is available. So
/// after putting it back, a better clocksource that appears later (by loading a module, say) is not
/// taken by itself.
#[derive(Debug)]
pub struct Switch {
    sources: Clocksources,
    original: String,
    /// Clocksource that was set last.
    ours: String,
    /// Name that was told to the kernel besides, when it could not be seen whether it had followed.
    told: Option<String>,
    /// Keeps other processes of this program from changing it at the same time.
    _lock: Lock,
    /// True if there is anything to put back.
    armed: bool,
}

/// State in which the clocksource was left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Restored {
    /// Put back as it was.
    Back(String),
    /// Left as somebody else had changed it meanwhile.
    Theirs {
        /// Clocksource in the beginning.
        original: String,
        /// Clocksource that was found in the end.
        found: String,
    },
}

impl Switch {
    /// Gets ready; nothing is changed yet. Of two that overlap, each would take the other's
    /// clocksource for the original one: there is one at a time.
    ///
    /// # Errors
    /// Where the right to change it is missing, the kernel does not say what it uses, or there is
    /// another one.
    pub fn new(sources: Clocksources) -> Result<Switch, ClocksourceError> {
        // Who may not change it needs no lock.
        sources.writable()?;
        let lock = Entry::itself(&sources.locked).and_then(|entry| entry.lock());
        let lock = lock.map_err(|why| ClocksourceError::Unlocked(sources.locked.clone(), why))?;
        let lock = lock.ok_or_else(|| ClocksourceError::Busy(sources.file().to_owned()))?;
        let original = sources.current()?;
        // It will be gone when it is to be put back.
        if original.ends_with("-early") {
            return Err(ClocksourceError::Early(original));
        }
        let ours = original.clone();
        Ok(Switch { sources, ours, told: None, _lock: lock, original, armed: false })
    }

    /// Clocksource in use in the beginning, and again in the end.
    #[must_use]
    pub fn original(&self) -> &str {
        &self.original
    }

    /// The command that puts it back by hand.
    #[must_use]
    pub fn mend(&self) -> String {
        format!("echo {} > {}", self.original, self.sources.file().display())
    }

    /// Makes the kernel use this clocksource, for the time being.
    ///
    /// # Errors
    /// As [`Clocksources::select`]; and where somebody else has changed it since the last time.
    pub fn to(&mut self, name: &str) -> Result<(), ClocksourceError> {
        self.unchanged()?;
        self.sources.check(name)?;
        // Whatever comes of it: from here on there may be something to put back.
        let armed = std::mem::replace(&mut self.armed, true);
        match self.sources.write(name) {
            Ok(()) => {
                name.clone_into(&mut self.ours);
                self.told = None;
                Ok(())
            }
            Err(ClocksourceError::Refused { name, current }) => {
                self.told = None;
                // It may have fallen back to another one than before.
                self.ours.clone_from(&current);
                Err(ClocksourceError::Refused { name, current })
            }
            Err(why @ ClocksourceError::Unwritable(..)) => {
                // The kernel never heard of it.
                self.armed = armed;
                Err(why)
            }
            // It may well have followed.
            Err(why) => {
                self.told = Some(name.to_owned());
                Err(why)
            }
        }
    }

    /// That it is what was set last.
    ///
    /// # Errors
    /// Where it is not, because of somebody else or of the kernel.
    pub fn unchanged(&self) -> Result<(), ClocksourceError> {
        let found = self.sources.current()?;
        if found == self.ours {
            return Ok(());
        }
        Err(ClocksourceError::Changed { ours: self.ours.clone(), found })
    }

    /// Puts it back, and says how that went; dropping does the same, but can only complain on
    /// standard error.
    ///
    /// # Errors
    /// Where that is not possible, as when the kernel has found the original one unstable
    /// meanwhile.
    pub fn restore(mut self) -> Result<Restored, ClocksourceError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<Restored, ClocksourceError> {
        let back = || Restored::Back(self.original.clone());
        if !std::mem::take(&mut self.armed) {
            return Ok(back());
        }
        let found = self.sources.current()?;
        if found == self.original {
            // It may be on the way that the kernel prefers the other one: say it again.
            self.sources.write(&self.original)?;
            return Ok(back());
        }
        if found != self.ours && self.told.as_ref() != Some(&found) {
            return Ok(Restored::Theirs { original: self.original.clone(), found });
        }
        self.sources.write(&self.original)?;
        Ok(back())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let mend = self.mend();
        let said = match self.put_back() {
            Ok(Restored::Back(_)) => return,
            Ok(Restored::Theirs { original, found }) => format!(
                "somebody else has changed the clocksource to '{found}' meanwhile; it is left so \
                 (it was '{original}')"
            ),
            Err(why) => format!("the clocksource could not be put back: {why}; by hand: {mend}"),
        };
        // There is nobody else to tell.
        let _ = writeln!(std::io::stderr(), "truechimer: {said}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clocksource::tests::Fake;

    fn switch(fake: &Fake) -> Switch {
        Switch::new(fake.sources()).unwrap()
    }

    fn current(fake: &Fake) -> String {
        fake.sources().current().unwrap()
    }

    #[test]
    fn it_is_put_back_when_asked_and_when_dropped() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let mut by_hand = switch(&fake);
        by_hand.to("hpet").unwrap();
        by_hand.to("acpi_pm").unwrap();
        assert_eq!((current(&fake).as_str(), by_hand.original()), ("acpi_pm", "tsc"));
        assert_eq!(by_hand.restore().unwrap(), Restored::Back("tsc".into()));
        assert_eq!(current(&fake), "tsc");
        let mut dropped = switch(&fake);
        dropped.to("hpet").unwrap();
        drop(dropped);
        assert_eq!(current(&fake), "tsc");
    }

    #[test]
    fn it_is_put_back_after_an_error_and_a_panic() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let failed = || -> Result<(), ClocksourceError> {
            let mut switch = switch(&fake);
            switch.to("hpet")?;
            switch.to("nonsense")
        };
        assert!(failed().is_err());
        assert_eq!(current(&fake), "tsc");
        let panicked = std::panic::catch_unwind(|| {
            let mut switch = switch(&fake);
            switch.to("hpet").unwrap();
            assert_eq!(current(&fake), "tsc", "no: this is the panic");
        });
        assert!(panicked.is_err());
        assert_eq!(current(&fake), "tsc");
    }

    #[test]
    fn what_was_not_changed_is_not_written() {
        let fake = Fake::new("tsc", "tsc hpet");
        let untouched = switch(&fake);
        fake.put("current_clocksource", "hpet");
        assert_eq!(untouched.restore().unwrap(), Restored::Back("tsc".into()));
        assert_eq!(current(&fake), "hpet");
    }

    #[test]
    fn somebody_elses_change_stays() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let mut ours = switch(&fake);
        ours.to("hpet").unwrap();
        fake.put("current_clocksource", "acpi_pm");
        let why = ours.to("tsc").unwrap_err().to_string();
        assert!(why.contains("'hpet' to 'acpi_pm'"), "{why}");
        let theirs = Restored::Theirs { original: "tsc".into(), found: "acpi_pm".into() };
        assert_eq!(ours.restore().unwrap(), theirs);
        assert_eq!(current(&fake), "acpi_pm");
        // Dropped, it is left as well.
        fake.put("current_clocksource", "tsc");
        let mut dropped = switch(&fake);
        dropped.to("hpet").unwrap();
        fake.put("current_clocksource", "acpi_pm");
        drop(dropped);
        assert_eq!(current(&fake), "acpi_pm");
    }

    #[test]
    fn after_a_refusal_all_is_as_before() {
        let fake = Fake::new("tsc", "tsc hpet");
        let mut refused = Switch::new(fake.deaf()).unwrap();
        assert!(matches!(refused.to("hpet"), Err(ClocksourceError::Refused { .. })));
        assert_eq!(refused.restore().unwrap(), Restored::Back("tsc".into()));
        // The kernel is told again, lest it prefer the other one some day.
        let written = std::fs::read_to_string(fake.deaf_file()).unwrap();
        assert_eq!(written, "tsc\n");
    }

    #[test]
    fn what_could_not_be_read_back_is_put_back() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let mut ours = switch(&fake);
        ours.to("hpet").unwrap();
        // The kernel takes the name, and what it shows afterwards cannot be read.
        loop {
            ours.sources = fake.deaf();
            let sources = ours.sources.clone();
            let kernel = std::thread::spawn(move || {
                while std::fs::read_to_string(sources.file()).unwrap().trim().is_empty() {
                    std::thread::yield_now();
                }
                std::fs::write(sources.folder.join("current_clocksource"), "odd odd\n").unwrap();
            });
            let result = ours.to("acpi_pm");
            kernel.join().unwrap();
            match result {
                Err(ClocksourceError::Odd(_)) => break,
                // That kernel was slow.
                Err(ClocksourceError::Refused { .. }) => fake.put("current_clocksource", "hpet"),
                other => panic!("{other:?}"),
            }
        }
        ours.sources = fake.sources();
        fake.put("current_clocksource", "acpi_pm");
        assert_eq!(ours.restore().unwrap(), Restored::Back("tsc".into()));
        assert_eq!(current(&fake), "tsc");
    }

    #[test]
    fn what_will_be_gone_cannot_be_put_back() {
        let fake = Fake::new("tsc-early", "tsc-early hpet acpi_pm");
        let why = Switch::new(fake.sources()).unwrap_err().to_string();
        assert!(why.contains("tsc-early") && why.contains("some seconds"), "{why}");
    }

    #[test]
    fn one_at_a_time() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let mut first = switch(&fake);
        first.to("hpet").unwrap();
        let why = Switch::new(fake.sources()).unwrap_err().to_string();
        assert!(why.contains("another process"), "{why}");
        drop(first);
        // Everybody may read the kernel's file, and so lock it: that keeps nobody away.
        let reader = std::fs::File::open(fake.sources().file()).unwrap();
        reader.lock().unwrap();
        assert_eq!(switch(&fake).original(), "tsc");
    }

    #[test]
    fn a_failure_to_put_it_back_is_an_error() {
        let fake = Fake::new("tsc", "tsc hpet");
        let mut ours = switch(&fake);
        ours.to("hpet").unwrap();
        assert!(ours.mend().starts_with("echo tsc > /"), "{}", ours.mend());
        fake.remove("current_clocksource");
        assert!(ours.restore().is_err());
        // Dropping says so on standard error, and does not panic.
        fake.put("current_clocksource", "tsc");
        let mut ours = switch(&fake);
        ours.to("hpet").unwrap();
        fake.remove("current_clocksource");
        drop(ours);
    }
}
