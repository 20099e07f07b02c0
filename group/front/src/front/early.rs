//! Clients that come while their requests cannot be taken: they wait, but not without end.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use truechimer_group::Phase;

use super::{Front, KNOCK};

/// The most that wait; the kernel keeps what comes beyond.
const MOST: usize = 1024;

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// The first come first.
    waiting: VecDeque<(Instant, TcpStream)>,
    /// When it was last looked who has come, and who has waited for too long.
    looked: Option<Instant>,
}

impl Early {
    /// True if it is time to look again.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.looked.is_none_or(|at| now.saturating_duration_since(at) >= KNOCK);
        if due {
            self.looked = Some(now);
        }
        due
    }

    /// Takes those who have come.
    fn accept(&mut self, listener: &TcpListener, now: Instant) {
        while self.waiting.len() < MOST
            && let Ok((stream, _)) = listener.accept()
        {
            self.waiting.push_back((now, stream));
        }
    }

    /// Closes the connections of those who have waited for so long: how many.
    fn close(&mut self, patience: Duration, now: Instant) -> usize {
        let late =
            |(since, _): &&(Instant, TcpStream)| now.saturating_duration_since(*since) >= patience;
        let many = self.waiting.iter().take_while(late).count();
        drop(self.waiting.drain(..many));
        many
    }

    /// Those whose requests can be taken now.
    pub(super) fn take(&mut self) -> VecDeque<(Instant, TcpStream)> {
        std::mem::take(&mut self.waiting)
    }
}

impl Front {
    /// Takes the connections of those who come while nobody is answered, and closes them if that
    /// lasts: in the kernel's queue they would hang without an end.
    pub(super) fn look_who_is_early(&mut self, now: Instant) {
        if self.order.may_answer() || !self.early.is_due(now) {
            return;
        }
        self.early.accept(&self.listener, now);
        let sent_away = self.early.close(self.settings.patience, now);
        if sent_away > 0 {
            let why = self.why_early();
            self.says.push(format!("{sent_away} client(s) sent away: {why}"));
        }
    }

    /// Reason why they have waited in vain, and what can be done.
    fn why_early(&self) -> String {
        if self.order.is_in() {
            return format!("not answering: {}", self.why_not());
        }
        if self.phase != Some(Phase::Live) {
            return "this member is outside the majority".into();
        }
        match self.program.misses() {
            Some(why) => format!("{why}; start the program with `{}`", self.command()),
            None => "this replica is not in yet".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn who_has_waited_too_long_is_sent_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut early, now) = (Early::default(), Instant::now());
        while early.waiting.is_empty() {
            early.accept(&listener, now);
        }
        let patience = Duration::from_secs(5);
        assert_eq!(early.close(patience, now + patience / 2), 0);
        assert_eq!(early.close(patience, now + patience), 1);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "closed");
        assert!(early.take().is_empty());
    }
}
