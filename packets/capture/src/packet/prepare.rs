//! Preparations before a packet socket is opened.

use std::io;
use std::os::fd::AsFd;

use super::PacketOptions;
use super::block::COOKED;
use super::calls::Socket;
use crate::filter::{
    Instruction, LINKTYPE_LINUX_SLL2, LINKTYPE_RAW, beside, keeping, op, uncooked,
};
use crate::link::Link;
use crate::tap::{Direction, TapError};

/// The interface, unless it is `any`, and the link type of its packets.
pub(super) fn find(interface: &str) -> Result<(Option<Link>, u16), TapError> {
    if interface == "any" {
        return Ok((None, LINKTYPE_LINUX_SLL2));
    }
    let link = Link::named(interface).map_err(|why| TapError {
        doing: format!("interface `{interface}`"),
        why: match why.kind() {
            io::ErrorKind::NotFound => "there is none of that name".to_owned(),
            _ => why.to_string(),
        },
        mend: Some("`ip link` lists them; `any` is all of them".to_owned()),
    })?;
    let link_type = link_type(link.hardware);
    Ok((Some(link), link_type))
}

/// The link type of a kind of hardware (`ARPHRD_…`).
fn link_type(hardware: u16) -> u16 {
    /// Bare IP, as of mobile modems; newer than the C library's list.
    const RAW_IP: u16 = 519;
    match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => 1,
        libc::ARPHRD_NONE
        | libc::ARPHRD_TUNNEL
        | libc::ARPHRD_TUNNEL6
        | libc::ARPHRD_SIT
        | RAW_IP => LINKTYPE_RAW,
        libc::ARPHRD_IEEE80211 => 105,
        libc::ARPHRD_IEEE80211_PRISM => 119,
        libc::ARPHRD_IEEE80211_RADIOTAP => 127,
        _ => LINKTYPE_LINUX_SLL2,
    }
}

/// The program that the socket gets: the direction, what is seen twice, the filter and the snap
/// length in one, so that nothing is copied which is not wanted, and the kernel counts what is.
pub(super) fn code(
    options: &PacketOptions,
    link: Option<&Link>,
    link_type: u16,
) -> Result<Vec<Instruction>, TapError> {
    let wrong = |why: String| TapError {
        doing: format!("setting the filter on {}", options.interface),
        why,
        mend: None,
    };
    let is_cooked = link_type == LINKTYPE_LINUX_SLL2;
    let header = if is_cooked { COOKED as u32 } else { 0 };
    // 0 would reject everything.
    let keep = options.snap_length.saturating_sub(header).max(1);
    let filter = match &options.filter {
        None => vec![Instruction::plain(op::RETURN, keep)],
        Some(filter) if filter.link_type() != link_type => {
            return Err(wrong(format!(
                "it was compiled for link type {}, the interface has {link_type}",
                filter.link_type()
            )));
        }
        Some(filter) => {
            let code = keeping(filter.code(), keep);
            if is_cooked {
                uncooked(&code).ok_or_else(|| {
                    wrong(format!("the kernel cannot tell what {:?} asks for", filter.text()))
                })?
            } else {
                code
            }
        }
    };
    let mut code = Vec::new();
    match (options.direction, link) {
        // What loopback sends it also receives.
        (_, Some(link)) if link.is_loopback => code.extend(unless_sent(false)),
        (Direction::In, _) => code.extend(unless_sent(false)),
        (Direction::Out, None) => {
            code.extend(unless_sent(true));
            code.extend(unless_loopback_sent());
        }
        (Direction::Out, Some(_)) => code.extend(unless_sent(true)),
        (Direction::Unknown, None) => code.extend(unless_loopback_sent()),
        (Direction::Unknown, Some(_)) => {}
    }
    if !code.is_empty() {
        // A filter begins with A = 0.
        code.push(Instruction::plain(op::LD_CONSTANT, 0));
    }
    code.extend(filter);
    Ok(code)
}

const SENT: u32 = libc::PACKET_OUTGOING as u32;

/// Goes on with packets that were sent, or with all others.
fn unless_sent(sent: bool) -> [Instruction; 3] {
    let (jt, jf) = if sent { (1, 0) } else { (0, 1) };
    [
        Instruction::plain(op::LD_WORD, beside::PACKET_TYPE),
        Instruction { code: op::JUMP_EQUAL, jt, jf, k: SENT },
        Instruction::plain(op::RETURN, 0),
    ]
}

/// Goes on with all but what loopback sends, among the packets of all interfaces.
fn unless_loopback_sent() -> [Instruction; 5] {
    [
        Instruction::plain(op::LD_WORD, beside::HARDWARE_TYPE),
        Instruction { code: op::JUMP_EQUAL, jt: 0, jf: 3, k: u32::from(libc::ARPHRD_LOOPBACK) },
        Instruction::plain(op::LD_WORD, beside::PACKET_TYPE),
        Instruction { code: op::JUMP_EQUAL, jt: 0, jf: 1, k: SENT },
        Instruction::plain(op::RETURN, 0),
    ]
}

/// Puts the program on the socket.
pub(super) fn attach(
    socket: &Socket,
    code: &[Instruction],
    options: &PacketOptions,
) -> Result<(), TapError> {
    let filter = options.filter.as_ref().map_or("", |filter| filter.text());
    crate::filter::attach(socket.as_fd(), code).map_err(|why| TapError {
        doing: format!("setting the filter {filter:?} on {}", options.interface),
        why: why.to_string(),
        mend: match why.raw_os_error() {
            Some(libc::EINVAL) => Some(
                "the kernel takes no loops (`protochain`) and no more than 4096 instructions; \
                 filter while reading the file"
                    .to_owned(),
            ),
            Some(libc::ENOMEM) => Some("raise net.core.optmem_max".to_owned()),
            _ => None,
        },
    })
}

/// Error where there is no packet socket.
pub(super) fn not_allowed(why: io::Error) -> TapError {
    let mend = match why.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let program = std::env::current_exe()
                .map_or_else(|_| "PROGRAM".to_owned(), |path| path.display().to_string());
            Some(format!(
                "run it as root, or give the right to a copy of it that only a group may run \
                 (`truechimer capture --help` has the steps): `sudo setcap cap_net_raw+ep \
                 {program}` lets everybody see all packets who may run that"
            ))
        }
        Some(libc::EAFNOSUPPORT) => Some("the kernel needs CONFIG_PACKET".to_owned()),
        Some(libc::ENOPROTOOPT | libc::EINVAL) => Some("Linux 3.2 has TPACKET_V3".to_owned()),
        _ => None,
    };
    TapError { doing: "opening a packet socket".to_owned(), why: why.to_string(), mend }
}

/// Error where there is no ring.
pub(super) fn no_ring(options: &PacketOptions, why: io::Error) -> TapError {
    TapError {
        doing: format!("making a ring of {} MiB", options.ring_bytes >> 20),
        why: why.to_string(),
        mend: Some("free memory, or ask for less".to_owned()),
    }
}

/// Error where the socket was not bound.
pub(super) fn not_bound(options: &PacketOptions, why: &io::Error) -> TapError {
    TapError {
        doing: format!("listening to {}", options.interface),
        why: why.to_string(),
        mend: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;

    fn link(is_loopback: bool) -> Link {
        Link { name: "x".to_owned(), index: 3, hardware: 1, is_up: true, is_loopback }
    }

    #[test]
    fn the_snap_length_is_in_every_program() {
        let options = PacketOptions { snap_length: 96, ..PacketOptions::new("x") };
        assert_eq!(
            code(&options, Some(&link(false)), 1).unwrap(),
            [Instruction::plain(op::RETURN, 96)]
        );
        // The cooked header is ours, and counts.
        let any = code(&options, None, LINKTYPE_LINUX_SLL2).unwrap();
        assert_eq!(any.last(), Some(&Instruction::plain(op::RETURN, 76)));
        let none = PacketOptions { snap_length: 0, ..options };
        assert_eq!(code(&none, None, LINKTYPE_LINUX_SLL2).unwrap().last().unwrap().k, 1);
    }

    #[test]
    fn a_filter_for_another_link_type_is_refused() {
        let Ok(filter) = Filter::compile("udp", None, LINKTYPE_RAW, 96) else { return };
        let options = PacketOptions { filter: Some(filter), ..PacketOptions::new("x") };
        let why = code(&options, Some(&link(false)), 1).unwrap_err();
        assert!(why.to_string().contains("link type 101"), "{why}");
    }

    #[test]
    fn kinds_of_hardware() {
        let kinds = [1, 772, 0xfffe, 776, 512, 280].map(link_type);
        assert_eq!(kinds, [1, 1, 101, 101, 276, 276]);
    }

    #[test]
    fn without_the_right_it_is_said_which() {
        let why = not_allowed(io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(why.contains("cap_net_raw+ep /"), "{why}");
    }
}
