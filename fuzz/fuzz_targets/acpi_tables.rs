//! The firmware's tables that say where the HPET and the ACPI timer are: any bytes, by themselves
//! and made to look like a table, since no fuzzer guesses checksums.
#![no_main]

use truechimer_counter::acpi::{Place, fadt_pm_timer, hpet_table};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    for signature in [b"HPET", b"FACP"] {
        let mut table = bytes.to_vec();
        if table.len() >= 36 {
            table[..4].copy_from_slice(signature);
            let length = (table.len() as u32).to_le_bytes();
            table[4..8].copy_from_slice(&length);
            table[9] = 0;
            let sum = table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            table[9] = sum.wrapping_neg();
        }
        check(&table);
    }
});

fn check(bytes: &[u8]) {
    match hpet_table(bytes) {
        Ok(table) => {
            assert!(bytes.len() >= 53 && bytes.starts_with(b"HPET"));
            assert!(
                table.base != 0 && table.base % 8 == 0 && (1..=32).contains(&table.comparators)
            );
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    match fadt_pm_timer(bytes) {
        Ok(timer) => {
            assert!(bytes.len() >= 116 && bytes.starts_with(b"FACP"));
            assert!(timer.bits == 24 || timer.bits == 32);
            match timer.place {
                Place::Memory(address) => assert!(address != 0 && address % 4 == 0),
                Place::Port(port) => assert!((1..=0xfffc).contains(&port)),
            }
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}
