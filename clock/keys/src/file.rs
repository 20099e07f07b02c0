//! Files of keys, in chrony's format (chrony.keys(5)): `ID TYPE KEY`, one a line.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use truechimer_config::{ConfigError, Problem, read_secret};
use zeroize::Zeroizing;

use crate::{Algorithm, Key};

/// The largest file that is read, bytes: some thousand keys.
const MAX_FILE: u64 = 256 << 10;
/// Characters that begin a comment.
const COMMENTS: [char; 4] = ['#', '%', ';', '!'];

/// Keys by their numbers, and why those of other types are none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys {
    known: BTreeMap<u32, Key>,
    unused: BTreeMap<u32, Problem>,
}

impl Keys {
    /// Reads a file that only its owner, or root, may change, and that none but they and its group may read.
    ///
    /// # Errors
    /// If it cannot be read, others may read it, or it has mistakes: all of them, each with its line.
    pub fn read(path: &Path) -> Result<Keys, ConfigError> {
        let unreadable = |why| ConfigError::unreadable(path, &why);
        let bytes = Zeroizing::new(read_secret(path, MAX_FILE).map_err(unreadable)?);
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| unreadable(io::Error::other("it is no text in UTF-8")))?;
        Keys::parse(text, &path.display().to_string())
    }

    /// Keys in a text, which messages call `name`.
    ///
    /// # Errors
    /// Mistakes in it: all of them, each with its line. None says anything of a key. A key of a type that is not used
    /// here is no mistake beside others: it may be for other programs.
    pub fn parse(text: &str, name: &str) -> Result<Keys, ConfigError> {
        let (mut keys, mut problems) = (Keys::default(), Vec::new());
        let mut lines: BTreeMap<u32, usize> = BTreeMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with(COMMENTS) {
                continue;
            }
            let problem = |why| Problem::in_file(name, Some(line), why);
            match numbered(text) {
                Ok((number, read)) => match (lines.insert(number, line), read) {
                    (Some(first), _) => {
                        problems
                            .push(problem(format!("key {number} is there already (line {first})")));
                    }
                    (None, Line::Key(key)) => {
                        keys.known.insert(number, key);
                    }
                    (None, Line::Unused(why)) => {
                        keys.unused.insert(number, problem(why));
                    }
                },
                Err(why) => problems.push(problem(why)),
            }
        }
        if keys.known.is_empty() {
            problems.extend(keys.unused.values().cloned());
        }
        ConfigError::unless_empty(problems).map(|()| keys)
    }

    /// Reason why the key of this number is not used, if the file has it.
    #[must_use]
    pub fn unused(&self, number: u32) -> Option<&Problem> {
        self.unused.get(&number)
    }

    /// The key of this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Key> {
        self.known.get(&number)
    }

    /// All keys, by ascending number.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.known.values()
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// Line of a file.
enum Line {
    Key(Key),
    /// Of a type that is not used here, and why.
    Unused(String),
}

fn numbered(line: &str) -> Result<(u32, Line), String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (number, rest) = match words.as_slice() {
        [number, rest @ ..] if (1..=2).contains(&rest.len()) => (*number, rest),
        _ => return Err("must be a number, a type and a key, as in 5 AES128 HEX:…".into()),
    };
    let number = number.parse().ok().filter(|number: &u32| *number != 0);
    let number = number.ok_or("the number must be 1 to 4294967295")?;
    let read = match rest {
        [name @ ("MD5" | "SHA1"), _] => Line::Unused(no_longer(name)),
        [name, secret] => Line::Key(key(number, name, secret)?),
        _ => Line::Unused(format!("has no type, which would mean MD5: {}", no_longer("MD5"))),
    };
    Ok((number, read))
}

fn key(number: u32, name: &str, secret: &str) -> Result<Key, String> {
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    // The type might be the key.
    let algorithm = algorithm.ok_or_else(|| format!("the type must be one of {}", names()))?;
    let secret = bytes(secret)?;
    Key::new(number, algorithm, &secret).ok_or_else(|| {
        let (least, most) = algorithm.key_len().into_inner();
        let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
        format!("key {number} has {} bytes: {} takes {wanted}", secret.len(), algorithm.name())
    })
}

fn no_longer(name: &str) -> String {
    format!(
        "{name} is not used here, as it is given up by RFC 8573 and NIST: make an AES128 key, as \
         'chronyc keygen 5 AES128' does, for both ends"
    )
}

fn names() -> String {
    Algorithm::ALL.map(Algorithm::name).join(", ")
}

/// Bytes of a key: text without a prefix or behind `ASCII:`, or hexadecimal digits behind `HEX:`.
fn bytes(secret: &str) -> Result<Zeroizing<Vec<u8>>, &'static str> {
    let Some(digits) = secret.strip_prefix("HEX:") else {
        let text = secret.strip_prefix("ASCII:").unwrap_or(secret);
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        let bytes = || Zeroizing::new(text.into());
        return printable.then(bytes).ok_or("a key of other than ASCII goes as HEX:…");
    };
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(value(high)? << 4 | value(low)?).ok(),
        _ => None,
    };
    // Room for all of it: what a vector leaves behind as it grows is not wiped.
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.as_bytes().chunks(2) {
        bytes.push(byte(pair).ok_or("HEX: is followed by pairs of hexadecimal digits")?);
    }
    Ok(bytes)
}
