//! Idle states of the CPUs: in the deeper ones old counters stop.

use serde::Serialize;

use super::sources::Sources;

/// More states than any driver has.
const STATES: usize = 32;

/// The kernel's idle states.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Idle {
    /// The driver (`intel_idle`, `acpi_idle`, `haltpoll`, …); `none` where there is none.
    pub driver: String,
    /// The states of the first CPU that has any, shallowest first.
    pub states: Vec<State>,
}

/// One idle state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct State {
    /// Name (`POLL`, `C1`, `C6`, …).
    pub name: String,
    /// Time that it takes to wake from it, µs.
    pub latency_us: Option<u64>,
    /// On how many CPUs it is switched off, of how many that have it.
    pub off: u32,
    /// Number of CPUs that have it.
    pub of: u32,
}

impl State {
    /// True if a CPU may enter it.
    #[must_use]
    pub fn on(&self) -> bool {
        self.off < self.of
    }

    /// True if counters without power of their own may stop in it: anything deeper than C1.
    #[must_use]
    pub fn deep(&self) -> bool {
        let name = self.name.to_ascii_uppercase();
        let shallow = ["POLL", "C0", "C1", "C1E", "C1_ACPI", "WFI"];
        !shallow.contains(&name.as_str()) && !name.starts_with("HALTPOLL")
    }
}

impl Idle {
    /// Reads them.
    ///
    /// # Errors
    /// Where `/sys` does not say.
    pub fn read(sources: &Sources, cpus: &[u32]) -> Result<Idle, String> {
        let driver = sources.sys("devices/system/cpu/cpuidle/current_driver")?;
        let folder = |cpu: u32, n: usize| format!("devices/system/cpu/cpu{cpu}/cpuidle/state{n}");
        let mut states: Vec<State> = Vec::new();
        for &cpu in cpus {
            for n in 0..STATES {
                let Ok(name) = sources.sys(&format!("{}/name", folder(cpu, n))) else { break };
                let off = sources.sys(&format!("{}/disable", folder(cpu, n)));
                let off = u32::from(off.is_ok_and(|off| off != "0"));
                if let Some(state) = states.iter_mut().find(|state| state.name == name) {
                    state.off += off;
                    state.of += 1;
                } else if states.len() < STATES {
                    let latency = sources.sys(&format!("{}/latency", folder(cpu, n)));
                    let latency_us = latency.ok().and_then(|text| text.parse().ok());
                    let name = name.chars().filter(|c| !c.is_control()).take(32).collect();
                    states.push(State { name, latency_us, off, of: 1 });
                }
            }
        }
        Ok(Idle { driver, states })
    }

    /// The names of the deep states that a CPU may enter.
    #[must_use]
    pub fn deep(&self) -> Vec<&str> {
        let deep = self.states.iter().filter(|state| state.deep() && state.on());
        deep.map(|state| state.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deep_goes_by_its_name() {
        let state = |name: &str, off| State { name: name.into(), latency_us: None, off, of: 4 };
        for name in ["POLL", "C1", "C1E", "WFI", "haltpoll idle"] {
            assert!(!state(name, 0).deep(), "{name}");
        }
        let states = vec![state("C1", 0), state("C6", 3), state("C8", 4), state("cpu-sleep-0", 0)];
        let idle = Idle { driver: "intel_idle".into(), states };
        assert_eq!(idle.deep(), ["C6", "cpu-sleep-0"], "C8 is off on all");
    }
}
