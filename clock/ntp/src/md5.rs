//! MD5 (RFC 1321) of a few bytes. NTP names a server by it, nothing is protected by it.

/// How far each step of a round rotates.
const ROTATIONS: [[u32; 4]; 4] =
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// ⌊2³² · |sin(i + 1)|⌋, as RFC 1321 §3.4 has it.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

/// The sum of at most 55 bytes, which fit into one block; what is beyond is left out.
pub(crate) fn of_block(message: &[u8]) -> [u8; 16] {
    let mut block = [0u8; 64];
    let len = message.len().min(55);
    for (to, byte) in block.iter_mut().zip(message.iter().take(len).chain([&0x80])) {
        *to = *byte;
    }
    let bits = (len as u64 * 8).to_le_bytes();
    for (to, byte) in block.iter_mut().skip(56).zip(bits) {
        *to = byte;
    }
    let mut words = [0u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let start = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let [mut a, mut b, mut c, mut d] = start;
    for (i, sine) in SINES.iter().enumerate() {
        let (mixed, at) = match i / 16 {
            0 => ((b & c) | (!b & d), i),
            1 => ((d & b) | (!d & c), 5 * i + 1),
            2 => (b ^ c ^ d, 3 * i + 5),
            _ => (c ^ (b | !d), 7 * i),
        };
        let word = words.get(at % 16).copied().unwrap_or_default();
        let rotation =
            ROTATIONS.get(i / 16).and_then(|round| round.get(i % 4)).copied().unwrap_or_default();
        let sum = a.wrapping_add(mixed).wrapping_add(*sine).wrapping_add(word);
        (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(rotation)));
    }
    let mut sum = [0; 16];
    for ((to, from), add) in sum.as_chunks_mut().0.iter_mut().zip(start).zip([a, b, c, d]) {
        *to = from.wrapping_add(add).to_le_bytes();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rfcs_own_examples() {
        // RFC 1321 §A.5.
        for (message, sum) in [
            ("", 0xd41d_8cd9_8f00_b204_e980_0998_ecf8_427e_u128),
            ("a", 0x0cc1_75b9_c0f1_b6a8_31c3_99e2_6977_2661),
            ("abc", 0x9001_5098_3cd2_4fb0_d696_3f7d_28e1_7f72),
            ("message digest", 0xf96b_697d_7cb7_938d_525a_2f31_aaf1_61d0),
            ("abcdefghijklmnopqrstuvwxyz", 0xc3fc_d3d7_6192_e400_7dfb_496c_ca67_e13b),
        ] {
            assert_eq!(of_block(message.as_bytes()), sum.to_be_bytes(), "{message}");
        }
        assert_eq!(of_block(&[b'x'; 60]), of_block(&[b'x'; 55]));
    }
}
