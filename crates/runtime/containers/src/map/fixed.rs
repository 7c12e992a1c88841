//! The map of a fixed size.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team, Window, World};

use super::guard::{Guards, Synchronization, check_volumes, guarded};
use crate::protocol::fixed::{Size, Volume};
use crate::protocol::{hash_of, volume_of};

/// The hash table of \[RMALOCK16\] section 5.3: 64-bit keys and values in volumes of a fixed size,
/// each a table and a heap for collisions.
///
/// It neither grows nor forgets: an insert that finds its slot taken and the heap used up is an
/// error. [`HashMap`](super::HashMap) does both.
///
/// ```
/// use farside::{FixedMap, map::Synchronization};
///
/// farside::local(3, |world| {
///     let map = FixedMap::new(world, 100, 300, &Synchronization::Atomics)?;
///     for key in 0..100 {
///         map.insert(world, key, u64::from(world.rank().0))?;
///     }
///     world.barrier()?;
///     assert!(map.get(world, 99)?.unwrap() < 3);
///     assert_eq!(map.get(world, 100)?, None);
///     world.barrier()?;
///     map.free(world)
/// })
/// .unwrap();
/// ```
#[must_use = "a map that is dropped without `free` keeps its memory until the job ends"]
pub struct FixedMap {
    words: Window<u64>,
    size: Size,
    volumes: Box<[Rank]>,
    guards: Guards,
}

impl FixedMap {
    /// Makes a map with a volume on every rank, of so many slots and so many cells for what finds
    /// its slot taken. Collective.
    #[track_caller]
    pub fn new(
        world: &World,
        slots: usize,
        cells: usize,
        synchronization: &Synchronization,
    ) -> Result<FixedMap> {
        let team = world.team();
        FixedMap::on(&team, team.members(), (slots, cells), synchronization)
    }

    /// Makes a map of the members of a team with volumes on some of them. Collective over the team.
    #[track_caller]
    pub fn on(
        team: &Team<'_>,
        volumes: &[Rank],
        (slots, cells): (usize, usize),
        synchronization: &Synchronization,
    ) -> Result<FixedMap> {
        check_volumes(team, volumes)?;
        if slots == 0 {
            return Err(Error::InvalidArgument("a volume needs at least 1 slot, not 0".into()));
        }
        let size = Size { slots: slots as u64, cells: cells as u64 };
        let has_volume = volumes.contains(&team.context().rank());
        let words = team.window(if has_volume { size.words() } else { 0 })?;
        let (words, guards) = guarded(team, words, || Guards::new(team, volumes, synchronization))?;
        Ok(FixedMap { words, size, volumes: volumes.into(), guards })
    }

    /// The value of a key.
    #[inline]
    #[track_caller]
    pub fn get(&self, context: &Context, key: u64) -> Result<Option<u64>> {
        let stored = key.wrapping_add(1);
        if stored == 0 {
            return Ok(None);
        }
        let at = self.volume_of(stored);
        context.noted(self.guards.read(context, at, || self.volume(context, at).get(stored)))
    }

    /// Makes a key stand for a value; returns what it stood for before. The key `u64::MAX` is not
    /// possible.
    #[inline]
    #[track_caller]
    pub fn insert(&self, context: &Context, key: u64, value: u64) -> Result<Option<u64>> {
        let stored = key.wrapping_add(1);
        if stored == 0 {
            return Err(context.failed(Error::Unsupported {
                what: format!("the key {key}, which a fixed-size map reserves"),
            }));
        }
        let at = self.volume_of(stored);
        context.noted(
            self.guards.write(context, at, || self.volume(context, at).insert(stored, value)),
        )
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
            size: self.size,
            rank: self.volumes[at],
            locked: self.guards.are_locks(),
        }
    }
}
