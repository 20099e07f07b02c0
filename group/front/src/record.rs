//! A file of requests' numbers, times and replies, the same at all replicas if all is well.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::order::Conn;

/// The file.
#[derive(Debug)]
pub struct Record {
    out: BufWriter<File>,
}

impl Record {
    /// Makes it anew.
    pub fn create(path: &Path) -> io::Result<Record> {
        Ok(Record { out: BufWriter::new(truechimer_files::create(path, 0o666)?) })
    }

    /// A request: its number, its agreed time (ns since 1970), its connection, the reply to it.
    pub fn line(&mut self, number: u64, time: i64, conn: Conn, reply: &[u8]) -> io::Result<()> {
        writeln!(self.out, "{number} {time} {conn} {}", reply.escape_ascii())
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
