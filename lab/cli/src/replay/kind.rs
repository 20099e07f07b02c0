//! Kind of a file, by how it begins.

/// The files that can be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A replay log: lines of JSON.
    Log,
    /// A stamp file: rows of numbers.
    Stamps,
}

/// Beginnings of packed files, and what unpacks them.
const PACKED: [(&[u8], &str, &str); 4] = [
    (b"\x1f\x8b", "gzip", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
];

/// The kind of a file that begins like this, or why it is none.
pub fn of(begins: &[u8]) -> Result<Kind, String> {
    for (magic, name, unpack) in PACKED {
        if begins.starts_with(magic) {
            return Err(format!(
                "it is packed ({name}); unpack it first: {unpack} FILE | truechimer-lab replay -"
            ));
        }
    }
    if begins.starts_with(b"\xff\xfe") || begins.starts_with(b"\xfe\xff") {
        return Err("it is UTF-16 text; give plain ASCII or UTF-8".into());
    }
    let blank = |byte: &u8| byte.is_ascii_whitespace();
    if begins.iter().any(|byte| byte.is_ascii_control() && !blank(byte)) {
        return Err("it is a binary file, neither a replay log nor a stamp file".into());
    }
    let text = begins.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begins);
    match text.iter().find(|byte| !blank(byte)) {
        Some(b'{') => Ok(Kind::Log),
        // An empty file is told by what reads it.
        None | Some(b'#' | b'%' | b'0'..=b'9' | b'.' | b'+' | b'-') => Ok(Kind::Stamps),
        Some(_) => Err("it is neither a replay log (which begins with a brace) nor a stamp file \
            (rows of Ta Tb Te Tf in numbers; any other line begins with # or %)"
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_how_they_begin() {
        for begins in ["", "\n\n", "# Ta", "% x", "12 3", "-1 2", "\u{feff}1 2 3 4", " \t 7"] {
            assert_eq!(of(begins.as_bytes()), Ok(Kind::Stamps), "{begins:?}");
        }
        for begins in ["{", "{\"truechimer-replay\":3", "  {}"] {
            assert_eq!(of(begins.as_bytes()), Ok(Kind::Log), "{begins:?}");
        }
        for (begins, why) in [
            (
                &b"\x1f\x8b\x08\0\0"[..],
                "packed (gzip); unpack it first: gzip -dc FILE | truechimer",
            ),
            (b"\x28\xb5\x2f\xfd\0", "zstd"),
            (b"\xfd7zXZ\0\0", "xz -dc"),
            (b"BZh91AY", "bzip2"),
            (b"\xff\xfe1\0", "UTF-16"),
            (b"\x7fELF\x02", "binary"),
            (b"1 2 3 4\n\0", "binary"),
            (b"Ta Tb Te Tf\n", "any other line begins with # or %"),
            (b"<html>", "neither a replay log (which begins with a brace) nor a stamp file"),
        ] {
            let error = of(begins).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
