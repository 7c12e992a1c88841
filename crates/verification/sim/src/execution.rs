//! The execution of operations, and of those that a handler executes or posts.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use farside_fabric::memory::Contender;
use farside_fabric::{
    Agent, Atomic, Error, Mapped, Node, Piece, Rank, Region, Reply, Result, Shape, Word,
};

use crate::body::{Body, word_access};
use crate::event::Access;
use crate::member::{Member, put_by_handler, wake};
use crate::store::{CALL_BYTES, Store};

pub(crate) struct Outcome {
    pub(crate) reply: Result<Reply>,
    pub(crate) posted: Vec<Posted>,
}

impl Store {
    /// Carries out an operation. What a handler changes wakes the members, or does not.
    pub(crate) fn execute(
        &mut self,
        origin: Rank,
        target: Rank,
        body: &Body,
        members: &[Member],
    ) -> Outcome {
        let mut posted = Vec::new();
        let reply = self.carry_out(origin, target, body, members, &mut posted);
        Outcome { reply, posted }
    }

    fn carry_out(
        &mut self,
        origin: Rank,
        target: Rank,
        body: &Body,
        members: &[Member],
        posted: &mut Vec<Posted>,
    ) -> Result<Reply> {
        let done = |done: bool| {
            if done {
                Ok(Reply::None)
            } else {
                Err(Error::Internal("an operation was refused".into()))
            }
        };
        match body {
            Body::Put { segment, pieces, bytes } => {
                let mapped = self.memory(target, *segment)?;
                done(packed(pieces, bytes, |piece, part| mapped.put(piece.offset, part)))
            }
            Body::Accumulate(body) => {
                let mut alone = Contender { me: origin, holder_is_lost: &mut |_| false };
                let shape = Shape::Pieces(&body.pieces);
                let to = Region { rank: target, segment: body.segment, shape };
                let mapped = self.memory(target, body.segment)?;
                mapped.combine_for(&to, &body.accumulate, &body.bytes, body.old, &mut alone)
            }
            Body::Get { segment, pieces, into } => {
                let mapped = self.memory(target, *segment)?;
                let mut at = 0;
                done(pieces.iter().all(|piece| {
                    // SAFETY: the caller of `get` promised room for all pieces until the operation
                    // has completed or was given up.
                    let read =
                        unsafe { mapped.get_raw(piece.offset, into.add(at), piece.bytes as usize) };
                    at += piece.bytes as usize;
                    read
                }))
            }
            Body::Atomic { at, op } => {
                atomic(self.memory(at.rank, at.segment)?, *at, *op).map(Reply::Word)
            }
            Body::Call { node, handler, bytes } => {
                let no_handler = Error::NoHandler { node: *node, handler: handler.0 };
                // The next one's copy, if the one before is gone.
                let runner = self.topology.first_left(*node, |rank| self.peer_state(rank))?;
                let mut run = self.handlers.remove(&(runner, *handler)).ok_or(no_handler)?;
                let agent =
                    HandlerAgent { store: self, node: *node, members, posted: RefCell::default() };
                // What it has done before it panics has happened, as with a real agent.
                let reply = catch_unwind(AssertUnwindSafe(|| run(&agent, origin, bytes)));
                *posted = agent.posted.into_inner();
                self.handlers.insert((runner, *handler), run);
                let panicked = |_| Error::HandlerPanicked { node: *node, handler: handler.0 };
                let reply = reply.map_err(panicked)?;
                if reply.len() as u64 > CALL_BYTES {
                    let value = reply.len() as u64;
                    return Err(Error::TooMuch {
                        what: "bytes of a call's reply",
                        value,
                        limit: CALL_BYTES,
                    });
                }
                Ok(Reply::Bytes(reply))
            }
        }
    }
}

/// Something that a handler has posted to another node.
pub(crate) struct Posted {
    pub(crate) target: Rank,
    pub(crate) body: Body,
    pub(crate) after_previous: bool,
}

/// The reach of a handler. Its operations on its own node happen at once, as part of the call;
/// those that it posts to other nodes are under way when it returns.
struct HandlerAgent<'a> {
    store: &'a Store,
    node: Node,
    /// The ranks that may wait for what it changes.
    members: &'a [Member],
    posted: RefCell<Vec<Posted>>,
}

impl HandlerAgent<'_> {
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

fn atomic(mapped: &Mapped, at: Word, op: Atomic) -> Result<u128> {
    let refused = || Error::Misaligned { offset: at.offset, align: at.width.bytes() };
    mapped.atomic(at.offset, at.width, op).ok_or_else(refused)
}

fn packed(pieces: &[Piece], mut bytes: &[u8], mut each: impl FnMut(&Piece, &[u8]) -> bool) -> bool {
    pieces.iter().all(|piece| {
        let (part, rest) = bytes.split_at(piece.bytes as usize);
        bytes = rest;
        each(piece, part)
    })
}
