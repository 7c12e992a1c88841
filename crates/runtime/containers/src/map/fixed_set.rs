//! The set of a fixed size.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team, Window, World};

use super::guard::{Guards, Synchronization, check_volumes, guarded};
use crate::protocol::integers::{Volume, words};
use crate::protocol::{hash_of, volume_of};

/// The hash table of \[RMALOCK16\] section 5.3 as it is described there: 64-bit integers in volumes
/// of a fixed size, each a table and a heap for collisions, and no atomic on more than 64 bits.
///
/// It neither grows nor forgets: an insert that finds its slot taken and the heap used up is an
/// error. [`FixedMap`](super::FixedMap) holds values beside its keys.
///
/// ```
/// use farside::{FixedSet, map::Synchronization};
///
/// farside::local(3, |world| {
///     let set = FixedSet::new(world, 100, 300, &Synchronization::Atomics)?;
///     for integer in 0..100 {
///         set.insert(world, integer)?;
///     }
///     world.barrier()?;
///     assert!(set.contains(world, 99)? && !set.contains(world, 100)?);
///     world.barrier()?;
///     set.free(world)
/// })
/// .unwrap();
/// ```
#[must_use = "a set that is dropped without `free` keeps its memory until the job ends"]
pub struct FixedSet {
    words: Window<u64>,
    slots: u64,
    cells: u64,
    volumes: Box<[Rank]>,
    guards: Guards,
}

impl FixedSet {
    /// Makes a set with a volume on every rank, of so many slots and so many cells for what finds
    /// its slot taken. Collective.
    #[track_caller]
    pub fn new(
        world: &World,
        slots: usize,
        cells: usize,
        synchronization: &Synchronization,
    ) -> Result<FixedSet> {
        let team = world.team();
        FixedSet::on(&team, team.members(), (slots, cells), synchronization)
    }

    /// Makes a set of the members of a team with volumes on some of them. Collective over the team.
    #[track_caller]
    pub fn on(
        team: &Team<'_>,
        volumes: &[Rank],
        (slots, cells): (usize, usize),
        synchronization: &Synchronization,
    ) -> Result<FixedSet> {
        check_volumes(team, volumes)?;
        if slots == 0 {
            return Err(Error::InvalidArgument("a volume needs at least 1 slot, not 0".into()));
        }
        let (slots, cells) = (slots as u64, cells as u64);
        let has_volume = volumes.contains(&team.context().rank());
        let words = team.window(if has_volume { words(slots, cells) } else { 0 })?;
        let (words, guards) = guarded(team, words, || Guards::new(team, volumes, synchronization))?;
        Ok(FixedSet { words, slots, cells, volumes: volumes.into(), guards })
    }

    /// Returns whether an integer is in the set.
    #[inline]
    #[track_caller]
    pub fn contains(&self, context: &Context, integer: u64) -> Result<bool> {
        let stored = integer.wrapping_add(1);
        if stored == 0 {
            return Ok(false);
        }
        let at = self.volume_of(stored);
        context.noted(self.guards.read(context, at, || self.volume(context, at).contains(stored)))
    }

    /// Adds an integer; returns whether it was not there. `u64::MAX` is not possible.
    #[inline]
    #[track_caller]
    pub fn insert(&self, context: &Context, integer: u64) -> Result<bool> {
        let stored = integer.wrapping_add(1);
        if stored == 0 {
            return Err(context.failed(Error::Unsupported {
                what: format!("the integer {integer}, which a fixed-size set reserves"),
            }));
        }
        let at = self.volume_of(stored);
        context.noted(self.guards.write(context, at, || self.volume(context, at).insert(stored)))
    }

    /// Its synchronization, as benchmarks and tables spell it.
    pub fn synchronization(&self) -> &'static str {
        self.guards.name()
    }

    /// Gives its memory back. Collective over those who made it.
    #[track_caller]
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        let team = team.into();
        // One that has lost something of its own fails when all have come to both.
        self.guards.free(&team).and(self.words.free(&team))
    }

    fn volume_of(&self, stored: u64) -> usize {
        volume_of(hash_of(&[stored, 1]), self.volumes.len())
    }

    fn volume<'a>(&'a self, context: &'a Context, at: usize) -> Volume<'a> {
        Volume {
            context,
            words: &self.words,
            slots: self.slots,
            cells: self.cells,
            rank: self.volumes[at],
            locked: self.guards.are_locks(),
        }
    }
}
