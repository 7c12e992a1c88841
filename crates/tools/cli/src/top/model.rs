//! What is shown of a job: rates between two snapshots, locks, waits and traffic.

use farside_inspect::doctor::{Describer, describe_place, describe_time};
use farside_inspect::snapshot::{Kind, RankState, RankView};
use farside_inspect::{Diagnosis, FoundJob, Snapshot, Verdict, diagnose};
use serde_json::{Value, json};

pub(crate) struct Model {
    pub(crate) job: u32,
    pub(crate) command: String,
    pub(crate) nodes: u32,
    pub(crate) processors: u32,
    pub(crate) diagnosis: Diagnosis,
    pub(crate) ranks: Vec<RankRow>,
    pub(crate) locks: Vec<LockRow>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RankRow {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    pub(crate) process: u32,
    /// In a word: `runs`, `waits`, `stopped`, `left`.
    pub(crate) state: &'static str,
    pub(crate) for_ns: u64,
    pub(crate) operations_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) sleeps_per_second: f64,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// What it does, with the place in the program.
    pub(crate) does: String,
    pub(crate) held: Vec<String>,
    /// Operations per second by peer.
    pub(crate) peers: Vec<(u32, f64)>,
}

/// A lock that somebody holds or waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockRow {
    pub(crate) name: String,
    pub(crate) holder: Option<(u32, String)>,
    pub(crate) waiters: Vec<u32>,
    pub(crate) longest_ns: u64,
}

impl Model {
    pub(crate) fn new(job: &FoundJob, before: &Snapshot, after: &Snapshot) -> Model {
        let diagnosis = diagnose(before, after);
        let seconds = after.taken_ns.saturating_sub(before.taken_ns) as f64 / 1e9;
        let ranks = after
            .ranks
            .iter()
            .map(|rank| row(before.ranks.get(rank.rank as usize), rank, after, seconds))
            .collect();
        Model {
            job: job.id,
            command: job.command.clone(),
            nodes: after.ranks.iter().map(|rank| rank.node + 1).max().unwrap_or(0),
            processors: after.processors,
            diagnosis,
            ranks,
            locks: locks(after),
        }
    }

    /// Returns whether all ranks have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.ranks.iter().all(|rank| matches!(rank.state, "left" | "lost" | "gone"))
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match self.diagnosis.verdict {
            Verdict::Stuck => "STUCK",
            Verdict::Slow => "slow",
            Verdict::Healthy => "healthy",
        }
    }

    pub(crate) fn json(&self, after: &Snapshot) -> Value {
        let ranks: Vec<Value> = self
            .ranks
            .iter()
            .map(|rank| {
                json!({
                    "rank": rank.rank, "node": rank.node, "process": rank.process,
                    "state": rank.state, "for_ns": rank.for_ns, "does": rank.does,
                    "operations": rank.operations, "bytes": rank.bytes,
                    "operations_per_second": rank.operations_per_second,
                    "bytes_per_second": rank.bytes_per_second,
                })
            })
            .collect();
        let locks: Vec<Value> = self
            .locks
            .iter()
            .map(|lock| {
                json!({
                    "lock": lock.name,
                    "holder": lock.holder.as_ref().map(|(rank, _)| rank),
                    "waiters": lock.waiters, "longest_ns": lock.longest_ns,
                })
            })
            .collect();
        json!({ "job": self.job, "command": self.command, "taken_ns": after.taken_ns,
            "verdict": self.diagnosis.verdict, "ranks": ranks, "locks": locks })
    }
}

fn row(before: Option<&RankView>, rank: &RankView, after: &Snapshot, seconds: f64) -> RankRow {
    let describer = Describer::new(after);
    let there = || rank.contexts.iter().filter(|context| context.is_there);
    let longest = there().filter(|context| context.activity.is_some());
    let waits = longest.min_by_key(|context| context.since_ns);
    let last = there().map(|context| context.since_ns).max().unwrap_or(0);
    let since = waits.map_or(last.max(rank.joined_ns), |context| context.since_ns);
    let stopped = rank.system.as_ref().is_some_and(|system| matches!(system.state, 'T' | 't'));
    let state = match (&rank.state, waits) {
        (RankState::Starting, _) => "starting",
        (RankState::Left, _) => "left",
        (RankState::Lost(_), _) => "lost",
        (RankState::Alive, _) if !rank.is_read => "elsewhere",
        (RankState::Alive, _) if rank.system.is_none() => "gone",
        (RankState::Alive, _) if stopped => "stopped",
        (RankState::Alive, Some(_)) => "waits",
        (RankState::Alive, None) => "runs",
    };
    let is_there = matches!(state, "waits" | "runs" | "stopped");
    let rate = |now: u64, then: u64| {
        if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 }
    };
    let of = |count: fn(&RankView) -> u64| rate(count(rank), before.map_or(0, count));
    let sleeps = |rank: &RankView| rank.contexts.iter().map(|context| context.sleeps).sum::<u64>();
    let does = match (state, waits.or(rank.contexts.first())) {
        ("waits" | "runs", Some(context)) => describer.context(context),
        _ => String::new(),
    };
    RankRow {
        rank: rank.rank,
        node: rank.node,
        process: rank.process,
        state,
        for_ns: if is_there { after.taken_ns.saturating_sub(since) } else { 0 },
        operations_per_second: of(RankView::operations),
        bytes_per_second: of(RankView::bytes),
        sleeps_per_second: of(sleeps),
        operations: rank.operations(),
        bytes: rank.bytes(),
        does,
        held: held(rank, &describer),
        peers: peers(before, rank, &rate),
    }
}

fn held(rank: &RankView, describer: &Describer<'_>) -> Vec<String> {
    let held = rank.contexts.iter().flat_map(|context| &context.held);
    held.map(|held| describer.lock(held.segment, held.offset, "a") + &describe_place(&held.place))
        .collect()
}

fn peers(
    before: Option<&RankView>,
    rank: &RankView,
    rate: &dyn Fn(u64, u64) -> f64,
) -> Vec<(u32, f64)> {
    let count = |view: &RankView, peer: u32| -> u64 {
        let all = view.contexts.iter().flat_map(|context| &context.peers);
        all.filter(|each| each.rank == peer).map(|each| each.operations).sum()
    };
    let mut known: Vec<u32> =
        rank.contexts.iter().flat_map(|context| &context.peers).map(|peer| peer.rank).collect();
    known.sort_unstable();
    known.dedup();
    let then = |peer| before.map_or(0, |before| count(before, peer));
    known.into_iter().map(|peer| (peer, rate(count(rank, peer), then(peer)))).collect()
}

/// The algorithm of a lock that nobody has named.
const UNSAID: &str = "a";

/// The locks that somebody holds or waits for, those with the longest waits first.
fn locks(after: &Snapshot) -> Vec<LockRow> {
    let describer = Describer::new(after);
    let mut found: Vec<((u64, u64), LockRow)> = Vec::new();
    let mut row = |key: (u64, u64), algorithm: &str| -> usize {
        let name = describer.lock(key.0, key.1, algorithm);
        if let Some(at) = found.iter().position(|(known, _)| *known == key) {
            // Those who wait know which algorithm it is; those who hold it do not say.
            if algorithm != UNSAID {
                found[at].1.name = name;
            }
            return at;
        }
        let name = name.strip_prefix("a ").unwrap_or(&name).to_owned();
        let holder =
            after.holders(key.0, key.1).first().map(|(rank, at)| (*rank, (*at).to_owned()));
        found.push((key, LockRow { name, holder, ..LockRow::default() }));
        found.len() - 1
    };
    let mut waits = Vec::new();
    for rank in after.ranks.iter().filter(|rank| rank.is_alive()) {
        for context in &rank.contexts {
            for held in &context.held {
                row((held.segment, held.offset), UNSAID);
            }
            if let Some(activity) = context.activity.as_ref().filter(|it| it.kind == Kind::Lock) {
                let at = row((activity.segment, activity.number), &activity.name);
                waits.push((at, rank.rank, after.taken_ns.saturating_sub(context.since_ns)));
            }
        }
    }
    for (at, rank, ns) in waits {
        let lock = &mut found[at].1;
        lock.waiters.push(rank);
        lock.longest_ns = lock.longest_ns.max(ns);
    }
    let mut locks: Vec<LockRow> = found.into_iter().map(|(_, lock)| lock).collect();
    locks.sort_by_key(|lock| std::cmp::Reverse((lock.waiters.len(), lock.longest_ns)));
    locks
}

/// A number in few letters: `1.2k`, `35M`.
pub(crate) fn short(number: f64) -> String {
    let (scaled, unit) = match number {
        n if n >= 1e12 => (n / 1e12, "T"),
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    if unit.is_empty() || scaled >= 99.95 {
        format!("{scaled:.0}{unit}")
    } else {
        format!("{scaled:.1}{unit}")
    }
}

/// A time in few letters.
pub(crate) fn since(ns: u64) -> String {
    match ns {
        0 => String::new(),
        1..1_000_000 => format!("{} us", ns.div_ceil(1000)),
        _ => describe_time(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(999.0), "999");
        assert_eq!(short(1234.0), "1.2k");
        assert_eq!(short(123_456_789.0), "123M");
        assert_eq!(short(2.5e9), "2.5G");
        assert_eq!(
            [since(0), since(1), since(420_100), since(2_000_000)],
            ["", "1 us", "421 us", "2 ms"]
        );
    }
}
