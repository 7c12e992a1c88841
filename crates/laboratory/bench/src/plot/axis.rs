//! Axes: what a number means, which range is drawn and where the ticks stand.

use std::ops::RangeInclusive;

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
        let ends = |suffix: &str| {
            name.strip_suffix(suffix).is_some_and(|stem| stem.is_empty() || stem.ends_with('_'))
        };
        if ends("ns") {
            Self::Ns
        } else if ends("bytes_per_s") {
            Self::BytesPerS
        } else if ends("per_s") {
            Self::PerS
        } else if ends("bytes") {
            Self::Bytes
        } else if ["messages", "operations", "ranks", "nodes"].into_iter().any(ends) {
            Self::Count
        } else {
            Self::None
        }
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
                return join(&digits, name);
            }
        }
        short(value)
    }

    /// The largest multiple not above `value`, so that all ticks of a linear axis share it.
    fn multiple(self, value: f64) -> (f64, &'static str) {
        let exact = self == Self::Count && value < 1e5;
        let mut multiples = self.multiples().iter().rev();
        let found = multiples.find(|(factor, _)| !exact && value >= *factor);
        *found.unwrap_or(&self.multiples()[0])
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

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances are equal differences.
    #[default]
    Linear,
    /// Ticks at powers of two; values must be positive.
    Log2,
    /// Ticks at powers of ten; values must be positive.
    Log10,
}

impl Scale {
    /// Where `value` lies on this scale, or nothing if it cannot be drawn there.
    ///
    /// Magnitudes no measurement reaches are refused too, so that sums and differences of what is
    /// accepted stay finite.
    pub(super) fn forward(self, value: f64) -> Option<f64> {
        const LARGEST: f64 = 1e100;
        let drawable = match self {
            Self::Linear => value.abs() <= LARGEST,
            Self::Log2 | Self::Log10 => (LARGEST.recip()..=LARGEST).contains(&value),
        };
        drawable.then(|| match self {
            Self::Linear => value,
            Self::Log2 => value.log2(),
            Self::Log10 => value.log10(),
        })
    }

    fn inverse(self, at: f64) -> f64 {
        match self {
            Self::Linear => at,
            Self::Log2 => at.exp2(),
            Self::Log10 => 10f64.powf(at),
        }
    }
}

/// One axis of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// What is drawn along the axis, without the unit of the tick labels.
    pub label: String,
    /// How values are laid out.
    pub scale: Scale,
    /// How tick labels are written.
    pub unit: Unit,
}

impl Axis {
    /// An axis with a label, a scale and a unit.
    #[must_use]
    pub fn new(label: impl Into<String>, scale: Scale, unit: Unit) -> Self {
        Self { label: label.into(), scale, unit }
    }

    /// The range that shows `values` with room for the markers at both ends; nothing if no value
    /// can be drawn.
    pub(super) fn padded(&self, values: impl Iterator<Item = f64>) -> Option<Domain> {
        let (low, high) = self.extent(values)?;
        let pad = (high - low) * 0.03;
        Some(Domain { scale: self.scale, low: low - pad, high: high + pad })
    }

    /// The range that shows `values` between round numbers, and from zero if the scale is linear.
    pub(super) fn rounded(&self, values: impl Iterator<Item = f64>) -> Option<Domain> {
        let (low, high) = self.extent(values)?;
        let domain = |low, high| Domain { scale: self.scale, low, high };
        Some(match self.scale {
            Scale::Linear => {
                // A curve that does not start at zero exaggerates the difference between two
                // systems.
                let (low, high) = (low.min(0.0), high.max(0.0));
                let step = self.step(low, high);
                domain((low / step).floor() * step, (high / step).ceil() * step)
            }
            Scale::Log2 => domain((low + EPSILON).floor(), (high - EPSILON).ceil()),
            Scale::Log10 => domain(round_log10(low, false), round_log10(high, true)),
        })
    }

    /// Ticks inside `domain`, in ascending order.
    pub(super) fn ticks(&self, domain: &Domain) -> Vec<Tick> {
        let ticks = match self.scale {
            Scale::Linear => return self.linear_ticks(domain),
            Scale::Log2 => self.log2_ticks(domain),
            Scale::Log10 => self.log10_ticks(domain),
        };
        // Within one power there is nothing to mark but round numbers between. Two sizes are a
        // common axis, two times are not.
        let least = if self.scale == Scale::Log2 { 2 } else { 3 };
        if ticks.iter().filter(|tick| tick.level < 2).count() < least {
            return self.linear_ticks(domain);
        }
        ticks
    }

    /// Smallest and largest drawable value on the scale, a little apart even if all values are
    /// equal.
    fn extent(&self, values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
        let (low, high) = values.filter_map(|value| self.scale.forward(value)).fold(
            None,
            |range: Option<(f64, f64)>, at| {
                Some(range.map_or((at, at), |(low, high)| (low.min(at), high.max(at))))
            },
        )?;
        if high - low > 1e-6 * low.abs().max(high.abs()) {
            return Some((low, high));
        }
        let around = match self.scale {
            Scale::Linear if low == 0.0 => 1.0,
            Scale::Linear => low.abs() * 0.5,
            Scale::Log2 => 1.0,
            Scale::Log10 => 0.5,
        };
        Some((low - around, high + around))
    }

    /// The distance of linear ticks: 1, 2 or 5 times a power of ten of the multiple that the labels
    /// use.
    fn step(&self, low: f64, high: f64) -> f64 {
        const INTERVALS_MOST: f64 = 10.0;
        let (factor, _) = self.unit.multiple(low.abs().max(high.abs()));
        let raw = (high - low) / INTERVALS_MOST / factor;
        let power = 10f64.powf(raw.log10().floor());
        let round = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|digit| digit * power)
            .find(|step| *step >= raw * 0.999)
            .unwrap_or(power * 10.0);
        // Half a rank or half a message does not exist.
        let smallest = if self.unit == Unit::Count { 1.0 / factor } else { 0.0 };
        round.max(smallest) * factor
    }

    fn linear_ticks(&self, domain: &Domain) -> Vec<Tick> {
        let (low, high) = (self.scale.inverse(domain.low), self.scale.inverse(domain.high));
        let (factor, name) = self.unit.multiple(low.abs().max(high.abs()));
        let step = self.step(low, high);
        let decimals = (-(step / factor).log10() - EPSILON).ceil().clamp(0.0, 9.0) as usize;
        whole((low / step - EPSILON).ceil(), (high / step + EPSILON).floor())
            .filter_map(|index| {
                let value = index as f64 * step;
                let scaled = value / factor;
                let digits =
                    if scaled.abs() < 1e6 { format!("{scaled:.decimals$}") } else { short(scaled) };
                Some(Tick {
                    at: self.scale.forward(value)?.clamp(domain.low, domain.high),
                    label: if index == 0 { "0".into() } else { join(&digits, name) },
                    index,
                    level: 0,
                })
            })
            .collect()
    }

    fn log2_ticks(&self, domain: &Domain) -> Vec<Tick> {
        let stride = stride(domain, 24.0);
        whole((domain.low - EPSILON).ceil(), (domain.high + EPSILON).floor())
            .filter(|power| power % stride == 0)
            .map(|power| Tick {
                at: power as f64,
                label: self.unit.format((power as f64).exp2()),
                index: power / stride,
                level: 0,
            })
            .collect()
    }

    fn log10_ticks(&self, domain: &Domain) -> Vec<Tick> {
        let stride = stride(domain, 12.0);
        let decades = domain.high - domain.low;
        let mut ticks = Vec::new();
        for power in whole(domain.low.floor(), domain.high.ceil()) {
            if power % stride != 0 {
                continue;
            }
            for digit in 1..=9 {
                let at = power as f64 + f64::from(digit).log10();
                let level = match digit {
                    1 => 0,
                    2 | 5 if decades <= 3.0 => 1,
                    _ if decades <= 6.0 => 2,
                    _ => continue,
                };
                if at < domain.low - EPSILON || at > domain.high + EPSILON {
                    continue;
                }
                let value = f64::from(digit) * 10f64.powi(power as i32);
                let label = if level < 2 { self.unit.format(value) } else { String::new() };
                ticks.push(Tick {
                    at: at.clamp(domain.low, domain.high),
                    label,
                    index: power / stride,
                    level,
                });
            }
        }
        ticks
    }
}

/// Slack for values that are round but for the last bits.
const EPSILON: f64 = 1e-9;

/// The part of a scale that is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Domain {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Domain {
    /// Where `value` stands: 0 at the low end, 1 at the high end; nothing if it cannot be drawn.
    pub(super) fn fraction(&self, value: f64) -> Option<f64> {
        Some(self.fraction_at(self.scale.forward(value)?))
    }

    /// The same for a place on the scale, such as that of a tick.
    pub(super) fn fraction_at(&self, at: f64) -> f64 {
        (at - self.low) / (self.high - self.low)
    }

    /// Where bars stand: on zero if the scale is linear, else on the low end.
    pub(super) fn base(&self) -> f64 {
        match self.scale {
            Scale::Linear => self.fraction_at(0.0).clamp(0.0, 1.0),
            Scale::Log2 | Scale::Log10 => 0.0,
        }
    }

    /// The same range with a share of the drawn length left free beyond the bars, where their
    /// values are written.
    pub(super) fn with_headroom(mut self, share: f64) -> Self {
        let span = self.high - self.low;
        let free = span * share / (1.0 - share).max(0.1);
        let linear = self.scale == Scale::Linear;
        if !linear {
            // Else the bar of a value at the low end would have no height.
            self.low -= span * 0.08;
        } else if self.low < 0.0 {
            self.low -= free;
        }
        if !linear || self.high > 0.0 {
            self.high += free;
        }
        self
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// The place on the scale.
    pub(super) at: f64,
    pub(super) label: String,
    /// Number of the tick, so that a thinned set keeps the rounder ones.
    pub(super) index: i64,
    /// 0 is a main tick, 1 a tick between whose label goes first if room is short, 2 a line without
    /// label.
    pub(super) level: u8,
}

/// Every how many powers a tick stands, so that no more than `most` do.
fn stride(domain: &Domain, most: f64) -> i64 {
    ((domain.high - domain.low) / most).ceil().max(1.0) as i64
}

/// The next 1, 2 or 5 times a power of ten above or below a place on the decimal scale.
fn round_log10(at: f64, up: bool) -> f64 {
    let power = at.floor();
    let mut steps = [0.0, 2f64.log10(), 5f64.log10(), 1.0].map(|part| power + part).into_iter();
    if up {
        steps.find(|step| *step >= at - EPSILON).unwrap_or(power + 1.0)
    } else {
        steps.rfind(|step| *step <= at + EPSILON).unwrap_or(power)
    }
}

/// Whole numbers from `low` to `high`, bounded so that no input draws a wall of ticks.
fn whole(low: f64, high: f64) -> RangeInclusive<i64> {
    const MOST: i64 = 400;
    let low = low as i64;
    low..=(high as i64).min(low.saturating_add(MOST))
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

fn join(digits: &str, name: &str) -> String {
    if name.is_empty() { digits.into() } else { format!("{digits} {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, domain: &Domain) -> Vec<String> {
        let ticks = axis.ticks(domain).into_iter();
        ticks.filter(|tick| tick.level < 2).map(|tick| tick.label).collect()
    }

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

    #[test]
    fn linear_ticks_share_one_multiple_and_start_at_zero() {
        let axis = Axis::new("", Scale::Linear, Unit::Ns);
        let domain = axis.rounded([700.0, 2900.0].into_iter()).unwrap();
        assert_eq!(
            labels(&axis, &domain),
            ["0", "0.5 us", "1.0 us", "1.5 us", "2.0 us", "2.5 us", "3.0 us"]
        );
    }

    #[test]
    fn logarithmic_ticks_stand_at_powers() {
        let axis = Axis::new("", Scale::Log2, Unit::Bytes);
        let domain = axis.padded([512.0, 4096.0].into_iter()).unwrap();
        assert_eq!(labels(&axis, &domain), ["512 B", "1 KiB", "2 KiB", "4 KiB"]);
        let axis = Axis::new("", Scale::Log10, Unit::Ns);
        let domain = axis.rounded([11.0, 90_000.0].into_iter()).unwrap();
        assert_eq!(labels(&axis, &domain), ["10 ns", "100 ns", "1 us", "10 us", "100 us"]);
    }

    #[test]
    fn a_range_within_one_power_still_has_ticks() {
        for scale in [Scale::Log2, Scale::Log10] {
            let axis = Axis::new("", scale, Unit::Ns);
            let domain = axis.padded([110.0, 130.0].into_iter()).unwrap();
            assert!(labels(&axis, &domain).len() >= 2, "{scale:?}");
        }
    }

    #[test]
    fn any_range_gives_finite_ticks_inside() {
        let values = [-1e100, -3.0, 0.0, 1e-90, 0.1, 1.0, 1.000_000_01, 7.0, 1e9, 1e100];
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            for unit in [Unit::None, Unit::Bytes, Unit::Count] {
                let axis = Axis::new("", scale, unit);
                for pair in values.iter().flat_map(|a| values.iter().map(|b| [*a, *b])) {
                    for domain in [axis.padded(pair.into_iter()), axis.rounded(pair.into_iter())] {
                        let Some(domain) = domain else { continue };
                        for tick in axis.ticks(&domain) {
                            let place = domain.fraction_at(tick.at);
                            assert!(
                                (-1e-6..=1.000_001).contains(&place),
                                "{scale:?} {pair:?} {tick:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_drawn_has_no_domain() {
        let axis = Axis::new("", Scale::Log10, Unit::None);
        assert!(axis.padded([0.0, -1.0, f64::NAN, f64::INFINITY].into_iter()).is_none());
    }
}
