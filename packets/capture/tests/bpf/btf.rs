//! The kernel's types: the real ones, small ones made by hand, and bytes that are none.

use proptest::prelude::*;
use truechimer_capture::bpf::{Btf, BtfError, Member};
use truechimer_testbed::lacking::{Lacking, or_skip};

/// Writes BTF.
#[derive(Default)]
struct Writer {
    types: Vec<u8>,
    names: Vec<u8>,
}

impl Writer {
    fn new() -> Writer {
        Writer { types: Vec::new(), names: vec![0] }
    }

    fn words(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.names.len() as u32;
        self.names.extend(name.bytes().chain([0]));
        at
    }

    /// A type's fixed part.
    fn head(&mut self, name: &str, kind: u32, count: u32, flag: bool, last: u32) {
        let name = self.name(name);
        self.words(&[name, u32::from(flag) << 31 | kind << 24 | count, last]);
    }

    fn member(&mut self, name: &str, number: u32, place: u32) {
        let name = self.name(name);
        self.words(&[name, number, place]);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = 0xeb9f_u16.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let (types, names) = (self.types.len() as u32, self.names.len() as u32);
        for word in [24, 0, types, types, names] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.names);
        bytes
    }
}

/// 1 int, 2 anonymous union, 3 anonymous structure, 4 `packet`, 5 array, 6 typedef, 7 pointer.
fn sample() -> Vec<u8> {
    let mut w = Writer::new();
    w.head("unsigned int", 1, 0, false, 4);
    w.words(&[32]);
    w.head("", 5, 2, false, 8); // union { unsigned int left; struct {…}; }
    w.member("left", 1, 0);
    w.member("", 3, 0);
    w.head("", 4, 2, true, 8); // struct { unsigned int low : 3, high : 7; }
    w.member("low", 1, 3 << 24 | 32);
    w.member("high", 1, 7 << 24 | 35);
    w.head("packet", 4, 4, false, 40);
    w.member("first", 7, 0);
    w.member("", 2, 64);
    w.member("row", 5, 128);
    w.member("inner", 6, 256);
    w.head("", 3, 0, false, 0);
    w.words(&[1, 1, 4]);
    w.head("anon_t", 8, 0, false, 2);
    w.head("", 2, 0, false, 1);
    w.head("hello", 12, 0, false, 0);
    w.head("btf_trace_arrived", 8, 0, false, 7);
    w.bytes()
}

fn plain(offset: u32, size: u32) -> Result<Member, BtfError> {
    Ok(Member { offset, size, bits: None })
}

#[test]
fn members_are_found() {
    let btf = Btf::parse(sample()).unwrap();
    assert_eq!(btf.len(), 9);
    assert_eq!(btf.size_of("packet"), Ok(40));
    assert_eq!(btf.member("packet", "first"), plain(0, size_of::<usize>() as u32));
    assert_eq!(btf.member("packet", "left"), plain(8, 4));
    assert_eq!(btf.member("packet", "row"), plain(16, 16));
    assert_eq!(btf.member("packet", "inner"), plain(32, 8));
    assert_eq!(btf.member("packet", "inner.left"), plain(32, 4));
    let low = Member { offset: 12, size: 4, bits: Some((0, 3)) };
    assert_eq!(btf.member("packet", "low"), Ok(low));
    let high = Member { offset: 36, size: 4, bits: Some((3, 7)) };
    assert_eq!(btf.member("packet", "inner.high"), Ok(high));
    assert!(matches!(btf.offset("packet", "low"), Err(BtfError::Unknown(_))));
    assert!(matches!(btf.offset("packet", "none"), Err(BtfError::Unknown(_))));
    assert!(matches!(btf.offset("packet", "first.left"), Err(BtfError::Unknown(_))));
    assert!(matches!(btf.offset("none", "left"), Err(BtfError::Unknown(_))));
    assert!(matches!(btf.offset("packet", ""), Err(BtfError::Unknown(_))));
    assert_eq!(btf.function("hello"), Ok(8));
    assert_eq!(btf.tracepoint("arrived"), Ok(9));
    assert!(btf.function("packet").is_err());
}

#[test]
fn structures_that_hold_themselves_end() {
    let mut w = Writer::new();
    w.head("loop", 4, 3, false, 8); // Three times an anonymous member that is itself.
    (0..3).for_each(|_| w.member("", 1, 0));
    w.head("name", 8, 0, false, 2); // A typedef of itself.
    w.head("rows", 3, 0, false, 0); // An array of itself.
    w.words(&[3, 3, 2]);
    w.head("holder", 4, 2, false, 8);
    w.member("name", 2, 0);
    w.member("rows", 3, 0);
    let btf = Btf::parse(w.bytes()).unwrap();
    assert!(btf.member("loop", "x").is_err());
    assert!(btf.member("holder", "name").is_err());
    assert!(btf.member("holder", "rows").is_err());
}

#[test]
fn whatever_is_cut_off_is_refused_or_read() {
    let whole = sample();
    for len in 0..whole.len() {
        let Ok(btf) = Btf::parse(whole[..len].to_vec()) else { continue };
        panic!("{len} of {} bytes were taken, with {} types", whole.len(), btf.len());
    }
}

fn kernel() -> Option<Vec<u8>> {
    let path = "/sys/kernel/btf/vmlinux";
    or_skip(std::fs::read(path).map_err(|error| Lacking(format!("{path}: {error}"))))
}

#[test]
fn the_kernel_is_known() {
    let Some(bytes) = kernel() else { return };
    let btf = Btf::parse(bytes).unwrap();
    // `len` and `data_len` stand side by side; `tstamp` is in an anonymous union.
    let (len, data_len) = (btf.offset("sk_buff", "len"), btf.offset("sk_buff", "data_len"));
    assert_eq!(len.unwrap() + 4, data_len.unwrap());
    assert_eq!(btf.member("sk_buff", "tstamp").unwrap().size, 8);
    assert_eq!(btf.offset("sk_buff", "next"), Ok(0));
    assert_eq!(btf.offset("list_head", "prev"), Ok(size_of::<usize>() as u32));
    assert!(btf.member("sk_buff", "cloned").unwrap().bits.is_some());
    assert!(btf.member("net_device", "ifindex").unwrap().size == 4);
    assert!(btf.tracepoint("netif_receive_skb").unwrap() > 0);
    assert!(btf.size_of("sk_buff").unwrap() > 100);
}

#[test]
fn a_garbled_kernel_does_no_harm() {
    let Some(bytes) = kernel() else { return };
    // 1664525 and 1013904223: the linear congruential generator of Numerical Recipes.
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize
    };
    for round in 0..12 {
        let mut bytes = bytes.clone();
        for _ in 0..1 << round {
            // Past the header, mostly: that is refused at once.
            let at = 24 + next() % (bytes.len() - 24);
            bytes[at] = next() as u8;
        }
        if round % 3 == 2 {
            bytes.truncate(next() % bytes.len());
        }
        if let Ok(btf) = Btf::parse(bytes) {
            for (structure, member) in
                [("sk_buff", "tstamp"), ("net_device", "name"), ("task_struct", "comm.x")]
            {
                let _ = btf.member(structure, member);
                let _ = btf.size_of(structure);
            }
            let _ = btf.function("netif_rx");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Btf::parse(bytes);
    }

    /// The sample with some words replaced.
    #[test]
    fn no_change_is_too_odd(changes in prop::collection::vec(
        (any::<prop::sample::Index>(), prop_oneof![any::<u32>(), 0_u32..64]), 1..6,
    )) {
        let mut bytes = sample();
        for (at, word) in changes {
            let at = at.index(bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        if let Ok(btf) = Btf::parse(bytes) {
            for path in ["first", "left", "inner.high", "row", "none", "inner.inner.left"] {
                let _ = btf.member("packet", path);
            }
            let _ = btf.size_of("packet");
            let _ = btf.tracepoint("arrived");
        }
    }
}
