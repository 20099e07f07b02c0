//! Ranges of each setting, for the file and for the command line alike.

use std::ops::RangeInclusive;

use truechimer_group::{LONGEST_NAME, Member, Mode, Order};
use truechimer_group_client::valid_group;
use truechimer_time::{Rate, Span};

/// The most members of a group.
pub(super) const MOST_MEMBERS: usize = 64;
/// Range of `buffer`.
pub(super) const BUFFER: RangeInclusive<usize> = 1024..=1 << 26;
/// Range of `realtime`.
pub(super) const REAL_TIME: RangeInclusive<u8> = 1..=99;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * S;

/// The name of a group.
///
/// # Errors
/// If it is empty, too long, has other characters, or begins with a dot.
pub fn name(text: &str) -> Result<String, String> {
    if valid_group(text) {
        return Ok(text.to_owned());
    }
    Err(format!("must be 1 to {LONGEST_NAME} of a-z A-Z 0-9 . _ -, and not begin with a dot"))
}

/// Members as `1,2,3`.
///
/// # Errors
/// If one is no number of a node, or comes twice, or there are none or too many.
pub fn members(text: &str) -> Result<Vec<Member>, String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(|n| n.trim().parse()).collect();
    let numbers = numbers.map_err(|_| "must be node ids, as in 1,2,3".to_owned())?;
    universe(numbers.into_iter().map(i128::from))
}

/// Members, ascending.
pub(super) fn universe(numbers: impl Iterator<Item = i128>) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    for number in numbers.take(MOST_MEMBERS + 1) {
        let Some(number) = u32::try_from(number).ok().filter(|n| *n > 0) else {
            return Err(format!("{number} is no node id: they are 1 to {}", u32::MAX));
        };
        members.push(Member(number));
    }
    if members.is_empty() || members.len() > MOST_MEMBERS {
        return Err(format!("must be 1 to {MOST_MEMBERS} node ids"));
    }
    members.sort_unstable();
    match members.windows(2).find(|pair| pair.first() == pair.last()) {
        Some(pair) => Err(format!("node {} is there twice", pair.first().unwrap_or(&Member(0)))),
        None => Ok(members),
    }
}

/// Number of local members.
pub(super) fn local(count: i128) -> Result<u32, String> {
    let most = MOST_MEMBERS as u32;
    u32::try_from(count)
        .ok()
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| format!("must be 1 to {most} members"))
}

/// Division of the work among replicas.
///
/// # Errors
/// If it is no mode.
pub fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "active" => Ok(Mode::Active),
        "semi-active" => Ok(Mode::SemiActive),
        "passive" => Ok(Mode::Passive),
        _ => Err("must be active, semi-active or passive".to_owned()),
    }
}

/// Rule by which values are made of proposals.
///
/// # Errors
/// If it is none of the orders.
pub fn order(text: &str) -> Result<Order, String> {
    match text {
        "monotone" => Ok(Order::Monotone),
        "published" => Ok(Order::Published),
        _ => Err("must be monotone or published".to_owned()),
    }
}

/// Permissions of a socket, in octal.
///
/// # Errors
/// If they are none, or say more than who may read and write.
pub fn permissions(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| mode & !0o666 == 0 && mode & 0o600 == 0o600)
        .ok_or_else(|| "must be permissions in octal, 0600 to 0666, as in \"0660\"".to_owned())
}

/// The steering cap in ppm, as ppb.
///
/// # Errors
/// If it is no number, or not 1 to 100 000 ppm.
pub fn steering_cap(text: &str) -> Result<u32, String> {
    let rate: Rate = text.parse().map_err(|why| format!("{why}"))?;
    // To the nearest ppb.
    let ppb = (rate.as_ppt() + 500).div_euclid(1_000);
    u32::try_from(ppb)
        .ok()
        .filter(|ppb| (1_000..=100_000_000).contains(ppb))
        .ok_or_else(|| "must be 1 to 100000 ppm".to_owned())
}

macro_rules! spans {
    ($($name:ident: $range:expr, $limits:literal, $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        #[doc = concat!("If it is no span of time, or not ", $limits, ".")]
        pub fn $name(text: &str) -> Result<u64, String> {
            span(text, $range, $limits)
        }
    )*};
}

spans! {
    steering_time: 100 * MS..=HOUR, "100ms to 3600s", "In which an offset is steered away, ns.";
    horizon: MS..=HOUR, "1ms to 3600s", "How far ahead a proposal may be, ns.";
    lease: 0..=MS, "0 to 1ms", "What a message reserves for further reads, ns.";
    causal_horizon: 0..=HOUR, "0 to 3600s", "How far ahead another group's stamp may be, ns.";
    stagger: 0..=S, "0 to 1s", "How long each further replica waits with its proposal, ns.";
    gather: 0..=60 * S, "0 to 60s", "How long a program that starts waits for the others, ns.";
    report_interval: S..=HOUR, "1s to 3600s", "The least time between two reports, ns.";
    system_clock: US..=HOUR, "1us to 3600s", "How far the system clock is from UTC at most, ns.";
}

fn span(text: &str, range: RangeInclusive<u64>, limits: &str) -> Result<u64, String> {
    let span: Span = text.parse().map_err(|why| format!("{why}"))?;
    u64::try_from(span.as_nanos())
        .ok()
        .filter(|ns| range.contains(ns))
        .ok_or_else(|| format!("must be {limits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_values_are_taken_and_others_are_not() {
        assert_eq!(name("ledger-2.a_b").as_deref(), Ok("ledger-2.a_b"));
        for bad in ["", "a/b", "..", "ä", "a b", &"x".repeat(65)] {
            assert!(name(bad).is_err(), "{bad}");
        }
        assert_eq!(members("3, 1,2"), Ok(vec![Member(1), Member(2), Member(3)]));
        for bad in ["", "0", "1,1", "1,x", "-1", "5000000000", &"1,".repeat(100)] {
            assert!(members(bad).is_err(), "{bad}");
        }
        assert!(members("1,2,1").unwrap_err().contains("node 1 is there twice"));
        assert_eq!(steering_cap("500"), Ok(500_000));
        assert_eq!(steering_cap("0.5"), Err("must be 1 to 100000 ppm".into()));
        assert_eq!(stagger("400us"), Ok(400_000));
        assert_eq!(lease("0"), Ok(0));
        assert!(report_interval("0.5s").unwrap_err().contains("1s to 3600s"));
        assert!(horizon("-5s").is_err() && horizon("5").is_err());
        assert_eq!(system_clock("10ms"), Ok(10_000_000));
        assert_eq!((permissions("0660"), permissions("606")), (Ok(0o660), Ok(0o606)));
        for bad in ["", "rw", "0770", "1660", "0060", "0688"] {
            assert!(permissions(bad).is_err(), "{bad}");
        }
    }
}
