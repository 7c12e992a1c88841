//! On which processors a thread may run.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Returns how many processors this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A set of processors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// The first of them, and the rest; nothing if there is but one.
    pub fn split_first(&self) -> Option<(Cores, Cores)> {
        match &self.0[..] {
            [first, rest @ ..] if !rest.is_empty() => {
                Some((Cores(vec![*first]), Cores(rest.to_vec())))
            }
            _ => None,
        }
    }

    /// From now on this thread, and what it starts, runs on these only.
    pub fn pin(&self) -> std::io::Result<()> {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&core| set.set(core));
        Ok(sched_setaffinity(None, &set)?)
    }

    /// Runs something on these processors, with all that it starts.
    pub fn pinned<T>(&self, run: impl FnOnce() -> T) -> Result<T> {
        let before = usable()?;
        self.pin().with_context(|| format!("running on the processors {self}"))?;
        let result = run();
        before.pin().context("running on all processors again")?;
        Ok(result)
    }
}

/// Where this thread may run.
pub fn usable() -> Result<Cores> {
    let set = sched_getaffinity(None).context("asking for the processors that may be used")?;
    Ok(Cores((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()))
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Cores {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Cores> {
        let number = |part: &str| {
            part.parse().with_context(|| format!("{text:?} is not a list of processors"))
        };
        Ok(Cores(text.split(',').map(number).collect::<Result<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_pinned_runs_there_and_nothing_after_it() {
        let all = usable().unwrap();
        let Some((first, rest)) = all.split_first() else { return };
        let inside = first.pinned(|| {
            (usable().unwrap(), std::thread::spawn(|| usable().unwrap()).join().unwrap())
        });
        assert_eq!(inside.unwrap(), (first.clone(), first));
        assert_eq!(usable().unwrap(), all);
        assert_eq!(rest.to_string().parse::<Cores>().unwrap(), rest);
        assert!("0,x".parse::<Cores>().is_err());
    }
}
