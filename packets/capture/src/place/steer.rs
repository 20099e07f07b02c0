//! Where the kernel receives packets, for a while.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::Machine;

/// An interface's receive interrupts and packet steering (RPS), on one processor as long as this
/// lives: put back when this is dropped, also by an error or a panic on the way, and by a small
/// process that stays behind if this one is killed.
///
/// What somebody else changed meanwhile is left as it is.
#[derive(Debug)]
pub struct Steered {
    changes: Vec<Change>,
    watch: Option<Child>,
}

/// A file that was written to.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Change {
    file: PathBuf,
    /// Content before.
    before: String,
    /// Content that the kernel made of what was written.
    ours: String,
}

/// Waits for a word, or for the end of whoever was to say it: then each file (the arguments are
/// file, what is in it, what was in it) is put back, if it is still as it was left. Signals from
/// the terminal are for the other one.
const WATCH: &str = r#"
trap '' INT TERM HUP QUIT
read -r word && exit
while [ $# -ge 3 ]; do
    now=
    IFS= read -r now < "$1"
    [ "$now" = "$2" ] && printf '%s\n' "$3" > "$1"
    shift 3
done
"#;

impl Steered {
    /// Has everything that `interface` receives processed on `cpu`, as far as the kernel lets us,
    /// and says what it did not.
    #[must_use]
    pub fn to(machine: &Machine, interface: &str, cpu: usize) -> (Steered, Vec<String>) {
        let mut steered = Steered { changes: Vec::new(), watch: None };
        let mut said = Vec::new();
        let cannot = |what: &str, why: &io::Error| {
            let mend = match why.kind() {
                io::ErrorKind::ReadOnlyFilesystem => {
                    ": /sys or /proc is read-only here, as in containers; set it on the host"
                }
                io::ErrorKind::PermissionDenied => ": it takes root on the host itself",
                _ => "",
            };
            format!("softirq={cpu}: {what}: {why}{mend}")
        };
        let queues = machine.queues(interface);
        if queues.is_empty() {
            let folder = machine.net(interface);
            said.push(format!(
                "softirq={cpu}: no receive queue of {interface} in {}: packet steering is left as \
                 it is",
                folder.display()
            ));
        }
        for file in queues {
            if let Err(why) = steered.change(&file, &mask(cpu)) {
                said.push(cannot(&file.display().to_string(), &why));
            }
        }
        let (mut refused, mut last) = (0, None);
        let interrupts = machine.interrupts(interface);
        for number in &interrupts {
            let file = machine.proc.join(format!("irq/{number}/smp_affinity_list"));
            if let Err(why) = steered.change(&file, &cpu.to_string()) {
                (refused, last) = (refused + 1, Some(why));
            }
        }
        if let Some(why) = last {
            // Usually all of them for the same reason, as where the kernel manages them itself.
            let what = format!(
                "{refused} of {} interrupts of {interface} stay where they are",
                interrupts.len()
            );
            said.push(cannot(&what, &why));
        }
        if !steered.changes.is_empty()
            && let Err(why) = steered.watch()
        {
            said.push(format!(
                "nothing will put packet steering back if this process is killed (sh: {why}); \
                 otherwise it is put back"
            ));
        }
        (steered, said)
    }

    /// Number of its changes, for people: "3 files".
    #[must_use]
    pub fn changed(&self) -> usize {
        self.changes.len()
    }

    fn change(&mut self, file: &Path, value: &str) -> io::Result<()> {
        let before = read(file)?;
        fs::write(file, value)?;
        let ours = read(file)?;
        if ours != before {
            self.changes.push(Change { file: file.to_owned(), before, ours });
        }
        Ok(())
    }

    fn watch(&mut self) -> io::Result<()> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCH, "truechimer-steering"]);
        for Change { file, before, ours } in &self.changes {
            command.arg(file).arg(ours).arg(before);
        }
        // Not among those that the terminal interrupts, and holding nobody's output open.
        command.process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.watch = Some(command.spawn()?);
        Ok(())
    }

    /// Puts everything back; what could not be, or was left as somebody else has it: a line each.
    /// Dropping does the same, but tells nobody.
    pub fn restore(mut self) -> Vec<String> {
        self.put_back()
    }

    fn put_back(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for Change { file, before, ours } in std::mem::take(&mut self.changes) {
            let shown = file.display();
            match read(&file) {
                Ok(now) if now == ours => {
                    if let Err(why) = fs::write(&file, &before) {
                        said.push(format!(
                            "{shown} could not be put back: {why}; by hand: echo {before} > {shown}"
                        ));
                    }
                }
                Ok(now) => said.push(format!(
                    "somebody else has changed {shown} to '{now}' meanwhile; it is left so (it was \
                     '{before}')"
                )),
                // The interface has gone, and its settings with it.
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => said.push(format!("{shown}: {why}; it was '{before}'")),
            }
        }
        if let Some(mut watch) = self.watch.take() {
            if let Some(mut input) = watch.stdin.take() {
                // If it is gone there is nobody to tell.
                let _ = input.write_all(b"done\n");
            }
            let _ = watch.wait();
        }
        said
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        self.put_back();
    }
}

impl Machine {
    fn net(&self, interface: &str) -> PathBuf {
        self.sys.join("class/net").join(interface)
    }

    /// The files that steer each of an interface's receive queues.
    fn queues(&self, interface: &str) -> Vec<PathBuf> {
        let queues = entries(&self.net(interface).join("queues"));
        let receive = queues.into_iter().filter(|name| name.starts_with("rx-"));
        let queues = self.net(interface).join("queues");
        receive.map(|name| queues.join(name).join("rps_cpus")).collect()
    }

    /// The numbers of an interface's interrupts.
    fn interrupts(&self, interface: &str) -> Vec<u32> {
        let device = self.net(interface).join("device");
        let numbers = |folder: &Path| -> Vec<u32> {
            let mut numbers: Vec<_> =
                entries(folder).iter().filter_map(|name| name.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        };
        let mut found = numbers(&device.join("msi_irqs"));
        let subsystem = fs::read_link(device.join("subsystem")).unwrap_or_default();
        if found.is_empty() && subsystem.file_name().is_some_and(|name| name == "virtio") {
            // They belong to the PCI device around it.
            found = numbers(&device.join("../msi_irqs"));
        }
        if found.is_empty() {
            let table = fs::read_to_string(self.proc.join("interrupts")).unwrap_or_default();
            found = table.lines().filter_map(|line| named(line, interface)).collect();
        }
        found
    }
}

/// The number of an interrupt, from its line in `/proc/interrupts`, if it has the interface's
/// name: `eth0`, `eth0-rx-1`.
fn named(line: &str, interface: &str) -> Option<u32> {
    let (number, rest) = line.split_once(':')?;
    let is_its = |word: &str| {
        word.strip_prefix(interface).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    rest.split([' ', ',']).any(is_its).then(|| number.trim().parse().ok())?
}

/// The names in a folder; none if it cannot be read.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn read(file: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(file)?.trim_end().to_owned())
}

/// A processor as the kernel takes a set of them: 32 a word, the highest first, in hexadecimal.
fn mask(cpu: usize) -> String {
    let mut text = format!("{:x}", 1_u32 << (cpu % 32));
    for _ in 0..cpu / 32 {
        text.push_str(",00000000");
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A folder that stands for the machine, gone in the end.
    pub struct Folder(PathBuf);

    impl Folder {
        pub fn new(name: &str) -> Folder {
            let id = std::process::id();
            let folder = std::env::temp_dir().join(format!("truechimer-place-{name}-{id}"));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }

        pub fn put(&self, file: &str, text: &str) {
            let file = self.0.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        pub fn get(&self, file: &str) -> String {
            fs::read_to_string(self.0.join(file)).unwrap().trim_end().to_owned()
        }

        pub fn machine(&self) -> Machine {
            Machine { sys: self.0.join("sys"), proc: self.0.join("proc") }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const QUEUES: [&str; 2] =
        ["sys/class/net/eth7/queues/rx-0/rps_cpus", "sys/class/net/eth7/queues/rx-1/rps_cpus"];
    const INTERRUPT: &str = "proc/irq/38/smp_affinity_list";

    /// Two queues, one interrupt of its own and one of somebody else's.
    fn folder(name: &str) -> Folder {
        let folder = Folder::new(name);
        for queue in QUEUES {
            folder.put(queue, "3\n");
        }
        folder.put("sys/class/net/eth7/queues/tx-0/xps_cpus", "3\n");
        folder.put("sys/class/net/eth7/device/msi_irqs/38", "msix\n");
        folder.put(INTERRUPT, "0-1\n");
        folder.put("proc/irq/39/smp_affinity_list", "0-1\n");
        folder
    }

    fn state(folder: &Folder) -> [String; 3] {
        [folder.get(QUEUES[0]), folder.get(QUEUES[1]), folder.get(INTERRUPT)]
    }

    #[test]
    fn all_is_steered_and_put_back() {
        let folder = folder("back");
        let (steered, said) = Steered::to(&folder.machine(), "eth7", 33);
        assert!(said.is_empty() && steered.changed() == 3, "{said:?}");
        assert_eq!(state(&folder), ["2,00000000", "2,00000000", "33"]);
        assert_eq!(folder.get("proc/irq/39/smp_affinity_list"), "0-1");
        assert_eq!(folder.get("sys/class/net/eth7/queues/tx-0/xps_cpus"), "3");
        assert!(steered.restore().is_empty());
        assert_eq!(state(&folder), ["3", "3", "0-1"]);
    }

    #[test]
    fn it_is_put_back_after_a_panic() {
        let folder = folder("panic");
        let panicked = std::panic::catch_unwind(|| {
            let _steered = Steered::to(&folder.machine(), "eth7", 0);
            assert_eq!(state(&folder), ["3", "3", "0-1"], "no: this is the panic");
        });
        assert!(panicked.is_err());
        assert_eq!(state(&folder), ["3", "3", "0-1"]);
    }

    #[test]
    fn whoever_is_killed_has_it_put_back() {
        let folder = folder("killed");
        let (mut steered, _) = Steered::to(&folder.machine(), "eth7", 0);
        folder.put(QUEUES[1], "2\n");
        let mut watch = steered.watch.take().unwrap();
        // All that the other process sees of a kill is that its input ends.
        drop(watch.stdin.take());
        watch.wait().unwrap();
        assert_eq!(state(&folder), ["3", "2", "0-1"], "but for what somebody else has set");
        steered.changes.clear();
    }

    #[test]
    fn somebody_elses_change_stays_and_what_is_gone_is_gone() {
        let folder = folder("theirs");
        let (steered, _) = Steered::to(&folder.machine(), "eth7", 0);
        folder.put(QUEUES[0], "2\n");
        fs::remove_file(folder.0.join(INTERRUPT)).unwrap();
        let said = steered.restore();
        assert!(said.len() == 1 && said[0].contains("somebody else"), "{said:?}");
        assert_eq!((folder.get(QUEUES[0]), folder.get(QUEUES[1])), ("2".into(), "3".into()));
    }

    #[test]
    fn what_cannot_be_steered_is_told() {
        let folder = Folder::new("nothing");
        folder.put("proc/interrupts", " 38:  1  2  IO-APIC  eth7\n");
        let (steered, said) = Steered::to(&folder.machine(), "eth7", 0);
        assert_eq!(steered.changed(), 0);
        assert!(said[0].contains("no receive queue of eth7"), "{said:?}");
        assert!(said[1].contains("1 of 1 interrupts"), "{said:?}");
    }

    #[test]
    fn interrupts_by_their_names() {
        let line = " 38:   0   25558   PCI-MSIX-0000:00:03.0   1-edge      eth7-TxRx-0";
        assert_eq!(named(line, "eth7"), Some(38));
        assert_eq!(named(line, "eth"), None);
        assert_eq!(named(" 24:  1  0  IO-APIC  5-edge  ahci, eth7", "eth7"), Some(24));
        assert_eq!(named("NMI:  0  0  eth7", "eth7"), None);
        assert_eq!(named("           CPU0       CPU1", "eth7"), None);
    }
}
