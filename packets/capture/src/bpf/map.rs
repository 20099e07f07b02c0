//! Maps: memory that programs and processes share.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::error::BpfError;
use super::sys::{self, MapShape, MapSizes};

const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PROGRAM_ARRAY: u32 = 3;
const PERF_EVENT_ARRAY: u32 = 4;
const LRU_HASH: u32 = 9;
const PER_CPU_ARRAY: u32 = 6;
const XSK_MAP: u32 = 17;
pub(crate) const RING_BUFFER: u32 = 27;

/// More than any kernel can have; guards against a nonsense list of CPUs.
const MOST_CPUS: usize = 8192;

/// A map. Clones are the same map; it goes when the last clone and the last program that uses it
/// are gone.
#[derive(Clone, Debug)]
pub struct Map {
    fd: Arc<OwnedFd>,
    sizes: Arc<MapSizes>,
    /// Bytes of one CPU's value, 0 where values are not per CPU.
    each: usize,
}

impl Map {
    pub(crate) fn make(
        what: &str,
        kind: u32,
        key: u32,
        value: u32,
        entries: u32,
    ) -> Result<Map, BpfError> {
        let doing = || format!("making a map ({what} of {entries})");
        let per_cpu = kind == PER_CPU_ARRAY;
        let each = usize::try_from(value).unwrap_or(usize::MAX).checked_next_multiple_of(8);
        let (each, whole) = if per_cpu {
            let cpus = possible_cpus().map_err(|why| BpfError::ours(doing(), why))?;
            let each = each.unwrap_or(usize::MAX);
            (each, each.saturating_mul(cpus))
        } else {
            (0, value as usize)
        };
        let shape = MapShape { kind, key, value, entries, flags: 0, name: what };
        let fd = sys::map_create(&shape).map_err(|error| {
            let error = BpfError::system(doing(), &error, "cap_bpf,cap_net_admin");
            match error.errno {
                Some(libc::ENOMEM | libc::E2BIG) => error.mend("ask for fewer entries"),
                Some(libc::EINVAL) => error.mend("this kernel has no such map, or not so large"),
                _ => error,
            }
        })?;
        let sizes = MapSizes { key: key as usize, value: whole };
        Ok(Map { fd: Arc::new(fd), sizes: Arc::new(sizes), each })
    }

    /// An array of values of `value` bytes; keys are 32-bit indices.
    pub fn array(value: u32, entries: u32) -> Result<Map, BpfError> {
        Map::make("array", ARRAY, 4, value, entries)
    }

    /// An array whose values each CPU has for itself.
    pub fn per_cpu_array(value: u32, entries: u32) -> Result<Map, BpfError> {
        Map::make("per-CPU array", PER_CPU_ARRAY, 4, value, entries)
    }

    /// A hash table.
    pub fn hash(key: u32, value: u32, entries: u32) -> Result<Map, BpfError> {
        Map::make("hash", HASH, key, value, entries)
    }

    /// A hash table that drops what was used least recently when it is full.
    pub fn lru_hash(key: u32, value: u32, entries: u32) -> Result<Map, BpfError> {
        Map::make("LRU hash", LRU_HASH, key, value, entries)
    }

    /// Programs by index, for [`super::Helper::TailCall`].
    ///
    /// # Errors
    /// Where rights or memory are missing.
    pub fn program_array(entries: u32) -> Result<Map, BpfError> {
        Map::make("program array", PROGRAM_ARRAY, 4, 4, entries)
    }

    /// AF_XDP sockets by index, for [`super::Helper::RedirectMap`].
    pub fn xsk_map(entries: u32) -> Result<Map, BpfError> {
        Map::make("xskmap", XSK_MAP, 4, 4, entries)
    }

    /// Perf events by CPU.
    pub fn perf_event_array(entries: u32) -> Result<Map, BpfError> {
        Map::make("perf event array", PERF_EVENT_ARRAY, 4, 4, entries)
    }

    pub(crate) fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    fn failed(doing: &str) -> impl Fn(std::io::Error) -> BpfError + '_ {
        move |error| match error.kind() {
            std::io::ErrorKind::InvalidInput if error.raw_os_error().is_none() => {
                BpfError::ours(doing, "the key or the value has another size than the map's")
            }
            _ => BpfError::system(doing, &error, "cap_bpf,cap_net_admin"),
        }
    }

    /// The value of a key, if there is one.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, BpfError> {
        let mut value = vec![0; self.sizes.value];
        match sys::map_get(self.fd.as_fd(), &self.sizes, key, &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(Map::failed("reading a map")(error)),
        }
    }

    /// Sets the value of a key.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        sys::map_set(self.fd.as_fd(), &self.sizes, key, value).map_err(Map::failed("writing a map"))
    }

    /// Sets the value at an index to a descriptor: of a socket, a program, an event.
    pub fn set_fd(&self, index: u32, fd: BorrowedFd<'_>) -> Result<(), BpfError> {
        use std::os::fd::AsRawFd;
        self.set(&index.to_ne_bytes(), &fd.as_raw_fd().to_ne_bytes())
    }

    /// Deletes a key; says whether it was there.
    pub fn delete(&self, key: &[u8]) -> Result<bool, BpfError> {
        match sys::map_delete(self.fd.as_fd(), &self.sizes, key) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(Map::failed("deleting from a map")(error)),
        }
    }

    /// The key after this one, the first after `None`. A table that changes meanwhile may begin
    /// anew.
    pub fn next_key(&self, key: Option<&[u8]>) -> Result<Option<Vec<u8>>, BpfError> {
        let mut next = vec![0; self.sizes.key];
        match sys::map_next(self.fd.as_fd(), &self.sizes, key, &mut next) {
            Ok(()) => Ok(Some(next)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(Map::failed("going through a map")(error)),
        }
    }

    /// The 64-bit words of the value at an index of an array; those of CPU 0, then those of CPU 1,
    /// and so on for a per-CPU array.
    pub fn words(&self, index: u32) -> Result<Vec<u64>, BpfError> {
        let value = self.get(&index.to_ne_bytes())?.unwrap_or_default();
        Ok(value.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }

    /// The sum over all CPUs of the 64-bit word `nth` of the value at an index.
    pub fn sum(&self, index: u32, nth: usize) -> Result<u64, BpfError> {
        let words = self.words(index)?;
        let step = if self.each == 0 { words.len() } else { self.each / 8 };
        let of_each = words.chunks(step.max(1)).filter_map(|words| words.get(nth));
        Ok(of_each.fold(0, |sum: u64, word| sum.wrapping_add(*word)))
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Number of values in a per-CPU map: one for each CPU that the machine could come to have.
pub(crate) fn possible_cpus() -> Result<usize, String> {
    cpus("/sys/devices/system/cpu/possible")
        .map(|cpus| cpus.last().map_or(0, |cpu| *cpu as usize + 1))
}

/// The CPUs in a list of the kernel's, ascending.
pub(crate) fn cpus(path: &str) -> Result<Vec<u32>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    parse_cpus(text.trim()).ok_or_else(|| format!("{path}: `{}` is no list of CPUs", text.trim()))
}

fn parse_cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last as usize >= MOST_CPUS || cpus.last().is_some_and(|c| *c >= first) {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpus("0"), Some(vec![0]));
        assert_eq!(parse_cpus("0-2,5,8-9"), Some(vec![0, 1, 2, 5, 8, 9]));
        for bad in ["", "-", "2-1", "1,1", "0-4294967295", "a", "0-", "3,2"] {
            assert_eq!(parse_cpus(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_list_is_too_odd(text in "[0-9,-]{0,24}") {
            if let Some(cpus) = parse_cpus(&text) {
                prop_assert!(!cpus.is_empty() && cpus.len() <= MOST_CPUS);
                prop_assert!(cpus.is_sorted());
            }
        }
    }
}
