//! Where a PC's timers are, by the tables its firmware left: pure functions over bytes.
//!
//! The tables are those of the ACPI Specification 6.5 (section 5.2.6: header, 5.2.9: FADT,
//! 5.2.3.2: generic addresses) and of the IA-PC HPET Specification 1.0a (section 3.2.4).

use std::fmt;

/// The kernel's copy of the HPET's table. Only root may read it.
pub const HPET_PATH: &str = "/sys/firmware/acpi/tables/HPET";
/// The kernel's copy of the fixed description table (FADT; its signature is FACP).
pub const FADT_PATH: &str = "/sys/firmware/acpi/tables/FACP";

/// More than any table of these kinds has.
pub(crate) const LONGEST: u64 = 4096;

/// Where a register is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// At this physical address.
    Memory(u64),
    /// At this I/O port.
    Port(u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Memory(address) => write!(f, "memory at {address:#x}"),
            Place::Port(port) => write!(f, "I/O port {port:#x}"),
        }
    }
}

/// Contents of the HPET's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HpetTable {
    /// Physical address of its registers.
    pub base: u64,
    /// The PCI identifier of its maker.
    pub vendor: u16,
    /// The hardware's revision.
    pub revision: u8,
    /// Number of comparators.
    pub comparators: u8,
    /// True if the main counter has 64 bits, else 32.
    pub wide: bool,
    /// Which of the machine's HPETs it is.
    pub number: u8,
}

/// Description of the power management timer in the FADT.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PmTimer {
    /// Where it is.
    pub place: Place,
    /// Number of bits that it counts in: 24 or 32.
    pub bits: u32,
}

/// Fault of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableError {
    /// There are only so many bytes; it takes so many.
    Short(usize, usize),
    /// Length that it states, which is more than there is or less than a header.
    Length(u32),
    /// Signature other than the right one.
    Signature([u8; 4]),
    /// Sum of its bytes, which is not zero.
    Checksum(u8),
    /// The registers are in an address space (ACPI's number) where they cannot be, or cannot be
    /// read.
    Space(u8),
    /// The registers are at an address where they cannot be.
    Address(u64),
    /// The register block has a length (in bytes) that it cannot have.
    Block(u8),
    /// Absent: it says that there is no such timer.
    Absent,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TableError::*;
        match self {
            Short(have, need) => write!(f, "{have} bytes are too few: it takes {need}"),
            Length(length) => {
                write!(f, "the length of {length} bytes that it states is not its own")
            }
            Signature(found) => write!(f, "the signature is '{}'", found.escape_ascii()),
            Checksum(sum) => write!(f, "the checksum is off by {sum}"),
            Space(space) => write!(f, "the registers are in address space {space}"),
            Address(address) => write!(f, "the registers cannot be at {address:#x}"),
            Block(length) => write!(f, "the timer's block cannot have {length} bytes"),
            Absent => f.write_str("it names no such timer"),
        }
    }
}

impl std::error::Error for TableError {}

/// Parses an HPET table.
///
/// # Errors
/// Where the bytes are not a sound HPET table, or its registers are not in memory.
pub fn hpet_table(bytes: &[u8]) -> Result<HpetTable, TableError> {
    let table = Table::new(bytes, b"HPET")?;
    let block = table.u32(36)?;
    let (space, base) = table.address(40)?;
    let number = table.u8(52)?;
    if space != MEMORY {
        return Err(TableError::Space(space));
    }
    // Its registers take 1 KiB, and are read as words.
    if base == 0 || base % 8 != 0 || base.checked_add(1024).is_none() {
        return Err(TableError::Address(base));
    }
    Ok(HpetTable {
        base,
        vendor: (block >> 16) as u16,
        revision: block as u8,
        comparators: (block >> 8 & 0x1f) as u8 + 1,
        wide: block >> 13 & 1 == 1,
        number,
    })
}

/// Where the FADT says that the power management timer is, and how wide.
///
/// The extended address counts where there is one, and the old port number else: ACPI's own rule.
///
/// # Errors
/// Where the bytes are not a sound FADT, or there is no timer.
pub fn fadt_pm_timer(bytes: &[u8]) -> Result<PmTimer, TableError> {
    let table = Table::new(bytes, b"FACP")?;
    let bits = if table.u32(112)? >> 8 & 1 == 1 { 32 } else { 24 };
    // Tables of before ACPI 2.0 end before the extended address.
    let (space, address) = match table.address(208) {
        Ok((_, 0)) | Err(_) => {
            // In older tables without a timer the length may be anything.
            let port = table.u32(76)?;
            let length = table.u8(91)?;
            if port != 0 && length != 4 {
                return Err(TableError::Block(length));
            }
            (PORT, port.into())
        }
        Ok(extended) => extended,
    };
    let place = match space {
        _ if address == 0 => return Err(TableError::Absent),
        MEMORY if address % 4 == 0 && address.checked_add(4).is_some() => Place::Memory(address),
        // All four bytes below 64 Ki.
        PORT => match u16::try_from(address) {
            Ok(port) if port <= 0xfffc => Place::Port(port),
            _ => return Err(TableError::Address(address)),
        },
        MEMORY => return Err(TableError::Address(address)),
        _ => return Err(TableError::Space(space)),
    };
    Ok(PmTimer { place, bits })
}

/// ACPI's numbers of address spaces.
const MEMORY: u8 = 0;
const PORT: u8 = 1;

/// A table that has been found sound.
struct Table<'a>(&'a [u8]);

impl<'a> Table<'a> {
    fn new(bytes: &'a [u8], signature: &[u8; 4]) -> Result<Table<'a>, TableError> {
        const HEADER: usize = 36;
        let all = Table(bytes);
        let found = all.array(0)?;
        if found != *signature {
            return Err(TableError::Signature(found));
        }
        let length = all.u32(4)?;
        let table = usize::try_from(length)
            .ok()
            .filter(|length| *length >= HEADER)
            .and_then(|length| bytes.get(..length))
            .ok_or(TableError::Length(length))?;
        match table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) {
            0 => Ok(Table(table)),
            sum => Err(TableError::Checksum(sum)),
        }
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], TableError> {
        self.0
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .ok_or(TableError::Short(self.0.len(), at + N))
    }

    fn u8(&self, at: usize) -> Result<u8, TableError> {
        self.array::<1>(at).map(|[byte]| byte)
    }

    fn u32(&self, at: usize) -> Result<u32, TableError> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// A generic address: space and address. Width, offset and access size add nothing for
    /// registers whose specification fixes them, and firmware often gets them wrong.
    fn address(&self, at: usize) -> Result<(u8, u64), TableError> {
        Ok((self.u8(at)?, u64::from_le_bytes(self.array(at + 4)?)))
    }
}

#[cfg(test)]
mod tests;
