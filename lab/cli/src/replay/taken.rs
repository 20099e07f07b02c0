//! Exchanges of a log, to be written as a stamp file.

use std::collections::BTreeMap;

use truechimer_replay::{Happened, What};
use truechimer_sim::stamps::{Declared, write_header};
use truechimer_sim::{Stamped, write_stamps};
use truechimer_time::{Instant, Period, Span, Stamp};

use truechimer_command::Failure;

/// Exchanges that were used, by source.
#[derive(Debug, Default)]
pub struct Taken(BTreeMap<String, Source>);

#[derive(Debug)]
struct Source {
    rows: Vec<Stamped>,
    /// By the published clock, at the last of them.
    period: Period,
    /// The largest of all, of the server's root distances, and of the resolutions that it claims.
    stamp_error: Span,
    root_distance: Span,
    precision: Span,
}

impl Taken {
    /// Takes down an exchange, if one was used.
    pub fn add(&mut self, happened: &Happened) {
        let What::Reply(heard) = &happened.what else { return };
        let (Some(exchange), Some(times)) = (&heard.exchange, heard.server_utc) else { return };
        let [server_received, server_sent] = times.map(|utc| Instant::new(utc.unix, utc.frac));
        let source = self.0.entry(heard.source.clone()).or_insert_with(|| Source {
            rows: Vec::new(),
            period: heard.period,
            stamp_error: Span::ZERO,
            root_distance: Span::ZERO,
            precision: Span::ZERO,
        });
        source.period = heard.period;
        let error = |stamp: &Stamp| heard.period.span(stamp.error);
        let errors = [error(&exchange.sent), error(&exchange.received)];
        source.stamp_error = errors.into_iter().fold(source.stamp_error, Span::max);
        source.root_distance = source.root_distance.max(exchange.root_distance);
        source.precision = source.precision.max(exchange.precision);
        source.rows.push(Stamped {
            sent: exchange.sent.count,
            server_received,
            server_sent,
            received: exchange.received.count,
            reference: None,
        });
    }

    /// The stamp file of the source of that name, or of the only one.
    ///
    /// # Errors
    /// If there is none of that name, or several and no name is given.
    pub fn stamp_file(&self, log: &str, wanted: Option<&str>) -> Result<String, Failure> {
        let names = || self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let (name, source) = match (wanted, self.0.len()) {
            (_, 0) => return Err(Failure::new("--stamps", format!("{log}: no reply was used"))),
            (Some(name), _) => self.0.get_key_value(name).ok_or_else(|| {
                Failure::new("--source", format!("`{name}` is not in {log}; there are {}", names()))
            })?,
            (None, 1) => self.0.first_key_value().ok_or(Failure::Unread)?,
            (None, _) => {
                let text = format!("several sources: choose one with --source: {}", names());
                return Err(Failure::new("--stamps", text));
            }
        };
        let declared = Declared {
            nominal_hz: Some(source.period.hz()),
            nominal_error: None,
            stamp_error: Some(source.stamp_error),
            root_distance: Some(source.root_distance),
            precision: Some(source.precision),
        };
        let mut text = format!("# {log}: {name}\n");
        write_header(&declared, false, &mut text)
            .and_then(|()| write_stamps(&source.rows, &mut text))
            .map_err(|why| Failure::new("--stamps", why))?;
        Ok(text)
    }
}
