//! A lock for readers and writers in one word: the lower half counts readers, the upper half holds
//! the writer. The last rank writes, the others read.

use farside::sim::program;
use farside::{Rank, Result, Words, World};

use crate::check::{Setup, Subject};
use crate::property::ReadersWriters;

/// Such a lock.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    /// Whether the writer waits for readers that are inside.
    patient: bool,
}

const WRITER: u64 = 1 << 32;

impl Counted {
    pub(super) const RIGHT: Counted = Counted { patient: true };
    pub(super) const IMPATIENT: Counted = Counted { patient: false };

    fn acquire_read(self, world: &World, words: &Words) -> Result<()> {
        let word = words.at(Rank(0), 0);
        while world.fetch_add(word, 1)? >= WRITER {
            // A writer is there, or about to be: step back, and come again when it has gone.
            world.fetch_add(word, u64::MAX)?;
            while world.load(word)? >= WRITER {
                world.relax()?;
            }
        }
        Ok(())
    }

    fn release_read(self, world: &World, words: &Words) -> Result<()> {
        world.fetch_add(words.at(Rank(0), 0), u64::MAX).map(drop)
    }

    fn acquire_write(self, world: &World, words: &Words) -> Result<()> {
        let word = words.at(Rank(0), 0);
        let mut held = world.fetch_add(word, WRITER)?;
        while self.patient && held % WRITER > 0 {
            held = world.load(word)?;
            if held % WRITER > 0 {
                world.relax()?;
            }
        }
        Ok(())
    }

    fn release_write(self, world: &World, words: &Words) -> Result<()> {
        world.flush_all()?;
        world.fetch_add(words.at(Rank(0), 0), WRITER.wrapping_neg()).map(drop)
    }

    /// Every rank visits the same library again and again.
    pub(super) fn exclusive(self) -> impl Fn(&Setup) -> Subject {
        move |setup| {
            let (rounds, library) = (setup.rounds, ReadersWriters::new(2));
            Subject::new(program(
                move |world| Ok((world.words(1)?, library.prepare(world)?)),
                move |world, (words, library)| {
                    for _ in 0..rounds {
                        if world.rank().0 + 1 == world.size() {
                            self.acquire_write(world, &words)?;
                            library.write(world)?;
                            self.release_write(world, &words)?;
                        } else {
                            self.acquire_read(world, &words)?;
                            library.read(world)?;
                            self.release_read(world, &words)?;
                        }
                    }
                    Ok(())
                },
            ))
        }
    }
}
