//! The numbers of profiles as they were when results became known.
//!
//! A number that differs from the baseline was changed by a person who may have seen results. It is
//! refused, unless it is marked as calibrated by a point that says so itself, or its revision is
//! written down with the points whose results were known. Neither such a point nor one that has
//! calibrated a number is ever compared.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use farside::sim::Profile;
use farside::sim::profile::Origin;
use serde::Deserialize;

use crate::points::Catalogue;

/// The numbers of all profiles of the papers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileBaseline {
    /// For each profile, its numbers by their keys.
    pub profile: BTreeMap<String, BTreeMap<String, f64>>,
    /// What was changed since, and why.
    #[serde(default)]
    pub revision: Vec<Revision>,
}

/// A change of a number after results were known.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// The profile.
    pub profile: String,
    /// The number's key.
    pub key: String,
    /// The number before, if there was one.
    pub from: Option<f64>,
    /// The number now.
    pub to: f64,
    /// The reason.
    pub why: String,
    /// The points whose results were known and may have led to it: they are not compared.
    pub known: Vec<String>,
}

impl ProfileBaseline {
    /// Reads the baseline that comes with farside.
    pub fn load() -> Result<ProfileBaseline> {
        let text = include_str!("../points/baseline.toml");
        toml::from_str(text).context("the baseline of profile numbers cannot be read")
    }

    /// Checks the profiles that come with farside, and returns the points that are not compared.
    pub fn check_all(&self, catalogue: &Catalogue) -> Result<BTreeSet<String>> {
        for name in self.profile.keys() {
            self.check(&Profile::load(name)?, catalogue)?;
        }
        for (.., point) in catalogue.points() {
            for number in &point.calibrates {
                let (profile, key) = number.split_once(':').context("expected PROFILE:KEY")?;
                let profile = Profile::load(profile)?;
                let numbers = profile.numbers();
                let by = numbers.iter().find(|(known, _)| known == key);
                let by = by.and_then(|(_, figure)| figure.by.as_deref());
                ensure!(
                    by == Some(&point.id),
                    "the point {} says that it has set {number}, and that number does not say so: \
                     mark it as calibrated by it",
                    point.id
                );
            }
        }
        let calibrating = catalogue.points().filter(|(.., point)| !point.calibrates.is_empty());
        let known = self.revision.iter().flat_map(|revision| revision.known.iter().cloned());
        Ok(calibrating.map(|(.., point)| point.id.clone()).chain(known).collect())
    }

    /// Refuses a profile with a number that was changed since results are known, and is neither
    /// calibrated by a point that says so nor a revision.
    pub fn check(&self, profile: &Profile, catalogue: &Catalogue) -> Result<()> {
        let name = &profile.name;
        let known = self.profile.get(name);
        let known = known.with_context(|| format!("the profile {name} is not in the baseline"))?;
        for (key, figure) in profile.numbers() {
            if let Some(by) = &figure.by {
                calibrated(catalogue, by, &format!("{name}:{key}"))?;
            }
            let is_revision = |revision: &&Revision| {
                revision.profile == *name && revision.key == key && revision.to == figure.is
            };
            let is_accounted = known.get(&key) == Some(&figure.is)
                || figure.kind == Origin::Calibrated
                || self.revision.iter().find(is_revision).is_some();
            if is_accounted {
                continue;
            }
            let before = known.get(&key).map_or("not there".to_owned(), f64::to_string);
            bail!(
                "{key} of the profile {name} is {}, and was {before} when results became known: \
                 restore it, mark it as calibrated by the point that it is to hit, or write its \
                 revision into points/baseline.toml with the points whose results were known",
                figure.is
            );
        }
        Ok(())
    }
}

/// Refuses a calibrated number whose point does not say that it has set it.
fn calibrated(catalogue: &Catalogue, by: &str, number: &str) -> Result<()> {
    let point = catalogue.point(by);
    let point =
        point.with_context(|| format!("{number} is calibrated by {by:?}, no such point"))?;
    ensure!(
        point.calibrates.iter().any(|set| set == number),
        "{number} is calibrated by the point {by}, which does not say so: add it to `calibrates` \
         of that point, which is then not compared"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(name: &str, from: &str, to: &str) -> Profile {
        let text = Profile::text(name).unwrap();
        assert!(text.contains(from), "{from}");
        Profile::parse(&text.replacen(from, to, 1)).unwrap()
    }

    #[test]
    fn the_profiles_are_those_of_the_baseline() {
        let catalogue = Catalogue::load().unwrap();
        let not_compared = ProfileBaseline::load().unwrap().check_all(&catalogue).unwrap();
        assert!(not_compared.contains("nic02-4a-hit-poll"), "{not_compared:?}");
        assert!(!not_compared.contains("rmalock16-3-lb-d-mcs"), "{not_compared:?}");
    }

    #[test]
    fn a_profile_edited_to_hit_a_compared_point_is_refused_unless_it_is_marked() {
        let (baseline, mut catalogue) =
            (ProfileBaseline::load().unwrap(), Catalogue::load().unwrap());
        let from = "latency_ns = { is = 3200, kind = \"estimated\"";
        let quietly = "latency_ns = { is = 9400, kind = \"estimated\"";
        let tuned = edited("myrinet-2000", from, quietly);
        let error = baseline.check(&tuned, &catalogue).unwrap_err().to_string();
        assert!(error.contains("level.machine.latency_ns") && error.contains("3200"), "{error}");

        let marked = "latency_ns = { is = 9400, kind = \"calibrated\", \
                      by = \"armci03-7a-combined\"";
        let tuned = edited("myrinet-2000", from, marked);
        let error = baseline.check(&tuned, &catalogue).unwrap_err().to_string();
        assert!(error.contains("armci03-7a-combined"), "{error}");

        let points = catalogue.papers.iter_mut().flat_map(|paper| &mut paper.figure);
        let mut points = points.flat_map(|figure| &mut figure.point);
        let point = points.find(|point| point.id == "armci03-7a-combined").unwrap();
        point.calibrates.push("myrinet-2000:level.machine.latency_ns".into());
        baseline.check(&tuned, &catalogue).unwrap();
    }

    #[test]
    fn a_revision_takes_its_known_points_out_of_the_comparison() {
        let (mut baseline, catalogue) =
            (ProfileBaseline::load().unwrap(), Catalogue::load().unwrap());
        let from = "latency_ns = { is = 3200, kind = \"estimated\"";
        let to = "latency_ns = { is = 9400, kind = \"estimated\"";
        let tuned = edited("myrinet-2000", from, to);
        baseline.revision.push(Revision {
            profile: "myrinet-2000".into(),
            key: "level.machine.latency_ns".into(),
            from: Some(3200.0),
            to: 9400.0,
            why: "a test".into(),
            known: vec!["armci03-7a-combined".into()],
        });
        baseline.check(&tuned, &catalogue).unwrap();
        assert!(baseline.check_all(&catalogue).unwrap().contains("armci03-7a-combined"));
    }
}
