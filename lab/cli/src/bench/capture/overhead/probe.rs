//! The programs that measure: around the place where the kernel stamps an arriving packet.
//!
//! A packet on a virtual wire passes `netif_rx_entry`, is stamped if anybody wants stamps, and
//! passes `netif_rx`: nothing else lies between the two tracepoints. A program sits at each. What
//! is asked of the next packets stands in a map:
//!
//! * a *bracket*: the first program reads the ruler, does one thing, reads the ruler again;
//! * *stamp*: the first program reads the ruler last, the second reads it first.

use truechimer_capture::bpf::Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use truechimer_capture::bpf::{
    Asm, BpfError, Btf, Cond, Helper, Hook, Link, Map, Program, ProgramKind, RingBuffer, Size, Tsc,
};

use truechimer_outcome::outcome::Failure;

/// Tells our packets from all others.
pub const MARK: u32 = 0x5443_4F56;
const PAYLOAD_OFFSET: i32 = 28;
const RING_BYTES: u32 = 1 << 20;

/// Work between two readings of the ruler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// `CLOCK_MONOTONIC`: what XDP programs stamp with.
    Monotonic,
    /// `CLOCK_TAI`: `CLOCK_REALTIME` plus a constant, and the same work.
    Tai,
    /// The counter alone, as BPF gets at it.
    Count,
    /// Work of the kernel itself there: a stamp, or nothing if nobody wants stamps.
    Kernel,
}

impl Act {
    /// All that a program does itself.
    const OWN: [Act; 4] = [Act::Nothing, Act::Monotonic, Act::Tai, Act::Count];

    const fn code(self) -> i32 {
        match self {
            Act::Nothing => 0,
            Act::Monotonic => 1,
            Act::Tai => 2,
            Act::Count => 3,
            Act::Kernel => 4,
        }
    }
}

/// Clock by which the programs measure time.
#[derive(Debug)]
pub enum Ruler {
    /// The TSC.
    Tsc(Tsc),
    /// `CLOCK_MONOTONIC`, where there is no TSC to be read: it costs about as much as what is
    /// measured.
    Clock,
}

impl Ruler {
    /// The best that there is, and why it is not the TSC.
    pub fn best() -> (Ruler, Option<BpfError>) {
        match Tsc::open() {
            Ok(tsc) => (Ruler::Tsc(tsc), None),
            Err(error) => (Ruler::Clock, Some(error)),
        }
    }

    /// Appends a reading, into R0.
    pub fn read(&self, asm: &mut Asm) {
        match self {
            Ruler::Tsc(tsc) => tsc.read(asm),
            Ruler::Clock => asm.call(Helper::KtimeGetNs),
        };
    }
}

/// Record of one packet, by the programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The ruler before.
    pub before: u64,
    /// The ruler after.
    pub after: u64,
    /// Which of the packets it is.
    pub number: u32,
    /// Act that was done.
    pub act: u32,
    /// True if the packet carried a stamp when the second reading was taken.
    pub stamped: bool,
}

const RECORD: i16 = 40;

impl Record {
    fn parse(bytes: &[u8]) -> Option<Record> {
        let long = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes);
        let short = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes);
        let mark = short(24)?;
        (mark == MARK).then_some(())?;
        Some(Record {
            before: long(0)?,
            after: long(8)?,
            act: short(16)?,
            number: short(28)?,
            stamped: long(32)? != 0,
        })
    }
}

/// The programs at their places.
#[derive(Debug)]
pub struct Probe {
    control: Map,
    ring: RingBuffer,
    _links: [Link; 2],
    _programs: [Program; 2],
}

/// Where the members are that are looked at.
struct Places {
    len: i16,
    data: i16,
    tstamp: i16,
}

/// Offsets in the control value: what to do, then for each processor the packet and the ruler's
/// first reading.
const SEATS: i16 = 8;
const SEAT_MASK: i32 = 63;
const CONTROL_BYTES: u32 = 8 + 64 * 16;

impl Probe {
    /// Puts the programs in place; packets of other lengths than `ip_length` are let alone.
    ///
    /// # Errors
    /// Where rights are missing or the kernel has no such places.
    pub fn new(ruler: &Ruler, ip_length: u32) -> Result<Probe, Failure> {
        Probe::built(ruler, ip_length).map_err(|why| Failure(format!("measuring stamps: {why}")))
    }

    fn built(ruler: &Ruler, ip_length: u32) -> Result<Probe, String> {
        let text = |error: BpfError| error.to_string();
        let btf = Btf::kernel().map_err(|error| error.to_string())?;
        let place = |member: &str| -> Result<i16, String> {
            let offset = btf.offset("sk_buff", member).map_err(|error| error.to_string())?;
            i16::try_from(offset).map_err(|_| format!("`sk_buff.{member}` is out of reach"))
        };
        let places = Places { len: place("len")?, data: place("data")?, tstamp: place("tstamp")? };
        let hook = |name: &str| -> Result<ProgramKind, String> {
            let number = btf.tracepoint(name).map_err(|error| error.to_string())?;
            Ok(ProgramKind::Tracing(Hook::Tracepoint(number)))
        };
        let control = Map::array(CONTROL_BYTES, 1).map_err(text)?;
        let ring = RingBuffer::new(RING_BYTES).map_err(text)?;
        let parts = Parts { ruler, control: &control, ring: ring.map(), places, ip_length };
        let before = Program::load(hook("netif_rx_entry")?, "before", &parts.before());
        let before = before.map_err(text)?;
        let after = Program::load(hook("netif_rx")?, "after", &parts.after()).map_err(text)?;
        let links = [Link::tracing(&before).map_err(text)?, Link::tracing(&after).map_err(text)?];
        Ok(Probe { control, ring, _links: links, _programs: [before, after] })
    }

    /// Sets what is done with packets from now on.
    ///
    /// # Errors
    /// Where the kernel refuses to say so to the programs.
    pub fn set(&self, act: Act) -> Result<(), Failure> {
        let mut value = vec![0; CONTROL_BYTES as usize];
        value.iter_mut().zip(act.code().to_ne_bytes()).for_each(|(to, from)| *to = from);
        let set = self.control.set(&0_u32.to_ne_bytes(), &value);
        set.map_err(|error| Failure(error.to_string()))
    }

    /// The records that have come since the last time.
    ///
    /// # Errors
    /// Where they make no sense.
    pub fn take(&mut self) -> Result<Vec<Record>, Failure> {
        let mut records = Vec::new();
        let taken = self.ring.consume(|bytes| records.extend(Record::parse(bytes)));
        taken.map_err(|error| Failure(error.to_string()))?;
        Ok(records)
    }
}

struct Parts<'a> {
    ruler: &'a Ruler,
    control: &'a Map,
    ring: &'a Map,
    places: Places,
    ip_length: u32,
}

impl Parts<'_> {
    /// R7 = this processor's seat in the control value; R0 to R5 are lost.
    fn seat(&self, asm: &mut Asm) {
        asm.call(Helper::CpuId).and(R0, SEAT_MASK).shl(R0, 4);
        asm.map_value(R7, self.control, SEATS.unsigned_abs().into()).add(R7, R0);
    }

    /// Writes a record, if R6 is a packet of ours, and ends: R9 and R8 are the readings, the act
    /// stands on the stack already.
    fn finish(&self, asm: &mut Asm) {
        let over = asm.label();
        let len = i32::try_from(self.ip_length).unwrap_or(i32::MAX);
        asm.load(Size::U32, R1, R6, self.places.len).jump_if(Cond::Ne, R1, len, over);
        asm.store(Size::U64, R10, -RECORD, R9).store(Size::U64, R10, 8 - RECORD, R8);
        asm.load(Size::U64, R1, R6, self.places.tstamp);
        asm.store(Size::U64, R10, 32 - RECORD, R1);
        asm.load(Size::U64, R3, R6, self.places.data).add(R3, PAYLOAD_OFFSET);
        asm.mov(R1, R10).add(R1, i32::from(24 - RECORD)).mov(R2, 8).call(Helper::ProbeReadKernel);
        asm.load(Size::U32, R1, R10, 24 - RECORD).mov32(R2, MARK.cast_signed());
        asm.jump_if(Cond::Ne, R1, R2, over);
        asm.map(R1, self.ring).mov(R2, R10).add(R2, i32::from(-RECORD));
        asm.mov(R3, i32::from(RECORD)).mov(R4, 0).call(Helper::RingbufOutput);
        asm.bind(over).give(0);
    }

    /// At `netif_rx_entry`.
    fn before(&self) -> Asm {
        let mut asm = Asm::new();
        let (done, kernel) = (asm.label(), asm.label());
        asm.load(Size::U64, R6, R1, 0);
        asm.map_value(R1, self.control, 0).load(Size::U32, R8, R1, 0);
        asm.store(Size::U64, R10, 16 - RECORD, R8);
        asm.jump_if(Cond::Eq, R8, Act::Kernel.code(), kernel);
        for act in Act::OWN {
            let other = asm.label();
            asm.jump_if(Cond::Ne, R8, act.code(), other);
            self.ruler.read(&mut asm);
            asm.mov(R9, R0);
            match act {
                Act::Monotonic => drop_ref(asm.call(Helper::KtimeGetNs)),
                Act::Tai => drop_ref(asm.call(Helper::KtimeGetTaiNs)),
                Act::Count => self.ruler.read(&mut asm),
                Act::Nothing | Act::Kernel => {}
            }
            self.ruler.read(&mut asm);
            asm.mov(R8, R0).jump(done).bind(other);
        }
        asm.give(0).bind(kernel);
        self.seat(&mut asm);
        asm.store(Size::U64, R7, 0, R6);
        self.ruler.read(&mut asm);
        asm.store(Size::U64, R7, 8, R0).give(0);
        asm.bind(done);
        self.finish(&mut asm);
        asm
    }

    /// At `netif_rx`: the ruler first.
    fn after(&self) -> Asm {
        let mut asm = Asm::new();
        let over = asm.label();
        asm.load(Size::U64, R6, R1, 0);
        self.ruler.read(&mut asm);
        asm.mov(R8, R0);
        self.seat(&mut asm);
        asm.load(Size::U64, R1, R7, 0).jump_if(Cond::Ne, R1, R6, over);
        asm.load(Size::U64, R9, R7, 8).store(Size::U64, R7, 0, 0);
        asm.store(Size::U64, R10, 16 - RECORD, Act::Kernel.code());
        self.finish(&mut asm);
        asm.bind(over).give(0);
        asm
    }
}

/// For arms of a `match`.
fn drop_ref(_: &mut Asm) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_strangers_refused() {
        let mut bytes = Vec::new();
        for word in [100_u64, 142, Act::Tai.code() as u64] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(MARK.to_ne_bytes());
        bytes.extend(7_u32.to_ne_bytes());
        bytes.extend(0_u64.to_ne_bytes());
        let expected = Record { before: 100, after: 142, number: 7, act: 2, stamped: false };
        assert_eq!(bytes.len(), RECORD as usize);
        assert_eq!(Record::parse(&bytes), Some(expected));
        assert_eq!(Record::parse(&bytes[..39]), None);
        bytes[24] ^= 1;
        assert_eq!(Record::parse(&bytes), None);
    }
}
