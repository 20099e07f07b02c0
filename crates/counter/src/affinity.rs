//! On which processors a thread may run.
#![allow(unsafe_code)]

use std::{io, mem};

use crate::cpus::MOST;

/// A set of processors, with room for more than libc's own type has.
type Set = [libc::c_ulong; MOST as usize / libc::c_ulong::BITS as usize];

const BITS: u32 = libc::c_ulong::BITS;

/// The processors that this thread may run on, in rising order.
pub(crate) fn allowed() -> io::Result<Vec<u32>> {
    let mut set: Set = [0; _];
    // SAFETY: the set is as large as is said, and plain words that the call may write. The type
    // of the pointer is libc's, but the kernel goes by the size.
    let done =
        unsafe { libc::sched_getaffinity(0, mem::size_of::<Set>(), set.as_mut_ptr().cast()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let has = |cpu: &u32| {
        set.get((cpu / BITS) as usize).is_some_and(|word| word >> (cpu % BITS) & 1 == 1)
    };
    Ok((0..MOST).filter(has).collect())
}

/// Keeps this thread, and no other, on one processor.
pub(crate) fn pin(cpu: u32) -> io::Result<()> {
    let mut set: Set = [0; _];
    let word = set.get_mut((cpu / BITS) as usize).ok_or(io::ErrorKind::InvalidInput)?;
    *word |= 1 << (cpu % BITS);
    // SAFETY: as above; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, mem::size_of::<Set>(), set.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_where_it_is_told() {
        let before = allowed().unwrap();
        let there = std::thread::spawn({
            let last = *before.last().unwrap();
            move || (pin(last).map(|()| allowed().unwrap()), last)
        });
        let (there, last) = there.join().unwrap();
        assert_eq!(there.unwrap(), [last]);
        assert_eq!(allowed().unwrap(), before, "only that thread");
        assert!(pin(MOST).is_err() && pin(MOST - 1).is_err());
    }
}
