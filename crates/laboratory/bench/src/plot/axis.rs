//! Axes: which range is drawn, and where the ticks stand.

use super::unit::Unit;

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

/// The part of an axis that is drawn, on its scale.
pub(super) struct Domain {
    scale: Scale,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<Tick>,
}

pub(super) struct Tick {
    /// The place on the scale.
    pub(super) at: f64,
    /// Nothing if it is a line only.
    pub(super) label: String,
}

/// The most intervals between labelled ticks.
const INTERVALS_MOST: f64 = 12.0;
/// Slack for values that are round but for the last bits.
const EPSILON: f64 = 1e-9;

impl Axis {
    /// An axis with a label, a scale and a unit.
    #[must_use]
    pub fn new(label: impl Into<String>, scale: Scale, unit: Unit) -> Self {
        Self { label: label.into(), scale, unit }
    }

    /// What stands at the axis: its label, with a note if the scale is not linear, since a reader
    /// may take it for linear otherwise.
    pub(super) fn title(&self) -> String {
        match self.scale {
            Scale::Log2 | Scale::Log10 if !self.label.is_empty() => {
                format!("{} (log scale)", self.label)
            }
            _ => self.label.clone(),
        }
    }

    /// The range from tick to tick that shows `values`; nothing if none of them can be drawn. A
    /// linear one contains zero: a curve that does not start there exaggerates the difference
    /// between two systems.
    pub(super) fn domain(&self, values: impl Iterator<Item = f64>) -> Option<Domain> {
        let mut places = values.filter_map(|value| self.scale.forward(value));
        let first = places.next()?;
        let (mut low, mut high) =
            places.fold((first, first), |(low, high), at| (low.min(at), high.max(at)));
        let step = match self.scale {
            Scale::Linear => {
                (low, high) = (low.min(0.0), high.max(0.0));
                self.step(low, high)
            }
            Scale::Log2 | Scale::Log10 => 1.0,
        };
        low = (low / step + EPSILON).floor() * step;
        high = (high / step - EPSILON).ceil() * step;
        if high - low < step / 2.0 {
            low -= if self.scale == Scale::Linear { 0.0 } else { step };
            high = low + 2.0 * step;
        }
        let ticks = self.ticks(low, high, step);
        Some(Domain { scale: self.scale, low, high, ticks })
    }

    /// The distance of linear ticks: 1, 2 or 5 times a power of ten of the multiple that the labels
    /// use.
    fn step(&self, low: f64, high: f64) -> f64 {
        if high <= low {
            return 1.0;
        }
        let factor = self.unit.multiple(low.abs().max(high.abs()));
        let raw = (high - low) / INTERVALS_MOST / factor;
        let power = 10f64.powf(raw.log10().floor());
        let mut digits = [1.0, 2.0, 5.0].into_iter();
        let digit = digits.find(|digit| digit * power >= raw * 0.999);
        let step = digit.unwrap_or(10.0) * power * factor;
        // Half a rank or half a message does not exist.
        if self.unit == Unit::Count { step.max(1.0) } else { step }
    }

    fn ticks(&self, low: f64, high: f64, step: f64) -> Vec<Tick> {
        let intervals = ((high - low) / step).round();
        let every = (intervals / INTERVALS_MOST).ceil().max(1.0);
        let mut ticks = Vec::new();
        for number in (0..).map(|number| f64::from(number) * every) {
            if number > intervals {
                break;
            }
            // From zero: a multiple of the step is written as one.
            let at = ((low / step).round() + number) * step;
            let value = self.scale.inverse(at);
            let label = if value == 0.0 { "0".into() } else { self.unit.format(value) };
            ticks.push(Tick { at, label });
            if self.scale == Scale::Log10 && intervals <= 6.0 && number < intervals {
                ticks.extend((2..10).map(|digit| {
                    let is_labelled = intervals <= 2.0 && [2, 5].contains(&digit);
                    let label = is_labelled.then(|| self.unit.format(value * f64::from(digit)));
                    Tick { at: at + f64::from(digit).log10(), label: label.unwrap_or_default() }
                }));
            }
        }
        ticks
    }
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

    /// The same range with a share of its length left free at the low and at the high end.
    pub(super) fn padded(mut self, low: f64, high: f64) -> Self {
        let length = self.high - self.low;
        self.low -= low * length;
        self.high += high * length;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_gives_ticks_inside() {
        let values = [-1e100, -3.0, 0.0, 1e-90, 0.1, 1.0, 1.000_000_01, 7.0, 1e9, 1e100];
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            for unit in [Unit::None, Unit::Bytes, Unit::Count] {
                let axis = Axis::new("", scale, unit);
                for pair in values.iter().flat_map(|a| values.iter().map(|b| [*a, *b])) {
                    let Some(domain) = axis.domain(pair.into_iter()) else { continue };
                    let is_inside =
                        |tick: &Tick| (-1e-6..=1.000_001).contains(&domain.fraction_at(tick.at));
                    assert!(domain.ticks.iter().all(is_inside), "{scale:?} {unit:?} {pair:?}");
                    assert!((2..200).contains(&domain.ticks.len()), "{scale:?} {unit:?} {pair:?}");
                }
            }
        }
        let labels = |scale, unit, pair: [f64; 2]| -> Vec<String> {
            let domain = Axis::new("", scale, unit).domain(pair.into_iter()).unwrap();
            domain.ticks.into_iter().map(|tick| tick.label).filter(|it| !it.is_empty()).collect()
        };
        let bytes = labels(Scale::Log2, Unit::Bytes, [512.0, 4096.0]);
        assert_eq!(bytes, ["512 B", "1 KiB", "2 KiB", "4 KiB"]);
        let ns = labels(Scale::Log10, Unit::Ns, [11.0, 90_000.0]);
        assert_eq!(ns, ["10 ns", "100 ns", "1 us", "10 us", "100 us"]);
        let linear = labels(Scale::Linear, Unit::Ns, [700.0, 4900.0]);
        assert_eq!(linear.first().map(String::as_str), Some("0"));
        assert_eq!(linear.last().map(String::as_str), Some("5 us"));
    }
}
