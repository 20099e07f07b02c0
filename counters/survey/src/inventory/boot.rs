//! The kernel's command line, as far as it concerns clocks.

use serde::Serialize;

/// Boot parameters about clocks and idle states. Where one may be given once, the last counts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Boot {
    /// `clocksource=NAME`.
    pub clocksource: Option<String>,
    /// `tsc=WORD`, each as given (`reliable`, `nowatchdog`, `unstable`, …).
    pub tsc: Vec<String>,
    /// `notsc`, which today means `tsc=unstable`.
    pub notsc: bool,
    /// `idle=WORD` (`poll`, `halt`, `nomwait`).
    pub idle: Option<String>,
    /// `processor.max_cstate=N`: the deepest idle state of the driver `acpi_idle`.
    pub processor_max_cstate: Option<u32>,
    /// `intel_idle.max_cstate=N`: the deepest of `intel_idle`; 0 leaves that to `acpi_idle`.
    pub intel_idle_max_cstate: Option<u32>,
    /// `hpet=disable` or `nohpet`.
    pub hpet_off: bool,
    /// `highres=off`.
    pub highres_off: bool,
    /// `no-kvmclock`.
    pub no_kvmclock: bool,
    /// All of these words as they were written, and others about clocks.
    pub words: Vec<String>,
}

/// Beginnings of words that concern clocks, besides those looked at one by one.
const OTHERS: [&str; 12] = [
    "acpi_pm_good",
    "clock=",
    "clocksource.",
    "cpuidle.",
    "cpuidle_haltpoll.",
    "haltpoll.",
    "nohz",
    "nohz_full=",
    "no-kvmclock-vsyscall",
    "pmtmr=",
    "skew_tick=",
    "tsc_early_khz=",
];

impl Boot {
    /// Reads the command line; what follows `--` is meant for init.
    #[must_use]
    pub fn parse(line: &str) -> Boot {
        let mut boot = Boot::default();
        for word in words(line) {
            if word == "--" {
                break;
            }
            let (name, value) = word.split_once('=').unwrap_or((&word, ""));
            // The kernel takes '-' and '_' in the names of parameters for the same.
            match name.replace('-', "_").as_str() {
                "clocksource" => boot.clocksource = Some(value.to_owned()),
                "tsc" => boot.tsc.push(value.to_owned()),
                "notsc" => boot.notsc = true,
                "idle" => boot.idle = Some(value.to_owned()),
                "processor.max_cstate" => boot.processor_max_cstate = value.parse().ok(),
                "intel_idle.max_cstate" => boot.intel_idle_max_cstate = value.parse().ok(),
                "hpet" => boot.hpet_off |= value.split(',').any(|word| word == "disable"),
                "nohpet" => boot.hpet_off = true,
                "highres" => boot.highres_off = value == "off",
                "no_kvmclock" => boot.no_kvmclock = true,
                _ if OTHERS.iter().any(|other| word.starts_with(other)) => {}
                _ => continue,
            }
            boot.words.push(word);
        }
        boot
    }

    /// True if `tsc=WORD` is given.
    #[must_use]
    pub fn tsc_is(&self, word: &str) -> bool {
        self.tsc.iter().any(|given| given == word)
    }
}

/// Words, between which there is white space that is not in quotation marks.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => {
                if let Some(word) = words.last_mut() {
                    word.push(c);
                }
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_command_line() {
        let boot = Boot::parse(
            "BOOT_IMAGE=/vmlinuz root=/dev/sda1 clocksource=hpet clocksource=tsc tsc=reliable \
             tsc=noirqtime \"idle=poll\" intel-idle.max_cstate=0 processor.max_cstate=1 nohpet \
             dyndbg=\"file a.c +p\" skew_tick=1 -- idle=halt\n",
        );
        assert_eq!(boot.clocksource.as_deref(), Some("tsc"));
        assert!(boot.tsc_is("reliable") && boot.tsc_is("noirqtime") && !boot.tsc_is("unstable"));
        assert_eq!(boot.idle.as_deref(), Some("poll"));
        assert_eq!((boot.processor_max_cstate, boot.intel_idle_max_cstate), (Some(1), Some(0)));
        assert!(boot.hpet_off && !boot.notsc);
        assert_eq!(boot.words.len(), 9, "{:?}", boot.words);
        assert!(Boot::parse("hpet=verbose,disable hpet=force").hpet_off);
        assert!(!Boot::parse("hpet=force,verbose").hpet_off);
        assert_eq!(Boot::parse("quiet nosmp tscx=1 hpetx"), Boot::default());
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in "\\PC{0,200}") {
            let _ = Boot::parse(&line);
        }

        #[test]
        fn the_last_clocksource_counts(names in proptest::collection::vec("[a-z_]{1,9}", 1..5)) {
            let line: Vec<String> = names.iter().map(|n| format!("clocksource={n}")).collect();
            prop_assert_eq!(Boot::parse(&line.join(" ")).clocksource, names.last().cloned());
        }
    }
}
