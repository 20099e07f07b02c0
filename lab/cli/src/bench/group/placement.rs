//! Which processors the nodes' Corosyncs have, and which everything else.

use truechimer_outcome::outcome::Failure;

/// Which processors the nodes' Corosyncs have, and which everything else.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// All run wherever there is room.
    #[default]
    Together,
    /// There is but one processor.
    One,
    /// The Corosyncs have one for themselves.
    Apart {
        /// Which.
        corosyncs: u32,
        /// Those of the agents and programs.
        others: Vec<u32>,
    },
}

impl Placement {
    /// A processor for the Corosyncs alone, the last one, where this process may use two.
    ///
    /// # Errors
    /// Where the kernel does not say which may be used.
    pub fn apart() -> Result<Placement, Failure> {
        let status = "/proc/self/status";
        let text = std::fs::read_to_string(status).map_err(|error| Failure::of(status, error))?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let all = list.and_then(|list| spread(list.trim()));
        let all = all.ok_or_else(|| Failure::of(status, "no list of processors"))?;
        Ok(Placement::of(all))
    }

    fn of(mut all: Vec<u32>) -> Placement {
        all.sort_unstable();
        match (all.pop(), all) {
            (Some(corosyncs), others) if !others.is_empty() => {
                Placement::Apart { corosyncs, others }
            }
            _ => Placement::One,
        }
    }

    /// Processors as [`truechimer_testbed::ring::Settings`] takes them.
    #[must_use]
    pub fn processors(&self) -> Option<String> {
        match self {
            Placement::Apart { corosyncs, .. } => Some(corosyncs.to_string()),
            Placement::Together | Placement::One => None,
        }
    }

    /// Placement in a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Placement::Together => {
                "Corosyncs, agents and programs run on whichever processor has room.".to_owned()
            }
            Placement::One => {
                "Corosyncs, agents and programs share the one processor that may be used here."
                    .to_owned()
            }
            Placement::Apart { corosyncs, others } => format!(
                "The Corosyncs have processor {corosyncs} to themselves, agents and programs run on \
                 {}, as docs/use/group-setup.md advises (without --together).",
                others.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// The numbers of a list as in `0-2,5`; none if it is no such list.
fn spread(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // More processors than Linux can have are no such list either.
        if last < first || last > 65_535 {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_processor_is_for_the_corosyncs_if_there_are_two() {
        assert_eq!(spread("0-2,5"), Some(vec![0, 1, 2, 5]));
        for no_list in ["", "x", "2-1", "1,", "0-4000000000"] {
            assert_eq!(spread(no_list), None, "{no_list}");
        }
        let apart = Placement::of(vec![0, 1, 2, 5]);
        assert_eq!(apart, Placement::Apart { corosyncs: 5, others: vec![0, 1, 2] });
        assert_eq!(apart.processors().as_deref(), Some("5"));
        assert!(apart.text().contains("processor 5") && apart.text().contains("0, 1, 2"));
        for too_few in [vec![], vec![3]] {
            assert_eq!(Placement::of(too_few), Placement::One);
        }
        assert_eq!(Placement::Together.processors(), None);
    }
}
