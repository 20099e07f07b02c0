//! What goes wrong with a source: shown while it lasts, told once.

use std::collections::{BTreeMap, BTreeSet};

/// The kinds of trouble.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// Its name has no address.
    Name,
    /// A request did not get through.
    Network,
    /// Datagrams came that are no answer to a request of ours. Anybody can send such.
    Stray,
    /// No reply.
    Silence,
    /// The server's replies are refused, for the reason of this name.
    Refusal(&'static str),
}

/// The trouble with one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    now: Option<(Kind, String)>,
    /// What the user was told since the last usable reply.
    told: BTreeSet<Kind>,
    /// What was refused, by estimator, network or resolver.
    refused: BTreeMap<String, u64>,
}

impl Trouble {
    /// Counts something refused under `name`.
    pub(crate) fn count(&mut self, name: &str) {
        let count = self.refused.entry(name.into()).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// What was counted.
    pub(crate) fn refused(&self) -> &BTreeMap<String, u64> {
        &self.refused
    }

    /// Shows `text` from now on. Returns it if trouble of this kind has not been told before.
    pub(crate) fn begins(&mut self, kind: Kind, text: String) -> Option<String> {
        self.now = Some((kind, text.clone()));
        self.told.insert(kind).then_some(text)
    }

    /// Shows `text`, which is not worth a line, unless there is better to show.
    pub(crate) fn hint(&mut self, kind: Kind, text: impl FnOnce() -> String) {
        if matches!(self.now, None | Some((Kind::Silence, _))) {
            self.now = Some((kind, text()));
        }
    }

    /// No reply came, for long enough to be told: says more than what was wrong with the replies
    /// that came before, and less than why none can come.
    pub(crate) fn silence(&mut self, text: &str, line: String) -> Option<String> {
        if !matches!(self.now, Some((Kind::Name | Kind::Network | Kind::Stray, _))) {
            self.now = Some((Kind::Silence, text.into()));
        }
        self.told.insert(Kind::Silence).then_some(line)
    }

    /// A reply was used: all is well again.
    pub(crate) fn ends(&mut self) {
        self.now = None;
        self.told.clear();
    }

    /// What to show.
    pub(crate) fn text(&self) -> Option<&str> {
        self.now.as_ref().map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_until_it_ends() {
        let mut trouble = Trouble::default();
        for _ in 0..2 {
            let stratum = Kind::Refusal("stratum");
            assert!(trouble.begins(stratum, "stratum 16".into()).is_some());
            assert!(trouble.silence("no reply", "none at all".into()).is_some());
            assert_eq!(trouble.text(), Some("no reply"));
            assert_eq!(trouble.begins(stratum, "stratum 17".into()), None);
            assert_eq!(trouble.text(), Some("stratum 17"));
            assert!(trouble.begins(Kind::Refusal("kiss-rate"), "RATE".into()).is_some());
            trouble.ends();
            assert_eq!(trouble.text(), None);
        }
    }

    #[test]
    fn the_reason_is_shown_rather_than_the_silence() {
        let mut trouble = Trouble::default();
        trouble.hint(Kind::Silence, || "no reply".into());
        trouble.hint(Kind::Stray, || "from elsewhere".into());
        let _ = trouble.silence("no reply", "none".into());
        assert_eq!(trouble.text(), Some("from elsewhere"));
        trouble.hint(Kind::Silence, || "no reply".into());
        assert_eq!(trouble.text(), Some("from elsewhere"));
    }
}
