//! Several interfaces in one file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CaptureFile, FileOptions, Mark, Sink, SinkError, Written};
use crate::convert::Change;
use crate::{Facts, Losses, Packet, Stamped};

/// Sinks of several interfaces, each for a pipeline of its own, that write one capture: in the order
/// in which the packets come to it. Its end is written once all have ended; files and bytes are those of
/// the whole capture so far.
///
/// # Errors
/// Those of [`CaptureFile::create`].
pub fn several(
    facts: &[Facts],
    options: FileOptions,
) -> Result<(Vec<Box<dyn Sink>>, Together), SinkError> {
    let file = CaptureFile::of(facts, options)?;
    let shared = Arc::new(Mutex::new(Shared { file, left: facts.len(), failed: false }));
    let part = |number| -> Box<dyn Sink> {
        let shared = Arc::clone(&shared);
        Box::new(Part { shared, number, written: Written::default(), ended: false })
    };
    let parts = (0..facts.len()).map(part).collect();
    Ok((parts, Together { shared, interfaces: facts.len() }))
}

/// Outcome of a capture of several interfaces, once all parts have ended: the last file's end may tell that packets of
/// a part are lost that ended before.
pub struct Together {
    shared: Arc<Mutex<Shared>>,
    interfaces: usize,
}

impl Together {
    /// Outcome for each interface, with its own packets.
    #[must_use]
    pub fn written(&self) -> Vec<Written> {
        let shared = lock(&self.shared);
        (0..self.interfaces).map(|number| shared.file.written_of(number)).collect()
    }
}

/// The capture that the parts write.
struct Shared {
    file: CaptureFile,
    /// Parts that have not ended.
    left: usize,
    /// A part was told why nothing more can be written.
    failed: bool,
}

impl Shared {
    /// Result for a part: the reason for which nothing more can be written is told to one of them.
    fn told<T>(&mut self, result: Result<T, SinkError>) -> Result<T, SinkError> {
        match result {
            Err(SinkError::Closed) if self.failed => Err(SinkError::Elsewhere),
            Err(why @ SinkError::Failed { .. }) => {
                self.failed = true;
                Err(why)
            }
            other => other,
        }
    }

    /// A part ends, and with the last of them the file. All that this one gave is written before, so
    /// that what it says in the end is so.
    fn end(&mut self) -> Result<(), SinkError> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { self.file.finish().map(drop) } else { self.file.write_out() }
    }
}

/// The part of one interface.
struct Part {
    shared: Arc<Mutex<Shared>>,
    number: usize,
    /// Outcome at the last flush.
    written: Written,
    ended: bool,
}

impl Part {
    /// Works on the capture; what it was told is noted.
    fn with(
        &mut self,
        work: impl FnOnce(&mut Shared) -> Result<(), SinkError>,
    ) -> Result<(), SinkError> {
        let mut shared = lock(&self.shared);
        let result = work(&mut shared);
        self.written = shared.file.written_of(self.number);
        shared.told(result)
    }

    /// Ends this part, once.
    fn end(&mut self) -> Result<(), SinkError> {
        if std::mem::replace(&mut self.ended, true) { Ok(()) } else { self.with(Shared::end) }
    }
}

/// The capture, whoever has it meanwhile.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Whoever failed with it in hand has left whole blocks behind.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sink for Part {
    fn packet(&mut self, packet: &Packet<'_>, stamped: &Stamped) -> Result<bool, SinkError> {
        let mut shared = lock(&self.shared);
        let result = shared.file.packet_of(self.number, packet, stamped);
        if result.is_err() {
            self.written = shared.file.written_of(self.number);
        }
        shared.told(result)
    }

    fn change(&mut self, change: &Change) -> Result<(), SinkError> {
        lock(&self.shared).file.change_of(self.number, change);
        Ok(())
    }

    fn mark(&mut self, mark: Mark) -> Result<(), SinkError> {
        lock(&self.shared).file.mark_of(self.number, mark);
        Ok(())
    }

    fn losses(&mut self, losses: &Losses, dropped: u64) {
        lock(&self.shared).file.losses_of(self.number, losses, dropped);
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.with(|shared| shared.file.flush())
    }

    fn written(&self) -> &Written {
        &self.written
    }

    fn finish(&mut self) -> Result<Written, SinkError> {
        self.end()?;
        Ok(self.written.clone())
    }
}

impl Drop for Part {
    /// A pipeline that failed must not leave the others' file without its end.
    fn drop(&mut self) {
        let _ = self.end();
    }
}
