//! Text and figures for an 80-column screen.

/// Width of text.
pub(super) const WIDTH: usize = 80;

/// Nothing that a terminal would obey.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Wrapped after something that stands before the first line only.
pub(super) fn hang(before: &str, text: &str) -> Vec<String> {
    let indent = before.chars().count();
    let lines = wrap(text, WIDTH.saturating_sub(indent));
    let put = |(n, line): (usize, String)| match n {
        0 => format!("{before}{line}"),
        _ => format!("{:indent$}{line}", ""),
    };
    lines.into_iter().enumerate().map(put).collect()
}

/// Lines of at most so many characters, unless a word is longer; at least one line.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count();
        let Some(line) = lines.last_mut() else { break };
        if length > 0 && length + 1 + more > width {
            lines.push(word.to_owned());
            length = more;
        } else {
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += more;
        }
    }
    lines
}

/// Hertz in the unit that fits, so many significant digits, no zeros at the end.
pub(super) fn hertz(hz: f64, digits: usize) -> String {
    // To so many digits first: what rounds up to the next unit is shown in that.
    let hz: f64 = format!("{hz:.*e}", digits.saturating_sub(1)).parse().unwrap_or(hz);
    let (factor, unit) = match hz {
        hz if hz >= 1e9 => (1e9, "GHz"),
        hz if hz >= 1e6 => (1e6, "MHz"),
        hz if hz >= 1e3 => (1e3, "kHz"),
        _ => (1.0, "Hz"),
    };
    let value = hz / factor;
    let whole = format!("{:.0}", value.trunc()).len();
    let text = format!("{value:.*}", digits.saturating_sub(whole));
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// A long span in the unit that fits: a counter's roll-over.
pub(super) fn span(s: f64) -> String {
    const YEAR: f64 = 365.25 * 86_400.0;
    match s {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s if s < YEAR * 2.0 => format!("{:.0} days", s / 86_400.0),
        s if s < YEAR * 9999.0 => format!("{:.0} y", s / YEAR),
        _ => "> 9999 y".to_owned(),
    }
}

/// Three significant digits, or all before the point.
pub(super) fn trimmed(value: f64) -> String {
    match value.abs() {
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(hertz(2_596_120_000.0, 7), "2.59612 GHz");
        assert_eq!(hertz(2_596_119_998.7, 10), "2.596119999 GHz");
        assert_eq!(hertz(1e9, 4), "1 GHz");
        assert_eq!(hertz(999_999_882.0, 6), "1 GHz");
        assert_eq!(hertz(14_318_180.0, 7), "14.31818 MHz");
        assert_eq!(hertz(250.0, 7), "250 Hz");
        assert_eq!(hertz(100e6, 2), "100 MHz");
        assert_eq!(span(4.687), "4.7 s");
        assert_eq!(span(300.0), "5 min");
        assert_eq!(span(18.4e18 / 1e9), "583 y");
        assert_eq!(span(1e30), "> 9999 y");
        assert_eq!(
            (trimmed(8.93), trimmed(20.46), trimmed(150.4)),
            ("8.93".into(), "20.5".into(), "150".into())
        );
    }

    #[test]
    fn lines_are_no_longer_than_they_may_be() {
        let text = "a counter that is µs µs µs wide and ".repeat(20);
        for width in [20, 60, 78] {
            assert!(wrap(&text, width).iter().all(|line| line.chars().count() <= width));
        }
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap(&"x".repeat(12), 10), ["x".repeat(12)]);
        assert_eq!(hang("- ", &"ab ".repeat(40)).len(), 2);
        assert!(hang("- ", &"ab ".repeat(40))[1].starts_with("  ab"));
    }
}
