//! From a value to a verdict.

use farside_bench::record::Record;
use serde::{Deserialize, Serialize};

use crate::measure;
use crate::points::{Bound, Compare, Point, Threshold, Unit};

/// The judgement of one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The prediction is within the tolerance.
    Agrees,
    /// It is not.
    Misses,
    /// The run never reached the threshold that the point is about.
    NotExercised,
    /// The comparison cannot fail.
    ByConstruction,
    /// The point has set a number of the profile.
    Calibrated,
    /// There is no value.
    NotRun,
}

impl Verdict {
    /// All verdicts, in the order of summaries.
    pub const ALL: [Verdict; 6] = [
        Verdict::Agrees,
        Verdict::Misses,
        Verdict::NotExercised,
        Verdict::ByConstruction,
        Verdict::Calibrated,
        Verdict::NotRun,
    ];

    /// Returns the verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Misses => "misses",
            Verdict::NotExercised => "not exercised",
            Verdict::ByConstruction => "by construction",
            Verdict::Calibrated => "calibrated",
            Verdict::NotRun => "not run",
        }
    }
}

/// What is known of a point's value when it is judged.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The predicted value, if there is one.
    pub value: Option<f64>,
    /// Whether a profile number was set by the point, or with the knowledge of its result.
    pub is_calibrated: bool,
    /// The records that the value came out of.
    pub records: &'a [Record],
    /// How often each rank did what was measured, where the run says so.
    pub operations: Option<f64>,
}

/// Judges a point. What makes a comparison worthless comes before the comparison.
pub fn judge(point: &Point, known: Known<'_>) -> Verdict {
    let Some(value) = known.value else { return Verdict::NotRun };
    if known.is_calibrated {
        return Verdict::Calibrated;
    }
    if point.by_construction.is_some() {
        return Verdict::ByConstruction;
    }
    if point.exercised.is_some_and(|threshold| !is_reached(threshold, point, known)) {
        return Verdict::NotExercised;
    }
    if agrees(point, value) { Verdict::Agrees } else { Verdict::Misses }
}

/// The part by which two values must differ to have an order.
const TIE: f64 = 0.005;

/// Returns a value as a paper would print it: a count, which is a mean of several runs, as a whole
/// number.
pub fn as_printed(point: &Point, value: f64) -> f64 {
    match point.unit {
        Unit::Count => value.round(),
        _ => value,
    }
}

fn agrees(point: &Point, value: f64) -> bool {
    let (paper, tolerance) = (point.paper, point.tolerance);
    let value = as_printed(point, value);
    match (point.compare, point.bound) {
        (Compare::Semantics, _) => value == paper,
        // A tie is no order, unless the paper allows one.
        (Compare::Ordering, Some(Bound::Above)) if tolerance == 1.0 => value >= paper * (1.0 + TIE),
        (Compare::Ordering, Some(Bound::Below)) if tolerance == 1.0 => value <= paper * (1.0 - TIE),
        (_, Some(Bound::Above)) => value >= paper / tolerance,
        (_, Some(Bound::Below)) => value <= paper * tolerance,
        _ if value == paper => true,
        (_, None) => {
            let ratio = value / paper;
            ratio.is_finite() && (1.0 / tolerance..=tolerance).contains(&ratio)
        }
    }
}

/// Whether the run has reached the threshold in every record that counts.
fn is_reached(threshold: Threshold, point: &Point, known: Known<'_>) -> bool {
    let of = |record: &&Record| {
        let is = |filter| measure::matches(record, filter);
        is(&point.measure.of) || point.measure.over.as_ref().is_some_and(is)
    };
    let mut some = known.records.iter().filter(of).peekable();
    some.peek().is_some()
        && some.all(|record| {
            let number = |key: &str| record.number(key).unwrap_or(0.0);
            let writers = number("writers_pct");
            match threshold {
                Threshold::ReadsReachTR => {
                    let reads = if writers > 0.0 { (100.0 - writers) / writers } else { 1e9 };
                    let t_r = record.text("t_r").and_then(|text| text.parse().ok());
                    t_r.is_some_and(|t_r: f64| reads >= t_r)
                }
                Threshold::WritesReachTL => {
                    let ranks = record.ranks as f64 / record.nodes.max(1) as f64;
                    let writes = known.operations.unwrap_or(0.0) * ranks * writers / 100.0;
                    let t_l = record.text("t_l").unwrap_or_default();
                    let narrowest = t_l.rsplit('-').next().and_then(|text| text.parse().ok());
                    narrowest.is_some_and(|t_l: f64| writes >= t_l)
                }
                Threshold::MessagesSentAgain => number("retransmitted") > 0.0,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(text: &str) -> Point {
        let point = format!(
            "id = \"p\"\nwhat = \"w\"\nsays = \"s\"\nat = \"a\"\nunit = \"ratio\"\n\
             measure = {{ run = \"r\", figure = \"per_s\" }}\n{text}"
        );
        toml::from_str(&point).unwrap()
    }

    fn known(value: Option<f64>, records: &[Record]) -> Known<'_> {
        Known { value, is_calibrated: false, records, operations: Some(100.0) }
    }

    #[test]
    fn a_changed_value_number_or_mark_changes_the_verdict() {
        let plain = "paper = 2.0\ncompare = \"ratio\"\ntolerance = 1.5\n";
        let of = |text: &str, value: Option<f64>| judge(&point(text), known(value, &[]));
        assert_eq!(of(plain, Some(2.9)), Verdict::Agrees);
        assert_eq!(of(plain, Some(1.34)), Verdict::Agrees);
        assert_eq!(of(plain, Some(3.1)), Verdict::Misses);
        assert_eq!(of(plain, Some(1.3)), Verdict::Misses);
        assert_eq!(of(&plain.replace("2.0", "2.5"), Some(3.1)), Verdict::Agrees);
        assert_eq!(of(plain, None), Verdict::NotRun);
        let built = format!("{plain}by_construction = \"it is one number\"\n");
        assert_eq!(of(&built, Some(2.0)), Verdict::ByConstruction);
        let calibrated = Known { is_calibrated: true, ..known(Some(2.0), &[]) };
        assert_eq!(judge(&point(&built), calibrated), Verdict::Calibrated);
        assert_eq!(judge(&point(plain), calibrated), Verdict::Calibrated);
    }

    #[test]
    fn counts_are_compared_as_whole_numbers() {
        let text = "paper = 0.0\ncompare = \"absolute\"\ntolerance = 1.5\n";
        let count = |value: f64| {
            let point = Point { unit: Unit::Count, ..point(text) };
            judge(&point, known(Some(value), &[]))
        };
        assert_eq!(count(0.3), Verdict::Agrees, "printed, it is the paper's number");
        assert_eq!(count(0.6), Verdict::Misses);
        assert_eq!(judge(&point(text), known(Some(0.3), &[])), Verdict::Misses, "of a ratio");
    }

    #[test]
    fn a_bound_holds_on_one_side() {
        let above = "paper = 6.0\ncompare = \"ratio\"\ntolerance = 1.0\nbound = \"above\"\n";
        let of = |text: &str, value: f64| judge(&point(text), known(Some(value), &[]));
        assert_eq!(of(above, 60.0), Verdict::Agrees);
        assert_eq!(of(above, 5.9), Verdict::Misses);
        let below = above.replace("above", "below");
        assert_eq!(of(&below, 5.9), Verdict::Agrees);
        assert_eq!(of(&below, 6.1), Verdict::Misses);
        let order = above.replace("\"ratio\"", "\"ordering\"");
        assert_eq!(of(&order, 6.01), Verdict::Misses, "a tie is no order");
        assert_eq!(of(&order, 6.1), Verdict::Agrees);
    }

    #[test]
    fn a_threshold_that_no_run_reached_makes_the_verdict_not_exercised() {
        let text =
            "paper = 1.0\ncompare = \"ratio\"\ntolerance = 1.5\nexercised = \"reads-reach-t-r\"";
        let record = |writers_pct: f64, t_r: u64| {
            Record::new("locks", "ecsb", "farside", "sim", 64, 4)
                .with("writers_pct", writers_pct)
                .with("t_r", t_r)
                .figure("per_s", 1.0)
        };
        let of = |record: Record| judge(&point(text), known(Some(1.0), &[record]));
        assert_eq!(of(record(2.0, 3000)), Verdict::NotExercised);
        assert_eq!(of(record(2.0, 40)), Verdict::Agrees);
        assert_eq!(of(record(0.0, 3000)), Verdict::Agrees);
        assert_eq!(judge(&point(text), known(Some(1.0), &[])), Verdict::NotExercised);
    }
}
