//! The judgement of hosts that do not hear each other.
//!
//! Hosts notice one that is cut off at different times, up to half of `--peer-timeout` apart. So
//! the first complaint decides nothing: the launcher asks all hosts whom they hear, and judges when
//! they have answered.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use farside_fabric::{ExitCause, Loss, Rank};
use farside_job::Kind;

use super::Cluster;
use crate::frames::ToNode;
use crate::policy::later;
use crate::remote::State;

/// The time that hosts may take to say whom they hear. One that does not answer is judged by what
/// the others say.
const ANSWER_TIME: Duration = Duration::from_secs(3);

pub(super) struct RankEnd {
    pub(super) node: usize,
    pub(super) rank: Rank,
    pub(super) how: ExitCause,
    pub(super) cause: Option<u64>,
}

impl RankEnd {
    /// Whether the rank ended because it did not hear of another host. Of two hosts that do not
    /// hear each other each calls the other silent.
    pub(super) fn is_due_to_silence(&self) -> bool {
        let loss = self.cause.and_then(Loss::from_bits);
        loss.is_some_and(|loss| loss.how == ExitCause::Silent)
    }
}

/// What is known of hosts that do not hear each other.
#[derive(Default)]
pub(super) struct Partition {
    /// Pairs of nodes of which the first has given the second up: one of them must be lost.
    complaints: BTreeSet<(usize, usize)>,
    /// Pairs of nodes of which the first does not hear the second.
    pairs: BTreeSet<(usize, usize)>,
    /// Those of which the first has never heard the second.
    unheard: BTreeSet<(usize, usize)>,
    /// The nodes that have said whom they hear.
    answered: BTreeSet<usize>,
    /// Ranks that ended because another host was silent, while it is open which of them is lost.
    undecided: Vec<RankEnd>,
    /// The time of the judgement, should a host not answer; while it is open which are lost.
    judgement_time: Option<Instant>,
}

impl Partition {
    /// Returns whether it is open which hosts are lost.
    pub(super) fn is_open(&self) -> bool {
        self.judgement_time.is_some()
    }

    pub(super) fn judgement_time(&self) -> Option<Instant> {
        self.judgement_time
    }

    pub(super) fn open(&mut self, until: Instant) {
        self.judgement_time = Some(until);
    }

    /// Notes which nodes a node says that it does not hear.
    pub(super) fn answer(&mut self, node: usize, others: &[u32]) {
        if self.is_open() {
            self.answered.insert(node);
            self.pairs.extend(others.iter().map(|&other| (node, other as usize)));
        }
    }

    /// Gives the hosts as much time as the launcher has paused.
    pub(super) fn pause(&mut self, pause: Duration) {
        self.judgement_time = self.judgement_time.map(|when| later(when, pause));
    }
}

impl Cluster<'_> {
    /// The first node of a pair has given the second up; perhaps it has never heard it. Every such
    /// complaint is answered, since a daemon takes itself for cut off otherwise; and if it is about
    /// a host that is there, all hosts are asked whom they hear.
    pub(super) fn complain(&mut self, pair: (usize, usize), is_unheard: bool) {
        let (node, other) = pair;
        if is_unheard {
            self.partition.unheard.insert(pair);
        }
        if self.partition.is_open() || !self.is_there(other) {
            self.remotes[node].outbox.push(&ToNode::Hearing);
        } else {
            self.partition.open(Instant::now() + ANSWER_TIME);
            let there = self.remotes.iter().filter(|remote| remote.state < State::Done);
            there.for_each(|remote| remote.outbox.push(&ToNode::Hearing));
        }
        if self.partition.is_open() {
            self.partition.complaints.insert(pair);
            self.partition.pairs.insert(pair);
        }
    }

    fn is_there(&self, node: usize) -> bool {
        self.remotes.get(node).is_some_and(|remote| remote.state < State::Done)
    }

    /// Tells all other hosts how a rank has ended; not yet, if that depends on which host is lost.
    pub(super) fn tell_end(&mut self, end: RankEnd) {
        if self.partition.is_open() && end.is_due_to_silence() {
            self.partition.undecided.push(end);
        } else {
            self.tell_others(end.node, &[end.rank], end.how, end.cause);
        }
    }

    /// Decides which of the hosts that do not hear each other are lost, when all have said whom
    /// they hear, or have had the time to.
    pub(super) fn drop_silent_hosts(&mut self) {
        let Some(ends) = self.partition.judgement_time else { return };
        let has_answered = |node: &usize| self.partition.answered.contains(node);
        let mut there = (0..self.remotes.len()).filter(|&node| self.is_there(node));
        if !there.all(|node| has_answered(&node)) && Instant::now() < ends {
            return;
        }
        let is_there = |&(one, other): &(usize, usize)| self.is_there(one) && self.is_there(other);
        let of_those = |pairs: &BTreeSet<(usize, usize)>| -> Vec<(usize, usize)> {
            pairs.iter().copied().filter(is_there).collect()
        };
        let (complaints, pairs) =
            (of_those(&self.partition.complaints), of_those(&self.partition.pairs));
        let lost = cut_off(complaints, pairs.clone(), &self.partition.answered);
        self.partition.judgement_time = None;
        self.partition.complaints.clear();
        self.partition.pairs.clear();
        self.partition.answered.clear();
        for node in lost {
            self.lose(node, self.describe_silence(node, &pairs));
        }
        for RankEnd { node, rank, how, cause } in std::mem::take(&mut self.partition.undecided) {
            match self.remotes[node].state {
                State::Lost => self.tell_others(node, &[rank], ExitCause::Silent, None),
                _ => self.tell_others(node, &[rank], how, cause),
            }
        }
    }

    /// Says which of the others do not hear a node, where they all are, and what may be the cause.
    pub(super) fn describe_silence(&self, node: usize, pairs: &[(usize, usize)]) -> String {
        let is_its = |pair: &&(usize, usize)| pair.0 == node || pair.1 == node;
        let complaints: BTreeSet<(usize, usize)> = pairs.iter().filter(is_its).copied().collect();
        let others: BTreeSet<usize> =
            complaints.iter().map(|pair| pair.0 + pair.1 - node).collect();
        let at = |node: usize| self.remotes[node].address.as_ref().map(|there| there.ip);
        let named = others.iter().map(|&other| match at(other) {
            Some(address) => format!("host {} ({address})", self.remotes[other].label),
            None => format!("host {}", self.remotes[other].label),
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let own = at(node).map_or(String::new(), |address| format!(" ({address})"));
        let heard = match complaints.is_subset(&self.partition.unheard) {
            true if self.launch.options.fabric == Kind::Nic => {
                "have never heard each other (is UDP blocked between them?)"
            }
            true => "have never heard each other (does a firewall stand between them?)",
            false => "no longer receive anything from each other",
        };
        format!("its interface{own} and that of {named} {heard}")
    }
}

/// Returns the nodes that must be lost so that no node is left with one that it has given up: again
/// and again, of the nodes in such `complaints`, the one that most others do not hear, by the
/// `pairs`; of several, one that has not answered, and the last.
pub(super) fn cut_off(
    mut complaints: Vec<(usize, usize)>,
    mut pairs: Vec<(usize, usize)>,
    answered: &BTreeSet<usize>,
) -> Vec<usize> {
    let mut lost = Vec::new();
    loop {
        let nodes: BTreeSet<usize> =
            complaints.iter().flat_map(|&(one, other)| [one, other]).collect();
        let unheard_by = |node: usize| pairs.iter().filter(|pair| pair.1 == node).count();
        let how_bad = |&node: &usize| (unheard_by(node), !answered.contains(&node), node);
        let Some(worst) = nodes.into_iter().max_by_key(how_bad) else { return lost };
        let is_of_others = |pair: &(usize, usize)| pair.0 != worst && pair.1 != worst;
        complaints.retain(is_of_others);
        pairs.retain(is_of_others);
        lost.push(worst);
    }
}
