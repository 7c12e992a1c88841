//! A machine to measure on in virtual time.

use anyhow::Result;
use farside::sim::{Profile, Virtual};

use crate::record::Record;

/// A simulated machine, as `--sim` and its companions describe it.
#[derive(Debug, Clone)]
pub struct Machine {
    /// What it is.
    pub profile: Profile,
    /// How the ranks are arranged, if not as is usual there.
    pub topology: Option<String>,
    /// Which of its runs.
    pub seed: u64,
}

impl Machine {
    /// A job of so many ranks on it.
    pub fn job(&self, ranks: u32) -> Result<Virtual> {
        let job = Virtual::new(&self.profile, ranks)?.seed(self.seed);
        Ok(match &self.topology {
            Some(description) => job.topology(description)?,
            None => job,
        })
    }

    /// Returns the same machine with another server of far memory.
    pub fn served_by(&self, server: Option<&str>) -> Result<Machine> {
        let profile = match server {
            Some(server) => self.profile.served_by(server)?,
            None => self.profile.clone(),
        };
        Ok(Machine { profile, ..self.clone() })
    }

    /// The same machine in a later run of it.
    #[must_use]
    pub fn later(self, runs: u64) -> Machine {
        Machine { seed: self.seed.wrapping_add(runs), ..self }
    }

    /// A record of something that was measured on it.
    pub fn record(&self, bench: &str, case: &str, system: &str, ranks: u32) -> Result<Record> {
        let nodes = self.job(ranks)?.arrangement().nodes() as usize;
        let record = Record::new(bench, case, system, "sim", ranks as usize, nodes);
        Ok(record.with("profile", self.profile.name.as_str()).with("seed", self.seed))
    }
}
