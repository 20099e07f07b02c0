//! Rights that the daemon gives up once everything is open.

use std::path::Path;

use truechimer_confine::{CapabilitySet, Confined, Rules};

use truechimer_engine::{Authentication, NTS_PORT, RefClockKind, SourceConfig, Transport};
use truechimer_stamp::pps::card::Input;

use crate::config::{Place, Settings};
use crate::control;

/// The directory of devices. One that is plugged in again is another file there.
const DEVICES: &str = "/dev";

/// Rules that are in force, if any are.
#[derive(Debug, Default)]
pub(crate) enum Sandbox {
    /// None: it is not wanted.
    #[default]
    Off,
    /// None: a clock simulator has replaced system calls.
    Simulated,
    /// These.
    In(Rules, Box<Confined>),
}

impl Sandbox {
    /// Confines this thread, and those that it starts from now on.
    pub(crate) fn enter(rules: Option<Rules>) -> Sandbox {
        match rules {
            None => Sandbox::Off,
            Some(_) if truechimer_counter::is_simulated() => Sandbox::Simulated,
            Some(rules) => {
                let confined = rules.apply();
                Sandbox::In(rules, Box::new(confined))
            }
        }
    }

    /// For the log.
    pub(crate) fn note(&self) -> Option<String> {
        match self {
            Sandbox::Off => None,
            Sandbox::Simulated => Some("no sandbox: the clocks are a simulator's".into()),
            Sandbox::In(_, confined) => Some(confined.to_string()),
        }
    }

    /// Complaint about what a new configuration needs and the rules do not allow.
    pub(crate) fn shut_out(&self, wanted: &Rules) -> Option<String> {
        let Sandbox::In(rules, _) = self else { return None };
        let lacking = rules.lacking(wanted);
        (!lacking.is_empty()).then(|| {
            format!(
                "the sandbox was made for the configuration of the start, and shuts out {}: restart \
                 the daemon",
                lacking.join(", ")
            )
        })
    }
}

/// Rules for a daemon with these settings, this page, and its state in these files.
pub(crate) fn rules<'a>(
    settings: &Settings,
    page: &Path,
    state: impl Iterator<Item = &'a Path>,
) -> Rules {
    let mut rules = Rules::service();
    rules.filter_calls(settings.seccomp);
    rules.read_folder_of("/run/nscd/socket".as_ref());
    if let Some(config) = &settings.file {
        rules.read_folder_of(config);
    }
    if let Place::At(list) = &settings.leap_file {
        rules.read_folder_of(list);
    }
    rules.write_folder_of(page);
    state.for_each(|path| rules.write_folder_of(path));
    match &settings.control {
        Place::At(path) => rules.write_folder_of(path),
        Place::Default => rules.write_folder_of(&control::default_path(page)),
        Place::None => {}
    }
    if let Some(path) = settings.metrics.as_ref().and_then(|listen| listen.path()) {
        rules.write_folder_of(path);
    }
    if let Some(wanted) = &settings.clockbound {
        rules.write_folder_of(&wanted.directory.join("shm"));
    }
    if let Some(record) = &settings.audit {
        rules.write_folder_of(&record.directory.join("record"));
    }
    for refclock in &settings.engine.refclocks {
        let path = Path::new(&refclock.path);
        match refclock.kind {
            RefClockKind::Pulse => {
                if Input::is_meant(&refclock.path) {
                    let input = refclock.path.parse::<Input>();
                    rules.write_device(input.as_ref().map_or(path, |input| &input.device));
                    continue;
                }
            }
            // Which device it is may change; a clock's error bound is among what every service reads.
            RefClockKind::Phc => {
                rules.device(DEVICES.as_ref());
                continue;
            }
            // Shared memory is no file.
            RefClockKind::Shm => continue,
            // A device, or for trials a file.
            RefClockKind::Vmclock if path.starts_with(DEVICES) => {
                rules.device(DEVICES.as_ref());
                continue;
            }
            RefClockKind::Vmclock => {
                rules.read_folder_of(path);
                continue;
            }
            RefClockKind::Sock => {
                rules.write_folder_of(path);
                continue;
            }
        }
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.starts_with(DEVICES) || target.starts_with(DEVICES) {
            rules.device(DEVICES.as_ref());
            // To have edges captured.
            rules.keep(CapabilitySet::SYS_TIME);
        } else {
            rules.read_folder_of(path);
        }
    }
    let exchanged = |source: &&SourceConfig| source.authentication == Authentication::Nts;
    for source in settings.engine.sources.iter().filter(exchanged) {
        rules.connect(source.port);
    }
    if let Some(directory) = &settings.source_dir {
        rules.read_folder_of(&directory.join("file"));
        // A file there may name servers that prove themselves.
        rules.connect(NTS_PORT);
    }
    for path in settings.nts_ca.iter().chain(&settings.key_file) {
        rules.read_folder_of(path);
    }
    for ptp in settings.engine.sources.iter().filter_map(|source| source.ptp.as_ref()) {
        // A port is opened again when its interface comes back.
        rules.keep(match ptp.transport {
            Transport::Ethernet => CapabilitySet::NET_RAW,
            _ => CapabilitySet::NET_BIND_SERVICE,
        });
    }
    if settings.engine.discipline {
        rules.keep(CapabilitySet::SYS_TIME);
    }
    if settings.lock_memory {
        // Memory that is taken later is locked as well, beyond the limit of those without it.
        rules.keep(CapabilitySet::IPC_LOCK);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_engine::{Config, PtpConfig, RefClockConfig};

    fn of(engine: Config) -> Rules {
        let settings = Settings { engine, ..Settings::default() };
        rules(&settings, "/run/truechimer/clock".as_ref(), std::iter::empty())
    }

    #[test]
    fn rights_that_the_settings_take() {
        let plain = of(Config::default());
        let steered = of(Config { discipline: true, ..Config::default() });
        assert_eq!(plain.lacking(&steered), ["CAP_SYS_TIME"]);
        assert!(steered.lacking(&plain).is_empty());
        let pulse = |path: &str| {
            of(Config { refclocks: vec![RefClockConfig::pulse(path)], ..Config::default() })
        };
        assert_eq!(plain.lacking(&pulse("/dev/pps9")), ["devices in /dev", "CAP_SYS_TIME"]);
        assert_eq!(
            plain.lacking(&pulse("/dev/ptp9:channel=1")),
            ["writing in /dev/ptp9", "devices in /dev/ptp9"]
        );
        assert!(plain.lacking(&pulse("/sys/class/pps/pps9/assert")).is_empty());
        let other = |kind, path: &str| {
            let refclock = RefClockConfig::new(kind, path, truechimer_time::Span::from_micros(1));
            of(Config { refclocks: vec![refclock], ..Config::default() })
        };
        assert_eq!(plain.lacking(&other(RefClockKind::Phc, "eth0")), ["devices in /dev"]);
        assert!(plain.lacking(&other(RefClockKind::Shm, "0")).is_empty());
        let sock = plain.lacking(&other(RefClockKind::Sock, "/no-such-folder/s.sock"));
        assert!(sock.len() == 1 && sock[0].contains("/no-such-folder"), "{sock:?}");
        let port = of(Config { sources: vec![SourceConfig::ptp("eth0")], ..Config::default() });
        assert_eq!(plain.lacking(&port), ["CAP_NET_BIND_SERVICE"]);
        let ptp = PtpConfig { transport: Transport::Ethernet, ..PtpConfig::default() };
        let source = SourceConfig { ptp: Some(ptp), ..SourceConfig::ptp("eth0") };
        let raw = of(Config { sources: vec![source], ..Config::default() });
        assert_eq!(plain.lacking(&raw), ["CAP_NET_RAW"]);
        let locked = Settings { lock_memory: true, ..Settings::default() };
        let locked = rules(&locked, "/run/truechimer/clock".as_ref(), std::iter::empty());
        assert_eq!(plain.lacking(&locked), ["CAP_IPC_LOCK"]);
    }

    #[test]
    fn a_new_configuration_that_is_shut_out_is_told() {
        let (plain, steered) =
            (of(Config::default()), of(Config { discipline: true, ..Config::default() }));
        assert_eq!(Sandbox::Off.shut_out(&steered), None);
        assert_eq!(Sandbox::enter(None).note(), None);
        // Not applied: that would be for good, and for this thread of the tests.
        let confined = std::thread::spawn(|| Rules::service().apply()).join().unwrap();
        let sandbox = Sandbox::In(plain.clone(), Box::new(confined));
        assert!(sandbox.note().unwrap().starts_with("sandbox: "));
        assert_eq!(sandbox.shut_out(&plain), None);
        let told = sandbox.shut_out(&steered).unwrap();
        assert!(told.contains("shuts out CAP_SYS_TIME: restart"), "{told}");
    }
}
