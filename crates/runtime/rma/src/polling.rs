//! Loops that fetch a word again and again until another rank has changed it.
//!
//! A loop of fetches from near memory never enters the fabric, and where ranks outnumber processors
//! it may keep its processor from the very rank that is to change the word, until the system takes
//! the processor away. So a rank that has fetched what it knew some times in a row lets others run.

use std::cell::Cell;

use farside_fabric::{JobView, Rank, Topology};

/// So many fetches in a row that brought nothing new are one look at a word: then others run.
const LOOK: u32 = 16;
/// Loops poll few words.
const WORDS: usize = 4;

/// What a context, or a thread, has fetched lately.
#[derive(Debug)]
pub struct Polling {
    /// Whether those that run on this node outnumber its processors, and ranks fetch without the
    /// fabric.
    is_crowded: bool,
    /// Where words were, and what they held; and which of them is the next to be replaced.
    known: [Cell<(usize, u64)>; WORDS],
    next: Cell<usize>,
    /// How many fetches in a row have brought nothing new.
    unchanged: Cell<u32>,
}

impl Polling {
    /// Nothing yet.
    pub fn new(job: &JobView<'_>) -> Polling {
        Polling {
            is_crowded: job.caps.direct
                && is_crowded(job.topology, job.rank, job.caps.processors as usize),
            known: Default::default(),
            next: Cell::new(0),
            unchanged: Cell::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Notes a fetch from an address of this process. Returns whether the caller should let others
    /// run: it has looked at what it knows for long enough, and they need the processor.
    #[inline]
    pub fn should_yield(&self, at: usize, held: u64) -> bool {
        self.is_crowded && self.is_idle(at, held)
    }

    /// Returns whether the caller has looked at what it knows for long enough.
    pub(crate) fn is_idle(&self, at: usize, held: u64) -> bool {
        let known = self.known.iter().find(|known| known.get().0 == at).unwrap_or_else(|| {
            let next = self.next.get();
            self.next.set((next + 1) % WORDS);
            &self.known[next]
        });
        if known.replace((at, held)) != (at, held) {
            self.unchanged.set(0);
            return false;
        }
        self.unchanged.set((self.unchanged.get() + 1) % LOOK);
        self.unchanged.get() == 0
    }
}

/// Whether those that run on a rank's node outnumber its processors. On several nodes an agent
/// brings what far ranks write, and needs a processor, too. Nodes that share a machine share its
/// processors, but each has one, even if there are fewer: there the agent counts for the others.
fn is_crowded(topology: &Topology, rank: Rank, processors: usize) -> bool {
    let agents = usize::from(topology.nodes() > 1);
    topology.ranks_of(topology.node_of(rank)).len() + agents > processors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_machine_are_crowded_if_their_ranks_outnumber_its_processors() {
        for processors in 1..9 {
            for ranks in 1..12 {
                for nodes in 1..=ranks {
                    let topology = Topology::parse(&format!("node:{nodes}"), ranks).unwrap();
                    // What a node is told that it has.
                    let share = (processors / nodes).max(1) as usize;
                    let is = |rank| is_crowded(&topology, Rank(rank), share);
                    let case = format!("{ranks} ranks on {nodes} nodes, {processors} processors");
                    if ranks > processors {
                        assert!((0..ranks).all(is), "{case}");
                    } else if nodes == 1 {
                        assert!(!(0..ranks).any(is), "{case}");
                    }
                }
            }
        }
    }

    fn looks(polling: &Polling, fetches: impl Iterator<Item = (usize, u64)>) -> usize {
        fetches.filter(|&(at, held)| polling.is_idle(at, held)).count()
    }

    #[test]
    fn only_fetches_that_bring_nothing_new_are_polls() {
        let (known, next) = Default::default();
        let polling = Polling { is_crowded: true, known, next, unchanged: Cell::new(0) };
        assert_eq!(looks(&polling, (0..1000).map(|at| (8 * at, 7))), 0, "a walk");
        assert_eq!(looks(&polling, (0..1000).map(|count| (64, count))), 0, "a counter");
        assert_eq!(looks(&polling, (0..=160).map(|_| (64, 7))), 10, "a word");
        for apart in [8, 64, 4096] {
            let two = (0..162).map(|turn| (16 * apart + apart * (turn % 2), 7));
            assert_eq!(looks(&polling, two), 10, "two words in turns, {apart} bytes apart");
        }
    }
}
