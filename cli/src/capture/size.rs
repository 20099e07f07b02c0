//! Sizes as they are written.

/// A number of bytes: `500k`, `100M`, `2G` (thousands), `64KiB`, `1MiB`, `1GiB`, or a bare number.
pub fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = match unit.trim_start() {
        "" | "B" => 1,
        "k" | "kB" | "K" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("not a size: 500k, 100M, 2G or 64MiB".into()),
    };
    let number: u64 =
        digits.parse().map_err(|_| "not a size: 500k, 100M, 2G or 64MiB".to_owned())?;
    match number.checked_mul(unit) {
        Some(0) => Err("must be more than zero".into()),
        Some(bytes) => Ok(bytes),
        None => Err("is too large".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, size) in [
            ("1", 1),
            ("500k", 500_000),
            ("100M", 100_000_000),
            ("2 G", 2_000_000_000),
            ("64MiB", 64 << 20),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "M", "1.5M", "-1", "+1", "0", "0k", "1T", "99999999999G", "1MM"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
