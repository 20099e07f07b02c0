//! When a server has nothing to say.

use super::{ServerSpec, during};

impl ServerSpec {
    /// The stretches in which nothing usable need come of it, from and to, s: it is away, refuses,
    /// is unsynchronised or cut off, at any of its addresses; and until it has been asked once
    /// more, every `poll` seconds.
    pub(crate) fn absences(&self, poll: f64) -> Vec<(f64, f64)> {
        self.machines().flat_map(ServerSpec::gaps).map(|(from, to)| (from, to + poll)).collect()
    }

    fn gaps(&self) -> Vec<(f64, f64)> {
        let mut all: Vec<(f64, f64)> = Vec::new();
        all.extend(self.silences.iter().map(|s| (s.from_s, s.to_s)));
        all.extend(
            self.restarts.iter().map(|r| (r.at_s, r.at_s + r.silent_s + r.unsynchronised_s)),
        );
        let lapsed = self.lapses.iter().map(|l| (l.from_s + l.lost_s, l.silent_s));
        all.extend(lapsed.filter(|(_, silent)| *silent > 0.0).map(|(from, s)| (from, from + s)));
        // Whoever is told not to ask asks no more.
        let until = |code: &str, to| if code == "RATE" { to } else { f64::INFINITY };
        all.extend(self.refusals.iter().map(|r| (r.from_s, until(&r.code, r.to_s))));
        for path in [&self.forward, &self.backward] {
            all.extend(path.outages.iter().map(|o| (o.from_s, o.to_s)));
        }
        all
    }
}

/// True if one of these holds at `t`.
pub(crate) fn is_absent(absences: &[(f64, f64)], t: f64) -> bool {
    absences.iter().any(|(from, to)| during(t, *from, *to))
}
