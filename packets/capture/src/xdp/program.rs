//! The XDP programs: one that sends packets to the sockets, one that copies them and lets them
//! pass.

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{U16, U32, U64};

use crate::bpf::{
    Asm, BpfError, Cond, Helper, Label, Map, Program, ProgramKind, Reg, RingBuffer, Size, Tsc,
};

const DROP: i32 = 1;
const PASS: i32 = 2;
const REDIRECT: i32 = 4;

// struct xdp_md
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

/// Bytes of notes before each packet.
pub(super) const NOTES: usize = 16;
/// In the notes, so that nothing else is taken for them.
const MARK: u16 = 0x7c1e;

/// Notes of a program on a packet, where the packet lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Notes {
    /// By the clock or counter that the program reads.
    pub stamp: u64,
    /// Length on the wire, in bytes.
    pub length: u32,
    /// The CPU; 0 where nobody asked.
    pub cpu: u16,
}

impl Notes {
    /// The notes at the end of `before`, if there are any.
    #[inline]
    pub fn read(before: &[u8]) -> Option<Notes> {
        let (stamp, rest) = before.last_chunk::<NOTES>()?.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (cpu, mark) = rest.split_first_chunk::<2>()?;
        (u16::from_ne_bytes(*mark.first_chunk()?) == MARK).then_some(Notes {
            stamp: u64::from_ne_bytes(*stamp),
            length: u32::from_ne_bytes(*length),
            cpu: u16::from_ne_bytes(*cpu),
        })
    }
}

/// Source of a program's stamps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stamp<'a> {
    /// Nothing.
    None,
    /// `CLOCK_MONOTONIC`.
    Clock,
    /// The perf event that counts the TSC.
    Tsc(&'a Tsc),
}

impl Stamp<'_> {
    /// The stamp into R7. First of all: what comes before it is in it.
    fn read(self, asm: &mut Asm) {
        match self {
            Stamp::None => asm,
            Stamp::Clock => asm.call(Helper::KtimeGetNs).mov(R7, R0),
            Stamp::Tsc(tsc) => tsc.read(asm).mov(R7, R0),
        };
    }
}

/// Counters of the programs, each CPU for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counted {
    /// Sent to a socket; copied or lost for want of room.
    Seen,
    /// Passed on: their queue has no socket.
    Elsewhere,
    /// Passed on: the driver leaves no room for notes.
    Unnoted,
    /// No room in the ring buffer.
    Lost,
}

const COUNTERS: u32 = 4;

/// The programs' counters.
#[derive(Debug)]
pub(super) struct Counters(Map);

impl Counters {
    pub fn new() -> Result<Counters, BpfError> {
        Map::per_cpu_array(COUNTERS * 8, 1).map(Counters)
    }

    /// Sum of what all CPUs have counted.
    pub fn get(&self, what: Counted) -> Result<u64, BpfError> {
        self.0.sum(0, what as usize)
    }

    /// Adds one. R0 to R5 are lost. A CPU is not interrupted by another packet here, so the sum
    /// need not be atomic.
    fn add(&self, asm: &mut Asm, what: Counted) {
        let place = what as i16 * 8;
        let none = asm.label();
        asm.store(U32, R10, -4, 0).map(R1, &self.0).mov(R2, R10).add(R2, -4);
        asm.call(Helper::MapLookup).jump_if(Cond::Eq, R0, 0, none);
        asm.load(U64, R1, R0, place).add(R1, 1).store(U64, R0, place, R1).bind(none);
    }

    /// Adds one and lets the packet pass.
    fn pass(&self, asm: &mut Asm, here: Label, what: Counted) {
        asm.bind(here);
        self.add(asm, what);
        asm.give(PASS);
    }
}

/// Sends the packets of queues that have a socket to it, stamped, and lets the others pass. Where
/// it stamps, the packet is cut to `snap` bytes (its length is in the notes), which saves copying.
pub(super) fn redirect(
    sockets: &Map,
    counters: &Counters,
    stamp: Stamp<'_>,
    snap: Option<u32>,
) -> Result<Program, BpfError> {
    let is_stamped = !matches!(stamp, Stamp::None);
    let mut asm = Asm::new();
    let (elsewhere, unnoted) = (asm.label(), asm.label());
    asm.mov(R6, R1);
    stamp.read(&mut asm);
    // Says only where the packet is to go: it can still be changed.
    asm.load(U32, R2, R6, QUEUE).map(R1, sockets).mov(R3, PASS).call(Helper::RedirectMap);
    asm.jump_if(Cond::Ne, R0, REDIRECT, elsewhere);
    if is_stamped {
        asm.load(U32, R8, R6, DATA_END).load(U32, R2, R6, DATA).sub(R8, R2);
        // Notes come first: a packet that has no room for them passes, uncut.
        note(&mut asm, stamp, unnoted);
        if let Some(snap) = snap.and_then(|snap| i32::try_from(snap).ok()) {
            let short = asm.label();
            asm.jump_if(Cond::Le, R8, snap, short);
            // Where the tail cannot be cut, the packet comes whole.
            asm.mov(R1, R6).mov(R2, snap).sub(R2, R8).call(Helper::XdpAdjustTail).bind(short);
        }
    }
    counters.add(&mut asm, Counted::Seen);
    asm.give(REDIRECT);
    counters.pass(&mut asm, elsewhere, Counted::Elsewhere);
    if is_stamped {
        counters.pass(&mut asm, unnoted, Counted::Unnoted);
    }
    Program::load(ProgramKind::Xdp, "tc_redirect", &asm)
}

/// Puts notes before the packet: the stamp in R7, the length in R8.
fn note(asm: &mut Asm, stamp: Stamp<'_>, unnoted: Label) {
    if let Stamp::Tsc(_) = stamp {
        asm.call(Helper::CpuId).mov(R9, R0);
    }
    asm.mov(R1, R6).mov(R2, -(NOTES as i32)).call(Helper::XdpAdjustMeta);
    asm.jump_if(Cond::Ne, R0, 0, unnoted);
    asm.load(U32, R2, R6, DATA_META).load(U32, R3, R6, DATA);
    asm.mov(R4, R2).add(R4, NOTES as i32).jump_if(Cond::Gt, R4, R3, unnoted);
    asm.store(U64, R2, 0, R7).store(U32, R2, 8, R8);
    let mark = MARK.to_ne_bytes();
    match stamp {
        Stamp::Tsc(_) => asm.store(U16, R2, 12, R9).store(U16, R2, 14, i32::from(MARK)),
        // Both in one.
        _ => asm.store(U32, R2, 12, i32::from_ne_bytes([0, 0, mark[0], mark[1]])),
    };
}

/// Bytes before a packet in a record: [`Notes`] without the CPU, and how many bytes there are.
pub(super) const HEAD: usize = 16;

/// A record of a copied packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record<'a> {
    /// `CLOCK_MONOTONIC`, ns, or what the perf event said.
    pub stamp: u64,
    /// Length on the wire, in bytes.
    pub length: u32,
    /// The CPU.
    pub cpu: u16,
    /// The receive queue.
    pub queue: u16,
    /// First bytes of the packet.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// Takes a record apart; `None` if it is none. `snap` is what the program keeps at most.
    pub fn read(record: &[u8], snap: u32) -> Option<Record<'_>> {
        let (stamp, rest) = record.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (cpu, rest) = rest.split_first_chunk::<2>()?;
        let (queue, rest) = rest.split_first_chunk::<2>()?;
        let length = u32::from_ne_bytes(*length);
        Some(Record {
            stamp: u64::from_ne_bytes(*stamp),
            length,
            cpu: u16::from_ne_bytes(*cpu),
            queue: u16::from_ne_bytes(*queue),
            bytes: rest.get(..length.min(snap) as usize)?,
        })
    }
}

/// The sizes of records, without the head: the kernel wants to know them when it reads the program.
const CLASSES: [u32; 9] = [64, 128, 256, 512, 1024, 1536, 2048, 4096, 9216];
/// A frame as long as there is any.
const LONGEST: u32 = 65_535;

/// Fate of a packet that was copied, or for which there was no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Goes on to the host.
    Pass,
    /// Ends here, if it came by this queue; those of other queues pass, uncopied.
    End(u32),
}

/// Copies the first `snap` bytes of each packet into the ring buffer.
///
/// The kernel must know a record's size when it reads the program, so there are a few, and a packet
/// takes the smallest that it fits. (Copying to a CPU's own memory first, and from there a record
/// as long as the packet, took 30 to 50 ns more for each.)
pub(super) fn copy(
    ring: &RingBuffer,
    counters: &Counters,
    stamp: Stamp<'_>,
    snap: u32,
    fate: Fate,
) -> Result<Program, BpfError> {
    let snap = snap.clamp(1, LONGEST);
    let mut classes: Vec<u32> = CLASSES.iter().copied().filter(|&size| size < snap).collect();
    classes.push(snap);
    let mut asm = Asm::new();
    let (lost, done, whole) = (asm.label(), asm.label(), asm.label());
    let elsewhere = asm.label();
    asm.mov(R6, R1);
    stamp.read(&mut asm);
    if let Fate::End(queue) = fate {
        asm.load(U32, R1, R6, QUEUE).constant(R2, u64::from(queue));
        asm.jump_if(Cond::Ne, R1, R2, elsewhere);
    }
    counters.add(&mut asm, Counted::Seen);
    asm.mov(R1, R6).call(Helper::XdpGetBuffLen).mov(R8, R0).mov(R9, R0);
    let most = i32::try_from(snap).unwrap_or(i32::MAX);
    asm.jump_if(Cond::Le, R9, most, whole).mov(R9, most).bind(whole);
    // Kernels before 6.8 learn nothing from a comparison for equality: they would not know that there is a byte to copy.
    asm.jump_if(Cond::Lt, R9, 1, done);
    for size in classes {
        let next = asm.label();
        let size = i32::try_from(size).unwrap_or(i32::MAX);
        asm.jump_if(Cond::Gt, R9, size, next);
        asm.map(R1, ring.map()).mov(R2, size + HEAD as i32).mov(R3, 0);
        asm.call(Helper::RingbufReserve).jump_if(Cond::Eq, R0, 0, lost);
        asm.store(U64, R10, -16, R0);
        match stamp {
            Stamp::None => asm.store(U64, R0, 0, 0),
            Stamp::Clock | Stamp::Tsc(_) => asm.store(U64, R0, 0, R7),
        };
        asm.store(U32, R0, 8, R8);
        asm.load(U32, R1, R6, QUEUE).store(U16, R0, 14, R1);
        match stamp {
            Stamp::Tsc(_) => {
                asm.call(Helper::CpuId).mov(R1, R0).load(U64, R0, R10, -16).store(U16, R0, 12, R1)
            }
            _ => asm.store(U16, R0, 12, 0),
        };
        asm.mov(R1, R6).mov(R2, 0).mov(R3, R0).add(R3, HEAD as i32).mov(R4, R9);
        asm.call(Helper::XdpLoadBytes);
        let fine = asm.label();
        asm.load(U64, R1, R10, -16).mov(R2, 0).jump_if(Cond::Eq, R0, 0, fine);
        asm.call(Helper::RingbufDiscard).jump(lost);
        asm.bind(fine).call(Helper::RingbufSubmit).jump(done).bind(next);
    }
    // Nothing comes here: the last class takes all there are.
    asm.bind(lost);
    counters.add(&mut asm, Counted::Lost);
    asm.bind(done);
    match fate {
        Fate::Pass => asm.give(PASS),
        Fate::End(_) => {
            asm.give(DROP);
            counters.pass(&mut asm, elsewhere, Counted::Elsewhere);
            &mut asm
        }
    };
    Program::load(ProgramKind::Xdp, "tc_copy", &asm)
}
