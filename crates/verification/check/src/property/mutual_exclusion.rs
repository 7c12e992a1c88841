//! Mutual exclusion: at most one rank is inside at a time, or as many as a lock has holders; and a
//! rank that is alone inside sees all that was written inside before.

use std::cell::Cell;
use std::rc::Rc;

use farside::{Error, Rank, Result, Words, World};

/// A room for one, or for some. All ranks of a run share it; [`MutualExclusion::prepare`] it anew
/// for each.
#[derive(Clone, Default)]
pub struct MutualExclusion {
    /// How many may be inside; one if it is not said.
    holders: Option<u32>,
    together: Rc<Cell<u32>>,
    inside: Rc<Cell<Option<Rank>>>,
    visits: Rc<Cell<u64>>,
}

/// The state of one rank's visits.
pub struct Room {
    watch: MutualExclusion,
    count: Words,
}

impl MutualExclusion {
    /// A room for so many.
    pub fn of(holders: u32) -> MutualExclusion {
        let holders = (holders > 1).then_some(holders);
        MutualExclusion { holders, ..MutualExclusion::default() }
    }

    /// An empty room. Collective.
    pub fn prepare(&self, world: &World) -> Result<Room> {
        self.inside.set(None);
        self.together.set(0);
        self.visits.set(0);
        Ok(Room { watch: self.clone(), count: world.words(1)? })
    }
}

impl Room {
    /// Enters, counts the visit, not atomically, and leaves. A visitor must see the visits of all
    /// before.
    pub fn visit(&self, world: &World) -> Result<()> {
        // Not at rank 0, where a lock's own operations might order the count's by accident.
        let (me, count) = (world.rank(), self.count.at(Rank(world.size() - 1), 0));
        if let Some(holders) = self.watch.holders {
            return self.visit_together(world, holders);
        }
        if let Some(other) = self.watch.inside.replace(Some(me)) {
            return Err(Error::Program(format!("{other} and {me} are inside at the same time")));
        }
        // A rank that finds the count lost with its owner is not inside any more.
        let seen = world.get_value(count).inspect_err(|_| self.watch.inside.set(None))?;
        let visits = self.watch.visits.get();
        if self.watch.inside.get() != Some(me) {
            return Err(Error::Program(format!("somebody came in while {me} was inside")));
        }
        if seen != visits {
            return Err(Error::Program(format!(
                "{me} sees {seen} visits of {visits}: one was lost"
            )));
        }
        let put = world.put_value(seen + 1, count);
        self.watch.visits.set(visits + 1);
        self.watch.inside.set(None);
        put
    }

    /// Enters a room that others may be in, looks around, and leaves.
    fn visit_together(&self, world: &World, holders: u32) -> Result<()> {
        let together = &self.watch.together;
        together.set(together.get() + 1);
        if together.get() > holders {
            let (me, others) = (world.rank(), together.get() - 1);
            return Err(Error::Program(format!(
                "{me} and {others} others are inside at the same time: {holders} may be"
            )));
        }
        let seen = world.load(self.count.at(Rank(world.size() - 1), 0));
        together.set(together.get() - 1);
        seen.map(drop)
    }
}
