//! The operations that a handler can execute or post.

use std::cell::RefCell;

use farside_fabric::{Agent, Atomic, Error, Node, Piece, Rank, Region, Result, Word};

use crate::event::Access;
use crate::machine::Member;
use crate::sleep::{put_by_handler, wake};
use crate::store::{Body, Store, atomic, packed, word_access};

/// Something that a handler has posted to another node.
pub(crate) struct Posted {
    pub(crate) target: Rank,
    pub(crate) body: Body,
    pub(crate) after_previous: bool,
}

/// The reach of a handler. Its operations on its own node happen at once, as part of the call;
/// those that it posts to other nodes are under way when it returns.
pub(crate) struct HandlerAgent<'a> {
    store: &'a Store,
    node: Node,
    /// The ranks that may wait for what it changes.
    members: &'a [Member],
    posted: RefCell<Vec<Posted>>,
}

impl<'a> HandlerAgent<'a> {
    pub(crate) fn new(store: &'a Store, node: Node, members: &'a [Member]) -> HandlerAgent<'a> {
        HandlerAgent { store, node, members, posted: RefCell::default() }
    }

    pub(crate) fn into_posted(self) -> Vec<Posted> {
        self.posted.into_inner()
    }

    fn is_here(&self, rank: Rank) -> bool {
        self.store.topology.check(rank).is_ok() && self.store.topology.node_of(rank) == self.node
    }

    fn check_word(&self, at: Word, op: Atomic) -> Result<()> {
        if self.is_here(at.rank) {
            self.store.check_word_on_node(at, op)
        } else {
            self.store.check_word(self.node, at, op)
        }
    }

    fn pieces(&self, region: &Region<'_>) -> Result<Vec<Piece>> {
        if self.is_here(region.rank) {
            self.store.pieces_on_node(region)
        } else {
            self.store.pieces(self.node, region)
        }
    }

    fn post_far(&self, target: Rank, body: Body, after_previous: bool) {
        self.posted.borrow_mut().push(Posted { target, body, after_previous });
    }

    fn atomic_here(&self, at: Word, op: Atomic) -> Result<u128> {
        let held = atomic(self.store.memory(at.rank, at.segment)?, at, op)?;
        if op.writes() {
            wake(self.members, &[word_access(at, true)]);
        }
        Ok(held)
    }

    fn post_as(&self, at: Word, op: Atomic, after_previous: bool) -> Result<()> {
        self.check_word(at, op)?;
        if self.is_here(at.rank) {
            return self.atomic_here(at, op).map(|_| ());
        }
        self.post_far(at.rank, Body::Atomic { at, op }, after_previous);
        Ok(())
    }
}

impl Agent for HandlerAgent<'_> {
    fn node(&self) -> Node {
        self.node
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<u128> {
        self.check_word(at, op)?;
        self.atomic_here(at, op)
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        self.post_as(at, op, false)
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        let pieces = self.pieces(to)?;
        to.check_length(bytes.len())?;
        if !self.is_here(to.rank) {
            self.post_far(
                to.rank,
                Body::Put { segment: to.segment, pieces, bytes: bytes.to_vec() },
                false,
            );
            return Ok(());
        }
        let mapped = self.store.memory(to.rank, to.segment)?;
        let access = |piece: &Piece| {
            let (start, end) = (piece.offset, piece.offset + piece.bytes);
            Access { rank: to.rank, segment: to.segment, start, end, writes: true }
        };
        put_by_handler(self.members, &pieces.iter().map(access).collect::<Vec<_>>());
        packed(&pieces, bytes, |piece, part| mapped.put(piece.offset, part));
        Ok(())
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.check_word(at, op)?;
        self.put(to, bytes)?;
        self.post_as(at, op, true)
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        let pieces = self.pieces(from)?;
        from.check_length(into.len())?;
        let mapped = self.store.memory(from.rank, from.segment)?;
        let mut rest = into;
        for piece in &pieces {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(piece.bytes as usize);
            rest = after;
            if !mapped.get(piece.offset, part) {
                return Err(Error::Internal("an operation was refused".into()));
            }
        }
        Ok(())
    }
}
