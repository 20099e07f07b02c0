//! Which processors there are.

use crate::kept::Kept;

/// More processors than any kernel is built for: a list that names more is not believed.
pub(crate) const MOST: u32 = 8192;

/// The numbers of the processors that are online, in rising order, if `/sys` says.
#[must_use]
pub fn online_cpus() -> Option<Vec<u32>> {
    static ONLINE: Kept = Kept::new("/sys/devices/system/cpu/online");
    cpu_list(&ONLINE.read()?)
}

/// The processors of a list as the kernel writes them, `0-3,5` in any order, in rising order.
/// `None` where it is not such a list, or empty.
#[must_use]
pub fn cpu_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return None;
        }
        cpus.extend(first..=last);
        // Ranges may repeat: never more of them than there can be processors.
        if cpus.len() > MOST as usize {
            return None;
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

fn number(digits: &str) -> Option<u32> {
    // `parse` would take a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|cpu| plain && *cpu < MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0\n"), Some(vec![0]));
        assert_eq!(cpu_list("0-3,5,7-8\n"), Some(vec![0, 1, 2, 3, 5, 7, 8]));
        assert_eq!(cpu_list("5,0-1,1"), Some(vec![0, 1, 5]));
        for bad in ["", "\n", "-", "1-", "3-1", "a", "0,,1", "+1", "0-4294967295", "8192", "0 1"] {
            assert_eq!(cpu_list(bad), None, "{bad:?}");
        }
        assert_eq!(cpu_list(&"0-4095,".repeat(1000)), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9,\\-]{0,40}") {
            if let Some(cpus) = cpu_list(&text) {
                prop_assert!(!cpus.is_empty() && cpus.is_sorted_by(|a, b| a < b));
            }
        }
    }

    #[test]
    fn this_machine_has_a_processor() {
        assert!(online_cpus().is_none_or(|cpus| !cpus.is_empty()));
    }
}
