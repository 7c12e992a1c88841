//! Readers-writers exclusion: a writer is alone, readers may be together, and nobody sees half of what was written.

use std::cell::Cell;
use std::rc::Rc;

use farside::{Error, Rank, Result, Words, World};

/// A library. All ranks of a run share it; [`ReadersWriters::furnish`] it anew for each.
#[derive(Clone, Default)]
pub struct ReadersWriters {
    readers: Rc<Cell<u32>>,
    writer: Rc<Cell<Option<Rank>>>,
    written: Rc<Cell<u64>>,
}

/// What a rank needs for its visits: a record of two words that must always be the same.
pub struct Library {
    watch: ReadersWriters,
    record: Words,
}

impl ReadersWriters {
    /// An empty library. Collective.
    pub fn furnish(&self, world: &World) -> Result<Library> {
        self.readers.set(0);
        self.writer.set(None);
        self.written.set(0);
        Ok(Library { watch: self.clone(), record: world.words(2)? })
    }

    fn meets(&self, me: Rank, writes: bool) -> Result<()> {
        let readers = self.readers.get() - u32::from(!writes);
        match self.writer.get() {
            Some(other) if other != me => Err(Error::Misuse(format!("{me} meets the writer {other} inside"))),
            _ if writes && readers > 0 => Err(Error::Misuse(format!("the writer {me} meets {readers} readers inside"))),
            _ => Ok(()),
        }
    }
}

impl Library {
    /// Reads the record, as a reader that was let in.
    pub fn read(&self, world: &World) -> Result<()> {
        let (me, watch) = (world.rank(), &self.watch);
        watch.readers.set(watch.readers.get() + 1);
        watch.meets(me, false)?;
        let both = [0, 1].map(|half| world.get_value(self.record.at(Rank(0), half)));
        watch.meets(me, false)?;
        let (first, second) = (both[0].clone()?, both[1].clone()?);
        let written = watch.written.get();
        if (first, second) != (written, written) {
            return Err(Error::Misuse(format!("{me} reads {first} and {second} where {written} was written")));
        }
        watch.readers.set(watch.readers.get() - 1);
        Ok(())
    }

    /// Writes the record, as a writer that was let in.
    pub fn write(&self, world: &World) -> Result<()> {
        let (me, watch) = (world.rank(), &self.watch);
        watch.meets(me, true)?;
        watch.writer.set(Some(me));
        let seen = world.get_value(self.record.at(Rank(0), 0))?;
        watch.meets(me, true)?;
        let written = watch.written.get();
        if seen != written {
            return Err(Error::Misuse(format!("the writer {me} reads {seen} where {written} was written")));
        }
        for half in 0..2 {
            world.put_value(seen + 1, self.record.at(Rank(0), half))?;
        }
        watch.written.set(seen + 1);
        watch.writer.set(None);
        Ok(())
    }
}
