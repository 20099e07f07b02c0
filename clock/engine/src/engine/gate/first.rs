//! A first time, and this machine's own witnesses of it: they stand against it where nothing has been published.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use truechimer_time::{Count, Instant, Span};
use truechimer_timehands::Status;

use super::agrees;
use crate::bar::{Bar, Witness};
use crate::engine::Engine;
use crate::event::{Action, HostCheck, RtcReading};

/// Zones of local time are whole quarter-hours off UTC, and 14 hours at the most.
const ZONES: Span = Span::from_secs(900);
const ZONES_REACH: Span = Span::from_secs(14 * 3600);
/// Span from local time within which a real-time clock is taken for it: it drifts by up to some
/// 10 s a week. Nothing more than needed, as it witnesses nothing then.
const ZONES_TO_WITHIN: Span = Span::from_secs(60);
/// Number of servers that have to agree on a first time that a witness of this machine contradicts.
const SEVERAL: usize = 2;

/// True if a clock that is so far off may run in the local time of some zone.
fn is_zone(off: Span) -> bool {
    let off = off.abs();
    let rest = Span(off.0 % ZONES.0);
    let apart = rest.min(ZONES - rest);
    apart <= ZONES_TO_WITHIN
        && (ZONES - ZONES_TO_WITHIN..=ZONES_REACH + ZONES_TO_WITHIN).contains(&off)
}

impl Engine {
    /// The time by the real-time clock at a count, if it can be right at all.
    fn rtc(&self, at: Count) -> Option<Instant> {
        let RtcReading { count, unix, .. } = self.gate.rtc?;
        let limit = self.config.max_step.unwrap_or(Span::ZERO);
        let earliest = self.gate.saved.map(|unix| self.leaps.instant(unix, 0) - limit);
        let read = self.leaps.instant(unix, 1 << 63);
        let plausible = unix >= self.gate.built && earliest.is_none_or(|earliest| read >= earliest);
        plausible.then(|| read + self.settings.nominal.span(at - count))
    }

    /// Decides whether a first time is published, or the first after a break of the counter.
    pub(super) fn first(&mut self, time: Instant, agree: usize, at: Count) -> Result<(), Bar> {
        let (least, unix) = (self.least(), self.leaps.utc(time).unix);
        if agree < least {
            return Err(Bar::TooFew { agree, least });
        }
        if !self.is_required_there() {
            return Err(Bar::Required);
        }
        if unix < self.gate.built {
            return Err(Bar::BeforeRelease(self.gate.built));
        }
        let Some(limit) = self.config.max_step else { return Ok(()) };
        let far = |by: Span, witness| Err(Bar::Unlikely { by, witness });
        let rtc = self.rtc(at).map(|rtc| time - rtc);
        let may_be_local = self.gate.rtc.is_some_and(|reading| reading.may_be_local);
        // In local time it says neither yes nor no.
        let is_local = |by: &Span| may_be_local && by.abs() > limit && is_zone(*by);
        self.gate.local = rtc.filter(is_local).map(|by| -by);
        let rtc = rtc.filter(|by| !is_local(by));
        let by_rtc = rtc.is_some_and(|by| by.abs() <= limit);
        let known = self.hand.status == Status::Disrupted && self.gate.known.is_some();
        if known && self.gate.checked.is_none() {
            return Err(Bar::Unchecked);
        }
        if let (Status::Disrupted, Some(known)) = (self.hand.status, self.by_kernel(at)) {
            let by = time - known;
            return if by.abs() <= limit || by_rtc { Ok(()) } else { far(by, Witness::Kernel) };
        }
        let saved = self.gate.saved.map(|unix| time - self.leaps.instant(unix, 0));
        match (rtc, saved) {
            _ if agree >= SEVERAL.max(least) || by_rtc => Ok(()),
            (Some(by), _) => far(by, Witness::Rtc),
            (None, Some(by)) if by < -limit => far(by, Witness::Saved),
            (None, Some(_)) => Ok(()),
            (None, None) => {
                self.goes_unwitnessed();
                Ok(())
            }
        }
    }

    /// A lone server's first time is published, and this machine has nothing to hold against it:
    /// the user is to know by whose word the clock goes, once for each such server.
    fn goes_unwitnessed(&mut self) {
        let teller = self.voting().find(agrees).map(|peer| peer.name.clone());
        if let Some(name) = teller.filter(|name| self.gate.alone.as_ref() != Some(name)) {
            (self.gate.alone, self.gate.tells_alone) = (Some(name), true);
        }
    }

    /// Warning for the user beside the notes, once. It changes nothing, and so is no
    /// [`Action`]: the logs of versions that did not know it repeat as they were.
    #[must_use]
    pub fn warning(&mut self) -> Option<String> {
        let tells = core::mem::take(&mut self.gate.tells_alone);
        let name = self.gate.alone.as_deref().filter(|_| tells)?;
        Some(format!(
            "the first time comes from {name} alone: no real-time clock bears it out, and there is \
             no saved time to hold it against"
        ))
    }

    /// The time by what was known before the counter broke, and the kernel's clocks since.
    fn by_kernel(&self, at: Count) -> Option<Instant> {
        let ((time, then), (count, now)) = self.gate.known.zip(self.gate.checked)?;
        let passed = Span::from_nanos_wide(i128::from(now) - i128::from(then));
        Some(time + passed + self.settings.nominal.span(at - count))
    }

    /// The host's clocks were read; `broken`: they show that the counter broke.
    pub(in crate::engine) fn checked(
        &mut self,
        check: &HostCheck,
        broken: bool,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let now = check.raw_ns.saturating_add(check.suspended_ns);
        self.gate.checked = Some((check.count, now));
        if let Some(stands) = self.stands().filter(|_| !broken) {
            self.gate.known = Some((stands.time_at(check.count), now));
        }
        if self.gate.hold.as_ref().is_some_and(|hold| hold.bar == Bar::Unchecked) {
            self.publish(at, actions);
        }
    }

    /// The real-time clock was read.
    pub(in crate::engine) fn rtc_read(
        &mut self,
        reading: RtcReading,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        self.gate.rtc = Some(reading);
        let held = self.sources.iter().any(|source| source.hold_off(at).is_some());
        if held || self.gate.hold.is_some() {
            self.hear_vouchers(at, actions);
            self.publish(at, actions);
        } else if self.hand.status == Status::Synchronised {
            let read = self.leaps.instant(reading.unix, 1 << 63);
            self.gate.rtc_offset = Some(read - self.hand.time_at(reading.count));
            self.gate.rtc_ahead = reading.system.map(|system| reading.unix.saturating_sub(system));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_is_whole_quarter_hours_off() {
        for hours in [-12.0, -3.5, 0.25, 1.0, 5.75, 14.0_f64] {
            for off in [-59, 0, 59] {
                assert!(is_zone(Span::from_secs((hours * 3600.0) as i64 + off)), "{hours} h {off}");
            }
            for off in [-450, -62, 62, 450] {
                assert!(
                    !is_zone(Span::from_secs((hours * 3600.0) as i64 + off)),
                    "{hours} h {off}"
                );
            }
        }
        for not in [0, 30, -30, 15 * 3600, -86_400] {
            assert!(!is_zone(Span::from_secs(not)), "{not} s");
        }
    }
}
