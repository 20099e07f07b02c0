//! The counters that are devices: found by the firmware's tables, opened once for the process.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Mutex;

use truechimer_time::CounterKind;

use crate::acpi::{self, HpetTable, Place, PmTimer};
use crate::choose::Choice;
use crate::counter::Device;
use crate::error::{Attempt, CounterError, Doing};
use hpet::{Hpet, HpetRegisters};
use map::Mapping;
use pm::{Pm, Read};
use port::Port;

pub(crate) mod hpet;
mod map;
mod pm;
mod port;
#[cfg(test)]
mod tests;

const DEV_HPET: &str = "/dev/hpet";
const DEV_MEM: &str = "/dev/mem";

/// A device's registers of 32 bits.
pub(crate) trait Registers: fmt::Debug + Send + Sync + 'static {
    /// The register this many bytes from the first; it is there, and aligned.
    fn word(&self, at: usize) -> u32;
}

impl<R: Registers + ?Sized> Registers for Box<R> {
    fn word(&self, at: usize) -> u32 {
        (**self).word(at)
    }
}

/// True if a register changes: a thousand readings take longer than any of these counters needs.
fn moves(read: impl Fn() -> u32) -> bool {
    let first = read();
    (0..1000).any(|_| read() != first)
}

/// Devices that are open, for every choice to have the same.
#[derive(Default)]
struct Opened {
    hpet: Option<Device>,
    pm: Option<[Device; 2]>,
}

static OPENED: Mutex<Opened> = Mutex::new(Opened { hpet: None, pm: None });

/// The device of this choice. Nothing that is opened here is ever closed.
pub(crate) fn open(choice: Choice) -> Result<Device, CounterError> {
    let mut opened = OPENED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match choice {
        Choice::Hpet => match opened.hpet {
            Some(device) => Ok(device),
            None => Ok(*opened.hpet.insert(open_hpet()?)),
        },
        Choice::AcpiPm { safe } => {
            let both = match opened.pm {
                Some(both) => both,
                None => *opened.pm.insert(open_pm()?),
            };
            let [fast, slow] = both;
            Ok(if safe { slow } else { fast })
        }
        _ => Err(CounterError::NotHere(CounterKind::Raw)),
    }
}

/// Facts about this machine's HPET.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HpetFacts {
    /// Contents of the firmware's table, or why they are not known.
    pub table: Result<HpetTable, CounterError>,
    /// Contents of its registers, or why they cannot be read.
    pub registers: Result<HpetRegisters, CounterError>,
}

/// Facts about this machine's HPET: its table, its registers, or both.
///
/// # Errors
/// Where there is neither: why there is no table.
pub fn hpet() -> Result<HpetFacts, CounterError> {
    let (table, mapped) = find_hpet();
    match (table, mapped) {
        (Err(none), Err(_)) => Err(none),
        (table, mapped) => Ok(HpetFacts { table, registers: mapped.map(|(_, said)| said) }),
    }
}

/// Where this machine's ACPI power management timer is.
///
/// # Errors
/// Where it has none, or the table cannot be read: only root may.
pub fn pm_timer() -> Result<PmTimer, CounterError> {
    let kind = CounterKind::AcpiPm;
    let bytes = table(kind, acpi::FADT_PATH)?;
    acpi::fadt_pm_timer(&bytes).map_err(|error| CounterError::BadTable(kind, error))
}

fn open_hpet() -> Result<Device, CounterError> {
    let (_, mapped) = find_hpet();
    let (mapping, said) = mapped?;
    Device::new(Box::leak(Box::new(Hpet::new(mapping, &said)?)))
}

type Found<T> = Result<T, CounterError>;

/// The HPET's table, and its registers mapped by whichever way there is.
fn find_hpet() -> (Found<HpetTable>, Found<(Mapping, HpetRegisters)>) {
    let kind = CounterKind::Hpet;
    let table = table(kind, acpi::HPET_PATH).and_then(|bytes| {
        acpi::hpet_table(&bytes).map_err(|error| CounterError::BadTable(kind, error))
    });
    // The driver maps the page that the registers begin, and refuses where they begin elsewhere:
    // for it no table is needed.
    let driver = map(DEV_HPET, 0, hpet::LENGTH);
    let mapped = driver.or_else(|attempt| match &table {
        Ok(table) => map(DEV_MEM, table.base, hpet::LENGTH)
            .map_err(|second| CounterError::NoAccess(kind, vec![attempt, second])),
        // A machine without either has no HPET, or does not want to be known for it.
        Err(none) if attempt.errno == libc::ENOENT => Err(none.clone()),
        Err(_) => Err(CounterError::NoAccess(kind, vec![attempt])),
    });
    let read = |(mapping, path)| HpetRegisters::read(&mapping, path).map(|said| (mapping, said));
    (table, mapped.and_then(read))
}

/// Maps a file to be read, and says which.
fn map(path: &'static str, at: u64, length: usize) -> Result<(Mapping, &'static str), Attempt> {
    let failed = |doing| move |error: io::Error| Attempt::new(path, doing, &error);
    let file = File::open(path).map_err(failed(Doing::Open))?;
    // The mapping outlives the file's descriptor.
    let mapping = Mapping::new(&file, at, length).map_err(failed(Doing::Map))?;
    Ok((mapping, path))
}

/// Both forms of the power management timer, which continue the same count.
fn open_pm() -> Result<[Device; 2], CounterError> {
    let said = pm_timer()?;
    let no_access = |attempt| CounterError::NoAccess(CounterKind::AcpiPm, vec![attempt]);
    let registers: Box<dyn Registers> = match said.place {
        Place::Port(port) => Box::new(
            Port::open(port)
                .map_err(|error| no_access(Attempt::new("ioperm", Doing::Permit(port), &error)))?,
        ),
        Place::Memory(address) => Box::new(map(DEV_MEM, address, 4).map_err(no_access)?.0),
    };
    pm_forms(registers, said)
}

fn pm_forms<R: Registers>(registers: R, said: PmTimer) -> Result<[Device; 2], CounterError> {
    let timer: &Pm<R> = Box::leak(Box::new(Pm::new(registers, said)?));
    // The first reading of all, which the keeper begins with, had better be right.
    let safe = Device::new(Box::leak(Box::new(Read { timer, safe: true })))?;
    let fast = Device { hardware: Box::leak(Box::new(Read { timer, safe: false })), ..safe };
    Ok([fast, safe])
}

/// The bytes of one of the firmware's tables.
fn table(kind: CounterKind, path: &'static str) -> Result<Vec<u8>, CounterError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(acpi::LONGEST).read_to_end(&mut bytes))
        .map_err(|error| CounterError::NoTable(kind, error.raw_os_error().unwrap_or(0)))?;
    Ok(bytes)
}
