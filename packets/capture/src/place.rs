//! Which processors do what: threads, receive interrupts and queues, put back in the end.

mod steer;

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use truechimer_counter::affinity::Cpus;
use truechimer_counter::cpu_list;

pub use steer::Steered;

/// Which processor does which part of the work; `None`: whichever the scheduler likes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cores {
    /// The thread that takes packets from the ring.
    pub capture: Option<usize>,
    /// The thread that converts stamps and writes.
    pub convert: Option<usize>,
    /// The kernel's part: the receive interrupts of the interface, and what they leave to be done.
    pub softirq: Option<usize>,
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Cores, String> {
        let mut cores = Cores::default();
        for part in text.split(',') {
            let (name, cpu) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' is not of the form PART=CPU, as capture=1"))?;
            let place = match name.trim() {
                "capture" => &mut cores.capture,
                "convert" => &mut cores.convert,
                "softirq" => &mut cores.softirq,
                _ => return Err(format!("no part '{name}': capture, convert or softirq")),
            };
            let cpu = cpu.trim();
            let one = cpu_list(cpu).filter(|_| cpu.bytes().all(|byte| byte.is_ascii_digit()));
            match one.as_deref() {
                Some([cpu]) if place.is_none() => *place = Some(*cpu as usize),
                Some([_]) => return Err(format!("'{name}' is there twice")),
                _ => return Err(format!("'{cpu}' is not the number of a processor, from 0 on")),
            }
        }
        Ok(cores)
    }
}

/// Where the kernel tells of processors, interrupts and interfaces; another place in tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    sys: PathBuf,
    proc: PathBuf,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { sys: "/sys".into(), proc: "/proc".into() }
    }
}

impl Machine {
    /// The processors in `/sys/devices/system/cpu/NAME`.
    fn cpus(&self, name: &str) -> Option<Vec<u32>> {
        cpu_list(&fs::read_to_string(self.sys.join("devices/system/cpu").join(name)).ok()?)
    }
}

impl Cores {
    /// Finds what can be had of it on this machine, and what is wrong with the rest, or unwise: a
    /// line for each. Nothing of that is a reason not to capture. With `inline` there is no
    /// conversion thread.
    #[must_use]
    pub fn check(mut self, machine: &Machine, inline: bool) -> (Cores, Vec<String>) {
        let mut said = Vec::new();
        if inline && self.convert.take().is_some() {
            said.push("convert=… means nothing with --inline: there is one thread only".to_owned());
        }
        let (online, present) = (machine.cpus("online"), machine.cpus("present"));
        let allowed = Cpus::allowed().ok();
        let has = |list: &Option<Vec<u32>>, cpu: usize| {
            list.as_ref().is_none_or(|cpus| cpus.contains(&(cpu as u32)))
        };
        for (name, place) in self.each() {
            let Some(cpu) = *place else { continue };
            let why = if has(&online, cpu) {
                let allowed = allowed.as_ref().is_none_or(|allowed| allowed.contains(cpu));
                // Interrupts have no cpuset.
                if allowed || name == "softirq" {
                    continue;
                }
                "may not be used by this process (taskset, cpuset or container)"
            } else if present.is_some() && has(&present, cpu) {
                "is offline"
            } else {
                "does not exist"
            };
            said.push(format!("{name}={cpu}: CPU {cpu} {why}; {name} runs anywhere"));
            *place = None;
        }
        self.collide(online.map_or(usize::MAX, |cpus| cpus.len()), &mut said);
        let isolated = machine.cpus("isolated").unwrap_or_default();
        if let Some(cpu) = self.softirq
            && isolated.contains(&(cpu as u32))
        {
            said.push(format!(
                "softirq={cpu}: CPU {cpu} is isolated; the kernel may refuse to process packets \
                 there"
            ));
        }
        (self, said)
    }

    fn each(&mut self) -> [(&'static str, &mut Option<usize>); 3] {
        [
            ("capture", &mut self.capture),
            ("convert", &mut self.convert),
            ("softirq", &mut self.softirq),
        ]
    }

    /// Two that share a processor wait for each other.
    fn collide(&self, online: usize, said: &mut Vec<String>) {
        let pairs = [
            ("capture", self.capture, "convert", self.convert, "slower"),
            ("capture", self.capture, "softirq", self.softirq, "lost when they come fast"),
            ("convert", self.convert, "softirq", self.softirq, "lost when they come fast"),
        ];
        for (one, cpu, other, same, fate) in pairs {
            if let Some(cpu) = cpu
                && Some(cpu) == same
            {
                let mend = if online < 2 { "" } else { "; give each its own" };
                said.push(format!("{one} and {other} share CPU {cpu}: packets are {fate}{mend}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_as_they_are_written() {
        let all: Cores = "capture=1,convert=2,softirq=0".parse().unwrap();
        assert_eq!(all, Cores { capture: Some(1), convert: Some(2), softirq: Some(0) });
        let one: Cores = " convert = 12 ".parse().unwrap();
        assert_eq!(one, Cores { convert: Some(12), ..Cores::default() });
        for (bad, why) in [
            ("", "PART=CPU"),
            ("1", "PART=CPU"),
            ("capture=", "not the number"),
            ("capture=1-2", "not the number"),
            ("capture=-1", "not the number"),
            ("capture=99999", "not the number"),
            ("capture=1,capture=2", "twice"),
            ("reader=1", "no part 'reader'"),
        ] {
            let error = bad.parse::<Cores>().unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    fn machine(name: &str, files: &[(&str, &str)]) -> (steer::tests::Folder, Machine) {
        let folder = steer::tests::Folder::new(name);
        for (file, text) in files {
            folder.put(file, text);
        }
        let machine = folder.machine();
        (folder, machine)
    }

    fn here() -> usize {
        Cpus::allowed().unwrap().iter().next().unwrap()
    }

    #[test]
    fn what_is_not_there_is_told_and_left_out() {
        let cpus = "sys/devices/system/cpu";
        let (online, isolated) = (format!("{cpus}/online"), format!("{cpus}/isolated"));
        let present = format!("{cpus}/present");
        let here = here();
        let (_folder, machine) = machine(
            "cores",
            &[
                (&online, &format!("{here},6000-6002\n")),
                (&present, "0-6010\n"),
                (&isolated, "6001\n"),
            ],
        );
        let cores = Cores { capture: Some(6005), convert: Some(7000), softirq: Some(6001) };
        let (left, said) = cores.check(&machine, false);
        assert_eq!(left, Cores { softirq: Some(6001), ..Cores::default() });
        assert!(said[0].contains("offline") && said[1].contains("does not exist"), "{said:?}");
        assert!(said[2].contains("isolated") && said.len() == 3, "{said:?}");
        let cores = Cores { capture: Some(6000), ..Cores::default() };
        let (left, said) = cores.check(&machine, false);
        assert!(left.capture.is_none() && said[0].contains("may not be used"), "{said:?}");
    }

    #[test]
    fn collisions_are_told_and_kept() {
        let here = Some(here());
        let cores = Cores { capture: here, convert: here, softirq: here };
        let (left, said) = cores.check(&Machine::default(), false);
        assert_eq!((left, said.len()), (cores, 3), "{said:?}");
        let (left, said) = cores.check(&Machine::default(), true);
        assert_eq!((left.convert, said.len()), (None, 2), "{said:?}");
    }
}
