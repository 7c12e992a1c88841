//! Looks at operations: a rank that does not wait for an operation finds it complete, or not.
//!
//! A look is an event of its own, in conflict with the landing of that operation. A rank that looks
//! again and again would make schedules without end, so its next look at the same operation waits
//! until that is complete: a loop may not count its turns and rely on it.

use std::rc::Rc;

use farside_fabric::{Rank, Ticket};

use crate::body::ticket;
use crate::event::Access;
use crate::machine::Machine;

impl Machine {
    /// Returns the bytes that an operation of a rank touches, as if they were written: looks at it
    /// are in conflict with its landing.
    pub(crate) fn bytes_of(&self, rank: Rank, asked: Ticket) -> Option<Rc<[Access]>> {
        let mine = self.flights.iter().filter(|flight| {
            flight.whole.rank == rank && !flight.posted && ticket(flight.whole) == asked
        });
        let mut bytes = Vec::new();
        for flight in mine {
            let accesses = flight.event.accesses.as_deref()?;
            bytes.extend(accesses.iter().map(|access| Access { writes: true, ..*access }));
        }
        Some(bytes.into())
    }
}
