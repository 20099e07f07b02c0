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

/// Keys by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys(BTreeMap<u32, Key>);

impl Keys {
    /// Reads a file that only its owner, or root, may change, and that none but they and its group may read.
    ///
    /// # Errors
    /// If it cannot be read, others may read it, or it has mistakes: all of them, each with its line.
    pub fn read(path: &Path) -> Result<Keys, ConfigError> {
        let unreadable = |why| ConfigError::unreadable(path, &why);
        let bytes = Zeroizing::new(read_secret(path, MAX_FILE).map_err(unreadable)?);
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| unreadable(io::Error::other("is not text in UTF-8")))?;
        Keys::parse(text, &path.display().to_string())
    }

    /// Keys in a text, which messages call `name`.
    ///
    /// # Errors
    /// Its mistakes: all of them, each with its line. None says anything of a key.
    pub fn parse(text: &str, name: &str) -> Result<Keys, ConfigError> {
        let (mut keys, mut problems) = (Keys::default(), Vec::new());
        let mut lines: BTreeMap<u32, usize> = BTreeMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with(COMMENTS) {
                continue;
            }
            let read = key(text).and_then(|key| match lines.get(&key.number()) {
                Some(first) => Err(format!("key {} is there already (line {first})", key.number())),
                None => Ok(key),
            });
            match read {
                Ok(key) => {
                    lines.insert(key.number(), line);
                    keys.0.insert(key.number(), key);
                }
                Err(why) => problems.push(Problem::in_file(name, Some(line), why)),
            }
        }
        ConfigError::unless_empty(problems).map(|()| keys)
    }

    /// The key of this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Key> {
        self.0.get(&number)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn key(line: &str) -> Result<Key, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [number, name, secret] = match words.as_slice() {
        [number, name, secret] => [*number, *name, *secret],
        [_, _] => return Err(format!("has no type, which would mean MD5: {}", no_longer("MD5"))),
        _ => return Err("must be a number, a type and a key, as in 5 AES128 HEX:…".into()),
    };
    let number = number.parse().ok().filter(|number: &u32| *number != 0);
    let number = number.ok_or("the number must be 1 to 4294967295")?;
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    let algorithm = algorithm.ok_or_else(|| match name {
        "MD5" | "SHA1" => no_longer(name),
        // It might be the key.
        _ => format!("the type must be one of {}", names()),
    })?;
    let secret = Zeroizing::new(bytes(secret)?);
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
fn bytes(secret: &str) -> Result<Vec<u8>, &'static str> {
    let Some(digits) = secret.strip_prefix("HEX:") else {
        let text = secret.strip_prefix("ASCII:").unwrap_or(secret);
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        return printable.then(|| text.into()).ok_or("a key of other than ASCII goes as HEX:…");
    };
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(value(high)? << 4 | value(low)?).ok(),
        _ => None,
    });
    pairs.collect::<Option<_>>().ok_or("HEX: is followed by pairs of hexadecimal digits")
}
