//! Messages as people read them: lines in one piece, and numbers.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to standard error, in one piece: under other launchers all ranks write to one file
/// at the same time. A program that has closed its standard error does not want to hear it.
pub fn say(line: impl Display) {
    write_line(&mut std::io::stderr(), line);
}

fn write_line(to: &mut impl Write, line: impl Display) {
    let _ = to.write_all(format!("{line}\n").as_bytes());
}

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
    fn a_line_is_one_write() {
        struct Writes(Vec<Vec<u8>>);
        impl Write for Writes {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.push(bytes.to_vec());
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut writes = Writes(Vec::new());
        write_line(&mut writes, format_args!("rank {} is lost: {}", 3, "why"));
        assert_eq!(writes.0, [b"rank 3 is lost: why\n"]);
    }

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
