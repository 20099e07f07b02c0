//! Processors that come while the daemon runs: does the counter of each agree with the others'?
//!
//! The kernel looks at the TSC of a processor that it brings up, and may find it off or may not.
//! Looking takes two threads on two processors and some milliseconds, so it is done by a thread of
//! its own, and only when there is a newcomer.

use std::io;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;

use truechimer_counter::{AgreementError, Counter, CpuOffset, agreement_of, online_cpus};
use truechimer_time::{CounterKind, Period, Span};

/// Counters of two processors that differ by no more than this are as good as one.
const THRESHOLD: Span = Span::from_micros(1);

/// Offsets of the newcomers' counters from that of one who was there before.
type Measured = Result<Vec<CpuOffset>, AgreementError>;

/// Finding about newcomers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// The counter is not one any more.
    Off(String),
    /// Nobody knows.
    Unknown(String),
}

/// Which processors there are, and which are being looked at.
#[derive(Debug, Default)]
pub(crate) struct Cpus {
    known: Option<Vec<u32>>,
    answer: Option<Receiver<Measured>>,
}

impl Cpus {
    /// Those that are online now, if the counter is one that each processor has of its own.
    pub(crate) fn of(counter: Counter) -> Option<Cpus> {
        matches!(counter.kind(), CounterKind::Tsc | CounterKind::ArmGeneric)
            .then(|| Cpus { known: online_cpus(), answer: None })
    }

    /// Looks for newcomers, and at what was found of earlier ones. Never waits.
    pub(crate) fn look(&mut self, counter: Counter, nominal: Period) -> Vec<Finding> {
        self.step(nominal, online_cpus(), |reference, newcomers| {
            let (sender, answer) = mpsc::channel();
            let work = move || {
                let measured = agreement_of(counter, reference, &newcomers);
                // Nobody is there to hear it once the daemon has ended.
                let _ = sender.send(measured.map(|agreement| agreement.cpus));
            };
            thread::Builder::new().name("cpus".into()).spawn(work).ok().map(|_| answer)
        })
    }

    /// Looks, given who is `online` now; `begin` measures newcomers against a reference.
    fn step(
        &mut self,
        nominal: Period,
        online: Option<Vec<u32>>,
        begin: impl FnOnce(u32, Vec<u32>) -> Option<Receiver<Measured>>,
    ) -> Vec<Finding> {
        let findings = match self.answer.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return Vec::new(),
            Some(Ok(measured)) => judge(&measured, nominal),
            Some(Err(TryRecvError::Disconnected)) => vec![Finding::Unknown(
                "whether the counters of CPUs that have come online agree was not found out".into(),
            )],
            None => Vec::new(),
        };
        self.answer = None;
        let Some(online) = online else { return findings };
        let known = self.known.replace(online.clone()).unwrap_or_else(|| online.clone());
        let newcomers: Vec<u32> = online.iter().copied().filter(|c| !known.contains(c)).collect();
        // Somebody who was there before. Those that have just left are of no use.
        let reference = online.iter().copied().find(|cpu| known.contains(cpu));
        if let (Some(reference), false) = (reference, newcomers.is_empty()) {
            self.answer = begin(reference, newcomers);
        }
        findings
    }
}

/// Findings about those that were measured.
fn judge(measured: &Measured, nominal: Period) -> Vec<Finding> {
    match measured {
        Ok(cpus) => cpus.iter().filter_map(|cpu| judge_one(cpu, nominal)).collect(),
        Err(why) => vec![Finding::Unknown(format!(
            "whether the counters of CPUs that have come online agree cannot be told: {why}"
        ))],
    }
}

fn judge_one(CpuOffset { cpu, offset }: &CpuOffset, nominal: Period) -> Option<Finding> {
    match offset {
        Ok(bounds) if nominal.span(bounds.least()) <= THRESHOLD => None,
        Ok(bounds) => Some(Finding::Off(format!(
            "the counter of CPU {cpu}, which has come online, is {:+} to {:+} from the others': \
             take it offline, or use --counter raw",
            nominal.span(bounds.lower),
            nominal.span(bounds.upper),
        ))),
        // It has gone again, or is not for this process.
        Err(errno) => Some(Finding::Unknown(format!(
            "whether the counter of CPU {cpu}, which has come online, agrees with the others' \
             cannot be told: {}",
            io::Error::from_raw_os_error(*errno)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use truechimer_counter::OffsetBounds;
    use truechimer_time::CountSpan;

    fn measured(cpu: u32, lower: i64, upper: i64) -> CpuOffset {
        let [lower, upper] = [lower, upper].map(CountSpan);
        CpuOffset { cpu, offset: Ok(OffsetBounds { lower, upper, exchanges: 100 }) }
    }

    #[test]
    fn off_is_what_cannot_be_explained() {
        let judge = |cpu| judge_one(&cpu, Period::NANOSECOND);
        for (lower, upper) in [(-90, 80), (900, 950), (-950, -900), (999, 90_000), (-1 << 40, 5)] {
            assert_eq!(judge(measured(3, lower, upper)), None, "{lower} to {upper}");
        }
        for (lower, upper) in [(1_100, 1_200), (-9_000, -1_100), (1 << 50, 1 << 51), (2_000, -5)] {
            let Some(Finding::Off(text)) = judge(measured(3, lower, upper)) else { panic!() };
            assert!(text.contains("CPU 3") && text.contains("--counter raw"), "{text}");
        }
        let gone = CpuOffset { cpu: 4, offset: Err(libc::EINVAL) };
        let Some(Finding::Unknown(text)) = judge(gone) else { panic!() };
        assert!(text.contains("CPU 4") && text.contains("Invalid"), "{text}");
    }

    #[test]
    fn only_newcomers_are_measured_and_one_lot_at_a_time() {
        let begun = RefCell::new(Vec::new());
        let senders = RefCell::new(Vec::new());
        let mut cpus = Cpus { known: Some(vec![0, 1]), answer: None };
        let mut step = |online: &[u32]| {
            cpus.step(Period::NANOSECOND, Some(online.to_vec()), |reference, newcomers| {
                begun.borrow_mut().push((reference, newcomers));
                let (sender, answer) = mpsc::channel();
                senders.borrow_mut().push(sender);
                Some(answer)
            })
        };
        assert!(step(&[0, 1]).is_empty() && step(&[1]).is_empty());
        assert!(begun.borrow().is_empty(), "nobody came");
        // One comes back, and another while it is measured.
        assert!(step(&[0, 1]).is_empty() && step(&[0, 1, 2]).is_empty());
        assert_eq!(*begun.borrow(), [(1, vec![0])]);
        senders.borrow()[0].send(Ok(vec![measured(0, 5_000, 5_040)])).unwrap();
        assert!(matches!(step(&[0, 1, 2]).as_slice(), [Finding::Off(_)]));
        assert_eq!(begun.borrow().last(), Some(&(0, vec![2])));
        // The thread that measures may die: that is no reason to wait for ever.
        senders.borrow_mut().clear();
        assert!(matches!(step(&[0, 1, 2]).as_slice(), [Finding::Unknown(_)]));
        assert!(step(&[0, 1, 2, 3]).is_empty());
        assert_eq!(begun.borrow().last(), Some(&(0, vec![3])));
        senders.borrow().last().unwrap().send(Err(AgreementError::Reference(0, 22))).unwrap();
        assert!(matches!(step(&[0, 1, 2, 3]).as_slice(), [Finding::Unknown(_)]));
    }

    #[test]
    fn where_nobody_says_who_is_online_nothing_is_done() {
        let never = |_, _| -> Option<Receiver<Measured>> { panic!("nobody came") };
        let mut cpus = Cpus::default();
        for online in [None, Some(vec![0, 1]), None, Some(vec![7])] {
            assert!(cpus.step(Period::NANOSECOND, online.clone(), never).is_empty(), "{online:?}");
        }
    }

    #[test]
    fn the_processors_of_this_machine_agree_or_it_is_said_why_not() {
        let Ok(counter) = Counter::of_kind(CounterKind::Tsc) else { return };
        let online = online_cpus().unwrap_or_default();
        let [first, rest @ ..] = online.as_slice() else { return };
        if rest.is_empty() {
            return;
        }
        // As if all but the first had just come.
        let mut cpus = Cpus { known: Some(vec![*first]), answer: None };
        let period = Period::from_hz(2_000_000_000);
        assert!(cpus.look(counter, period).is_empty() && cpus.answer.is_some());
        while cpus.answer.is_some() {
            thread::yield_now();
            let findings = cpus.look(counter, period);
            assert!(findings.iter().all(|f| matches!(f, Finding::Unknown(_))), "{findings:?}");
        }
    }
}
