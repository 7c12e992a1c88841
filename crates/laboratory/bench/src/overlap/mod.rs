//! `farside bench overlap`: latency of passive epochs, and how much computation they hide, as in
//! figures 3 to 6 of \[PASSIVE08\].
//!
//! - `latency`: lock, one put or get, unlock, of an idle target and of one that computes;
//! - `sender`: computation between the operations and the unlock grows in steps of 5 % of the
//!   epoch's own time. The longest with which the whole takes no longer is the overlap, as a part
//!   of the epoch's time and of the transfer's: that without what an epoch takes that does nothing;
//! - `receiver`: the target does a fixed amount of computation, calling the library between slices
//!   of it, while all others lock, get and unlock. The overlap is the time that it takes without
//!   them, as a part of the time that it takes with them.
//!
//! Between nodes, the rank that computes in the last two has a processor for itself if there are
//! several: the interfaces here are software, and so are all the others'.

mod measure;
mod report;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use farside::World;
use farside_job::parse_bytes;
use serde::{Deserialize, Serialize};

use crate::cores::{self, Cores};
use crate::driver::{self, AtRanks, Bench, Fold, Jobs, Layout, SLACK, Setting, parse_sizes};
use crate::record::Record;
use crate::report::Plot;
use crate::rivals::Rival;

const CASES: [&str; 3] = [LATENCY, SENDER, RECEIVER];
const LATENCY: &str = "latency";
const SENDER: &str = "sender";
const RECEIVER: &str = "receiver";
/// Figure 5 and figure 6(b) are at this size.
const BYTES: usize = 32 << 10;

/// What one job of one system measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    time: Duration,
    cases: Vec<String>,
    sizes: Vec<usize>,
    /// With how many operations in an epoch, at 32 KiB.
    operations: Vec<usize>,
    /// At which sizes the others get from a target that computes, in bytes.
    receiver_sizes: Vec<usize>,
    designs: Vec<String>,
    /// How long a slice of the target's computation is, between two calls of the library, in
    /// microseconds.
    slice_us: u64,
    /// How long the library of a simulated machine is busy with a request of the two-sided design.
    library_ns: u64,
    /// What fits into one message of the two-sided design.
    message_bytes: usize,
    /// Where the rank that computes runs, and where everybody else does, if not everywhere.
    apart: Option<(Cores, Cores)>,
}

impl Plan {
    /// How processors are shared out, for records.
    fn cores(&self) -> &'static str {
        if self.apart.is_some() { "apart" } else { "free" }
    }

    fn has(&self, case: &str) -> bool {
        self.cases.iter().any(|known| known == case)
    }
}

impl driver::Plan for Plan {
    const BENCH: &'static str = "overlap";
    const LAYOUT: Layout = Layout {
        cases: &CASES,
        attributes: &["design", "operation", "bytes", "operations", "target", "cores"],
        figures: &[
            ("median_ns", Fold::Median),
            ("overlap_pct", Fold::Median),
            ("transfer_pct", Fold::Median),
            ("alone_ns", Fold::Median),
        ],
    };

    fn arguments(&self) -> Vec<String> {
        let list =
            |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        vec![
            self.time.as_millis().to_string(),
            self.cases.join(","),
            list(&self.sizes),
            list(&self.operations),
            self.designs.join(","),
            self.slice_us.to_string(),
            self.library_ns.to_string(),
            self.message_bytes.to_string(),
        ]
    }

    fn deadline(&self) -> Duration {
        // Some twenty measurements for an overlap; a target that computes keeps some designs
        // waiting for as long as it does.
        let each =
            (self.sizes.len() * 2 + self.operations.len()) as u32 * 2 * self.designs.len() as u32;
        (self.time * 64 + Duration::from_millis(200)) * each + SLACK
    }

    fn label(&self) -> String {
        format!(", processors {}", self.cores())
    }

    fn launcher_cores(&self) -> Option<Cores> {
        self.apart.as_ref().map(|(_, others)| others.clone())
    }

    fn run(&self, world: &World) -> farside::Result<Vec<String>> {
        measure::run(world, self)
    }

    fn for_rival(&self, _: Rival, _: bool) -> Option<Plan> {
        self.has(LATENCY).then(|| Plan { cases: vec![LATENCY.into()], ..self.clone() })
    }
}

/// What the command line asks for.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  farside bench overlap --against mpich,openmpi\n  farside bench \
                  overlap --sim infiniband-2008 --ranks 2,3,5,9,17,33,65 --json overlap.json \
                  --plot plots"
)]
pub struct Options {
    /// Which cases: latency, sender, receiver; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// At which sizes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8,512,4K,32K,64K,256K,1M",
        value_name = "BYTES,…"
    )]
    sizes: Vec<String>,
    /// With how many operations of 32 KiB in an epoch
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32", value_name = "N,…")]
    operations: Vec<usize>,
    /// At which sizes the others of `receiver` get from the target
    #[arg(long, value_delimiter = ',', default_value = "32K", value_name = "BYTES,…")]
    receiver_sizes: Vec<String>,
    /// Which designs: direct, two-sided, backoff, published
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "direct,two-sided",
        value_name = "DESIGN,…"
    )]
    designs: Vec<String>,
    /// For how long the target of `receiver` computes between two calls of the library, in
    /// microseconds
    #[arg(long, default_value_t = 1000, value_name = "US")]
    slice: u64,
    /// What fits into one message of the two-sided design
    #[arg(long, default_value = "16K", value_name = "BYTES")]
    eager: String,
}

impl Bench for Options {
    type Plan = Plan;

    const RANKS: Option<&'static str> = Some("2");
    const RANKS_HELP: &'static str = "At how many ranks; latency and sender are measured at 2 only";

    fn jobs(&self, setting: &mut Setting) -> Result<Jobs<Plan>> {
        setting.check(2)?;
        let cases = driver::choose(&self.cases, &CASES)?;
        let designs = driver::choose(&self.designs, &farside_apps::lu::DESIGNS)?;
        let (sizes, receiver_sizes) =
            (parse_sizes(&self.sizes)?, parse_sizes(&self.receiver_sizes)?);
        for &bytes in sizes.iter().chain(&receiver_sizes) {
            let is_good = bytes >= 8 && bytes.is_multiple_of(8) && bytes <= 16 << 20;
            ensure!(
                is_good,
                "{bytes} bytes cannot be measured: expected a multiple of 8 up to {}",
                16 << 20
            );
        }
        ensure!(
            self.operations.iter().all(|count| (1..=1024).contains(count)),
            "an epoch has 1 to 1024 operations here"
        );
        ensure!(!sizes.is_empty() && !self.operations.is_empty(), "there is nothing to measure");
        ensure!(self.slice > 0, "a slice of the target's computation takes at least 1 us");
        // Where an interface is hardware, or there is but one node, nobody needs a processor to be
        // put aside.
        let apart = match setting.nodes {
            Some(nodes) if nodes > 1 && setting.sim.is_none() => cores::usable()?.split_first(),
            _ => None,
        };
        let plan = Plan {
            time: setting.time,
            cases: Vec::new(),
            sizes,
            operations: self.operations.clone(),
            receiver_sizes,
            designs,
            slice_us: self.slice,
            library_ns: library_ns(setting),
            message_bytes: parse_bytes(&self.eager)? as usize,
            apart: None,
        };
        let (mut plans, mut left_out): (Vec<AtRanks<Plan>>, Vec<String>) = Default::default();
        for &ranks in &setting.ranks {
            // A pair has nothing to do with those who look on: more ranks matter at the receiver
            // only.
            let (cases, pairs): (Vec<String>, Vec<String>) =
                cases.iter().cloned().partition(|case| case == RECEIVER || ranks == 2);
            if !pairs.is_empty() {
                left_out.push(driver::left_out(&pairs, ranks, "a pair is measured at 2 ranks"));
            }
            for (cases, apart) in placements(cases, apart.as_ref()) {
                plans.push(AtRanks { ranks, plan: Plan { cases, apart, ..plan.clone() } });
            }
        }
        Ok(Jobs { plans, left_out })
    }

    fn table(records: &[Record]) -> String {
        report::table(records)
    }

    fn plots(records: &[Record]) -> Vec<Plot> {
        report::plots(records)
    }
}

/// Some cases, and the processors of the rank that computes and of all others.
type Placed = (Vec<String>, Option<(Cores, Cores)>);

/// Which cases are measured with which processors: what hides computation both with everybody
/// anywhere and, where processors can be put aside, with one for the rank that computes.
fn placements(cases: Vec<String>, apart: Option<&(Cores, Cores)>) -> Vec<Placed> {
    let hiding: Vec<String> = cases.iter().filter(|&case| case != LATENCY).cloned().collect();
    let all = [(cases, None), (hiding, apart.cloned())];
    let last = if apart.is_some() { 2 } else { 1 };
    all.into_iter().take(last).filter(|(cases, _)| !cases.is_empty()).collect()
}

/// What a request costs the library of a simulated machine: what its agent needs to serve one.
pub(crate) fn library_ns(setting: &Setting) -> u64 {
    let agent = setting.sim.as_ref().and_then(|machine| machine.profile.agent.get("get_ns"));
    agent.map_or(0, |figure| figure.is as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::records_of;
    use crate::driver::Plan as _;

    #[test]
    fn rivals_have_a_latency_alone() {
        let plan = Plan {
            time: Duration::from_millis(20),
            cases: vec!["latency".to_owned(), "sender".to_owned()],
            sizes: vec![8, 64],
            operations: vec![1, 4],
            receiver_sizes: vec![BYTES],
            designs: vec!["direct".to_owned()],
            slice_us: 300,
            library_ns: 0,
            message_bytes: 16384,
            apart: Some(("0".parse().unwrap(), "1,2".parse().unwrap())),
        };
        let words = ["20", "latency,sender", "8,64", "1,4", "direct", "300", "0", "16384"];
        assert_eq!(plan.arguments(), words);
        assert_eq!(plan.launcher_cores().unwrap().to_string(), "1,2");
        assert_eq!(plan.for_rival(Rival::Mpich, false).unwrap().cases, ["latency"]);
    }

    #[test]
    fn what_hides_computation_is_measured_in_both_placements() {
        let of = |cases: &[&str], apart| {
            let cases = cases.iter().map(|&case| case.to_owned()).collect();
            let told = |(cases, apart): Placed| (cases, apart.is_some());
            placements(cases, apart).into_iter().map(told).collect::<Vec<_>>()
        };
        let cores: (Cores, Cores) = ("0".parse().unwrap(), "1".parse().unwrap());
        let (all, sender) = (vec![LATENCY.to_owned(), SENDER.into()], vec![SENDER.to_owned()]);
        let both = [(all.clone(), false), (sender, true)];
        assert_eq!(of(&[LATENCY, SENDER], Some(&cores)), both);
        assert_eq!(of(&[LATENCY, SENDER], None), [(all, false)]);
        assert_eq!(of(&[LATENCY], Some(&cores)), [(vec![LATENCY.to_owned()], false)]);
        assert_eq!(of(&[], Some(&cores)), []);
    }

    const QUICK: &str = "--sim infiniband-2008 --operations 4 --slice 300 --eager 64K --time 2 \
                         --rounds 1";

    fn figure(records: &[Record], wanted: &[(&str, &str)], name: &str) -> f64 {
        let is = |record: &&Record| {
            wanted.iter().all(|&(key, value)| record.text(key).is_some_and(|known| known == value))
        };
        records
            .iter()
            .find(is)
            .and_then(|record| record.number(name))
            .unwrap_or_else(|| panic!("{wanted:?}"))
    }

    #[test]
    fn direct_epochs_hide_large_transfers_and_two_sided_ones_hide_none() {
        let records = records_of(&format!("overlap --ranks 2 --cases sender --sizes 64K {QUICK}"));
        let overlap = |design| {
            figure(
                &records,
                &[("design", design), ("operation", "get"), ("bytes", "65536")],
                "overlap_pct",
            )
        };
        assert!(overlap("direct") >= 80.0, "{}", overlap("direct"));
        assert!(overlap("two-sided") <= 10.0, "{}", overlap("two-sided"));
    }

    #[test]
    fn small_epochs_are_faster_in_one_message_and_large_ones_directly() {
        let records =
            records_of(&format!("overlap --ranks 2 --cases latency --sizes 8,1M {QUICK}"));
        let ns = |design, bytes| {
            figure(
                &records,
                &[("design", design), ("operation", "put"), ("bytes", bytes), ("target", "idle")],
                "median_ns",
            )
        };
        assert!(ns("two-sided", "8") < ns("direct", "8"), "[PASSIVE08] figure 3, small messages");
        assert!(
            ns("direct", "1048576") < 1.05 * ns("two-sided", "1048576"),
            "[PASSIVE08] figure 3, large messages"
        );
    }

    #[test]
    fn a_target_is_held_up_by_messages_only() {
        let records = records_of(&format!("overlap --ranks 9 --cases receiver --sizes 8 {QUICK}"));
        let overlap = |design| figure(&records, &[("design", design)], "overlap_pct");
        assert!(
            overlap("direct") > 99.0 && overlap("two-sided") < 80.0,
            "{} {}",
            overlap("direct"),
            overlap("two-sided")
        );
    }
}
