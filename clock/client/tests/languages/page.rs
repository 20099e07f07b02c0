//! Files that are no clock page, and a page that somebody spoils, in every language.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;

use super::*;

/// A user who is neither root nor whoever runs the tests.
const STRANGER: u32 = 54321;

pub(super) fn what_is_no_page_is_an_error_that_names_the_mend(language: Language) {
    let mut daemon = Daemon::synchronised();
    let Some(mut speaker) = Speaker::new(language) else { return };
    let text = speaker.open(Path::new("/nonexistent/clock"));
    assert!(text.contains("/nonexistent/clock") && text.contains("truechimer run"), "{text}");
    let whole = fs::read(daemon.path()).unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = daemon.directory.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let patched = |name: &str, at: usize, bytes: &[u8]| {
        let mut page = whole.clone();
        page[at..at + bytes.len()].copy_from_slice(bytes);
        put(name, &page)
    };
    let socket = daemon.directory.join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for (path, part) in [
        (put("cut", &whole[..100]), "is not a whole clock page (yet): 100 bytes of 4096"),
        (put("empty", &[]), "is not a whole clock page (yet): 0 bytes"),
        (put("short", b"something else"), "is not a clock page; name another page"),
        (put("foreign", &[b'x'; 65536]), "is not a clock page; name another page"),
        (put("zeros", &[0; 4096]), "is not a whole clock page (yet)"),
        (patched("magic", 0, b"TChimer2"), "is not a clock page"),
        (
            patched("version", 8, &2u32.to_ne_bytes()),
            "has layout version 2, this program knows version 1",
        ),
        (patched("sizes", 16, &16u32.to_ne_bytes()), "contradicts itself"),
        // The period of the newest hand, the first.
        (patched("hand", 128 + 256 + 32, &[0; 16]), "a hand with an impossible period"),
        (daemon.directory.clone(), "is not a regular file"),
        (socket, "is not a regular file"),
    ] {
        let text = speaker.open(&path);
        assert!(text.contains(part) && text.contains(&*path.to_string_lossy()), "{part}: {text}");
        // In the client's own words.
        let own = Clock::open_at(&path).unwrap_err().to_string();
        assert_eq!(text, format!("error {own}"));
    }
    fs::set_permissions(daemon.path(), fs::Permissions::from_mode(0o666)).unwrap();
    let text = speaker.open(&daemon.path());
    assert!(text.contains("mode 0666") && text.contains("chmod go-w"), "{text}");
    fs::set_permissions(daemon.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let own = fs::metadata(daemon.path()).unwrap().uid();
    match chown(daemon.path(), Some(STRANGER), None) {
        Ok(()) => {
            let text = speaker.open(&daemon.path());
            let part =
                format!("belongs to user {STRANGER}, who is not to be trusted with the time here");
            assert!(text.contains(&part) && text.contains("name another page"), "{text}");
            chown(daemon.path(), Some(own), None).unwrap();
        }
        // Past the harness, which would keep it to itself.
        Err(why) => {
            let _ = writeln!(
                io::stderr(),
                "SKIPPED a page of somebody else's, read in {language:?}: only root, to whom all users are known, \
                 can make one: {why}"
            );
        }
    }
    daemon.publish(|hand, _| hand.counter.boot = BootId([7; 16]));
    daemon.writer = None;
    let text = speaker.open(&daemon.path());
    assert!(text.contains("left by another boot, and no daemon tends it"), "{text}");
}

/// A file that is shortened or removed while a program has it open, and mended before the next reading.
pub(super) fn a_page_that_is_mended_is_read_on(language: Language) {
    let mut daemon = Daemon::synchronised();
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    assert_eq!(tended(&mut daemon, || speaker.told("now")).status, 1);
    let shorten = |path: &Path| {
        fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    };
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    for spoil in [&shorten as &dyn Fn(&Path), &remove] {
        spoil(&daemon.path());
        assert!(daemon.writer().tend().unwrap().is_some());
        // Goes on where it was, and with what comes later.
        for path_bound in [50, 700].map(Span::from_micros) {
            daemon.publish(|hand, _| hand.path_bound = path_bound);
            let told = tended(&mut daemon, || speaker.told("now"));
            assert!(same(&told, &again(&daemon.clock(), &told)), "{told:?}");
            assert!(told.bound >= i128::from(path_bound.as_nanos_up()), "{told:?}");
        }
    }
}
