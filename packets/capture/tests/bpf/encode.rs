//! Instructions against the bytes that RFC 9669 and other assemblers give.
#![cfg(target_endian = "little")]

use proptest::prelude::*;
use truechimer_capture::bpf::Reg::*;
use truechimer_capture::bpf::{Alu, Asm, AsmError, Cond, Helper, Operand, Reg, Size};

fn bytes(asm: &Asm) -> Vec<[u8; 8]> {
    asm.assemble().unwrap().iter().map(|instruction| instruction.bytes()).collect()
}

/// One instruction, as hexadecimal digits.
fn one(write: impl for<'a> FnOnce(&'a mut Asm) -> &'a mut Asm) -> String {
    let mut asm = Asm::new();
    write(&mut asm);
    bytes(&asm).concat().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(hex: &str, write: impl for<'a> FnOnce(&'a mut Asm) -> &'a mut Asm) {
    assert_eq!(one(write), hex);
}

#[test]
fn instructions_have_the_known_bytes() {
    check("b700000001000000", |a| a.mov(R0, 1));
    check("b7060000ffffffff", |a| a.mov(R6, -1));
    check("bfa2000000000000", |a| a.mov(R2, R10));
    check("bc21000000000000", |a| a.mov32(R1, R2));
    check("07020000f0ffffff", |a| a.add(R2, -16));
    check("0f31000000000000", |a| a.add(R1, R3));
    check("1f21000000000000", |a| a.sub(R1, R2));
    check("57030000ff000000", |a| a.and(R3, 255));
    check("4f12000000000000", |a| a.or(R2, R1));
    check("6701000020000000", |a| a.shl(R1, 32));
    check("7701000020000000", |a| a.shr(R1, 32));
    check("c701000020000000", |a| a.alu(Alu::Sar, R1, 32));
    check("3700000003000000", |a| a.alu(Alu::Div, R0, 3));
    check("9400000003000000", |a| a.alu32(Alu::Rem, R0, 3));
    check("8700000000000000", |a| a.neg(R0));
    check("dc04000010000000", |a| a.big_endian(R4, Size::U16));
    check("6112000000000000", |a| a.load(Size::U32, R2, R1, 0));
    check("69430c0000000000", |a| a.load(Size::U16, R3, R4, 12));
    check("7145ffff00000000", |a| a.load(Size::U8, R5, R4, -1));
    check("79a7f8ff00000000", |a| a.load(Size::U64, R7, R10, -8));
    check("7b0af8ff00000000", |a| a.store(Size::U64, R10, -8, R0));
    check("620afcff07000000", |a| a.store(Size::U32, R10, -4, 7));
    check("731afeff00000000", |a| a.store(Size::U8, R10, -2, R1));
    check("6a0af0ff02000000", |a| a.store(Size::U16, R10, -16, 2));
    check("db10080000000000", |a| a.atomic_add(R0, 8, R1));
    check("db10080001000000", |a| a.atomic_fetch_add(R0, 8, R1));
    check("8500000005000000", |a| a.call(Helper::KtimeGetNs));
    check("8520000039300000", |a| a.call_kernel(12345));
    check("9500000000000000", |a| a.exit());
    check("180100008877665500000000 44332211".replace(' ', "").as_str(), |a| {
        a.constant(R1, 0x1122_3344_5566_7788)
    });
}

#[test]
fn jumps_count_from_the_next_instruction() {
    let mut asm = Asm::new();
    let (again, out) = (asm.label(), asm.label());
    asm.bind(again).jump_if(Cond::Eq, R1, 0, out).sub(R1, 1).jump(again);
    asm.bind(out).exit();
    let code = bytes(&asm);
    assert_eq!(code[0], [0x15, 0x01, 2, 0, 0, 0, 0, 0]);
    assert_eq!(code[2], [0x05, 0x00, 0xfd, 0xff, 0, 0, 0, 0]);

    let mut asm = Asm::new();
    let out = asm.label();
    asm.jump_if32(Cond::SLt, R2, R3, out).jump_if(Cond::Gt, R4, R5, out).bind(out).exit();
    let code = bytes(&asm);
    assert_eq!(code[0], [0xce, 0x32, 1, 0, 0, 0, 0, 0]);
    assert_eq!(code[1], [0x2d, 0x54, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn labels_that_do_not_fit_are_refused() {
    let mut asm = Asm::new();
    let label = asm.label();
    asm.jump(label).exit();
    assert_eq!(asm.assemble(), Err(AsmError::Unbound(0)));
    asm.bind(label).bind(label);
    assert_eq!(asm.assemble(), Err(AsmError::BoundTwice(0)));

    let mut asm = Asm::new();
    let label = asm.label();
    asm.jump(label);
    for _ in 0..40_000 {
        asm.mov(R0, 0);
    }
    asm.bind(label).exit();
    assert_eq!(asm.assemble(), Err(AsmError::TooFar(0)));
}

fn reg() -> impl Strategy<Value = Reg> {
    prop::sample::select(vec![R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10])
}

fn size() -> impl Strategy<Value = (Size, u8)> {
    prop::sample::select(vec![
        (Size::U8, 0x10),
        (Size::U16, 0x08),
        (Size::U32, 0x00),
        (Size::U64, 0x18),
    ])
}

proptest! {
    /// Every field lands where the format has it.
    #[test]
    fn fields_come_back(dst in reg(), src in reg(), off: i16, imm: i32, (size, code) in size()) {
        let mut asm = Asm::new();
        asm.load(size, dst, src, off).store(size, dst, off, src).store(size, dst, off, imm);
        asm.alu(Alu::Xor, dst, imm).alu32(Alu::Mul, dst, src);
        let registers = (src as u8) << 4 | dst as u8;
        let o = off.to_le_bytes();
        let i = imm.to_le_bytes();
        let expected = [
            [0x61 | code, registers, o[0], o[1], 0, 0, 0, 0],
            [0x63 | code, registers, o[0], o[1], 0, 0, 0, 0],
            [0x62 | code, dst as u8, o[0], o[1], i[0], i[1], i[2], i[3]],
            [0xa7, dst as u8, 0, 0, i[0], i[1], i[2], i[3]],
            [0x2c, registers, 0, 0, 0, 0, 0, 0],
        ];
        prop_assert_eq!(bytes(&asm), expected);
        let operand: Operand = imm.into();
        prop_assert_eq!(operand, Operand::Imm(imm));
    }

    /// A jump over any number of instructions lands behind them, forwards and backwards.
    #[test]
    fn jumps_land(before in 0_usize..200, between in 0_usize..200) {
        let mut asm = Asm::new();
        let (back, forth) = (asm.label(), asm.label());
        for _ in 0..before {
        asm.mov(R0, 0);
    }
        asm.bind(back).jump(forth);
        for _ in 0..between {
        asm.mov(R0, 0);
    }
        asm.bind(forth).jump(back);
        let code = asm.assemble().unwrap();
        prop_assert_eq!(usize::try_from(code[before].off).unwrap(), between);
        prop_assert_eq!(i64::from(code[before + between + 1].off), -(between as i64) - 2);
    }
}
