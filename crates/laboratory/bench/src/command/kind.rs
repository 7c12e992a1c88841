//! The kind of ranks that are measured: processes, or simulated ones.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use farside::sim::Profile;
use farside_command::Misuse;

use crate::machine::Machine;

/// The kind of ranks. What jobs know besides is refused with the reason.
#[derive(Args, Clone)]
#[command(next_help_heading = "Kind of ranks")]
pub(super) struct KindOfRanks {
    /// Simulate the ranks in virtual time, on a machine as this profile describes it: a name that
    /// `farside info` lists, or a file that ends in .toml
    #[arg(long, value_name = "PROFILE")]
    sim: Option<String>,
    /// The seed of the simulated machine's delays: the same seed gives the same run
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sim")]
    seed: u64,
    #[arg(long, hide = true)]
    threads: bool,
    #[arg(long, hide = true)]
    trace: Option<PathBuf>,
    #[arg(long, hide = true)]
    flight: Option<String>,
}

impl KindOfRanks {
    /// Returns the simulated machine, with its ranks arranged as `topology` says, or nothing if the
    /// ranks are processes.
    pub(super) fn machine(&self, topology: Option<String>) -> Result<Option<Machine>> {
        if self.trace.is_some() || self.flight.is_some() {
            let why = "--trace: a recorder would be measured along with the operations; record a \
                       program instead, with `farside run --trace` or `farside app --trace`";
            bail!(Misuse(why.into()));
        }
        if self.threads {
            let why = "--threads: a bench measures processes, which is what jobs are; leave it out";
            bail!(Misuse(why.into()));
        }
        let Some(name) = &self.sim else { return Ok(None) };
        Ok(Some(Machine { profile: Profile::load(name)?, topology, seed: self.seed }))
    }
}
