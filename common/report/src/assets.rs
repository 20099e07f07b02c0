//! The files that every page carries.

/// The style sheet: the plots' and ours, with the dark colours for both ways to ask for them.
pub(crate) fn style() -> String {
    let dark = include_str!("../assets/dark.css").trim();
    format!(
        "{}\n{}\n@media screen and (prefers-color-scheme: dark) {{\n:root:not([data-theme=light]) {{\n{dark}\n}}\n}}\n\
         @media screen {{\n:root[data-theme=dark] {{\n{dark}\n}}\n}}\n",
        include_str!("../assets/uPlot.min.css").trim(),
        include_str!("../assets/page.css").trim(),
    )
}

/// The plots' script.
pub(crate) const UPLOT: &str = include_str!("../assets/uPlot.iife.min.js");

/// Licence that has to go with it.
pub(crate) const LICENCE: &str = include_str!("../assets/LICENSE-uPlot");

/// Ours: draws the charts from the JSON in the element `data`. One scope, in this order.
pub(crate) const SCRIPT: &str = concat!(
    "(function () {\n'use strict';\n",
    include_str!("../assets/theme.js"),
    include_str!("../assets/numbers.js"),
    include_str!("../assets/plot.js"),
    include_str!("../assets/draw.js"),
    include_str!("../assets/page.js"),
    "}());\n",
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    /// The colours that a style sheet names.
    fn colours(css: &str) -> BTreeMap<String, [f64; 3]> {
        let mut found = BTreeMap::new();
        for line in css.lines() {
            for part in line.split(';') {
                if let Some((name, value)) = part.trim().split_once(": #")
                    && name.starts_with("--")
                {
                    let channel = |i: usize| {
                        f64::from(u8::from_str_radix(&value[i..i + 2], 16).unwrap()) / 255.0
                    };
                    found.insert(name.to_owned(), [channel(0), channel(2), channel(4)]);
                }
            }
        }
        found
    }

    /// WCAG 2.2: relative luminance.
    fn luminance(rgb: [f64; 3]) -> f64 {
        let linear =
            rgb.map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    #[test]
    fn both_themes_have_enough_contrast() {
        for css in [include_str!("../assets/page.css"), include_str!("../assets/dark.css")] {
            let colours = colours(css);
            let contrast = |a: &str, b: &str| {
                let (a, b) = (luminance(colours[a]), luminance(colours[b]));
                (a.max(b) + 0.05) / (a.min(b) + 0.05)
            };
            for text in ["--ink", "--soft", "--link", "--good", "--warning", "--bad"] {
                for ground in ["--paper", "--panel"] {
                    assert!(contrast(text, ground) >= 4.5, "{text} on {ground}");
                }
            }
            for n in 0..8 {
                let line = format!("--c{n}");
                assert!(
                    contrast(&line, "--panel") >= 3.0,
                    "{line}: {}",
                    contrast(&line, "--panel")
                );
            }
        }
    }

    #[test]
    fn nothing_in_the_scripts_ends_their_element() {
        for script in [super::UPLOT, super::SCRIPT, super::LICENCE] {
            let lower = script.to_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("<!--"));
        }
        assert!(!super::LICENCE.contains("*/"));
        assert!(!super::style().to_lowercase().contains("</style"));
    }
}
