//! From records to a value.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use farside_bench::record::Record;

use crate::points::{Compare, Filter, Fold, Measure};

/// Returns the value that a measure takes out of records.
pub fn value(measure: &Measure, compare: Compare, records: &[Record]) -> Result<f64> {
    if compare == Compare::Crossover {
        return crossover(measure, records);
    }
    let values: Vec<f64> = ratios(measure, records)?.into_values().collect();
    let folded = fold(measure.fold, &values)?;
    Ok(folded * measure.scale.unwrap_or(1.0))
}

/// Returns whether a record has all values of a filter.
pub fn matches(record: &Record, filter: &Filter) -> bool {
    filter.iter().all(|(key, wanted)| is(record, key, wanted))
}

fn is(record: &Record, key: &str, wanted: &toml::Value) -> bool {
    match wanted {
        toml::Value::String(text) => record.text(key).as_ref() == Some(text),
        toml::Value::Integer(number) => record.number(key) == Some(*number as f64),
        toml::Value::Float(number) => record.number(key) == Some(*number),
        toml::Value::Array(some) => some.iter().any(|one| is(record, key, one)),
        _ => false,
    }
}

/// The values of records by the combination of the keys `each`; the last of several counts.
fn values(measure: &Measure, filter: &Filter, records: &[Record]) -> BTreeMap<Vec<String>, f64> {
    let mut values = BTreeMap::new();
    for record in records.iter().filter(|record| matches(record, filter)) {
        if let Some(value) = record.number(&measure.figure) {
            let key = |key: &String| record.text(key).unwrap_or_default();
            values.insert(measure.each.iter().map(key).collect(), value);
        }
    }
    values
}

/// The dividend over the divisor, or the dividend alone, for each combination that has both.
fn ratios(measure: &Measure, records: &[Record]) -> Result<BTreeMap<Vec<String>, f64>> {
    let dividends = values(measure, &measure.of, records);
    ensure!(!dividends.is_empty(), "no record has {} of {:?}", measure.figure, measure.of);
    let Some(over) = &measure.over else { return Ok(dividends) };
    let divisors = values(measure, over, records);
    let pairs = dividends.into_iter().filter_map(|(key, value)| {
        let divisor = *divisors.get(&key)?;
        Some((key, value / divisor))
    });
    let ratios: BTreeMap<_, _> = pairs.filter(|(_, ratio)| ratio.is_finite()).collect();
    ensure!(!ratios.is_empty(), "no record has {} of {over:?} to divide by", measure.figure);
    Ok(ratios)
}

fn fold(fold: Fold, values: &[f64]) -> Result<f64> {
    let count = values.len() as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Ok(match (fold, values) {
        (Fold::Only, [one]) => *one,
        (Fold::Only, several) => bail!("{} values where one is expected", several.len()),
        (Fold::Min, _) => least,
        (Fold::Max, _) => most,
        (Fold::Mean, _) => values.iter().sum::<f64>() / count,
        (Fold::Geometric, _) => (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp(),
        (Fold::Spread, _) => most / least,
    })
}

/// The smallest value of the key `along` from which on the ratio is not above 1.
fn crossover(measure: &Measure, records: &[Record]) -> Result<f64> {
    let along = measure.along.clone().context("a crossover needs a key `along`")?;
    let by = Measure { each: vec![along], ..measure.clone() };
    let mut ratios: Vec<(f64, f64)> = ratios(&by, records)?
        .into_iter()
        .filter_map(|(key, ratio)| Some((key.first()?.parse().ok()?, ratio)))
        .collect();
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let above = ratios.iter().rposition(|(_, ratio)| *ratio > 1.0);
    let from = above.map_or(0, |last| last + 1);
    ratios.get(from).map(|(x, _)| *x).context("the ratio stays above 1: there is no crossover")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lock: &str, ranks: usize, ns: f64) -> Record {
        Record::new("locks", "lb", "farside", "sim", ranks, 1)
            .with("lock", lock)
            .figure("median_ns", ns)
    }

    fn measure(text: &str) -> Measure {
        toml::from_str(&format!("run = \"a\"\nfigure = \"median_ns\"\n{text}")).unwrap()
    }

    fn some() -> Vec<Record> {
        vec![
            record("a", 2, 10.0),
            record("b", 2, 5.0),
            record("a", 4, 10.0),
            record("b", 4, 20.0),
            record("a", 8, 10.0),
            record("b", 8, 40.0),
        ]
    }

    #[test]
    fn values_ratios_and_folds_come_out_of_records() {
        let of = |text: &str| value(&measure(text), Compare::Ratio, &some());
        assert_eq!(of("of = { lock = \"a\", ranks = 2 }").unwrap(), 10.0);
        let pair = "of = { lock = \"b\" }\nover = { lock = \"a\" }\neach = [\"ranks\"]\n";
        assert_eq!(of(&format!("{pair}fold = \"max\"")).unwrap(), 4.0);
        assert_eq!(of(&format!("{pair}fold = \"min\"")).unwrap(), 0.5);
        assert_eq!(of(&format!("{pair}fold = \"spread\"")).unwrap(), 8.0);
        assert!((of(&format!("{pair}fold = \"geometric\"")).unwrap() - 4f64.cbrt()).abs() < 1e-9);
        assert!(of(pair).unwrap_err().to_string().contains("3 values"));
        assert!(of("of = { lock = \"c\" }").unwrap_err().to_string().contains("no record"));
        let scaled = "of = { lock = \"a\", ranks = 2 }\nscale = 0.001";
        assert_eq!(of(scaled).unwrap(), 0.01);
    }

    #[test]
    fn a_crossover_is_where_the_ratio_stays_below_one() {
        let text = "of = { lock = \"a\" }\nover = { lock = \"b\" }\nalong = \"ranks\"";
        assert_eq!(value(&measure(text), Compare::Crossover, &some()).unwrap(), 4.0);
        let never = "of = { lock = \"b\" }\nover = { lock = \"a\" }\nalong = \"ranks\"";
        assert!(value(&measure(never), Compare::Crossover, &some()).is_err());
    }
}
