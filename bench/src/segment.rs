//! A shared memory segment as ClockBound's daemon leaves it, for its client to read.
//!
//! Layout, version 3, in the byte order of the machine: a header of 16 bytes (two magic numbers,
//! the size, the versions that may read it, the generation), then the clock parameters.

use std::fs;
use std::io;
use std::path::Path;

use truechimer_time::Period;

const MAGIC: [u32; 2] = [0x414d_5a4e, 0x4342_0200];
/// Readable by version 3 and no other.
const VERSIONS: u16 = 0x0303;
/// Even: complete.
const GENERATION: u16 = 2;
const SYNCHRONISED: i32 = 1;
const SIZE: usize = 104;

/// Contents of the segment.
pub struct Segment {
    /// The count at which the rest is true.
    pub count: u64,
    /// UTC then, s and ns.
    pub as_of: (i64, i64),
    /// Length of a count.
    pub period: Period,
    /// The bound then, ns.
    pub bound_ns: i64,
    /// By how much it grows, ns a second.
    pub drift_ppb: u32,
}

impl Segment {
    /// Writes it to a new file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(SIZE);
        let mut put = |field: &[u8]| bytes.extend_from_slice(field);
        put(&MAGIC[0].to_ne_bytes());
        put(&MAGIC[1].to_ne_bytes());
        put(&(SIZE as u32).to_ne_bytes());
        put(&VERSIONS.to_ne_bytes());
        put(&GENERATION.to_ne_bytes());
        put(&self.count.to_ne_bytes());
        put(&self.as_of.0.to_ne_bytes());
        put(&self.as_of.1.to_ne_bytes());
        // Void in an hour.
        put(&(self.as_of.0 + 3600).to_ne_bytes());
        put(&self.as_of.1.to_ne_bytes());
        // The period in 2⁻⁽⁶⁴⁺ˢʰⁱᶠᵗ⁾ s, which is how ours is held too. Its error: none.
        put(&self.period.mantissa().to_ne_bytes());
        put(&0_u64.to_ne_bytes());
        put(&self.bound_ns.to_ne_bytes());
        // No disruption seen, nor looked for.
        put(&0_u64.to_ne_bytes());
        put(&self.drift_ppb.to_ne_bytes());
        put(&SYNCHRONISED.to_ne_bytes());
        put(&[0, self.period.shift(), 0]);
        put(&[0; 5]);
        fs::write(path, bytes)
    }
}
