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
    watch.run(Duration::from_secs(10));
    println!("{}", watch.summary());
    let answer = daemon.ask(&["sources"]).json;
    assert_eq!(answer[2]["status"], "selected", "{answer:#}");
    assert_eq!(answer[2]["weight"], 1.0, "{answer:#}");
    // It goes, and the others keep the time.
    chronyd.stop();
    watch.run(Duration::from_secs(20));
    println!("{}", watch.summary());
    let found = words(&daemon);
    assert!(found[..2].iter().any(|(status, _)| status == "selected"), "{found:?}");
}
