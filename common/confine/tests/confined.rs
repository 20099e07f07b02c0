//! Proof that a confined process cannot do what it should not: each test applies the rules to a
//! process of its own, which is this program once more.
// What panics in a test fails it.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::ErrorKind::PermissionDenied;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use truechimer_confine::{CapabilitySet, Rules, Unlisted};

/// Set to the directory for a process that is to confine itself.
const VARIABLE: &str = "TRUECHIMER_TEST_CONFINED";

/// Runs one test of this file in a process of its own, which finds its directory in the variable.
fn alone(test: &str) {
    let folder =
        std::env::temp_dir().join(format!("truechimer-confine-{test}-{}", std::process::id()));
    for name in ["own", "others", "read"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::write(folder.join("others/shadow"), "root:secret\n").unwrap();
    fs::write(folder.join("read/hosts"), "127.0.0.1 localhost\n").unwrap();
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(VARIABLE, &folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    fs::remove_dir_all(folder).unwrap();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    print!("{said}");
}

fn confined() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

fn status(key: &str) -> String {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap().trim_start_matches(':').trim().to_owned()
}

fn refused<T: std::fmt::Debug>(what: std::io::Result<T>) {
    let why = what.unwrap_err();
    assert_eq!(why.kind(), PermissionDenied, "{why}");
}

#[test]
fn relative_paths_are_those_of_the_start() {
    let Some(folder) = confined() else { return alone("relative_paths_are_those_of_the_start") };
    let rules = || {
        let mut rules = Rules::service();
        rules.read_folder_of("service.toml".as_ref());
        rules.write_folder_of("page".as_ref());
        rules
    };
    std::env::set_current_dir(folder.join("own")).unwrap();
    let begun = rules();
    // Another of the same name: ours is nowhere.
    fs::remove_dir(folder.join("own")).unwrap();
    fs::create_dir(folder.join("own")).unwrap();
    assert!(std::env::current_dir().is_err(), "it is still found");
    assert_eq!(begun.lacking(&rules()), Vec::<String>::new());
}

#[test]
fn files_programs_and_ports() {
    let Some(folder) = confined() else { return alone("files_programs_and_ports") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = File::open(folder.join("others/shadow")).unwrap();
    let mut rules = Rules::service();
    rules.read_folder_of(&folder.join("read/hosts"));
    rules.write_folder_of(&folder.join("own/page"));
    let told = rules.apply().to_string();
    assert_eq!(status("NoNewPrivs"), "1");
    if told.contains("not limited") {
        return skipped(&told);
    }
    // Its own directory, by the steps that a file is replaced in.
    let own = |name: &str| folder.join("own").join(name);
    fs::write(own("new"), "1").unwrap();
    fs::rename(own("new"), own("page")).unwrap();
    assert_eq!(fs::read_to_string(own("page")).unwrap(), "1");
    fs::write(own("page"), "").unwrap();
    drop(std::os::unix::net::UnixListener::bind(own("socket")).unwrap());
    fs::remove_file(own("socket")).unwrap();
    // Settings, by the next file of the name as well; not written.
    fs::read_to_string(folder.join("read/hosts")).unwrap();
    refused(fs::write(folder.join("read/hosts"), "x"));
    // The directories of others: not read, written, listed or emptied, nor by another name of it.
    let shadow = folder.join("others/shadow");
    refused(fs::read(&shadow));
    refused(fs::read_dir(folder.join("others")));
    refused(fs::write(&shadow, "x"));
    refused(File::create(folder.join("others/new")));
    refused(fs::remove_file(&shadow));
    refused(fs::read(folder.join("own/../others/shadow")));
    std::os::unix::fs::symlink(&shadow, own("link")).unwrap_err();
    refused(fs::read("/root/.profile").map_err(|why| match why.kind() {
        std::io::ErrorKind::NotFound => PermissionDenied.into(),
        _ => why,
    }));
    // No program.
    for program in ["/bin/true", "/usr/bin/true", "/bin/sh"] {
        if Path::new(program).exists() {
            refused(Command::new(program).status());
        }
    }
    // What was open stays open; the network for packets, and names, as before.
    assert!(open.metadata().is_ok_and(|meta| meta.len() > 0));
    UdpSocket::bind("127.0.0.1:0").unwrap();
    use std::net::ToSocketAddrs;
    assert!(("localhost", 123).to_socket_addrs().is_ok_and(|mut all| all.next().is_some()));
    fs::read_to_string("/proc/self/statm").unwrap();
    if !told.contains("TCP") {
        refused(TcpListener::bind("127.0.0.1:0"));
        refused(TcpStream::connect(listener.local_addr().unwrap()));
    }
}

#[test]
fn threads_that_come_later() {
    let Some(folder) = confined() else { return alone("threads_that_come_later") };
    let mut rules = Rules::service();
    rules.write_folder_of(&folder.join("own/page"));
    let told = rules.apply().to_string();
    std::thread::spawn(move || {
        assert_eq!(status("NoNewPrivs"), "1");
        assert_eq!(status("CapEff"), "0000000000000000");
        if !told.contains("not limited") {
            refused(fs::read(folder.join("others/shadow")));
        }
    })
    .join()
    .unwrap();
}

#[test]
fn capabilities() {
    if confined().is_none() {
        return alone("capabilities");
    }
    let had = u64::from_str_radix(&status("CapPrm"), 16).unwrap();
    let time = CapabilitySet::SYS_TIME.bits();
    let mut rules = Rules::service();
    rules.keep(CapabilitySet::SYS_TIME);
    let told = rules.apply().to_string();
    for key in ["CapPrm", "CapEff"] {
        assert_eq!(u64::from_str_radix(&status(key), 16).unwrap(), had & time, "{key}");
    }
    for key in ["CapInh", "CapAmb"] {
        assert_eq!(status(key), "0000000000000000", "{key}");
    }
    assert_eq!(told.contains("capabilities kept: CAP_SYS_TIME"), had & time != 0, "{told}");
    // Only who may change it: root.
    if had & CapabilitySet::SETPCAP.bits() != 0 {
        assert_eq!(u64::from_str_radix(&status("CapBnd"), 16).unwrap() & !time, 0);
    }
    let _ = Rules::service().apply();
    for key in ["CapPrm", "CapEff"] {
        assert_eq!(status(key), "0000000000000000", "{key}");
    }
}

/// Past the harness, which would keep it to itself.
fn skipped(told: &str) {
    let _ =
        writeln!(std::io::stderr(), "SKIPPED in this kernel: {}", told.trim().replace('\n', " "));
}

/// Runs one test of this file in a process of its own, which must not survive it.
fn killed(test: &str) {
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(VARIABLE, std::env::temp_dir())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    if said.contains("not limited (") && said.contains("system calls are") {
        return skipped(&said);
    }
    let signal = std::os::unix::process::ExitStatusExt::signal(&ran.status);
    assert_eq!(signal, Some(libc::SIGSYS), "{}: {said}", ran.status);
    assert!(said.contains("before") && !said.contains("after"), "{said}");
}

/// A call that no service makes, by a thread that was started later; it would fail for everybody.
fn forbidden(unlisted: Unlisted) {
    let mut rules = Rules::service();
    rules.filter_calls(unlisted);
    println!("{}; before", rules.apply());
    // What a panic, a name and a thread take is allowed.
    use std::net::ToSocketAddrs;
    assert!(("localhost", 123).to_socket_addrs().is_ok_and(|mut all| all.next().is_some()));
    let made = std::thread::spawn(|| rustix::process::getpgid(None).is_ok()).join();
    println!("after: {made:?}");
}

#[test]
fn another_system_call_ends_the_process() {
    if confined().is_none() {
        return killed("another_system_call_ends_the_process");
    }
    forbidden(Unlisted::Kill);
}

#[test]
fn another_system_call_is_logged() {
    if confined().is_none() {
        return alone("another_system_call_is_logged");
    }
    forbidden(Unlisted::Log);
}
