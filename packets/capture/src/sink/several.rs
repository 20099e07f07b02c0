//! Several interfaces in one file.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{CaptureFile, FileOptions, Mark, Sink, SinkError, Written};
use crate::convert::Change;
use crate::{Facts, Losses, Packet, Stamped};

/// Sinks of several interfaces, each for a pipeline of its own, that write one capture: in the order
/// in which the packets come to it. Its end is written once all have ended.
///
/// # Errors
/// Those of [`CaptureFile::create`].
pub fn several(facts: &[Facts], options: FileOptions) -> Result<Vec<Box<dyn Sink>>, SinkError> {
    let file = Arc::new(Mutex::new(CaptureFile::of(facts, options)?));
    let left = Arc::new(AtomicUsize::new(facts.len()));
    let part = |number| -> Box<dyn Sink> {
        let (file, left) = (Arc::clone(&file), Arc::clone(&left));
        Box::new(Part { file, left, number, written: Written::default(), ended: false })
    };
    Ok((0..facts.len()).map(part).collect())
}

/// The part of one interface.
struct Part {
    file: Arc<Mutex<CaptureFile>>,
    /// Parts that have not ended.
    left: Arc<AtomicUsize>,
    number: usize,
    /// As of the last flush.
    written: Written,
    ended: bool,
}

impl Part {
    /// Works on the file; what it was told is noted.
    fn with<T>(&mut self, work: impl FnOnce(&mut CaptureFile) -> T) -> T {
        let mut file = lock(&self.file);
        let result = work(&mut file);
        self.written = file.written_of(self.number);
        result
    }

    /// Ends the file, if this is the last of its parts; how it ends.
    fn end(&mut self) -> Result<(), SinkError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let is_last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        self.with(|file| if is_last { file.finish().map(drop) } else { file.flush() })
    }
}

/// The file, whoever has it meanwhile.
fn lock(file: &Mutex<CaptureFile>) -> MutexGuard<'_, CaptureFile> {
    // Whoever failed with it in hand has left whole blocks behind.
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sink for Part {
    fn packet(&mut self, packet: &Packet<'_>, stamped: &Stamped) -> Result<(), SinkError> {
        lock(&self.file).packet_of(self.number, packet, stamped)
    }

    fn change(&mut self, change: &Change) -> Result<(), SinkError> {
        lock(&self.file).change_of(self.number, change);
        Ok(())
    }

    fn mark(&mut self, mark: Mark) -> Result<(), SinkError> {
        lock(&self.file).mark_of(self.number, mark);
        Ok(())
    }

    fn losses(&mut self, losses: &Losses, dropped: u64) {
        lock(&self.file).losses_of(self.number, losses, dropped);
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.with(CaptureFile::flush)
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
