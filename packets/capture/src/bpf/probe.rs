//! Features of the kernel.

use super::asm::Asm;
use super::btf::Btf;
use super::encode::Reg;
use super::error::BpfError;
use super::helper::Helper;
use super::program::{Program, ProgramKind};

/// Succeeds if programs of this kind can be loaded here, by this process.
///
/// # Errors
/// Why not.
pub fn program_kind(kind: ProgramKind) -> Result<(), BpfError> {
    let mut asm = Asm::new();
    asm.give(0);
    Program::load(kind, "probe", &asm).map(drop)
}

/// True if programs of this kind may call the helper. `false` too where programs cannot be loaded
/// at all: ask [`program_kind`] first.
#[must_use]
pub fn helper(kind: ProgramKind, helper: Helper) -> bool {
    let mut asm = Asm::new();
    for reg in [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5] {
        asm.mov(reg, 0);
    }
    asm.call(helper).give(0);
    match Program::load(kind, "probe", &asm) {
        Ok(_) => true,
        // The arguments are nonsense; a helper that is there is refused for them alone.
        Err(error) if !error.log.is_empty() => {
            let denied = ["unknown func", "invalid func", "cannot use helper", "cannot call"];
            !denied.iter().any(|words| error.log.contains(words))
        }
        Err(_) => false,
    }
}

/// The BTF number of a kernel function that programs might call, if the kernel has one of this
/// name. Whether a kind of program may call it, only loading tells.
#[must_use]
pub fn kernel_function(btf: &Btf, name: &str) -> Option<u32> {
    btf.function(name).ok()
}

/// `kernel.unprivileged_bpf_disabled`: 0 allows programs of unprivileged users.
#[must_use]
pub fn unprivileged_disabled() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled").ok()?;
    text.trim().parse().ok()
}
