//! PTP ports in `truechimer sources`: the master that is followed, and who else announces itself.

use serde::Serialize;
use truechimer_command::show::plain;
use truechimer_engine::{AskedReport, MasterReport, PtpReport, SourceReport};
use truechimer_time::Span;

/// A PTP port as JSON.
#[derive(Serialize)]
pub(super) struct PtpJson<'a> {
    domain: u8,
    /// The master that is followed; null if there is none.
    master: Option<MasterJson<'a>>,
    /// Masters that are not.
    others: Vec<MasterJson<'a>>,
    /// Masters that are asked by address; empty with multicast.
    asked: Vec<AskedJson<'a>>,
}

/// A master that is asked by address, and the state of what it was asked for.
#[derive(Serialize)]
struct AskedJson<'a> {
    address: String,
    announce: &'a str,
    sync: &'a str,
    delay_resp: &'a str,
}

/// A master as JSON, by its own words.
#[derive(Serialize)]
struct MasterJson<'a> {
    port: &'a str,
    address: String,
    grandmaster: &'a str,
    priority1: u8,
    class: u8,
    /// The accuracy that the grandmaster states; null if it states none.
    accuracy_ns: Option<i64>,
    priority2: u8,
    steps_removed: u16,
    /// TAI − UTC as announced; null if that is not said to be valid.
    utc_offset_s: Option<i16>,
    ptp_timescale: bool,
    qualified: bool,
}

impl PtpJson<'_> {
    pub(super) fn of(report: &PtpReport) -> PtpJson<'_> {
        PtpJson {
            domain: report.domain,
            master: report.master.as_ref().map(MasterJson::of),
            others: report.others.iter().map(MasterJson::of).collect(),
            asked: report.asked.iter().map(AskedJson::of).collect(),
        }
    }
}

impl AskedJson<'_> {
    fn of(asked: &AskedReport) -> AskedJson<'_> {
        let AskedReport { address, announce, sync, delay_resp } = asked;
        AskedJson { address: address.to_string(), announce, sync, delay_resp }
    }
}

impl MasterJson<'_> {
    fn of(master: &MasterReport) -> MasterJson<'_> {
        MasterJson {
            port: &master.port,
            address: master.address.to_string(),
            grandmaster: &master.grandmaster,
            priority1: master.priority1,
            class: master.class,
            accuracy_ns: master.accuracy.map(Span::as_nanos_up),
            priority2: master.priority2,
            steps_removed: master.steps_removed,
            utc_offset_s: master.utc_offset,
            ptp_timescale: master.ptp_timescale,
            qualified: master.qualified,
        }
    }
}

/// Lines of `sources -v` that only a PTP port has.
pub(super) fn lines(source: &SourceReport) -> Vec<(&'static str, String)> {
    let Some(PtpReport { master, others, asked, .. }) = &source.ptp else { return Vec::new() };
    let told = |master: &MasterReport| {
        let accuracy = match master.accuracy {
            Some(accuracy) => format!("accuracy {accuracy}"),
            None => "no accuracy stated".into(),
        };
        let MasterReport { grandmaster, priority1, class, priority2, steps_removed, .. } = master;
        plain(&format!(
            "grandmaster {grandmaster}, class {class}, {accuracy}, priorities {priority1} and \
             {priority2}, {steps_removed} steps away"
        ))
    };
    let mut lines: Vec<_> = master.iter().map(|master| ("master", told(master))).collect();
    for other in others {
        let yet = if other.qualified { "" } else { " (heard once)" };
        lines.push(("other", format!("{}{yet}", told(other))));
    }
    for AskedReport { address, announce, sync, delay_resp } in asked {
        let text = format!("{address}: Announce {announce}, Sync {sync}, Delay_Resp {delay_resp}");
        lines.push(("asked", plain(&text)));
    }
    lines
}
