//! Events, line by line.

use crate::chart::{clock_time, time_of_day};
use crate::escape::push_html;

/// Tone in which a number, an event or a line is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    /// Of little weight.
    Quiet,
    /// Neutral.
    #[default]
    Plain,
    /// In order.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
}

impl Tone {
    /// The name of its class in the style sheet, and in the script.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Tone::Quiet => "quiet",
            Tone::Plain => "plain",
            Tone::Good => "good",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
        }
    }

    /// The word that says the same without colour.
    fn word(self) -> &'static str {
        match self {
            Tone::Quiet | Tone::Plain => "",
            Tone::Good => "good",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
        }
    }
}

/// A line of a log.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// When, s on the time axis of the section's charts; not a number: at no time in particular.
    pub at: f64,
    /// Tone of the line.
    pub tone: Tone,
    /// Words for what happened.
    pub text: String,
}

/// Lines shown of one log; the page says how many more there were.
const MOST: usize = 2000;

/// A scrolling list; the times are buttons that show the place in the charts.
/// `since`: Unix ns of time 0, where it is known.
pub(crate) fn push_log(out: &mut String, title: &str, entries: &[Entry], since: Option<i64>) {
    out.push_str("<div class=log><table><caption>");
    push_html(out, title);
    out.push_str("</caption><thead><tr><th scope=col>time</th><th scope=col>event</th></tr></thead><tbody>\n");
    for entry in entries.iter().take(MOST) {
        out.push_str("<tr class=\"");
        out.push_str(entry.tone.class());
        out.push_str("\"><td class=number>");
        if entry.at.is_finite() {
            out.push_str(&format!("<span class=at data-at=\"{}\">", entry.at));
            let text =
                since.map_or_else(|| clock_time(entry.at), |zero| time_of_day(zero, entry.at));
            push_html(out, &text);
            out.push_str("</span>");
        }
        out.push_str("</td><td>");
        if !entry.tone.word().is_empty() {
            out.push_str("<span class=tone>");
            out.push_str(entry.tone.word());
            out.push_str("</span> ");
        }
        push_html(out, &entry.text);
        out.push_str("</td></tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if let Some(more) = entries.len().checked_sub(MOST).filter(|n| *n > 0) {
        out.push_str(&format!("<p class=about>… and {more} more that are not shown.</p>\n"));
    }
}
