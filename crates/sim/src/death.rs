//! Mishaps: ranks die, and what they had under way lands or is lost.
//!
//! The operations of a dead rank are like letters in the post: each may still arrive, or not, as
//! the oracle says. One that a fence or a signal puts after another never arrives without it. The
//! gets of a dead rank are gone, since there is no reader left, and so are its calls: agents do
//! nothing for the dead. Operations that others had under way *to* the dead rank fail, as on every
//! fabric. Calls are to a node, and go on with the next of its ranks; a call that the dead rank may
//! have been executing ends with an error, or does not, as the oracle says.

use std::rc::Rc;

use farside_fabric::{Error, ExitCause, Node, PeerState, Rank, SegmentId};

use crate::event::{Access, Event, EventId, What};
use crate::flight::Flight;
use crate::machine::{Doing, Machine};
use crate::store::Body;

/// The exit cause of a rank that the oracle kills.
const KILLED: ExitCause = ExitCause::Signal(9);

/// A segment that no rank has: the fate of each operation of the dead stands there, so that landing
/// and vanishing are in conflict.
const FATES: SegmentId = SegmentId(u64::MAX);

impl Machine {
    /// Adds the deaths that are possible, and the vanishing of operations of dead ranks.
    pub(crate) fn add_faults(&self, events: &mut Vec<Event>) {
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
            let accesses = Some(Rc::from([fate_of(flight.id)]));
            events.push(Event {
                id: EventId::vanishing(flight.id),
                accesses,
                what: What::Interrupt(runner),
            });
        }
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
        self.store.set_gone(rank, Some(KILLED));
        let all = std::mem::take(&mut self.flights);
        for mut flight in all {
            let own = flight.id.rank == rank;
            if matches!(flight.body, Body::Call { .. }) && !own {
                self.pass_on(flight, rank, node, ran_handlers);
            } else if flight.target == rank {
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
            return self.fail(&flight, dead);
        }
        if is_there && ran_handlers {
            flight.runner_died = Some(dead);
        }
        self.flights.push(flight);
    }

    /// An operation on a rank that has died.
    fn fail(&mut self, flight: &Flight, dead: Rank) {
        let error = Error::RankLost { rank: dead, how: KILLED };
        match (flight.posted, flight.by_agent) {
            (true, true) => {}
            (true, false) => self.store.fail_later(flight.id.rank, dead, error),
            (false, _) => self.store.answer(flight.whole, 0, Err(error)),
        }
    }

    /// Drops an operation of a dead rank, and everything that was ordered after it. A call that a
    /// dead rank was executing is dropped likewise: its caller gets an error, and no other call was
    /// being executed.
    pub(crate) fn vanish(&mut self, id: EventId, step: Option<usize>) {
        let called =
            self.flights.iter().find(|flight| flight.id == id && flight.runner_died.is_some());
        if let Some((whole, Some(rank))) = called.map(|flight| (flight.whole, flight.runner_died)) {
            self.flights.retain(|flight| flight.id != id);
            self.flights.iter_mut().for_each(|flight| flight.runner_died = None);
            self.store.answer(whole, 0, Err(Error::RankLost { rank, how: KILLED }));
            self.member(whole.rank).learned.borrow_mut().extend(step);
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
    }
}

fn fate_of(id: EventId) -> Access {
    let start = u64::from(id.serial);
    Access { rank: id.rank, segment: FATES, start, end: start + 1, writes: true }
}
