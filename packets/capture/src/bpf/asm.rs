//! Writing programs.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use super::encode::{Alu, AsmError, Cond, Instruction, Operand, Reg, Size};
use super::helper::Helper;
use super::map::Map;

const ALU32: u8 = 0x04;
const JUMP: u8 = 0x05;
const JUMP32: u8 = 0x06;
const ALU64: u8 = 0x07;
const LOAD: u8 = 0x61 & !0x18;
const STORE_IMM: u8 = 0x62 & !0x18;
const STORE_REG: u8 = 0x63 & !0x18;
const ATOMIC: u8 = 0xc3 & !0x18;
const LOAD_IMM64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const TO_BIG_ENDIAN: u8 = 0xdc;

/// `src` of a 64-bit constant that is a map, by descriptor.
const MAP_FD: u8 = 1;
/// `src` of a 64-bit constant that is the address of a map's value.
const MAP_VALUE: u8 = 2;
/// `src` of a call that goes to a kernel function by its BTF number.
const KFUNC: u8 = 2;

/// A place in a program, to jump to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(usize);

/// A program that is being written. Methods append an instruction each, unless they say otherwise.
///
/// ```
/// use truechimer_capture::bpf::{Asm, Helper, Reg::*};
/// let mut asm = Asm::new();
/// asm.call(Helper::KtimeGetNs).exit(); // returns the time
/// assert_eq!(asm.assemble().map(|program| program.len()), Ok(2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Asm {
    code: Vec<Instruction>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
    bound_twice: Option<usize>,
    /// The maps that the program names stay open until it is loaded.
    maps: Vec<Arc<OwnedFd>>,
}

impl Asm {
    /// An empty one.
    #[must_use]
    pub fn new() -> Asm {
        Asm::default()
    }

    fn push(&mut self, instruction: Instruction) -> &mut Asm {
        self.code.push(instruction);
        self
    }

    /// A label that stands nowhere yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts the label here.
    pub fn bind(&mut self, label: Label) -> &mut Asm {
        let here = self.code.len();
        match self.labels.get_mut(label.0) {
            Some(place @ None) => *place = Some(here),
            _ => self.bound_twice = Some(label.0),
        }
        self
    }

    /// `dst = dst op operand`, 64 bits.
    pub fn alu(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.push(Instruction::with(ALU64 | op as u8, dst, operand.into(), 0))
    }

    /// `dst = dst op operand`, 32 bits; the upper half becomes zero.
    pub fn alu32(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.push(Instruction::with(ALU32 | op as u8, dst, operand.into(), 0))
    }

    /// `dst = operand`.
    pub fn mov(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.alu(Alu::Mov, dst, operand)
    }

    /// `dst = operand`, 32 bits; the upper half becomes zero.
    pub fn mov32(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.alu32(Alu::Mov, dst, operand)
    }

    /// `dst += operand`.
    pub fn add(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.alu(Alu::Add, dst, operand)
    }

    /// `dst -= operand`.
    pub fn sub(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.alu(Alu::Sub, dst, operand)
    }

    /// `dst &= operand`.
    pub fn and(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.alu(Alu::And, dst, operand)
    }

    /// `dst |= operand`.
    pub fn or(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.alu(Alu::Or, dst, operand)
    }

    /// `dst <<= operand`.
    pub fn shl(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.alu(Alu::Shl, dst, operand)
    }

    /// `dst >>= operand`, zeros coming in.
    pub fn shr(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Asm {
        self.alu(Alu::Shr, dst, operand)
    }

    /// `dst = −dst`.
    pub fn neg(&mut self, dst: Reg) -> &mut Asm {
        self.push(Instruction { code: 0x87, dst: dst as u8, ..Instruction::default() })
    }

    /// The low bits of `dst` between host and network order; the bits above become zero.
    pub fn big_endian(&mut self, dst: Reg, size: Size) -> &mut Asm {
        let bits = match size {
            Size::U8 => return self.and(dst, 0xff),
            Size::U16 => 16,
            Size::U32 => 32,
            Size::U64 => 64,
        };
        self.push(Instruction { code: TO_BIG_ENDIAN, dst: dst as u8, src: 0, off: 0, imm: bits })
    }

    /// `dst = *(src + off)`, zeros above.
    pub fn load(&mut self, size: Size, dst: Reg, src: Reg, off: i16) -> &mut Asm {
        let code = LOAD | size.code();
        self.push(Instruction { code, dst: dst as u8, src: src as u8, off, imm: 0 })
    }

    /// `*(dst + off) = operand`.
    pub fn store(
        &mut self,
        size: Size,
        dst: Reg,
        off: i16,
        operand: impl Into<Operand>,
    ) -> &mut Asm {
        let dst = dst as u8;
        self.push(match operand.into() {
            Operand::Reg(src) => {
                Instruction { code: STORE_REG | size.code(), dst, src: src as u8, off, imm: 0 }
            }
            Operand::Imm(imm) => {
                Instruction { code: STORE_IMM | size.code(), dst, src: 0, off, imm }
            }
        })
    }

    /// `*(dst + off) += src`, atomically; 64 bits.
    pub fn atomic_add(&mut self, dst: Reg, off: i16, src: Reg) -> &mut Asm {
        let code = ATOMIC | Size::U64.code();
        self.push(Instruction { code, dst: dst as u8, src: src as u8, off, imm: 0 })
    }

    /// Adds like [`Asm::atomic_add`], and `src` becomes what was there before.
    pub fn atomic_fetch_add(&mut self, dst: Reg, off: i16, src: Reg) -> &mut Asm {
        let code = ATOMIC | Size::U64.code();
        self.push(Instruction { code, dst: dst as u8, src: src as u8, off, imm: 0x01 })
    }

    /// Jumps.
    pub fn jump(&mut self, to: Label) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(Instruction { code: JUMP, ..Instruction::default() })
    }

    /// Jumps if the condition holds for 64 bits.
    pub fn jump_if(
        &mut self,
        condition: Cond,
        dst: Reg,
        operand: impl Into<Operand>,
        to: Label,
    ) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(Instruction::with(JUMP | condition as u8, dst, operand.into(), 0))
    }

    /// Jumps if the condition holds for the lower 32 bits.
    pub fn jump_if32(
        &mut self,
        condition: Cond,
        dst: Reg,
        operand: impl Into<Operand>,
        to: Label,
    ) -> &mut Asm {
        self.jumps.push((self.code.len(), to));
        self.push(Instruction::with(JUMP32 | condition as u8, dst, operand.into(), 0))
    }

    /// Calls a helper.
    pub fn call(&mut self, helper: Helper) -> &mut Asm {
        self.push(Instruction { code: CALL, imm: helper.number(), ..Instruction::default() })
    }

    /// Calls a function of the kernel by its BTF number, as [`super::Btf::function`] gives it.
    pub fn call_kernel(&mut self, btf: u32) -> &mut Asm {
        let imm = btf.cast_signed();
        self.push(Instruction { code: CALL, src: KFUNC, imm, ..Instruction::default() })
    }

    /// Ends the program; it returns R0.
    pub fn exit(&mut self) -> &mut Asm {
        self.push(Instruction { code: EXIT, ..Instruction::default() })
    }

    /// Returns this number; two instructions.
    pub fn give(&mut self, value: i32) -> &mut Asm {
        self.mov(Reg::R0, value).exit()
    }

    fn wide(&mut self, dst: Reg, src: u8, low: i32, high: i32) -> &mut Asm {
        self.push(Instruction { code: LOAD_IMM64, dst: dst as u8, src, off: 0, imm: low });
        self.push(Instruction { imm: high, ..Instruction::default() })
    }

    /// `dst = value`, 64 bits; takes two instructions.
    pub fn constant(&mut self, dst: Reg, value: u64) -> &mut Asm {
        let half = |part: u64| ((part & 0xffff_ffff) as u32).cast_signed();
        self.wide(dst, 0, half(value), half(value >> 32))
    }

    /// `dst =` the map, for helpers that take one; takes two instructions.
    pub fn map(&mut self, dst: Reg, map: &Map) -> &mut Asm {
        let fd = self.keep(map);
        self.wide(dst, MAP_FD, fd, 0)
    }

    /// `dst =` the address of byte `off` in the value of an array of one; takes two instructions.
    pub fn map_value(&mut self, dst: Reg, map: &Map, off: u32) -> &mut Asm {
        let fd = self.keep(map);
        self.wide(dst, MAP_VALUE, fd, off.cast_signed())
    }

    fn keep(&mut self, map: &Map) -> i32 {
        let fd = map.shared();
        let raw = fd.as_raw_fd();
        self.maps.push(fd);
        raw
    }

    /// Number of instructions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// The finished instructions.
    ///
    /// # Errors
    /// Where labels and jumps do not fit together.
    pub fn assemble(&self) -> Result<Vec<Instruction>, AsmError> {
        if let Some(label) = self.bound_twice {
            return Err(AsmError::BoundTwice(label));
        }
        let mut code = self.code.clone();
        for &(at, label) in &self.jumps {
            let place = self.labels.get(label.0).copied().flatten();
            let place = place.ok_or(AsmError::Unbound(label.0))?;
            let distance = i64::try_from(place).unwrap_or(i64::MAX)
                - i64::try_from(at).unwrap_or(i64::MAX)
                - 1;
            if let Some(jump) = code.get_mut(at) {
                jump.off = i16::try_from(distance).map_err(|_| AsmError::TooFar(at))?;
            }
        }
        Ok(code)
    }
}
