//! Samples, and how they become records.
//!
//! A sample is a line `sample CASE ATTRIBUTE… FIGURE…`; a [`Layout`] says which attributes and
//! figures. An attribute or a figure that does not apply is a `-`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};

use super::{Fold, Layout, OFI, Plan, Setting, USUAL_SERVER};
use crate::record::{Record, Value};
use crate::timing::median;

/// An attribute or a figure that does not apply.
const NOTHING: &str = "-";

/// A sample as a line.
pub fn sample(
    case: &str,
    attributes: &[&dyn std::fmt::Display],
    figures: &[Option<f64>],
) -> String {
    let attributes = attributes.iter().map(|attribute| format!(" {attribute}"));
    let figures = figures
        .iter()
        .map(|figure| figure.map_or(format!(" {NOTHING}"), |figure| format!(" {figure:.4}")));
    format!("sample {case}{}", attributes.chain(figures).collect::<String>())
}

pub(super) struct Samples {
    layout: Layout,
    /// The words among the attributes, which are sorted by when they first came.
    words: Vec<String>,
    values: BTreeMap<Key, Vec<Vec<f64>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    ranks: u32,
    case: usize,
    attributes: Vec<Attribute>,
    server: Option<Attribute>,
    /// Its place in the list of words.
    system: usize,
}

/// One attribute: its order, and what it says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attribute(u64, String);

impl Attribute {
    fn value(&self) -> Option<Value> {
        match self.1.as_str() {
            NOTHING => None,
            text => Some(match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(whole), _) => whole.into(),
                (_, Ok(number)) => number.into(),
                _ => text.into(),
            }),
        }
    }
}

impl Samples {
    pub(super) fn new(layout: Layout) -> Samples {
        Samples { layout, words: Vec::new(), values: BTreeMap::new() }
    }

    fn word(&mut self, word: &str) -> usize {
        self.words.iter().position(|known| known == word).unwrap_or_else(|| {
            self.words.push(word.to_owned());
            self.words.len() - 1
        })
    }

    fn attribute(&mut self, text: &str) -> Attribute {
        let order = match text.parse::<f64>() {
            // Numbers that are not negative are ordered as their bits are.
            Ok(number) => number.abs().to_bits(),
            Err(_) => self.word(text) as u64,
        };
        Attribute(order, text.to_owned())
    }

    pub(super) fn collect(
        &mut self,
        output: &str,
        ranks: u32,
        system: &str,
        server: Option<&str>,
    ) -> Result<()> {
        for line in output.lines().filter(|line| line.starts_with("sample ")) {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            let (attributes, figures) = (self.layout.attributes.len(), self.layout.figures.len());
            ensure!(
                words.len() == 1 + attributes + figures,
                "{system} printed {line:?}, which is not a sample"
            );
            let Some(case) = self.layout.cases.iter().position(|&known| known == words[0]) else {
                bail!("{system} printed a sample of {:?}, which was not requested", words[0]);
            };
            let values = words[1 + attributes..].iter().map(|&text| match text {
                NOTHING => Ok(f64::NAN),
                text => text.parse::<f64>().with_context(|| format!("{system} printed {line:?}")),
            });
            let values: Vec<f64> = values.collect::<Result<_>>()?;
            let attributes =
                words[1..=attributes].iter().map(|text| self.attribute(text)).collect();
            let server = server.map(|server| self.attribute(server));
            let key = Key { ranks, case, attributes, server, system: self.word(system) };
            self.values.entry(key).or_default().push(values);
        }
        Ok(())
    }

    pub(super) fn records<P: Plan>(&self, setting: &Setting) -> Result<Vec<Record>> {
        self.values.iter().map(|(key, rounds)| self.record::<P>(key, rounds, setting)).collect()
    }

    fn record<P: Plan>(&self, key: &Key, rounds: &[Vec<f64>], setting: &Setting) -> Result<Record> {
        let (case, system, ranks) =
            (self.layout.cases[key.case], self.words[key.system].as_str(), key.ranks as usize);
        let mut record = match (&setting.sim, setting.nodes) {
            (Some(machine), _) => machine.record(P::BENCH, case, system, key.ranks)?,
            (None, Some(nodes)) => {
                let is_ofi = key.server.as_ref().and_then(Attribute::value) == Some(OFI.into());
                Record::new(
                    P::BENCH,
                    case,
                    system,
                    if is_ofi { OFI } else { USUAL_SERVER },
                    ranks,
                    nodes as usize,
                )
            }
            (None, None) => Record::new(P::BENCH, case, system, "shm", ranks, 1),
        };
        for (name, attribute) in self.layout.attributes.iter().zip(&key.attributes) {
            if let Some(value) = attribute.value() {
                record = record.with(name, value);
            }
        }
        if let Some(value) = key.server.as_ref().and_then(Attribute::value) {
            record = record.with("server", value);
        }
        record = record.with("rounds", rounds.len());
        for (column, &(name, fold)) in self.layout.figures.iter().enumerate() {
            let mut values: Vec<f64> =
                rounds.iter().map(|round| round[column]).filter(|value| !value.is_nan()).collect();
            let middle = median(&mut values);
            let (Some(&least), Some(&most)) = (values.first(), values.last()) else {
                continue;
            };
            record = match fold {
                Fold::Smallest => record.figure(name, least),
                Fold::Largest => record.figure(name, most),
                Fold::Mean if setting.sim.is_some() => {
                    record.figure(name, values.iter().sum::<f64>() / values.len() as f64)
                }
                Fold::Median if name == "median_ns" => {
                    record.figure(name, middle).figure("min_ns", least).figure("max_ns", most)
                }
                Fold::Median | Fold::Mean => record.figure(name, middle),
            };
        }
        Ok(P::complete(record))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use farside::World;
    use serde::{Deserialize, Serialize};

    use super::super::tests::setting;
    use super::super::{FARSIDE, SLACK};
    use super::*;

    #[derive(Clone, Serialize, Deserialize)]
    struct Toy;

    impl Plan for Toy {
        const BENCH: &'static str = "toy";
        const LAYOUT: Layout = Layout {
            cases: &["spin", "jump"],
            attributes: &["height", "shoe"],
            figures: &[
                ("median_ns", Fold::Median),
                ("wait_max_ns", Fold::Largest),
                ("share_min", Fold::Smallest),
            ],
        };

        fn deadline(&self) -> Duration {
            SLACK
        }
        fn run(&self, _: &World) -> farside::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn samples_become_records_in_order() {
        let mut samples = Samples::new(Toy::LAYOUT);
        let say = |case, height: f64, shoe: &str, figures: [Option<f64>; 3]| {
            sample(case, &[&height, &shoe], &figures)
        };
        for (ns, wait, share) in [(4.0, 7.0, 0.5), (2.0, 9.0, 0.25), (3.0, 8.0, 0.75)] {
            let lines = [
                say("jump", 16.0, "left", [Some(ns), Some(wait), Some(share)]),
                say("jump", 0.25, "-", [Some(ns), None, None]),
                "noise".to_owned(),
                say("spin", 16.0, "left", [Some(ns), None, None]),
            ];
            samples.collect(&lines.join("\n"), 2, FARSIDE, None).unwrap();
        }
        let lines: Vec<String> =
            samples.records::<Toy>(&setting()).unwrap().iter().map(Record::to_json_line).collect();
        let of = |case: &str, rest: &str| {
            let start = r#""system":"farside","fabric":"shm","ranks":2,"nodes":1"#;
            format!(r#"{{"bench":"toy","case":"{case}",{start},{rest}}}"#)
        };
        let times = r#""rounds":3,"median_ns":3.0,"min_ns":2.0,"max_ns":4.0"#;
        let expected = [
            of("spin", &format!(r#""height":16,"shoe":"left",{times}"#)),
            of("jump", &format!(r#""height":0.25,{times}"#)),
            of(
                "jump",
                &format!(r#""height":16,"shoe":"left",{times},"wait_max_ns":9.0,"share_min":0.25"#),
            ),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_no_sample_is_named() {
        let mut samples = Samples::new(Toy::LAYOUT);
        for (line, problem) in [
            ("sample spin 1 left 1", "not a sample"),
            ("sample fly 1 left 1 2 3", "\"fly\""),
            ("sample spin 1 left 1 x 3", "printed"),
        ] {
            let error = samples.collect(line, 2, "mpich", None).unwrap_err();
            assert!(format!("{error:#}").contains(problem), "{line}: {error:#}");
        }
    }
}
