use proptest::collection::vec;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::*;

/// Where the tests' values come from: often from the ends of what there is.
pub(super) struct Random(ChaCha8Rng);

impl Random {
    fn new(seed: u64) -> Random {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(super) fn number(&mut self) -> u64 {
        let number = self.0.next_u64();
        match number >> 61 {
            0 => number & 3,
            1 => i64::MAX as u64,
            2 => i64::MIN as u64,
            3 => u64::MAX - (number & 3),
            _ => number,
        }
    }
}

/// Any message that can be.
pub(crate) fn message(seed: u64) -> Message {
    Form::any(&mut Random::new(seed))
}

/// Any state that can be.
pub(crate) fn transfer(seed: u64) -> Transfer {
    Form::any(&mut Random::new(seed))
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(seed: u64) {
        let message = message(seed);
        prop_assert_eq!(decode(&encode(&message)), Ok(message));
        let transfer = transfer(seed);
        if let Some(checkpoint) = &transfer.checkpoint {
            let again = decode_checkpoint(&encode_checkpoint(checkpoint)).unwrap();
            prop_assert_eq!(&again, checkpoint);
        }
        prop_assert_eq!(decode_transfer(&encode_transfer(&transfer)), Ok(transfer));
    }

    #[test]
    fn any_bytes_are_refused_or_canonical(bytes in vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    #[test]
    fn changed_bytes_are_refused_or_canonical(
        seed: u64, changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4)
    ) {
        for mut bytes in [encode(&message(seed)), encode_transfer(&transfer(seed))] {
            for (place, byte) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            check(&bytes);
        }
    }

    #[test]
    fn no_part_of_a_message_is_a_message(seed: u64, cut in any::<proptest::sample::Index>()) {
        let whole = encode(&message(seed));
        let part = &whole[..cut.index(whole.len())];
        prop_assert!(matches!(decode(part), Err(Broken::Short | Broken::Foreign)));
        let longer = [&whole[..], &[0]].concat();
        prop_assert_eq!(decode(&longer), Err(Broken::Long));
        let whole = encode_transfer(&transfer(seed));
        let part = &whole[..cut.index(whole.len())];
        prop_assert_eq!(decode_transfer(part), Err(Broken::Short));
    }
}

fn plain() -> Message {
    Message {
        group: 0x0102_0304_0506_0708,
        incarnation: 9,
        point: Point { generation: 10, index: 11 },
        history: 12,
        established: true,
        entries: vec![Entry::Propose(Proposal {
            thread: Thread(16),
            round: Round(13),
            call: Call::Time,
            time: Time { group: -2, utc: Some(Bound { earliest: 14, latest: 15 }), last: 16 },
        })],
    }
}

/// The layout is a contract between members of different builds.
#[test]
fn version_8_as_it_is() {
    let mut expected = b"TCGR\x08\x00\x08\x07\x06\x05\x04\x03\x02\x01".to_vec();
    for number in [9u64, 10, 11, 12] {
        expected.extend_from_slice(&number.to_le_bytes());
    }
    expected.push(1);
    expected.extend_from_slice(&1u32.to_le_bytes());
    expected.push(1);
    expected.extend_from_slice(&16u64.to_le_bytes());
    expected.extend_from_slice(&13u64.to_le_bytes());
    expected.push(3);
    expected.extend_from_slice(&(-2i64).to_le_bytes());
    expected.push(1);
    for number in [14u64, 15, 16] {
        expected.extend_from_slice(&number.to_le_bytes());
    }
    assert_eq!(encode(&plain()), expected);
}

#[test]
fn each_fault_has_its_name() {
    let good = encode(&plain());
    let with = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        decode(&bytes).unwrap_err()
    };
    assert_eq!(decode(b""), Err(Broken::Foreign));
    assert_eq!(decode(b"\x7fELF and what not"), Err(Broken::Foreign));
    assert_eq!(with(4, 1), Broken::Version(1));
    assert_eq!(with(46, 2), Broken::Wrong("neither yes nor no"));
    assert_eq!(with(48, 0xff), Broken::Wrong("a list longer than can be"));
    assert_eq!(with(51, 0), Broken::Wrong("an entry of no known kind"));
    assert_eq!(with(68, 8), Broken::Wrong("a call that does not exist"));
    assert_eq!(with(78, 200), Broken::Wrong("a bound the wrong way round"));
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let mut message = plain();
    let user = User {
        token: 1,
        time: Time { group: 0, utc: None, last: 0 },
        stamp: None,
        payload: b"payload".to_vec(),
    };
    message.entries = vec![Entry::User(user.clone())];
    let mut bytes = encode(&message);
    let length = bytes.len() - 7 - 4;
    bytes[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode(&bytes), Err(Broken::Short));
    // One byte more than the longest.
    message.entries = vec![Entry::User(User { payload: vec![0; LARGEST_PAYLOAD + 1], ..user })];
    assert_eq!(decode(&encode(&message)), Err(Broken::Wrong("a payload longer than can be")));
}

/// Refuses a state with which one could not go on, or not let anybody in.
#[test]
fn no_state_is_from_the_end_of_time() {
    let with = |last, point| {
        let mut transfer = transfer(1);
        transfer.snapshot.last = last;
        transfer.snapshot.point = point;
        decode_transfer(&encode_transfer(&transfer)).map(|_| ())
    };
    let point = Point { generation: 1, index: 2 };
    assert_eq!(with(NEVER - 1, point), Ok(()));
    let wrong =
        Err(Broken::Wrong("a state that is out of order, too large or from the end of time"));
    assert_eq!(with(NEVER, point), wrong);
    assert_eq!(with(0, Point { generation: 2 * FARTHEST, index: 2 }), wrong);
    assert_eq!(with(0, Point { generation: 1, index: u64::MAX }), wrong);
}
