//! What is worth saying of a job.

use farside_fabric::text::counted;

use super::describe::{Describer, bracketed, plural, ranks, time};
use super::progress::{Doing, Progress, is_unnoticed, missing};
use super::{Finding, FindingKind, Group, LONG_NS};
use crate::snapshot::{ActivityView, ContextView, Kind, RankState, RankView, SilenceView};

/// Everything that was found, the causes first.
pub(super) fn all(progress: &Progress<'_>, describer: &Describer<'_>) -> Vec<Finding> {
    let finder = Finder { progress, describer };
    let mut findings = finder.cut_off();
    findings.extend(finder.lost());
    findings.extend(finder.stopped());
    findings.extend(finder.deadlocks());
    findings.extend(finder.different_collectives());
    findings.extend(finder.words());
    findings.extend(finder.missing_members());
    findings.extend(finder.running_holders());
    findings.extend(finder.unanswered());
    findings.extend(finder.not_joined());
    findings.extend(finder.oversubscribed());
    findings
}

/// Where all ranks are: ranks that do the same are told of together.
pub(super) fn places(progress: &Progress<'_>, describer: &Describer<'_>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for rank in &progress.after.ranks {
        let (does, for_ns) = does(progress, describer, rank);
        match groups.iter_mut().find(|group| group.does == does) {
            Some(group) => {
                group.ranks.push(rank.rank);
                group.for_ns = group.for_ns.max(for_ns);
            }
            None => {
                let waits = matches!(progress.doing_of(rank.rank), Some(Doing::Waits(..)));
                groups.push(Group { ranks: vec![rank.rank], does, waits, for_ns });
            }
        }
    }
    groups
}

fn does(
    progress: &Progress<'_>,
    describer: &Describer<'_>,
    rank: &RankView,
) -> (String, Option<u64>) {
    match progress.doing_of(rank.rank) {
        Some(Doing::Starting) => ("has not joined yet".to_owned(), None),
        Some(Doing::Gone) => match &rank.state {
            RankState::Lost(how) => (format!("was lost: {how}"), None),
            RankState::Left => ("has left".to_owned(), None),
            _ => ("is gone: its process has ended".to_owned(), None),
        },
        Some(Doing::Elsewhere) => (format!("is on another host (node {})", rank.node), None),
        Some(Doing::Stopped) => {
            (format!("is stopped by a signal (process {})", rank.process), None)
        }
        Some(Doing::Waits(context, activity)) => {
            (describer.activity(activity), Some(progress.waited_ns(context)))
        }
        Some(Doing::Runs) | None => {
            let since = rank.contexts.iter().map(|context| context.since_ns).max();
            let waits = rank.contexts.iter().any(|context| context.activity.is_some());
            let since = since.filter(|&since| since != 0 && !waits).or(Some(rank.joined_ns));
            let for_ns = since.map(|since| progress.after.taken_ns.saturating_sub(since));
            let does = if waits { "makes progress" } else { "runs" };
            (does.to_owned(), for_ns.filter(|_| !waits))
        }
    }
}

struct Finder<'a> {
    progress: &'a Progress<'a>,
    describer: &'a Describer<'a>,
}

impl Finder<'_> {
    fn rank(&self, rank: u32) -> &RankView {
        &self.progress.after.ranks[rank as usize]
    }

    fn ranks_doing(&self, is_it: impl Fn(Doing<'_>) -> bool) -> Vec<u32> {
        let doing = self.progress.doing.iter().enumerate();
        doing.filter(|(_, doing)| is_it(**doing)).map(|(at, _)| at as u32).collect()
    }

    fn waiters_for(&self, rank: u32) -> Vec<u32> {
        let waiting = self.progress.waiting().map(|(waiter, ..)| waiter);
        waiting.filter(|&waiter| self.progress.awaited(waiter).contains(&rank)).collect()
    }

    fn lost(&self) -> Vec<Finding> {
        let lost = |rank: &&RankView| match (&rank.state, self.progress.doing_of(rank.rank)) {
            (RankState::Lost(how), _) => Some((rank.rank, how.clone())),
            (RankState::Alive, Some(Doing::Gone)) => {
                Some((rank.rank, "its process is gone".to_owned()))
            }
            _ => None,
        };
        let lost = self.progress.after.ranks.iter().filter_map(|rank| lost(&rank));
        lost.map(|(rank, how)| Finding {
            kind: FindingKind::Lost,
            ranks: vec![rank],
            what: format!("rank {rank} was lost: {how}"),
            cure: None,
        })
        .collect()
    }

    fn stopped(&self) -> Vec<Finding> {
        let stopped = self.ranks_doing(|doing| matches!(doing, Doing::Stopped));
        let finding = |&rank: &u32| {
            let process = self.rank(rank).process;
            let waiters = self.waiters_for(rank);
            let waited = match waiters.is_empty() {
                true => String::new(),
                false => format!("; {} for it", verb(&waiters, "waits", "wait")),
            };
            Finding {
                kind: FindingKind::Stopped,
                ranks: vec![rank],
                what: format!("rank {rank} (process {process}) is stopped by a signal{waited}"),
                cure: Some(format!("resume it with `kill -CONT {process}`")),
            }
        };
        stopped.iter().map(finding).collect()
    }

    fn deadlocks(&self) -> Vec<Finding> {
        let stuck = self.progress.stuck();
        let mut found: Vec<Vec<u32>> = Vec::new();
        for &start in &stuck {
            let is_known = found.iter().any(|cycle| cycle.contains(&start));
            if let Some(cycle) = (!is_known).then(|| self.cycle_from(start, &stuck)).flatten() {
                found.push(cycle);
            }
        }
        found.into_iter().map(|cycle| self.deadlock(&cycle)).collect()
    }

    /// A shortest cycle through a rank.
    fn cycle_from(&self, start: u32, stuck: &[u32]) -> Option<Vec<u32>> {
        let mut paths = std::collections::VecDeque::from([vec![start]]);
        let mut seen = std::collections::BTreeSet::new();
        while let Some(path) = paths.pop_front() {
            let last = *path.last()?;
            for next in self.progress.awaited(last) {
                if next == start {
                    return Some(path);
                }
                if stuck.contains(&next) && seen.insert(next) {
                    let mut longer = path.clone();
                    longer.push(next);
                    paths.push_back(longer);
                }
            }
        }
        None
    }

    fn deadlock(&self, cycle: &[u32]) -> Finding {
        let step = |(at, &rank): (usize, &u32)| {
            let next = cycle[(at + 1) % cycle.len()];
            format!("rank {rank} {}", self.wait_for(rank, next))
        };
        let steps: Vec<String> = cycle.iter().enumerate().map(step).collect();
        let mut all: Vec<u32> = cycle.to_vec();
        // Members that wait in the same collective are part of it.
        for &rank in cycle {
            all.extend(self.companions(rank));
        }
        all.sort_unstable();
        all.dedup();
        let places = self.lock_places(cycle);
        Finding {
            kind: FindingKind::Deadlock,
            ranks: all,
            what: format!("deadlock: {}", steps.join("; ")),
            cure: (places > 1).then(|| "acquire the locks in the same order everywhere".into()),
        }
    }

    fn lock_places(&self, cycle: &[u32]) -> usize {
        let is_lock = |&&rank: &&u32| {
            let doing = self.progress.doing_of(rank);
            matches!(doing, Some(Doing::Waits(_, activity)) if activity.kind == Kind::Lock)
        };
        cycle.iter().filter(is_lock).count()
    }

    /// Ranks in the same collective.
    fn companions(&self, rank: u32) -> Vec<u32> {
        let Some(Doing::Waits(_, own)) = self.progress.doing_of(rank) else { return Vec::new() };
        let same = |activity: &ActivityView| {
            activity.kind == Kind::Collective
                && own.kind == Kind::Collective
                && (activity.segment, activity.number) == (own.segment, own.number)
        };
        let waiting = self.progress.waiting();
        waiting.filter(|(_, _, activity)| same(activity)).map(|(rank, ..)| rank).collect()
    }

    /// What a rank waits for, and how `awaited` comes into it.
    fn wait_for(&self, rank: u32, awaited: u32) -> String {
        let Some(Doing::Waits(_, activity)) = self.progress.doing_of(rank) else {
            return format!("waits for rank {awaited}");
        };
        let what = self.describer.activity(activity);
        match activity.kind {
            Kind::Lock => {
                let holders = self.progress.after.holders(activity.segment, activity.number);
                let place = holders.iter().find(|(holder, _)| *holder == awaited);
                let place = place.map_or(String::new(), |(_, place)| bracketed(place));
                format!("{what}, which rank {awaited} holds{place}")
            }
            Kind::Collective => format!("{what}, where rank {awaited} is missing"),
            _ => what,
        }
    }

    /// Members of a team that have made different calls, or the same call at different places.
    fn different_collectives(&self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        let collectives: Vec<_> = self
            .progress
            .waiting()
            .filter(|(_, _, activity)| activity.kind == Kind::Collective)
            .collect();
        for (at, &(rank, _, activity)) in collectives.iter().enumerate() {
            let differs = |&&(_, _, other): &&(u32, &ContextView, &ActivityView)| {
                (other.segment, other.number) == (activity.segment, activity.number)
                    && (&other.name, other.size) != (&activity.name, activity.size)
            };
            let Some(&(other, _, theirs)) = collectives[at + 1..].iter().find(differs) else {
                continue;
            };
            let ranks = vec![rank, other];
            if found.iter().any(|finding| finding.ranks.contains(&rank)) {
                continue;
            }
            found.push(Finding {
                kind: FindingKind::DifferentCollectives,
                ranks,
                what: format!(
                    "different collectives: rank {rank} {}, rank {other} {}",
                    self.describer.activity(activity),
                    self.describer.activity(theirs)
                ),
                cure: Some(
                    "all members of a team make the same collective calls in the same order".into(),
                ),
            });
        }
        found
    }

    fn words(&self) -> Vec<Finding> {
        let waits = self.progress.waiting();
        waits.filter_map(|(rank, context, activity)| self.word(rank, context, activity)).collect()
    }

    fn word(&self, rank: u32, context: &ContextView, activity: &ActivityView) -> Option<Finding> {
        let word = activity.word.as_ref().filter(|_| activity.kind == Kind::Word)?;
        let what = self.describer.activity(activity);
        if is_unnoticed(activity) {
            let (seen, now) = (word.seen, word.now.unwrap_or(0));
            return Some(Finding {
                kind: FindingKind::UnnoticedChange,
                ranks: vec![rank],
                what: format!(
                    "rank {rank} {what}: it held {seen} when the rank last read it and holds \
                     {now} now, but the rank was not woken: only atomics and signals wake a rank, \
                     a plain put does not"
                ),
                cure: Some("write the word with `signal`, `put_signal` or an atomic".into()),
            });
        }
        if self.progress.can(rank) || self.progress.waited_ns(context) == 0 {
            return None;
        }
        let bytes = u64::from(word.bytes.max(1));
        let others: Vec<String> = word
            .others
            .iter()
            .map(|(offset, value)| format!("word {} holds {value}", offset / bytes))
            .collect();
        let elsewhere = match others.is_empty() {
            true => String::new(),
            false => {
                format!("; nearby, {}: was the signal meant for this word?", others.join(", "))
            }
        };
        Some(Finding {
            kind: FindingKind::UnwrittenWord,
            ranks: vec![rank],
            what: format!(
                "rank {rank} {what}; it has not been written since, and every rank that could \
                 write it is stuck{elsewhere}"
            ),
            cure: None,
        })
    }

    fn missing_members(&self) -> Vec<Finding> {
        let mut told: Vec<(u64, u64)> = Vec::new();
        let mut found = Vec::new();
        for (rank, context, activity) in self.progress.waiting() {
            let key = (activity.segment, activity.number);
            if activity.kind != Kind::Collective
                || told.contains(&key)
                || self.progress.waited_ns(context) < LONG_NS && self.progress.can(rank)
            {
                continue;
            }
            let missing = missing(activity);
            if missing.is_empty() {
                continue;
            }
            told.push(key);
            found.push(self.missing_from(rank, activity, &missing));
        }
        found
    }

    fn missing_from(&self, rank: u32, activity: &ActivityView, missing: &[u32]) -> Finding {
        let come = self.companions(rank).len().max(1);
        let activity_of_one = self.describer.activity(activity);
        let members = activity.entered.len();
        let first = missing[0];
        let (does, for_ns) = does(self.progress, self.describer, self.rank(first));
        let lasts = for_ns.map_or(String::new(), |ns| format!(", for {}", time(ns)));
        let others = missing.len() - 1;
        let others = match others {
            0 => String::new(),
            1 => "; 1 more is missing".to_owned(),
            _ => format!("; {others} more are missing"),
        };
        let runs = matches!(self.progress.doing_of(first), Some(Doing::Runs));
        Finding {
            kind: if runs { FindingKind::Runs } else { FindingKind::MissingMember },
            ranks: missing.to_vec(),
            what: format!(
                "{come} of {members} ranks {}; rank {first} has not arrived: it \
                 {does}{lasts}{}{others}",
                if come == 1 { activity_of_one } else { plural(&activity_of_one) },
                self.system(first),
            ),
            cure: None,
        }
    }

    /// What the system says of a rank that runs.
    fn system(&self, rank: u32) -> String {
        let view = self.rank(rank);
        let Some(system) = view.system.as_ref() else { return String::new() };
        if !matches!(self.progress.doing_of(rank), Some(Doing::Runs)) {
            return String::new();
        }
        let state = match system.state {
            'R' => "is runnable".to_owned(),
            _ if !system.sleeps_in.is_empty() => format!("sleeps in {}", system.sleeps_in),
            'D' => "waits for a device".to_owned(),
            _ => "sleeps outside this library".to_owned(),
        };
        format!(" (process {} {state})", view.process)
    }

    /// Locks whose holder runs while others wait.
    fn running_holders(&self) -> Vec<Finding> {
        let mut told: Vec<u32> = Vec::new();
        let mut found = Vec::new();
        for (_, context, activity) in self.progress.waiting() {
            if activity.kind != Kind::Lock || self.progress.waited_ns(context) < LONG_NS {
                continue;
            }
            for (holder, place) in self.progress.after.holders(activity.segment, activity.number) {
                let runs = matches!(self.progress.doing_of(holder), Some(Doing::Runs));
                if !runs || told.contains(&holder) {
                    continue;
                }
                told.push(holder);
                let waiters = self.waiters_for(holder);
                let lock = self.describer.lock(activity.segment, activity.number, &activity.name);
                let (_, for_ns) = does(self.progress, self.describer, self.rank(holder));
                let lasts = for_ns.map_or(String::new(), |ns| format!(" for {}", time(ns)));
                found.push(Finding {
                    kind: FindingKind::Runs,
                    ranks: vec![holder],
                    what: format!(
                        "rank {holder} holds {lock}{} and runs{lasts}{}; {} for it",
                        bracketed(place),
                        self.system(holder),
                        verb(&waiters, "waits", "wait")
                    ),
                    cure: None,
                });
            }
        }
        found
    }

    /// Nodes that do not hear each other; both ends may have noticed it.
    fn cut_off(&self) -> Vec<Finding> {
        let after = self.progress.after;
        let is_other_end = |one: &SilenceView, other: &SilenceView| {
            (one.node, one.peer) == (other.peer, other.node)
        };
        let mut findings = Vec::new();
        for (at, silence) in after.silences.iter().enumerate() {
            if after.silences[..at].iter().any(|each| is_other_end(each, silence)) {
                continue;
            }
            let is_mutual = after.silences.iter().any(|each| is_other_end(each, silence));
            let (node, peer) = (silence.node, silence.peer);
            let whom = match is_mutual {
                true => format!("nodes {node} and {peer} receive nothing from each other"),
                false => format!("node {node} receives nothing from node {peer}"),
            };
            let for_ns = after.taken_ns.saturating_sub(silence.since_ns);
            let of_peer = after.ranks.iter().filter(|rank| rank.node == peer);
            findings.push(Finding {
                kind: FindingKind::Silent,
                ranks: of_peer.map(|rank| rank.rank).collect(),
                what: format!("{whom}, for {}: nothing arrives between them", time(for_ns)),
                cure: Some(
                    "check that the hosts can reach each other; `--peer-timeout` says when one \
                     counts as lost"
                        .into(),
                ),
            });
        }
        findings
    }

    fn unanswered(&self) -> Vec<Finding> {
        let waits = self.progress.waiting().filter(|(_, context, activity)| {
            matches!(activity.kind, Kind::Transfer | Kind::Flush | Kind::Call)
                && self.progress.waited_ns(context) >= LONG_NS
        });
        waits
            .filter_map(|(rank, context, activity)| self.no_answer(rank, context, activity))
            .collect()
    }

    fn no_answer(
        &self,
        rank: u32,
        context: &ContextView,
        activity: &ActivityView,
    ) -> Option<Finding> {
        let (after, peers) = (self.progress.after, self.progress.peers(activity));
        let is_silent = peers.iter().any(|&peer| {
            let node = self.rank(peer).node;
            after.silences.iter().any(|silence| [silence.node, silence.peer].contains(&node))
        });
        let what = format!(
            "rank {rank} {}, for {}",
            self.describer.activity(activity),
            time(self.progress.waited_ns(context))
        );
        if is_silent {
            return Some(Finding {
                kind: FindingKind::Silent,
                what: format!("{what}: the node of {} does not answer", ranks(&peers)),
                ranks: peers,
                cure: Some(
                    "check that its host is reachable; `--peer-timeout` says when it counts as \
                     lost"
                        .into(),
                ),
            });
        }
        // A wait for whatever lands here names nobody.
        activity.peers.as_ref()?;
        Some(Finding {
            kind: FindingKind::Runs,
            what: format!(
                "{what}: the agent of the node of {} is alive but has not answered yet; it runs \
                 one handler at a time",
                ranks(&peers)
            ),
            ranks: peers,
            cure: None,
        })
    }

    fn not_joined(&self) -> Vec<Finding> {
        let starting = self.ranks_doing(|doing| matches!(doing, Doing::Starting));
        let alive = self.progress.after.ranks.iter().filter(|rank| rank.is_alive());
        let oldest = alive.map(|rank| rank.joined_ns).filter(|&ns| ns != 0).min();
        let waited = oldest.map_or(0, |ns| self.progress.after.taken_ns.saturating_sub(ns));
        if starting.is_empty() || waited < LONG_NS {
            return Vec::new();
        }
        vec![Finding {
            kind: FindingKind::NotJoined,
            what: format!(
                "{} not joined yet, {} after the first",
                verb(&starting, "has", "have"),
                time(waited)
            ),
            ranks: starting,
            cure: None,
        }]
    }

    fn oversubscribed(&self) -> Vec<Finding> {
        let after = self.progress.after;
        let alive: Vec<u32> =
            after.ranks.iter().filter(|rank| rank.is_alive()).map(|rank| rank.rank).collect();
        let runs = |&&rank: &&u32| matches!(self.progress.doing_of(rank), Some(Doing::Runs));
        let busy = alive.iter().filter(runs).count();
        let waits_long = self.progress.longest_wait_ns() >= LONG_NS;
        if !waits_long || after.processors == 0 || busy <= after.processors as usize {
            return Vec::new();
        }
        vec![Finding {
            kind: FindingKind::Oversubscribed,
            what: format!("{busy} running ranks share {}", counted(after.processors, "processor")),
            ranks: alive,
            cure: Some("start fewer ranks, or use more machines".into()),
        }]
    }
}

/// Ranks with a verb: `rank 3 waits`, `ranks 1 and 2 wait`.
fn verb(of: &[u32], one: &str, many: &str) -> String {
    format!("{} {}", ranks(of), if of.len() == 1 { one } else { many })
}
