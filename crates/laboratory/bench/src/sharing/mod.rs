//! `farside bench sharing`: how transfers between two nodes share the way: small operations beside
//! long transfers, several long transfers, one beside a TCP stream, and what a relay between the
//! nodes costs that loses packets.

mod measure;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use farside::World;
use serde::{Deserialize, Serialize};

use crate::driver::{self, Bench, Fold, Jobs, Layout, SLACK, Setting};
use crate::link::{Link, Trouble};
use crate::plot::BarChart;
use crate::record::Record;
use crate::report::{Plot, bars, time};
use crate::rivals::Rival;
use crate::table::{Columns, alike, times};

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
    time: Duration,
    case: String,
    bytes: usize,
    /// Where the second node is, if there is a link to it.
    second: Option<Ipv4Addr>,
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

    fn rivals() -> &'static [Rival] {
        &[]
    }
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  farside bench sharing --nodes 2\n  farside bench sharing \
                  --nodes 2 --mtu 1500 --ranks 4,8 --time 500\n  farside bench sharing --nodes 2 \
                  --mtu 1500 --relay --time 1000")]
pub struct Options {
    /// Which cases: idle, beside_bulk, fair, beside_tcp, or with --relay put_relayed, put_lossy,
    /// get_relayed, get_lossy; all that can be measured by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// Join the two nodes by a link with this MTU, in network namespaces, instead of loopback.
    /// Needs root
    #[arg(long, value_name = "BYTES", requires = "nodes")]
    mtu: Option<u32>,
    /// Put a relay between the two nodes of that link, which loses 1 % of the packets in the lossy
    /// cases and lets others overtake 1 %. Needs /dev/net/tun
    #[arg(long, requires = "mtu")]
    relay: bool,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("4");

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(RANKS_MIN)?;
        setting.check_one_server()?;
        ensure!(setting.sim.is_none(), "this is measured by the clock: leave out --sim");
        ensure!(setting.nodes == Some(2), "what two nodes share is measured: add --nodes 2");
        if let Some(mtu) = self.mtu {
            let make = if self.relay { Link::relayed } else { Link::new };
            setting.link = Some(Arc::new(make(mtu, &setting.build_directory)?));
        }
        let second = setting.link.as_ref().map(|link| link.address(1));
        let mut cases = driver::choose(&self.cases, &CASES)?;
        let mut left_out = Vec::new();
        cases.retain(|case| match self.why_not(case) {
            None => true,
            Some(why) => {
                left_out.push(format!("{case}: {why}"));
                false
            }
        });
        if cases.is_empty() {
            bail!("{}", left_out.join("; "));
        }
        if self.cases.is_empty() {
            // Nobody has asked for them.
            left_out.retain(|what| what.starts_with(BESIDE_TCP) && !self.relay);
        }
        let time = setting.time;
        let plans = cases.iter().flat_map(|case| {
            let lengths = match case.as_str() {
                IDLE => &[SMALL_BYTES][..],
                BESIDE_BULK | FAIR | BESIDE_TCP => &[BULK_BYTES][..],
                _ => &RELAYED_BYTES[..],
            };
            lengths.iter().map(move |&bytes| Plan { time, case: case.clone(), bytes, second })
        });
        Ok(Jobs { left_out, ..Jobs::everywhere(setting, plans) })
    }

    /// With how many times longer the slowest of a hundred small operations takes beside long
    /// transfers, and how much of the throughput a loss of packets leaves.
    fn table(records: &[Record]) -> String {
        let of_idle = |own: &Record| {
            let ranks = alike(records, own, &["ranks"]);
            let idle = ranks.into_iter().find(|other| other.case == IDLE)?.number("p99_ns")?;
            Some(times(own.number("p99_ns").filter(|_| own.case == BESIDE_BULK)? / idle))
        };
        let of_lossless = |lossy: &Record| {
            let lossless = match lossy.case.as_str() {
                PUT_LOSSY => PUT_RELAYED,
                GET_LOSSY => GET_RELAYED,
                _ => return None,
            };
            let same = alike(records, lossy, &["ranks", "bytes"]);
            let without = same.into_iter().find(|other| other.case == lossless)?;
            Some(times(lossy.number("bytes_per_s")? / without.number("bytes_per_s")?))
        };
        Columns::of(&["ranks", "case"])
            .figures(&[("bytes", "bytes"), ("median", "p50_ns"), ("99th percentile", "p99_ns")])
            .cell("of idle", of_idle)
            .figures(&[("throughput", "bytes_per_s")])
            .cell("of lossless", of_lossless)
            .number("Jain", "jain", |jain| format!("{jain:.2}"))
            .table(3, records)
    }

    /// The time of small operations, idle and beside long ones.
    fn plots(records: &[Record]) -> Vec<Plot> {
        let small = records.iter().filter(|record| [IDLE, BESIDE_BULK].contains(&&*record.case));
        let (ranks, case) =
            (|it: &Record| format!("{} ranks", it.ranks), |it: &Record| it.case.clone());
        let chart = BarChart {
            title: "Small operations beside long transfers".into(),
            subtitle: "99th percentile of 8 bytes; lower is better".into(),
            y: time("time"),
            groups: bars(small, ranks, case, "p99_ns"),
        };
        Plot::of_bars("small operations", "sharing-small.svg", &chart).into_iter().collect()
    }
}

impl Options {
    fn why_not(&self, case: &str) -> Option<&'static str> {
        match (RELAYED.contains(&case), self.relay) {
            (true, false) => Some("needs a relay between the nodes: add --mtu 1500 --relay"),
            (false, true) => Some("is not measured by a relay: leave out --relay"),
            _ if case == BESIDE_TCP && self.mtu.is_none() => {
                Some("needs a link of its own: add --mtu 1500")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Plan as _;

    #[test]
    fn every_case_says_what_it_found() {
        for case in [IDLE, BESIDE_BULK, FAIR, PUT_LOSSY, GET_RELAYED] {
            let (time, bytes) = (Duration::from_millis(20), BULK_BYTES);
            let plan = Plan { time, case: case.into(), bytes, second: None };
            let samples = farside::local(4, move |world| plan.run(world)).unwrap();
            assert!(samples[0][0].starts_with(&format!("sample {case} ")), "{samples:?}");
            assert!(samples[1..].iter().all(Vec::is_empty), "{samples:?}");
        }
    }
}
