//! The published results, as data.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// The files of published results, one for each paper.
const FILES: [(&str, &str); 5] = [
    ("ARMCI03", include_str!("../points/armci03.toml")),
    ("NIC02", include_str!("../points/nic02.toml")),
    ("PASSIVE08", include_str!("../points/passive08.toml")),
    ("BST97", include_str!("../points/bst97.toml")),
    ("RMALOCK16", include_str!("../points/rmalock16.toml")),
];

/// Every figure and table with numbers of the five papers, and their one case and averages that
/// stand in the text alone. None of them may be missing.
const REQUIRED: [(&str, &[&str]); 5] = [
    ("ARMCI03", &["7a", "7b", "8a", "8b", "8-one", "9", "10"]),
    ("NIC02", &["table-1", "4a", "4b", "5a", "5b", "6a", "6b", "7", "8"]),
    ("PASSIVE08", &["3a", "3b", "4a", "4b", "5a", "5b", "6a", "6b", "7a", "7b", "8a", "8b"]),
    ("BST97", &["table-2", "table-3", "3", "4", "5", "6"]),
    (
        "RMALOCK16",
        &[
            "3-lb", "3-ecsb", "3-sob", "3-wcsb", "3-warb", "3-spike", "4a", "4b", "4c", "4d", "4e",
            "4f", "5-lb", "5-ecsb", "5-sob", "5-wcsb", "5-warb", "5-rates", "6", "averages",
        ],
    ),
];

/// All published results, and the runs that reproduce them.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// The papers, in the order of their files.
    pub papers: Vec<Paper>,
}

/// The results of one paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its key, as `docs/papers.md` has it.
    pub paper: String,
    /// Its title.
    pub title: String,
    /// The runs that reproduce its results.
    pub run: Vec<Run>,
    /// Its figures and tables.
    pub figure: Vec<Figure>,
}

/// A run: a command of `farside bench`, or a check that is built in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// The arguments of `farside bench`; none for a check that is built in.
    pub full: Option<String>,
    /// The arguments of a quicker one, if it differs.
    pub quick: Option<String>,
    /// A check that is built in, by its name.
    pub check: Option<String>,
    /// Numbers of the profile that this run changes, by their keys.
    #[serde(default)]
    pub set: BTreeMap<String, f64>,
    /// The reason for them.
    pub set_source: Option<String>,
}

/// A figure or table of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its number, such as `7a` or `table-2`.
    pub id: String,
    /// Its subject.
    pub title: String,
    /// The best supported cause of what misses, if something does.
    pub cause: Option<String>,
    /// What is drawn of its runs; without it, the points are drawn beside the paper's.
    pub plot: Option<Plot>,
    /// The numbers that the paper states.
    pub point: Vec<Point>,
}

/// A drawing of records.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The run whose records are drawn.
    pub run: String,
    /// The key of the horizontal axis.
    pub x: String,
    /// The figure of the vertical axis.
    pub y: String,
    /// The keys whose values tell the curves apart.
    pub series: Vec<String>,
    /// The records that count.
    #[serde(default, rename = "where")]
    pub filter: Filter,
    /// Whether the vertical axis is linear.
    #[serde(default)]
    pub linear: bool,
}

/// Values of keys that a record must have.
pub type Filter = BTreeMap<String, toml::Value>;

/// A published number.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its name, unique in all files.
    pub id: String,
    /// What is compared.
    pub what: String,
    /// The paper's number, as it is compared.
    pub paper: f64,
    /// The unit of the number.
    pub unit: Unit,
    /// The paper's statement, in our words.
    pub says: String,
    /// The place of the statement.
    pub at: String,
    /// The kind of comparison.
    pub compare: Compare,
    /// Whether the number is a bound instead of a value.
    pub bound: Option<Bound>,
    /// The factor by which a value may differ; of a bound, by which it may be crossed.
    pub tolerance: f64,
    /// How the value comes out of records.
    pub measure: Measure,
    /// The same on real ranks of this machine, where that makes sense.
    pub real: Option<Measure>,
    /// The numbers of profiles that this result has set, as `profile:key`.
    #[serde(default)]
    pub calibrates: Vec<String>,
    /// The reason why the comparison holds by construction, if it does.
    pub by_construction: Option<String>,
    /// The threshold that the run has to reach.
    pub exercised: Option<Threshold>,
}

/// The kind of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compare {
    /// A time, a count or a share.
    Absolute,
    /// One value over another.
    Ratio,
    /// Which of two is larger.
    Ordering,
    /// From where on one is not larger than the other.
    Crossover,
    /// The results of operations, which must be equal.
    Semantics,
}

/// The side of a bound on which a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// At least the number.
    Above,
    /// At most the number.
    Below,
}

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Parts of a hundred.
    Percent,
    /// A ratio.
    Ratio,
}

/// How a value comes out of the records of a run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The run.
    pub run: String,
    /// The figure of the records.
    pub figure: String,
    /// The records whose figure is the value, or the dividend.
    #[serde(default)]
    pub of: Filter,
    /// The records whose figure is the divisor, if the value is a ratio.
    pub over: Option<Filter>,
    /// The keys that must be equal in dividend and divisor; each combination gives one value.
    #[serde(default)]
    pub each: Vec<String>,
    /// What becomes of several values.
    #[serde(default)]
    pub fold: Fold,
    /// The key along which a crossover is looked for.
    pub along: Option<String>,
    /// A factor between the unit of records and that of the paper.
    pub scale: Option<f64>,
}

/// What becomes of several values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    /// There is one only; several are an error.
    #[default]
    Only,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The arithmetic mean.
    Mean,
    /// The geometric mean.
    Geometric,
    /// The largest over the smallest.
    Spread,
}

/// A threshold that a run has to reach before its verdict says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threshold {
    /// As many reads between two writes as T_R, on average.
    ReadsReachTR,
    /// As many writes of one node as the narrowest T_L.
    WritesReachTL,
    /// A message that was sent again.
    MessagesSentAgain,
}

impl Catalogue {
    /// Reads the results that come with farside.
    pub fn load() -> Result<Catalogue> {
        let papers = FILES.iter().map(|(paper, text)| {
            Paper::parse(text).with_context(|| format!("the points of {paper} are wrong"))
        });
        let catalogue = Catalogue { papers: papers.collect::<Result<_>>()? };
        catalogue.check()?;
        Ok(catalogue)
    }

    /// Returns all runs.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.papers.iter().flat_map(|paper| &paper.run)
    }

    /// Returns all points, each with its paper and figure.
    pub fn points(&self) -> impl Iterator<Item = (&Paper, &Figure, &Point)> {
        self.papers.iter().flat_map(|paper| {
            let of = move |figure| points_of(paper, figure);
            paper.figure.iter().flat_map(of)
        })
    }

    /// Returns the point of a name.
    pub fn point(&self, id: &str) -> Option<&Point> {
        self.points().map(|(.., point)| point).find(|point| point.id == id)
    }

    /// Returns the same catalogue with only the figures that a word of `only` names: a paper, a
    /// figure as `PAPER/ID`, or a point.
    pub fn only(mut self, only: &[String]) -> Result<Catalogue> {
        let is = |word: &String, paper: &str, figure: &Figure| {
            let name = format!("{paper}/{}", figure.id);
            word.eq_ignore_ascii_case(paper)
                || word.eq_ignore_ascii_case(&name)
                || figure.point.iter().any(|point| point.id == *word)
        };
        for word in only {
            let known = self
                .papers
                .iter()
                .any(|paper| paper.figure.iter().any(|figure| is(word, &paper.paper, figure)));
            ensure!(
                known,
                "--only {word}: there is no such paper, figure or point; `farside figures --list` \
                 names them all"
            );
        }
        if !only.is_empty() {
            for paper in &mut self.papers {
                let key = paper.paper.clone();
                paper.figure.retain(|figure| only.iter().any(|word| is(word, &key, figure)));
            }
        }
        self.papers.retain(|paper| !paper.figure.is_empty());
        for paper in &mut self.papers {
            let used: BTreeSet<String> = paper.figure.iter().flat_map(runs_of).collect();
            paper.run.retain(|run| used.contains(&run.id));
        }
        Ok(self)
    }

    /// Refuses a catalogue in which a figure is missing, a name is there twice, or a run is not.
    pub fn check(&self) -> Result<()> {
        for (key, figures) in REQUIRED {
            let paper = self.papers.iter().find(|paper| paper.paper == key);
            let paper = paper.with_context(|| format!("the paper {key} is missing"))?;
            for id in figures {
                let figure = paper.figure.iter().find(|figure| figure.id == *id);
                let figure = figure.with_context(|| format!("{key}: figure {id} is missing"))?;
                ensure!(!figure.point.is_empty(), "{key}: figure {id} has no point");
            }
        }
        let mut seen = BTreeSet::new();
        for run in self.runs() {
            ensure!(seen.insert(run.id.as_str()), "there are two runs {:?}", run.id);
            ensure!(
                run.full.is_some() != run.check.is_some(),
                "the run {:?} is either a command or a check",
                run.id
            );
            ensure!(
                run.set.is_empty() == run.set_source.is_none(),
                "the run {:?} changes numbers: say why, as set_source",
                run.id
            );
        }
        let mut seen = BTreeSet::new();
        for (paper, figure, point) in self.points() {
            ensure!(seen.insert(point.id.as_str()), "there are two points {:?}", point.id);
            point.check().with_context(|| format!("{}: {}", paper.paper, point.id))?;
            for run in runs_of(figure) {
                let known = paper.run.iter().any(|known| known.id == run);
                ensure!(known, "{}: figure {}: there is no run {run:?}", paper.paper, figure.id);
            }
        }
        Ok(())
    }
}

fn points_of<'a>(
    paper: &'a Paper,
    figure: &'a Figure,
) -> impl Iterator<Item = (&'a Paper, &'a Figure, &'a Point)> {
    figure.point.iter().map(move |point| (paper, figure, point))
}

fn runs_of(figure: &Figure) -> Vec<String> {
    let measures = figure.point.iter().flat_map(|point| {
        std::iter::once(&point.measure).chain(&point.real).map(|measure| measure.run.clone())
    });
    figure.plot.iter().map(|plot| plot.run.clone()).chain(measures).collect()
}

impl Paper {
    /// Reads the results of one paper.
    pub fn parse(text: &str) -> Result<Paper> {
        Ok(toml::from_str(text)?)
    }
}

impl Point {
    fn check(&self) -> Result<()> {
        ensure!(self.tolerance >= 1.0, "a tolerance is a factor of at least 1");
        ensure!(self.paper.is_finite(), "the paper's number is not finite");
        ensure!(
            !self.says.is_empty() && !self.at.is_empty(),
            "say what the paper states, and where"
        );
        let needs_bound = matches!(self.compare, Compare::Ordering);
        ensure!(!needs_bound || self.bound.is_some(), "an ordering needs a bound");
        if self.compare == Compare::Crossover {
            ensure!(self.measure.along.is_some(), "a crossover needs a key `along`");
        }
        for key in &self.calibrates {
            let parts = key.split_once(':');
            if parts.is_none_or(|(profile, key)| profile.is_empty() || key.is_empty()) {
                bail!("{key:?} names no number of a profile: expected PROFILE:KEY");
            }
        }
        Ok(())
    }
}

impl Run {
    /// Returns the arguments of `farside bench` in this mode, word by word.
    pub fn words(&self, is_quick: bool) -> Result<Vec<String>> {
        let text = match (&self.quick, &self.full) {
            (Some(quick), _) if is_quick => quick,
            (_, Some(full)) => full,
            _ => return Ok(Vec::new()),
        };
        shlex::split(text).with_context(|| format!("{text:?} is not a command"))
    }

    /// Returns the profile that it simulates, if it does.
    pub fn profile(&self) -> Option<&str> {
        let mut words = self.full.as_deref()?.split_whitespace();
        words.find(|word| *word == "--sim")?;
        words.next()
    }
}
