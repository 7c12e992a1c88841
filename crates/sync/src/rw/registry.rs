//! What a reader-writer lock's file says of its lock, for all that goes through every lock.

use super::Kind;
use super::frame::Algorithm;
use crate::lock::registry::{Build, Job, Promise, Style, Trial, Variant, WITHOUT_FLUSH};

/// What each rank does in a round, one letter for each request: `r` and `w` as the style says; `t`
/// is a write that is only tried, `l` one with a time limit. Ranks beyond the roles start over with
/// them.
pub type Roles = &'static [&'static str];

/// One writer and two readers.
pub(super) const READERS: Roles = &["w", "r", "r"];
/// Two writers and a reader.
pub(super) const WRITERS: Roles = &["w", "w", "r"];
/// A writer and a reader.
pub(super) const PAIR: Roles = &["w", "r"];
/// A writer, and a reader that comes twice.
pub(super) const READS_TWICE: Roles = &["w", "rr"];

/// A reader-writer lock.
pub struct Entry {
    /// Its name, as benchmarks and tables spell it.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Returns the kind with its usual parameters.
    pub kind: fn() -> Kind,
    /// The jobs of which all schedules are explored.
    pub explored: &'static [Explored],
    /// The parameters with which a writer and a reader have time limits, or one of them dies. A
    /// lock without them is explored so under another name.
    pub limited: Option<fn() -> Kind>,
    /// The parameters with which 8 and 16 ranks are explored.
    pub many: Option<Many>,
    /// Wrong variants, and the right one with narrow fields.
    pub variants: &'static [Variant<dyn Algorithm, Roles>],
}

/// A lock as 8 and 16 ranks use it.
pub struct Many {
    /// Returns the kind.
    pub kind: fn() -> Kind,
    /// What must have happened, by the names of the statistics.
    pub branches: &'static [&'static str],
}

/// A job of which all schedules are explored.
pub struct Explored {
    /// Its name, behind that of the lock.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Returns the kind.
    pub kind: fn() -> Kind,
    /// What the ranks do; there is one for each role.
    pub roles: Roles,
    /// How they ask.
    pub style: Style,
    /// How often.
    pub rounds: u32,
    /// Where they are; on one node if it is not said.
    pub topology: Option<&'static str>,
    /// What must have happened, by the names of the statistics.
    pub branches: &'static [&'static str],
}

/// A writer and a reader on one node, which wait.
pub(super) const TWO: Explored = Explored {
    name: "",
    about: "a writer and a reader",
    kind: || Kind::Default,
    roles: PAIR,
    style: Style::Wait,
    rounds: 1,
    topology: None,
    branches: &[],
};

/// Returns the trial of a variant that breaks nothing, with one rank for each role.
pub(super) const fn passes(roles: Roles) -> Option<Trial<Roles>> {
    Some(Trial::passes(roles, Job::new(roles.len() as u32)))
}

/// Returns the trial of a variant that leaves a rank waiting, which ends in a failure with these
/// words.
pub(super) const fn stuck(roles: Roles, saying: &'static str) -> Option<Trial<Roles>> {
    Some(Trial::caught(roles, Promise::Progress, saying))
}

/// The variant that passes the lock on before what was written under it has landed.
pub(super) const fn without_flush(build: Build<dyn Algorithm>) -> Variant<dyn Algorithm, Roles> {
    let trial = Some(Trial::caught(PAIR, Promise::Visibility, "was written"));
    Variant { name: "without-flush", about: WITHOUT_FLUSH, build, trial }
}
