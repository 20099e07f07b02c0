//! Work of the fuzz targets, without a fuzzer: the same driver, fed by a seeded generator that
//! mutates scripts and packets which make sense.

use truechimer_ntp::{Packet, Timestamp};

use crate::drive;

/// SplitMix64: enough to shuffle bytes, the same everywhere.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Bytes that a protocol is likely to stumble over, or any.
    fn byte(&mut self) -> u8 {
        match self.below(4) {
            0 => [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
            _ => self.next() as u8,
        }
    }

    /// A timestamp, often one of the extremes.
    fn stamp(&mut self) -> Timestamp {
        Timestamp(match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            _ => self.next(),
        })
    }

    /// Replaces, flips, removes, inserts or doubles a few bytes.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            if bytes.is_empty() {
                bytes.push(self.byte());
            }
            let at = self.below(bytes.len());
            match self.below(6) {
                0 | 1 => bytes[at] = self.byte(),
                2 => bytes[at] ^= 1 << self.below(8),
                3 => bytes.truncate(at),
                4 => bytes.insert(at, self.byte()),
                _ => bytes.extend_from_within(at..),
            }
        }
    }

    /// A script of whole steps: each begins with an operation and has the bytes it wants.
    fn script(&mut self) -> Vec<u8> {
        let mut script = Vec::new();
        for _ in 0..self.below(12) {
            let step = (self.next() as u8 & 0b0011_1111)
                | [0, 0, 0, 0b0100_0000, 0b1000_0000][self.below(5)];
            script.push(step);
            match step & 7 {
                0 => script.extend(self.stamp().0.to_be_bytes()),
                2 => {
                    let len = usize::from(step >> 3 & 7) * 12;
                    script.extend((0..len).map(|_| self.byte()));
                }
                3 | 4 => {
                    let mut bytes = drive::good_reply(self.stamp()).encode();
                    for _ in 0..self.below(4) {
                        let at = self.below(bytes.len());
                        bytes[at] = self.byte();
                    }
                    script.extend(bytes);
                }
                5 => script.extend([self.byte(), self.byte()]),
                _ => {}
            }
        }
        script
    }
}

#[test]
fn a_client_withstands_any_replies() {
    let mut generator = Generator(1);
    for _ in 0..100_000 {
        let mut script = generator.script();
        generator.mutate(&mut script);
        drive::reply(&script);
    }
}

#[test]
fn a_server_withstands_any_requests() {
    let mut generator = Generator(2);
    for _ in 0..100_000 {
        let mut bytes = (0..generator.below(60)).map(|_| generator.byte()).collect::<Vec<_>>();
        if generator.below(4) > 0 {
            let mut request = drive::good_reply(generator.stamp());
            request.transmit_timestamp = generator.stamp();
            bytes = request.encode().to_vec();
            bytes[0] = 0o43 ^ (1 << generator.below(8) & generator.byte());
        }
        generator.mutate(&mut bytes);
        drive::request(&bytes);
        if let Some((packet, rest)) = Packet::decode(&bytes) {
            assert_eq!([&packet.encode()[..], rest].concat(), bytes);
        }
    }
}
