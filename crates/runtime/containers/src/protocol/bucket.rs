//! Buckets that any number of ranks read while one of them writes.
//!
//! Paper:     [RMALOCK16] section 5.3, the table that is synchronized by atomics only (foMPI-A):
//!            compare-swap on the bucket, fetch-add on the next free cell.
//! Differs:   entries are of any size, and are changed and removed, too. A writer marks its bucket
//!            with its rank; readers do not wait for each other, and read again what was written
//!            meanwhile. An entry is written beside the current one and made current by one
//!            compare-swap, so that a writer that is lost leaves the old entry or the new one.
//!            Where a lock of the whole volume is held, none of that is needed.
//! State:     1 word for each bucket, 1 for each cell, 3 for each volume.
//! Invariant: one writer at a time in a bucket; between two changes of a state that is free,
//!            its chain is the same.
//! Ordering:  an entry lands ahead of the word that makes it current
//!            (`an_entry_without_order_is_caught`); what was read counts if the state is the same
//!            afterwards (`a_look_without_validation_is_caught`) and if the bucket is still the
//!            key's own (`a_look_into_a_split_bucket_is_caught`).
//! Cost:      find: 1 load, 1 get and 1 load, and 1 get for each further cell; change: 1 load, 1
//!            compare-swap, 1 get for each cell, 1 put, 2 compare-swaps, and 1 fetch-add if the
//!            number of entries changes. Under a lock of the volume: 1 get, and 2 puts for a
//!            change.
//! Checked:   `farside check map`: 3 ranks insert, get and remove on colliding keys, all schedules;
//!            also while the table grows, and while a rank dies.

use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};

use farside_fabric::{Error, PeerState, Rank, Result};
use farside_rma::{Context, Place, Window};

use super::hash_of;
use super::layout::{COUNT, Layout, Meta, REMOVED, SHAPE, State, astray, entries};
use super::steps;

/// After how many cells a reader looks whether the chain that it follows has changed.
const PATIENCE: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Leave,
    Write,
    Remove,
}

/// Decides about an entry: is told the words of its value, if there is one, and writes those of the
/// new value.
pub(crate) type Change<'f> = dyn FnMut(Option<&[u64]>, &mut [u64]) -> Verdict + 'f;

/// A volume, as one rank uses it.
pub(crate) struct Volume<'a> {
    pub(crate) context: &'a Context,
    pub(crate) words: &'a Window<u64>,
    pub(crate) layout: &'a Layout,
    pub(crate) rank: Rank,
    /// Whether a lock of the whole volume is held, so that no other rank writes or, for a writer,
    /// reads.
    pub(crate) locked: bool,
    /// How many buckets it had when this rank looked last.
    pub(crate) shape: &'a Cell<u64>,
}

/// Room for one operation at a time.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// The key, and the new value.
    pub(crate) entry: Vec<u64>,
    pub(crate) old: Vec<u64>,
    /// A bucket.
    pub(crate) cell: Vec<u64>,
}

impl Room {
    pub(crate) fn new(layout: &Layout) -> Room {
        Room {
            entry: vec![0; layout.entry_words()],
            old: vec![0; layout.value_words],
            cell: vec![0; layout.bucket_words()],
        }
    }
}

/// What a writer found on its way through a chain: cells, each with its word.
struct Trail {
    first: (usize, Meta),
    free: Option<(usize, Meta)>,
    own: Option<(usize, Meta)>,
}

/// A cell as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: usize,
    pub(crate) meta: Meta,
    /// Its current entry.
    pub(crate) entry: Vec<u64>,
}

/// A bucket that this rank alone may change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) bucket: u64,
    pub(crate) state: State,
}

/// Where to look for cells when there are no fresh ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// Through all buckets: an entry has no other place.
    Everywhere,
    /// A few hundred buckets: the table can do without.
    Nearby,
}

impl Volume<'_> {
    /// Copies the value of the key that is in `room.entry` into `room.old`; false if there is none.
    pub(crate) fn find(&self, hash: u64, room: &mut Room) -> Result<bool> {
        let Room { entry, old: value, cell } = room;
        let key = &entry[..self.layout.key_words];
        loop {
            let (bucket, state) = self.enter(hash, cell)?;
            let found = self.follow(bucket, state, key, value, &mut cell[1..])?;
            if self.is_still(bucket, state)? {
                return found.ok_or_else(|| self.broken(bucket));
            }
        }
    }

    /// Reads the bucket of a hash while it is free, with its state.
    fn enter(&self, hash: u64, cell: &mut [u64]) -> Result<(u64, State)> {
        let mut bucket = self.layout.bucket(hash, self.shape.get());
        loop {
            let at = self.layout.state(bucket);
            let state = if self.locked {
                self.context.get(self.at(at), cell)?;
                State(cell[0])
            } else {
                State(self.context.load(self.at(at))?)
            };
            match self.look(bucket, state, hash)? {
                Look::Own if self.locked => return Ok((bucket, state)),
                Look::Own => {
                    self.context.get(self.at(at + 1), &mut cell[1..])?;
                    return Ok((bucket, state));
                }
                Look::Again => {}
                Look::At(other) => bucket = other,
            }
        }
    }

    /// Whether a bucket in this state is where a hash belongs, and free.
    fn look(&self, bucket: u64, state: State, hash: u64) -> Result<Look> {
        if let Some(holder) = state.holder().filter(|_| !self.locked) {
            self.await_holder(bucket, state, holder)?;
            return Ok(Look::Again);
        }
        if self.context.omits(steps::LOOK_AT_DEPTH) {
            return Ok(Look::Own);
        }
        let Some(depth) = self.layout.depth(bucket, state) else {
            return Err(self.broken(bucket));
        };
        match astray(hash, bucket, depth) {
            None => Ok(Look::Own),
            Some(other) => {
                self.learn_shape()?;
                Ok(Look::At(other))
            }
        }
    }

    pub(crate) fn learn_shape(&self) -> Result<u64> {
        let shape = self.layout.shape(self.context.load(self.at(SHAPE))?);
        self.shape.set(shape);
        Ok(shape)
    }

    /// Follows a chain from its first cell, which is in `cell`, to a key; `None` if it leads
    /// nowhere, because another rank writes.
    fn follow(
        &self,
        bucket: u64,
        state: State,
        key: &[u64],
        value: &mut [u64],
        cell: &mut [u64],
    ) -> Result<Option<bool>> {
        for steps in 1.. {
            let meta = Meta(cell[0]);
            if meta.is_occupied() {
                let (entry_key, entry_value) =
                    self.current(meta, cell).split_at(self.layout.key_words);
                if entry_key == key {
                    value.copy_from_slice(entry_value);
                    return Ok(Some(true));
                }
            }
            match meta.next() {
                0 => return Ok(Some(false)),
                next if u64::from(next) > self.layout.cells_max => return Ok(None),
                next => self.context.get(self.at(self.layout.cell(next)), cell)?,
            }
            if steps % PATIENCE == 0 && !self.is_still(bucket, state)? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn current<'c>(&self, meta: Meta, cell: &'c [u64]) -> &'c [u64] {
        let start = self.layout.entry(meta, true);
        &cell[start..start + self.layout.entry_words()]
    }

    pub(crate) fn is_still(&self, bucket: u64, state: State) -> Result<bool> {
        if self.locked || self.context.omits(steps::VALIDATE) {
            return Ok(true);
        }
        // What was read before was read before this.
        fence(Ordering::Acquire);
        Ok(self.context.load(self.at(self.layout.state(bucket)))? == state.0)
    }

    pub(crate) fn entries(&self, bucket: u64) -> Result<(Vec<Seen>, State)> {
        loop {
            let state = State(self.context.load(self.at(self.layout.state(bucket)))?);
            if let Some(holder) = state.holder().filter(|_| !self.locked) {
                self.await_holder(bucket, state, holder)?;
                continue;
            }
            let chain = self.chain(bucket)?;
            if self.is_still(bucket, state)? {
                let mut chain = chain.ok_or_else(|| self.broken(bucket))?;
                let depth = self.layout.depth(bucket, state);
                // A rank that was lost in a split, under a lock, leaves entries that have moved.
                chain.retain(|seen| {
                    let hash = || hash_of(&seen.entry[..self.layout.key_words]);
                    let is_own = |depth| astray(hash(), bucket, depth).is_none();
                    seen.meta.is_occupied() && depth.is_none_or(is_own)
                });
                return Ok((chain, state));
            }
        }
    }

    /// The cells of a bucket; `None` if they lead nowhere, because another rank writes.
    pub(crate) fn chain(&self, bucket: u64) -> Result<Option<Vec<Seen>>> {
        let mut cell = vec![0; self.layout.cell_words()];
        let (mut at, mut chain) = (self.layout.state(bucket) + 1, Vec::new());
        loop {
            self.context.get(self.at(at), &mut cell)?;
            let meta = Meta(cell[0]);
            chain.push(Seen { at, meta, entry: self.current(meta, &cell).to_vec() });
            let is_cycle = chain.len() as u64 > self.layout.cells_max + 1;
            match meta.next() {
                0 => return Ok(Some(chain)),
                next if u64::from(next) > self.layout.cells_max || is_cycle => return Ok(None),
                next => at = self.layout.cell(next),
            }
        }
    }

    /// Changes what a key stands for, and lets the table grow with it; true, and the old value in
    /// `room.old`, if the key stood for something. The key is in `room.entry`.
    pub(crate) fn change(
        &self,
        hash: u64,
        room: &mut Room,
        change: &mut Change<'_>,
    ) -> Result<bool> {
        let held = self.hold(hash)?;
        // The caller's function may panic, and others want the bucket.
        let releases = OnUnwind(|| drop(self.release(&held, held.state.released(true))));
        let changed = self.change_held(&held, room, change);
        std::mem::forget(releases);
        let is_changed = !matches!(changed, Ok((_, _, false)));
        let released = self.release(&held, held.state.released(is_changed));
        let (found, more, _) = changed?;
        // What was changed counts, whatever has come of the release.
        if more != 0 {
            let count = self.context.fetch_add(self.at(COUNT), more)?;
            if more == 1 && released.is_ok() {
                self.grow(entries(count) + 1)?;
            }
        }
        released.map(|()| found)
    }

    /// The same in a bucket that is held; also says what that adds to the count of entries, and
    /// whether anything was written.
    fn change_held(
        &self,
        held: &Held,
        room: &mut Room,
        change: &mut Change<'_>,
    ) -> Result<(bool, u64, bool)> {
        let trail = self.search(held.bucket, room)?;
        let Room { entry, old, .. } = room;
        let value = trail.own.map(|_| &old[..]);
        match (change(value, &mut entry[self.layout.key_words..]), trail.own) {
            (Verdict::Leave, _) | (Verdict::Remove, None) => Ok((trail.own.is_some(), 0, false)),
            (Verdict::Remove, Some((at, meta))) => {
                self.turn(at, meta, meta.emptied()).map(|()| (true, REMOVED, true))
            }
            (Verdict::Write, Some(own)) => self.write_beside(own, entry).map(|()| (true, 0, true)),
            (Verdict::Write, None) => {
                match trail.free {
                    Some(free) => self.write_beside(free, entry)?,
                    None => self.append(held.bucket, trail.first, entry)?,
                }
                Ok((false, 1, true))
            }
        }
    }

    /// Looks for a key in a bucket that is held; its value is then in `room.old`.
    fn search(&self, bucket: u64, room: &mut Room) -> Result<Trail> {
        let (layout, cell) = (self.layout, &mut room.cell[1..]);
        let mut at = layout.state(bucket) + 1;
        let mut trail = Trail { first: (at, Meta(0)), free: None, own: None };
        for steps in 0..=layout.cells_max {
            self.context.get(self.at(at), cell)?;
            let meta = Meta(cell[0]);
            if steps == 0 {
                trail.first = (at, meta);
            }
            if meta.is_occupied() {
                let (key, value) = self.current(meta, cell).split_at(layout.key_words);
                if *key == room.entry[..layout.key_words] {
                    room.old.copy_from_slice(value);
                    trail.own = Some((at, meta));
                    return Ok(trail);
                }
            } else if meta.is_usable() && trail.free.is_none() {
                trail.free = Some((at, meta));
            }
            match meta.next() {
                0 => return Ok(trail),
                next if u64::from(next) > layout.cells_max => break,
                next => at = layout.cell(next),
            }
        }
        Err(self.broken(bucket))
    }

    /// Writes an entry into the other place of a cell, and makes it the current one.
    fn write_beside(&self, (at, meta): (usize, Meta), entry: &[u64]) -> Result<()> {
        self.context.put(entry, self.at(at + self.layout.entry(meta, false)))?;
        self.order()?;
        self.turn(at, meta, meta.flipped())
    }

    /// Puts an entry into a fresh cell of the heap, right behind the first cell of its chain.
    fn append(&self, bucket: u64, (at, meta): (usize, Meta), entry: &[u64]) -> Result<()> {
        let link = self.fill_cells(&[entry], meta.next(), (&[bucket], Search::Everywhere))?;
        self.order()?;
        self.turn(at, meta, meta.with_next(link))
    }

    /// Fills cells of the heap, which nothing leads to: a chain that goes on with `next`. Returns
    /// its first link. Takes all the cells, or none. This rank holds the `busy` buckets.
    pub(crate) fn fill_cells(
        &self,
        entries: &[&[u64]],
        mut next: u32,
        (busy, search): (&[u64], Search),
    ) -> Result<u32> {
        if entries.is_empty() {
            return Ok(next);
        }
        let cells = self.take_cells(entries.len(), busy, search)?;
        for (link, &entry) in cells.into_iter().zip(entries) {
            let cell = [&[Meta::filled(next).0], entry].concat();
            self.context.put(&cell, self.at(self.layout.cell(link)))?;
            next = link;
        }
        Ok(next)
    }

    /// What was put lands ahead of what comes.
    pub(crate) fn order(&self) -> Result<()> {
        if self.context.omits(steps::ORDER) { Ok(()) } else { self.context.fence() }
    }

    /// Changes the word of a cell of a held bucket. A lost rank's change that comes late finds
    /// another word.
    pub(crate) fn turn(&self, at: usize, from: Meta, to: Meta) -> Result<()> {
        self.exchange(at, from.0, to.0)
    }

    /// Changes a word that no other rank changes, unless this rank is taken for lost.
    pub(crate) fn exchange(&self, at: usize, from: u64, to: u64) -> Result<()> {
        if self.locked {
            return self.context.put_value(to, self.at(at));
        }
        match self.context.compare_swap(self.at(at), from, to)? {
            held if held == from => Ok(()),
            _ => Err(self.taken_for_lost()),
        }
    }

    #[cold]
    pub(crate) fn taken_for_lost(&self) -> Error {
        Error::InvalidState(format!(
            "{} was declared lost while it was changing a map",
            self.context.rank()
        ))
    }

    fn hold(&self, hash: u64) -> Result<Held> {
        let mut bucket = self.layout.bucket(hash, self.shape.get());
        loop {
            let state = State(self.context.load(self.at(self.layout.state(bucket)))?);
            match self.look(bucket, state, hash)? {
                Look::Own => match self.try_hold(bucket, state)? {
                    Some(held) => return Ok(held),
                    None => continue,
                },
                Look::Again => {}
                Look::At(other) => bucket = other,
            }
        }
    }

    pub(crate) fn try_hold(&self, bucket: u64, state: State) -> Result<Option<Held>> {
        if self.locked {
            return Ok(Some(Held { bucket, state }));
        }
        let mine = state.held_by(self.context.rank());
        let held =
            self.context.compare_swap(self.at(self.layout.state(bucket)), state.0, mine.0)?;
        Ok((held == state.0).then_some(Held { bucket, state: mine }))
    }

    pub(crate) fn release(&self, held: &Held, state: State) -> Result<()> {
        if self.locked && state.has_depth_of(held.state) {
            return Ok(());
        }
        let at = self.layout.state(held.bucket);
        let released = self.order().and_then(|()| self.exchange(at, held.state.0, state.0));
        if released.is_err() && !self.locked {
            // Others want the bucket: one that is released already is not in this state.
            let _ = self.context.compare_swap(self.at(at), held.state.0, state.0);
        }
        released
    }

    /// Lets the holder of a bucket go on; mends what it left if it is lost, or could not release
    /// it because of an error, as this rank itself before.
    pub(crate) fn await_holder(&self, bucket: u64, state: State, holder: Rank) -> Result<()> {
        if self.is_gone(holder) || holder == self.context.rank() {
            return self.mend(bucket, state);
        }
        match self.context.relax_among(&[self.rank, holder]) {
            // A lost holder is looked after in the next turn.
            Err(error) if self.context.is_lost(self.rank) => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_gone(&self, rank: Rank) -> bool {
        self.context.is_lost(rank) || self.context.peer_state(rank) == PeerState::Left
    }

    pub(crate) fn at(&self, word: usize) -> Place<'_, u64> {
        self.words.at(self.rank, word)
    }

    #[cold]
    pub(crate) fn full(&self) -> Error {
        Error::TooMuch {
            what: "entries in a volume of a map (raise `Options::reserve_bytes`)",
            value: self.layout.cells_max + 1,
            limit: self.layout.cells_max,
        }
    }

    #[cold]
    pub(crate) fn broken(&self, bucket: u64) -> Error {
        Error::Internal(format!(
            "bucket {bucket} of the volume of {} is damaged: only the map may write there",
            self.rank
        ))
    }
}

pub(crate) struct OnUnwind<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        self.0();
    }
}

enum Look {
    Own,
    Again,
    At(u64),
}
