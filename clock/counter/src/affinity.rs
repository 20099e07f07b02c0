//! On which processors a thread may run.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;

use crate::cpus::MOST;

/// The kernel's mask is made of these: on 32-bit machines with the high byte first, wider words
/// would be another mask.
type Word = libc::c_ulong;
const BITS: usize = Word::BITS as usize;
/// Words of the kernel's mask, which is larger than libc's own type.
const WORDS: usize = MOST as usize / BITS;

/// A set of processors, as the kernel's mask has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpus([Word; WORDS]);

impl Cpus {
    /// The processors on which the calling thread may run.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn allowed() -> io::Result<Cpus> {
        let mut mask: [Word; WORDS] = [0; WORDS];
        // SAFETY: the mask is as long as said and any bits are valid in it; 0 is the calling thread.
        let result = unsafe {
            libc::sched_getaffinity(
                0,
                size_of_val(&mask),
                mask.as_mut_ptr().cast::<libc::cpu_set_t>(),
            )
        };
        if result == 0 { Ok(Cpus(mask)) } else { Err(io::Error::last_os_error()) }
    }

    /// A single processor; none has a number beyond 8191.
    #[must_use]
    pub fn one(cpu: usize) -> Cpus {
        let mut mask = [0; WORDS];
        if let Some(word) = mask.get_mut(cpu / BITS) {
            *word = 1 << (cpu % BITS);
        }
        Cpus(mask)
    }

    /// True if this processor is among them.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / BITS).is_some_and(|word| word & (1 << (cpu % BITS)) != 0)
    }

    /// Their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..BITS * WORDS).filter(|&cpu| self.contains(cpu))
    }

    /// Lets the calling thread run on these and no others.
    ///
    /// # Errors
    /// Where none of them is there, or none is allowed.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the mask is as long as said; 0 is the calling thread.
        let result = unsafe {
            libc::sched_setaffinity(
                0,
                size_of_val(&self.0),
                self.0.as_ptr().cast::<libc::cpu_set_t>(),
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The processor that the calling thread runs on at this moment.
///
/// # Errors
/// Where the kernel does not tell.
pub fn here() -> io::Result<usize> {
    // SAFETY: it takes nothing and touches nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).map_err(|_| io::Error::last_os_error())
}

/// The numbers of the processors that this thread may run on, ascending.
pub(crate) fn allowed() -> io::Result<Vec<u32>> {
    Ok(Cpus::allowed()?.iter().map(|cpu| cpu as u32).collect())
}

/// Keeps this thread, and no other, on one processor.
pub(crate) fn pin(cpu: u32) -> io::Result<()> {
    Cpus::one(cpu as usize).apply()
}

/// The calling thread, kept to one processor as long as this lives; it may run where it could
/// before when this is dropped.
#[derive(Debug)]
pub struct Pinned {
    cpu: usize,
    before: Cpus,
    // It is about one thread: not to be sent to another.
    thread: PhantomData<*const ()>,
}

impl Pinned {
    /// Keeps the calling thread to `cpu`, or to the one that it is on.
    ///
    /// # Errors
    /// Where there is no such processor, or it is not allowed.
    pub fn to(cpu: Option<usize>) -> io::Result<Pinned> {
        let before = Cpus::allowed()?;
        let cpu = match cpu {
            Some(cpu) => cpu,
            None => here()?,
        };
        Cpus::one(cpu).apply()?;
        Ok(Pinned { cpu, before, thread: PhantomData })
    }

    /// The processor.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.cpu
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed before; if it no longer is, the kernel has already decided otherwise.
        let _ = self.before.apply();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        for cpu in [0, 1, 63, 64, 1024, 8191] {
            assert_eq!(Cpus::one(cpu).iter().collect::<Vec<_>>(), [cpu]);
        }
        assert_eq!(Cpus::one(8192).iter().count(), 0);
        assert!(Cpus::one(8192).apply().is_err());
    }

    #[test]
    fn a_pinned_thread_stays_and_is_let_go() {
        // In a thread of its own: that of the harness is left alone.
        std::thread::spawn(|| {
            let before = Cpus::allowed().unwrap();
            let last = before.iter().last().unwrap();
            {
                let pinned = Pinned::to(Some(last)).unwrap();
                assert_eq!((pinned.cpu(), here().unwrap()), (last, last));
                assert_eq!(Cpus::allowed().unwrap(), Cpus::one(last));
            }
            assert_eq!(Cpus::allowed().unwrap(), before);
            assert!(before.contains(Pinned::to(None).unwrap().cpu()));
            assert!(Pinned::to(Some(8191)).is_err());
            assert_eq!(Cpus::allowed().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
