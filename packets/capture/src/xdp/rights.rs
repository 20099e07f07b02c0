//! Right to take packets away, which is the user's, or only the program's.
//!
//! A program file with capabilities (`setcap`) lends them to whoever may run it. To see packets is
//! what they are lent for; to take an interface off the network is not.

use rustix::process::getuid;
use rustix::thread::{CapabilitySet, capabilities};

use crate::tap::TapError;

/// Refuses packets to be taken off an interface where the right to it is the program file's alone.
pub(super) fn check(interface: &str) -> Result<(), TapError> {
    // Who cannot even be asked about has no more than this process.
    let Ok(has) = capabilities(None) else { return Ok(()) };
    if !is_lent(getuid().is_root(), has.permitted, has.inheritable) {
        return Ok(());
    }
    Err(TapError {
        doing: format!("taking packets off {interface} by XDP"),
        why: "the right to it (cap_net_admin) is lent by the program's file, not this user's own; \
              whoever may run the program could take the interface off the network"
            .to_owned(),
        mend: Some(
            "run it by sudo; let packets pass (`--method xdp-copy` or `packet`); or give the user \
             the right (pam_cap, /etc/security/capability.conf)"
                .to_owned(),
        ),
    })
}

/// True if the right to change the network comes from the program's file.
///
/// Files give capabilities to the permitted set when the program is started. The inheritable set
/// comes from whoever started it, unchanged, and nobody can add to his own what he does not have:
/// pam_cap sets it for users at their login, systemd for services (`AmbientCapabilities`). So what
/// is permitted and not inheritable is lent, but for root.
fn is_lent(is_root: bool, permitted: CapabilitySet, inheritable: CapabilitySet) -> bool {
    let right = CapabilitySet::NET_ADMIN;
    !is_root && permitted.contains(right) && !inheritable.contains(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_file_alone_gives_is_lent() {
        let (none, raw) = (CapabilitySet::empty(), CapabilitySet::NET_RAW);
        let admin = raw | CapabilitySet::NET_ADMIN;
        for (is_root, permitted, inheritable, lent) in [
            (true, admin, none, false),
            (false, admin, none, true),
            (false, admin, raw, true),
            (false, admin, admin, false),
            // Nothing to lend: the kernel refuses, and says which right is missing.
            (false, raw, none, false),
        ] {
            assert_eq!(is_lent(is_root, permitted, inheritable), lent, "{permitted:?}");
        }
    }
}
