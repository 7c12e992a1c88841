//! What a number means, and how it is written.

/// What a number counts, which decides how it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    #[default]
    None,
    /// A size, in binary multiples: `8 B`, `1 KiB`, `4 MiB`.
    Bytes,
    /// A time given in nanoseconds: `3.2 ns`, `1.25 us`, `34 ms`, `2.1 s`.
    Ns,
    /// A rate of operations: `12.3 M/s`.
    PerS,
    /// A rate of bytes, in decimal multiples as links are sold: `12.3 GB/s`.
    BytesPerS,
    /// A number of things such as ranks or messages: exact as long as it is short.
    Count,
}

impl Unit {
    /// The unit that the name of a figure carries: `median_ns`, `bytes_per_s`, `per_s`, `bytes`,
    /// `messages`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        const ENDS: [(&str, Unit); 8] = [
            ("ns", Unit::Ns),
            ("bytes_per_s", Unit::BytesPerS),
            ("per_s", Unit::PerS),
            ("bytes", Unit::Bytes),
            ("messages", Unit::Count),
            ("operations", Unit::Count),
            ("ranks", Unit::Count),
            ("nodes", Unit::Count),
        ];
        let ends = |suffix: &str| {
            name.strip_suffix(suffix).is_some_and(|stem| stem.is_empty() || stem.ends_with('_'))
        };
        ENDS.iter().find(|(suffix, _)| ends(suffix)).map_or(Self::None, |&(_, unit)| unit)
    }

    /// `value` with three significant digits (whole numbers keep all of theirs) and its unit; `-`
    /// if it is not finite.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".into();
        }
        if self == Self::Count && value.fract() == 0.0 && value.abs() < 1e5 {
            return format!("{value:.0}");
        }
        let multiples = self.multiples();
        for (index, (factor, name)) in multiples.iter().enumerate() {
            let scaled = value / factor;
            let digits = short(scaled);
            // 999.7 ns rounds to 1000 ns, which reads better as 1 us: the rounded number decides.
            let fits = multiples.get(index + 1).is_none_or(|(next, _)| {
                let rounded: f64 = digits.parse().unwrap_or(scaled);
                rounded.abs() < next / factor
            });
            if fits {
                return if name.is_empty() { digits } else { format!("{digits} {name}") };
            }
        }
        short(value)
    }

    /// The largest multiple not above `value`.
    pub(super) fn multiple(self, value: f64) -> f64 {
        let mut factors = self.multiples().iter().rev().map(|(factor, _)| *factor);
        factors.find(|factor| value >= *factor).unwrap_or(1.0)
    }

    fn multiples(self) -> &'static [(f64, &'static str)] {
        const KIB: f64 = 1024.0;
        match self {
            Self::None => &[(1.0, "")],
            Self::Bytes => &[
                (1.0, "B"),
                (KIB, "KiB"),
                (KIB * KIB, "MiB"),
                (KIB * KIB * KIB, "GiB"),
                (KIB * KIB * KIB * KIB, "TiB"),
            ],
            Self::Ns => &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")],
            Self::PerS => &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s"), (1e12, "T/s")],
            Self::BytesPerS => {
                &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")]
            }
            Self::Count => &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")],
        }
    }
}

/// Three significant digits without trailing zeros; whole parts are kept.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs();
    if !(1e-6..1e6).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    let decimals = (2.0 - magnitude.log10().floor()).clamp(0.0, 9.0) as usize;
    let digits = format!("{value:.decimals$}");
    if decimals == 0 {
        return digits;
    }
    digits.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_human_units() {
        let shown = [
            (Unit::Ns, 3.2, "3.2 ns"),
            (Unit::Ns, 1250.0, "1.25 us"),
            (Unit::Ns, 34e6, "34 ms"),
            (Unit::Ns, 2.1e9, "2.1 s"),
            (Unit::Ns, 999.7, "1 us"),
            (Unit::Ns, 0.0, "0 ns"),
            (Unit::Ns, 0.349, "0.349 ns"),
            (Unit::Ns, -1250.0, "-1.25 us"),
            (Unit::Bytes, 8.0, "8 B"),
            (Unit::Bytes, 1023.0, "1023 B"),
            (Unit::Bytes, 1024.0, "1 KiB"),
            (Unit::Bytes, 4.0 * 1024.0 * 1024.0, "4 MiB"),
            (Unit::BytesPerS, 12.3e9, "12.3 GB/s"),
            (Unit::PerS, 12.3e6, "12.3 M/s"),
            (Unit::Count, 65536.0, "65536"),
            (Unit::Count, 1.5e6, "1.5 M"),
            (Unit::None, 0.25, "0.25"),
            (Unit::None, 1e9, "1.00e9"),
            (Unit::Ns, f64::NAN, "-"),
        ];
        for (unit, value, expected) in shown {
            assert_eq!(unit.format(value), expected);
        }
    }

    #[test]
    fn a_name_tells_its_unit() {
        assert_eq!(Unit::of("median_ns"), Unit::Ns);
        assert_eq!(Unit::of("bytes_per_s"), Unit::BytesPerS);
        assert_eq!(Unit::of("load_per_s"), Unit::PerS);
        assert_eq!(Unit::of("bytes"), Unit::Bytes);
        assert_eq!(Unit::of("messages"), Unit::Count);
        assert_eq!(Unit::of("runs"), Unit::None);
        assert_eq!(Unit::of("columns"), Unit::None);
    }
}
