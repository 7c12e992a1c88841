//! Network profiles: what a machine's communication costs, with the source of every number.
//!
//! A profile is a TOML file; `docs/profiles.md` says how to read one, and what the model makes of
//! its numbers.

use std::collections::BTreeMap;

use farside_fabric::{Error, Result, Topology};
use serde::Deserialize;

/// A machine to measure on in virtual time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name, as `--sim` takes it.
    pub name: String,
    /// A description of the machine.
    pub machine: String,
    /// The papers that measured on it, as `docs/papers.md` calls them.
    #[serde(default)]
    pub papers: Vec<String>,
    /// The arrangement of ranks and the cost of communication at each level, the widest level
    /// first.
    pub level: Vec<Level>,
    /// The costs of operations that the network interface carries out.
    pub interface: BTreeMap<String, Figure>,
    /// The costs of operations that the agent, a thread of the host, carries out.
    pub agent: BTreeMap<String, Figure>,
    /// The costs of sharing memory.
    pub processor: BTreeMap<String, Figure>,
    /// The properties of a rank.
    pub rank: BTreeMap<String, Figure>,
    /// The irregularities: jitter and loss.
    pub noise: BTreeMap<String, Figure>,
    /// Published results, in files of earlier versions: accepted, and not read.
    #[serde(default)]
    pub point: Vec<toml::Table>,
}

/// A level of the topology.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its name; one is `machine`, one is `node`.
    pub name: String,
    /// The number of ranks in one element of it; the machine holds all.
    pub ranks: Option<Figure>,
    /// The carrier of operations between two ranks that share no narrower element.
    pub carrier: Carrier,
    /// From the end of sending to the arrival.
    pub latency_ns: Figure,
    /// The time for which the sender's processor is busy.
    pub send_ns: Figure,
    /// The time for which its processor is busy when the reply comes.
    pub receive_ns: Figure,
    /// The time for which the sending interface is busy with a message.
    pub gap_ns: Figure,
    /// And with each byte of it.
    pub byte_ps: Figure,
}

/// The part of a machine that carries out operations at their target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// The origin's own processor, through shared memory.
    Processor,
    /// The network interface of the target's node.
    Interface,
    /// A thread of the target's host.
    Agent,
}

/// A number, and where it comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The number.
    pub is: f64,
    /// The way in which it was found.
    pub kind: Origin,
    /// The published result that set it, by the id that `crates/laboratory/figures/points` gives
    /// it. Only a calibrated number has one.
    pub by: Option<String>,
    /// The place where it was found, or the reasoning.
    pub source: String,
}

/// The way in which a number was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It stands in the named source, or is a change of its unit.
    Published,
    /// It follows from published numbers by arithmetic that the source states.
    Derived,
    /// It was set so that one published result comes out; that result is never compared.
    Calibrated,
    /// It is a guess, for the reasons given.
    Estimated,
}

impl Origin {
    /// Every kind of number, with its name in a profile.
    pub const ALL: [(Origin, &'static str); 4] = [
        (Origin::Published, "published"),
        (Origin::Derived, "derived"),
        (Origin::Calibrated, "calibrated"),
        (Origin::Estimated, "estimated"),
    ];

    /// Returns the name of the kind, as profiles have it.
    pub fn name(self) -> &'static str {
        Origin::ALL.iter().find(|(origin, _)| *origin == self).map_or("", |(_, name)| name)
    }
}

macro_rules! profiles {
    ($($name:literal),* $(,)?) => {
        /// The profiles that come with farside, by name.
        const BUILT_IN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../profiles/", $name, ".toml")))),*];
    };
}

profiles![
    "myrinet-lanai4",
    "myrinet-lanai7",
    "myrinet-2000",
    "infiniband-2008",
    "ethernet-now",
    "ibm-sp",
    "aries-xc30",
    "infiniband-ndr",
    "slingshot-11",
    "ethernet-25g",
];

impl Profile {
    /// The names of the profiles that come with farside.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Returns the text of a profile that comes with farside.
    pub fn text(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Reads a profile.
    pub fn parse(text: &str) -> Result<Profile> {
        let bad = |why: String| Error::InvalidSetting(format!("a profile cannot be read: {why}"));
        let table: toml::Table = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        check_kinds("", &table).map_err(bad)?;
        let profile: Profile = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        let named = |name: &str| profile.level.iter().any(|level| level.name == name);
        if !named("node") || profile.level.first().is_none_or(|level| level.name != "machine") {
            return Err(
                bad("its first level must be \"machine\", and one must be \"node\"".into()),
            );
        }
        if profile.noise.get("loss_ppm").is_some_and(|loss| loss.is >= 1e6) {
            return Err(bad("with a noise.loss_ppm of 1000000 or more no message arrives".into()));
        }
        for level in profile.level.iter().skip(1) {
            if level.ranks.as_ref().is_none_or(|ranks| ranks.is < 1.0) {
                return Err(bad(format!(
                    "level {:?} does not say how many ranks it holds",
                    level.name
                )));
            }
        }
        Ok(profile)
    }

    /// Returns every number of the profile with its key, such as `level.machine.latency_ns` or
    /// `agent.wake_ns`.
    pub fn numbers(&self) -> Vec<(String, &Figure)> {
        let mut numbers = Vec::new();
        for level in &self.level {
            let key = |name: &str| format!("level.{}.{name}", level.name);
            let ranks = level.ranks.as_ref().map(|ranks| (key("ranks"), ranks));
            numbers.extend(ranks);
            numbers.extend([
                (key("latency_ns"), &level.latency_ns),
                (key("send_ns"), &level.send_ns),
                (key("receive_ns"), &level.receive_ns),
                (key("gap_ns"), &level.gap_ns),
                (key("byte_ps"), &level.byte_ps),
            ]);
        }
        for (name, table) in self.tables() {
            numbers.extend(table.iter().map(|(key, figure)| (format!("{name}.{key}"), figure)));
        }
        numbers
    }

    fn tables(&self) -> [(&'static str, &BTreeMap<String, Figure>); 5] {
        [
            ("interface", &self.interface),
            ("agent", &self.agent),
            ("processor", &self.processor),
            ("rank", &self.rank),
            ("noise", &self.noise),
        ]
    }

    /// Returns the same machine with another carrier of far operations: `nic`, the interface; or a
    /// thread of the target's host, which looks for messages all the time (`host-poll`), for a
    /// while before it sleeps (`host-spin-block`), or sleeps at once (`host-block`). The first two
    /// have a processor of their own; one that sleeps at once shares the rank's, as far as the
    /// profile says what that means.
    pub fn served_by(&self, server: &str) -> Result<Profile> {
        let mut profile = self.clone();
        let carrier = if server == "nic" { Carrier::Interface } else { Carrier::Agent };
        for level in profile.level.iter_mut().filter(|level| level.carrier != Carrier::Processor) {
            level.carrier = carrier;
        }
        let mut set = |name: &str, is: f64| {
            let source = format!("served by {server}");
            profile
                .agent
                .insert(name.to_owned(), Figure { is, kind: Origin::Estimated, by: None, source });
        };
        match server {
            "nic" => {}
            "host-poll" => set("spin_ns", 1e14),
            "host-spin-block" if figure(&self.agent, "spin_ns")? > 0 => {}
            "host-spin-block" => {
                let name = &self.name;
                return Err(Error::InvalidSetting(format!(
                    "the profile {name} does not say how long a host spins"
                )));
            }
            "host-block" => {
                set("spin_ns", 0.0);
                for (of_one, shared) in
                    [("steals_pct", "shared_steals_pct"), ("wake_steals_pct", "shared_wake_pct")]
                {
                    if let Some(part) = self.agent.get(shared) {
                        set(of_one, part.is);
                    }
                }
            }
            other => {
                let known = "nic, host-poll, host-spin-block, host-block";
                return Err(Error::InvalidSetting(format!(
                    "there is no server {other:?} in the simulator; there are: {known}"
                )));
            }
        }
        Ok(profile)
    }

    /// Returns the arrangement of so many ranks on this machine: in blocks, each element filled
    /// before the next.
    pub fn topology(&self, ranks: u32) -> Result<Topology> {
        let level = |level: &Level| {
            let each = level.ranks.as_ref().map_or(ranks, |each| each.is as u32).max(1);
            (level.name.clone(), (0..ranks).map(|rank| rank / each).collect())
        };
        Topology::from_levels(ranks, self.level.iter().map(level).collect())
    }
}

/// Refuses a number without a kind that is known, without a source, or calibrated by no point;
/// the error names the number's key.
fn check_kinds(path: &str, table: &toml::Table) -> std::result::Result<(), String> {
    let text = |key: &str| table.get(key).and_then(toml::Value::as_str);
    if table.contains_key("is") {
        let names = Origin::ALL.map(|(_, name)| name).join(", ");
        let kind = text("kind")
            .ok_or_else(|| format!("the number {path} has no kind: say one of {names}"))?;
        if !Origin::ALL.iter().any(|(_, name)| *name == kind) {
            return Err(format!("the number {path} has the kind {kind:?}: say one of {names}"));
        }
        if text("source").is_none_or(|source| source.trim().is_empty()) {
            return Err(format!("the number {path} has no source: say where it comes from"));
        }
        return match (kind == "calibrated", text("by")) {
            (true, None) => Err(format!(
                "the number {path} is calibrated by no point: name the published result that set \
                 it, as `by`"
            )),
            (false, Some(by)) => Err(format!(
                "the number {path} is {kind} and names the point {by:?}: a number that a result \
                 has set is calibrated"
            )),
            _ => Ok(()),
        };
    }
    for (key, value) in table {
        let dot = if path.is_empty() { "" } else { "." };
        match value {
            toml::Value::Table(inner) => check_kinds(&format!("{path}{dot}{key}"), inner)?,
            toml::Value::Array(all) => {
                for inner in all.iter().filter_map(toml::Value::as_table) {
                    let name = inner.get("name").and_then(toml::Value::as_str).unwrap_or("?");
                    check_kinds(&format!("{path}{dot}{key}.{name}"), inner)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A number of a table, in the unit of its name.
pub(crate) fn figure(table: &BTreeMap<String, Figure>, name: &str) -> Result<u64> {
    let missing = || Error::InvalidSetting(format!("the profile has no {name}"));
    let figure = table.get(name).ok_or_else(missing)?;
    whole(figure, name)
}

/// Returns a number of a table, in the unit of its name; zero if it is not there.
pub(crate) fn optional(table: &BTreeMap<String, Figure>, name: &str) -> Result<u64> {
    if table.contains_key(name) { figure(table, name) } else { Ok(0) }
}

/// Returns a number of a table, in the unit of its name, if it is there.
pub(crate) fn given(table: &BTreeMap<String, Figure>, name: &str) -> Result<Option<u64>> {
    if table.contains_key(name) { figure(table, name).map(Some) } else { Ok(None) }
}

pub(crate) fn whole(figure: &Figure, name: &str) -> Result<u64> {
    if figure.is.is_finite() && (0.0..1e15).contains(&figure.is) {
        return Ok(figure.is as u64);
    }
    Err(Error::InvalidSetting(format!(
        "{name} of the profile is {}, which is not a time",
        figure.is
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(from: &str, to: &str) -> String {
        let (_, text) = BUILT_IN.iter().find(|(name, _)| *name == "ibm-sp").unwrap();
        assert!(text.contains(from), "{from}");
        Profile::parse(&text.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn a_number_without_a_known_kind_is_refused_by_its_key() {
        let unknown =
            edited("{ is = 70_000, kind = \"estimated\"", "{ is = 70_000, kind = \"felt\"");
        assert!(unknown.contains("level.machine.latency_ns"), "{unknown}");
        assert!(unknown.contains("\"felt\"") && unknown.contains("derived"), "{unknown}");
        let by_none = edited(
            "kind = \"calibrated\", by = \"bst97-t3-sor-tree-resent\"",
            "kind = \"calibrated\"",
        );
        assert!(by_none.contains("noise.loss_ppm") && by_none.contains("`by`"), "{by_none}");
        let hidden = edited("kind = \"calibrated\", by", "kind = \"estimated\", by");
        assert!(hidden.contains("noise.loss_ppm") && hidden.contains("calibrated"), "{hidden}");
    }

    #[test]
    fn a_network_that_loses_every_message_is_refused() {
        let (_, text) = BUILT_IN.iter().find(|(name, _)| *name == "slingshot-11").unwrap();
        let lossy = |ppm: &str| {
            let loss = format!("loss_ppm      = {{ is = {ppm},");
            Profile::parse(&text.replacen("loss_ppm      = { is = 0,", &loss, 1))
        };
        assert!(lossy("999_999").is_ok());
        let problem = lossy("1_000_000").unwrap_err().to_string();
        assert!(problem.contains("loss_ppm"), "{problem}");
    }

    #[test]
    fn every_number_of_every_profile_has_a_kind_and_a_source() {
        for name in Profile::names() {
            let profile = Profile::load(name).unwrap();
            for (key, figure) in profile.numbers() {
                assert!(!figure.source.trim().is_empty(), "{name}: {key}");
                assert_eq!(figure.by.is_some(), figure.kind == Origin::Calibrated, "{name}: {key}");
            }
        }
    }
}
