//! Proof of who a server is, in a configuration.

use truechimer_config::{DeTable, Reader, Value, whole};
use truechimer_engine::Authentication;

use super::Settings;
use super::foreign::unknown;
use super::reader::TABLES;

/// Proof that the keys of a server ask for.
#[derive(Default)]
pub(super) struct Proof {
    nts: bool,
    /// Number of a symmetric key, and where it stands.
    key: Option<(u32, usize)>,
}

impl Proof {
    /// Takes the value of `nts` or `key`.
    pub(super) fn take(&mut self, reader: &mut Reader<'_>, name: &str, value: &Value<'_>) {
        if name == "nts" {
            self.nts = reader.boolean(name, value).unwrap_or_default();
            return;
        }
        match whole(value).map(u32::try_from) {
            Some(Ok(number @ 1..)) => self.key = Some((number, value.span().start)),
            _ => reader.wrong(name, value, "must be the number of a key, 1 to 4294967295"),
        }
    }

    pub(super) fn kind(self, reader: &mut Reader<'_>) -> Authentication {
        match (self.nts, self.key) {
            (false, None) => Authentication::None,
            (true, None) => Authentication::Nts,
            (false, Some((number, _))) => Authentication::Key(number),
            (true, Some((_, at))) => {
                reader.problem(at, "`nts` and `key` are two proofs: remove one of them");
                Authentication::Nts
            }
        }
    }
}

/// Reads how the certificates of servers that prove who they are are judged: by which authorities, if not those of the
/// system, and by which dates.
pub(super) fn nts(reader: &mut Reader<'_>, table: &DeTable<'_>, settings: &mut Settings) {
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "ca" => settings.nts_ca = reader.absolute("ca", value),
            "unset-clock" => {
                settings.nts_unset_clock = reader.boolean("unset-clock", value).unwrap_or(false);
            }
            other => unknown(reader, other, key.span().start, TABLES[6]),
        }
    }
}
