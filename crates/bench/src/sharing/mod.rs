//! `farside bench sharing`: how transfers between two nodes share the way: small operations beside
//! long transfers, several long transfers, and one beside a TCP stream.

mod measure;
mod report;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting};
use crate::link::Link;
use crate::rivals::Rival;

pub use report::{plot, tables};

/// All cases.
const CASES: [&str; 4] = [IDLE, BESIDE_BULK, FAIR, BESIDE_TCP];
const IDLE: &str = "idle";
const BESIDE_BULK: &str = "beside_bulk";
const FAIR: &str = "fair";
const BESIDE_TCP: &str = "beside_tcp";
/// The fewest ranks: two on each node.
const RANKS_MIN: u32 = 4;

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each.
    pub time: Duration,
    /// Which case.
    pub case: String,
    /// Where the second node is, if there is a link to it.
    pub second: Option<Ipv4Addr>,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "sharing";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &[],
        figures: &[
            ("p50_ns", Fold::Median),
            ("p99_ns", Fold::Median),
            ("bytes_per_s", Fold::Median),
            ("jain", Fold::Median),
        ],
    };

    fn deadline(&self) -> Duration {
        4 * self.time + SLACK
    }

    fn label(&self) -> String {
        format!(", {}", self.case)
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        None
    }

    fn rivals() -> &'static [Rival] {
        &[]
    }
}

/// What to measure, all in all.
#[derive(Debug, Clone)]
pub struct Options {
    /// What every bench is told.
    pub setting: Setting,
    /// Which cases; all that can be measured if empty.
    pub cases: Vec<String>,
    /// The MTU of a link between the two nodes, if they are not to reach each other over loopback.
    pub mtu: Option<u32>,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let mut setting = options.setting.clone();
    setting.check(RANKS_MIN)?;
    setting.check_one_server()?;
    ensure!(setting.sim.is_none(), "this is measured by the clock: leave out --sim");
    ensure!(setting.nodes == Some(2), "what two nodes share is measured: add --nodes 2");
    if let Some(mtu) = options.mtu {
        setting.link = Some(Arc::new(Link::new(mtu, &setting.build_directory)?));
    }
    let second = setting.link.as_ref().map(|link| link.address(1));
    let mut cases = driver::choose(&options.cases, &CASES)?;
    let mut left_out = Vec::new();
    if second.is_none() && cases.iter().any(|case| case == BESIDE_TCP) {
        let why = format!("{BESIDE_TCP}: needs a link of its own: add --mtu 1500");
        if cases.len() == 1 {
            bail!("{why}");
        }
        cases.retain(|case| case != BESIDE_TCP);
        left_out.push(why);
    }
    let plans = cases
        .into_iter()
        .flat_map(|case| AtRanks::all(&setting, &Plan { time: setting.time, case, second }));
    driver::run(&setting, &plans.collect::<Vec<_>>(), &left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    #[test]
    fn a_plan_survives_the_command_line_and_says_what_it_found() {
        for case in [IDLE, BESIDE_BULK, FAIR] {
            let plan = Plan { time: Duration::from_millis(20), case: case.into(), second: None };
            let json = serde_json::to_string(&plan).unwrap();
            let plan: Plan = driver::plan(&[json]).unwrap();
            let samples = farside::local(4, move |world| plan.run(&world)).unwrap();
            assert!(samples[0][0].starts_with(&format!("sample {case} ")), "{samples:?}");
            assert!(samples[1..].iter().all(Vec::is_empty), "{samples:?}");
        }
    }
}
