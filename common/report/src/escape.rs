//! Text becomes HTML or JSON that shows exactly that text.

use std::fmt::Write;

/// Adds `text` so that it is safe as content and within a quoted attribute.
pub(crate) fn push_html(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // Controls are no characters of HTML; directional ones could reorder what is read.
            c if c.is_control() || is_directional(c) => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
}

/// See [`push_html`].
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    push_html(&mut out, text);
    out
}

/// Adds JSON so that it can stand inside a script element: nothing in it can end that element or
/// begin a comment. In JSON these characters occur in strings only, where the escapes mean them.
pub(crate) fn push_json(out: &mut String, json: &str) {
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c if is_directional(c) => out.push_str("\\ufffd"),
            c => out.push(c),
        }
    }
}

fn is_directional(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            html("</script><b a=\"x\" b='y'>&amp;\u{7}\u{202E}"),
            "&lt;/script&gt;&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;\u{FFFD}\u{FFFD}"
        );
    }

    #[test]
    fn json_cannot_leave_its_element_and_means_the_same() {
        let hostile = "</script><!-- <script> & \u{2028} \"quoted\" \\ \u{7}";
        let mut out = String::new();
        push_json(&mut out, &serde_json::Value::from(hostile).to_string());
        assert!(!out.contains(['<', '>', '&', '\u{2028}']), "{out}");
        let back: String = serde_json::from_str(&out).unwrap();
        assert_eq!(back, hostile);
    }
}
