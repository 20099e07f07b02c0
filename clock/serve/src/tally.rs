//! Counts of what became of datagrams.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Fate of all datagrams so far.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Tally {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Tally {
            /// All counts, each with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }

        /// The counts of one thread.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub $name: AtomicU64,)*
        }

        impl Counters {
            /// Adds what is counted here.
            pub fn add_to(&self, tally: &mut Tally) {
                $(tally.$name = tally.$name.wrapping_add(self.$name.load(Ordering::Relaxed));)*
            }
        }
    };
}

tally! {
    /// Datagrams received.
    received
    /// Answered with the time, in either mode.
    answered
    /// Of those, in interleaved mode.
    interleaved
    /// Of those, as not synchronised.
    unsynchronised
    /// Of those, in version 1 of the protocol.
    version1
    /// Of those, in version 2.
    version2
    /// Of those, in version 3.
    version3
    /// Of those, in version 4.
    version4
    /// Of those, with proof of who answers (NTS).
    nts
    /// Of those, with a code by a symmetric key.
    keyed
    /// Told that their cookie is unknown (NTS).
    nts_naks
    /// Dropped, as what they show is no proof (NTS).
    nts_refused
    /// Told that their code does not fit, or its key is unknown (crypto-NAK).
    key_naks
    /// Dropped, as they ask for no proof.
    unproven
    /// Exchanges of keys (NTS).
    nts_exchanges
    /// Exchanges of keys that came to nothing (NTS).
    nts_exchanges_refused
    /// Told to ask less often.
    kissed
    /// Dropped, as their sender asks too often.
    limited
    /// Dropped, as their sender may not ask.
    denied
    /// Shorter than a header.
    short
    /// No request: another mode.
    mode
    /// Of a version that is not spoken.
    version
    /// Replies that could not be sent.
    unsent
    /// Lost by the kernel, as they came faster than they were received.
    overflowed
    /// Requests that the kernel did not stamp, or whose stamp was of no use.
    unstamped
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Adds so many more. Each counter has one writer.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    if n > 0 {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
}
