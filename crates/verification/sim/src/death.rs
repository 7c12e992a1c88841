//! Mishaps: ranks die, and what they had under way lands or is lost.
//!
//! The operations of a dead rank are like letters in the post: each may still arrive, or not, as
//! the oracle says. One that a fence or a signal puts after another never arrives without it. The
//! gets of a dead rank are gone, since there is no reader left, and so are its calls: agents do
//! nothing for the dead. Operations that others had under way *to* the dead rank fail, as on every
//! fabric. Calls are to a node, and go on with the next of its ranks; a call that the dead rank may
//! have been executing ends with an error, executed or not, or does not, as the oracle says.
//!
//! Where news are slow, each node hears of a death by an event of its own, and what its ranks have
//! under way to the dead fails then. Until then their operations on the memory of the dead land as
//! ever, since that memory is served by an agent; calls to a node that has no rank left wait.

use std::rc::Rc;

use farside_fabric::{Error, ExitCause, Node, PeerState, Rank, SegmentId};

use crate::body::{Body, ticket};
use crate::event::{Access, Event, EventId, What};
use crate::flight::Flight;
use crate::machine::Machine;
use crate::member::Doing;

const KILLED: ExitCause = ExitCause::Signal(9);

/// A segment that no rank has: the fate of each operation of the dead stands there, so that landing
/// and vanishing are in conflict, and what each dead rank was at work on, so that the interruptions
/// of its calls are.
const FATES: SegmentId = SegmentId(u64::MAX);

impl Machine {
    pub(crate) fn add_vanishings(&self, events: &mut Vec<Event>) {
        for flight in self.flights.iter().filter(|flight| self.is_dead(flight.id.rank)) {
            let accesses = Some(Rc::from([fate_of(flight.id)]));
            events.push(Event {
                id: EventId::vanishing(flight.id),
                accesses,
                what: What::Vanish(flight.target),
            });
        }
        for (flight, runner) in
            self.flights.iter().filter_map(|flight| Some((flight, flight.runner_died?)))
        {
            if self.news.contains(&(runner, self.store.topology.node_of(flight.id.rank))) {
                continue;
            }
            // The runner was at work on one call, so that no other is interrupted besides.
            let accesses = Some(Rc::from([fate_of(flight.id), fate_of(EventId::death(runner))]));
            events.push(Event {
                id: EventId::vanishing(flight.id),
                accesses,
                what: What::Interrupt(runner),
            });
            let id = EventId::executed(flight.id);
            events.push(Event { id, accesses: None, what: What::Executed(runner) });
        }
    }

    pub(crate) fn add_news(&self, events: &mut Vec<Event>) {
        for &(dead, node) in &self.news {
            let id = EventId::news(dead, node);
            events.push(Event { id, accesses: None, what: What::News(node) });
        }
    }

    /// A node all of whose ranks have died hears nothing. One whose ranks have left does: what they
    /// have under way fails then.
    fn forget_news_for_nobody(&mut self) {
        let store = &self.store;
        let is_lost = |&rank: &Rank| store.peer_state(rank) == PeerState::Lost(KILLED);
        let is_empty = |node: Node| store.topology.ranks_of(node).iter().all(is_lost);
        self.news.retain(|&(_, node)| !is_empty(node));
    }

    /// Returns whether a call is to a node without any rank left, unknown to its caller.
    pub(crate) fn is_in_vain(&self, flight: &Flight) -> bool {
        let from = self.store.topology.node_of(flight.id.rank);
        let Body::Call { node, .. } = flight.body else {
            return false;
        };
        let is_of_it = |&(dead, unheard): &(Rank, Node)| {
            unheard == from && self.store.topology.node_of(dead) == node
        };
        self.runner(node).is_err() && self.news.iter().any(is_of_it)
    }

    /// The ranks of a node hear of a death: what they have under way to the dead rank fails.
    pub(crate) fn tell(&mut self, dead: Rank, node: Node) {
        self.news.retain(|&news| news != (dead, node));
        self.store.tell(node, dead, KILLED);
        let topology = self.store.topology.clone();
        for flight in std::mem::take(&mut self.flights) {
            let is_told = flight.id.rank != dead && topology.node_of(flight.id.rank) == node;
            let fails = match flight.body {
                Body::Call { node: called, .. } => {
                    topology.node_of(dead) == called && self.runner(called).is_err()
                }
                _ => flight.target == dead,
            };
            if is_told && fails {
                self.fail(&flight, dead);
            } else {
                self.flights.push(flight);
            }
        }
    }

    pub(crate) fn add_deaths(&self, events: &mut Vec<Event>) {
        if self.fault_model.deaths > 0 {
            let alive = self
                .members
                .iter()
                .enumerate()
                .filter(|(_, member)| !matches!(member.doing, Doing::Over));
            for rank in alive.map(|(rank, _)| Rank(rank as u32)) {
                events.push(Event { id: EventId::death(rank), accesses: None, what: What::Death });
            }
        }
    }

    fn is_dead(&self, rank: Rank) -> bool {
        self.store.peer_state(rank) == PeerState::Lost(KILLED)
    }

    /// Makes a rank die. The caller must end its fiber.
    pub(crate) fn die(&mut self, rank: Rank) {
        self.fault_model.deaths = self.fault_model.deaths.saturating_sub(1);
        let node = self.store.topology.node_of(rank);
        let ran_handlers = self.runner(node) == Ok(rank);
        self.member(rank).doing = Doing::Over;
        if self.fault_model.slow_news {
            self.store.set_lost_unheard(rank, KILLED);
            let nodes = (0..self.store.topology.nodes()).map(Node);
            self.news.extend(nodes.map(|node| (rank, node)));
            self.forget_news_for_nobody();
        } else {
            self.store.set_gone(rank, Some(KILLED));
        }
        let all = std::mem::take(&mut self.flights);
        for mut flight in all {
            let own = flight.id.rank == rank;
            if matches!(flight.body, Body::Call { .. }) && !own {
                self.pass_on(flight, rank, node, ran_handlers);
            } else if flight.target == rank && (own || !self.fault_model.slow_news) {
                if !own {
                    self.fail(&flight, rank);
                }
            } else if !(own && (flight.is_get() || matches!(flight.body, Body::Call { .. }))) {
                if own {
                    let known = flight.event.accesses.take();
                    flight.event.accesses = known
                        .map(|known| known.iter().copied().chain([fate_of(flight.id)]).collect());
                }
                self.flights.push(flight);
            }
        }
    }

    /// A call is to a node: if that is the dead rank's, the next rank of the node goes on with it,
    /// if there is one.
    fn pass_on(&mut self, mut flight: Flight, dead: Rank, node: Node, ran_handlers: bool) {
        let is_there = matches!(flight.body, Body::Call { node: called, .. } if called == node);
        if is_there && self.runner(node).is_err() {
            if self.fault_model.slow_news {
                return self.flights.push(flight);
            }
            return self.fail(&flight, dead);
        }
        if is_there && ran_handlers {
            flight.runner_died = Some(dead);
        }
        self.flights.push(flight);
    }

    fn fail(&mut self, flight: &Flight, dead: Rank) {
        let error = Error::RankLost { rank: dead, how: KILLED };
        match (flight.posted, flight.by_agent) {
            (true, true) => {}
            (true, false) => self.store.fail_later(flight.id.rank, dead, error),
            (false, _) => self.store.answer(flight.whole, 0, Err(error)),
        }
    }

    /// A call was executed by a rank that has died, and its caller gets an error.
    pub(crate) fn execute_unanswered(&mut self, id: EventId, step: Option<usize>) {
        let at = self.flights.iter().position(|flight| flight.id == id);
        let Some(flight) = at.map(|at| self.flights.remove(at)) else { return };
        let Some(rank) = flight.runner_died else { return };
        self.spare_other_calls(rank);
        self.land_as(flight, step, Some(Error::RankLost { rank, how: KILLED }));
    }

    /// A dead rank was executing one call, and no other.
    fn spare_other_calls(&mut self, dead: Rank) {
        let others = self.flights.iter_mut().filter(|other| other.runner_died == Some(dead));
        others.for_each(|other| other.runner_died = None);
    }

    /// Drops an operation of a dead rank, and everything that was ordered after it. A call that a
    /// dead rank was executing is dropped likewise: its caller gets an error, and that rank was
    /// executing no other.
    pub(crate) fn vanish(&mut self, id: EventId, step: Option<usize>) {
        let called =
            self.flights.iter().find(|flight| flight.id == id && flight.runner_died.is_some());
        if let Some((whole, Some(rank))) = called.map(|flight| (flight.whole, flight.runner_died)) {
            self.flights.retain(|flight| flight.id != id);
            self.spare_other_calls(rank);
            self.store.answer(whole, 0, Err(Error::RankLost { rank, how: KILLED }));
            self.member(whole.rank).replied.extend(step.map(|step| (ticket(whole), step)));
            return;
        }
        let mut gone: Vec<Flight> = Vec::new();
        let mut rest = std::mem::take(&mut self.flights);
        if let Some(at) = rest.iter().position(|flight| flight.id == id) {
            gone.push(rest.remove(at));
        }
        // Flights that were posted later stand further back.
        for flight in rest {
            let goes = gone.iter().any(|earlier| earlier.holds_back(&flight));
            if goes { gone.push(flight) } else { self.flights.push(flight) }
        }
        for flight in &mut self.flights {
            flight.is_whole &= gone.iter().all(|part| part.whole != flight.whole);
        }
    }
}

fn fate_of(id: EventId) -> Access {
    let start = u64::from(id.serial);
    Access { rank: id.rank, segment: FATES, start, end: start + 1, writes: true }
}
