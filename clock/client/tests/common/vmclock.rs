//! A file that stands for a vmclock device.
#![allow(dead_code)] // Each test binary uses its part.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A page with a marker and nothing else to say.
pub struct Device {
    file: File,
    path: PathBuf,
}

impl Device {
    pub fn new(directory: &Path, marker: u64) -> Device {
        let path = directory.join("vmclock");
        let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        // As long as a page of memory may be.
        file.set_len(65536).unwrap();
        let mut header = Vec::from(b"VCLK");
        header.extend(4096u32.to_le_bytes());
        header.extend(1u16.to_le_bytes());
        header.extend([255, 1]);
        file.write_all_at(&header, 0).unwrap();
        let device = Device { file, path };
        device.mark(marker);
        device
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The hypervisor says that the machine was migrated.
    pub fn mark(&self, marker: u64) {
        self.file.write_all_at(&marker.to_le_bytes(), 16).unwrap();
    }
}
