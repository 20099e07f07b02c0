//! Classic BPF instructions, and what is done to a program before it is used.

/// One instruction, as `struct sock_filter` and libpcap's `struct bpf_insn` have it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Number of instructions to skip if the comparison holds.
    pub jt: u8,
    /// Number of instructions to skip if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

impl Instruction {
    /// An instruction without a comparison.
    #[must_use]
    pub(crate) const fn plain(code: u16, k: u32) -> Instruction {
        Instruction { code, jt: 0, jf: 0, k }
    }
}

/// The values of `code` that this crate makes or looks for; those of `linux/bpf_common.h`.
pub(crate) mod op {
    pub const LD: u16 = 0;
    pub const LDX: u16 = 1;
    pub const RET: u16 = 6;
    /// Loads a word of the packet.
    pub const LD_WORD: u16 = 0x20;
    /// Loads a half-word of the packet.
    pub const LD_HALF: u16 = 0x28;
    /// Loads a byte of the packet.
    pub const LD_BYTE: u16 = 0x30;
    /// Jumps if A = k.
    pub const JUMP_EQUAL: u16 = 0x15;
    /// Ends the program; k bytes of the packet are kept.
    pub const RETURN: u16 = 0x06;
    /// A = k.
    pub const LD_CONSTANT: u16 = 0x00;

    pub const fn class(code: u16) -> u16 {
        code & 7
    }

    pub const fn size(code: u16) -> u16 {
        code & 0x18
    }

    pub const fn mode(code: u16) -> u16 {
        code & 0xe0
    }

    pub const ABSOLUTE: u16 = 0x20;
    pub const INDIRECT: u16 = 0x40;
    pub const HEADER_LENGTH: u16 = 0xa0;
}

/// Facts that Linux has about a packet besides its bytes, as offsets to load from.
pub(crate) mod beside {
    /// Where these begin (`SKF_AD_OFF`, −0x1000).
    pub const BASE: u32 = 0xffff_f000;
    pub const PROTOCOL: u32 = BASE;
    pub const PACKET_TYPE: u32 = BASE + 4;
    pub const INTERFACE: u32 = BASE + 8;
    pub const HARDWARE_TYPE: u32 = BASE + 28;
    pub const VLAN_TAG: u32 = BASE + 44;
    pub const VLAN_PRESENT: u32 = BASE + 48;
    pub const VLAN_PROTOCOL: u32 = BASE + 60;
}

/// Program with every acceptance keeping `bytes`.
pub(crate) fn keeping(code: &[Instruction], bytes: u32) -> Vec<Instruction> {
    let mut code = code.to_vec();
    for instruction in &mut code {
        if instruction.code == op::RETURN && instruction.k != 0 {
            instruction.k = bytes;
        }
    }
    code
}

/// Length of the header of Linux's cooked capture, version 2, in bytes.
pub(crate) const COOKED_HEADER: u32 = 20;

/// A program for packets with a cooked header of version 2, made one for the kernel, which runs it
/// before there is such a header. `None` where it looks at what the kernel has not got then.
pub(crate) fn uncooked(code: &[Instruction]) -> Option<Vec<Instruction>> {
    let fixed = |mut instruction: Instruction| {
        let loads = matches!(op::class(instruction.code), op::LD | op::LDX);
        let mode = op::mode(instruction.code);
        let of_packet = matches!(mode, op::ABSOLUTE | op::INDIRECT | op::HEADER_LENGTH);
        if !loads || !of_packet || instruction.k >= beside::BASE {
            return Some(instruction);
        }
        instruction.k = match (instruction.k, instruction.code) {
            (k, _) if k >= COOKED_HEADER => k - COOKED_HEADER,
            // The kernel's own loads are a word each, whatever the width in the header.
            (0, op::LD_HALF) => beside::PROTOCOL,
            (4, op::LD_WORD) => beside::INTERFACE,
            (8, op::LD_HALF) => beside::HARDWARE_TYPE,
            (10, op::LD_BYTE) => beside::PACKET_TYPE,
            _ => return None,
        };
        if instruction.k >= beside::BASE {
            instruction.code = op::LD_WORD;
        }
        Some(instruction)
    };
    code.iter().copied().map(fixed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acceptances_are_rewritten() {
        let code = [
            Instruction::plain(op::LD_HALF, 12),
            Instruction { code: op::JUMP_EQUAL, jt: 0, jf: 1, k: 0x800 },
            Instruction::plain(op::RETURN, 262_144),
            Instruction::plain(op::RETURN, 0),
        ];
        let kept: Vec<u32> = keeping(&code, 64).iter().map(|one| one.k).collect();
        assert_eq!(kept, [12, 0x800, 64, 0]);
    }

    #[test]
    fn a_cooked_header_is_not_there_yet() {
        let protocol = Instruction::plain(op::LD_HALF, 0);
        let address = Instruction::plain(op::LD_WORD, 32);
        let code = uncooked(&[protocol, address]).unwrap();
        assert_eq!(code[0], Instruction::plain(op::LD_WORD, beside::PROTOCOL));
        assert_eq!(code[1], Instruction::plain(op::LD_WORD, 12));
        // The length of the address is known to nobody.
        assert_eq!(uncooked(&[Instruction::plain(op::LD_BYTE, 11)]), None);
    }
}
