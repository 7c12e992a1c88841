//! What labelled programs in Rust have and share.

use farside::{Context, Lock, Rank, Result, Window, World};

use super::Case;

pub(crate) struct It<'w> {
    pub(crate) world: &'w World,
    pub(crate) data: Window<u64>,
    pub(crate) flags: Window<u64>,
}

pub(super) const R0: Rank = Rank(0);
pub(super) const R1: Rank = Rank(1);
pub(super) const R2: Rank = Rank(2);

impl It<'_> {
    pub(crate) fn run(world: &World, case: &Case) -> Result<()> {
        let data = world.window::<u64>(64)?.named(world, "data");
        let flags = world.window::<u64>(8)?.named(world, "flags");
        let it = It { world, data, flags };
        (case.run)(&it)?;
        // The last words of every program: they order nothing that came before.
        it.world.sync()?;
        it.data.free(world)?;
        it.flags.free(world)
    }

    pub(super) fn on(&self, rank: u32, act: impl FnOnce(&World) -> Result<()>) -> Result<()> {
        if self.world.rank() == Rank(rank) { act(self.world) } else { Ok(()) }
    }

    pub(super) fn put(&self, to: Rank, index: usize) -> Result<()> {
        self.world.put_value(7, self.data.at(to, index))
    }

    pub(super) fn get(&self, from: Rank, index: usize) -> Result<()> {
        self.world.get_value(self.data.at(from, index)).map(drop)
    }

    pub(super) fn read(&self, index: usize) -> Result<()> {
        self.data.own().get(index).map(drop)
    }

    pub(super) fn signal(&self, to: Rank, flag: usize) -> Result<()> {
        self.world.signal(self.flags.at(to, flag), 1)
    }

    pub(super) fn wait(&self, flag: usize) -> Result<()> {
        self.wait_for(flag, 1)
    }

    pub(super) fn wait_for(&self, flag: usize, value: u64) -> Result<()> {
        let at = self.flags.at(self.world.rank(), flag);
        self.world.wait(at, |held| held >= value).map(drop)
    }

    pub(super) fn both(
        &self,
        rank_0: fn(&Self) -> Result<()>,
        rank_1: fn(&Self) -> Result<()>,
    ) -> Result<()> {
        match self.world.rank().0 {
            0 => rank_0(self),
            1 => rank_1(self),
            _ => Ok(()),
        }
    }

    /// A lock of one word at rank 0, made of atomics.
    pub(super) fn spin(&self, inside: impl FnOnce() -> Result<()>, flushes: bool) -> Result<()> {
        let word = self.flags.at(R0, 7);
        while self.world.compare_swap(word, 0, 1)? != 0 {
            self.world.relax()?;
        }
        inside()?;
        if flushes {
            self.world.flush_all()?;
        }
        self.world.store(word, 0)
    }

    pub(super) fn add_one(&self) -> Result<()> {
        let at = self.data.at(R0, 0);
        let held = self.world.get_value(at)?;
        self.world.put_value(held + 1, at)
    }

    pub(super) fn next(&self) -> Rank {
        Rank((self.world.rank().0 + 1) % self.world.size())
    }

    pub(super) fn halo(&self, second_sync: bool) -> Result<()> {
        for round in 0..3 {
            self.world.put_value(round, self.data.at(self.next(), 0))?;
            self.world.sync()?;
            self.read(0)?;
            if second_sync {
                self.world.sync()?;
            }
        }
        Ok(())
    }

    pub(super) fn credits(&self, has_credits: bool) -> Result<()> {
        for round in 1..4u64 {
            match self.world.rank().0 {
                0 => {
                    if has_credits && round > 1 {
                        self.wait_for(1, round - 1)?;
                    }
                    let (to, flag) = (self.data.at(R1, 0), self.flags.at(R1, 0));
                    self.world.put_signal(&[round], to, round, flag)?;
                }
                1 => {
                    self.wait_for(0, round)?;
                    self.read(0)?;
                    self.world.signal(self.flags.at(R0, 1), round)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn put_signal(&self, to: Rank, index: usize, value: u64, flag: usize) -> Result<()> {
        self.world.put_signal(&[7], self.data.at(to, index), value, self.flags.at(to, flag))
    }

    /// Puts an element with a signal, which adds 1.
    pub(super) fn put_signal_add(&self, to: Rank, index: usize, flag: usize) -> Result<()> {
        self.world.put_signal_add(&[7], self.data.at(to, index), 1, self.flags.at(to, flag))
    }

    /// Rounds in which each rank tells the next one its round by a put with a signal.
    pub(super) fn rounds(&self, fences: bool) -> Result<()> {
        let next = self.next();
        for round in 1..4 {
            if fences {
                self.world.fence()?;
            }
            self.put_signal(next, round as usize, round, 0)?;
            self.wait_for(0, round)?;
            self.read(round as usize)?;
        }
        Ok(())
    }

    /// Two puts of rank 0 whose signals add to one word, ahead of a barrier, which completes
    /// nothing; rank 1 waits for a sum and reads an element.
    pub(super) fn two_adds(&self, fences: bool, sum: u64, index: usize) -> Result<()> {
        self.on(0, |world| {
            self.put_signal_add(R1, 0, 0)?;
            if fences {
                world.fence()?;
            }
            self.put_signal_add(R1, 1, 0)
        })?;
        self.world.barrier()?;
        self.on(1, |_| {
            self.wait_for(0, sum)?;
            self.read(index)
        })
    }

    /// A put whose signal brings a word from a value to zero.
    pub(super) fn counts_to_zero(&self, from: u64, operand: u64) -> Result<()> {
        self.on(1, |world| world.store(self.flags.at(R1, 0), from))?;
        self.world.sync()?;
        self.on(0, |world| {
            world.put_signal_add(&[7], self.data.at(R1, 0), operand, self.flags.at(R1, 0))
        })?;
        self.on(1, |world| {
            world.wait(self.flags.at(R1, 0), |held| held == 0)?;
            self.read(0)
        })
    }

    pub(super) fn all_to_all(&self, syncs: bool) -> Result<()> {
        let me = self.world.rank().index();
        for to in self.world.ranks() {
            self.world.put_value(1, self.data.at(to, me))?;
        }
        if syncs {
            self.world.sync()?;
        } else {
            self.world.barrier()?;
        }
        self.data.own().to_vec().map(drop)
    }

    pub(super) fn two_threads(&self, flush_own: bool) -> Result<()> {
        self.on(0, |world| {
            let context: Context = world.context()?;
            context.put_value(7, self.data.at(R1, 0))?;
            if flush_own { context.flush(R1) } else { world.flush(R1) }
        })?;
        self.world.barrier()?;
        self.on(1, |_| self.read(0))
    }

    pub(super) fn locked(&self, act: impl Fn(&Lock) -> Result<()>) -> Result<()> {
        let lock = Lock::new(self.world, R0)?;
        act(&lock)?;
        self.world.barrier()?;
        lock.free(self.world)
    }

    pub(super) fn team(&self, colour: impl Fn(u32) -> u64) -> Result<()> {
        let me = self.world.rank().0;
        self.on(0, |world| {
            self.put(R1, 0)?;
            world.flush(R1)
        })?;
        let team = self.world.split(Some(colour(me)), 0)?;
        // Making a team meets all: what follows is what is looked at.
        self.on(0, |world| {
            self.put(R1, 1)?;
            world.flush(R1)
        })?;
        if let Some(team) = team {
            team.barrier()?;
        }
        self.on(1, |_| self.read(1))
    }
}
