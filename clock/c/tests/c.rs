//! The library as C and C++ have it: compiled, linked, and held against the client in Rust.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../../client/tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::Daemon;
use common::vmclock::Device;
use truechimer::{Clock, Count, Hand, Instant, Moment, Status};
use truechimer_counter::Choice;
use truechimer_time::Leaps;
use truechimer_timehands::Marker;

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder of this profile's libraries, with ours built in it.
fn target() -> &'static Path {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    TARGET.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let profile = own.parent().unwrap().parent().unwrap().to_owned();
        let mut build = Command::new(here("../../scripts/again"));
        build.args(["build", "--quiet", "--package", "truechimer-c", "--target-dir"]);
        build.arg(profile.parent().unwrap());
        if !profile.ends_with("debug") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the library cannot be built");
        profile
    })
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Compilers of C and of C++ that are here: one of each at least.
fn compilers() -> Vec<(&'static str, bool)> {
    let all = [("gcc", false), ("clang", false), ("g++", true), ("clang++", true)];
    let here = |name: &str| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    let found: Vec<_> = all.into_iter().filter(|(name, _)| here(name)).collect();
    for cpp in [false, true] {
        let wanted = if cpp { "g++" } else { "gcc" };
        assert!(found.iter().any(|one| one.1 == cpp), "no compiler: install {wanted}");
    }
    found
}

/// Compiles the program and links it with the library.
fn compiled(compiler: &str, arguments: &[&str], output: &Path) {
    compiled_of(&here("tests/c/clock.c"), compiler, arguments, output);
}

fn compiled_of(source: &Path, compiler: &str, arguments: &[&str], output: &Path) {
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(arguments).arg("-I").arg(here("include"));
    if compiler.ends_with("++") {
        command.args(["-x", "c++"]);
    }
    command.arg(source).args(["-x", "none"]).arg("-o").arg(output);
    if arguments.contains(&"-static-libgcc") {
        command.arg(target().join("libtruechimer_c.a")).args(["-ldl", "-lm", "-lrt"]);
    } else {
        // As it is installed: programs look for the name in the library itself.
        let folder = output.parent().unwrap();
        let name = folder.join("libtruechimer.so.0");
        if !name.exists() {
            std::fs::copy(target().join("libtruechimer_c.so"), &name).unwrap();
        }
        command.arg(&name).arg("-Wl,-rpath,$ORIGIN");
    }
    run(command.arg("-pthread"));
}

fn nanos(t: Instant, leaps: &Leaps) -> i128 {
    leaps.utc(t).unix_nanos()
}

/// Holds what the program printed against the hand.
fn judge(said: &str, hand: &Hand, clock: &Clock) {
    let line = |name: &str| -> Vec<i128> {
        let line = said.lines().find(|line| line.split(' ').next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no line `{name}`:\n{said}"));
        line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect()
    };
    let time = line("time");
    let count = Count(time[0] as u64);
    let (best, bound) = (hand.time_at(count), hand.bound_at(count));
    let got = [1, 3, 5].map(|i| time[i] * 1_000_000_000 + time[i + 1]);
    let up = |t: Instant| -nanos(Instant(-t.0), &Leaps { tai_offset: -37, ..hand.leaps });
    let expected = [nanos(best - bound, &hand.leaps), nanos(best, &hand.leaps), up(best + bound)];
    assert_eq!(got, expected, "{said}");
    // Two ends, each rounded outwards.
    assert!((0..=2).contains(&(time[7] - i128::from(bound.as_nanos_up()))), "{said}");
    assert_eq!(time[8], 37);
    let elapsed = line("elapsed");
    let moment = |i: usize| Moment::from_words([elapsed[i] as u64, elapsed[i + 1] as u64]).unwrap();
    let [ours, none] = [2, 0].map(|to| clock.elapsed(moment(0), moment(to)).unwrap());
    let ns = ours.span.as_nanos_i64();
    assert_eq!(elapsed[4], i128::from(ns), "{said}");
    // Each program measures the counter's step, which is the bound of no time at all: 10 ns for one
    // and 20 for the next. Beyond that the bounds are the same, each rounded up, as is the length.
    let grown = i128::from((ours.bound - none.bound).as_nanos_up());
    assert!(grown >= 20 && (-1..=2).contains(&(elapsed[5] - elapsed[6] - grown)), "{said}");
    assert!((1..100_000).contains(&elapsed[6]), "{said}");
    assert_eq!(line("parts"), [50_000, 5_000]);
    assert_eq!(line("sizes"), [72, 16, 16, 224, 144, 160, 24, 96]);
    assert_eq!(line("offsets"), [72, 80, 88, 96, 104, 112, 120, 128, 136, 152, 156]);
    assert!(said.contains("status synchronised 1\n"), "{said}");
    assert!(said.ends_with(concat!("all ", env!("CARGO_PKG_VERSION"), "\n")), "{said}");
}

#[test]
fn c_reads_what_rust_reads_to_the_nanosecond() {
    for choice in [Choice::Auto, Choice::Raw] {
        let mut daemon = Daemon::new(choice);
        for (kind, arguments) in [("shared", &[][..]), ("static", &["-static-libgcc"][..])] {
            let program = daemon.directory.join(kind);
            compiled("gcc", arguments, &program);
            let hand = daemon.publish(|_, _| ());
            judge(&run(Command::new(&program).arg(daemon.path())), &hand, &daemon.clock());
        }
    }
}

/// A program that reads the status for each line of its input.
const STATUS: &str = "
    #include <stdio.h>
    #include <truechimer.h>
    int main(int count, char **words)
    {
        truechimer_clock *clock;
        truechimer_reading now;
        int error = truechimer_open_at(words[count - 1], 0, NULL, &clock, NULL, 0);
        while (error == 0 && getchar() != EOF) {
            error = truechimer_now(clock, &now);
            printf(\"%d %d\\n\", error, (int) now.status);
            fflush(stdout);
        }
        return error;
    }
";

#[test]
fn c_hears_the_hypervisor_with_each_reading() {
    use std::io::{BufRead, BufReader, Write};
    let mut daemon = Daemon::new(Choice::Auto);
    let device = Device::new(&daemon.directory, 3);
    let marker = |value| Some(Marker { device: Marker::ELSEWHERE, value });
    daemon.writer().mark(marker(3));
    daemon.publish(|_, _| ());
    let (source, program) = (daemon.directory.join("status.c"), daemon.directory.join("status"));
    std::fs::write(&source, STATUS).unwrap();
    compiled_of(&source, "gcc", &["-static-libgcc"], &program);
    daemon.publish(|_, _| ());
    let mut command = Command::new(&program);
    command.arg(daemon.path()).env("TRUECHIMER_VMCLOCK", device.path());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program runs");
    let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(from).lines();
    let mut status = || {
        to.write_all(b"\n").unwrap();
        lines.next().unwrap().unwrap()
    };
    let tended = |daemon: &mut Daemon| {
        let count = daemon.counter.read();
        daemon.writer().heartbeat(count);
    };
    for _ in 0..2 {
        tended(&mut daemon);
        assert_eq!(status(), "0 1");
    }
    device.mark(4);
    assert_eq!(status(), "0 3");
    daemon.writer().mark(marker(4));
    daemon.publish(|_, _| ());
    assert_eq!(status(), "0 1");
    drop(to);
    assert!(child.wait().unwrap().success());
}

/// The programs that the documents show, as strict as a program can be.
#[test]
fn the_examples_are_c89_and_run() {
    for page in ["README.md", "docs/use/c.md"] {
        let mut daemon = Daemon::new(Choice::Auto);
        let text = std::fs::read_to_string(here("../..").join(page)).unwrap();
        let example = text.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
        let source = daemon.directory.join("example.c");
        std::fs::write(&source, example.unwrap()).unwrap();
        let program = daemon.directory.join("example");
        compiled_of(&source, "gcc", &["-std=c89"], &program);
        // Without a page, and with one that has no time yet, it says why.
        let without = daemon.directory.join("no-page");
        for (path, says) in [(without, "no-page: "), (daemon.path(), "is not set yet")] {
            let ended = Command::new(&program).env("TRUECHIMER_PAGE", &path).output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(ended.status.code() == Some(1) && said.contains(says), "{page}: {said}");
        }
        // A clock that promises nothing is no time to show.
        daemon.publish(|hand, _| hand.status = Status::Unknown);
        let ended = Command::new(&program).env("TRUECHIMER_PAGE", daemon.path()).output().unwrap();
        assert!(ended.status.code() == Some(1) && ended.stdout.is_empty(), "{page}: {ended:?}");
        assert_eq!(ended.stderr, b"unknown: nothing is promised\n", "{page}");
        daemon.publish(|_, _| ());
        let said = run(Command::new(&program).env("TRUECHIMER_PAGE", daemon.path()));
        assert!(said.contains(", synchronised, within ") && said.ends_with(" ns\n"), "{said}");
    }
}

#[test]
fn every_standard_takes_the_header_without_a_warning() {
    let mut daemon = Daemon::new(Choice::Auto);
    for (compiler, cpp) in compilers() {
        let standards: &[&str] = if cpp {
            &["c++11", "c++14", "c++17", "c++20"]
        } else {
            &["c89", "c99", "c11", "c17", "c2x"]
        };
        for standard in standards {
            for errno in ["-DERRNO_FIRST", "-UERRNO_FIRST"] {
                let program = daemon.directory.join(format!("{compiler}-{standard}{errno}"));
                // What it uses beside our header is POSIX's.
                let standard = format!("-std={standard}");
                compiled(compiler, &[&standard, "-D_POSIX_C_SOURCE=200809L", errno], &program);
            }
        }
        let program = daemon.directory.join(format!("{compiler}-{}-UERRNO_FIRST", standards[0]));
        let hand = daemon.publish(|_, _| ());
        judge(&run(Command::new(program).arg(daemon.path())), &hand, &daemon.clock());
    }
    // By itself, with nothing before it and nothing asked of the system.
    for standard in ["c89", "c2x"] {
        let source = daemon.directory.join("alone.c");
        std::fs::write(&source, "#include <truechimer.h>\nint main(void) { return 0; }\n").unwrap();
        let mut command = Command::new("gcc");
        command.args(WARNINGS).arg(format!("-std={standard}")).arg("-I").arg(here("include"));
        run(command.arg("-fsyntax-only").arg(&source));
    }
}

/// No lock that a thread could wait for, and no word to the kernel, once the clock is open.
#[test]
fn threads_read_without_a_system_call() {
    // Where the kernel's own clocks are no counter, its page of them (vDSO) calls it.
    let clocks = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(clocks).unwrap_or_default();
    if !["tsc", "arch_sys_counter", "kvm-clock"].contains(&source.trim()) {
        // Past the harness, which would keep it to itself.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED threads_read_without_a_system_call: the clocksource is {}",
            source.trim()
        );
        return;
    }
    let mut daemon = Daemon::new(Choice::Auto);
    let program = daemon.directory.join("silent");
    compiled_of(&here("tests/c/silent.c"), "gcc", &["-std=gnu99"], &program);
    daemon.publish(|_, _| ());
    let mut silent = Command::new(&program);
    let mut silent = silent.arg(daemon.path()).stdout(Stdio::piped()).spawn().unwrap();
    // However long they take, the clock is tended.
    while silent.try_wait().unwrap().is_none() {
        let count = daemon.counter.read();
        daemon.writer().heartbeat(count);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let output = silent.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "4 of 4 read in silence\n", "{}", output.status);
}

/// Of what the library keeps for each thread one word is ours, whether the kernel lets that thread
/// read the port of an ACPI timer; the standard library has a few, for panics.
#[test]
fn nothing_but_the_right_to_a_port_is_kept_for_each_thread() {
    let library = target().join("libtruechimer_c.so");
    let symbols = run(Command::new("readelf").args(["--syms", "--wide"]).arg(&library));
    let all = symbols.lines().filter(|line| line.contains("truechimer")).count();
    assert!(all > 20, "it has its names: {all}");
    let of_threads: Vec<&str> = symbols.lines().filter(|line| line.contains(" TLS ")).collect();
    assert!(!of_threads.is_empty(), "what is looked for is found where there is one");
    for line in of_threads {
        let is_port = line.contains("truechimer_counter") && line.contains("PERMISSION");
        assert!(is_port || !line.contains("truechimer"), "{line}");
    }
}

#[test]
fn errors_are_values_with_a_text() {
    let mut daemon = Daemon::new(Choice::Auto);
    let program = daemon.directory.join("program");
    compiled("gcc", &[], &program);
    let ask = |path: &Path| run(Command::new(&program).arg(path));
    let none = ask(Path::new("/nonexistent/clock"));
    assert!(none.starts_with("error -2 there is no clock page"), "{none}");
    assert!(none.contains("|") && none.contains("/nonexistent/clock"), "{none}");
    // The page is there, and no time on it yet.
    let early = ask(&daemon.path());
    assert!(early.starts_with("error -11 the clock is not set yet"), "{early}");
    assert!(
        early.ends_with("|the clock is not set yet: the daemon is still starting\n"),
        "{early}"
    );
    // Not promised any more.
    daemon.publish(|hand, _| hand.status = Status::Disrupted);
    assert_eq!(ask(&daemon.path()), "status disrupted 3\nbound -1\n");
    // The daemon is dead, and what it said last is too old to promise anything.
    daemon.publish(|hand, _| hand.void_after = hand.base);
    daemon.writer = None;
    let dead = ask(&daemon.path());
    assert!(dead.starts_with("status unknown 0\nbound -1\n"), "{dead}");
    // Cut off, or not a page at all.
    for (length, number) in [(100, "-6"), (0, "-6")] {
        let path = daemon.directory.join(format!("short-{length}"));
        let whole = std::fs::read(daemon.path()).unwrap();
        std::fs::write(&path, &whole[..length]).unwrap();
        let said = ask(&path);
        assert!(said.starts_with(&format!("error {number} ")), "{length}: {said}");
    }
    let foreign = daemon.directory.join("foreign");
    std::fs::write(&foreign, vec![b'x'; 65536]).unwrap();
    let said = ask(&foreign);
    assert!(said.starts_with("error -5 the file is not a clock page"), "{said}");
}

#[test]
fn what_is_installed_is_found_by_pkg_config() {
    let mut daemon = Daemon::new(Choice::Auto);
    let root = daemon.directory.join("root");
    run(Command::new(here("../../scripts/install"))
        .args([target(), Path::new("c")])
        .env("DESTDIR", &root)
        .env("PREFIX", "/opt/clock"));
    let lib = root.join("opt/clock/lib");
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "truechimer"])
        .arg(format!("--define-variable=prefix={}", root.join("opt/clock").display()))
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
    let program = daemon.directory.join("program");
    let source = here("tests/c/clock.c");
    run(Command::new("gcc")
        .arg(source)
        .args(flags.split_whitespace())
        .args(["-pthread", "-o"])
        .arg(&program));
    let hand = daemon.publish(|_, _| ());
    let said = run(Command::new(program).arg(daemon.path()).env("LD_LIBRARY_PATH", &lib));
    judge(&said, &hand, &daemon.clock());
    let man = root.join("opt/clock/share/man/man3/truechimer.3");
    assert!(std::fs::read_to_string(man).unwrap().starts_with(".TH TRUECHIMER 3"));
}

/// Declarations and constants of the header, one a line, without comments.
fn declared(header: &str) -> String {
    let code: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let (defines, code): (Vec<&str>, Vec<&str>) =
        code.lines().partition(|line| line.starts_with("#define TRUECHIMER_"));
    let own = |line: &&str| !line.starts_with('#') && !["extern \"C\" {", "}"].contains(line);
    let words: Vec<&str> = code.into_iter().filter(own).flat_map(str::split_whitespace).collect();
    let mut lines = defines.join("\n") + "\n";
    let mut depth = 0;
    for c in words.join(" ").chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ';' if depth == 0 => lines.push_str(";\n"),
            ' ' if lines.ends_with('\n') => (),
            _ => lines.push(c),
        }
    }
    lines
}

/// Declarations are those that are frozen, and the shared library has these functions and no more.
/// (That the header is what the code says: `scripts/header --check`.)
#[test]
fn the_interface_is_what_was_published() {
    let frozen = std::fs::read_to_string(here("tests/interface.txt")).unwrap();
    let header = std::fs::read_to_string(here("include/truechimer.h")).unwrap();
    let declared = declared(&header);
    assert_eq!(
        declared, frozen,
        "tests/interface.txt is not what the header declares:\n{declared}"
    );
    let functions: BTreeSet<String> = frozen
        .lines()
        .filter(|line| !line.contains('{'))
        .filter_map(|line| line.split_once('('))
        .map(|(before, _)| before.rsplit([' ', '*']).next().unwrap().to_owned())
        .collect();
    let symbols = run(Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(target().join("libtruechimer_c.so")));
    let exported: BTreeSet<String> =
        symbols.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(exported, functions);
    let soname = run(Command::new("readelf").arg("-d").arg(target().join("libtruechimer_c.so")));
    assert!(soname.contains("[libtruechimer.so.0]"), "{soname}");
}
