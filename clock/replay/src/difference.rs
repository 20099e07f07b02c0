//! In what two decisions differ, in the log's own terms.

use truechimer_engine::Action;

use super::Decided;

/// Number of characters of a value that are shown.
const SHOWN: usize = 60;

/// The first thing in which two decisions differ, and what it is in either.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    /// Name such as `hand.bound` or `action.send.packet[40]`.
    pub field: String,
    /// There.
    pub logged: String,
    /// Here.
    pub decided: String,
}

impl Difference {
    /// Between two decisions, one of which may be missing.
    pub(super) fn between(logged: Option<&Action>, decided: Option<&Action>) -> Difference {
        let text = |action: &Action| serde_json::to_string(&Decided::of(action)).ok();
        let (logged, decided) = (logged.and_then(text), decided.and_then(text));
        let node = |text: &'_ Option<String>| text.as_deref().map(|text| Node::new(text).label());
        if let (Some(a), Some(b)) = (&logged, &decided)
            && let Some(found) = differ(&Node::new(a), &Node::new(b), String::new())
        {
            return found;
        }
        let or = |text, none: &str| node(text).unwrap_or_else(|| none.into());
        Difference {
            field: "the decision".into(),
            logged: or(&logged, "no further one"),
            decided: or(&decided, "none"),
        }
    }
}

/// A value in JSON. Numbers stay text: some have more than 64 bits.
struct Node<'t> {
    text: &'t str,
    inner: Inner<'t>,
}

enum Inner<'t> {
    Leaf,
    List(Vec<Node<'t>>),
    Map(Vec<(&'t str, Node<'t>)>),
}

impl<'t> Node<'t> {
    /// Of JSON as `serde_json` writes it, without blanks.
    fn new(text: &'t str) -> Node<'t> {
        Node::read(text).0
    }

    /// A value, and what stands after it.
    fn read(text: &'t str) -> (Node<'t>, &'t str) {
        let (mut list, mut map) = (Vec::new(), Vec::new());
        let (inner, rest) = match text.as_bytes().first() {
            Some(b'[') => {
                let mut rest = text.get(1..).unwrap_or_default();
                while !rest.is_empty() && !rest.starts_with(']') {
                    let (node, after) = Node::read(rest);
                    list.push(node);
                    rest = after.strip_prefix(',').unwrap_or(after);
                }
                (Inner::List(list), rest.get(1..).unwrap_or_default())
            }
            Some(b'{') => {
                let mut rest = text.get(1..).unwrap_or_default();
                while !rest.is_empty() && !rest.starts_with('}') {
                    let (key, after) = rest.split_at(leaf(rest));
                    let (node, after) = Node::read(after.strip_prefix(':').unwrap_or(after));
                    map.push((key.trim_matches('"'), node));
                    rest = after.strip_prefix(',').unwrap_or(after);
                }
                (Inner::Map(map), rest.get(1..).unwrap_or_default())
            }
            _ => (Inner::Leaf, text.get(leaf(text)..).unwrap_or_default()),
        };
        let text = text.get(..text.len() - rest.len()).unwrap_or(text);
        (Node { text, inner }, rest)
    }

    /// Kind of the decision: the names down to where there is more than one.
    fn label(&self) -> String {
        match &self.inner {
            Inner::Map(map) => match map.as_slice() {
                [(key, node)] => {
                    let more = node.label();
                    if more.is_empty() { (*key).into() } else { format!("{key}.{more}") }
                }
                _ => String::new(),
            },
            _ => String::new(),
        }
    }

    fn shown(&self) -> String {
        let mut text: String = self.text.chars().take(SHOWN).collect();
        if text.len() < self.text.len() {
            text.push('…');
        }
        text
    }
}

/// Length of a string, number or word, bytes: at least one, unless nothing is left.
fn leaf(text: &str) -> usize {
    let bytes = text.as_bytes();
    let end = if bytes.first() == Some(&b'"') {
        let mut escaped = false;
        let closed = bytes.iter().skip(1).position(|&byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        closed.map(|at| at + 2)
    } else {
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':');
        bytes.iter().position(ends).map(|at| at.max(1))
    };
    end.unwrap_or(bytes.len())
}

fn differ(a: &Node<'_>, b: &Node<'_>, path: String) -> Option<Difference> {
    let named = |field: String, logged: String, decided: String| {
        let field = if field.is_empty() { "the decision".into() } else { field };
        Some(Difference { field, logged, decided })
    };
    match (&a.inner, &b.inner) {
        _ if a.text == b.text => None,
        (Inner::Map(one), Inner::Map(other)) => {
            if let ([(key, _)], [(other, _)]) = (one.as_slice(), other.as_slice())
                && key != other
            {
                return named(path, a.label(), b.label());
            }
            let of = |key: &str| {
                if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
            };
            let get = |map: &[(&str, Node<'_>)], key: &str| map.iter().position(|(k, _)| *k == key);
            for (key, node) in one {
                match get(other, key).and_then(|at| other.get(at)) {
                    Some((_, twin)) => {
                        if let Some(found) = differ(node, twin, of(key)) {
                            return Some(found);
                        }
                    }
                    None => return named(of(key), node.shown(), "nothing".into()),
                }
            }
            let (key, node) = other.iter().find(|(key, _)| get(one, key).is_none())?;
            named(of(key), "nothing".into(), node.shown())
        }
        (Inner::List(one), Inner::List(other)) => {
            let pairs = one.iter().zip(other).enumerate();
            let found = pairs.filter_map(|(i, (a, b))| differ(a, b, format!("{path}[{i}]"))).next();
            let items = |list: &[Node<'_>]| format!("{} items", list.len());
            found.or_else(|| named(path, items(one), items(other)))
        }
        _ => named(path, a.shown(), b.shown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_that_differs_is_found() {
        for (logged, decided, field, a, b) in [
            (
                r#"{"hand":{"base":340282366920938463463374607431768211455,"x":1}}"#,
                r#"{"hand":{"base":340282366920938463463374607431768211454,"x":2}}"#,
                "hand.base",
                "340282366920938463463374607431768211455",
                "340282366920938463463374607431768211454",
            ),
            (r#"{"a":{"p":[1,[2,3]]}}"#, r#"{"a":{"p":[1,[2,4]]}}"#, "a.p[1][1]", "3", "4"),
            (r#"{"a":{"p":[1,2]}}"#, r#"{"a":{"p":[1]}}"#, "a.p", "2 items", "1 items"),
            (r#"{"a":{"p":1,"q":2}}"#, r#"{"a":{"p":1}}"#, "a.q", "2", "nothing"),
            (r#"{"a":{"p":1}}"#, r#"{"a":{"p":1,"q":"\",}"}}"#, "a.q", "nothing", r#""\",}""#),
            (
                r#"{"hand":{"x":1,"y":2}}"#,
                r#"{"action":{"send":{"x":1,"y":2}}}"#,
                "the decision",
                "hand",
                "action.send",
            ),
            (
                r#"{"action":{"close":{"x":1,"y":2}}}"#,
                r#"{"action":{"send":{"x":1,"y":2}}}"#,
                "action",
                "close",
                "send",
            ),
            (r#"{"a":null}"#, r#"{"a":{"b":"é\\"}}"#, "a", "null", r#"{"b":"é\\"}"#),
        ] {
            let found = differ(&Node::new(logged), &Node::new(decided), String::new()).unwrap();
            assert_eq!(
                (found.field.as_str(), found.logged.as_str(), found.decided.as_str()),
                (field, a, b)
            );
            assert_eq!(differ(&Node::new(logged), &Node::new(logged), String::new()), None);
        }
        let long = format!("[\"{}\"]", "x".repeat(500));
        let found = differ(&Node::new(&long), &Node::new("[1]"), String::new()).unwrap();
        assert_eq!(found.logged.chars().count(), SHOWN + 1);
        assert_eq!(found.field, "[0]");
    }
}
