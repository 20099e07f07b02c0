//! Names that lead to other machines.

use super::{HOUR, NOON, at, lan_path, on_lan, single};
use crate::path::PathSpec;
use crate::scenario::Scenario;
use crate::server::{AddressSpec, Lie, ServerSpec, Stretch};

/// Time from its move until a wrong machine is right again, s.
const WRONG: f64 = 900.0;

pub(super) fn all() -> Vec<Scenario> {
    let wrong = Lie { from_s: 0.0, to_s: NOON + WRONG, by_ms: 150.0 };
    let fails = ServerSpec {
        silences: vec![Stretch { from_s: NOON, to_s: NOON + HOUR }],
        addresses: vec![AddressSpec { from_s: 0.0, to_s: None, machine: Box::new(near()) }],
        ..on_lan()
    };
    vec![
        single(
            "address-far",
            "the name leads to a far server from hour 16 on: 12 ms there, 25 ms back",
            moves(on_lan(), far()),
        ),
        single(
            "address-near",
            "the name of a far server (12 ms there, 25 ms back) leads to one on the LAN from hour 16 on",
            moves(far(), on_lan()),
        ),
        single(
            "address-wrong",
            "the name leads to a server that is 150 ms wrong for a quarter of an hour",
            moves(on_lan(), ServerSpec { lies: vec![wrong], ..near() }),
        ),
        single(
            "address-fails",
            "of a name's two addresses on the LAN, the first is silent for an hour",
            fails,
        ),
        Scenario::new(
            "address-of-three",
            "three servers on the LAN; the name of one leads to a far server from hour 16 on",
            vec![
                ServerSpec { name: "moves".into(), ..moves(on_lan(), far()) },
                ServerSpec::symmetric("first", lan_path()),
                ServerSpec::symmetric("second", lan_path()),
            ],
        ),
    ]
}

fn near() -> ServerSpec {
    ServerSpec::symmetric("near", PathSpec::exponential(0.15, 0.01))
}

fn far() -> ServerSpec {
    let path = |floor_ms| PathSpec::exponential(floor_ms, 1.0);
    ServerSpec { name: "far".into(), ..at(path(12.0), path(25.0)) }
}

/// The name of the first leads to the second from hour 16 on, and the first says nothing more.
fn moves(first: ServerSpec, second: ServerSpec) -> ServerSpec {
    let second = AddressSpec { from_s: NOON, to_s: None, machine: Box::new(second) };
    ServerSpec {
        silences: vec![Stretch { from_s: NOON, to_s: 1e6 }],
        own_address_until_s: Some(NOON),
        addresses: vec![second],
        ..first
    }
}
