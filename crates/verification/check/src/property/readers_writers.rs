//! Readers-writers exclusion: a writer is alone, readers may be together, and no reader sees half
//! of what was written.

use std::cell::Cell;
use std::rc::Rc;

use farside::{Error, Place, Rank, Result, Words, World};

/// The readers and the writer that are inside. All ranks of a run share it.
#[derive(Clone, Default)]
pub(crate) struct Inside {
    pub(crate) readers: Rc<Cell<u32>>,
    pub(crate) writer: Rc<Cell<Option<Rank>>>,
    /// What was written last, or how often.
    pub(crate) written: Rc<Cell<u64>>,
}

impl Inside {
    pub(crate) fn clear(&self) {
        self.readers.set(0);
        self.writer.set(None);
        self.written.set(0);
    }

    /// Refuses company that a reader or a writer must not have.
    pub(crate) fn meets(&self, me: Rank, writes: bool) -> Result<()> {
        let readers = self.readers.get() - u32::from(!writes);
        match self.writer.get() {
            Some(other) if other != me => {
                Err(Error::Program(format!("{me} meets the writer {other} inside")))
            }
            _ if writes && readers > 0 => {
                Err(Error::Program(format!("the writer {me} meets {readers} readers inside")))
            }
            _ => Ok(()),
        }
    }
}

/// A library. All ranks of a run share it; [`ReadersWriters::prepare`] it anew for each.
#[derive(Clone)]
pub struct ReadersWriters {
    words: usize,
    inside: Inside,
}

/// The state of one rank's visits: a record of words that must always be the same.
pub struct Library {
    watch: Inside,
    words: usize,
    record: Words,
}

impl ReadersWriters {
    /// A library with a record of so many words: two can be torn, one has fewer schedules.
    pub fn new(words: usize) -> ReadersWriters {
        ReadersWriters { words, inside: Inside::default() }
    }

    /// An empty library. Collective.
    pub fn prepare(&self, world: &World) -> Result<Library> {
        self.inside.clear();
        let (watch, words) = (self.inside.clone(), self.words);
        Ok(Library { watch, words, record: world.words(words)? })
    }
}

impl Library {
    /// A word of the record. Not at rank 0, where a lock's own operations might order those on the
    /// record by accident.
    fn word(&self, world: &World, index: usize) -> Place<'_, u64> {
        self.record.at(Rank(world.size() - 1), index)
    }

    /// Reads the record, as a reader that was let in.
    pub fn read(&self, world: &World) -> Result<()> {
        let (me, watch) = (world.rank(), &self.watch);
        watch.readers.set(watch.readers.get() + 1);
        watch.meets(me, false)?;
        let seen = (0..self.words).map(|index| world.get_value(self.word(world, index)));
        // A rank that finds the record lost with its owner is not inside any more.
        let leave = || watch.readers.set(watch.readers.get() - 1);
        let seen = seen.collect::<Result<Vec<u64>>>().inspect_err(|_| leave())?;
        watch.meets(me, false)?;
        let written = watch.written.get();
        if seen.iter().any(|&word| word != written) {
            return Err(Error::Program(format!("{me} reads {seen:?} where {written} was written")));
        }
        leave();
        Ok(())
    }

    /// Writes the record, as a writer that was let in.
    pub fn write(&self, world: &World) -> Result<()> {
        let (me, watch) = (world.rank(), &self.watch);
        if let Some(other) = watch.writer.replace(Some(me)) {
            return Err(Error::Program(format!("{me} meets the writer {other} inside")));
        }
        watch.meets(me, true)?;
        let seen = world.get_value(self.word(world, 0)).inspect_err(|_| watch.writer.set(None))?;
        watch.meets(me, true)?;
        let written = watch.written.get();
        if seen != written {
            return Err(Error::Program(format!(
                "the writer {me} reads {seen} where {written} was written"
            )));
        }
        let put = (0..self.words)
            .try_for_each(|index| world.put_value(seen + 1, self.word(world, index)));
        watch.written.set(seen + 1);
        watch.writer.set(None);
        put
    }
}
