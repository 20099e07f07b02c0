//! The threads that make the load.

use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Load;
use crate::affinity::Cpus;

/// Memory that each processor's thread walks, bytes: beyond any second-level cache; and of all
/// together.
const WALK: usize = 16 << 20;
const WALK_ALL: usize = 512 << 20;
/// Steps between two looks at whether to go on: some microseconds.
const STEPS: u32 = 256;
/// Packets between two looks.
const PACKETS: u32 = 16;
/// No more processors than this send packets: two sockets each, and a process may have 1024 files
/// open as a rule.
const SENDERS: usize = 256;
/// Payload of a packet, bytes.
const PAYLOAD: usize = 32;
/// Longest time that a thread may wait for a packet, or to be rid of one, before it looks.
const PATIENCE: Duration = Duration::from_millis(20);
/// Longest time that [`Loader::set`] waits until all threads have begun or ended. They are not
/// waited for for ever, as on a busy machine they may have to wait for their turn.
const SETTLE: Duration = Duration::from_secs(1);

/// Work that the threads have done since they were started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Turns of the processor load (256 steps through memory each).
    pub turns: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were received.
    pub received: u64,
}

/// Threads that make load on the processors that the calling thread was allowed to use at the
/// start; they end when this is dropped. They have the priority of any other thread.
///
/// Start it before the calling thread is pinned: it would have that one processor only.
#[derive(Debug)]
pub struct Loader {
    shared: Arc<Shared>,
    allowed: Option<Cpus>,
    cpus: Vec<usize>,
    cpu: Vec<JoinHandle<()>>,
    net: Vec<JoinHandle<()>>,
    /// The load that was set last, if all threads have followed.
    settled: Option<Load>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Load to make, as a number.
    load: AtomicU8,
    end: AtomicBool,
    /// Number of threads at work on each load.
    busy: [AtomicUsize; Load::ALL.len()],
    turns: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    /// Reason why a thread has given up.
    failure: Mutex<Option<io::Error>>,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.end.load(Ordering::Acquire)
    }

    fn is(&self, load: Load) -> bool {
        self.goes_on() && self.load.load(Ordering::Acquire) == load as u8
    }

    fn busy(&self, load: Load) -> &AtomicUsize {
        let [quiet, cpu, net] = &self.busy;
        match load {
            Load::Quiet => quiet,
            Load::Cpu => cpu,
            Load::Net => net,
        }
    }

    /// Works whenever it is time for this load, until the end.
    fn serve(&self, load: Load, work: &mut dyn FnMut() -> io::Result<()>) {
        while self.goes_on() {
            if !self.is(load) {
                thread::park();
                continue;
            }
            self.busy(load).fetch_add(1, Ordering::AcqRel);
            let mut result = Ok(());
            while result.is_ok() && self.is(load) {
                result = work();
            }
            self.busy(load).fetch_sub(1, Ordering::AcqRel);
            if let Err(why) = result {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                return;
            }
        }
    }
}

impl Loader {
    /// Gets ready; what a load needs is made when it is first set.
    ///
    /// # Errors
    /// Where the number of processors cannot be found out.
    pub fn start() -> io::Result<Loader> {
        let allowed = Cpus::allowed().ok();
        let cpus = match &allowed {
            Some(cpus) => cpus.iter().collect(),
            None => (0..thread::available_parallelism()?.get()).collect(),
        };
        let shared = Arc::default();
        let (cpu, net) = (Vec::new(), Vec::new());
        // There are no threads yet.
        Ok(Loader { shared, allowed, cpus, cpu, net, settled: Some(Load::Quiet) })
    }

    /// Makes this load from now on, and no other. Returns when all threads have changed over, or
    /// after a second if the machine is too busy for that. To set the same load again disturbs
    /// nobody.
    ///
    /// # Errors
    /// Where threads or sockets cannot be had, or a thread has failed since the last call.
    pub fn set(&mut self, load: Load) -> io::Result<()> {
        if self.settled == Some(load) {
            return self.failure();
        }
        self.settled = None;
        let made = match load {
            Load::Cpu if self.cpu.is_empty() => self.start_cpu(),
            Load::Net if self.net.is_empty() => self.start_net(),
            _ => Ok(()),
        };
        let load_or_none = if made.is_ok() { load } else { Load::Quiet };
        self.shared.load.store(load_or_none as u8, Ordering::Release);
        for worker in self.cpu.iter().chain(&self.net) {
            worker.thread().unpark();
        }
        made?;
        let end = Instant::now() + SETTLE;
        let settled = |of: Load, workers: usize| {
            let wanted = if of == load { workers } else { 0 };
            self.shared.busy(of).load(Ordering::Acquire) == wanted
        };
        let unsettled =
            || !(settled(Load::Cpu, self.cpu.len()) && settled(Load::Net, self.net.len()));
        while unsettled() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        if !unsettled() {
            self.settled = Some(load);
        }
        self.failure()
    }

    /// Fails if a thread has given up since the last call.
    fn failure(&self) -> io::Result<()> {
        match self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Work that the threads have done so far.
    #[must_use]
    pub fn done(&self) -> Done {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { turns, sent, received, .. } = &*self.shared;
        Done { turns: of(turns), sent: of(sent), received: of(received) }
    }

    /// Number of processors that are loaded.
    #[must_use]
    pub fn processors(&self) -> usize {
        self.cpus.len()
    }

    /// A thread for every processor.
    fn start_cpu(&mut self) -> io::Result<()> {
        let bytes = WALK.min(WALK_ALL / self.cpus.len().max(1));
        for &cpu in &self.cpus {
            let shared = Arc::clone(&self.shared);
            let work = move || {
                // Where it may not be kept there, the scheduler spreads the threads.
                let _ = Cpus::one(cpu).apply();
                let mut walk = Walk::new(bytes);
                shared.serve(Load::Cpu, &mut || {
                    walk.on();
                    shared.turns.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
            };
            self.cpu.push(thread::Builder::new().name(format!("load-cpu-{cpu}")).spawn(work)?);
        }
        Ok(())
    }

    /// For every processor one thread that sends from there, which is where loopback's soft
    /// interrupts run, and one that receives wherever there is room.
    fn start_net(&mut self) -> io::Result<()> {
        let mut pairs = Vec::new();
        for cpu in spread(&self.cpus, SENDERS) {
            let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            sender.connect(receiver.local_addr()?)?;
            // Nobody else's packets.
            receiver.connect(sender.local_addr()?)?;
            sender.set_write_timeout(Some(PATIENCE))?;
            receiver.set_read_timeout(Some(PATIENCE))?;
            pairs.push((cpu, sender, receiver));
        }
        for (cpu, sender, receiver) in pairs {
            let (shared, allowed) = (Arc::clone(&self.shared), self.allowed.clone());
            let receive = move || {
                if let Some(allowed) = allowed {
                    let _ = allowed.apply();
                }
                let mut packet = [0; PAYLOAD];
                shared.serve(Load::Net, &mut || {
                    let received = many(|| receiver.recv(&mut packet))?;
                    shared.received.fetch_add(received, Ordering::Relaxed);
                    Ok(())
                });
            };
            let shared = Arc::clone(&self.shared);
            let send = move || {
                let _ = Cpus::one(cpu).apply();
                let packet = [0x5a; PAYLOAD];
                shared.serve(Load::Net, &mut || {
                    shared.sent.fetch_add(many(|| sender.send(&packet))?, Ordering::Relaxed);
                    Ok(())
                });
            };
            let named = |name: &str| thread::Builder::new().name(format!("load-{name}-{cpu}"));
            self.net.push(named("recv").spawn(receive)?);
            self.net.push(named("send").spawn(send)?);
        }
        Ok(())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Release);
        for worker in self.cpu.drain(..).chain(self.net.drain(..)) {
            worker.thread().unpark();
            // One that panicked is gone as well.
            let _ = worker.join();
        }
    }
}

/// Picks `most` of them, evenly spread.
fn spread(cpus: &[usize], most: usize) -> Vec<usize> {
    let n = cpus.len().min(most);
    (0..n).filter_map(|i| cpus.get(i * cpus.len() / n)).copied().collect()
}

/// Some packets, and how many there were. Waiting in vain, a full queue and an interruption are no
/// failures, nor is what loopback says of a peer whose queue is full.
fn many(mut once: impl FnMut() -> io::Result<usize>) -> io::Result<u64> {
    let mut count = 0;
    for _ in 0..PACKETS {
        match once() {
            Ok(_) => count += 1,
            Err(why) => match why.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => break,
                ErrorKind::Interrupted | ErrorKind::ConnectionRefused => break,
                _ if why.raw_os_error() == Some(libc::ENOBUFS) => break,
                _ => return Err(why),
            },
        }
    }
    Ok(count)
}

/// A walk through memory in which each step depends on what was found at the last one, so that
/// caches and prefetching are of no help.
struct Walk {
    words: Vec<u64>,
    at: u64,
}

impl Walk {
    /// Through so many bytes (8 at least).
    fn new(bytes: usize) -> Walk {
        Walk { words: vec![1; (bytes / 8).max(1)], at: 1 }
    }

    /// A turn.
    fn on(&mut self) {
        let words = self.words.len() as u128;
        for _ in 0..STEPS {
            // Knuth's MMIX generator for the way; the high bits are the good ones.
            self.at = self
                .at
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let place = ((u128::from(self.at) * words) >> 64) as usize;
            if let Some(word) = self.words.get_mut(place) {
                *word = word.wrapping_mul(3).rotate_left(7) ^ self.at;
                self.at ^= *word;
            }
        }
        black_box(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for what must come, however slow the machine.
    fn wait(what: &str, come: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !come() {
            assert!(Instant::now() < end, "no {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn each_load_does_its_work_and_only_that_and_no_thread_stays() {
        let mut loader = Loader::start().unwrap();
        // The threads hold it, too.
        let shared = Arc::clone(&loader.shared);
        let threads = || Arc::strong_count(&shared) - 1;
        assert_eq!((threads(), loader.done()), (1, Done::default()), "none but the loader itself");
        assert!(loader.processors() >= 1);
        loader.set(Load::Cpu).unwrap();
        assert_eq!(threads(), 1 + loader.processors());
        wait("turns", || loader.done().turns > 10);
        assert_eq!(loader.done().sent, 0);
        loader.set(Load::Net).unwrap();
        wait("packets", || loader.done().sent > 100 && loader.done().received > 10);
        loader.set(Load::Quiet).unwrap();
        let idle = |load| loader.shared.busy(load).load(Ordering::Acquire) == 0;
        wait("end of the work", || Load::ALL.into_iter().all(idle));
        let done = loader.done();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(loader.done(), done, "quiet is quiet");
        assert!(done.received <= done.sent, "{done:?}");
        // And again, with the same threads.
        loader.set(Load::Cpu).unwrap();
        wait("more turns", || loader.done().turns > done.turns);
        drop(loader);
        assert_eq!(threads(), 0);
    }

    #[test]
    fn setting_the_same_load_again_wakes_nobody() {
        let mut loader = Loader::start().unwrap();
        loader.set(Load::Cpu).unwrap();
        while loader.settled != Some(Load::Quiet) {
            loader.set(Load::Quiet).unwrap();
        }
        let switches = || -> u64 {
            let mut sum = 0;
            for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
                let read = |file: &str| std::fs::read_to_string(task.path().join(file));
                if read("comm").is_ok_and(|name| name.starts_with("load-cpu")) {
                    let status = read("status").unwrap_or_default();
                    let line = status.lines().find(|l| l.starts_with("voluntary_ctxt_switches"));
                    let number = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok());
                    sum += number.unwrap_or(0);
                }
            }
            sum
        };
        // Other tests of this process have threads of that name: they end soon.
        let quiet_for_once = (0..2000).any(|_| {
            let before = switches();
            for _ in 0..20 {
                loader.set(Load::Quiet).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            switches() == before
        });
        assert!(quiet_for_once);
    }

    #[test]
    fn few_processors_stand_for_many() {
        assert!(spread(&[], 4).is_empty());
        assert_eq!(spread(&[3, 5], 4), [3, 5]);
        let many: Vec<usize> = (0..512).collect();
        let some = spread(&many, SENDERS);
        assert_eq!((some.len(), some[0], some[SENDERS - 1]), (SENDERS, 0, 510));
    }

    #[test]
    fn a_walk_goes_everywhere() {
        let mut walk = Walk::new(8 * 512);
        for _ in 0..64 {
            walk.on();
        }
        assert!(walk.words.iter().all(|word| *word != 1));
        Walk::new(0).on();
    }

    #[test]
    fn what_a_full_queue_says_is_no_failure() {
        let fails = |kind: ErrorKind| many(|| Err(kind.into()));
        assert_eq!(fails(ErrorKind::WouldBlock).unwrap(), 0);
        assert_eq!(fails(ErrorKind::ConnectionRefused).unwrap(), 0);
        assert_eq!(many(|| Err(io::Error::from_raw_os_error(libc::ENOBUFS))).unwrap(), 0);
        assert!(fails(ErrorKind::PermissionDenied).is_err());
        assert_eq!(many(|| Ok(PAYLOAD)).unwrap(), u64::from(PACKETS));
    }
}
