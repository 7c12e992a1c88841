//! Counting what was posted to other nodes, and what has landed here: for protocols that need no
//! acknowledgement of every single operation ([ARMCI03] section 3.1.2).

use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::Ordering;

use farside_fabric::record::ActivityKind;
use farside_fabric::{Atomic, Condition, Error, Event, Mapped, Node, Rank, Result, Width, Word};

use crate::activity::Purpose;
use crate::context::Context;
use crate::doing::{FailureScope, Waiting};
use crate::segment::{Segment, tell_own};

impl Context {
    /// Begins to count what this context posts to other nodes, and what lands on this rank's node.
    /// False if the fabric does not count.
    pub fn count_landings(&self) -> Result<bool> {
        let Some(extension) = self.fabric().landings() else {
            return Ok(false);
        };
        let word = extension.begin()?;
        let landings = self.landings();
        let nodes = self.topology().nodes();
        landings.issued.get_or_init(|| (0..nodes).map(|_| Cell::new(0)).collect());
        if word.rank == self.rank() && landings.landed.get().is_none() {
            let own = self.fabric().map(word.rank, word.segment)?;
            let own = own.ok_or(Error::NoSegment { rank: word.rank, segment: word.segment })?;
            landings.landed.get_or_init(|| (word, own));
        }
        Ok(true)
    }

    /// Counts operations that were posted to a peer, if it is on another node.
    #[inline]
    pub(crate) fn note_issued(&self, peer: Rank, segment: &Segment, count: u64) {
        if let Some(issued) = self.landings().issued.get()
            && segment.is_counted()
        {
            let (topology, me) = (self.topology(), self.rank());
            let node = topology.node_of(peer);
            if node != topology.node_of(me) {
                let cell = &issued[node.0 as usize];
                cell.set(cell.get() + count);
            }
        }
    }

    /// Returns whether this context counts what it posts, since its rank joined the job.
    pub(crate) fn counts_landings(&self) -> bool {
        self.landings().issued.get().is_some()
    }

    /// Returns how many operations this context has posted to a node since it began to count.
    pub fn issued_to(&self, node: Node) -> u64 {
        let issued = self.landings().issued.get();
        issued.and_then(|issued| issued.get(node.0 as usize)).map_or(0, Cell::get)
    }

    /// Returns how many operations of other nodes have landed on this one, as far as they were
    /// counted. For the node's first rank.
    pub fn landed(&self) -> Result<u64> {
        let (word, own) = self.landed_word()?;
        if let Some(probe) = self.probe() {
            tell_own(&**probe, word.segment, word.offset..word.offset + 8, false);
        }
        Ok(own.atomic(word.offset, Width::W64, Atomic::Load).unwrap_or(0) as u64)
    }

    /// Waits until so many have landed. Fails if one of `members` was lost.
    #[track_caller]
    pub fn wait_landed(&self, members: &[Rank], at_least: u64) -> Result<()> {
        let (at, memory) = self.landed_word()?;
        let until = |landed: u64| landed >= at_least;
        let condition = [Condition { at: *at, memory, until: &until }];
        let place = Location::caller();
        let purpose = || Purpose::at(ActivityKind::Flush, "landings", place);
        let scope = FailureScope::Among(members);
        let waiting = Waiting::new(self, &purpose, Event::Words(&condition), &scope);
        self.wait_event(&waiting, None).map(drop)
    }

    /// Returns whether this is the only context that its rank ever had: then what it counts is all
    /// that the rank does.
    pub fn is_only(&self) -> bool {
        self.landings().contexts.load(Ordering::Relaxed) == 1
    }

    fn landed_word(&self) -> Result<&(Word, Mapped)> {
        let first_only = || {
            Error::InvalidState(
                "only the first rank of a node that counts landings knows their number".into(),
            )
        };
        self.landings().landed.get().ok_or_else(first_only)
    }
}
