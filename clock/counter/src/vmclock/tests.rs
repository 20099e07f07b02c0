use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::vmclock::{self, Vmclock, number_of};

/// A page in which every field has a value of its own, by the kernel's offsets.
fn page() -> Vec<u8> {
    let mut page = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"VCLK");
    put(4, &4096u32.to_le_bytes());
    put(8, &1u16.to_le_bytes());
    put(10, &[1, 1]);
    put(12, &6u32.to_le_bytes());
    put(0x10, &77u64.to_le_bytes());
    put(0x18, &0b1_0111_1101u64.to_le_bytes());
    put(0x22, &[2, 0]);
    put(0x24, &(-37i16).to_le_bytes());
    put(0x26, &[1, 29]);
    put(0x28, &5_000u64.to_le_bytes());
    // 1 ns.
    put(0x30, &0x8970_5f41_36b4_a597_u64.to_le_bytes());
    put(0x38, &(0x8970_5f41_36b4_a597_u64 / 1_000_000).to_le_bytes());
    put(0x40, &(0x8970_5f41_36b4_a597_u64 / 10_000).to_le_bytes());
    put(0x48, &1_800_000_000u64.to_le_bytes());
    put(0x50, &(1u64 << 63).to_le_bytes());
    put(0x58, &400u64.to_le_bytes());
    put(0x60, &900u64.to_le_bytes());
    put(0x68, &55u64.to_le_bytes());
    page
}

fn with(at: usize, bytes: &[u8]) -> Result<Snapshot, Fault> {
    let mut page = page();
    page[at..at + bytes.len()].copy_from_slice(bytes);
    parse(&page)
}

#[test]
fn every_field_is_where_the_kernel_has_it() {
    let snapshot = parse(&page()).unwrap();
    assert_eq!((snapshot.marker, snapshot.generation), (77, Some(55)));
    assert_eq!(snapshot.expected, Some(Expected::Imminent));
    let time = snapshot.time.unwrap();
    assert_eq!((time.counter, time.scale), (VmCounter::Tsc, VmScale::Tai));
    assert_eq!((time.count, time.free_running), (5_000, false));
    assert_eq!(time.time, Instant::new(1_800_000_000, 1 << 63));
    assert_eq!(time.deviation.map(Span::as_nanos_i64), Some(400));
    assert_eq!(time.error.map(Span::as_nanos_up), Some(900));
    assert!(time.period.relative_to(Period::NANOSECOND).0.abs() <= 4);
    let ppb = |rate: Rate| (rate.0 + Rate::from_ppb(1).0 / 2) / Rate::from_ppb(1).0;
    assert_eq!(time.period_deviation.map(ppb), Some(1_000));
    assert_eq!(time.period_error.map(ppb), Some(100_000));
    assert_eq!((time.tai_offset, time.leap), (Some(-37), VmLeap::Coming(1)));
}

#[test]
fn absent_parts_are_not_made_up() {
    // Without flags nothing is stated, and nothing counted.
    let bare = with(0x18, &[0; 8]).unwrap();
    assert_eq!((bare.generation, bare.expected), (None, None));
    let time = bare.time.unwrap();
    assert_eq!((time.error, time.deviation, time.tai_offset), (None, None, None));
    assert_eq!((time.period_error, time.period_deviation), (None, None));
    // The published specification's bit of the generation counter is another flag of the kernel's.
    assert_eq!(with(0x18, &(1u64 << 7).to_le_bytes()).unwrap().generation, None);
    // No counter, as QEMU and Firecracker have it; a clock that is none; periods that cannot be.
    for (at, bytes) in [
        (10, [255].as_slice()),
        (11, &[3]),
        (0x22, &[0]),
        (0x22, &[1]),
        (0x22, &[4]),
        (0x30, &[0; 8]),
    ] {
        let snapshot = with(at, bytes).unwrap();
        assert_eq!((snapshot.marker, snapshot.time), (77, None), "{at:#x}");
    }
    assert_eq!(with(0x27, &[64]).unwrap().time, None);
    assert_eq!(with(0x48, &[255; 8]).unwrap().time, None);
    // A page that ends before them, by its own word.
    assert_eq!(with(4, &[0x68, 0]).unwrap().generation, None);
    let short = with(4, &[0x58, 0]).unwrap().time.unwrap();
    assert_eq!((short.error, short.deviation), (None, None));
    assert_eq!(with(4, &[0x57, 0]).unwrap().time, None);
    assert_eq!(with(4, &[0x20, 0]).unwrap().marker, 77);
}

#[test]
fn strangers_are_refused() {
    assert_eq!(with(0, b"VCLX"), Err(Fault::Foreign));
    assert_eq!(with(8, &[2]), Err(Fault::Version(2)));
    assert_eq!(with(12, &[7]), Err(Fault::Unsettled));
    assert_eq!(with(4, &[0x1f, 0]), Err(Fault::Short(0x1f)));
    assert_eq!(with(4, &[0, 0x20]), Err(Fault::Short(4096)));
    assert_eq!(parse(&page()[..31]), Err(Fault::Short(31)));
}

#[test]
fn a_page_under_change_is_read_whole_or_not_at_all() {
    // A hypervisor that makes a change for every two words that are read, three times over.
    let looks = Cell::new(0u64);
    let word = |at: usize| {
        looks.set(looks.get() + 1);
        let step = (looks.get() / 2).min(6);
        if at == 1 { (4 + step) << 32 } else { step / 2 }
    };
    let found = settled(word).unwrap();
    assert_eq!(found[1] >> 32, 10);
    assert!((2..WORDS).all(|at| found[at] == 3), "{found:?}");
    // One that never finishes, and one that never stops.
    assert_eq!(settled(|at| if at == 1 { 5 << 32 } else { 0 }), Err(Fault::Unsettled));
    let restless = Cell::new(0u64);
    let word = |at: usize| {
        restless.set(restless.get() + 2);
        if at == 1 { restless.get() << 32 } else { 0 }
    };
    assert_eq!(settled(word), Err(Fault::Unsettled));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>, begins: bool) {
        if begins && bytes.len() >= 12 {
            let own = page();
            bytes[..12].copy_from_slice(&own[..12]);
            bytes.resize(4096, 0);
        }
        if let Ok(snapshot) = parse(&bytes)
            && let Some(time) = snapshot.time
        {
            prop_assert!(time.error.is_none_or(|error| !error.is_negative()));
            prop_assert!(time.period_error.is_none_or(|error| error >= Rate::ZERO));
        }
    }
}

#[test]
fn a_device_file_is_read_as_it_changes() {
    let path = std::env::temp_dir().join(format!("truechimer-vmclock-{}", std::process::id()));
    std::fs::write(&path, page()).unwrap();
    let device = Vmclock::open(&path).unwrap();
    assert_eq!((device.marker(), device.generation()), (77, Some(55)));
    assert_eq!(device.snapshot(), parse(&page()));
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &78u64.to_le_bytes(), 0x10).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &0u64.to_le_bytes(), 0x18).unwrap();
    assert_eq!((device.marker(), device.generation()), (78, None));
    assert_eq!((device.number(), device.path()), (vmclock::ELSEWHERE, &*path));
    std::fs::write(&path, &page()[..100]).unwrap();
    let short = Vmclock::open(&path).unwrap_err();
    assert!(short.to_string().ends_with("100 bytes are too few for a vmclock page"), "{short}");
    assert!(!short.is_missing());
    std::fs::remove_file(&path).unwrap();
    assert!(Vmclock::open(&path).unwrap_err().is_missing());
    assert!(Vmclock::open(std::env::temp_dir()).is_err());
}

#[test]
fn devices_have_numbers() {
    for (path, number) in [
        ("/dev/vmclock0", 0),
        ("/dev/vmclock17", 17),
        ("/dev/vmclock", vmclock::ELSEWHERE),
        ("/dev/vmclock+1", vmclock::ELSEWHERE),
        ("/dev/vmclock65534", vmclock::ELSEWHERE),
        ("/dev/vmclock65536", vmclock::ELSEWHERE),
        ("/tmp/vmclock0", vmclock::ELSEWHERE),
    ] {
        assert_eq!(number_of(path.as_ref()), number, "{path}");
    }
}
