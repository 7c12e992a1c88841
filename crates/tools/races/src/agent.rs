//! Handlers: each is a part of a strand of the rank whose process runs it.
//!
//! A call leads from its caller to the handler, and from there to the next handler of the node, and
//! back to the caller with the reply. So a node's agent has a clock, which handlers acquire at
//! their beginning and release at their end.

use std::sync::Arc;

use farside_fabric::{Agent, Atomic, Node, Rank, Region, Reply, Result, Topology, Word};

use crate::access::{Actor, Class, kind};
use crate::calls::Call;
use crate::clocks::Released;
use crate::layout::AGENT_LANE;
use crate::seen::{Asked, Seen, SeenAtomic};
use crate::told::{Told, clock_of_agent, with_pieces, with_strand};

/// What is known of a handler.
pub(crate) struct Served {
    pub(crate) told: Arc<Told>,
    pub(crate) topology: Topology,
    /// Where the program offered it; `None` if a protocol did, whose accesses are not looked at.
    pub(crate) place: Option<u32>,
}

impl Served {
    fn actor(&self) -> Actor {
        let strand = self.told.layout().agent_strand();
        Actor { rank: self.told.state.rank, strand, lane: AGENT_LANE }
    }

    pub(crate) fn run<R>(&self, agent: &dyn Agent, run: impl FnOnce(&dyn Agent) -> R) -> R {
        let (actor, word) = (self.actor(), clock_of_agent(&self.told.state.checker, agent.node()));
        self.told.run(&[Call::Acquire { actor, word, seen: None }]);
        let returned = with_strand(actor.strand, || run(&SeenAgent { agent, served: self }));
        self.told.run(&[Call::Release { actor, released: Released::nobodys(word) }]);
        returned
    }
}

struct SeenAgent<'a> {
    agent: &'a dyn Agent,
    served: &'a Served,
}

impl SeenAgent<'_> {
    /// Whether something is under way when the handler goes on: what it does at its own node is
    /// complete at once.
    fn is_far(&self, rank: Rank) -> bool {
        let topology = &self.served.topology;
        topology.check(rank).is_ok() && topology.node_of(rank) != self.agent.node()
    }

    fn atomic_of(&self, at: Word, op: Atomic, signalled: bool) -> SeenAtomic {
        let is_posted = self.is_far(at.rank);
        let (attempt, kind) = (self.served.told.attempt(op), kind::SIGNAL);
        let kind = if signalled { kind } else { 0 };
        // A put to the own node has landed, with or without its signal.
        SeenAtomic { at, op, is_posted, signalled: signalled && is_posted, kind, attempt }
    }

    fn see_atomic(&self, atomic: SeenAtomic) {
        let Served { told, place, .. } = self.served;
        told.with_word(self.served.actor(), atomic, *place, |calls| {
            if !calls.is_empty() {
                told.note_found(told.run(calls));
            }
        });
    }

    fn see_transfer(&self, region: &Region<'_>, seen: &Seen, more: &[Call<'_>]) {
        let Served { told, place, .. } = self.served;
        match told.access(self.served.actor(), region, *place, seen) {
            Some(access) => {
                with_pieces(region.shape, |pieces| told.see_and(&access, pieces, more));
            }
            None if more.is_empty() => {}
            None => told.note_found(told.run(more)),
        }
    }

    fn put_of(&self, to: &Region<'_>, name: &'static str) -> Seen {
        let is_posted = self.is_far(to.rank);
        let is_signal = is_posted && name == "put_signal";
        Seen { class: Class::Plain, writes: true, name, is_posted, is_signal, kind: 0 }
    }
}

impl Agent for SeenAgent<'_> {
    fn node(&self) -> Node {
        self.agent.node()
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<u128> {
        let atomic = self.atomic_of(at, op, false);
        self.see_atomic(atomic);
        let held = self.agent.atomic(at, op)?;
        let asked = Asked::Atomic(atomic);
        self.served.told.replied(self.served.actor(), &asked, &Reply::Word(held));
        Ok(held)
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        self.see_atomic(self.atomic_of(at, op, false));
        self.agent.post(at, op)
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.see_transfer(to, &self.put_of(to, "put"), &[]);
        self.agent.put(to, bytes)
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        let Served { told, place, .. } = self.served;
        let atomic = self.atomic_of(at, op, true);
        told.with_word(self.served.actor(), atomic, *place, |word| {
            self.see_transfer(to, &self.put_of(to, "put_signal"), word);
        });
        self.agent.put_signal(to, bytes, at, op)
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        let (class, is_posted, is_signal) = (Class::Plain, false, false);
        let seen = Seen { class, writes: false, name: "get", is_posted, is_signal, kind: 0 };
        self.see_transfer(from, &seen, &[]);
        self.agent.get(from, into)
    }
}
