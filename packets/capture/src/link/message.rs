//! Messages of rtnetlink about links.

/// Contents of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// The interface has these flags (`IFF_…`).
    Flags(u32),
    /// Interface gone.
    Gone,
}

/// Lengths of `struct nlmsghdr` and `struct ifinfomsg`.
pub(super) const HEADER: usize = 16;
const BODY: usize = 16;

/// Reads from the messages in `bytes` what they say of the interface of this number, in their
/// order. What is cut short or contradicts itself ends the list.
pub(super) fn links(bytes: &[u8], index: u32) -> impl Iterator<Item = Seen> + '_ {
    messages(bytes).filter_map(move |(kind, body)| {
        let &[family, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] = body.first_chunk::<BODY>()?;
        // A bridge tells of its ports leaving in the same words, but for the family.
        if u32::from_ne_bytes([i0, i1, i2, i3]) != index || i32::from(family) != libc::AF_UNSPEC {
            return None;
        }
        match kind {
            libc::RTM_NEWLINK => Some(Seen::Flags(u32::from_ne_bytes([f0, f1, f2, f3]))),
            libc::RTM_DELLINK => Some(Seen::Gone),
            _ => None,
        }
    })
}

/// Each message's type and body.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let &[l0, l1, l2, l3, t0, t1, ..] = bytes.first_chunk::<HEADER>()?;
        let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.checked_next_multiple_of(4)?..).unwrap_or_default();
        Some((u16::from_ne_bytes([t0, t1]), body))
    })
}

/// Each attribute's type and value, of a message's.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let &[l0, l1, t0, t1] = bytes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([t0, t1]), value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, family: u8, index: u32, flags: u32, more: usize) -> Vec<u8> {
        let length = (HEADER + BODY + more) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend([family, 0, 0, 0]);
        bytes.extend(index.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.resize(HEADER + BODY + more.next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn only_the_link_in_question_counts() {
        let mut bytes = message(libc::RTM_NEWLINK, 0, 7, 0x41, 5);
        bytes.extend(message(libc::RTM_NEWLINK, 0, 8, 0, 0));
        bytes.extend(message(libc::RTM_DELLINK, libc::AF_BRIDGE as u8, 7, 0, 0));
        bytes.extend(message(libc::RTM_NEWADDR, 0, 7, 0, 8));
        bytes.extend(message(libc::RTM_DELLINK, 0, 7, 0, 3));
        assert_eq!(links(&bytes, 7).collect::<Vec<_>>(), [Seen::Flags(0x41), Seen::Gone]);
        bytes.truncate(bytes.len() - 5);
        assert_eq!(links(&bytes, 7).collect::<Vec<_>>(), [Seen::Flags(0x41)]);
    }

    proptest! {
        #[test]
        fn whatever_comes_there_is_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(links(&bytes, 0).count() <= bytes.len() / HEADER);
        }
    }
}
