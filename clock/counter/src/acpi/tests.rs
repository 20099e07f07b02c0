use super::*;
use proptest::prelude::*;

/// Gives a table the length and the checksum that it needs.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = (bytes.len() as u32).to_le_bytes();
    bytes[4..8].copy_from_slice(&length);
    bytes[9] = 0;
    let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    bytes[9] = sum.wrapping_neg();
    bytes
}

/// The HPET that most PCs and QEMU have.
fn hpet() -> Vec<u8> {
    let mut bytes = vec![0; 56];
    bytes[..4].copy_from_slice(b"HPET");
    bytes[36..40].copy_from_slice(&0x8086_a201u32.to_le_bytes());
    bytes[44..52].copy_from_slice(&0xfed0_0000u64.to_le_bytes());
    sealed(bytes)
}

/// A FADT of ACPI 2.0 or later, or one of ACPI 1.0.
fn fadt(length: usize, port: u32, flags: u32, extended: Option<(u8, u64)>) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..4].copy_from_slice(b"FACP");
    bytes[76..80].copy_from_slice(&port.to_le_bytes());
    bytes[91] = 4;
    bytes[112..116].copy_from_slice(&flags.to_le_bytes());
    if let Some((space, address)) = extended {
        bytes[208] = space;
        bytes[212..220].copy_from_slice(&address.to_le_bytes());
    }
    sealed(bytes)
}

fn with(bytes: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] = byte;
    sealed(bytes)
}

#[test]
fn an_ordinary_hpet() {
    let table = HpetTable {
        base: 0xfed0_0000,
        vendor: 0x8086,
        revision: 1,
        comparators: 3,
        wide: true,
        number: 0,
    };
    assert_eq!(hpet_table(&hpet()), Ok(table));
    let second = with(&with(&hpet(), 37, 0), 52, 2);
    let table = HpetTable { comparators: 1, wide: false, number: 2, ..table };
    assert_eq!(hpet_table(&second), Ok(table));
    // What follows the table is not part of it.
    assert_eq!(hpet_table(&[second, vec![7; 9]].concat()), Ok(table));
}

#[test]
fn hpet_tables_that_are_none() {
    let good = hpet();
    assert_eq!(hpet_table(&[]), Err(TableError::Short(0, 4)));
    assert_eq!(hpet_table(&good[..55]), Err(TableError::Length(56)));
    assert_eq!(hpet_table(&sealed(good[..40].to_vec())), Err(TableError::Short(40, 41)));
    assert_eq!(hpet_table(&with(&good, 0, b'h')), Err(TableError::Signature(*b"hPET")));
    assert_eq!(hpet_table(&with(&good, 40, 1)), Err(TableError::Space(1)));
    assert_eq!(hpet_table(&with(&good, 44, 4)), Err(TableError::Address(0xfed0_0004)));
    let mut damaged = good.clone();
    damaged[20] ^= 16;
    assert_eq!(hpet_table(&damaged), Err(TableError::Checksum(16)));
    damaged[4..8].copy_from_slice(&35u32.to_le_bytes());
    assert_eq!(hpet_table(&damaged), Err(TableError::Length(35)));
    let mut nowhere = good;
    nowhere[44..52].fill(0);
    assert_eq!(hpet_table(&sealed(nowhere.clone())), Err(TableError::Address(0)));
    nowhere[44..52].copy_from_slice(&(u64::MAX - 7).to_le_bytes());
    assert_eq!(hpet_table(&sealed(nowhere)), Err(TableError::Address(u64::MAX - 7)));
}

#[test]
fn pm_timers_of_all_ages() {
    let timer = |place, bits| Ok(PmTimer { place, bits });
    let port = |port| Place::Port(port);
    for (table, found) in [
        (fadt(116, 0x408, 0, None), timer(port(0x408), 24)),
        (fadt(244, 0x608, 1 << 8, Some((1, 0x608))), timer(port(0x608), 32)),
        (fadt(244, 0x608, 0, Some((1, 0x1808))), timer(port(0x1808), 24)),
        (fadt(276, 0x608, 0, Some((0, 0))), timer(port(0x608), 24)),
        (fadt(276, 0, 0, Some((0, 0xfed8_0808))), timer(Place::Memory(0xfed8_0808), 24)),
        (fadt(276, 0, 1 << 20, Some((1, 0))), Err(TableError::Absent)),
        (fadt(276, 0, 0, Some((2, 0x40))), Err(TableError::Space(2))),
        (fadt(276, 0, 0, Some((1, 0xfffd))), Err(TableError::Address(0xfffd))),
        (fadt(276, 0, 0, Some((0, 0xfed8_0809))), Err(TableError::Address(0xfed8_0809))),
        (fadt(116, 0x1_0000, 0, None), Err(TableError::Address(0x1_0000))),
        (with(&fadt(116, 0x408, 0, None), 91, 2), Err(TableError::Block(2))),
        (sealed(fadt(116, 0x408, 0, None)[..115].to_vec()), Err(TableError::Short(115, 116))),
        (hpet(), Err(TableError::Signature(*b"HPET"))),
    ] {
        assert_eq!(fadt_pm_timer(&table), found, "{table:x?}");
    }
}

#[test]
fn errors_are_readable() {
    for error in [
        TableError::Short(3, 4),
        TableError::Signature(*b"\0\x1bAB"),
        TableError::Checksum(255),
        TableError::Address(7),
    ] {
        let text = error.to_string();
        assert!(!text.is_empty() && text.chars().all(|c| !c.is_control()), "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        head in prop_oneof![Just(*b"HPET"), Just(*b"FACP")],
        mut bytes in prop::collection::vec(any::<u8>(), 40..300),
        seal: bool,
    ) {
        bytes[..4].copy_from_slice(&head);
        let bytes = if seal { sealed(bytes) } else { bytes };
        if let Ok(table) = hpet_table(&bytes) {
            prop_assert!(table.base != 0 && (1..=32).contains(&table.comparators));
        }
        if let Ok(timer) = fadt_pm_timer(&bytes) {
            prop_assert!(timer.bits == 24 || timer.bits == 32);
        }
    }

    #[test]
    fn a_flipped_bit_never_passes(at in 0usize..56, bit in 0u32..8) {
        let mut bytes = hpet();
        bytes[at] ^= 1 << bit;
        prop_assert!(hpet_table(&bytes).is_err());
    }
}
