//! The judgement of hosts that do not hear each other.

use std::collections::BTreeSet;

use farside_fabric::{ExitCause, Loss, Rank};
use farside_job::Kind;

use super::Cluster;

/// A rank that has ended, and what it says of the cause.
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

impl Cluster<'_> {
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
        let heard = match complaints.is_subset(&self.unheard) {
            true if self.launch.options.fabric == Kind::Nic => {
                "have never heard each other (is UDP blocked between them?)"
            }
            true => "have never heard each other (does a firewall stand between them?)",
            false => "do not hear each other any more",
        };
        format!("its interface{own} and that of {named} {heard}")
    }
}

/// Returns the nodes that must be lost if these pairs do not hear each other: again and again the
/// one in most of the pairs that are left; of several, the last.
pub(super) fn cut_off(mut pairs: Vec<(usize, usize)>) -> Vec<usize> {
    let mut lost = Vec::new();
    while !pairs.is_empty() {
        let nodes: BTreeSet<usize> = pairs.iter().flat_map(|&(one, other)| [one, other]).collect();
        let partners = |node: usize| {
            let partners: BTreeSet<usize> = pairs
                .iter()
                .filter(|pair| pair.0 == node || pair.1 == node)
                .map(|pair| pair.0 + pair.1 - node)
                .collect();
            partners.len()
        };
        let Some(worst) = nodes.into_iter().max_by_key(|&node| (partners(node), node)) else {
            break;
        };
        pairs.retain(|pair| pair.0 != worst && pair.1 != worst);
        lost.push(worst);
    }
    lost
}
