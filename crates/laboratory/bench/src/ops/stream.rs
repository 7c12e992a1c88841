//! What one TCP stream takes over a link between nodes, by `iperf3`: the limit of long transfers
//! there. It moves bytes from one buffer into another, over and over, without names and tags.

use std::time::Duration;

use anyhow::Result;

use super::{Plan, row};
use crate::link::Link;
use crate::timing::Times;

/// Transfers that are shorter are bound by latency.
const LONG_BYTES: usize = 64 << 10;

/// Runs the long transfers of a plan as a stream, and returns its samples.
pub(super) fn run(plan: &Plan, link: &Link) -> Result<String> {
    let mut rows = Vec::new();
    let (mut there, mut back) = (None, None);
    for (case, bytes) in plan.cases().filter(|(_, bytes)| *bytes >= LONG_BYTES) {
        let (found, is_back) = match case.as_str() {
            "put" => (&mut there, false),
            "get" => (&mut back, true),
            _ => continue,
        };
        let bytes_per_s = match found {
            Some(bytes_per_s) => *bytes_per_s,
            None => {
                let time = plan.time.max(Duration::from_secs(1));
                *found.insert(link.stream_bytes_per_s(time, is_back)?)
            }
        };
        let ns = bytes as f64 * 1e9 / bytes_per_s;
        rows.push(row(&case, bytes, plan.target, Times::of_batches(ns)));
    }
    Ok(rows.join("\n"))
}
