//! Files and ports, by Landlock.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};

use crate::Rules;

/// The newest level whose limits are asked for.
const ABI_WANTED: ABI = ABI::V6;
/// Limits by the level that brought them.
const LIMITS: [(u32, &str); 4] =
    [(3, "truncating"), (4, "TCP"), (5, "device control"), (6, "signals and abstract sockets")];

/// Landlock that is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Landlocked {
    /// Of this level of the kernel's interface, without these limits.
    At { level: u32, lacks: Vec<&'static str> },
    /// None, for this reason.
    Not(&'static str),
}

/// Confines the calling thread to the files and ports of these rules.
pub(crate) fn restrict(rules: &Rules) -> Landlocked {
    let Ok(RestrictionStatus { ruleset, landlock, .. }) = try_restrict(rules) else {
        return Landlocked::Not("the kernel refuses Landlock's rules");
    };
    match landlock {
        LandlockStatus::Available { effective_abi, .. }
            if ruleset != RulesetStatus::NotEnforced =>
        {
            let level = effective_abi as u32;
            let lacks = LIMITS.iter().filter(|(since, _)| level < *since);
            Landlocked::At { level, lacks: lacks.map(|(_, name)| *name).collect() }
        }
        LandlockStatus::NotEnabled => Landlocked::Not("this kernel was started without Landlock"),
        _ => Landlocked::Not("this kernel has no Landlock, or may not be asked for it"),
    }
}

fn try_restrict(rules: &Rules) -> Result<RestrictionStatus, RulesetError> {
    let Rules { read, write, devices, tcp, keep: _, calls: _ } = rules;
    let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let writing = reading
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeSock
        | AccessFs::RemoveFile;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_WANTED))?
        .handle_access(AccessNet::from_all(ABI_WANTED))?
        .scope(Scope::from_all(ABI_WANTED))?
        .create()?
        .add_rules(path_beneath_rules(read, reading))?
        .add_rules(path_beneath_rules(write, writing))?
        .add_rules(path_beneath_rules(devices, reading | AccessFs::IoctlDev))?
        .add_rules(
            tcp.iter()
                .map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp))),
        )?
        .restrict_self()
}
