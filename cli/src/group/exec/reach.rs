//! Limits of a preloaded library, seen from a program's file.

use std::env;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Largest number of bytes of headers and notes that are looked at.
const MOST: u64 = 1 << 16;

/// Where a program is, as a shell would find it.
pub fn found(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return path.is_file().then_some(path);
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Lists what the library cannot do for that program, each in a sentence. Nothing is said of a file
/// that cannot be read.
pub fn limits(path: &Path) -> Vec<String> {
    limits_within(path, 4)
}

fn limits_within(path: &Path, depth: u32) -> Vec<String> {
    let Ok(mut file) = File::open(path) else { return Vec::new() };
    let mut said = Vec::new();
    if let Ok(about) = file.metadata()
        && is_privileged(&about)
    {
        said.push(
            "it runs as another user or group (setuid, setgid), for which the system ignores \
             preloaded libraries: it keeps the host's clocks"
                .to_owned(),
        );
    }
    let mut head = Vec::new();
    if file.by_ref().take(MOST).read_to_end(&mut head).is_err() {
        return said;
    }
    if let Some(interpreter) = script(&head).filter(|_| depth > 0) {
        let limits = limits_within(&interpreter, depth - 1);
        said.extend(limits.into_iter().map(|why| format!("{}: {why}", interpreter.display())));
    } else if let Some(elf) = Elf::of(&head, &mut file) {
        said.extend(elf.limits().map(str::to_owned));
    }
    said
}

/// True if the system would give the program rights that its caller lacks.
fn is_privileged(about: &Metadata) -> bool {
    // The kernel is asked for whom it runs this process.
    let Ok(own) = std::fs::metadata("/proc/self") else { return false };
    let mode = about.permissions().mode();
    (mode & 0o4000 != 0 && about.uid() != own.uid())
        || (mode & 0o2010 == 0o2010 && about.gid() != own.gid())
}

/// The program that a script is for. `env` stands for what it is told to start.
fn script(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let program = Path::new(OsStr::from_bytes(words.next()?));
    if program.file_name() == Some(OsStr::new("env")) {
        let started = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        return found(OsStr::from_bytes(started?));
    }
    Some(program.to_owned())
}

/// Facts that matter of an executable.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Elf {
    /// Of another kind than this program, so than its library.
    foreign: bool,
    /// The program that links it when it starts; none for a static one.
    linker: Option<Vec<u8>>,
    /// True if the Go linker has made it.
    go: bool,
}

impl Elf {
    fn of(head: &[u8], file: &mut File) -> Option<Elf> {
        if head.get(..4)? != b"\x7fELF" {
            return None;
        }
        // 64 bits, little-endian, and this machine: all that the library is made for.
        let own = machine();
        let is_own = head.get(4..6)? == [2, 1] && u16_at(head, 18)? == own;
        if !is_own {
            return Some(Elf { foreign: true, linker: None, go: false });
        }
        let table = u64_at(head, 32)?;
        let (size, count) = (usize::from(u16_at(head, 54)?), usize::from(u16_at(head, 56)?));
        let headers = read(file, table, size.checked_mul(count)? as u64)?;
        let mut elf = Elf { foreign: false, linker: None, go: false };
        for header in headers.chunks_exact(size.max(56)) {
            let kind = u32_at(header, 0)?;
            let (at, length) = (u64_at(header, 8)?, u64_at(header, 32)?);
            match kind {
                3 => {
                    let name = read(file, at, length)?;
                    elf.linker = name.split(|byte| *byte == 0).next().map(<[u8]>::to_vec);
                }
                4 => elf.go |= notes_of_go(&read(file, at, length)?),
                _ => {}
            }
        }
        Some(elf)
    }

    fn limits(&self) -> impl Iterator<Item = &'static str> {
        let musl = self
            .linker
            .as_ref()
            .is_some_and(|linker| linker.windows(7).any(|part| part == b"ld-musl"));
        let is_static = !self.foreign && self.linker.is_none();
        [
            (
                self.foreign,
                "it is made for another kind of machine than the library to be \
                            preloaded: it keeps the host's clocks",
            ),
            (is_static, "it is linked statically and loads no library: it keeps the host's clocks"),
            (
                musl,
                "it is linked with musl, the library to be preloaded with glibc: it will not \
                    start with that, or keeps the host's clocks",
            ),
            (
                self.go && !is_static,
                "its Go runtime asks the kernel for the time itself: only its \
                                     parts in C read the group's clock",
            ),
        ]
        .into_iter()
        .filter_map(|(is, what)| is.then_some(what))
    }
}

/// `e_machine` of this program.
fn machine() -> u16 {
    match env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        _ => 0,
    }
}

/// True if there is a note named "Go" among them.
fn notes_of_go(mut notes: &[u8]) -> bool {
    while let (Some(name), Some(about)) = (u32_at(notes, 0), u32_at(notes, 4)) {
        if notes.get(12..12 + name as usize).is_some_and(|name| name.starts_with(b"Go\0")) {
            return true;
        }
        let padded = |length: u32| (length as usize).next_multiple_of(4);
        match notes.get(12 + padded(name) + padded(about)..) {
            Some(rest) => notes = rest,
            None => break,
        }
    }
    false
}

fn read(file: &mut File, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).ok()?;
    file.by_ref().take(length.min(MOST)).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(linker: Option<&str>, note: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        bytes[18..20].copy_from_slice(&machine().to_le_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        let parts: Vec<(u32, Vec<u8>)> = [
            linker.map(|name| (3_u32, [name.as_bytes(), b"\0"].concat())),
            note.map(|note| (4, note.to_vec())),
        ]
        .into_iter()
        .flatten()
        .collect();
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&(parts.len() as u16).to_le_bytes());
        let mut at = 64 + 56 * parts.len() as u64;
        for (kind, content) in &parts {
            let mut header = vec![0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[8..16].copy_from_slice(&at.to_le_bytes());
            header[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            at += content.len() as u64;
            bytes.extend(header);
        }
        bytes.extend(parts.into_iter().flat_map(|(_, content)| content));
        bytes
    }

    fn said(content: &[u8]) -> Vec<String> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("truechimer-reach-{}-{number}", std::process::id());
        let path = env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        let said = limits(&path);
        std::fs::remove_file(&path).unwrap();
        said
    }

    #[test]
    fn what_cannot_be_reached() {
        let go: Vec<u8> = [4_u32, 8, 4]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .chain(*b"Go\0\0deadbeef")
            .collect();
        let glibc = Some("/lib64/ld-linux-x86-64.so.2");
        assert_eq!(said(&headers(glibc, None)), [""; 0]);
        assert!(said(&headers(None, None))[0].contains("statically"));
        assert!(said(&headers(None, Some(&go)))[0].contains("statically"));
        assert!(said(&headers(glibc, Some(&go)))[0].contains("Go"));
        assert!(said(&headers(Some("/lib/ld-musl-x86_64.so.1"), None))[0].contains("musl"));
        let mut foreign = headers(glibc, None);
        foreign[4] = 1;
        assert!(said(&foreign)[0].contains("another kind of machine"));
    }

    #[test]
    fn scripts_are_what_they_are_for() {
        assert_eq!(script(b"#! /bin/sh -e\nx"), Some("/bin/sh".into()));
        assert_eq!(script(b"#!/usr/bin/env -S sh -e\n"), found(OsStr::new("sh")));
        assert_eq!(script(b"\x7fELF"), None);
        assert_eq!(script(b"#!"), None);
        assert_eq!(said(b"#!/nowhere/at/all\n"), [""; 0]);
        let own = format!("#!{}\n", env::current_exe().unwrap().display());
        assert_eq!(said(own.as_bytes()), [""; 0]);
    }

    #[test]
    fn broken_files_say_nothing() {
        let whole = headers(Some("/lib64/ld-linux-x86-64.so.2"), Some(b"\x04\0\0\0"));
        for end in 0..whole.len() {
            let _ = said(&whole[..end]);
        }
        let mut endless = whole.clone();
        endless[54..58].copy_from_slice(&[0xff; 4]);
        let _ = said(&endless);
        assert!(!notes_of_go(&[0xff; 64]));
    }
}
