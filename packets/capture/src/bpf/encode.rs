//! The instructions as the kernel takes them (RFC 9669).

use std::fmt;

/// A register. R0 holds results, R1 to R5 arguments (lost in calls), R6 to R9 stay over calls, R10
/// is the end of the 512 bytes of stack, which lie below it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a load or a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Size {
    /// One byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Eight bytes.
    U64,
}

impl Size {
    /// The size for this many bytes.
    #[must_use]
    pub const fn of(bytes: u32) -> Option<Size> {
        match bytes {
            1 => Some(Size::U8),
            2 => Some(Size::U16),
            4 => Some(Size::U32),
            8 => Some(Size::U64),
            _ => None,
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Size::U32 => 0x00,
            Size::U16 => 0x08,
            Size::U8 => 0x10,
            Size::U64 => 0x18,
        }
    }
}

/// Operation on the destination register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Alu {
    /// Addition, wrapping.
    Add = 0x00,
    /// Subtraction, wrapping.
    Sub = 0x10,
    /// Multiplication, wrapping.
    Mul = 0x20,
    /// Unsigned division; by zero it gives 0.
    Div = 0x30,
    /// Bitwise or.
    Or = 0x40,
    /// Bitwise and.
    And = 0x50,
    /// Shift to the left.
    Shl = 0x60,
    /// Shift to the right, zeros coming in.
    Shr = 0x70,
    /// The remainder of the unsigned division; by zero, the destination as it was.
    Rem = 0x90,
    /// Bitwise exclusive or.
    Xor = 0xa0,
    /// The operand itself.
    Mov = 0xb0,
    /// Shift to the right, the sign coming in.
    Sar = 0xc0,
}

/// When a jump is taken: destination against operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Cond {
    /// Equal.
    Eq = 0x10,
    /// Greater, unsigned.
    Gt = 0x20,
    /// Greater or equal, unsigned.
    Ge = 0x30,
    /// Any bit of the operand is set.
    Set = 0x40,
    /// Not equal.
    Ne = 0x50,
    /// Greater, signed.
    SGt = 0x60,
    /// Greater or equal, signed.
    SGe = 0x70,
    /// Less, unsigned.
    Lt = 0xa0,
    /// Less or equal, unsigned.
    Le = 0xb0,
    /// Less, signed.
    SLt = 0xc0,
    /// Less or equal, signed.
    SLe = 0xd0,
}

/// A register or a number, which 64-bit operations extend by its sign.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// A register's value.
    Reg(Reg),
    /// This number.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Operand {
        Operand::Imm(imm)
    }
}

/// One instruction; a 64-bit constant takes two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Instruction {
    /// The operation.
    pub code: u8,
    /// Destination register.
    pub dst: u8,
    /// Source register, or a mark.
    pub src: u8,
    /// Offset of memory or of a jump.
    pub off: i16,
    /// The number in it.
    pub imm: i32,
}

impl Instruction {
    /// The eight bytes of the instruction, as this machine's kernel takes them.
    #[must_use]
    pub fn bytes(&self) -> [u8; 8] {
        let registers = if cfg!(target_endian = "little") {
            self.src << 4 | self.dst
        } else {
            self.dst << 4 | self.src
        };
        let (off, imm) = (self.off.to_ne_bytes(), self.imm.to_ne_bytes());
        [self.code, registers, off[0], off[1], imm[0], imm[1], imm[2], imm[3]]
    }

    /// The instruction of an operation on `dst` by `operand`: `code` says everything but where the
    /// operand comes from.
    pub(crate) fn with(code: u8, dst: Reg, operand: Operand, off: i16) -> Instruction {
        match operand {
            Operand::Reg(src) => {
                Instruction { code: code | 0x08, dst: dst as u8, src: src as u8, off, imm: 0 }
            }
            Operand::Imm(imm) => Instruction { code, dst: dst as u8, src: 0, off, imm },
        }
    }
}

/// Reason why a program cannot be assembled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsmError {
    /// A jump goes to a label that was bound nowhere: the number of the label.
    Unbound(usize),
    /// A label was bound twice: its number.
    BoundTwice(usize),
    /// A jump is too far for its 16 bits: at which instruction.
    TooFar(usize),
}

impl fmt::Display for AsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsmError::Unbound(label) => write!(f, "label {label} is jumped to but stands nowhere"),
            AsmError::BoundTwice(label) => write!(f, "label {label} stands in two places"),
            AsmError::TooFar(at) => write!(f, "the jump at instruction {at} is too far"),
        }
    }
}

impl std::error::Error for AsmError {}
