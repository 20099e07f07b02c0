//! Clients that come while their requests cannot be taken: they wait, but not without end.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The most that wait; the kernel keeps what comes beyond.
const MOST: usize = 1024;

/// Those that wait, the first come first.
#[derive(Debug, Default)]
pub(super) struct Early(VecDeque<(Instant, TcpStream)>);

impl Early {
    /// Takes those who have come.
    pub(super) fn accept(&mut self, listener: &TcpListener, now: Instant) {
        while self.0.len() < MOST
            && let Ok((stream, _)) = listener.accept()
        {
            self.0.push_back((now, stream));
        }
    }

    /// Closes the connections of those who have waited for so long: how many.
    pub(super) fn close(&mut self, patience: Duration, now: Instant) -> usize {
        let late =
            |(since, _): &&(Instant, TcpStream)| now.saturating_duration_since(*since) >= patience;
        let many = self.0.iter().take_while(late).count();
        drop(self.0.drain(..many));
        many
    }

    /// Those whose requests can be taken now.
    pub(super) fn take(&mut self) -> VecDeque<(Instant, TcpStream)> {
        std::mem::take(&mut self.0)
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
        while early.0.is_empty() {
            early.accept(&listener, now);
        }
        let patience = Duration::from_secs(5);
        assert_eq!(early.close(patience, now + patience / 2), 0);
        assert_eq!(early.close(patience, now + patience), 1);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "closed");
        assert!(early.take().is_empty());
    }
}
