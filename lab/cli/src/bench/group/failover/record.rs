//! Records of what a program at a member saw, in a file: one line of fixed length for each thing,
//! written when it happens, so that a killed program leaves all but perhaps its last.

use std::io::{self, Read};

use truechimer_group::{Agreed, Bound, GroupTime, Member, Phase, Point};

/// Bytes of one record.
pub const SIZE: usize = 96;
/// Set where `utc` is there.
const HAS_UTC: u8 = 1;

/// Something that a program saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it began, ns of CLOCK_MONOTONIC.
    pub began: i64,
    /// When it was done, ns of CLOCK_MONOTONIC.
    pub done: i64,
    /// Event that is recorded.
    pub what: What,
}

/// Event that a program saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A clock operation gave a value.
    Value {
        /// The logical thread.
        thread: u64,
        /// Number of the operation in the thread.
        round: u64,
        /// The value.
        value: Agreed,
    },
    /// The time at present.
    Present {
        /// The value.
        value: Agreed,
    },
    /// A clock operation was refused or failed.
    Refused {
        /// The logical thread.
        thread: u64,
        /// Reason: a [`Cause`] as a number.
        cause: Cause,
    },
    /// A message came in the group's order.
    Message {
        /// Sender.
        from: Member,
        /// Contents: sender's life and count.
        content: u64,
        /// Time of the message.
        value: Agreed,
    },
    /// A majority has everything up to there.
    Committed {
        /// The place.
        point: Point,
    },
    /// The member's phase changed, as readers of the clock see it.
    Phase(Phase),
    /// Change of the phase at this place among the messages.
    Turn(Phase),
}

/// Reason why an operation gave no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cause {
    /// The member is outside the primary component.
    Outside = 1,
    /// The agent is gone.
    Gone = 2,
    /// The patience was at an end.
    Late = 3,
    /// Anything else.
    Other = 4,
}

impl Cause {
    const ALL: [Cause; 4] = [Cause::Outside, Cause::Gone, Cause::Late, Cause::Other];
}

const PHASES: [Phase; 3] = [Phase::Outside, Phase::Joining, Phase::Live];

fn place(phase: Phase) -> u64 {
    PHASES.iter().position(|p| *p == phase).unwrap_or_default() as u64
}

/// Reason why a file of records cannot be used.
#[derive(Debug)]
pub enum Broken {
    /// Failure to read it.
    Io(io::Error),
    /// This record, counted from 0, is not one, and it is not the last.
    Record(u64, &'static str),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Io(error) => error.fmt(f),
            Broken::Record(n, what) => write!(f, "record {n}: {what}"),
        }
    }
}

/// A record's words, in their order in the file, little-endian; the last is the check.
#[derive(Default)]
struct Words([u64; SIZE / 8]);

impl Words {
    fn check(&self) -> u64 {
        // FNV-1a by words: against a torn or foreign record, not against malice.
        let words = self.0.iter().take(SIZE / 8 - 1);
        words.fold(0xcbf2_9ce4_8422_2325, |sum, word| {
            (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
        })
    }
}

impl Record {
    /// Encodes it as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SIZE] {
        let none = Agreed {
            time: GroupTime(0),
            utc: None,
            synchronizer: Member(0),
            point: Point::default(),
        };
        let (kind, a, b, value) = match self.what {
            What::Value { thread, round, value } => (1, thread, round, value),
            What::Refused { thread, cause } => (2, thread, cause as u64, none),
            What::Message { from, content, value } => (3, content, u64::from(from.0), value),
            What::Committed { point } => (4, 0, 0, Agreed { point, ..none }),
            What::Phase(phase) => (5, place(phase), 0, none),
            What::Turn(phase) => (6, place(phase), 0, none),
            What::Present { value } => (7, 0, 0, value),
        };
        let flags = if value.utc.is_some() { HAS_UTC } else { 0 };
        let utc = value.utc.unwrap_or(Bound { earliest: 0, latest: 0 });
        let head = kind | u64::from(flags) << 8 | u64::from(value.synchronizer.0) << 32;
        let mut words = Words([
            head,
            self.began as u64,
            self.done as u64,
            a,
            b,
            value.time.0 as u64,
            utc.earliest as u64,
            utc.latest as u64,
            value.point.generation,
            value.point.index,
            0,
            0,
        ]);
        let check = words.check();
        if let Some(last) = words.0.last_mut() {
            *last = check;
        }
        let mut out = [0; SIZE];
        for (bytes, word) in out.chunks_exact_mut(8).zip(words.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Of bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8; SIZE]) -> Result<Record, &'static str> {
        let mut words = Words::default();
        for (word, bytes) in words.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().map_err(|_| "too short")?);
        }
        if words.0.last() != Some(&words.check()) {
            return Err("its check does not fit");
        }
        let [head, began, done, a, b, time, earliest, latest, generation, index, _, _] = words.0;
        let point = Point { generation, index };
        let bound = Bound { earliest: earliest as i64, latest: latest as i64 };
        let value = Agreed {
            time: GroupTime(time as i64),
            utc: (head >> 8 & u64::from(HAS_UTC) != 0).then_some(bound),
            synchronizer: Member((head >> 32) as u32),
            point,
        };
        let what = match head & 0xff {
            1 => What::Value { thread: a, round: b, value },
            2 => {
                let cause = Cause::ALL.into_iter().find(|cause| *cause as u64 == b);
                What::Refused { thread: a, cause: cause.ok_or("no such cause")? }
            }
            3 => {
                let from = u32::try_from(b).map_err(|_| "no such member")?;
                What::Message { from: Member(from), content: a, value }
            }
            4 => What::Committed { point },
            7 => What::Present { value },
            kind @ (5 | 6) => {
                let phase = usize::try_from(a).ok().and_then(|a| PHASES.get(a));
                let phase = *phase.ok_or("no such phase")?;
                if kind == 5 { What::Phase(phase) } else { What::Turn(phase) }
            }
            _ => return Err("no such kind"),
        };
        Ok(Record { began: began as i64, done: done as i64, what })
    }
}

/// Reads records from where it stands, as far as there are any: also from a file that is still
/// being written.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    rest: Vec<u8>,
    count: u64,
}

impl<R: Read> Reader<R> {
    /// From the beginning.
    pub fn new(from: R) -> Reader<R> {
        Reader { from, rest: Vec::new(), count: 0 }
    }

    /// Gives each record that is there by now to `take`.
    ///
    /// # Errors
    /// Where it cannot be read, or a record is broken that is not the last.
    pub fn read(&mut self, mut take: impl FnMut(Record)) -> Result<(), Broken> {
        let mut block = [0; SIZE * 256];
        loop {
            let got = match self.from.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Broken::Io(error)),
            };
            self.rest.extend(block.iter().take(got));
            let mut records = self.rest.chunks_exact(SIZE);
            for bytes in records.by_ref() {
                let bytes =
                    bytes.try_into().map_err(|_| Broken::Record(self.count, "too short"))?;
                let record =
                    Record::decode(bytes).map_err(|what| Broken::Record(self.count, what))?;
                self.count += 1;
                take(record);
            }
            self.rest = records.remainder().to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record> {
        let value = |utc| Agreed {
            time: GroupTime(-5),
            utc,
            synchronizer: Member(u32::MAX),
            point: Point { generation: 3, index: u64::MAX },
        };
        let bound = Bound { earliest: i64::MIN, latest: i64::MAX };
        let all = [
            What::Value { thread: u64::MAX, round: 7, value: value(None) },
            What::Value { thread: 16, round: 0, value: value(Some(bound)) },
            What::Refused { thread: 1, cause: Cause::Outside },
            What::Refused { thread: 1, cause: Cause::Other },
            What::Message { from: Member(9), content: 1 << 63, value: value(None) },
            What::Committed { point: Point { generation: 1, index: 2 } },
            What::Phase(Phase::Outside),
            What::Phase(Phase::Live),
            What::Turn(Phase::Joining),
            What::Present { value: value(Some(bound)) },
        ];
        all.into_iter().map(|what| Record { began: -1, done: i64::MAX, what }).collect()
    }

    #[test]
    fn records_come_back_as_they_were() {
        for record in samples() {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let bytes = samples()[1].encode();
        for bit in 0..SIZE * 8 {
            let mut broken = bytes;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&broken).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_file_that_is_being_written_is_read_on() {
        let all: Vec<u8> = samples().iter().flat_map(Record::encode).collect();
        let dir = std::env::temp_dir();
        let path = dir.join(format!("truechimer-records-{}", std::process::id()));
        std::fs::write(&path, &all[..SIZE + 10]).unwrap();
        let mut reader = Reader::new(std::fs::File::open(&path).unwrap());
        let mut seen = Vec::new();
        reader.read(|record| seen.push(record)).unwrap();
        assert_eq!(seen.len(), 1);
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        io::Write::write_all(&mut file, &all[SIZE + 10..]).unwrap();
        reader.read(|record| seen.push(record)).unwrap();
        assert_eq!(seen, samples());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let mut reader = Reader::new(&[7_u8; SIZE * 2][..]);
        assert!(matches!(reader.read(|_| ()), Err(Broken::Record(0, _))));
    }
}
