//! Load, in phases: quiet, processor, network.
//!
//! Figures taken on an idle machine say little about a busy one. So the phases of the load
//! alternate while something is measured, and each is looked at by itself: the scenario of "The
//! Case for Feed-Forward Clock Synchronization", section IV-B.
//!
//! The network load goes over the loopback device. There it makes system calls, soft interrupts
//! and, between processors, rescheduling interrupts; **no hardware interrupts**, as those of a
//! network card would be.

mod loader;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use loader::{Done, Loader};

/// Load that the machine is put under in one phase.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Nothing.
    Quiet,
    /// On every processor arithmetic, and memory accesses that miss the caches.
    Cpu,
    /// Small UDP packets over loopback, as many as every processor can send.
    Net,
}

impl Load {
    /// All of them.
    pub const ALL: [Load; 3] = [Load::Quiet, Load::Cpu, Load::Net];

    /// `quiet`, `cpu` or `net`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Load::Quiet => "quiet",
            Load::Cpu => "cpu",
            Load::Net => "net",
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which phases alternate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stress {
    /// None: quiet all the time.
    #[default]
    None,
    /// Quiet, processor, quiet, …
    Cpu,
    /// Quiet, network, quiet, …
    Net,
    /// Quiet, processor, network, quiet, …
    All,
}

impl Stress {
    /// The phases of one round.
    #[must_use]
    pub fn loads(self) -> &'static [Load] {
        match self {
            Stress::None => &[Load::Quiet],
            Stress::Cpu => &[Load::Quiet, Load::Cpu],
            Stress::Net => &[Load::Quiet, Load::Net],
            Stress::All => &[Load::Quiet, Load::Cpu, Load::Net],
        }
    }
}

impl FromStr for Stress {
    type Err = String;

    fn from_str(name: &str) -> Result<Stress, String> {
        match name {
            "none" => Ok(Stress::None),
            "cpu" => Ok(Stress::Cpu),
            "net" => Ok(Stress::Net),
            "all" => Ok(Stress::All),
            other => Err(format!("there is no stress '{other}': use none, cpu, net or all")),
        }
    }
}

impl fmt::Display for Stress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stress::None => "none",
            Stress::Cpu => "cpu",
            Stress::Net => "net",
            Stress::All => "all",
        })
    }
}

/// Phases that alternate, each as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Phases {
    /// Which ones.
    pub stress: Stress,
    /// Length of each of them. Zero: the first one goes on for ever.
    pub each: Duration,
}

impl Phases {
    /// The load at this time since the start.
    #[must_use]
    pub fn at(&self, since_start: Duration) -> Load {
        let loads = self.stress.loads();
        let nth = since_start.as_nanos().checked_div(self.each.as_nanos()).unwrap_or(0);
        let nth = (nth % loads.len() as u128) as usize;
        loads.get(nth).copied().unwrap_or(Load::Quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn phases_alternate() {
        let each = Duration::from_millis(500);
        let at = |stress, ms| Phases { stress, each }.at(Duration::from_millis(ms));
        let row = |stress| [0, 499, 500, 1000, 1500, 2000].map(|ms| at(stress, ms));
        use Load::{Cpu, Net, Quiet};
        assert_eq!(row(Stress::None), [Quiet; 6]);
        assert_eq!(row(Stress::Cpu), [Quiet, Quiet, Cpu, Quiet, Cpu, Quiet]);
        assert_eq!(row(Stress::Net), [Quiet, Quiet, Net, Quiet, Net, Quiet]);
        assert_eq!(row(Stress::All), [Quiet, Quiet, Cpu, Net, Quiet, Cpu]);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for stress in [Stress::None, Stress::Cpu, Stress::Net, Stress::All] {
            assert_eq!(stress.to_string().parse(), Ok(stress));
        }
        assert!("gpu".parse::<Stress>().unwrap_err().contains("use none, cpu, net or all"));
    }

    proptest! {
        #[test]
        fn every_phase_is_as_long_and_one_of_those_asked_for(
            which in 0..4_usize, each_ns in 0..u64::MAX, at in any::<(u64, u32)>(),
        ) {
            let stress = [Stress::None, Stress::Cpu, Stress::Net, Stress::All][which];
            let phases = Phases { stress, each: Duration::from_nanos(each_ns) };
            let at = Duration::new(at.0, at.1 % 1_000_000_000);
            prop_assert!(stress.loads().contains(&phases.at(at)));
            // A whole round later it is the same.
            let round = phases.each.checked_mul(stress.loads().len() as u32);
            if let Some(later) = round.and_then(|round| at.checked_add(round)) {
                prop_assert_eq!(phases.at(at), phases.at(later));
            }
        }
    }
}
