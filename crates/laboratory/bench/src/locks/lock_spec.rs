//! Which lock is measured: its name, and its thresholds where it has some.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use farside::{Context, Lock, Rank, RwLock, World, lock, rw};
use serde::{Deserialize, Serialize};

/// A lock to measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LockSpec {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Exclusive(lock::Kind),
    Shared(rw::Kind),
}

/// What may be set of locks that have thresholds; nothing stands for what is usual.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// How many neighbours share a counter of readers.
    pub t_dc: Option<u32>,
    /// How often in a row a lock may stay in an element of each level, the widest first.
    pub t_l: Option<Vec<u32>>,
    /// How many readers may go in at a counter before writers are looked for.
    pub t_r: Option<u32>,
}

impl LockSpec {
    /// All locks that there are, with what is usual.
    pub fn all() -> Vec<LockSpec> {
        let exclusive = lock::Kind::all().into_iter().map(Kind::Exclusive);
        let shared = rw::Kind::all().into_iter().map(Kind::Shared);
        exclusive.chain(shared).map(|kind| LockSpec { kind }).collect()
    }

    /// The lock of that name.
    pub fn named(name: &str) -> Result<LockSpec> {
        let all = LockSpec::all();
        let names = || all.iter().map(LockSpec::name).collect::<Vec<_>>().join(", ");
        let found = all.iter().find(|choice| choice.name() == name).cloned();
        found.with_context(|| format!("there is no lock {name:?}; there are: {}", names()))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Exclusive(kind) => kind.name(),
            Kind::Shared(kind) => kind.name(),
        }
    }

    /// Whether readers can share it.
    pub fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Shared(_))
    }

    /// The same lock with other thresholds, or itself if it has none of them.
    #[must_use]
    pub fn with(&self, new: &Thresholds) -> LockSpec {
        let kind = match &self.kind {
            Kind::Shared(rw::Kind::RmaRw { t_dc, t_l, t_r }) => Kind::Shared(rw::Kind::RmaRw {
                t_dc: new.t_dc.or(*t_dc),
                t_l: new.t_l.clone().unwrap_or_else(|| t_l.clone()),
                t_r: new.t_r.unwrap_or(*t_r),
            }),
            // The widest level has no bound where there are no readers to wait for.
            Kind::Exclusive(lock::Kind::RmaMcs { thresholds }) => {
                Kind::Exclusive(lock::Kind::RmaMcs {
                    thresholds: match new.t_l.as_deref() {
                        Some([_, below @ ..]) if !below.is_empty() => below.to_vec(),
                        Some(one) => one.to_vec(),
                        None => thresholds.clone(),
                    },
                })
            }
            other => other.clone(),
        };
        LockSpec { kind }
    }

    /// Its thresholds.
    pub fn thresholds(&self) -> Thresholds {
        match &self.kind {
            Kind::Shared(rw::Kind::RmaRw { t_dc, t_l, t_r }) => {
                Thresholds { t_dc: *t_dc, t_l: Some(t_l.clone()), t_r: Some(*t_r) }
            }
            Kind::Exclusive(lock::Kind::RmaMcs { thresholds }) if !thresholds.is_empty() => {
                Thresholds { t_l: Some(thresholds.clone()), ..Thresholds::default() }
            }
            _ => Thresholds::default(),
        }
    }

    /// Makes the lock, in the memory of rank 0. Collective.
    pub(super) fn build(&self, world: &World) -> farside::Result<AnyLock> {
        Ok(match &self.kind {
            Kind::Exclusive(kind) => AnyLock::Exclusive(Lock::of_kind(world, Rank(0), kind)?),
            Kind::Shared(kind) => AnyLock::Shared(RwLock::of_kind(world, Rank(0), kind)?),
        })
    }
}

impl Thresholds {
    /// T_DC, T_L and T_R as words of samples.
    pub(super) fn words(&self) -> [String; 3] {
        let word = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
        let list = self
            .t_l
            .as_ref()
            .map(|levels| levels.iter().map(u32::to_string).collect::<Vec<_>>().join("-"));
        [word(self.t_dc), list.unwrap_or("-".to_owned()), word(self.t_r)]
    }
}

/// Reads numbers for the levels such as `20-50`.
pub fn levels(text: &str) -> Result<Vec<u32>> {
    let number = |part: &str| match part.parse() {
        Ok(0) | Err(_) => {
            bail!("{text:?} is not a T_L: expected numbers for the levels such as 20-50")
        }
        Ok(number) => Ok(number),
    };
    text.split('-').map(number).collect()
}

impl fmt::Display for LockSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name(), self.thresholds().words().join("/"))
    }
}

impl FromStr for LockSpec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<LockSpec> {
        let words: Vec<&str> = text.split('/').collect();
        let [name, t_dc, t_l, t_r] = words[..] else {
            bail!("expected LOCK/T_DC/T_L/T_R, not {text:?}");
        };
        let number = |word: &str| match word {
            "-" => Ok(None),
            word => word.parse().map(Some).with_context(|| format!("{word:?} is not a threshold")),
        };
        let t_l = if t_l == "-" { None } else { Some(levels(t_l)?) };
        Ok(LockSpec::named(name)?.with(&Thresholds { t_dc: number(t_dc)?, t_l, t_r: number(t_r)? }))
    }
}

impl From<LockSpec> for String {
    fn from(lock: LockSpec) -> String {
        lock.to_string()
    }
}

impl TryFrom<String> for LockSpec {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<LockSpec> {
        text.parse()
    }
}

pub(super) enum AnyLock {
    Exclusive(Lock),
    Shared(RwLock),
}

impl AnyLock {
    /// Has the lock, to write or to read, while `inside` runs; returns what that returns.
    #[inline]
    pub(super) fn hold<T>(
        &self,
        context: &Context,
        writes: bool,
        inside: impl FnOnce() -> farside::Result<T>,
    ) -> farside::Result<T> {
        match self {
            AnyLock::Exclusive(lock) => {
                let guard = lock.lock(context)?;
                let result = inside()?;
                guard.unlock().map(|()| result)
            }
            AnyLock::Shared(lock) if writes => {
                let guard = lock.write(context)?;
                let result = inside()?;
                guard.unlock().map(|()| result)
            }
            AnyLock::Shared(lock) => {
                let guard = lock.read(context)?;
                let result = inside()?;
                guard.unlock().map(|()| result)
            }
        }
    }

    pub(super) fn free(self, world: &World) -> farside::Result<()> {
        match self {
            AnyLock::Exclusive(lock) => lock.free(world),
            AnyLock::Shared(lock) => lock.free(world),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_survives_the_command_line() {
        for choice in LockSpec::all() {
            assert_eq!(choice.to_string().parse::<LockSpec>().unwrap(), choice);
        }
        let wide = Thresholds { t_dc: Some(4), t_l: Some(vec![10, 100]), t_r: Some(7) };
        let choice = LockSpec::named("rma-rw").unwrap().with(&wide);
        assert_eq!(choice.to_string(), "rma-rw/4/10-100/7");
        assert_eq!(choice.to_string().parse::<LockSpec>().unwrap(), choice);
        let tree = LockSpec::named("rma-mcs").unwrap().with(&wide);
        assert_eq!(tree.to_string(), "rma-mcs/-/100/-");
        assert_eq!(tree.to_string().parse::<LockSpec>().unwrap(), tree);
        assert_eq!(
            LockSpec::named("ticket").unwrap().with(&wide),
            LockSpec::named("ticket").unwrap()
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(LockSpec::named("bakery").unwrap_err().to_string().contains("d-mcs"));
        assert!(levels("20-x").is_err() && levels("0").is_err() && levels("").is_err());
        assert!("rma-rw/1".parse::<LockSpec>().is_err());
    }
}
