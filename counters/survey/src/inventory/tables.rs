//! Which timers the firmware's tables name, whether or not the kernel uses them.

use std::io::ErrorKind;

use serde::Serialize;
use truechimer_counter::acpi::{fadt_pm_timer, hpet_table};

use super::sources::{Sources, bytes, plain};

/// The timers in the ACPI tables.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tables {
    /// The HPET; `None` where no table names one.
    pub hpet: Option<TableTimer>,
    /// The power management timer; `None` where the fixed description table names none.
    pub pm_timer: Option<TableTimer>,
}

/// A timer as a table has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TableTimer {
    /// Where its registers are.
    pub place: String,
    /// Number of bits that it counts in.
    pub bits: u32,
}

/// Reads the tables; what cannot be read or is unsound comes with its reason.
pub(super) fn read(sources: &Sources) -> (Tables, Vec<String>) {
    let mut wrong = Vec::new();
    let hpet = table(sources, "HPET", &mut wrong, |bytes| {
        let hpet = hpet_table(bytes).map_err(|why| why.to_string())?;
        let bits = if hpet.wide { 64 } else { 32 };
        Ok(TableTimer { place: format!("memory at {:#x}", hpet.base), bits })
    });
    let pm_timer = table(sources, "FACP", &mut wrong, |bytes| {
        let timer = fadt_pm_timer(bytes).map_err(|why| why.to_string())?;
        Ok(TableTimer { place: timer.place.to_string(), bits: timer.bits })
    });
    (Tables { hpet, pm_timer }, wrong)
}

fn table(
    sources: &Sources,
    name: &str,
    wrong: &mut Vec<String>,
    parse: impl Fn(&[u8]) -> Result<TableTimer, String>,
) -> Option<TableTimer> {
    let path = sources.sys.join("firmware/acpi/tables").join(name);
    let found = match bytes(&path) {
        Ok(bytes) => parse(&bytes),
        Err(why) if why.kind() == ErrorKind::NotFound => return None,
        Err(why) if why.kind() == ErrorKind::PermissionDenied => {
            Err(format!("{} (only root may read it)", plain(&why)))
        }
        Err(why) => Err(plain(&why)),
    };
    found.map_err(|why| wrong.push(format!("{}: {why}", path.display()))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn unsound_tables_are_named_and_missing_ones_are_none() {
        let root = format!("truechimer-tables-{}", std::process::id());
        let root = std::env::temp_dir().join(root);
        let folder = root.join("sys/firmware/acpi/tables");
        fs::create_dir_all(&folder).unwrap();
        let sources = Sources::under(&root);
        assert_eq!(read(&sources), (Tables::default(), vec![]));
        // A sound HPET table: at FED00000h, 64 bits; the checksum makes it add up to zero.
        let mut hpet = b"HPET\x38\0\0\0\x01\0BOCHSBXPC    ".to_vec();
        hpet.resize(36, 0);
        hpet.extend_from_slice(&0x8086_a201_u32.to_le_bytes());
        hpet.extend_from_slice(&[0, 0, 0, 0]);
        hpet.extend_from_slice(&0xfed0_0000_u64.to_le_bytes());
        hpet.extend_from_slice(&[0, 0, 0, 0]);
        let sum = hpet.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        hpet[9] = 0u8.wrapping_sub(sum);
        fs::write(folder.join("HPET"), hpet).unwrap();
        fs::write(folder.join("FACP"), b"FACP, but no table").unwrap();
        let (tables, wrong) = read(&sources);
        let _ = fs::remove_dir_all(&root);
        let timer = TableTimer { place: "memory at 0xfed00000".into(), bits: 64 };
        assert_eq!(tables, Tables { hpet: Some(timer), pm_timer: None });
        assert!(wrong.len() == 1 && wrong[0].contains("tables/FACP: "), "{wrong:?}");
    }
}
