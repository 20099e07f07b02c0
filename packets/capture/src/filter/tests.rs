//! Against libpcap itself; where it is not installed, these say so and pass.

use proptest::prelude::*;
use truechimer_testbed::lacking::{Lacking, or_skip};

use super::*;

/// The library, unless the calling test is skipped.
fn library() -> Option<&'static library::Library> {
    or_skip(library::get().map_err(|why| Lacking(why.to_string())))
}

fn refused(text: &str) -> (Option<usize>, String) {
    match Filter::compile(text, None, 1, 96) {
        Err(FilterError::Text { place, message, .. }) => (place, message),
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn the_place_of_an_error_is_found() {
    if library().is_none() {
        return;
    }
    for (text, wrong) in [
        ("udp prt 53", "prt 53"),
        ("ip and and udp", "and udp"),
        ("tcp[tcpflags & 1", ""),
        ("(udp or tcp", ""),
        ("udp port 53) or tcp", ") or tcp"),
        ("udp port", ""),
        ("len >> 3", ""),
        ("net 1.2.3.4/77", "77"),
        ("  host 1.2.3.4 or port ;", ";"),
        ("udp port 70000", "70000"),
    ] {
        let (place, message) = refused(text);
        let rest = place.map(|place| &text[place..]);
        assert_eq!(rest, Some(wrong), "{text:?}: {message}");
        assert!(!message.is_empty());
        let shown = Filter::compile(text, None, 1, 96).unwrap_err().to_string();
        assert!(shown.contains(&message), "{shown}");
    }
    assert!(Filter::compile("a\0b", None, 1, 96).is_err());
}

#[test]
fn an_empty_filter_takes_everything() {
    if library().is_none() {
        return;
    }
    let all = Filter::compile("", None, 1, 96).unwrap();
    assert!(all.matches(&[], 0) && all.matches(&[1, 2, 3], 3));
    assert_eq!((all.text(), all.link_type()), ("", 1));
}

#[test]
fn link_types_differ() {
    if library().is_none() {
        return;
    }
    let packet = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let raw = Filter::compile("src 10.0.0.1", None, LINKTYPE_RAW, 96).unwrap();
    assert!(raw.matches(&packet, 20));
    let cooked = Filter::compile("src 10.0.0.1", None, LINKTYPE_LINUX_SLL2, 96).unwrap();
    let mut frame = vec![8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    frame.extend(packet);
    assert!(cooked.matches(&frame, 40) && !raw.matches(&frame, 40));
}

#[test]
fn the_snap_length_is_what_is_kept() {
    if library().is_none() {
        return;
    }
    let filter = Filter::compile("ip", None, 1, 77).unwrap();
    let kept = filter.code().iter().filter(|one| one.code == op::RETURN).map(|one| one.k).max();
    assert_eq!(kept, Some(77));
}

#[test]
fn a_filter_chooses_packets_of_which_nothing_is_kept() {
    if library().is_none() {
        return;
    }
    let mut packet = vec![0; 12];
    packet.extend([8, 0, 0x45]);
    for snap_length in [0, 1, u32::MAX] {
        let filter = Filter::compile("ip", None, 1, snap_length).unwrap();
        assert!(filter.matches(&packet, 60) && !filter.matches(&[0; 60], 60), "{snap_length}");
    }
}

#[test]
fn a_live_handle_without_an_interface() {
    if library().is_none() {
        return;
    }
    let why = Filter::compile("udp", Some("no-such-link"), 1, 96).unwrap_err();
    assert!(matches!(why, FilterError::Interface { .. }), "{why:?}");
    assert!(why.to_string().contains("no-such-link"), "{why}");
    assert!(Filter::compile("udp", Some("a\0b"), 1, 96).is_err());
}

/// Filters that between them use every kind of instruction that libpcap makes.
const FILTERS: [&str; 16] = [
    "ip",
    "udp port 53",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420",
    "ip[0] & 0xf != 5",
    "vlan 7 and udp",
    "len > 60 and ip6",
    "ip[2:2] - ((ip[0] & 0xf) << 2) > 40",
    "ether[6:4] ^ 0x02000000 = 0",
    "ip[8] % 7 = 1 or ip[9] / 3 = 2",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "net 192.0.2.0/24 and not port 80",
    "ether multicast or ether broadcast",
    "mpls 5 and ip",
    "pppoes and ip",
    "ip6 protochain 17",
    "greater 100 or ip[ip[0]:2] * 2 > 7",
];

/// Programs of any instructions, without what only a validator keeps from going wrong: they end,
/// jump forwards, divide by no constant 0, and read scratch memory that was written.
fn programs() -> impl Strategy<Value = Vec<Instruction>> {
    const CODES: [u16; 46] = [
        0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x80, 0x00, 0x60, 0x01, 0x61, 0x81, 0xb1, 0x02, 0x03,
        0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74,
        0x7c, 0x84, 0x94, 0x9c, 0xa4, 0xac, 0x05, 0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x07,
        0x87,
    ];
    let operand = prop_oneof![0_u32..8, 0_u32..80];
    let one = (prop::sample::select(CODES.to_vec()), any::<u8>(), any::<u8>(), operand);
    prop::collection::vec(one, 1..30).prop_map(|drawn| {
        let stores = (0..16).map(|word| Instruction::plain(0x02, word));
        let count = drawn.len();
        let body = drawn.into_iter().enumerate().map(|(at, (code, jt, jf, k))| {
            let within = |skip: u8| skip % (count - at) as u8;
            let k = match code {
                0x02 | 0x03 | 0x60 | 0x61 => k % 16,
                0x34 | 0x94 => k + 1,
                0x64 | 0x74 => k % 32,
                0x05 => k % (count - at) as u32,
                _ => k,
            };
            Instruction { code, jt: within(jt), jf: within(jf), k }
        });
        // Returns A.
        stores.chain(body).chain([Instruction::plain(0x16, 0)]).collect()
    })
}

/// Packets that such filters look deep into.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![0x0800_u16, 0x86dd, 0x8100, 0x8847, 0x8864, 0x0806, 40]);
    let first = prop::sample::select(vec![0x45_u8, 0x46, 0x4f, 0x60, 0x00]);
    let next = prop::sample::select(vec![6_u8, 17, 1, 44, 0, 60, 58]);
    // Few values, so that what a filter looks for is there now and then.
    let byte = prop::sample::select(vec![0_u8, 0, 0, 1, 2, 5, 6, 7, 17, 53, 80, 255]);
    (kinds, first, next, prop::collection::vec(byte, 0..120)).prop_map(
        |(kind, first, next, rest)| {
            let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
            packet.extend(kind.to_be_bytes());
            let at = packet.len();
            packet.extend(rest);
            let mut set =
                |at: usize, value| packet.get_mut(at).into_iter().for_each(|b| *b = value);
            set(at, first);
            set(at + if first >> 4 == 6 { 6 } else { 9 }, next);
            packet
        },
    )
}

proptest! {
    /// Our machine does what libpcap's does, cut packets included.
    #[test]
    fn the_machine_agrees_with_libpcap(
        filter in 0..FILTERS.len(),
        packet in packets(),
        longer in 0_u32..200,
    ) {
        let Some(library) = library() else { return Ok(()) };
        let text = FILTERS[filter];
        let filter = Filter::compile(text, None, 1, 262_144).unwrap();
        let length = packet.len() as u32 + longer;
        let theirs = library.offline_filter(filter.code(), &packet, length);
        prop_assert_eq!(machine::run(filter.code(), &packet, length), theirs, "{}", text);
    }

    /// Both machines agree on any program.
    #[test]
    fn the_machine_agrees_on_any_program(
        code in programs(),
        packet in prop::collection::vec(any::<u8>(), 0..80),
        longer in 0_u32..200,
    ) {
        let Some(library) = library() else { return Ok(()) };
        let length = packet.len() as u32 + longer;
        let theirs = library.offline_filter(&code, &packet, length);
        prop_assert_eq!(machine::run(&code, &packet, length), theirs);
    }

    /// Any text gives a filter or an error with a place inside it.
    #[test]
    fn any_text_is_a_filter_or_none(text in "[ -~]{0,30}") {
        if library().is_none() || text.contains(char::is_alphabetic) {
            // Words might be hosts, which somebody would be asked for.
            return Ok(());
        }
        match Filter::compile(&text, None, 1, 96) {
            Ok(_) => {}
            Err(FilterError::Text { place, .. }) => {
                prop_assert!(place.is_none_or(|place| text.get(place..).is_some()));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
