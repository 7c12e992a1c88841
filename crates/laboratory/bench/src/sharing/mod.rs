//! `farside bench sharing`: how transfers between two nodes share the way: small operations beside
//! long transfers, several long transfers, one beside a TCP stream, and what a relay between the
//! nodes costs that loses packets.

mod measure;
mod report;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, AtRanks, Findings, Fold, Layout, SLACK, Setting};
use crate::link::{Link, Trouble};
use crate::rivals::Rival;

pub use report::{plot, tables};

const CASES: [&str; 8] =
    [IDLE, BESIDE_BULK, FAIR, BESIDE_TCP, PUT_RELAYED, PUT_LOSSY, GET_RELAYED, GET_LOSSY];
const IDLE: &str = "idle";
const BESIDE_BULK: &str = "beside_bulk";
const FAIR: &str = "fair";
const BESIDE_TCP: &str = "beside_tcp";
const PUT_RELAYED: &str = "put_relayed";
const PUT_LOSSY: &str = "put_lossy";
const GET_RELAYED: &str = "get_relayed";
const GET_LOSSY: &str = "get_lossy";
const RELAYED: [&str; 4] = [PUT_RELAYED, PUT_LOSSY, GET_RELAYED, GET_LOSSY];
const TROUBLE: Trouble = Trouble { lost_percent: 1, late_percent: 1 };
const SMALL_BYTES: usize = 8;
const BULK_BYTES: usize = 1 << 20;
const RELAYED_BYTES: [usize; 2] = [BULK_BYTES, 8 << 20];
/// The fewest ranks: two on each node.
const RANKS_MIN: u32 = 4;

/// What one job of one system measures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// For how long each.
    pub time: Duration,
    /// Which case.
    pub case: String,
    /// How long each transfer is.
    pub bytes: usize,
    /// Where the second node is, if there is a link to it.
    pub second: Option<Ipv4Addr>,
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "sharing";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["bytes"],
        figures: &[
            ("p50_ns", Fold::Median),
            ("p99_ns", Fold::Median),
            ("bytes_per_s", Fold::Median),
            ("jain", Fold::Median),
        ],
    };

    fn prepare(&self, setting: &Setting) {
        let is_lossy = [PUT_LOSSY, GET_LOSSY].contains(&self.case.as_str());
        if let Some(link) = &setting.link {
            link.set_trouble(if is_lossy { TROUBLE } else { Trouble::default() });
        }
    }

    fn deadline(&self) -> Duration {
        4 * self.time + SLACK
    }

    fn label(&self) -> String {
        format!(", {} of {} bytes", self.case, self.bytes)
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
    /// Whether a relay stands between the two nodes of that link.
    pub relay: bool,
}

/// Measures.
pub fn run(options: &Options) -> Result<Findings> {
    let mut setting = options.setting.clone();
    setting.check(RANKS_MIN)?;
    setting.check_one_server()?;
    ensure!(setting.sim.is_none(), "this is measured by the clock: leave out --sim");
    ensure!(setting.nodes == Some(2), "what two nodes share is measured: add --nodes 2");
    if let Some(mtu) = options.mtu {
        let make = if options.relay { Link::relayed } else { Link::new };
        setting.link = Some(Arc::new(make(mtu, &setting.build_directory)?));
    }
    let second = setting.link.as_ref().map(|link| link.address(1));
    let mut cases = driver::choose(&options.cases, &CASES)?;
    let mut left_out = Vec::new();
    cases.retain(|case| match why_not(case, options) {
        None => true,
        Some(why) => {
            left_out.push(format!("{case}: {why}"));
            false
        }
    });
    if cases.is_empty() {
        bail!("{}", left_out.join("; "));
    }
    if options.cases.is_empty() {
        // Nobody has asked for them.
        left_out.retain(|what| what.starts_with(BESIDE_TCP) && !options.relay);
    }
    let time = setting.time;
    let plan = |case: &String, bytes| Plan { time, case: case.clone(), bytes, second };
    let plans = cases.iter().flat_map(|case| {
        let lengths = match case.as_str() {
            IDLE => &[SMALL_BYTES][..],
            BESIDE_BULK | FAIR | BESIDE_TCP => &[BULK_BYTES][..],
            _ => &RELAYED_BYTES[..],
        };
        lengths.iter().flat_map(|&bytes| AtRanks::all(&setting, &plan(case, bytes)))
    });
    driver::run(&setting, &plans.collect::<Vec<_>>(), &left_out)
}

fn why_not(case: &str, options: &Options) -> Option<&'static str> {
    match (RELAYED.contains(&case), options.relay) {
        (true, false) => Some("needs a relay between the nodes: add --mtu 1500 --relay"),
        (false, true) => Some("is not measured by a relay: leave out --relay"),
        _ if case == BESIDE_TCP && options.mtu.is_none() => {
            Some("needs a link of its own: add --mtu 1500")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    #[test]
    fn a_plan_survives_the_command_line_and_says_what_it_found() {
        for case in [IDLE, BESIDE_BULK, FAIR, PUT_LOSSY, GET_RELAYED] {
            let (time, bytes) = (Duration::from_millis(20), BULK_BYTES);
            let plan = Plan { time, case: case.into(), bytes, second: None };
            let json = serde_json::to_string(&plan).unwrap();
            let plan: Plan = driver::plan(&[json]).unwrap();
            let samples = farside::local(4, move |world| plan.run(world)).unwrap();
            assert!(samples[0][0].starts_with(&format!("sample {case} ")), "{samples:?}");
            assert!(samples[1..].iter().all(Vec::is_empty), "{samples:?}");
        }
    }
}
