//! The hypervisor's word that a virtual machine was migrated or restored, for readers.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use truechimer_counter::vmclock::{self, Vmclock};
use truechimer_timehands::{Glance, Marker, Word};

/// Reason for the status of a hand that was made under another marker.
pub(crate) const MOVED: &str =
    "the hypervisor says that the machine was migrated or restored since";

/// The vmclock device, from when a hand first says that there is one to look at.
#[derive(Debug, Default)]
pub(crate) struct Hypervisor {
    device: OnceLock<Device>,
    /// Looked for already: one that could not be opened then is not tried with each hand.
    sought: AtomicBool,
}

/// A device that is open.
#[derive(Debug)]
struct Device {
    vmclock: Vmclock,
    /// The user says where it is: it is the one that hands mean, whatever they call it.
    chosen: bool,
}

impl Device {
    fn open(path: &Path, chosen: bool) -> Option<Device> {
        Vmclock::open(path).ok().map(|vmclock| Device { vmclock, chosen })
    }

    /// True if this is the one that a hand means.
    fn is(&self, number: u16) -> bool {
        self.chosen || self.vmclock.number() == number
    }
}

impl Hypervisor {
    /// Device at a path that the user names.
    pub fn at(path: &Path) -> Option<Hypervisor> {
        let device = OnceLock::from(Device::open(path, true)?);
        Some(Hypervisor { device, sought: AtomicBool::new(true) })
    }

    /// Opens the device that a hand names, if it is there and may be read.
    pub fn seek(&self, marker: Option<Marker>) {
        let Some(Marker { device, .. }) = marker else { return };
        if self.sought.swap(true, Relaxed) {
            return;
        }
        let opened = match vmclock::chosen() {
            Some(path) => Device::open(&path, true),
            None => vmclock::path_of(device).and_then(|path| Device::open(&path, false)),
        };
        if let Some(opened) = opened {
            let _ = self.device.set(opened);
        }
    }

    /// True if the marker is still that of the hand, as far as this process can see. To be asked
    /// after the count was read that the hand is used with.
    #[inline(always)]
    pub fn lets_stand(&self, hand: &Glance<'_, Word>) -> bool {
        match self.device.get() {
            None => true,
            Some(device) => hand.is_under(device.vmclock.marker()),
        }
    }

    /// Likewise, for a hand whose marker is known.
    pub fn agrees(&self, marker: Option<Marker>) -> bool {
        let watched = self.device.get().zip(marker).filter(|(own, of)| own.is(of.device));
        watched.is_none_or(|(own, of)| own.vmclock.marker() == of.value)
    }

    /// True if the marker of such a hand is looked at here.
    pub fn watches(&self, marker: Option<Marker>) -> bool {
        self.device.get().zip(marker).is_some_and(|(own, of)| own.is(of.device))
    }
}
