//! The clock page among neighbours: some shorten or remove it, some read it by the thousand.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use truechimer::{Clock, Status};
use truechimer_testbed::daemon::{SOON, Server, Setup};
use truechimer_testbed::temp;

/// Number of programs that read the page at a time.
const READERS: usize = 10_000;
/// Number of threads that they share: more than there are processors, less than would starve a daemon.
const THREADS: usize = 16;
/// Number of hands that the daemon publishes while they read.
const PUBLISHED: u64 = 4;

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "not {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_page_that_is_shortened_or_removed_is_there_again_for_old_readers_and_new() {
    let dir = temp::Dir::new();
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "1.5s"]);
    let mut daemon = Setup::new(&dir, &*server.address).start();
    let page = daemon.page.clone();
    let mut watch = daemon.watch(server.truth);
    let size = std::fs::metadata(&page).unwrap().len();
    // A reader that looks meanwhile ends by SIGBUS, so this one does not.
    std::fs::write(&page, "").unwrap();
    wait("whole again", || std::fs::metadata(&page).is_ok_and(|meta| meta.len() == size));
    daemon.process.expect_output("somebody had shortened or overwritten the clock page", SOON);
    watch.run_until_status(Status::Synchronised, SOON);
    std::fs::remove_file(&page).unwrap();
    wait("there again", || page.exists());
    daemon.process.expect_output("was removed, and is there again", SOON);
    let generation = |clock: &Clock| clock.view().unwrap().generation;
    let before = generation(watch.clock());
    let mut anew = daemon.watch(server.truth);
    wait("written on", || {
        [watch.clock(), anew.clock()].iter().all(|clock| generation(clock) > before)
    });
    for watch in [&mut watch, &mut anew] {
        watch.run(Duration::from_secs(2));
        watch.run_until_status(Status::Synchronised, SOON);
        println!("{}", watch.summary());
    }
    // Something else in its place is named, and not touched.
    std::fs::remove_file(&page).unwrap();
    std::fs::create_dir(&page).unwrap();
    daemon.process.expect_output("something else is in the place of the clock page", SOON);
    std::fs::remove_dir(&page).unwrap();
    wait("there again", || page.exists());
    assert!(daemon.process.is_running());
}

#[test]
fn ten_thousand_readers_disturb_neither_the_daemon_nor_each_other() {
    let dir = temp::Dir::new();
    let server = Server::start(&dir, &["--listen", "127.0.0.1:0", "--offset", "1.5s"]);
    let mut daemon = Setup::new(&dir, &*server.address).start();
    let mut watch = daemon.watch(server.truth);
    // Each has a descriptor and a mapping of its own, as each of so many programs would.
    let wanted = READERS as u64 + 1_000;
    rlimit(wanted);
    let clocks: Vec<Clock> =
        (0..READERS).map(|_| Clock::open_at(&daemon.page).expect("one more reader")).collect();
    let begun = watch.clock().view().unwrap().generation;
    let (enough, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (late, all) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = clocks
            .chunks(READERS.div_ceil(THREADS))
            .map(|clocks| {
                let (late, all, enough) = (&late, &all, &enough);
                scope.spawn(move || {
                    while !enough.load(Relaxed) {
                        for clock in clocks {
                            let reading = clock.now().expect("a time");
                            assert!(reading.status.bound_holds(), "{reading:?}");
                            late.fetch_add(u64::from(reading.status == Status::Holdover), Relaxed);
                        }
                        all.fetch_add(clocks.len() as u64, Relaxed);
                    }
                })
            })
            .collect();
        let watcher = scope.spawn(|| {
            while !done.load(Relaxed) {
                watch.run(Duration::from_millis(500));
            }
            watch
        });
        let looker = Clock::open_at(&daemon.page).unwrap();
        wait("published", || looker.view().unwrap().generation >= begun + PUBLISHED);
        enough.store(true, Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        done.store(true, Relaxed);
        let watch = watcher.join().unwrap();
        println!("{}", watch.summary());
    });
    // A holdover is what they say of a daemon that has not looked at the world for 3 s, as on a
    // machine that has other things to do.
    println!("{} of {} readings are holdovers", late.load(Relaxed), all.load(Relaxed));
    assert!(daemon.process.is_running());
}

/// Lets this process open so many files.
fn rlimit(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        // Root may have more than it was given.
        let maximum = maximum.map(|maximum| maximum.max(wanted));
        let limit = Rlimit { current: Some(wanted), maximum };
        setrlimit(Resource::Nofile, limit).expect("more open files (ulimit -Hn)");
    }
}
