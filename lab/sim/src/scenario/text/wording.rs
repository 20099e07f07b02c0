//! Messages of serde and the TOML parser, in the words of somebody who writes a scenario.

use core::fmt::Write as _;
use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use truechimer_config::nearest;
use truechimer_engine::POLL_RANGE;

use crate::limits::must_be;

/// How much of a value is shown.
const SHOWN: usize = 40;
/// The kinds of what is a word or a table: the key, and its kinds.
const KINDS: [(&[&str], &str); 3] = [
    (&["stamps", "law"], "kernel, user"),
    (&["law"], "constant, exponential, gamma, lomax, recorded"),
    (&["when"], "always, bursts, daily, between, ramp"),
];

/// A value in a document, and the way to it.
struct Place<'d, 'i> {
    steps: Vec<Step<'d>>,
    value: &'d Spanned<DeValue<'i>>,
}

/// One step of that way.
#[derive(Clone, Copy)]
enum Step<'d> {
    Key(&'d str),
    /// An entry of a list, from 1.
    Entry(usize),
}

impl<'d> Place<'d, '_> {
    /// `server 2: forward: queue 1: law`.
    fn name(&self) -> String {
        let mut name = String::new();
        for step in &self.steps {
            let _ = match step {
                Step::Key(key) if name.is_empty() => write!(name, "{key}"),
                Step::Key(key) => write!(name, ": {key}"),
                Step::Entry(n) => write!(name, " {n}"),
            };
        }
        name
    }

    fn keys(&self) -> Vec<&'d str> {
        let key = |step: &Step<'d>| match *step {
            Step::Key(key) => Some(key),
            Step::Entry(_) => None,
        };
        self.steps.iter().filter_map(key).collect()
    }

    /// `server.forward.queue`, as a table's heading has it.
    fn heading(&self) -> String {
        self.keys().join(".")
    }

    fn is_entry(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Entry(_)))
    }

    /// The name with the value, if that is no table.
    fn shown(&self, text: &str) -> String {
        let name = self.name();
        if matches!(self.value.get_ref(), DeValue::Table(_)) {
            return name;
        }
        format!("{name} = {}", excerpt(text, &self.value.span()))
    }

    /// The kinds that there are of it, if it is a word or a table.
    fn kinds(&self) -> Option<&'static str> {
        let keys = self.keys();
        KINDS.iter().find(|(end, _)| keys.ends_with(end)).map(|(_, kinds)| *kinds)
    }
}

/// Text that stands there, if it is short.
fn excerpt(text: &str, span: &Range<usize>) -> String {
    let all = text.get(span.clone()).unwrap_or("");
    let mut shown: String = all.chars().take(SHOWN).collect();
    if shown.len() < all.len() {
        shown.push('…');
    }
    shown
}

/// The innermost value with this span and of such a kind.
fn place<'d, 'i>(
    document: &'d DeTable<'i>,
    span: &Range<usize>,
    fits: &dyn Fn(&DeValue<'i>) -> bool,
) -> Option<Place<'d, 'i>> {
    let mut steps = Vec::new();
    let mut found = None;
    in_table(document, &mut steps, &mut |value, steps| {
        if value.span() == *span && fits(value.get_ref()) {
            found = Some(Place { steps: steps.to_vec(), value });
        }
    });
    found
}

/// Every value of a document with the way to it, each before what is in it.
fn in_table<'d, 'i>(
    table: &'d DeTable<'i>,
    steps: &mut Vec<Step<'d>>,
    look: &mut dyn FnMut(&'d Spanned<DeValue<'i>>, &[Step<'d>]),
) {
    for (key, value) in table.iter() {
        steps.push(Step::Key(key.get_ref().as_ref()));
        in_value(value, steps, look);
        steps.pop();
    }
}

fn in_value<'d, 'i>(
    value: &'d Spanned<DeValue<'i>>,
    steps: &mut Vec<Step<'d>>,
    look: &mut dyn FnMut(&'d Spanned<DeValue<'i>>, &[Step<'d>]),
) {
    look(value, steps);
    match value.get_ref() {
        DeValue::Table(table) => in_table(table, steps, look),
        DeValue::Array(array) => {
            for (i, entry) in array.iter().enumerate() {
                steps.push(Step::Entry(i + 1));
                in_value(entry, steps, look);
                steps.pop();
            }
        }
        _ => {}
    }
}

/// Explains the parser's words on text that is no TOML.
pub(super) fn of_syntax(message: &str, text: &str, span: &Range<usize>) -> String {
    let found = excerpt(text, span);
    let found = found.lines().next().unwrap_or("").trim();
    if message.starts_with("string values must be quoted") {
        let what = if found.is_empty() { "nothing".into() } else { format!("`{found}`") };
        return format!(
            "{what} where a value has to be: a number, true or false, text in quotation marks, or \
             a list in square brackets"
        );
    }
    if message == "duplicate key" {
        return format!("`{found}` is there twice; each table of a list has a heading in [[ ]]");
    }
    let message = message.strip_suffix(", expected nothing").unwrap_or(message);
    message.to_owned()
}

/// Explains serde's words on TOML that is no scenario. `known` are the keys of the scenario itself.
pub(super) fn of_value(
    message: &str,
    text: &str,
    span: &Range<usize>,
    document: &DeTable<'_>,
    known: &[String],
) -> String {
    if message.starts_with("unknown ") {
        let mut what = unknown(message);
        let above = document.iter().any(|(key, _)| key.span() == *span);
        let key = quoted(message).next().unwrap_or("");
        if !above && message.starts_with("unknown field ") && known.iter().any(|k| k == key) {
            what.push_str(". Keys of the scenario itself stand above its first table");
        }
        return what;
    }
    if message.starts_with("missing field ") {
        let field = quoted(message).next().unwrap_or("");
        let table = place(document, span, &|value| matches!(value, DeValue::Table(_)));
        return match (table, field) {
            (Some(table), _) => format!("{}: `{field}` is missing", table.name()),
            (None, "server") => "no server: there must be at least one [[server]]".to_owned(),
            (None, _) => format!("`{field}` is missing; it stands above the first table"),
        };
    }
    let is_map = message.starts_with("invalid type: map");
    let is_list = message.starts_with("invalid type: sequence");
    let fits = |value: &DeValue<'_>| match value {
        DeValue::Table(_) => is_map || message.starts_with("wanted exactly"),
        DeValue::Array(_) => is_list || message.starts_with("invalid length"),
        DeValue::Datetime(_) => true,
        _ => !is_map && !is_list,
    };
    // What is wanted as text or as a table may be anything else.
    let found = place(document, span, &fits).or_else(|| place(document, span, &|_| true));
    let Some(place) = found else { return message.to_owned() };
    let wanted = match message.rsplit_once(", expected ") {
        Some((_, wanted)) => must(wanted, &place, text),
        None => kind(message, &place),
    };
    format!("{}: {wanted}", place.shown(text))
}

/// Says what a value must be, what it is, and how to mend it.
fn must(wanted: &str, place: &Place<'_, '_>, text: &str) -> String {
    let value = place.value.get_ref();
    let found = match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number that is not whole",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date or a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let whole = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"].contains(&wanted);
    let is_table = matches!(value, DeValue::Table(_));
    let heading = place.heading();
    if is_table && place.is_entry() && wanted != "a sequence" {
        return format!("must be a single table: write [{heading}], in one pair of brackets");
    }
    if is_table && wanted == "a sequence" {
        return format!("must be a list: write [[{heading}]], in two pairs of brackets, for each");
    }
    match (wanted, value) {
        // Of those that are no numbers serde thinks as a number too large.
        (_, DeValue::Integer(_)) if whole => match range(&place.keys()) {
            Some((low, high)) => must_be(low, high),
            None => "too small or too large".to_owned(),
        },
        (_, DeValue::Float(_)) if whole => match as_whole(text, place) {
            Some(number) => format!("must be a whole number without point or exponent: {number}"),
            None => "must be a whole number".to_owned(),
        },
        (_, DeValue::String(inner)) if whole || wanted == "f64" => {
            let number = if whole { "a whole number" } else { "a number" };
            let is_number = inner.trim().parse::<f64>().is_ok();
            let mend = if is_number { "; leave out the quotation marks" } else { "" };
            format!("must be {number}, found text{mend}")
        }
        (_, DeValue::String(inner)) if wanted == "a boolean" => {
            let mend = ["true", "false"].contains(&inner.as_ref());
            let mend = if mend { "; leave out the quotation marks" } else { "" };
            format!("must be true or false, found text{mend}")
        }
        // Where serde says it of the word itself, the word is known.
        ("struct variant", _) => {
            let word = text.get(place.value.span()).unwrap_or("").trim_matches(['"', '\'']);
            let key = place.keys().last().copied().unwrap_or("");
            format!("has keys of its own: write {key}.{word} = {{ … }} with them in the braces")
        }
        _ if whole => format!("must be a whole number, found {found}"),
        ("f64", _) => format!("must be a number, found {found}"),
        ("a boolean", _) => format!("must be true or false, found {found}"),
        ("a string", _) => format!("must be text in quotation marks, found {found}"),
        ("an array of length 2", DeValue::Array(_)) => "must be a list of two".to_owned(),
        ("an array of length 2", _) => format!("must be a list of two, found {found}"),
        ("a sequence", _) => {
            format!("must be a list of tables: write [[{heading}]] and its keys below, for each")
        }
        _ if wanted.starts_with("struct variant ") => {
            format!("must be a table, with its keys in braces, found {found}")
        }
        _ => format!("must be a table: write [{heading}] and its keys below; found {found}"),
    }
}

/// Explains what is wrong with something of which there are several kinds.
fn kind(message: &str, place: &Place<'_, '_>) -> String {
    let kinds = place.kinds();
    let one_of = kinds.map_or_else(|| "one of its kinds".to_owned(), |k| format!("one of: {k}"));
    if message.ends_with("more than 1 element") {
        return format!("must be a single {one_of}; another one goes into a table of its own");
    }
    if message.starts_with("expected table") {
        return "has no keys: write it as a word in quotation marks".to_owned();
    }
    if message.starts_with("wanted ") {
        return format!("must be {one_of}");
    }
    message.to_owned()
}

/// The range of the keys that are whole numbers of few bits: what does not fit is out of it.
fn range(keys: &[&str]) -> Option<(f64, f64)> {
    match *keys.last()? {
        "poll" | "adaptive" => Some((f64::from(*POLL_RANGE.start()), f64::from(*POLL_RANGE.end()))),
        "stratum" => Some(crate::server::STRATA),
        "precision" => Some(crate::server::PRECISIONS),
        "counter-hz" => Some(crate::host::COUNTER_HZ),
        _ => None,
    }
}

/// A number like `2.4e9` as a whole one, if it is one that is written with few digits.
fn as_whole(text: &str, place: &Place<'_, '_>) -> Option<i64> {
    let number = text.get(place.value.span())?.replace('_', "").parse::<f64>().ok()?;
    (libm::rint(number) == number && number.abs() < 1e15).then_some(number as i64)
}

/// Texts between backquotes.
pub(super) fn quoted(message: &str) -> impl Iterator<Item = &str> {
    message.split('`').skip(1).step_by(2)
}

/// Of an unknown key or kind, the nearest of those that are known, which serde lists, comes first.
fn unknown(message: &str) -> String {
    // The unknown one comes first, then those that are known.
    let mut all = quoted(message);
    let found = all.next().unwrap_or("");
    let known: Vec<&str> = all.collect();
    let what = if message.starts_with("unknown field") { "key" } else { "kind" };
    let near = nearest(found, &known);
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let stop = if near.is_empty() { "." } else { "" };
    format!("unknown {what} `{found}`{near}{stop} Known are: {}", known.join(", "))
}
