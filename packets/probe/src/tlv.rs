//! Extensions behind the base packet (RFC 8972 section 4): type, length, value.

use truechimer_keys::Key;

use crate::wire::CODE;

/// Bytes of flags, type and length.
pub const HEAD: usize = 4;
/// The reflector has not understood it (U).
pub const UNRECOGNISED: u8 = 0x80;
/// Malformed, with all that follows (M).
pub const MALFORMED: u8 = 0x40;
/// The code of the extensions does not fit (I).
pub const FORGED: u8 = 0x20;

/// Extra padding: to make a packet longer.
const PADDING: u8 = 1;
/// Code of the extensions before it.
const HMAC: u8 = 8;

/// An extension as it is being gone through: its flags' place, its type, and where its value stands.
#[derive(Clone, Copy, Debug)]
struct Extension {
    at: usize,
    kind: u8,
    end: usize,
}

/// Extension that begins here; `Err` if it is malformed, `None` at the end.
fn extension(bytes: &[u8], at: usize) -> Option<Result<Extension, ()>> {
    let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
    let &[_, kind, high, low, ..] = rest else { return Some(Err(())) };
    let end = at + HEAD + usize::from(u16::from_be_bytes([high, low]));
    let fits = end <= bytes.len() && (kind != HMAC || end == at + HEAD + CODE);
    Some(if fits { Ok(Extension { at, kind, end }) } else { Err(()) })
}

/// Fills `bytes`, all that follows the base packet, with one extension of padding; what is too short for one stays.
pub fn pad(bytes: &mut [u8]) {
    let length = bytes.len().checked_sub(HEAD).and_then(|length| u16::try_from(length).ok());
    if let (Some(length), [flags, kind, high, low, ..]) = (length, bytes) {
        (*flags, *kind) = (UNRECOGNISED, PADDING);
        [*high, *low] = length.to_be_bytes();
    }
}

/// Makes what follows a request's base packet what follows the reply's, in its place and as long as it is: flags are set
/// as the reflector understands each, the code of the extensions is checked by `key`, and made anew for the reply.
///
/// `asked` and `answered` are the sequence numbers of request and reply, which that code covers.
pub fn reflect(bytes: &mut [u8], asked: u32, answered: u32, key: Option<&Key>) {
    let forged = !is_authentic(bytes, asked, key);
    let mut at = 0;
    let mut code = None;
    while let Some(found) = extension(bytes, at) {
        let flags = if forged { FORGED } else { 0 };
        let Ok(Extension { kind, end, .. }) = found else {
            set(bytes, at, flags | MALFORMED);
            break;
        };
        let understood = kind == PADDING || (kind == HMAC && key.is_some());
        set(bytes, at, flags | if understood { 0 } else { UNRECOGNISED });
        code = code.or((kind == HMAC).then_some(at));
        at = end;
    }
    if let (Some(at), Some(key), false) = (code, key, forged) {
        let made = bytes.get(..at).and_then(|before| key.hmac(&[&answered.to_be_bytes(), before]));
        let room = bytes.get_mut(at + HEAD..at + HEAD + CODE);
        if let (Some(room), Some(made)) = (room, made.as_ref().and_then(|made| made.get(..CODE))) {
            room.copy_from_slice(made);
        }
    }
}

fn set(bytes: &mut [u8], at: usize, flags: u8) {
    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = flags);
}

/// Tells whether the extensions are what whoever knows the key made of them (RFC 8972 section 4.8). Without a key nothing is
/// checked. One padding alone needs no code, and padding may stand behind it.
fn is_authentic(bytes: &[u8], sequence: u32, key: Option<&Key>) -> bool {
    let Some(key) = key else { return true };
    let (mut at, mut others, mut code) = (0, 0u32, None);
    while let Some(Ok(Extension { at: begin, kind, end })) = extension(bytes, at) {
        match (kind, code) {
            (PADDING, _) => {}
            (_, Some(_)) => return false,
            (HMAC, None) => code = Some(begin),
            _ => others += 1,
        }
        at = end;
    }
    let Some(begin) = code else { return others == 0 };
    let before = bytes.get(..begin).unwrap_or_default();
    let said = bytes.get(begin + HEAD..begin + HEAD + CODE).unwrap_or_default();
    key.hmac_fits(&[&sequence.to_be_bytes(), before], said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_keys::Algorithm;

    fn key() -> Key {
        Key::new(1, Algorithm::Sha256, b"sixteen bytes and more").unwrap()
    }

    fn made(kind: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![UNRECOGNISED, kind];
        bytes.extend((value.len() as u16).to_be_bytes());
        bytes.extend(value);
        bytes
    }

    /// Extensions with their code behind them.
    fn coded(before: &[u8], sequence: u32) -> Vec<u8> {
        let code = key().hmac(&[&sequence.to_be_bytes(), before]).unwrap();
        [before, &made(HMAC, &code[..16])].concat()
    }

    #[test]
    fn flags_say_what_is_understood() {
        let mut bytes = [made(PADDING, &[7; 9]), made(4, &[1, 2, 3, 4]), made(0, &[])].concat();
        let before = bytes.clone();
        reflect(&mut bytes, 1, 1, None);
        assert_eq!((bytes[0], bytes[13], bytes[21]), (0, UNRECOGNISED, UNRECOGNISED));
        let rest = |bytes: &[u8]| (bytes[1..13].to_vec(), bytes[14..21].to_vec());
        assert_eq!(rest(&bytes), rest(&before));
        // What is cut off is said, and what stands behind it is as it was.
        let mut bytes = [made(4, &[]), vec![0x80, 1, 0, 200, 9, 9]].concat();
        reflect(&mut bytes, 1, 1, None);
        assert_eq!(bytes, [0x80, 4, 0, 0, MALFORMED, 1, 0, 200, 9, 9]);
        let mut stub = vec![9, 9, 9];
        reflect(&mut stub, 1, 1, None);
        assert_eq!(stub, [MALFORMED, 9, 9]);
        // A code of another length.
        let mut odd = made(HMAC, &[0; 15]);
        reflect(&mut odd, 1, 1, Some(&key()));
        assert_eq!(odd[0], MALFORMED);
    }

    #[test]
    fn a_code_is_checked_and_made_anew() {
        let extensions = [made(4, &[1, 2, 3, 4]), made(PADDING, &[1; 3])].concat();
        let mut bytes = [coded(&extensions, 5), made(PADDING, &[0; 20])].concat();
        let whole = bytes.clone();
        reflect(&mut bytes, 5, 3, Some(&key()));
        assert_eq!((bytes[0], bytes[8], bytes[15], bytes[35]), (UNRECOGNISED, 0, 0, 0));
        let code = key().hmac(&[&3u32.to_be_bytes(), &bytes[..15]]).unwrap();
        assert_eq!(bytes[19..35], code[..16]);
        // Of another number, changed, without a code, or with something behind it.
        let mut changed = whole.clone();
        changed[5] ^= 1;
        let more = [coded(&extensions, 5), made(4, &[])].concat();
        for (mut bytes, asked) in [(whole, 6), (changed, 5), (extensions, 5), (more, 5)] {
            let value = bytes[4..8].to_vec();
            reflect(&mut bytes, asked, 3, Some(&key()));
            assert_eq!((bytes[0] & FORGED, bytes[8] & FORGED), (FORGED, FORGED));
            assert_eq!(bytes[4..8], value);
        }
        // Padding alone needs none.
        let mut padded = vec![0; 30];
        pad(&mut padded);
        reflect(&mut padded, 5, 3, Some(&key()));
        assert_eq!(padded[..4], [0, PADDING, 0, 26]);
    }

    proptest! {
        #[test]
        fn hostile_bytes_stay_as_many_and_end(
            mut bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(8), any::<u8>()], 0..300), with: bool,
        ) {
            let before = bytes.clone();
            reflect(&mut bytes, 1, 2, with.then(key).as_ref());
            prop_assert_eq!(bytes.len(), before.len());
            // Twice is as once, but for the code, which is of another packet then.
            if !with {
                let once = bytes.clone();
                reflect(&mut bytes, 1, 2, None);
                prop_assert_eq!(bytes, once);
            }
        }
    }
}
