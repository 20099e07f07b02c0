//! The ranges that attacks are drawn from.

use crate::drawn::{Range, Values};

/// The least delay to a bought server that is made the nearest, ms.
pub(super) const NEAREST_MS: f64 = 0.05;

const fn range(
    name: &'static str,
    unit: &'static str,
    values: Values,
    reason: &'static str,
) -> Range {
    Range { name, unit, values, reason }
}

use Values::{Even, Log, OneOf};

const YES_OR_NO: Values = OneOf(&[0.0, 1.0]);

pub(super) const PROVEN: Range = range(
    "servers with proof",
    "",
    OneOf(&[1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0]),
    "one's own, or a few of NTS",
);
pub(super) const PROVEN_SEVERAL: Range = range(
    "servers with proof, where some are bought",
    "",
    OneOf(&[3.0, 3.0, 4.0, 5.0, 7.0]),
    "a minority needs three",
);
pub(super) const PROVEN_EVEN: Range =
    range("servers with proof, where half is bought", "", OneOf(&[2.0, 4.0, 6.0]), "halves");
pub(super) const PLAIN: Range =
    range("plain servers", "", OneOf(&[0.0, 0.0, 1.0, 2.0, 3.0, 4.0]), "a pool's");
pub(super) const PLAIN_ALONE: Range =
    range("plain servers, alone", "", OneOf(&[1.0, 3.0, 4.0, 5.0]), "no proof at all");
pub(super) const POOL: Range = range(
    "servers of a pool",
    "",
    OneOf(&[6.0, 8.0, 12.0, 16.0]),
    "what a look-up gives, or several",
);
pub(super) const FOLLOWED: Range =
    range("of these followed", "", OneOf(&[3.0, 4.0, 5.0, 6.0]), "`max-sources`");
pub(super) const HOURS: Range =
    range("length", "h", Even(1.5, 3.0), "hold-offs of an hour end within it");
pub(super) const POLL: Range = range("poll", "s", OneOf(&[16.0, 32.0, 64.0]), "the usual ones");
pub(super) const SKEW: Range = range("skew", "ppm", Even(-50.0, 50.0), "crystals");
pub(super) const WALK: Range = range(
    "walk of the rate after 1 s",
    "",
    Log(1e-10, 1.5e-9),
    "within max-wander-ppm (0.5) at all times",
);
pub(super) const FLOOR: Range =
    range("least delay, mean of both ways", "ms", Log(0.05, 60.0), "the LAN to another continent");
pub(super) const LEANS: Range =
    range("one way longer by, as a share", "", Even(-0.3, 0.3), "asymmetric routes");
pub(super) const QUEUE: Range =
    range("queues, mean", "ms", Log(0.005, 1.0), "exponential, as in the reference figures");
pub(super) const ROOT: Range =
    range("claimed root dispersion", "µs", Log(1.0, 1000.0), "stratum 1 to a far stratum 2");
pub(super) const OFF: Range =
    range("honest error, as a share of it", "", Even(-0.8, 0.8), "an honest server is not exact");

pub(super) const BEFORE: Range =
    range("begins before the start", "", OneOf(&[0.0, 0.0, 1.0]), "or only after convergence");
pub(super) const BEGINS: Range =
    range("else begins, as a share of the run", "", Even(0.2, 0.6), "once the clock has converged");
pub(super) const LASTS: Range =
    range("lasts, as a share of the run", "", Log(0.02, 1.0), "minutes, or to the end");
pub(super) const REACHES: Range = range(
    "reaches each server with probability",
    "",
    OneOf(&[1.0, 1.0, 0.5, 0.3]),
    "near the host all, further away some",
);
pub(super) const DELAY: Range =
    range("held back by", "ms", Log(0.02, 3000.0), "the jitter of a queue to a poll's worth");
pub(super) const STEADY: Range =
    range("always by as much", "", YES_OR_NO, "else the mean of an exponential law");
pub(super) const SLOW: Range =
    range("grows by", "ppm", Log(0.005, 200.0), "below what an oscillator may wander, and above");
pub(super) const RELEASED: Range =
    range("let go at once", "", YES_OR_NO, "else it stays until the end");
pub(super) const REQUESTS: Range = range("of requests", "", YES_OR_NO, "else of replies");
pub(super) const PERIOD: Range = range("period", "s", Log(60.0, 3600.0), "minutes to an hour");
pub(super) const SHARE: Range = range("share of it on", "", Even(0.1, 0.9), "");
pub(super) const TWICE: Range = range("share sent twice", "", Even(0.0, 0.5), "");
pub(super) const OVERTAKEN: Range = range("share held back", "", Even(0.0, 0.5), "");
pub(super) const HELD: Range =
    range("held back by", "ms", Log(1.0, 60_000.0), "until the next request and longer");
pub(super) const LOST: Range = range("share lost", "", Even(0.0, 0.3), "");
pub(super) const ON_PATH: Range =
    range("its maker sees the requests", "", YES_OR_NO, "else has to guess 64 bits");
pub(super) const CODE: Range = range("code", "", OneOf(&[0.0, 1.0, 2.0]), "RATE, DENY, RSTR");
pub(super) const LIE: Range =
    range("lie", "ms", Log(0.05, 1e6), "hidden by queues, to beyond max-step");
pub(super) const FAR_LIE: Range =
    range("lie", "ms", Log(10.0, 3e10), "to a year: certificates and keys of another time");
pub(super) const AHEAD: Range = range("ahead", "", YES_OR_NO, "else behind");
pub(super) const RAMP: Range =
    range("runs away by", "ppm", Log(0.02, 500.0), "below max-wander-ppm, and above");
pub(super) const RAMPS: Range = range("runs away", "", YES_OR_NO, "else it steps, and comes back");
pub(super) const TOGETHER_LIE: Range =
    range("all say the same", "", YES_OR_NO, "else each has a lie of its own");
pub(super) const NEAR: Range =
    range("is the nearest", "", YES_OR_NO, "0.05 ms away, root dispersion 1 µs");
pub(super) const LEADS: Range = range(
    "falls silent and leads elsewhere after, as a share of the rest",
    "",
    Even(0.1, 0.6),
    "once its lie is known",
);
pub(super) const LATE: Range = range(
    "servers with proof are held back for",
    "s",
    Log(1.0, 1800.0),
    "so that others speak first",
);
pub(super) const MIDNIGHT: Range =
    range("month's end, as a share of the run", "", Even(0.4, 0.8), "");
pub(super) const REAL: Range = range("a leap second comes", "", YES_OR_NO, "and is hidden");
pub(super) const INSERTED: Range = range("inserted", "", YES_OR_NO, "else left out");
pub(super) const TOGETHER: Range =
    range("each part with probability", "", Even(0.1, 0.5), "at least two of eleven");
pub(super) const FROM_START: Range =
    range("plain servers lie from the start too", "", YES_OR_NO, "");

/// All of them, by part.
pub(super) fn all() -> Vec<(&'static str, &'static str, Vec<Range>)> {
    vec![
        (
            "Every attack",
            "host, servers and paths",
            vec![
                PROVEN,
                PROVEN_SEVERAL,
                PROVEN_EVEN,
                PLAIN,
                PLAIN_ALONE,
                HOURS,
                POLL,
                SKEW,
                WALK,
                FLOOR,
                LEANS,
                QUEUE,
                ROOT,
                OFF,
            ],
        ),
        ("Every part", "when, and whom it reaches", vec![BEFORE, BEGINS, LASTS, REACHES]),
        (
            "delay, slow, on-off",
            "packets held back",
            vec![DELAY, STEADY, SLOW, RELEASED, REQUESTS, PERIOD, SHARE],
        ),
        ("reorder", "all the time", vec![TWICE, OVERTAKEN, HELD, LOST]),
        ("forged, kiss", "replies in a server's name", vec![ON_PATH, LIE, AHEAD, CODE]),
        ("bought, plain", "servers that lie", vec![LIE, AHEAD, RAMPS, RAMP, TOGETHER_LIE, NEAR]),
        ("redirect", "as bought, and then", vec![LEADS]),
        ("pool", "as bought, of one name", vec![POOL, FOLLOWED]),
        ("start", "before the first reply with proof", vec![FAR_LIE, AHEAD, LATE]),
        ("leap", "announcements", vec![MIDNIGHT, REAL, INSERTED]),
        ("combined", "which parts", vec![TOGETHER, FROM_START]),
    ]
}
