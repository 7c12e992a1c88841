//! Distributed hash tables.
//!
//! ```
//! use farside::HashMap;
//!
//! farside::local(4, |world| {
//!     let map = HashMap::<u64, f64>::new(world)?;
//!     for key in 0..100 {
//!         map.insert(world, key * 4 + u64::from(world.rank().0), 0.5)?;
//!     }
//!     world.barrier()?;
//!     assert_eq!(map.len(world)?, 400);
//!     assert_eq!(map.get(world, 399)?, Some(0.5));
//!     assert_eq!(map.get(world, 400)?, None);
//!     world.barrier()?;
//!     map.free(world)
//! })
//! .unwrap();
//! ```
//!
//! Every rank has a *volume*: the entries whose keys belong to it by their hash. An operation goes
//! to the volume of its key, and needs no help from its owner. Each single operation is
//! linearizable: all ranks agree on one order of them, in which each has its place between its call
//! and its return. A batch is as many single operations, in any order.
//!
//! How ranks that use the same volume keep out of each other's way is chosen for each map
//! ([`Synchronization`]). With atomics only, which is the default, the loss of a rank leaves the
//! volumes of the others as they are, and calls to its own volume return an error. With locks, the
//! loss poisons them until [`HashMap::recover`].

mod batch;
mod fixed;
mod fixed_set;
mod guard;
mod snapshot;
mod words;

use std::cell::{Cell, RefCell, RefMut};
use std::marker::PhantomData;

use farside_fabric::{Error, ErrorClass, Rank, Result};
use farside_rma::{Context, Integer, Plain, Team, Window, World};

use crate::protocol::bucket::{Change, Room, Verdict, Volume};
use crate::protocol::layout::{COUNT, Layout, entries};
use crate::protocol::{hash_of, volume_of};
use guard::{Guards, guarded};
use words::{pack, unpack, words_of};

#[doc(hidden)]
pub use crate::protocol::steps;
pub use fixed::FixedMap;
pub use fixed_set::FixedSet;
pub use guard::Synchronization;
pub(crate) use snapshot::{agree, check};

/// What a map is to be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How ranks that use the same volume keep out of each other's way.
    pub synchronization: Synchronization,
    /// How many slots there are at first, in all volumes together. The table grows when there are
    /// more entries.
    pub slots: usize,
    /// How much memory of each rank the map may grow into; only what is used takes memory. Without
    /// it, a gigabyte, or as much as there is.
    pub reserve_bytes: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options { synchronization: Synchronization::Atomics, slots: 1024, reserve_bytes: None }
    }
}

/// How much memory of each rank a map may grow into, unless that is said.
const RESERVE_BYTES: usize = 1 << 30;
/// With less than that, a map is not worth while.
const RESERVE_BYTES_MIN: usize = 1 << 16;

/// A hash table over all members of a team; see the [module](self).
///
/// Each rank has one of these, and uses it with one thread at a time. Keys are compared, and
/// hashed, as the bytes that they are: of floating-point numbers, the two zeros are different keys.
#[must_use = "a map that is dropped without `free` keeps its memory until the job ends"]
pub struct HashMap<K, V> {
    words: Window<u64>,
    layout: Layout,
    members: Box<[Rank]>,
    guards: Guards,
    /// How many buckets each volume had when this rank looked last.
    shapes: Box<[Cell<u64>]>,
    /// Room for one operation at a time.
    room: RefCell<Room>,
    types: PhantomData<fn(K, V)>,
}

impl<K: Plain, V: Plain> HashMap<K, V> {
    /// Makes a map of all ranks. Collective.
    #[track_caller]
    pub fn new(world: &World) -> Result<HashMap<K, V>> {
        HashMap::with(&world.team(), &Options::default())
    }

    /// Makes a map of the members of a team. Collective over the team.
    ///
    /// ```
    /// # use farside::{map::{Options, Synchronization}, rw, HashMap};
    /// # farside::local(3, |world| {
    /// let synchronization = Synchronization::Locked(rw::Kind::rma_rw());
    /// let options = Options { synchronization, ..Options::default() };
    /// let map = HashMap::<[u8; 5], u32>::with(&world.team(), &options)?;
    /// map.insert(world, *b"hello", 5)?;
    /// assert_eq!(map.get(world, *b"hello")?, Some(5));
    /// # map.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn with(team: &Team<'_>, options: &Options) -> Result<HashMap<K, V>> {
        let members: Box<[Rank]> = team.members().into();
        if members.iter().any(|rank| rank.0 >= (1 << 24) - 1) {
            return Err(Error::TooMuch {
                what: "ranks of a map",
                value: members.len() as u64,
                limit: (1 << 24) - 1,
            });
        }
        let (words, layout) = HashMap::<K, V>::allocate(team, options)?;
        let (words, guards) =
            guarded(team, words, || Guards::new(team, &members, &options.synchronization))?;
        let shapes = members.iter().map(|_| Cell::new(layout.first)).collect();
        let room = RefCell::new(Room::new(&layout));
        Ok(HashMap { words, layout, members, guards, shapes, room, types: PhantomData })
    }

    #[track_caller]
    fn allocate(team: &Team<'_>, options: &Options) -> Result<(Window<u64>, Layout)> {
        let slots = (options.slots as u64).div_ceil(team.size() as u64);
        let layout = |bytes: usize| {
            let layout = Layout::new(words_of::<K>(), words_of::<V>(), slots, bytes as u64 / 8);
            layout.ok_or_else(|| {
                let what = "slots of a volume of a map (raise `Options::reserve_bytes`)";
                Error::TooMuch { what, value: slots, limit: bytes as u64 / 8 }
            })
        };
        let mut bytes = options.reserve_bytes.unwrap_or(RESERVE_BYTES);
        loop {
            let layout = layout(bytes)?;
            match team.window(layout.words()) {
                Ok(words) => return Ok((words, layout)),
                // If one cannot give so much, all are told, and all try with less.
                Err(error)
                    if error.class() == ErrorClass::Memory
                        && options.reserve_bytes.is_none()
                        && bytes > RESERVE_BYTES_MIN =>
                {
                    bytes /= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The value of a key.
    #[track_caller]
    pub fn get(&self, context: &Context, key: K) -> Result<Option<V>> {
        let room = &mut *context.noted(self.room())?;
        let (hash, at) = self.place(&key, room);
        context.noted(self.guards.read(context, at, || {
            let found = self.volume(context, at).find(hash, room)?;
            Ok(found.then(|| unpack(&room.old)))
        }))
    }

    /// Whether there is an entry for a key.
    #[track_caller]
    pub fn contains_key(&self, context: &Context, key: K) -> Result<bool> {
        Ok(self.get(context, key)?.is_some())
    }

    /// Makes a key stand for a value; returns what it stood for before.
    ///
    /// ```
    /// # use farside::HashMap;
    /// # farside::local(2, |world| {
    /// let map = HashMap::<i32, [f32; 3]>::new(world)?;
    /// let key = world.rank().0 as i32;
    /// assert_eq!(map.insert(world, key, [1.0; 3])?, None);
    /// assert_eq!(map.insert(world, key, [2.0; 3])?, Some([1.0; 3]));
    /// assert_eq!(map.remove(world, key)?, Some([2.0; 3]));
    /// assert_eq!(map.remove(world, key)?, None);
    /// # map.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn insert(&self, context: &Context, key: K, value: V) -> Result<Option<V>> {
        self.change(context, key, &mut |_, new| {
            pack(&value, new);
            Verdict::Write
        })
    }

    /// Makes a key stand for a value unless it stands for something, which is returned.
    #[track_caller]
    pub fn insert_new(&self, context: &Context, key: K, value: V) -> Result<Option<V>> {
        self.change(context, key, &mut |old, new| match old {
            Some(_) => Verdict::Leave,
            None => {
                pack(&value, new);
                Verdict::Write
            }
        })
    }

    /// Removes the entry of a key; returns its value.
    #[track_caller]
    pub fn remove(&self, context: &Context, key: K) -> Result<Option<V>> {
        self.change(context, key, &mut |_, _| Verdict::Remove)
    }

    /// Replaces what a key stands for by what `change` makes of it, where `None` is no entry;
    /// returns what it stood for before. No other rank changes the entry meanwhile, so `change`
    /// should be short, and must not use the map.
    ///
    /// ```
    /// # use farside::HashMap;
    /// # farside::local(3, |world| {
    /// let highest = HashMap::<u8, u32>::new(world)?;
    /// highest.update(world, 7, |old| Some(old.unwrap_or(0).max(world.rank().0)))?;
    /// world.barrier()?;
    /// assert_eq!(highest.get(world, 7)?, Some(2));
    /// # highest.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn update(
        &self,
        context: &Context,
        key: K,
        change: impl Fn(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        self.change(context, key, &mut |old, new| match change(old.map(unpack)) {
            Some(value) => {
                pack(&value, new);
                Verdict::Write
            }
            None => Verdict::Remove,
        })
    }

    #[track_caller]
    fn change(&self, context: &Context, key: K, change: &mut Change<'_>) -> Result<Option<V>> {
        let room = &mut *context.noted(self.room())?;
        let (hash, at) = self.place(&key, room);
        context.noted(self.guards.write(context, at, || {
            let found = self.volume(context, at).change(hash, room, change)?;
            Ok(found.then(|| unpack(&room.old)))
        }))
    }

    /// The room for an operation, unless one is under way: `change` of an [`HashMap::update`] must
    /// not use the map.
    fn room(&self) -> Result<RefMut<'_, Room>> {
        let is_busy =
            |_| Error::InvalidState("a map cannot be used inside one of its own updates".into());
        self.room.try_borrow_mut().map_err(is_busy)
    }

    /// Leaves a key where operations look for it; its hash, and which volume is its own.
    #[inline]
    fn place(&self, key: &K, room: &mut Room) -> (u64, usize) {
        let words = &mut room.entry[..self.layout.key_words];
        pack(key, words);
        let hash = hash_of(words);
        (hash, volume_of(hash, self.members.len()))
    }

    /// How many entries there are, in all volumes together. While others insert and remove, some
    /// number of the meantime; after the loss of a rank, what it had under way may be counted
    /// wrongly.
    #[track_caller]
    pub fn len(&self, context: &Context) -> Result<usize> {
        let count = |&rank| context.load(self.words.at(rank, COUNT)).map(entries);
        let sum = context.noted(self.members.iter().map(count).sum::<Result<i64>>())?;
        Ok(sum.max(0) as usize)
    }

    /// Whether there are no entries.
    #[track_caller]
    pub fn is_empty(&self, context: &Context) -> Result<bool> {
        Ok(self.len(context)? == 0)
    }

    /// How many slots there are by now, in all volumes together.
    #[track_caller]
    pub fn slots(&self, context: &Context) -> Result<usize> {
        let shape = |at| self.volume(context, at).learn_shape();
        Ok((0..self.members.len()).map(shape).sum::<Result<u64>>()? as usize)
    }

    /// In whose volume a key is.
    pub fn owner(&self, key: K) -> Rank {
        self.members[self.place(&key, &mut Room::new(&self.layout)).1]
    }

    /// The members, in the order of the team: each has a volume.
    pub fn members(&self) -> &[Rank] {
        &self.members
    }

    /// Its synchronization, as benchmarks and tables spell it.
    pub fn synchronization(&self) -> &'static str {
        self.guards.name()
    }

    /// A copy of all entries of this rank's own volume. What is inserted or removed meanwhile may
    /// be in it or not; everything else is, once.
    ///
    /// ```
    /// # use farside::HashMap;
    /// # farside::local(3, |world| {
    /// let map = HashMap::<u64, u64>::new(world)?;
    /// map.insert(world, world.rank().0.into(), 7)?;
    /// world.barrier()?;
    /// let mut count = [map.own_entries(world)?.len()];
    /// world.all_reduce(&mut count, |a, b| a + b)?;
    /// assert_eq!(count, [3]);
    /// # map.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn own_entries(&self, context: &Context) -> Result<Vec<(K, V)>> {
        let mut entries = Vec::new();
        self.for_each_own(context, |key, value| entries.push((key, value)))?;
        Ok(entries)
    }

    /// Calls `each` for all entries of this rank's own volume. See [`HashMap::own_entries`].
    #[track_caller]
    pub fn for_each_own(&self, context: &Context, each: impl FnMut(K, V)) -> Result<()> {
        self.for_each_of(context, context.rank(), each)
    }

    /// Calls `each` for all entries of the volume of a member. See [`HashMap::own_entries`].
    #[track_caller]
    pub fn for_each_of(
        &self,
        context: &Context,
        rank: Rank,
        mut each: impl FnMut(K, V),
    ) -> Result<()> {
        let at = self.members.iter().position(|&member| member == rank);
        let at = context.noted(at.ok_or(Error::NotAMember { rank, of: "map" }))?;
        let keys = self.layout.key_words;
        let shape = self.guards.read(context, at, || self.volume(context, at).learn_shape())?;
        for bucket in 0..shape {
            let level = shape.ilog2();
            let is_deep = bucket >= 1 << level || bucket < shape - (1 << level);
            self.guards.read(context, at, || {
                self.walk(
                    context,
                    at,
                    bucket,
                    if is_deep { level + 1 } else { level },
                    &mut |entry| {
                        each(unpack(&entry[..keys]), unpack(&entry[keys..]));
                    },
                )
            })?;
        }
        Ok(())
    }

    /// Calls `each` for all entries of a bucket that had a depth, and of those that were split from
    /// it since.
    fn walk(
        &self,
        context: &Context,
        at: usize,
        bucket: u64,
        depth: u32,
        each: &mut dyn FnMut(&[u64]),
    ) -> Result<()> {
        let volume = self.volume(context, at);
        let (entries, state) = volume.entries(bucket)?;
        entries.iter().for_each(|seen| each(&seen.entry));
        let now = self.layout.depth(bucket, state).unwrap_or(depth);
        (depth..now).try_for_each(|bit| self.walk(context, at, bucket | (1 << bit), bit + 1, each))
    }

    /// Makes a map with locks usable again after the loss of a member, for those who are left.
    /// Collective over `survivors`, a team of members that are all alive, made before the loss.
    /// Entries of the volumes of lost members are gone; a change that was under way may have been
    /// made or not.
    #[track_caller]
    pub fn recover(&mut self, survivors: &Team<'_>) -> Result<()> {
        self.guards.recover(survivors, &self.members)
    }

    /// Gives its memory back. Collective over those who made it, or over the survivors who have
    /// recovered it: then what it shares with the lost stays until the job ends.
    #[track_caller]
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        let team = team.into();
        let is_left_out = |rank: &Rank| !team.members().contains(rank);
        // Not whether they are lost: survivors hear of that at different times.
        let is_theirs = !self.guards.are_locks() || self.guards.are_recovered();
        let stays = is_theirs && self.words.members().iter().any(is_left_out);
        // What one of them leaves behind is no reason to keep the other.
        let freed = self.guards.free(&team);
        if stays { freed } else { self.words.free(&team).and(freed) }
    }

    fn volume<'a>(&'a self, context: &'a Context, at: usize) -> Volume<'a> {
        Volume {
            context,
            words: &self.words,
            layout: &self.layout,
            rank: self.members[at],
            locked: self.guards.are_locks(),
            shape: &self.shapes[at],
        }
    }

    /// The number whose lowest bits say in which bucket a key is: for the checker.
    #[doc(hidden)]
    pub fn hash(&self, key: K) -> u64 {
        self.place(&key, &mut Room::new(&self.layout)).0
    }

    /// Splits buckets of a volume, whether that is needed or not: for tests and for the checker.
    #[doc(hidden)]
    #[track_caller]
    pub fn split(&self, context: &Context, rank: Rank, splits: u64) -> Result<()> {
        let at = self.members.iter().position(|&member| member == rank);
        let at = context.noted(at.ok_or(Error::NotAMember { rank, of: "map" }))?;
        self.guards.write(context, at, || self.volume(context, at).split_some(splits))
    }
}

impl<K: Plain, V: Plain + Integer> HashMap<K, V> {
    /// Adds to the value of a key, which is zero if there is no entry, and returns what it was
    /// before.
    ///
    /// ```
    /// # use farside::HashMap;
    /// # farside::local(4, |world| {
    /// let votes = HashMap::<[u8; 3], u64>::new(world)?;
    /// votes.fetch_add(world, *b"yes", 1)?;
    /// world.barrier()?;
    /// assert_eq!(votes.get(world, *b"yes")?, Some(4));
    /// # votes.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn fetch_add(&self, context: &Context, key: K, value: V) -> Result<V> {
        let old = self.change(context, key, &mut |old, new| {
            pack(&wrapping_sum(old.map(unpack), value), new);
            Verdict::Write
        })?;
        Ok(old.unwrap_or(V::from_bits(0)))
    }
}

/// Adds as the atomics do: wrapping.
fn wrapping_sum<V: Integer>(old: Option<V>, value: V) -> V {
    let bits = old.map_or(0, farside_rma::AtomicWord::to_bits).wrapping_add(value.to_bits());
    V::from_bits(V::WIDTH.truncate(bits))
}
