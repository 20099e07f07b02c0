//! Sources that the user prefers or requires: chronyd is one, beside two servers of ours.

use std::time::{Duration, Instant};

use truechimer_testbed::chrony::Chronyd;
use truechimer_testbed::daemon::{SOON, Setup};
use truechimer_testbed::lacking::or_skip;
use truechimer_testbed::namespace::Pair;
use truechimer_testbed::temp;
use truechimer_testbed::truth::Truth;

use crate::nts::{alike, words};

#[test]
fn there_is_no_time_without_chronyd_which_leads_then() {
    let Some(net) = or_skip(Pair::new()) else { return };
    let dir = temp::Dir::new();
    let Some(mut chronyd) = or_skip(Chronyd::start(&net.server, &dir, "")) else { return };
    chronyd.stop();
    let _others = alike(&net.server, &dir, "0ms");
    let setup = Setup {
        network: Some(&net.client),
        servers: vec!["192.0.2.1:1123".into(), "192.0.2.1:1124".into()],
        sections: "[[source]]\nhost = \"192.0.2.1\"\npoll = 1\nrequire = true\nprefer = true\n",
        ..Setup::new(&dir, "")
    };
    let mut daemon = setup.start();
    let clock = daemon.clock();
    let held = [(); 2].map(|()| ("truechimer".to_owned(), "require".to_owned()));
    let end = Instant::now() + SOON;
    while !words(&daemon).starts_with(&held) {
        assert!(Instant::now() < end, "{:?}", words(&daemon));
        assert!(!clock.now().is_ok_and(|now| now.status.bound_holds()));
        std::thread::sleep(Duration::from_millis(50));
    }
    chronyd.resume();
    let mut watch = daemon.watch(Truth::host());
    watch.run_until_so(SOON, "chronyd leads", || {
        let chronyd = &daemon.ask(&["sources"]).json[2];
        chronyd["status"] == "selected" && chronyd["weight"] == 1.0
    });
    watch.run(Duration::from_secs(10));
    println!("{}", watch.summary());
    // It goes, and the others keep the time.
    chronyd.stop();
    watch.run_until_so(SOON, "another leads", || {
        words(&daemon).iter().take(2).any(|(status, _)| status == "selected")
    });
    watch.run(Duration::from_secs(5));
    println!("{}", watch.summary());
}
