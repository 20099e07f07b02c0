//! A network namespace for each test, with a wire in it, and tcpdump beside our tap.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use truechimer_capture::packet::PacketTap;
use truechimer_capture::{Chunk, Direction, Next, RawStamp, Tap};
use truechimer_testbed::binary;
use truechimer_testbed::lacking::{Lacking, or_skip};

/// The ends of the wire: frames sent to one arrive at the other.
pub const HERE: &str = "wire-c0";
pub const THERE: &str = "wire-c1";

/// Says to a test that it runs in a namespace of its own.
const INSIDE: &str = "TRUECHIMER_TEST_INSIDE";

/// Runs the calling test again in a network namespace with a wire, unless it runs there already:
/// then this is true. `setpriv` options take rights from it.
pub fn inside_with(privileges: &[&str]) -> bool {
    let name = std::thread::current().name().expect("tests have names").to_owned();
    if std::env::var(INSIDE).as_deref() == Ok(&name) {
        return true;
    }
    let Some(mut command) = or_skip(namespace()) else { return false };
    command.args(["--", "sh", "-c", WIRE, HERE, THERE]);
    command.arg("setpriv").args(["--pdeathsig", "KILL"]).args(privileges).arg("--");
    command.arg(std::env::current_exe().expect("a test has a program"));
    command.args(["--exact", &name, "--nocapture", "--test-threads", "1"]);
    let output = command.env(INSIDE, &name).output().expect("unshare runs");
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| line.starts_with("SKIPPED")) {
        // Past the test harness, which would keep it to itself.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    false
}

/// With all rights.
pub fn inside() -> bool {
    inside_with(&[])
}

/// Makes the wire, with nothing on it that we did not send, and goes on with what follows.
const WIRE: &str = r#"
    set -e
    for each in default all; do
        [ ! -e /proc/sys/net/ipv6/conf/$each/disable_ipv6 ] ||
            echo 1 >/proc/sys/net/ipv6/conf/$each/disable_ipv6
    done
    ip link set lo up
    ip link add "$0" type veth peer name "$1"
    ip link set "$0" arp off up
    ip link set "$1" arp off up
    shift
    exec "$@"
"#;

fn namespace() -> Result<Command, Lacking> {
    let mut why = String::new();
    // Root, or a user who keeps his name but gets all rights in there: tcpdump, which as root
    // changes to another user, would find none in a user namespace.
    for way in [["-n"].as_slice(), &["-c", "--keep-caps", "-n"]] {
        let mut trial = Command::new("unshare");
        trial.args(way).args(["--", "sh", "-c", WIRE, HERE, THERE, "true"]);
        match trial.output() {
            Ok(output) if output.status.success() => {
                let mut command = Command::new("unshare");
                command.args(way);
                return Ok(command);
            }
            Ok(output) => why = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => why = format!("unshare: {error}"),
        }
    }
    Err(Lacking(format!("no network namespace with a veth pair: {why}")))
}

pub fn ip(arguments: &[&str]) {
    let status = Command::new(binary::system("ip")).args(arguments).status().expect("ip runs");
    assert!(status.success(), "ip {arguments:?}");
}

/// A packet socket without a ring.
fn packet_socket(interface: &str, protocol: i32) -> OwnedFd {
    let index = truechimer_capture::link::Link::named(interface).unwrap().index;
    // SAFETY: all zeros is a valid `sockaddr_ll`, and the call gets one of that length.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (protocol as u16).to_be();
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
        OwnedFd::from_raw_fd(fd)
    }
}

/// Queues what comes.
pub struct Listener(OwnedFd);

impl Listener {
    pub fn new(interface: &str) -> Listener {
        Listener(packet_socket(interface, libc::ETH_P_ALL))
    }

    /// Frames that are queued now.
    pub fn queued(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let mut frame = vec![0_u8; 2000];
            let (fd, room) = (self.0.as_raw_fd(), frame.as_mut_ptr().cast());
            // SAFETY: as much room as is said.
            let got = unsafe { libc::recv(fd, room, frame.len(), libc::MSG_DONTWAIT) };
            let Ok(got) = usize::try_from(got) else { return all };
            frame.truncate(got);
            all.push(frame);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends frames as they are.
pub struct Sender(OwnedFd);

impl Sender {
    pub fn new(interface: &str) -> Sender {
        Sender(packet_socket(interface, 0))
    }

    pub fn send(&self, frame: &[u8]) {
        while !self.sends(frame) {}
    }

    /// True where one is taken: not by a full queue, nor by an end that is dropping it.
    pub fn sends(&self, frame: &[u8]) -> bool {
        // SAFETY: as many bytes as are said.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        let why = std::io::Error::last_os_error();
        let is_taken = sent == frame.len() as isize;
        assert!(is_taken || why.raw_os_error() == Some(libc::ENOBUFS), "{why}");
        is_taken
    }
}

/// A packet as it came, its tag where it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Came {
    pub bytes: Vec<u8>,
    pub length: u32,
    pub direction: Direction,
    pub stamp: RawStamp,
}

impl Came {
    /// Packet as a capture file would have it.
    pub fn seen(&self) -> Seen {
        Seen { bytes: self.bytes.clone(), length: self.length }
    }
}

/// A packet as it stands in a capture file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub bytes: Vec<u8>,
    pub length: u32,
}

/// The packets of a chunk.
pub fn take(chunk: &dyn Chunk, came: &mut Vec<Came>) {
    chunk.for_each(&mut |packet| {
        let mut bytes = packet.data.to_vec();
        let mut length = packet.length;
        if let Some(tag) = packet.tag {
            bytes.splice(12..12, tag);
            length += 4;
        }
        let (direction, stamp) = (packet.direction, packet.stamp);
        came.push(Came { bytes, length, direction, stamp });
    });
}

/// Ends the capture and takes what is left of it.
pub fn rest(tap: &mut PacketTap) -> Vec<Came> {
    tap.stop().unwrap();
    let mut came = Vec::new();
    loop {
        match tap.next(Duration::from_millis(100)).unwrap() {
            Next::Chunk(chunk) => {
                let before = came.len();
                take(&*chunk, &mut came);
                assert_eq!(came.len() - before, chunk.len());
            }
            Next::Nothing => return came,
            Next::Down | Next::Up | Next::Gone => panic!("the interface changed"),
        }
    }
}

/// A running tcpdump.
pub struct Tcpdump {
    child: Child,
    file: std::path::PathBuf,
}

impl Tcpdump {
    pub fn start(
        dir: &Path,
        interface: &str,
        options: &[&str],
        filter: &str,
    ) -> Result<Tcpdump, Lacking> {
        let file = dir.join("tcpdump.pcap");
        let log = dir.join("tcpdump.log");
        let mut command = Command::new(binary::system("tcpdump"));
        command.args(["-i", interface, "-n", "--immediate-mode", "-U", "-B", "65536"]);
        command.args(["--time-stamp-precision", "nano"]);
        command.args(options).arg("-w").arg(&file).arg(filter);
        let errors = File::create(&log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        let mut child = child.map_err(|error| Lacking(format!("tcpdump: {error}")))?;
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.contains("listening on") {
                return Ok(Tcpdump { child, file });
            }
            assert!(
                child.try_wait().unwrap().is_none() && Instant::now() < end,
                "tcpdump does not start: {said}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it, once it has written as many packets as there must be (or will not any more).
    pub fn finish(mut self, expected: usize) -> Vec<Seen> {
        let end = Instant::now() + Duration::from_secs(10);
        while self.packets().len() < expected && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = self.child.id() as i32;
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(pid, libc::SIGINT) };
        self.child.wait().unwrap();
        self.packets()
    }

    fn packets(&self) -> Vec<Seen> {
        packets(&std::fs::read(&self.file).unwrap_or_default())
    }
}

/// Choice of tcpdump from frames in a file.
pub fn chosen_from_file(
    dir: &Path,
    frames: &[Vec<u8>],
    snap_length: u32,
    filter: &str,
) -> Vec<Seen> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, snap_length, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    for frame in frames {
        let kept = &frame[..frame.len().min(snap_length as usize)];
        for word in [0, 0, kept.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(kept);
    }
    let file = dir.join("all.pcap");
    std::fs::write(&file, bytes).unwrap();
    let output = Command::new(binary::system("tcpdump"))
        .arg("-r")
        .arg(file)
        .args(["-w", "-", "-Z", "root", filter])
        .output()
        .expect("tcpdump runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    packets(&output.stdout)
}

/// The packets of a capture file of this machine's byte order, as far as it is whole.
fn packets(bytes: &[u8]) -> Vec<Seen> {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(word.try_into().unwrap()))
    };
    let mut at = 24;
    let mut seen = Vec::new();
    while let (Some(kept), Some(length)) = (word(at + 8), word(at + 12)) {
        let Some(packet) = bytes.get(at + 16..at + 16 + kept as usize) else { break };
        seen.push(Seen { bytes: packet.to_vec(), length });
        at += 16 + kept as usize;
    }
    seen
}

impl Drop for Tcpdump {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
