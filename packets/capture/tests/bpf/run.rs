//! Programs in the running kernel.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use truechimer_capture::bpf::Reg::*;
use truechimer_capture::bpf::{
    Alu, Asm, BpfError, Btf, Cond, Gate, Helper, Hook, Link, LiveFrames, Map, Program, ProgramKind,
    RingBuffer, Size, Tsc, XdpMode, interface_index, probe,
};
use truechimer_counter::{Counter, nominal};
use truechimer_testbed::lacking::{Lacking, or_skip};
use truechimer_time::{CountSpan, CounterKind};

const PASS: i32 = 2;

/// The value; or, where rights are missing, `None` and a line that says so.
fn allowed<T>(result: Result<T, BpfError>) -> Option<T> {
    match result {
        // Somebody else's program on loopback is a lack, too.
        Err(error) if !error.is_permission() && error.errno != Some(libc::EBUSY) => {
            panic!("{error}")
        }
        result => or_skip(result.map_err(|error| Lacking(error.to_string()))),
    }
}

fn load(kind: ProgramKind, asm: &Asm) -> Option<Program> {
    allowed(Program::load(kind, "test", asm))
}

fn packet() -> Vec<u8> {
    (0..64).collect()
}

/// Result of a program of no packet.
fn result_of(write: impl for<'a> FnOnce(&'a mut Asm) -> &'a mut Asm) -> Option<u32> {
    let mut asm = Asm::new();
    write(&mut asm);
    let program = load(ProgramKind::Xdp, &asm)?;
    Some(program.test_run(&packet(), 1).unwrap().value)
}

fn check(expected: u32, write: impl for<'a> FnOnce(&'a mut Asm) -> &'a mut Asm) {
    if let Some(value) = result_of(write) {
        assert_eq!(value, expected);
    }
}

#[test]
fn arithmetic_is_the_kernels() {
    check(7, |a| a.mov(R0, 3).add(R0, 4).exit());
    check(u32::MAX, |a| a.mov(R0, 3).sub(R0, 4).exit());
    check(5, |a| a.mov(R0, 17).alu(Alu::Div, R0, 3).exit());
    check(2, |a| a.mov(R0, 17).alu(Alu::Rem, R0, 3).exit());
    check(0x80, |a| a.constant(R0, 0x80_0000_0000).shr(R0, 32).exit());
    check(0x3412, |a| a.mov(R0, 0x1234).big_endian(R0, Size::U16).exit());
    check(9, |a| a.mov(R0, -9).neg(R0).exit());
    check(0xffff_ff00, |a| a.mov32(R0, -1).alu(Alu::Xor, R0, 0xff).exit());
    check(45, |a| {
        let again = a.label();
        a.mov(R0, 0).mov(R1, 9).bind(again).add(R0, R1).sub(R1, 1);
        a.jump_if(Cond::Ne, R1, 0, again).exit()
    });
    check(0x0d0c, |a| {
        // Bytes 12 and 13 of the packet, after a check of its length.
        let short = a.label();
        a.load(Size::U32, R2, R1, 0).load(Size::U32, R3, R1, 4).mov(R4, R2).add(R4, 14);
        a.mov(R0, 0).jump_if(Cond::Gt, R4, R3, short).load(Size::U16, R0, R2, 12);
        a.bind(short).exit()
    });
}

#[test]
fn a_refusal_brings_the_log() {
    let mut asm = Asm::new();
    asm.load(Size::U64, R0, R9, 0).exit();
    match Program::load(ProgramKind::Xdp, "bad", &asm) {
        Ok(_) => panic!("R9 was never set"),
        Err(error) if error.is_permission() => {
            assert!(error.to_string().contains("cap_bpf"), "{error}");
            or_skip::<()>(Err(Lacking(error.to_string())));
        }
        Err(error) => {
            assert!(error.log.contains("R9"), "{error}");
            assert!(error.to_string().contains("the verifier says"), "{error}");
        }
    }
    let mut asm = Asm::new();
    let nowhere = asm.label();
    asm.jump(nowhere);
    let error = Program::load(ProgramKind::Xdp, "bad", &asm).unwrap_err();
    assert!(error.why.contains("stands nowhere"), "{error}");
}

#[test]
fn maps_are_shared() {
    let Some(array) = allowed(Map::array(16, 2)) else { return };
    let Some(alone) = allowed(Map::array(16, 1)) else { return };
    let Some(each) = allowed(Map::per_cpu_array(16, 1)) else { return };
    let Some(hash) = allowed(Map::hash(4, 4, 8)) else { return };
    array.set(&1_u32.to_ne_bytes(), &[7; 16]).unwrap();
    assert_eq!(array.get(&1_u32.to_ne_bytes()).unwrap().unwrap(), [7; 16]);
    assert!(array.get(&2_u32.to_ne_bytes()).unwrap().is_none());
    assert!(array.get(&[1]).is_err() && array.set(&1_u32.to_ne_bytes(), &[1]).is_err());

    hash.set(&5_u32.to_ne_bytes(), &50_u32.to_ne_bytes()).unwrap();
    let key = hash.next_key(None).unwrap().unwrap();
    assert_eq!(key, 5_u32.to_ne_bytes());
    assert!(hash.next_key(Some(&key)).unwrap().is_none());
    assert!(hash.delete(&key).unwrap() && !hash.delete(&key).unwrap());

    // alone.second += 3, by address; each CPU's first += 1, by lookup.
    let mut asm = Asm::new();
    let none = asm.label();
    asm.map_value(R1, &alone, 8).mov(R2, 3).atomic_add(R1, 0, R2);
    asm.store(Size::U32, R10, -4, 0).map(R1, &each).mov(R2, R10).add(R2, -4);
    asm.call(Helper::MapLookup).jump_if(Cond::Eq, R0, 0, none);
    asm.mov(R1, 1).atomic_add(R0, 0, R1).bind(none).give(PASS);
    let Some(program) = load(ProgramKind::Xdp, &asm) else { return };
    for _ in 0..5 {
        assert_eq!(program.test_run(&packet(), 2).unwrap().value, 2);
    }
    assert_eq!(alone.words(0).unwrap(), [0, 30]);
    assert_eq!(each.sum(0, 0).unwrap(), 10);
    assert_eq!(each.sum(0, 1).unwrap(), 0);
}

#[test]
fn records_come_in_order_and_wrap() {
    let Some(mut ring) = allowed(RingBuffer::new(4096)) else { return };
    let Some(state) = allowed(Map::array(8, 1)) else { return };
    // Writes a record of 24 bytes that begins by a running number.
    let mut asm = Asm::new();
    asm.map_value(R6, &state, 0).load(Size::U64, R7, R6, 0).add(R7, 1);
    asm.store(Size::U64, R6, 0, R7);
    for off in [-24, -16, -8] {
        asm.store(Size::U64, R10, off, R7);
    }
    asm.map(R1, ring.map()).mov(R2, R10).add(R2, -24).mov(R3, 24).mov(R4, 0);
    asm.call(Helper::RingbufOutput).exit();
    let Some(program) = load(ProgramKind::Xdp, &asm) else { return };
    assert!(!ring.wait(Duration::ZERO).unwrap());
    let mut expected = 0_u64;
    for round in 1..60 {
        let wanted = round % 100;
        program.test_run(&packet(), wanted).unwrap();
        assert!(ring.wait(Duration::ZERO).unwrap());
        let records = ring
            .consume(|record| {
                expected += 1;
                assert_eq!(record, [expected.to_ne_bytes(); 3].concat());
            })
            .unwrap();
        assert_eq!(records, wanted as usize);
    }
    // 4096 bytes hold 128 records; what does not fit is lost, and what was there stays.
    program.test_run(&packet(), 1000).unwrap();
    let before = expected;
    let records = ring
        .consume(|record| {
            expected += 1;
            assert_eq!(record[..8], expected.to_ne_bytes());
        })
        .unwrap();
    assert_eq!(records as u64, expected - before);
    assert!((100..=128).contains(&records), "{records}");
}

/// Counts, and lets everything pass.
fn counting(map: &Map, verdict: i32) -> Asm {
    let mut asm = Asm::new();
    asm.map_value(R1, map, 0).mov(R2, 1).atomic_add(R1, 0, R2).give(verdict);
    asm
}

fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing happened in 20 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends datagrams over loopback until the count rises, takes the link away, and sees it rest.
fn attached(count: &Map, link: Link) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let there = socket.local_addr().unwrap();
    until(|| {
        socket.send_to(b"hello", there).unwrap();
        count.words(0).unwrap()[0] > 0
    });
    drop(link);
    // Other traffic must not hide that the program is gone, but whatever runs now still counts.
    std::thread::sleep(Duration::from_millis(50));
    let rest = count.words(0).unwrap();
    for _ in 0..10 {
        socket.send_to(b"hello", there).unwrap();
    }
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(count.words(0).unwrap(), rest);
}

#[test]
fn programs_are_attached_and_taken_away() {
    let Some(lo) = or_skip(interface_index("lo").map_err(|e| Lacking(e.to_string()))) else {
        return;
    };
    // tc programs say 0 for "go on"; tracepoints anything.
    for gate in [Gate::Ingress, Gate::Egress] {
        let Some(count) = allowed(Map::array(8, 1)) else { return };
        let Some(program) = load(ProgramKind::SchedCls, &counting(&count, 0)) else { return };
        let Some(link) = allowed(Link::tcx(&program, lo, gate)) else { return };
        attached(&count, link);
    }
    let Some(count) = allowed(Map::array(8, 1)) else { return };
    let Some(program) = load(ProgramKind::RawTracepoint, &counting(&count, 0)) else { return };
    let Some(link) = allowed(Link::raw_tracepoint(&program, "netif_receive_skb")) else { return };
    attached(&count, link);
    let error = Link::raw_tracepoint(&program, "no_such_tracepoint").unwrap_err();
    assert!(error.to_string().contains("no such tracepoint"), "{error}");

    let Some(count) = allowed(Map::array(8, 1)) else { return };
    let Some(program) = load(ProgramKind::Xdp, &counting(&count, PASS)) else { return };
    let Some(link) = allowed(Link::xdp(&program, lo, XdpMode::Generic)) else { return };
    attached(&count, link);
    let error = Link::xdp(&program, lo, XdpMode::Native).unwrap_err();
    assert!(error.to_string().contains("generic"), "{error}");
    assert!(Link::xdp(&program, u32::MAX, XdpMode::Generic).is_err());
    assert!(Link::tracing(&program).is_err());
}

#[test]
fn typed_tracepoints_read_members_directly() {
    let Some(btf) = or_skip(Btf::kernel().map_err(|error| Lacking(error.to_string()))) else {
        return;
    };
    let hook = Hook::Tracepoint(btf.tracepoint("netif_receive_skb").unwrap());
    let len = i16::try_from(btf.offset("sk_buff", "len").unwrap()).unwrap();
    let Some(count) = allowed(Map::array(8, 1)) else { return };
    // Counts packets of just the length that ours have: 28 bytes of headers and 777 of data.
    let mut asm = Asm::new();
    let other = asm.label();
    asm.load(Size::U64, R1, R1, 0).load(Size::U32, R2, R1, len);
    asm.jump_if(Cond::Ne, R2, 805, other).map_value(R1, &count, 0).mov(R2, 1);
    asm.atomic_add(R1, 0, R2).bind(other).give(0);
    let Some(program) = load(ProgramKind::Tracing(hook), &asm) else { return };
    let _link = Link::tracing(&program).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    until(|| {
        socket.send_to(&[0; 777], socket.local_addr().unwrap()).unwrap();
        count.words(0).unwrap()[0] > 0
    });
}

#[test]
fn live_frames_take_the_programs_way() {
    let Some(count) = allowed(Map::array(8, 1)) else { return };
    let mut asm = counting(&count, 1);
    let Some(program) = load(ProgramKind::Xdp, &asm) else { return };
    let frame = [0_u8; 60];
    let lo = interface_index("lo").unwrap();
    let live = LiveFrames { frame: &frame, ingress: lo, repeat: 1000, batch: 64 };
    // Dropped by the program.
    program.run_live(&live).unwrap();
    assert_eq!(count.words(0).unwrap(), [1000]);
    assert!(program.run_live(&LiveFrames { frame: &frame[..13], ..live }).is_err());
    assert!(program.run_live(&LiveFrames { batch: 257, ..live }).is_err());
    asm = Asm::new();
    asm.give(0);
    let Some(other) = load(ProgramKind::SchedCls, &asm) else { return };
    assert!(other.run_live(&live).is_err());
}

#[test]
fn the_counter_is_read_in_programs() {
    // Only x86 has it.
    let Some(tsc) = or_skip(Tsc::open().map_err(|error| Lacking(error.to_string()))) else {
        return;
    };
    let Some(result) = allowed(Map::array(16, 1)) else { return };
    let mut asm = Asm::new();
    for off in [0, 8] {
        tsc.read(&mut asm).map_value(R1, &result, off).store(Size::U64, R1, 0, R0);
    }
    asm.give(0);
    let Some(program) = load(ProgramKind::RawTracepoint, &asm) else { return };
    for &cpu in tsc.cpus() {
        program.test_run_arguments(&[], Some(cpu)).unwrap();
        let words = result.words(0).unwrap();
        assert!(words[0] < words[1] && words[1] < 1 << 60, "{words:?}");
    }
}

#[test]
fn the_counters_bases_hold() {
    let Some(tsc) = or_skip(Tsc::open().map_err(|error| Lacking(error.to_string()))) else {
        return;
    };
    let counter = Counter::of_kind(CounterKind::Tsc).map_err(|error| Lacking(error.to_string()));
    let Some(counter) = or_skip(counter) else { return };
    let counter = counter.fenced();
    let nominal = nominal(counter).unwrap().period.span(CountSpan(1 << 40)).as_nanos() as f64
        / 2_f64.powi(40);
    let mut now = || counter.read().0;
    let first = tsc.bases(nominal, &mut now).unwrap();
    let second = tsc.bases(nominal, &mut now).unwrap();
    assert_eq!(first.len(), tsc.cpus().len());
    for (a, b) in first.iter().zip(&second) {
        // Both are bounds of the same truth.
        assert!(a.cpu == b.cpu && a.counts.abs_diff(b.counts) <= a.error + b.error, "{a:?} {b:?}");
    }
    // A counter of another rate is found out, or promises next to nothing.
    let start = Instant::now();
    let mut wrong = || start.elapsed().as_nanos() as u64;
    if let Ok(bases) = tsc.bases(1.0, &mut wrong) {
        panic!("{bases:?}");
    }
}

#[test]
fn what_the_kernel_has_is_known() {
    if allowed(probe::program_kind(ProgramKind::Xdp)).is_none() {
        return;
    }
    assert!(probe::helper(ProgramKind::Xdp, Helper::KtimeGetNs));
    assert!(probe::helper(ProgramKind::Xdp, Helper::RedirectMap));
    assert!(!probe::helper(ProgramKind::Xdp, Helper::SkbLoadBytes));
    assert!(!probe::helper(ProgramKind::SocketFilter, Helper::RedirectMap));
    if let Ok(btf) = Btf::kernel() {
        assert!(probe::kernel_function(&btf, "no_such_function").is_none());
    }
}
