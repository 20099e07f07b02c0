//! The program in the kernel that numbers, paces and times frames.

use truechimer_capture::bpf::{
    Asm, BpfError, Cond, Helper, Label, Map, Program, ProgramKind, Reg, Size,
};

use crate::bench::capture::frame::{NUMBER_AT, SENT_AT, TIMED};

/// Way that each frame takes from the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Up the stack, as one that the interface received.
    Stack,
    /// Through the program, by its number, that somebody attached to the interface.
    Attached(u32),
    /// Out of this interface, for its peer to receive.
    Out(u32),
}

/// Way in which frames are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// Where they go.
    pub way: Way,
    /// Ns from the first frame of one burst to that of the next; 0: as fast as they can be made.
    pub gap_ns: u64,
    /// Frames in a burst; a power of two.
    pub burst: u32,
    /// True if each frame carries the time at which it was sent.
    pub timed: bool,
}

/// A burst that is due longer ago than this is given up, so that a sender that was held up does
/// not make good for it with a flood.
const SLACK_NS: u64 = 200_000;
/// Largest number of looks of the program at whether a burst is due. The verifier follows every turn, and gives
/// up after 8192.
const TURNS: i32 = 8000;
/// Least time for a look at the clock.
const LOOK_NS: u64 = 15;
/// The longest gap between bursts that the program can wait for.
pub const LONGEST_GAP_NS: u64 = 1_000_000;

/// The state that the program keeps: 64-bit words.
const NUMBER: i16 = 0;
const DUE: i16 = 8;
const HELD_UP: i16 = 16;
const ASTRAY: i16 = 24;
const STATE: u32 = 32;

/// The loaded program.
#[derive(Debug)]
pub struct Generator {
    /// For the test run.
    pub program: Program,
    state: Map,
    /// Keeps the other program there.
    _attached: Option<(Map, Program)>,
}

/// Counts of its work so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Frames numbered.
    pub frames: u64,
    /// Bursts that came late by more than 0.2 ms: the rate was lower there.
    pub held_up: u64,
    /// Frames that did not go their way.
    pub astray: u64,
}

impl Generator {
    /// Writes and loads it.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn load(recipe: &Recipe) -> Result<Generator, BpfError> {
        let state = Map::array(STATE, 1)?;
        let attached = match recipe.way {
            Way::Attached(id) => {
                let programs = Map::program_array(1)?;
                let program = Program::by_id(ProgramKind::Xdp, id)?;
                programs.set_fd(0, std::os::fd::AsFd::as_fd(&program))?;
                Some((programs, program))
            }
            Way::Stack | Way::Out(_) => None,
        };
        let asm = write(recipe, &state, attached.as_ref().map(|(programs, _)| programs));
        let program = Program::load(ProgramKind::Xdp, "generator", &asm)?;
        Ok(Generator { program, state, _attached: attached })
    }

    /// Counts of its work so far.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn tally(&self) -> Result<Tally, BpfError> {
        let words = self.state.words(0)?;
        let word = |at: i16| words.get(usize::from(at.unsigned_abs()) / 8).copied().unwrap_or(0);
        Ok(Tally { frames: word(NUMBER), held_up: word(HELD_UP), astray: word(ASTRAY) })
    }
}

const ABORTED: i32 = 0;
const PASS: i32 = 2;
const DATA: i16 = 0;
const DATA_END: i16 = 4;

fn write(recipe: &Recipe, state: &Map, programs: Option<&Map>) -> Asm {
    use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9};
    let mut asm = Asm::new();
    let (refuse, go) = (asm.label(), asm.label());
    asm.mov(R6, R1).map_value(R7, state, 0);
    let length = if recipe.timed { TIMED } else { SENT_AT };
    find(&mut asm, length, refuse);
    asm.load(Size::U64, R3, R7, NUMBER).store(Size::U64, R8, NUMBER_AT as i16, R3);
    asm.mov(R4, R3).add(R4, 1).store(Size::U64, R7, NUMBER, R4);
    if recipe.gap_ns > 0 {
        // Only the first frame of a burst waits.
        asm.and(R3, (recipe.burst.max(1) - 1) as i32).jump_if(Cond::Ne, R3, 0, go);
        pace(&mut asm, recipe.gap_ns);
    }
    asm.bind(go);
    if recipe.timed {
        asm.call(Helper::KtimeGetNs);
        find(&mut asm, length, refuse);
        asm.store(Size::U64, R8, SENT_AT as i16, R0);
    }
    match (recipe.way, programs) {
        (Way::Out(interface), _) => {
            asm.constant(R1, u64::from(interface)).mov(R2, 0).call(Helper::Redirect).exit();
        }
        (Way::Attached(_), Some(programs)) => {
            asm.mov(R1, R6).map(R2, programs).mov(R3, 0).call(Helper::TailCall);
            // Only where there is no program any more.
            asm.load(Size::U64, R4, R7, ASTRAY).add(R4, 1).store(Size::U64, R7, ASTRAY, R4);
            asm.give(PASS);
        }
        _ => {
            asm.give(PASS);
        }
    }
    asm.bind(refuse).give(ABORTED);
    // Only ever assigned by `find`, or by `pace`.
    let _ = R9;
    asm
}

/// R8 = the frame, or on to `refuse` if that is shorter than `length`.
fn find(asm: &mut Asm, length: usize, refuse: Label) {
    use Reg::{R2, R6, R8, R9};
    asm.load(Size::U32, R8, R6, DATA).load(Size::U32, R9, R6, DATA_END);
    asm.mov(R2, R8).add(R2, length as i32).jump_if(Cond::Gt, R2, R9, refuse);
}

/// Waits until the next burst is due.
fn pace(asm: &mut Asm, gap_ns: u64) {
    use Reg::{R0, R1, R7, R8, R9};
    let (begun, in_time, again, due) = (asm.label(), asm.label(), asm.label(), asm.label());
    asm.call(Helper::KtimeGetNs).load(Size::U64, R9, R7, DUE);
    asm.jump_if(Cond::Ne, R9, 0, begun).mov(R9, R0).bind(begun);
    asm.mov(R1, R9).add(R1, SLACK_NS as i32).jump_if(Cond::Le, R0, R1, in_time);
    asm.load(Size::U64, R1, R7, HELD_UP).add(R1, 1).store(Size::U64, R7, HELD_UP, R1);
    asm.mov(R9, R0).bind(in_time);
    asm.mov(R8, TURNS).bind(again);
    asm.jump_if(Cond::Ge, R0, R9, due).sub(R8, 1).jump_if(Cond::Eq, R8, 0, due);
    // Where the wait is long, the clock is read several times for each look at it.
    for _ in 0..=gap_ns / (u64::from(TURNS.unsigned_abs()) * LOOK_NS) {
        asm.call(Helper::KtimeGetNs);
    }
    asm.jump(again).bind(due);
    asm.constant(R1, gap_ns).add(R9, R1).store(Size::U64, R7, DUE, R9);
}
