//! Following the embedded server, whose time is its own, over loopback.

use std::net::UdpSocket;
use std::time::Duration;

use truechimer::{Clock, CounterKind, Period, Span};
use truechimer_counter::Counter;
use truechimer_testbed::daemon::{Server, Setup};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_testbed::temp;
use truechimer_testbed::truth::Truth;
use truechimer_testbed::watch::long;

use crate::{SETTLED, assert_kernel_stamps, assert_tight};

#[test]
fn we_follow_a_server_that_is_ahead_and_fast() {
    follow("127.0.0.1:0", "");
}

#[test]
fn we_follow_it_over_ipv6() {
    let bound = UdpSocket::bind("[::1]:0");
    let Some(_) = or_skip(bound.map_err(|error| Lacking(format!("IPv6: {error}")))) else { return };
    follow("[::1]:0", "");
}

#[test]
fn we_follow_it_by_the_kernels_raw_clock() {
    follow("127.0.0.1:0", "counter = \"raw\"");
}

fn follow(listen: &str, settings: &str) {
    let dir = temp::Dir::new();
    let server = Server::start(&dir, &["--listen", listen, "--offset", "1.5s", "--skew-ppm", "37"]);
    assert_eq!((server.truth.offset_ns, server.truth.skew_ppb), (1_500_000_000, 37_000.0));
    let mut daemon = Setup { settings, ..Setup::new(&dir, &*server.address) }.start();
    let mut watch = daemon.watch(server.truth);
    let baseline = Baseline::begin(watch.clock(), server.truth);
    watch.run(long(Duration::from_secs(75)));
    println!("{}", watch.summary());
    assert_kernel_stamps(&daemon);
    assert_tight(&watch, &daemon, SETTLED);

    let truth = baseline.period();
    let hand = watch.clock().view().expect("a hand").hand;
    for (name, period) in [("the clock", hand.period), ("the difference clock", hand.difference)] {
        let error = period.relative_to(truth);
        println!("{name} runs at {error:+} against the server over the whole watch");
        assert!(error.as_ppt().abs() <= 500_000, "{name} is off by {error:+}");
    }
    let error = hand.difference.relative_to(truth);
    assert!(
        error.0.abs() <= hand.difference_error.0,
        "the difference clock promised ± {} and is off by {error:+}",
        hand.difference_error
    );
}

/// Length of a count by the truth, measured over a long time.
struct Baseline {
    counter: Counter,
    truth: Truth,
    begin: (u64, i64),
}

impl Baseline {
    fn begin(clock: &Clock, truth: Truth) -> Baseline {
        let kind: CounterKind = clock.view().expect("a hand").hand.counter.kind;
        let counter = Counter::of_kind(kind).expect("the clock's own counter").fenced();
        Baseline { counter, truth, begin: pair(counter, truth) }
    }

    fn period(&self) -> Period {
        let (count, time) = pair(self.counter, self.truth);
        let counts = truechimer::Count(count) - truechimer::Count(self.begin.0);
        Period::from_ratio(Span::from_nanos(time - self.begin.1), counts).expect("time passed")
    }
}

/// A count and the truth at the same moment: the narrowest of many.
fn pair(counter: Counter, truth: Truth) -> (u64, i64) {
    let take = || {
        let before = counter.read();
        let time = truth.now_ns();
        let after = counter.read();
        (after - before, (before.midpoint(after).0, time))
    };
    (0..100).map(|_| take()).min_by_key(|(width, _)| *width).expect("a hundred").1
}
