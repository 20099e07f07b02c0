//! Settings from the environment. `truechimer group exec` sets it; nothing here allocates, as it
//! may be read before the program's own memory is set up.
//!
//! | variable | what |
//! |---|---|
//! | `TRUECHIMER_GROUP` | the group's name; without it the library does nothing |
//! | `TRUECHIMER_GROUP_OFF` | if it is not empty or `0`, the library does nothing |
//! | `TRUECHIMER_GROUP_EXCEPT` | names of programs, with commas between, in which it does nothing |
//! | `TRUECHIMER_GROUP_SOCKET` | the agent's socket |
//! | `TRUECHIMER_GROUP_FRONT` | the front's page (for reads of the time of delivery) |
//! | `TRUECHIMER_GROUP_READS` | `round` (default), `now` or `delivery` |
//! | `TRUECHIMER_GROUP_MONOTONIC` | `1`: the monotonic clocks show the group's time, too |
//! | `TRUECHIMER_GROUP_OUTSIDE` | `block` (default), `exit` or `resume` |
//! | `TRUECHIMER_GROUP_TOGETHER` | with how many members' programs this one starts, 1 to 254; none: all live ones' |
//! | `TRUECHIMER_GROUP_PATIENCE` | after how many ms without a value the process ends; none: never |
//! | `TRUECHIMER_GROUP_QUIET` | `1`: waiting for an agent or a value is not told on standard error |
//! | `TRUECHIMER_GROUP_MODE` | `active`, `semi-active` or `passive`: the group's mode must be this |
//! | `TRUECHIMER_GROUP_TAI` | CLOCK_TAI − CLOCK_REALTIME in s (default 0) |
//! | `TRUECHIMER_GROUP_FAMILY` | which processes belong together: 16 hexadecimal digits |
//! | `TRUECHIMER_GROUP_KIN` | the library's own: the descriptor of the processes' register |
//! | `TRUECHIMER_GROUP_BEFORE` | the library's own: the attachment of the program that this one was executed by |
//! | `TRUECHIMER_GROUP_CHILDREN` | `inherit` (default) or `none`: what programs that this one executes do |

use core::ffi::CStr;

use truechimer_group::Mode;
use truechimer_group_client::link::Together;

/// Results of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// A round of the group for each, by threads that are the same at all replicas.
    Round,
    /// The group's time at present, which is no replica's.
    Now,
    /// The agreed time of the message that the program is processing.
    Delivery,
}

/// Fate of reads outside the primary component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outside {
    /// Reads wait; if something was missed meanwhile, the process ends.
    Block,
    /// The process ends.
    Exit,
    /// Reads wait, and go on at the group's present rounds if something was missed meanwhile.
    Resume,
}

/// The settings of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings<'a> {
    /// The agent's socket.
    pub socket: Option<&'a CStr>,
    /// The front's page.
    pub front: Option<&'a CStr>,
    /// Results of reads.
    pub reads: Reads,
    /// True if the monotonic clocks are the group's.
    pub monotonic: bool,
    /// Fate of reads outside the primary component.
    pub outside: Outside,
    /// With whom the program starts.
    pub together: Together,
    /// After how long a read ends the process, ns.
    pub patience_ns: Option<u64>,
    /// True if nothing is said of waiting.
    pub quiet: bool,
    /// Mode that the group must have.
    pub mode: Option<Mode>,
    /// CLOCK_TAI − CLOCK_REALTIME, ns.
    pub tai_ns: i64,
    /// Which processes belong together; 0: this one begins a new family.
    pub family: u64,
    /// The descriptor of the processes' register.
    pub kin: Option<i32>,
    /// True if programs that this one executes take part.
    pub inherit: bool,
}

/// Which variable is wrong, and what it may be.
pub type Wrong = (&'static str, &'static str);

impl<'a> Settings<'a> {
    /// Settings from the environment; none if this process (a program of that name) takes no part.
    ///
    /// # Errors
    /// The first variable that is wrong.
    pub fn of(
        get: impl Fn(&CStr) -> Option<&'a CStr>,
        program: &[u8],
    ) -> Result<Option<Settings<'a>>, Wrong> {
        // An empty variable is as good as none.
        let get = |name: &CStr| get(name).filter(|value| !value.is_empty());
        let bytes = |name: &CStr| get(name).map(CStr::to_bytes);
        if bytes(c"TRUECHIMER_GROUP").is_none()
            || bytes(c"TRUECHIMER_GROUP_OFF").is_some_and(|off| off != b"0")
            || bytes(c"TRUECHIMER_GROUP_EXCEPT").is_some_and(|names| is_among(program, names))
        {
            return Ok(None);
        }
        let reads = match bytes(c"TRUECHIMER_GROUP_READS") {
            None | Some(b"round") => Reads::Round,
            Some(b"now") => Reads::Now,
            Some(b"delivery") => Reads::Delivery,
            Some(_) => return Err(("TRUECHIMER_GROUP_READS", "round, now or delivery")),
        };
        let monotonic = match bytes(c"TRUECHIMER_GROUP_MONOTONIC") {
            None | Some(b"0") => false,
            Some(b"1") => true,
            Some(_) => return Err(("TRUECHIMER_GROUP_MONOTONIC", "0 or 1")),
        };
        let outside = match bytes(c"TRUECHIMER_GROUP_OUTSIDE") {
            None | Some(b"block") => Outside::Block,
            Some(b"exit") => Outside::Exit,
            Some(b"resume") => Outside::Resume,
            Some(_) => return Err(("TRUECHIMER_GROUP_OUTSIDE", "block, exit or resume")),
        };
        let together = match bytes(c"TRUECHIMER_GROUP_TOGETHER").map(|text| number(text, 10)) {
            // It is no replica, and starts with nobody.
            _ if reads == Reads::Now => Together::Apart,
            None => Together::All,
            Some(Some(count @ 1..=254)) => Together::Count(count as u8),
            Some(_) => return Err(("TRUECHIMER_GROUP_TOGETHER", "a number from 1 to 254")),
        };
        let patience_ns = match bytes(c"TRUECHIMER_GROUP_PATIENCE") {
            None => None,
            Some(text) => match number(text, 10).map(|ms| ms.saturating_mul(1_000_000)) {
                Some(ns) => Some(ns),
                None => return Err(("TRUECHIMER_GROUP_PATIENCE", "whole milliseconds")),
            },
        };
        let quiet = match bytes(c"TRUECHIMER_GROUP_QUIET") {
            None | Some(b"0") => false,
            Some(b"1") => true,
            Some(_) => return Err(("TRUECHIMER_GROUP_QUIET", "0 or 1")),
        };
        let mode = match bytes(c"TRUECHIMER_GROUP_MODE") {
            None => None,
            Some(b"active") => Some(Mode::Active),
            Some(b"semi-active") => Some(Mode::SemiActive),
            Some(b"passive") => Some(Mode::Passive),
            Some(_) => return Err(("TRUECHIMER_GROUP_MODE", "active, semi-active or passive")),
        };
        let tai_ns = match bytes(c"TRUECHIMER_GROUP_TAI").map(|text| number(text, 10)) {
            None => 0,
            Some(Some(seconds @ 0..=1000)) => seconds as i64 * 1_000_000_000,
            Some(_) => return Err(("TRUECHIMER_GROUP_TAI", "whole seconds from 0 to 1000")),
        };
        let family = match bytes(c"TRUECHIMER_GROUP_FAMILY").map(|text| number(text, 16)) {
            None => 0,
            Some(Some(family)) => family,
            Some(None) => return Err(("TRUECHIMER_GROUP_FAMILY", "16 hexadecimal digits")),
        };
        // A program may have made anything of this one: then there is no register.
        let kin = bytes(c"TRUECHIMER_GROUP_KIN")
            .and_then(|text| number(text, 10))
            .and_then(|fd| i32::try_from(fd).ok());
        let inherit = match bytes(c"TRUECHIMER_GROUP_CHILDREN") {
            None | Some(b"inherit") => true,
            Some(b"none") => false,
            Some(_) => return Err(("TRUECHIMER_GROUP_CHILDREN", "inherit or none")),
        };
        let (socket, front) = (get(c"TRUECHIMER_GROUP_SOCKET"), get(c"TRUECHIMER_GROUP_FRONT"));
        match reads {
            Reads::Round | Reads::Now if socket.is_none() => {
                Err(("TRUECHIMER_GROUP_SOCKET", "the path of the agent's socket"))
            }
            Reads::Delivery if front.is_none() => {
                Err(("TRUECHIMER_GROUP_FRONT", "the path of the front's page"))
            }
            Reads::Delivery if monotonic => {
                Err(("TRUECHIMER_GROUP_MONOTONIC", "0 with reads of the time of delivery"))
            }
            Reads::Round | Reads::Now | Reads::Delivery => Ok(Some(Settings {
                socket,
                front,
                reads,
                monotonic,
                outside,
                together,
                patience_ns,
                quiet,
                mode,
                tai_ns,
                family,
                kin,
                inherit,
            })),
        }
    }
}

/// True if a name is in a list with commas between.
fn is_among(name: &[u8], list: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|one| one == name && !one.is_empty())
}

/// A number without sign; none if there is anything else, or it is too large.
fn number(text: &[u8], base: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| {
        let digit = char::from(byte).to_digit(base)?;
        number.checked_mul(u64::from(base))?.checked_add(u64::from(digit))
    })
}

/// The value of `LD_PRELOAD` without a library of that file name, written into `into` with a zero
/// at its end; none if it does not fit or was not there.
pub fn without<'a>(list: &[u8], library: &[u8], into: &'a mut [u8]) -> Option<&'a CStr> {
    let mut length = 0;
    let mut removed = false;
    // As ld.so splits it.
    for one in list.split(|byte| matches!(byte, b' ' | b':')).filter(|one| !one.is_empty()) {
        if one.rsplit(|byte| *byte == b'/').next() == Some(library) {
            removed = true;
            continue;
        }
        if length > 0 {
            *into.get_mut(length)? = b':';
            length += 1;
        }
        into.get_mut(length..length + one.len())?.copy_from_slice(one);
        length += one.len();
    }
    *into.get_mut(length)? = 0;
    if removed { CStr::from_bytes_with_nul(into.get(..=length)?).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(
        variables: &[(&'static CStr, &'a CStr)],
        program: &[u8],
    ) -> Result<Option<Settings<'a>>, Wrong> {
        let get = |name: &CStr| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        Settings::of(get, program)
    }

    const GROUP: (&CStr, &CStr) = (c"TRUECHIMER_GROUP", c"bank");
    const SOCKET: (&CStr, &CStr) = (c"TRUECHIMER_GROUP_SOCKET", c"/run/x.sock");

    #[test]
    fn nothing_set_does_nothing() {
        assert_eq!(of(&[], b"date"), Ok(None));
        assert_eq!(of(&[(c"TRUECHIMER_GROUP", c"")], b"date"), Ok(None));
        assert_eq!(of(&[GROUP, SOCKET, (c"TRUECHIMER_GROUP_OFF", c"1")], b"date"), Ok(None));
        let except = (c"TRUECHIMER_GROUP_EXCEPT", c"top,date");
        assert_eq!(of(&[GROUP, SOCKET, except], b"date"), Ok(None));
        assert!(of(&[GROUP, SOCKET, except], b"dat").unwrap().is_some());
        assert!(of(&[GROUP, SOCKET, (c"TRUECHIMER_GROUP_OFF", c"0")], b"").unwrap().is_some());
    }

    #[test]
    fn all_set() {
        let settings = of(
            &[
                GROUP,
                SOCKET,
                (c"TRUECHIMER_GROUP_MONOTONIC", c"1"),
                (c"TRUECHIMER_GROUP_OUTSIDE", c"exit"),
                (c"TRUECHIMER_GROUP_TOGETHER", c"3"),
                (c"TRUECHIMER_GROUP_PATIENCE", c"1500"),
                (c"TRUECHIMER_GROUP_QUIET", c"1"),
                (c"TRUECHIMER_GROUP_MODE", c"semi-active"),
                (c"TRUECHIMER_GROUP_TAI", c"37"),
                (c"TRUECHIMER_GROUP_FAMILY", c"00000000000000fF"),
                (c"TRUECHIMER_GROUP_KIN", c"12"),
                (c"TRUECHIMER_GROUP_CHILDREN", c"none"),
            ],
            b"date",
        );
        let expected = Settings {
            socket: Some(SOCKET.1),
            front: None,
            reads: Reads::Round,
            monotonic: true,
            together: Together::Count(3),
            outside: Outside::Exit,
            patience_ns: Some(1_500_000_000),
            quiet: true,
            mode: Some(Mode::SemiActive),
            tai_ns: 37_000_000_000,
            family: 255,
            kin: Some(12),
            inherit: false,
        };
        assert_eq!(settings, Ok(Some(expected)));
    }

    #[test]
    fn what_reads_the_time_at_present_starts_with_nobody() {
        let together = (c"TRUECHIMER_GROUP_TOGETHER", c"3");
        let now = (c"TRUECHIMER_GROUP_READS", c"now");
        let settings = of(&[GROUP, SOCKET, now, together], b"postgres").unwrap().unwrap();
        assert_eq!((settings.reads, settings.together), (Reads::Now, Together::Apart));
        assert_eq!(of(&[GROUP, now], b"x").unwrap_err().0, "TRUECHIMER_GROUP_SOCKET");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, value) in [
            (c"TRUECHIMER_GROUP_READS", c"rounds"),
            (c"TRUECHIMER_GROUP_MONOTONIC", c"yes"),
            (c"TRUECHIMER_GROUP_OUTSIDE", c"wait"),
            (c"TRUECHIMER_GROUP_TOGETHER", c"0"),
            (c"TRUECHIMER_GROUP_TOGETHER", c"255"),
            (c"TRUECHIMER_GROUP_PATIENCE", c"1.5"),
            (c"TRUECHIMER_GROUP_PATIENCE", c"99999999999999999999"),
            (c"TRUECHIMER_GROUP_QUIET", c"yes"),
            (c"TRUECHIMER_GROUP_MODE", c"2"),
            (c"TRUECHIMER_GROUP_TAI", c"-1"),
            (c"TRUECHIMER_GROUP_TAI", c"1001"),
            (c"TRUECHIMER_GROUP_FAMILY", c"fg"),
            (c"TRUECHIMER_GROUP_CHILDREN", c"no"),
        ] {
            let wrong = of(&[GROUP, SOCKET, (name, value)], b"date").unwrap_err();
            assert_eq!(wrong.0.as_bytes(), name.to_bytes());
        }
        assert_eq!(of(&[GROUP], b"date").unwrap_err().0, "TRUECHIMER_GROUP_SOCKET");
        let delivery = (c"TRUECHIMER_GROUP_READS", c"delivery");
        assert_eq!(of(&[GROUP, SOCKET, delivery], b"x").unwrap_err().0, "TRUECHIMER_GROUP_FRONT");
        let nonsense = (c"TRUECHIMER_GROUP_KIN", c"x");
        assert_eq!(of(&[GROUP, SOCKET, nonsense], b"x").unwrap().unwrap().kin, None);
    }

    #[test]
    fn the_list_of_libraries_without_ours() {
        let mut room = [1; 40];
        let without = |list: &[u8], room: &mut [u8]| {
            without(list, b"our.so", room).map(|text| text.to_owned())
        };
        assert_eq!(without(b"/a/our.so", &mut room), Some(c"".to_owned()));
        assert_eq!(without(b"x.so:/a/our.so y.so", &mut room), Some(c"x.so:y.so".to_owned()));
        assert_eq!(without(b"x.so:my-our.so", &mut room), None);
        assert_eq!(without(b"x.so:our.so", &mut room[..4]), None);
        assert_eq!(without(b"x.so:our.so", &mut room[..5]), Some(c"x.so".to_owned()));
    }
}
