//! The other addresses that a server's name has in the course of a run: other machines.

use serde::{Deserialize, Serialize};

use super::{ServerSpec, during};
use crate::limits::{TIME, each, interval, within};

/// The most that a name may have beside the server's own.
const ADDRESSES: usize = 16;

/// An address of a name beside the server's own, and the machine that is there. The machine is
/// there all the time; the name leads to it for a stretch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AddressSpec {
    /// Since when look-ups give it, s.
    #[serde(default)]
    pub from_s: f64,
    /// Until when, s; for good if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_s: Option<f64>,
    /// Machine that answers there.
    #[serde(default)]
    pub machine: Box<ServerSpec>,
}

impl ServerSpec {
    /// Machine of its own, and those at the other addresses of its name.
    pub(crate) fn machines(&self) -> impl Iterator<Item = &ServerSpec> {
        core::iter::once(self).chain(self.addresses.iter().map(|a| a.machine.as_ref()))
    }

    /// Which of its machines a look-up gives at `t`, in that order: what was given last comes
    /// first, as whoever moves a name has it.
    pub(crate) fn looked_up(&self, t: f64) -> Vec<usize> {
        let own = [(0, self.own_address_until_s.is_none_or(|until| t < until).then_some(0.0))];
        let other = |(i, a): (usize, &AddressSpec)| {
            let given = during(t, a.from_s, a.to_s.unwrap_or(f64::INFINITY));
            (i + 1, given.then_some(a.from_s))
        };
        let all = own.into_iter().chain(self.addresses.iter().enumerate().map(other));
        let mut given: Vec<(usize, f64)> = all.filter_map(|(i, since)| Some((i, since?))).collect();
        given.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        given.into_iter().map(|(i, _)| i).collect()
    }

    /// Server that a look-up of its name leads to at `t`, if that is another.
    pub(crate) fn led_to(&self, t: f64) -> Option<&str> {
        let from = self.own_address_until_s.unwrap_or(0.0);
        self.leads_to.as_deref().filter(|_| t >= from)
    }

    /// Refuses addresses that make no sense.
    pub(super) fn check_addresses(&self) -> Result<(), String> {
        within("own-address-until-s", self.own_address_until_s.unwrap_or(0.0), 0.0, TIME)?;
        if self.addresses.len() > ADDRESSES {
            let n = self.addresses.len();
            return Err(format!("address: {n} of them; a server may have up to {ADDRESSES}"));
        }
        each("address", &self.addresses, |address| {
            within("from-s", address.from_s, 0.0, TIME)?;
            address.to_s.map_or(Ok(()), |to_s| interval(address.from_s, to_s))?;
            address.machine.check_machine().map_err(|e| format!("machine: {e}"))
        })
    }

    /// Does [`ServerSpec::check`], and refuses what is not said of a machine but of a source.
    fn check_machine(&self) -> Result<(), String> {
        let of_source = [
            ("poll", self.poll.is_some()),
            ("declared-asymmetry-us", self.declared_asymmetry_us.is_some()),
            ("own-address-until-s", self.own_address_until_s.is_some()),
            ("leads-to", self.leads_to.is_some()),
            ("address", !self.addresses.is_empty()),
        ];
        if let Some((key, _)) = of_source.iter().find(|(_, said)| *said) {
            return Err(format!("{key}: is said of the server, not of a machine at its address"));
        }
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_address_is_given_first() {
        let address = |from_s, to_s| AddressSpec { from_s, to_s, machine: Box::default() };
        let server = ServerSpec {
            own_address_until_s: Some(20.0),
            addresses: vec![address(0.0, None), address(10.0, Some(30.0))],
            ..ServerSpec::default()
        };
        for (t, machines) in
            [(0.0, vec![0, 1]), (10.0, vec![2, 0, 1]), (20.0, vec![2, 1]), (30.0, vec![1])]
        {
            assert_eq!(server.looked_up(t), machines, "{t}");
        }
    }
}
