//! Faults of a text that is no TOML.

use std::ops::Range;

use toml::de::Error;

use crate::printable;

/// Faults that are alone: what comes after them is read as it was meant.
const DUPLICATE: &str = "duplicate key";
const UNQUOTED: &str = "string values must be quoted";
const BEHIND: &str = "unexpected key or value, expected newline, `#`";
const UNCLOSED: &str = "invalid basic string, expected `\"`";
const NO_VALUE: &str = "key with no value, expected `=`";
/// Words for what is no line of this format at all, as of another one.
const NO_TOML: [&str; 2] = ["invalid key-value pair", "invalid unquoted key"];
/// Words for a text without quotes that begins as a number or a date does, as an address, or as `nan`,
/// `true` or `false`, as some names. There may be several for one word.
const LIKE_A_VALUE: [&str; 11] = [
    "invalid boolean",
    "invalid float",
    "invalid mantissa",
    "invalid fraction",
    "invalid exponent",
    "invalid integer",
    "invalid hexadecimal",
    "invalid octal",
    "invalid binary",
    "invalid date",
    "invalid time",
];
/// Quotes of word processors and web pages.
const CURLY: [char; 6] = ['“', '”', '„', '‘', '’', '‚'];
/// Largest number of faults that are told.
const MOST: usize = 50;

/// Faults with their places, in the order of the text: up to the first one after which the reader
/// may be lost.
pub(crate) fn told(text: &str, mut faults: Vec<Error>) -> impl Iterator<Item = (usize, String)> {
    faults.sort_by_key(|fault| place(fault).start);
    let (mut known, mut last) = ((0, 0), None);
    faults.retain(|fault| {
        let at = place(fault).start;
        let is_unquoted = is_unquoted(fault.message());
        if is_unquoted {
            known = (at, word_start(text, known, at));
        }
        let key = (if is_unquoted { known.1 } else { at }, is_unquoted);
        last.replace(key) != Some(key)
    });
    let is_alone = |fault: &&Error| fault.message() == DUPLICATE || is_unquoted(fault.message());
    let several = faults.iter().take_while(is_alone).count() + 1;
    let left = several.min(faults.len()).saturating_sub(MOST);
    let more = faults.get(MOST).filter(|_| left > 0).map(|fault| place(fault).start);
    let more = more.map(|at| (at, format!("{left} more mistakes from here on are not listed")));
    let listed = faults.into_iter().take(several.min(MOST)).map(move |fault| {
        let at = place(&fault);
        let shown = printable(text.get(at.clone()).unwrap_or_default());
        let what = match fault.message() {
            DUPLICATE => match first(text, &at) {
                Some(line) => format!(
                    "duplicate key `{shown}`: it is there already (line {line}); remove one of them"
                ),
                None => format!("duplicate key `{shown}`: remove one of them"),
            },
            message if is_unquoted(message) => {
                let word = text.get(word(text, &at)).unwrap_or_default();
                let small = word.to_lowercase();
                let shown = printable(word);
                if word.is_empty() {
                    let key = before(text, at.start).trim().replace('\t', " ");
                    format!("the value is missing behind `{}`", printable(&key))
                } else if ["true", "false"].contains(&small.as_str()) {
                    format!("`{shown}`: write it in small letters: {small}")
                } else if word.contains(CURLY) {
                    let plain = printable(word.trim_matches(CURLY));
                    format!("`{shown}`: the quotes must be plain ones: \"{plain}\"")
                } else if word.contains(';') {
                    format!("`{shown}`: one KEY = VALUE a line, without `;`")
                } else if let Some(truth) = truth(&small) {
                    let key = key(text, &at).map_or_else(String::new, |key| format!("{key} = "));
                    format!("`{shown}`: write `{key}{truth}`, or \"{shown}\" if it is a text")
                } else if is_number(word) {
                    format!("`{shown}`: {message}")
                } else {
                    format!("`{shown}`: {UNQUOTED}, as in \"{shown}\"")
                }
            }
            BEHIND => {
                let more =
                    text.get(at.start..).unwrap_or_default().lines().next().unwrap_or_default();
                format!(
                    "`{}` stands behind the value: one KEY = VALUE a line, and # for a comment",
                    printable(more)
                )
            }
            UNCLOSED => "the string has no closing quote: it ends with its line".to_owned(),
            NO_VALUE => {
                let line = before(text, at.end).trim().replace('\t', " ");
                format!(
                    "`{}` has no value: write `KEY = VALUE`, as in `prefer = true`",
                    printable(&line)
                )
            }
            message if NO_TOML.iter().any(|begin| message.starts_with(begin)) => {
                format!("{message} (the file is TOML: KEY = VALUE, below [TABLE] or [[source]])")
            }
            message => message.to_owned(),
        };
        (at.start, what)
    });
    listed.chain(more)
}

fn place(fault: &Error) -> Range<usize> {
    fault.span().unwrap_or(0..0)
}

/// True of words for a value that may be meant as text.
fn is_unquoted(message: &str) -> bool {
    message.starts_with(UNQUOTED) || LIKE_A_VALUE.iter().any(|begin| message.starts_with(begin))
}

/// Word of this format for one by which others say yes or no.
fn truth(word: &str) -> Option<bool> {
    match word {
        "yes" | "on" | "enabled" | "enable" => Some(true),
        "no" | "off" | "disabled" | "disable" => Some(false),
        _ => None,
    }
}

/// Key that has the value at this place, if it is a plain one of few letters.
fn key<'t>(text: &'t str, at: &Range<usize>) -> Option<&'t str> {
    let before = before(text, word(text, at).start).trim_end().strip_suffix('=')?.trim_end();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let key = before.rsplit(|c| !plain(c)).next()?;
    (1..=40).contains(&key.len()).then_some(key)
}

/// True of a word that is meant as one number.
fn is_number(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_digit() || "._+-eE".contains(c))
        && word.matches('.').count() < 2
}

/// Text of the line before a byte.
fn before(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    before.rsplit_once('\n').map_or(before, |(_, line)| line)
}

/// Start of the word in which a byte is. Looks back to a byte before whose word is known to start
/// at `start`, and no farther: a line, or a word, may be as long as the text and full of faults.
fn word_start(text: &str, (known, start): (usize, usize), at: usize) -> usize {
    let between = text.get(known..at).unwrap_or_default();
    let found = between.rsplit_once(|c: char| c.is_whitespace() || "=,[{".contains(c));
    found.map_or(start, |(_, head)| at - head.len())
}

/// Place of the whole word of which a part is at fault.
fn word(text: &str, part: &Range<usize>) -> Range<usize> {
    let begin = word_start(text, (0, 0), part.start);
    let behind = text.get(part.end..).unwrap_or_default();
    let ends = behind.find(|c: char| c.is_whitespace() || ",]}#".contains(c));
    let end = part.end + ends.unwrap_or(behind.len());
    let found = text.get(begin..end).unwrap_or_default();
    begin..begin + found.trim_end().len()
}

/// Line of the key or table, from 1, of which another is at `twin`: the last one before that is
/// written in the same way, of a key in the same table.
fn first(text: &str, twin: &Range<usize>) -> Option<usize> {
    let start = twin.start - before(text, twin.start).len();
    let written = text.get(start..twin.end)?.trim_start();
    let name = written.trim_start_matches('[').trim_start();
    let is_header = |line: &str| line.starts_with('[');
    let earlier: Vec<&str> = text.get(..start)?.lines().map(str::trim_start).collect();
    let of_table = earlier.iter().rposition(|line| is_header(line)).unwrap_or(0);
    let from = if is_header(written) { 0 } else { of_table };
    let is_twin = |line: &&str| {
        let rest = line.trim_start_matches('[').trim_start().strip_prefix(name);
        is_header(line) == is_header(written)
            && rest.is_some_and(|rest| rest.trim_start().starts_with(['=', ']']))
    };
    Some(from + 1 + earlier.get(from..)?.iter().rposition(is_twin)?)
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn told(text: &str) -> String {
        parse(text, "t", &[], |_, _| {}).unwrap_err().to_string()
    }

    #[test]
    fn a_key_that_is_there_twice_is_named_with_both_its_lines() {
        for (text, line, name, first) in [
            ("page = 1\nb = 2\npage= 3\n", 3, "page", Some(1)),
            ("[x]\na = 1\n\n[x]\nb = 1\n", 4, "x", Some(1)),
            ("[x]\na = 1\n[[ x ]]\n", 3, "x", Some(1)),
            ("a = 1\n[y]\n[[x]]\na = 1\n[[x]]\n  a = 2\na = 3\n", 7, "a", Some(6)),
            ("x.a = 1\ny.a = 2\nx.a = 2\n", 3, "a", Some(1)),
            ("ab = 1\n\"a\" = 2\na = 3\n", 3, "a", None),
            ("x = { a = 1, a = 2 }\n", 1, "a", None),
        ] {
            let already =
                first.map_or(String::new(), |n| format!(" it is there already (line {n});"));
            let wanted = format!("t:{line}: duplicate key `{name}`:{already} remove one of them");
            assert_eq!(told(text), wanted, "{text}");
        }
    }

    #[test]
    fn the_first_fault_comes_first_and_none_that_only_follows() {
        let both = told("poll = \nhost = a.b\n[metrics\nlisten = [1\n");
        let lines: Vec<&str> = both.lines().collect();
        assert_eq!(lines[0], "t:1: the value is missing behind `poll =`");
        assert_eq!(lines[1], "t:2: `a.b`: string values must be quoted, as in \"a.b\"");
        assert!(lines[2].starts_with("t:3: unclosed table") && lines.len() == 3, "{both}");
        for value in ["192.0.2.7:123", "ntp.example.org", "2001:db8::1", "1.5ms", "a b"] {
            let wanted = format!("t:2: `{value}`: string values must be quoted, as in \"{value}\"");
            assert_eq!(told(&format!("\nhost = {value} # it\n")), wanted);
            assert_eq!(told(&format!("\nhosts = [{value}, \"b\"]\n")), wanted);
        }
        let names = ["time.example.org", "0.pool.ntp.org", "10.example.org", "0x.example", "1e.x"];
        for value in names.into_iter().chain(["false.example", "0b.example", "1.2.3.4e5"]) {
            let wanted = format!("t:2: `{value}`: string values must be quoted, as in \"{value}\"");
            assert_eq!(told(&format!("\nhost = {value} # it\n")), wanted);
            assert_eq!(told(&format!("\nhosts = [{value}, \"b\"]\n")), wanted);
            let two = told(&format!("a = {value}\nb = {value}\nb = 1"));
            assert_eq!(two.lines().count(), 3, "{two}");
        }
        assert_eq!(told("a = “b”"), "t:1: `“b”`: the quotes must be plain ones: \"b\"");
        assert!(told("a = 8; b = 1").starts_with("t:1: `8; b`: one KEY = VALUE a line, without"));
        assert!(told("a = \"b\nc = 1").starts_with("t:1: the string has no closing quote"));
        let comma = "t:1: `,` stands behind the value: one KEY = VALUE a line, and # for a comment";
        assert_eq!(told("a = 8,\n"), comma);
        let lone = "t:2: `prefer` has no value: write `KEY = VALUE`, as in `prefer = true`";
        assert_eq!(told("[[source]]\n  prefer\nhost = \"a\"\n"), lone);
        for other in ["{\"source\": [{\"host\": \"a\"}]}", "source:\n  - host: a\n"] {
            assert!(told(other).lines().next().unwrap().contains("TOML: KEY = VALUE"), "{other}");
        }
        assert_eq!(told("a = True"), "t:1: `True`: write it in small letters: true");
        for (word, truth) in [("yes", "true"), ("On", "true"), ("no", "false"), ("off", "false")] {
            let or = format!("or \"{word}\" if it is a text");
            let wanted = format!("t:2: `{word}`: write `nts = {truth}`, {or}");
            for line in [format!("nts = {word} # it"), format!("a = {{ b = 1, nts={word} }}")] {
                assert_eq!(told(&format!("[x]\n{line}")), wanted, "{line}");
            }
            let listed = format!("t:1: `{word}`: write `{truth}`, {or}");
            assert_eq!(told(&format!("a = [{word}]")), listed);
        }
        assert!(told("a = 1e").starts_with("t:1: `1e`: invalid exponent"));
        let long = format!("t:1: the value is missing behind `{}…`", "a".repeat(60));
        assert_eq!(told(&format!("{}\t=", "a".repeat(61))), long);
        assert!(told("a = [1, 2\nb = 3\nc = 4\n").starts_with("t:2: missing comma"));
        assert_eq!(told("a = [1, 2\nb = 3\nc = 4\n").lines().count(), 1);
    }

    /// Duplicates look for their twins in all of the text before.
    #[test]
    fn a_text_full_of_faults_is_told_in_part() {
        let found = told(&"a = 1\n".repeat(20_001));
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 51);
        assert!(lines[49].starts_with("t:51: duplicate key `a`"), "{}", lines[49]);
        assert_eq!(lines[50], "t:52: 19950 more mistakes from here on are not listed");
        assert_eq!(told(&"a = 1\n".repeat(51)).lines().count(), 50);
    }

    /// A look back to the start of the line, or of the word, for each of them takes an hour.
    #[test]
    fn a_long_line_full_of_faults_is_told_in_part() {
        let found = told(&format!("a = [{}]", "x,".repeat(1 << 18)));
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 51);
        assert_eq!(lines[50], "t:1: 262094 more mistakes from here on are not listed");
        let found = told(&format!("a = 0x{}", "g".repeat(1 << 18)));
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}
