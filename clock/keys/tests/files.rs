//! Properties of files of keys.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use truechimer_keys::{Algorithm, Key, Keys};

fn error(text: &str) -> String {
    Keys::parse(text, "k").unwrap_err().to_string()
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        made in proptest::collection::btree_map(1u32.., (0usize..5, any::<[u8; 32]>()), 0..8),
        upper: bool,
    ) {
        let mut text = String::from("# a comment\n\n% another\n");
        for (number, (which, bytes)) in &made {
            let algorithm = Algorithm::ALL[*which];
            let secret = &bytes[..*algorithm.key_len().start()];
            let digit = |byte: &u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
            let digits: String = secret.iter().map(digit).collect();
            text.push_str(&format!("  {number}\t{} HEX:{digits} \n", algorithm.name()));
        }
        let keys = Keys::parse(&text, "k").unwrap();
        prop_assert_eq!(keys.len(), made.len());
        for (number, (which, bytes)) in &made {
            let algorithm = Algorithm::ALL[*which];
            let key = Key::new(*number, algorithm, &bytes[..*algorithm.key_len().start()]);
            prop_assert_eq!(keys.get(*number), key.as_ref());
        }
    }

    /// Whatever is in the file, no message has a word of it but numbers and names of types.
    #[test]
    fn no_message_has_a_key(words in proptest::collection::vec("[A-Za-z0-9:é]{12,20}", 1..5)) {
        let line = words.join(" ");
        if let Err(why) = Keys::parse(&line, "k") {
            let why = why.to_string();
            prop_assert!(why.starts_with("k:1: "));
            prop_assert!(words.iter().all(|word| !why.contains(word.as_str())), "{}", why);
        }
    }

    #[test]
    fn any_text_is_read(text in "\\PC{0,80}(\n[0-9]{1,3} (AES128|SHA256|MD5) (HEX:)?[0-9a-fG]{0,40}){0,4}") {
        let _ = Keys::parse(&text, "k");
    }
}

#[test]
fn text_is_a_key_too() {
    let keys = Keys::parse("1 AES128 ASCII:0123456789abcdef\n2 SHA512 plain-words", "k").unwrap();
    assert_eq!(keys.get(1), Key::new(1, Algorithm::Aes128, b"0123456789abcdef").as_ref());
    assert_eq!(keys.get(2), Key::new(2, Algorithm::Sha512, b"plain-words").as_ref());
}

#[test]
fn mistakes_have_their_line_and_a_mend() {
    for (line, why) in [
        ("5", "must be a number, a type and a key"),
        ("5 AES128 HEX:00 HEX:00", "must be a number, a type and a key"),
        ("5 secretsecret", "has no type, which would mean MD5: MD5 is not used here"),
        ("5 MD5 HEX:00", "chronyc keygen 5 AES128"),
        ("5 SHA1 HEX:00", "SHA1 is not used here"),
        ("5 aes128 HEX:00", "the type must be one of AES128, AES256, SHA256, SHA384, SHA512"),
        ("0 AES128 HEX:00", "the number must be 1 to 4294967295"),
        ("4294967296 AES128 HEX:00", "the number must be 1 to 4294967295"),
        ("5 AES128 HEX:00", "key 5 has 1 bytes: AES128 takes 16"),
        ("5 SHA256 ASCII:short", "key 5 has 5 bytes: SHA256 takes 10 to 128"),
        ("5 AES128 HEX:0", "pairs of hexadecimal digits"),
        ("5 AES128 HEX:0g", "pairs of hexadecimal digits"),
        ("5 SHA256 ASCII:äöüäöüäöü", "goes as HEX:"),
    ] {
        let said = error(&format!("\n# 1\n{line}"));
        assert!(said.starts_with("k:3: ") && said.contains(why), "{said}");
    }
    let key = "5 AES128 ASCII:0123456789abcdef\n";
    assert_eq!(error(&key.repeat(2)), "k:2: key 5 is there already (line 1)");
    assert_eq!(error("1\n2").lines().count(), 2, "all at once");
}

/// Other programs may have use for them.
#[test]
fn keys_of_other_types_beside_ours_are_left_out() {
    let keys = "1 MD5 old\n2 AES128 ASCII:0123456789abcdef\n3 older";
    let read = Keys::parse(keys, "k").unwrap();
    assert_eq!(read.len(), 1);
    for (number, line) in [(1, "k:1: MD5"), (3, "k:3: has no type")] {
        assert_eq!(read.get(number), None);
        assert!(read.unused(number).unwrap().to_string().starts_with(line));
    }
    assert!(read.unused(2).is_none());
    assert_eq!(
        error(&format!("{keys}\n1 SHA256 0123456789")),
        "k:4: key 1 is there already (line 1)"
    );
}

#[test]
fn others_may_not_read_the_file() {
    let path = std::env::temp_dir().join(format!("truechimer-keys-{}", std::process::id()));
    let said = |path| Keys::read(path).unwrap_err().to_string();
    assert!(said(&path).contains("cannot be read: No such file"));
    fs::write(&path, "5 AES128 ASCII:0123456789abcdef").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(said(&path).contains("chmod 600"), "{}", said(&path));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(Keys::read(&path).unwrap().len(), 1);
    fs::write(&path, [0xff]).unwrap();
    assert!(said(&path).contains("UTF-8"));
    fs::remove_file(&path).unwrap();
}
