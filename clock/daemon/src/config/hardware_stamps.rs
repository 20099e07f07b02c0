//! Cards that are to stamp packets.

use truechimer_config::{Reader, Value};

use super::HardwareStamps;
use super::ptp::interface;

const KEY: &str = "hardware-stamps";

/// A word, or a list of interfaces.
pub(super) fn read(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<HardwareStamps> {
    const WORDS: &str = "must be \"none\", \"auto\", or a list of interfaces, as in [\"eth0\"]";
    let Some(names) = value.get_ref().as_array() else {
        let word = |text: &str| match text {
            "none" => Ok(HardwareStamps::None),
            "auto" => Ok(HardwareStamps::Auto),
            _ => Err(WORDS),
        };
        return reader.text_like(KEY, value, "\"none\", \"auto\", or a list of interfaces", word);
    };
    if names.is_empty() {
        reader.wrong(KEY, value, "must name an interface, as in [\"eth0\"], or be \"none\"");
        return None;
    }
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let name = reader.text_of(KEY, name, interface)?;
        if !all.contains(&name) {
            all.push(name);
        }
    }
    Some(HardwareStamps::Of(all))
}
