//! Sources that come from elsewhere than the configuration.

use truechimer_config::{ConfigError, DeTable, Reader};
use truechimer_engine::{Origin, SourceConfig};

use super::foreign::unknown;
use super::reader::{Sources, TABLES, sources};

/// Reads servers and pools, as [[source]] has them in the configuration. `name` is what messages call
/// the text; `has_key_file`: the configuration says where symmetric keys are kept.
///
/// # Errors
/// If there is anything else in the text, or a mistake: every problem at once.
pub(crate) fn added(
    text: &str,
    name: &str,
    origin: Origin,
    has_key_file: bool,
) -> Result<Vec<SourceConfig>, ConfigError> {
    let mut all = Vec::new();
    let walk = |reader: &mut Reader<'_>, top: &DeTable<'_>| {
        for (key, value) in top {
            match key.get_ref().as_ref() {
                "source" => {
                    let Sources { servers, refclocks } = sources(reader, value, has_key_file);
                    let ports = servers.iter().filter(|(s, _)| s.ptp.is_some()).map(|(_, at)| *at);
                    let clocks = refclocks.iter().map(|(_, at)| *at);
                    for at in ports.chain(clocks) {
                        let text = "only servers and pools can stand here: the others need rights that \
                                    the daemon gives up at its start";
                        reader.problem(at, text);
                    }
                    all.extend(servers.into_iter().map(|(s, _)| SourceConfig { origin, ..s }));
                }
                other if TABLES[0].1.contains(&other) => {
                    let text = format!(
                        "`{other}` belongs into the configuration: here are only [[source]]"
                    );
                    reader.problem(key.span().start, text);
                }
                other => unknown(reader, other, key.span().start, TABLES[0]),
            }
        }
    };
    truechimer_config::parse(text, name, &TABLES, walk).map(|()| all)
}
