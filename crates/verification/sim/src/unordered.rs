//! Stores that may overtake each other: a simulation can refuse them.
//!
//! Posted operations of one rank land in any order, also on one word, unless a fence stands between
//! them. A rank that posts a second store to a word while the first may still be on its way does
//! not know which of them stays, and a count that is written so goes back. Every schedule in which
//! the two are in flight together shows that, also one in which nothing goes wrong.

use farside_fabric::{Atomic, Op};

use crate::body::Body;
use crate::flight::Flight;
use crate::machine::Machine;

impl Machine {
    pub(crate) fn fly(&mut self, flight: Flight) {
        if self.refuses_unordered && self.refusal.is_none() {
            let earlier = self.flights.iter().find(|earlier| earlier.is_unordered_with(&flight));
            self.refusal = earlier.map(|earlier| {
                let why = match earlier.epoch < flight.epoch {
                    true => "a fence orders what was posted, and not what has a reply: wait for it",
                    false => "no fence stands between them",
                };
                format!(
                    "unordered stores: {}, while it may still come that {}: {why}",
                    flight.event, earlier.event
                )
            });
        }
        self.flights.push(flight);
    }
}

impl Flight {
    /// Returns whether this one and a later one of the same rank write the same bytes in either
    /// order, and it makes a difference in which.
    fn is_unordered_with(&self, later: &Flight) -> bool {
        if self.id.rank != later.id.rank {
            return false;
        }
        let (Some(mine), Some(theirs)) = (&self.event.accesses, &later.event.accesses) else {
            return false;
        };
        self.by_agent == later.by_agent
            && self.whole != later.whole
            && mine.iter().any(|mine| {
                theirs.iter().any(|other| mine.writes && other.writes && mine.conflicts(other))
            })
            && !self.holds_back(later)
            && !commute(&self.body, &later.body)
    }
}

/// Returns whether two operations on the same bytes leave the same there in either order.
fn commute(one: &Body, other: &Body) -> bool {
    match (one, other) {
        (Body::Atomic { at, op }, Body::Atomic { at: other_at, op: other }) => {
            at == other_at
                && match (op, other) {
                    (Atomic::Add(_), Atomic::Add(_))
                    | (Atomic::And(_), Atomic::And(_))
                    | (Atomic::Or(_), Atomic::Or(_))
                    | (Atomic::Xor(_), Atomic::Xor(_)) => true,
                    (op, other) => op == other,
                }
        }
        (Body::Accumulate(one), Body::Accumulate(other)) => {
            one.accumulate == other.accumulate && one.accumulate.op() != Op::Replace
        }
        _ => false,
    }
}
