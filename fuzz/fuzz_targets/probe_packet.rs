//! Packets of STAMP, from either side: what answers them is never longer, and no two reflectors answer each other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use truechimer_keys::{Algorithm, Key};
use truechimer_probe::wire::seal;
use truechimer_probe::{Access, Reflector, Report, Session, Timed};
use truechimer_qos::{Codec, DifferenceClock};
use truechimer_time::{Period, Rate};

fuzz_target!(|input: (&[u8], bool, bool)| {
    let (bytes, open, sealed) = input;
    let key = Key::new(1, Algorithm::Sha256, b"a key that is shared").expect("a key");
    let mut bytes = bytes.to_vec();
    if sealed {
        seal(&mut bytes, &key);
    }
    let at = |ns: i64| Timed::at_nanos(1_800_000_000_000_000_000 + ns, 100);
    let peer = "192.0.2.1:40000".parse().expect("an address");
    let reflector = || {
        let keys = vec![key.clone()];
        Reflector::new(Access { keys, open, ..Access::default() }, &[862])
    };
    if let Ok(prepared) = reflector().answer(&bytes, peer, None, &at(0), 0) {
        let reply = prepared.leave(&at(9));
        assert_eq!(reply.len(), bytes.len());
        // Without the ports, by its looks alone.
        let echoed =
            reflector().answer(&reply, peer, None, &at(20), 0).map(|again| again.leave(&at(30)));
        assert!(echoed.is_err());
    }
    // A reply to a session of ours.
    let difference = DifferenceClock { period: Period::NANOSECOND, error: Rate::ZERO };
    let mut session = Session::new(sealed.then(|| key.clone()), 44, 1);
    for _ in 0..3 {
        let _ = session.ask(&at(0));
    }
    let _ = session.accept(&bytes, &at(50), Some(&difference));
    let _ = Report::of(&session, 0, Codec::ALL[0]);
});
