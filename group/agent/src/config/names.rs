//! Users and groups by their names, as the machine's own files have them.

use std::fs;

/// Number of a user that /etc/passwd has.
pub(super) fn user(name: &str) -> Result<u32, String> {
    look_up("user", name, "/etc/passwd")
}

/// Number of a group that /etc/group has.
pub(super) fn group(name: &str) -> Result<u32, String> {
    look_up("group", name, "/etc/group")
}

fn look_up(kind: &str, name: &str, file: &str) -> Result<u32, String> {
    let text = fs::read_to_string(file).map_err(|why| format!("cannot read {file}: {why}"))?;
    number_in(&text, name)
        .ok_or_else(|| format!("no {kind} '{}' in {file}: give its number", name.escape_debug()))
}

/// The third field of the line that begins with the name.
fn number_in(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        fields.nth(1)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_nothing_else_is() {
        let text = "root:x:0:0:root:/root:/bin/sh\nredis:x:107:\nodd\nwrong:x:many:\n";
        assert_eq!(number_in(text, "root"), Some(0));
        assert_eq!(number_in(text, "redis"), Some(107));
        for name in ["", "x", "odd", "wrong", "redis:x"] {
            assert_eq!(number_in(text, name), None, "{name}");
        }
        assert_eq!((user("root"), group("root")), (Ok(0), Ok(0)));
        let why = user("nobody-at-all").unwrap_err();
        assert!(why.contains("no user 'nobody-at-all' in /etc/passwd: give its number"), "{why}");
    }
}
