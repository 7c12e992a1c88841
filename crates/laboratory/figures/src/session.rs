//! Runs what is asked for, and keeps results as they come.
//!
//! Each run's records are written into the output directory when it ends, under a new name that is
//! then renamed: an interruption at any moment leaves whole results, which a later session with
//! the same program resumes from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use farside::sim::Profile;
use farside_bench::record::Record;
use serde::{Deserialize, Serialize};

use crate::points::{Catalogue, Run};
use crate::semantics;

/// What runs a command of `farside bench`: its arguments in, its records out.
pub type Runner<'a> = &'a dyn Fn(&[String]) -> Result<Vec<Record>>;

/// Where and how runs are made.
pub struct Session<'a> {
    /// The directory of results.
    pub directory: PathBuf,
    /// Whether the quick commands are run.
    pub is_quick: bool,
    /// Whether results of the same program are taken from the directory.
    pub resumes: bool,
    /// What identifies the program whose results may be taken.
    pub stamp: String,
    /// What runs a command.
    pub runner: Runner<'a>,
    /// What hears of progress, a line at a time.
    pub progress: &'a dyn Fn(&str),
}

/// A run that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Its name.
    pub id: String,
    /// The command that reproduces it.
    pub command: String,
    /// How long it took.
    pub seconds: f64,
    /// What went wrong, if it has no records.
    pub error: Option<String>,
    /// Its records.
    pub records: Vec<Record>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    stamp: String,
    done: Done,
}

impl Session<'_> {
    /// Makes all runs of a catalogue, those that are kept already excepted.
    pub fn run(&self, catalogue: &Catalogue) -> Result<Vec<Done>> {
        let runs: Vec<&Run> = catalogue.runs().collect();
        let kept = self.directory.join("runs");
        std::fs::create_dir_all(&kept)
            .with_context(|| format!("cannot make {}", kept.display()))?;
        let (began, mut done) = (Instant::now(), Vec::new());
        for (number, run) in runs.iter().enumerate() {
            let remain = runs.len() - number - 1;
            if let Some(known) = self.resumed(run)? {
                (self.progress)(&format!(
                    "[{}/{}] {}: kept from before",
                    number + 1,
                    runs.len(),
                    run.id
                ));
                done.push(known);
                continue;
            }
            let elapsed = began.elapsed().as_secs();
            (self.progress)(&format!(
                "[{}/{}] {} runs, {remain} remain ({elapsed} s so far): {}",
                number + 1,
                runs.len(),
                run.id,
                self.command(run)?
            ));
            let one = self.one(run)?;
            if let Some(error) = &one.error {
                (self.progress)(&format!("{} failed: {error}", run.id));
            }
            done.push(one);
        }
        Ok(done)
    }

    /// Makes one run, and keeps its records unless it failed.
    fn one(&self, run: &Run) -> Result<Done> {
        let began = Instant::now();
        let found = match &run.check {
            Some(check) => semantics::check(check),
            None => self.words(run).and_then(|words| (self.runner)(&words)),
        };
        let (records, error) = match found {
            Ok(records) => (records, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        let done =
            Done { id: run.id.clone(), command: self.command(run)?, seconds, error, records };
        if done.error.is_none() {
            let kept = Kept { stamp: self.stamp.clone(), done: done.clone() };
            write(&self.path(run), serde_json::to_string(&kept)?.as_bytes())?;
        }
        Ok(done)
    }

    /// Returns a run that the same program has made before with the same command.
    fn resumed(&self, run: &Run) -> Result<Option<Done>> {
        let text = match std::fs::read(self.path(run)) {
            Ok(text) if self.resumes => text,
            _ => return Ok(None),
        };
        let Ok(kept) = serde_json::from_slice::<Kept>(&text) else { return Ok(None) };
        let is_same = kept.stamp == self.stamp && kept.done.command == self.command(run)?;
        Ok(is_same.then_some(kept.done))
    }

    fn path(&self, run: &Run) -> PathBuf {
        self.directory.join("runs").join(format!("{}.json", run.id))
    }

    fn command(&self, run: &Run) -> Result<String> {
        if run.check.is_some() {
            return Ok(format!("farside figures --only {}", run.id));
        }
        let words = self.words(run)?;
        let words = words.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        Ok(format!("farside bench {words}"))
    }

    /// Returns the arguments of a run, with a profile of its own if it changes numbers.
    fn words(&self, run: &Run) -> Result<Vec<String>> {
        let mut words = run.words(self.is_quick)?;
        if let (Some(name), false) = (run.profile(), run.set.is_empty()) {
            let path = self.directory.join("profiles").join(format!("{}.toml", run.id));
            write(&path, changed(name, &run.set)?.as_bytes())?;
            let at = words.iter().position(|word| word == name);
            let at = at.with_context(|| format!("{} has no --sim {name}", run.id))?;
            words[at] = path.display().to_string();
        }
        Ok(words)
    }
}

/// Returns the text of a profile in which some numbers are others.
fn changed(name: &str, set: &BTreeMap<String, f64>) -> Result<String> {
    let text = Profile::text(name).with_context(|| format!("there is no profile {name:?}"))?;
    let mut table: toml::Table = toml::from_str(text)?;
    for (key, is) in set {
        let lacking = || format!("the profile {name} has no number {key}");
        let (section, number) = key.split_once('.').with_context(lacking)?;
        let figure = table.get_mut(section).and_then(|section| section.get_mut(number));
        let figure = figure.and_then(toml::Value::as_table_mut).with_context(lacking)?;
        figure.insert("is".into(), (*is).into());
        figure.insert("kind".into(), "estimated".into());
        figure.remove("by");
    }
    Ok(toml::to_string(&table)?)
}

/// Writes a file whole: under another name first, which then takes the place of the old one.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(failed)?;
    }
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).with_context(failed)?;
    std::fs::rename(&new, path).with_context(failed)
}
