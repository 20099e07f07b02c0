//! Meaning of a comparison, in plain words.

use truechimer_counter::{Discipline, discipline};
use truechimer_time::CounterKind;

use super::against::Against;
use crate::inventory::same_hardware;

/// Meaning of comparing the counter with the reference.
pub(super) fn meaning(
    kind: CounterKind,
    against: &Against,
    clocksource: Option<&str>,
) -> Vec<String> {
    let name = kind.name();
    let source = clocksource.unwrap_or("unknown");
    let same = clocksource.is_some_and(|source| same_hardware(name, source));
    let via = if source == name { String::new() } else { format!(" by way of {source}") };
    let mut said = Vec::new();
    match against {
        Against::Raw if same => said.push(format!(
            "CLOCK_MONOTONIC_RAW is made of the counter {name} itself{via}: this shows the noise of \
             reading the two, nothing of the oscillator. Take a reference that does not depend on \
             it (NTP, PPS, PHC) for that."
        )),
        Against::Raw => said.push(format!(
            "CLOCK_MONOTONIC_RAW counts with the clocksource {source}: this compares two counters \
             of the same machine. Where both hang on one crystal it shows little but noise of \
             reading."
        )),
        Against::Realtime => {
            let by = |answer: Discipline| {
                let ppm = answer.frequency as f64 / 65_536.0;
                format!("corrected by {ppm:+.3} ppm")
            };
            let steered = match discipline() {
                Ok(answer) if answer.unsynchronised => {
                    format!("kept by nobody as far as the kernel knows, {}", by(answer))
                }
                Ok(answer) => format!("kept synchronised, {} now", by(answer)),
                Err(_) => "steered by whoever keeps it".to_owned(),
            };
            let base = if same { format!("made of the counter {name} itself{via}, and") } else { String::new() };
            said.push(format!(
                "CLOCK_REALTIME is {base} {steered}: what shows is that steering, and as much of \
                 the oscillator as it follows."
            ));
        }
        Against::Ntp(..) => said.push(
            "The phase is that of single exchanges half-way through their round trips: at short \
             times the network's delays show, not the oscillator."
                .to_owned(),
        ),
        Against::Pps(_) => said.push(
            "The kernel stamps pulses when their interrupt comes: its latency is part of the phase."
                .to_owned(),
        ),
        Against::Phc(_) => said.push(
            "A network card's clock is a crystal of its own unless somebody synchronises it: the \
             noise of both shows."
                .to_owned(),
        ),
        Against::Counter(..) => said.push(
            "Two counters of the same machine: where both hang on one crystal it shows little but \
             noise of reading."
                .to_owned(),
        ),
        Against::File(_) => {}
    }
    said.iter_mut().for_each(|text| *text = text.replace("is  ", "is "));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: CounterKind, against: &str, clocksource: Option<&str>) -> String {
        meaning(kind, &against.parse().unwrap(), clocksource).concat()
    }

    #[test]
    fn a_comparison_with_itself_is_called_that() {
        for (kind, source) in [
            (CounterKind::Tsc, "tsc"),
            (CounterKind::Tsc, "kvm-clock"),
            (CounterKind::Tsc, "xen"),
            (CounterKind::AcpiPm, "acpi_pm"),
            (CounterKind::Hpet, "hpet"),
            (CounterKind::ArmGeneric, "arch_sys_counter"),
        ] {
            assert!(said(kind, "raw", Some(source)).contains("itself"), "{kind:?} {source}");
            assert!(said(kind, "realtime", Some(source)).contains("itself"), "{kind:?} {source}");
        }
        for source in [Some("hpet"), Some("acpi_pm"), None] {
            assert!(!said(CounterKind::Tsc, "raw", source).contains("itself"), "{source:?}");
        }
        assert!(said(CounterKind::Tsc, "raw", Some("hpet")).contains("hpet"));
    }

    #[test]
    fn every_reference_has_its_words() {
        for against in ["raw", "realtime", "ntp:a", "pps", "phc", "counter:raw"] {
            let text = said(CounterKind::Tsc, against, Some("tsc"));
            assert!(text.len() > 50 && !text.contains("  "), "{against}: {text}");
        }
    }
}
