//! This program, started again: processes that read, and writers that stand still.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use truechimer::Count;

use super::clocks::{ALL, Clocks, Subject, TENDED, on_its_own};
use super::contest::Reads;
use super::stopped;
use truechimer_command::{Ended, Failure, Outcome};

/// Task of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Reads as it is told to on standard input.
    Reader,
    /// Publishes hands to a page until it stops itself, wherever that is.
    PageWriter,
    /// Stops itself in the middle of an update of the seqlock.
    SeqlockWriter,
    /// Stops itself while it holds the ticket lock.
    LockHolder,
}

impl Role {
    const ALL: [Role; 4] = [Role::Reader, Role::PageWriter, Role::SeqlockWriter, Role::LockHolder];

    fn name(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::PageWriter => "page-writer",
            Role::SeqlockWriter => "seqlock-writer",
            Role::LockHolder => "lock-holder",
        }
    }
}

/// A process that is killed with this value.
pub struct Started(Child);

impl Started {
    /// Starts this program in another role.
    pub fn new(role: Role, directory: &Path) -> Result<Started, Failure> {
        let failed = |why| Failure::new("cannot start a process", why);
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["bench", "timehands", "--child", role.name()]).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map(Started).map_err(failed)
    }

    /// Process identifier.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// True if it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processes that read when they are told to.
pub struct Readers(Vec<Reader>);

struct Reader {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    _process: Started,
}

impl Readers {
    /// Starts so many.
    pub fn start(count: u16, directory: &Path) -> Result<Readers, Failure> {
        (0..count)
            .map(|place| Reader::start(directory, place))
            .collect::<Result<_, _>>()
            .map(Readers)
    }

    /// Has the first `count` of them read for so long, all at once.
    pub fn read(
        &mut self,
        count: u16,
        subject: Subject,
        time: Duration,
    ) -> Result<Vec<Reads>, Failure> {
        let failed = |why| Failure::new("a reading process", why);
        let place = ALL.iter().position(|one| *one == subject).unwrap_or_default();
        let mut readers: Vec<_> = self.0.iter_mut().take(count.into()).collect();
        for reader in &mut readers {
            writeln!(reader.orders, "{place} {}", time.as_nanos()).map_err(failed)?;
        }
        readers.into_iter().map(|reader| reader.answer().map_err(failed)).collect()
    }
}

impl Reader {
    fn start(directory: &Path, place: u16) -> Result<Reader, Failure> {
        let mut process = Started::new(Role::Reader, directory)?;
        let pipes = process.0.stdin.take().zip(process.0.stdout.take());
        let (orders, answers) =
            pipes.ok_or_else(|| Failure::Said("a process without pipes".into()))?;
        let mut reader = Reader { orders, answers: BufReader::new(answers), _process: process };
        // It says something once it is ready.
        let told = writeln!(reader.orders, "{place}");
        told.and_then(|()| reader.answer())
            .map_err(|why| Failure::new("a reading process", why))?;
        Ok(reader)
    }

    fn answer(&mut self) -> std::io::Result<Reads> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let [reads, from, to] = numbers(&line).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Reads { reads, from: Count(from), to: Count(to) })
    }
}

/// Parses a line of exactly `N` numbers.
fn numbers<const N: usize>(line: &str) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// The part of this program that was started again.
pub fn run(role: &Path, directory: &Path, out: &mut dyn Write) -> Ended {
    match Role::ALL.into_iter().find(|one| role.as_os_str() == OsStr::new(one.name())) {
        Some(Role::Reader) => read(&Clocks::open(directory, TENDED)?, out),
        Some(Role::PageWriter) => stopped::write_page(directory),
        Some(Role::SeqlockWriter) => stopped::stop_halfway(directory, Subject::Seqlock),
        Some(Role::LockHolder) => stopped::stop_halfway(directory, Subject::TicketLock),
        None => Err(Failure::Said(format!("no role '{}'", role.display()))),
    }
}

/// Reads as it is told to, until there is nobody to tell it.
fn read(clocks: &Clocks, out: &mut dyn Write) -> Ended {
    let mut answer = |Reads { reads, from, to }: Reads| -> std::io::Result<()> {
        writeln!(out, "{reads} {} {}", from.0, to.0)?;
        out.flush()
    };
    let mut lines = stdin().lock().lines();
    // The first line says which of the readers this is.
    let place = lines.next().and_then(|line| line.ok()?.parse().ok());
    let _pinned = place.and_then(on_its_own);
    answer(Reads { reads: 0, from: Count(0), to: Count(0) })?;
    for line in lines {
        let line = line.map_err(|why| Failure::new("standard input", why))?;
        let order = numbers(&line).and_then(|[place, nanos]| {
            Some((*ALL.get(usize::try_from(place).ok()?)?, Duration::from_nanos(nanos)))
        });
        let (subject, time) =
            order.ok_or_else(|| Failure::Said(format!("no such order: '{line}'")))?;
        answer(clocks.drive(subject, false, time))?;
    }
    Ok(Outcome::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_as_many_numbers_as_it_should() {
        assert_eq!(numbers("1 22 333\n"), Some([1, 22, 333]));
        for line in ["", "1 2", "1 2 3 4", "1 2 x", "1 2 -3", "1 2 18446744073709551616"] {
            assert_eq!(numbers::<3>(line), None, "{line}");
        }
    }
}
