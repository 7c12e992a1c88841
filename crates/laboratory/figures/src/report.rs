//! Results as JSON and Markdown.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use farside_bench::plot;
use serde::{Deserialize, Serialize};

use crate::measure;
use crate::points::{Bound, Catalogue, Compare, Measure, Point, Unit};
use crate::session::Done;
use crate::verdict::{Known, Verdict, as_printed, judge};

/// The factor within which a prediction should be.
pub const AIM: f64 = 1.5;

/// Everything that a session has found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Machine, date, version, commit, command.
    pub about: BTreeMap<String, String>,
    /// Whether the quick commands were run.
    pub quick: bool,
    /// The runs.
    pub runs: Vec<Done>,
    /// The points, judged.
    pub points: Vec<Judged>,
}

/// A point with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The point.
    pub id: String,
    /// The paper's key.
    pub paper: String,
    /// The figure.
    pub figure: String,
    /// The paper's number.
    pub published: f64,
    /// The prediction under the paper's profile.
    pub predicted: Option<f64>,
    /// The value of real ranks on this machine.
    pub real: Option<f64>,
    /// How many times the prediction is off, or beyond its bound; 1 if it is right, and nothing if
    /// it is an order that does not hold.
    pub factor: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is not compared, or has no value.
    pub note: Option<String>,
}

impl Outcome {
    /// Judges all points of a catalogue by the records of runs.
    pub fn new(
        catalogue: &Catalogue,
        not_compared: &BTreeSet<String>,
        about: BTreeMap<String, String>,
        quick: bool,
        runs: Vec<Done>,
    ) -> Outcome {
        let points = catalogue.points().map(|(paper, figure, point)| {
            let predicted = evaluate(&point.measure, point.compare, &runs);
            let real =
                point.real.as_ref().and_then(|real| evaluate(real, point.compare, &runs).ok());
            let done = runs.iter().find(|done| done.id == point.measure.run);
            let known = Known {
                value: predicted.as_ref().ok().copied(),
                is_calibrated: not_compared.contains(&point.id),
                records: done.map_or(&[], |done| &done.records),
                operations: done.and_then(operations),
            };
            let verdict = judge(point, known);
            // An order that does not hold is not nearly right.
            let has_factor = point.compare != Compare::Ordering || verdict != Verdict::Misses;
            Judged {
                id: point.id.clone(),
                paper: paper.paper.clone(),
                figure: figure.id.clone(),
                published: point.paper,
                predicted: known.value,
                real,
                factor: known.value.filter(|_| has_factor).map(|value| factor(point, value)),
                verdict,
                note: match predicted {
                    Err(error) => Some(format!("{error:#}")),
                    Ok(_) => point.by_construction.clone(),
                },
            }
        });
        let points = points.collect();
        Outcome { about, quick, runs, points }
    }

    /// Reads results, and judges them anew.
    pub fn read(
        text: &str,
        catalogue: &Catalogue,
        not_compared: &BTreeSet<String>,
    ) -> Result<Outcome> {
        let old: Outcome = serde_json::from_str(text).context("these are not results")?;
        Ok(Outcome::new(catalogue, not_compared, old.about, old.quick, old.runs))
    }

    /// Returns the results as JSON.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// Returns how many points have each verdict.
    pub fn counts(&self) -> BTreeMap<Verdict, usize> {
        let mut counts: BTreeMap<Verdict, usize> =
            Verdict::ALL.into_iter().map(|verdict| (verdict, 0)).collect();
        for point in &self.points {
            *counts.entry(point.verdict).or_default() += 1;
        }
        counts
    }

    /// Returns the summary: how many of what, and how many comparable points are within the aim.
    pub fn summary(&self) -> String {
        let counts = self.counts();
        let of = |verdict: Verdict| counts.get(&verdict).copied().unwrap_or(0);
        let comparable = of(Verdict::Agrees) + of(Verdict::Misses);
        let is_compared =
            |point: &&Judged| matches!(point.verdict, Verdict::Agrees | Verdict::Misses);
        let is_near = |point: &&Judged| point.factor.is_some_and(|factor| factor <= AIM);
        let near = self.points.iter().filter(is_compared).filter(is_near).count();
        let share = (100 * near).checked_div(comparable).unwrap_or(0);
        format!(
            "{} of {}: {} agree, {} miss, {} were not exercised, {} hold \
             by construction, {} calibrated a profile, {} were not run. Of {comparable} that can \
             be compared, {near} ({share} %) are within a factor of {AIM}.",
            match self.points.len() {
                1 => "1 point".to_owned(),
                points => format!("{points} points"),
            },
            match self.figures() {
                1 => "1 figure or table".to_owned(),
                figures => format!("{figures} figures and tables"),
            },
            of(Verdict::Agrees),
            of(Verdict::Misses),
            of(Verdict::NotExercised),
            of(Verdict::ByConstruction),
            of(Verdict::Calibrated),
            of(Verdict::NotRun),
        )
    }

    fn figures(&self) -> usize {
        let figures: BTreeSet<_> =
            self.points.iter().map(|point| (&point.paper, &point.figure)).collect();
        figures.len()
    }

    /// Returns a point, judged.
    pub fn judged(&self, id: &str) -> Option<&Judged> {
        self.points.iter().find(|point| point.id == id)
    }

    /// Returns a run.
    pub fn done(&self, id: &str) -> Option<&Done> {
        self.runs.iter().find(|done| done.id == id)
    }

    /// Returns the table of verdicts, for `docs/benchmarks/papers.md`.
    pub fn verdicts(&self, catalogue: &Catalogue) -> String {
        let mut text = format!("{}\n", fill(&self.summary()));
        for paper in &catalogue.papers {
            text += &format!("\n| [{}] | paper | predicted | verdict |\n", paper.paper);
            text += "| --- | --- | --- | --- |\n";
            for (_, _, point) in catalogue.points().filter(|(known, ..)| known.paper == paper.paper)
            {
                let Some(judged) = self.judged(&point.id) else { continue };
                let predicted =
                    judged.predicted.map_or("-".into(), |value| show(point.unit, value));
                let name = judged.verdict.name();
                let published = published(point);
                text += &format!("| `{}` | {published} | {predicted} | {name} |\n", point.id);
            }
        }
        text
    }

    /// Returns everything as Markdown.
    pub fn markdown(&self, catalogue: &Catalogue) -> String {
        let mut text = format!("# The published figures\n\n{}\n\n", fill(&self.summary()));
        for (key, value) in &self.about {
            text += &format!("- {key}: {value}\n");
        }
        for paper in &catalogue.papers {
            text += &format!("\n## [{}] {}\n", paper.paper, paper.title);
            for figure in &paper.figure {
                text += &format!("\n### {}: {}\n\n", name_of(&figure.id), figure.title);
                text.push_str("| what | paper | predicted | real ranks here | verdict |\n");
                text.push_str("| --- | --- | --- | --- | --- |\n");
                for point in &figure.point {
                    let Some(judged) = self.judged(&point.id) else { continue };
                    text += &format!("{}\n", row(point, judged));
                }
                if let Some(cause) = &figure.cause {
                    text += &format!("\n{}\n", fill(cause));
                }
                for command in self.commands(figure) {
                    text += &format!("\n    {command}\n");
                }
            }
        }
        text
    }

    /// Returns the commands that reproduce a figure.
    pub fn commands(&self, figure: &crate::points::Figure) -> Vec<String> {
        let measures = figure
            .point
            .iter()
            .flat_map(|point| std::iter::once(&point.measure).chain(&point.real))
            .map(|measure| measure.run.as_str());
        let runs: BTreeSet<&str> =
            figure.plot.iter().map(|plot| plot.run.as_str()).chain(measures).collect();
        let done = runs.into_iter().filter_map(|id| self.done(id));
        done.map(|done| done.command.clone()).collect()
    }
}

fn evaluate(measure: &Measure, compare: Compare, runs: &[Done]) -> Result<f64> {
    let done = runs.iter().find(|done| done.id == measure.run);
    let done = done.with_context(|| format!("{} was not run", measure.run))?;
    if let Some(error) = &done.error {
        anyhow::bail!("{} failed: {error}", measure.run);
    }
    measure::value(measure, compare, &done.records)
}

/// Returns how often each rank did what a run measured, as its command says.
fn operations(done: &Done) -> Option<f64> {
    let mut words = done.command.split_whitespace();
    words.find(|word| *word == "--operations")?;
    words.next()?.parse().ok()
}

/// Returns how many times a value is off, or beyond its bound.
fn factor(point: &Point, value: f64) -> f64 {
    let value = as_printed(point, value);
    let ratio = match (value == point.paper, point.bound) {
        (true, _) => 1.0,
        (_, Some(Bound::Above)) => (point.paper / value).max(1.0),
        (_, Some(Bound::Below)) => (value / point.paper).max(1.0),
        (_, None) => (value / point.paper).max(point.paper / value),
    };
    // What has no finite form in JSON is far enough.
    if ratio.is_finite() { ratio } else { 1e9 }
}

fn row(point: &Point, judged: &Judged) -> String {
    let value = |value: Option<f64>| value.map_or("-".into(), |value| show(point.unit, value));
    format!(
        "| {} | {} ({}) | {} | {} | {} |",
        point.what,
        published(point),
        point.at,
        value(judged.predicted),
        value(judged.real),
        judged.verdict.name()
    )
}

/// Returns the paper's number with its unit, and whether it is a bound.
pub fn published(point: &Point) -> String {
    let number = show(point.unit, point.paper);
    match point.bound {
        _ if point.compare == Compare::Semantics => "as in the table".into(),
        Some(Bound::Above) => format!("at least {number}"),
        Some(Bound::Below) => format!("at most {number}"),
        None => number,
    }
}

/// Returns a number with its unit, as people read it.
pub fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ns => plot::Unit::Ns.format(value),
        Unit::Count => plot::Unit::Count.format(value.round()),
        Unit::Bytes => plot::Unit::Bytes.format(value),
        Unit::Percent => format!("{value:.1} %"),
        Unit::Ratio if value != 0.0 && value.abs() < 0.01 => format!("{value:.5}"),
        Unit::Ratio => format!("{value:.2}"),
    }
}

/// Returns the name of a figure or table, as papers have it.
pub fn name_of(id: &str) -> String {
    match id.strip_prefix("table-") {
        Some(number) => format!("Table {number}"),
        None if id.starts_with(|first: char| first.is_ascii_digit()) => {
            let (number, rest) = id.split_once('-').unwrap_or((id, ""));
            format!("Figure {number} {rest}").trim_end().to_owned()
        }
        None => "In the text".to_owned(),
    }
}

/// Returns a paragraph in lines of at most 100 columns.
fn fill(text: &str) -> String {
    const COLUMNS: usize = 100;
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}

/// The lines between which `docs/benchmarks/papers.md` has the table of verdicts.
const BEGIN: &str =
    "<!-- verdicts: begin; farside figures --from docs/figures.json --update FILE -->";
const END: &str = "<!-- verdicts: end -->";

/// Returns a document with another table of verdicts in its place.
pub fn with_verdicts(document: &str, verdicts: &str) -> Result<String> {
    let lacking = || format!("it has no place for the table: lines {BEGIN:?} and {END:?}");
    let (before, rest) = document.split_once(BEGIN).with_context(lacking)?;
    let (_, after) = rest.split_once(END).with_context(lacking)?;
    Ok(format!("{before}{BEGIN}\n\n{verdicts}\n{END}{after}"))
}
