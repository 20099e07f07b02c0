//! The classic BPF machine: what the kernel does with a filter, for packets that are here already.
//!
//! Total: whatever the program and the packet, it ends, and a load from outside the packet rejects
//! it. Jumps back, which libpcap makes for `protochain` alone, are followed; the number of steps
//! is limited.

use super::code::{Instruction, beside, op};

/// More than any program can do without jumping back (the kernel takes 4096 instructions).
const STEPS: usize = 1 << 16;
/// Words of scratch memory.
const MEMORY: usize = 16;

/// Number of bytes of the packet that `code` keeps; 0 for a packet that does not pass.
pub(super) fn run(code: &[Instruction], packet: &[u8], original_length: u32) -> u32 {
    let mut machine = Machine { a: 0, x: 0, memory: [0; MEMORY], packet, original_length };
    let mut at = 0_usize;
    for _ in 0..STEPS {
        let Some(instruction) = code.get(at) else { return 0 };
        match machine.step(instruction) {
            Some(Then::Next(skip)) => match at.checked_add_signed(skip) {
                Some(next) => at = next.wrapping_add(1),
                None => return 0,
            },
            Some(Then::Return(kept)) => return kept,
            None => return 0,
        }
    }
    0
}

enum Then {
    /// Skip so many instructions.
    Next(isize),
    Return(u32),
}

struct Machine<'a> {
    a: u32,
    x: u32,
    memory: [u32; MEMORY],
    packet: &'a [u8],
    original_length: u32,
}

impl Machine<'_> {
    /// One instruction; `None` for what rejects the packet.
    fn step(&mut self, instruction: &Instruction) -> Option<Then> {
        let Instruction { code, k, .. } = *instruction;
        match op::class(code) {
            op::LD => self.a = self.value(code, k)?,
            op::LDX if op::mode(code) == op::HEADER_LENGTH => {
                self.x = (self.load(0x10, k)? & 0xf) << 2;
            }
            op::LDX => self.x = self.value(code, k)?,
            2 => *self.memory.get_mut(k as usize)? = self.a,
            3 => *self.memory.get_mut(k as usize)? = self.x,
            4 => self.a = self.arithmetic(code, k)?,
            5 => return self.jump(instruction),
            op::RET => {
                return Some(Then::Return(match code & 0x18 {
                    0x10 => self.a,
                    0x08 => self.x,
                    _ => k,
                }));
            }
            _ if code & 0xf8 == 0x80 => self.a = self.x,
            _ => self.x = self.a,
        }
        Some(Then::Next(0))
    }

    fn value(&self, code: u16, k: u32) -> Option<u32> {
        match op::mode(code) {
            0 => Some(k),
            op::ABSOLUTE => self.load(op::size(code), k),
            op::INDIRECT => self.load(op::size(code), self.x.checked_add(k)?),
            0x60 => self.memory.get(k as usize).copied(),
            0x80 => Some(self.original_length),
            _ => None,
        }
    }

    fn load(&self, size: u16, at: u32) -> Option<u32> {
        if matches!(at, beside::VLAN_TAG | beside::VLAN_PRESENT | beside::VLAN_PROTOCOL) {
            return Some(0);
        }
        let bytes = self.packet.get(at as usize..)?;
        match size {
            0 => bytes.first_chunk().map(|word| u32::from_be_bytes(*word)),
            8 => bytes.first_chunk().map(|half| u32::from(u16::from_be_bytes(*half))),
            0x10 => bytes.first().copied().map(u32::from),
            _ => None,
        }
    }

    fn arithmetic(&self, code: u16, k: u32) -> Option<u32> {
        let with = if code & 8 == 0 { k } else { self.x };
        let a = self.a;
        Some(match code & 0xf0 {
            0x00 => a.wrapping_add(with),
            0x10 => a.wrapping_sub(with),
            0x20 => a.wrapping_mul(with),
            0x30 => a.checked_div(with)?,
            0x40 => a | with,
            0x50 => a & with,
            0x60 => a.checked_shl(with).unwrap_or(0),
            0x70 => a.checked_shr(with).unwrap_or(0),
            0x80 => a.wrapping_neg(),
            0x90 => a.checked_rem(with)?,
            0xa0 => a ^ with,
            _ => return None,
        })
    }

    fn jump(&self, instruction: &Instruction) -> Option<Then> {
        let Instruction { code, jt, jf, k } = *instruction;
        let with = if code & 8 == 0 { k } else { self.x };
        let holds = match code & 0xf0 {
            // A signed distance.
            0x00 => return Some(Then::Next(k as i32 as isize)),
            0x10 => self.a == with,
            0x20 => self.a > with,
            0x30 => self.a >= with,
            0x40 => self.a & with != 0,
            _ => return None,
        };
        Some(Then::Next(isize::from(if holds { jt } else { jf })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_outside_rejects() {
        let keep = Instruction::plain(op::RETURN, 5);
        for (load, packet, kept) in [
            (Instruction::plain(op::LD_WORD, 0), [0; 4].as_slice(), 5),
            (Instruction::plain(op::LD_WORD, 1), &[0; 4], 0),
            (Instruction::plain(op::LD_HALF, 2), &[0; 4], 5),
            (Instruction::plain(op::LD_HALF, u32::MAX), &[0; 4], 0),
            (Instruction::plain(op::LD_BYTE, 3), &[0; 4], 5),
            (Instruction::plain(op::LD_BYTE, 4), &[0; 4], 0),
        ] {
            assert_eq!(run(&[load, keep], packet, 4), kept, "{load:?}");
        }
        // The end of the program, a division by 0, memory that is not there.
        assert_eq!(run(&[], &[], 0), 0);
        assert_eq!(run(&[Instruction::plain(0x34, 0), keep], &[], 0), 0);
        assert_eq!(run(&[Instruction::plain(0x02, 16), keep], &[], 0), 0);
    }

    #[test]
    fn a_loop_ends() {
        assert_eq!(run(&[Instruction::plain(0x05, u32::MAX)], &[], 0), 0);
    }

    proptest! {
        /// Whatever the program, there is an end and no panic.
        #[test]
        fn any_program_ends(
            words in prop::collection::vec((any::<u16>(), 0_u8..8, 0_u8..8, any::<u32>()), 0..40),
            packet in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let code: Vec<Instruction> = words
                .iter()
                .map(|&(code, jt, jf, k)| Instruction { code: code & 0xff, jt, jf, k: k % 64 })
                .collect();
            run(&code, &packet, packet.len() as u32);
        }
    }
}
