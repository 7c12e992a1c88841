//! The options of commands that can run in virtual time.

use anyhow::Result;
use clap::Args;
use farside::sim::Profile;
use farside_bench::machine::Machine;

/// Where to run, if not here.
#[derive(Args, Clone)]
pub(crate) struct Simulate {
    /// Run in virtual time, on a machine as this profile describes it: a name that `farside info`
    /// lists, or a file that ends in .toml
    #[arg(long, value_name = "PROFILE")]
    sim: Option<String>,
    /// Which run of the simulated machine: the same seed gives the same delays
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sim")]
    seed: u64,
}

impl Simulate {
    /// Whether ranks are simulated.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.sim.is_some()
    }

    /// The simulated machine, if one is asked for, with its ranks arranged as `topology` says.
    pub(crate) fn machine(&self, topology: Option<String>) -> Result<Option<Machine>> {
        let Some(name) = &self.sim else {
            return Ok(None);
        };
        Ok(Some(Machine { profile: Profile::load(name)?, topology, seed: self.seed }))
    }
}
