//! Waits between tries that fail, each twice as long as the one before.

/// The first wait, s.
const FIRST: u32 = 2;
/// The longest before a device or sockets are opened again, s.
pub(crate) const TO_OPEN: u32 = 64;
/// The longest before a name is looked up again, s.
pub(crate) const TO_LOOK_UP: u32 = 1024;

/// Waits before the tries to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// The next wait, s.
    pub(crate) next: u32,
    longest: u32,
}

impl Backoff {
    /// Nothing has failed yet.
    pub(crate) const fn new(longest: u32) -> Backoff {
        Backoff { next: FIRST, longest }
    }

    /// The next wait, s; that after it is twice as long.
    pub(crate) fn take(&mut self) -> u32 {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        wait
    }

    /// Success: what had failed works.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }
}
