//! Advice on the machine's counters, in plain words: whether the kernel keeps time by the right
//! one, what is wrong with it, what to change, and at what price.
//!
//! What the boot parameters do is taken from the kernel's own documentation (kernel-parameters,
//! cpuidle) and sources. Nothing here changes anything.

mod guest;
mod pc;
mod settings;

use serde::Serialize;

use crate::inventory::{Inventory, Path};

/// Severity of a piece of advice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Time may be wrong, or costs many times what it need.
    Problem,
    /// Worth knowing, or could be better.
    Note,
    /// In order.
    Good,
}

impl Severity {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Problem => "problem",
            Severity::Note => "note",
            Severity::Good => "good",
        }
    }
}

/// Certainty of a piece of advice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// The kernel or the processor says so, or it was measured here.
    Certain,
    /// Conclusion from what such machines are like.
    Likely,
    /// One of several explanations.
    Possible,
}

impl Sure {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sure::Certain => "certain",
            Sure::Likely => "likely",
            Sure::Possible => "possible",
        }
    }
}

/// A piece of advice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Advice {
    /// Severity.
    pub severity: Severity,
    /// Subject, in a line.
    pub title: String,
    /// Finding, and why it matters.
    pub why: String,
    /// Remedy, if there is any.
    pub what_to_do: Option<String>,
    /// Cost of that.
    pub price: Option<String>,
    /// Certainty.
    pub sure: Sure,
    /// Test that would show whether it is so.
    pub verify: Option<String>,
}

impl Advice {
    fn new(severity: Severity, sure: Sure, title: &str, why: impl Into<String>) -> Advice {
        Advice {
            severity,
            title: title.to_owned(),
            why: why.into(),
            what_to_do: None,
            price: None,
            sure,
            verify: None,
        }
    }

    fn problem(sure: Sure, title: &str, why: impl Into<String>) -> Advice {
        Advice::new(Severity::Problem, sure, title, why)
    }

    fn note(sure: Sure, title: &str, why: impl Into<String>) -> Advice {
        Advice::new(Severity::Note, sure, title, why)
    }

    fn good(sure: Sure, title: &str, why: impl Into<String>) -> Advice {
        Advice::new(Severity::Good, sure, title, why)
    }

    fn act(mut self, what_to_do: impl Into<String>) -> Advice {
        self.what_to_do = Some(what_to_do.into());
        self
    }

    fn price(mut self, price: impl Into<String>) -> Advice {
        self.price = Some(price.into());
        self
    }

    fn verify(mut self, verify: impl Into<String>) -> Advice {
        self.verify = Some(verify.into());
        self
    }
}

/// Gives the advice about a machine, what matters most first. The same inventory gives the same
/// advice.
#[must_use]
pub fn advise(inventory: &Inventory) -> Vec<Advice> {
    let mut advice = Vec::new();
    match inventory.architecture.as_str() {
        "x86_64" | "x86" | "i386" | "i686" => {
            pc::advise(inventory, &mut advice);
            guest::advise(inventory, &mut advice);
        }
        "aarch64" => arm(inventory, &mut advice),
        _ => {}
    }
    settings::advise(inventory, &mut advice);
    // Stable: advice of one kind stays in order.
    advice.sort_by_key(|advice| advice.severity);
    advice
}

/// The time that reading the clock takes, in words; nothing if it was not measured.
fn cost_of_clock(inventory: &Inventory) -> String {
    match inventory.clock_calls.first() {
        Some(call) if call.path == Path::SystemCall => format!(
            " Measured here: {} takes {:.0} ns, by a system call.",
            call.clock, call.libc_ns
        ),
        Some(call) => format!(" Measured here: {} takes {:.0} ns.", call.clock, call.libc_ns),
        None => String::new(),
    }
}

/// The Arm generic timer: the architecture promises it steady, always on and one for all CPUs.
fn arm(inventory: &Inventory, advice: &mut Vec<Advice>) {
    let Some(current) = inventory.current() else { return };
    let by_call = inventory.clock_calls.iter().any(|call| call.path == Path::SystemCall);
    if current.starts_with("hyperv") {
        advice.push(
            Advice::note(
                Sure::Likely,
                "The kernel keeps time by Hyper-V's clock",
                format!(
                    "On Arm stock kernels use the generic timer under Hyper-V as well. This one \
                     was changed, most likely for old hosts that do not pass on the timer's \
                     interrupts. Programs cannot read this clock without a system call.{}",
                    cost_of_clock(inventory)
                ),
            )
            .act("On a recent host: a stock kernel, which keeps time by arch_sys_counter.")
            .verify("truechimer counters bench"),
        );
    } else if current != "arch_sys_counter" {
        advice.push(
            Advice::note(
                Sure::Likely,
                "The kernel does not keep time by the Arm generic timer",
                format!(
                    "It uses '{current}', most likely a timer of the chip outside the CPU cores, \
                     which takes longer to read and cannot be read by programs.{}",
                    cost_of_clock(inventory)
                ),
            )
            .act(
                "See the kernel's log for why (arch_timer lines): an erratum, a device tree \
                 without the timer, or firmware that does not set it up.",
            )
            .verify("truechimer counters bench"),
        );
    } else if by_call {
        advice.push(
            Advice::note(
                Sure::Likely,
                "The generic timer is read by system calls",
                format!(
                    "Kernels do so where the processor has an erratum of its timer that a reading \
                     must work around.{}",
                    cost_of_clock(inventory)
                ),
            )
            .verify("the arch_timer lines of the kernel's log (dmesg) name the erratum"),
        );
    } else {
        advice.push(Advice::good(
            Sure::Certain,
            "The kernel keeps time by the Arm generic timer, as it should",
            "The architecture promises one counter for all CPUs, of constant rate, that runs on \
             in idle states, and programs can read it.",
        ));
    }
}
