//! Numbers in messages, as people read them.

use std::fmt::Display;

/// Returns a number of things, in the singular or in the plural: `1 rank`, `3 ranks`.
///
/// ```
/// use farside_fabric::text::counted;
///
/// assert_eq!(counted(1, "rank"), "1 rank");
/// assert_eq!(counted(0, "rank"), "0 ranks");
/// ```
pub fn counted(count: impl Display + PartialEq + From<u8>, what: &str) -> String {
    let is_one = count == 1.into();
    format!("{count} {what}{}", if is_one { "" } else { "s" })
}

/// Returns a number of bytes, and behind a long one what it is in larger units: `80 bytes`,
/// `25276514304 bytes (23.5 GiB)`.
///
/// ```
/// assert_eq!(farside_fabric::text::bytes(64 << 30), "68719476736 bytes (64 GiB)");
/// ```
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["MiB", "GiB", "TiB", "PiB"];
    let exact = counted(bytes, "byte");
    let mut value = bytes as f64 / 1024.0;
    let mut unit = "KiB";
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if bytes < 10_000 {
        return exact;
    }
    // Three digits; zeros behind the point say nothing.
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let rounded = format!("{value:.decimals$}");
    let short = match rounded.contains('.') {
        true => rounded.trim_end_matches('0').trim_end_matches('.'),
        false => &rounded,
    };
    format!("{exact} ({short} {unit})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(1u32, "window"), "1 window");
        assert_eq!(counted(2u64, "window"), "2 windows");
    }

    #[test]
    fn long_numbers_of_bytes_have_a_short_form() {
        for (number, text) in [
            (1, "1 byte"),
            (4096, "4096 bytes"),
            (65536, "65536 bytes (64 KiB)"),
            (1_024_000_000, "1024000000 bytes (977 MiB)"),
            (4_096_000_000, "4096000000 bytes (3.81 GiB)"),
            (25_276_514_304, "25276514304 bytes (23.5 GiB)"),
            (64 << 40, "70368744177664 bytes (64 TiB)"),
            (u64::MAX, "18446744073709551615 bytes (16384 PiB)"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
