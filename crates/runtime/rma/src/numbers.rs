//! The first numbers of collectives, meetings and messages: for tests that go past their end.

use farside_fabric::{Atomic, Result, Width};

use crate::group::area::{self as at, PLACES};
use crate::world::World;

impl World {
    /// Goes on as if about `number` collectives had been made. Collective.
    ///
    /// Numbers have 32 bits and start over; a test need not make 2^32 collectives to get there.
    #[doc(hidden)]
    pub fn renumber_collectives(&self, number: u32) -> Result<()> {
        // Acknowledgements that are under way would be lost.
        self.sync()?;
        let team = self.team();
        let group = team.group();
        // Two meetings in a row use different flags, these two as well.
        let number = number - number.wrapping_sub(group.meetings.get()) % 2;
        for channel in 0..group.sent.len() {
            group.sent[channel].set(number);
            group.received[channel].set(number);
            let taken = at::taken(channel as u64);
            let _ = group.area.own.atomic(taken, Width::W64, Atomic::Store(number.into()));
        }
        group.sequence.set(number);
        group.meetings.set(number);
        group.syncs.set(number - number.wrapping_sub(group.syncs.get()) % 2);
        group.started.set(number - number.wrapping_sub(group.started.get()) % PLACES);
        self.barrier()
    }
}
