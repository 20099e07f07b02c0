//! Capabilities of the calling thread.

use std::path::PathBuf;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Drops all capabilities but these, from the bounding and ambient sets as well, and names those that
/// are left. One more is kept where a directory of `write` needs it: root's right to write in that of
/// another user.
pub(crate) fn drop_all_but(keep: CapabilitySet, write: &[PathBuf]) -> Vec<String> {
    let Ok(had) = capabilities(None) else { return Vec::new() };
    let wanted = |keep: CapabilitySet| CapabilitySets {
        effective: had.effective & keep,
        permitted: had.permitted & keep,
        inheritable: CapabilitySet::empty(),
    };
    // Ones that this kernel does not know are refused, which changes nothing.
    let known = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    for capability in known.filter(|one| !keep.intersects(*one)) {
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    if had == wanted(keep) {
        return names(had.permitted);
    }
    // The permitted ones last: what is given up there does not come back.
    let effective = CapabilitySets { effective: had.effective & keep, ..had };
    let mut keep = keep;
    if set_capabilities(None, effective).is_ok() {
        let writable = |folder: &PathBuf| {
            accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
                != Err(Errno::ACCESS)
        };
        if !write.iter().all(writable) {
            keep |= CapabilitySet::DAC_OVERRIDE & had.permitted;
        }
    }
    let _ = set_capabilities(None, wanted(keep));
    capabilities(None).map_or_else(|_| Vec::new(), |now| names(now.permitted))
}

/// Names of capabilities, as capabilities(7) has them.
pub(crate) fn names(set: CapabilitySet) -> Vec<String> {
    let named = CapabilitySet::all().iter_names();
    let mut all: Vec<String> = named
        .filter(|(_, one)| set.intersects(*one))
        .map(|(name, _)| format!("CAP_{name}"))
        .collect();
    let unnamed =
        set.bits() & !CapabilitySet::all().iter_names().fold(0, |all, (_, one)| all | one.bits());
    all.extend((unnamed != 0).then(|| format!("{unnamed:#x}")));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_manual() {
        let two = CapabilitySet::SYS_TIME | CapabilitySet::NET_BIND_SERVICE;
        assert_eq!(names(two), ["CAP_NET_BIND_SERVICE", "CAP_SYS_TIME"]);
        assert_eq!(names(CapabilitySet::from_bits_retain(1 << 63)), ["0x8000000000000000"]);
    }
}
