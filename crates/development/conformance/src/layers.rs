//! What stands on the operations: locks, epochs, arrays, tables, shared pages.

use farside::dsm::{Access, Config, Dsm};
use farside::epoch::{self, Design, LockAgent, Mode};
use farside::{Aggregator, GlobalArray, HashMap, Lock, Rank, Result, RwLock, World, lock, rw};

use crate::{ensure, ensure_eq};

/// Increments without an atomic: right only if the lock excludes.
fn increment(world: &World, count: &farside::Window<u64>) -> Result<()> {
    let at = count.at(Rank(0), 0);
    let before = world.get_value(at)?;
    world.put_value(before + 1, at)
}

pub(crate) fn every_lock_excludes(world: &World) -> Result<()> {
    let count = world.window::<u64>(1)?;
    let kinds = lock::Kind::all();
    for kind in &kinds {
        let lock = Lock::of_kind(world, Rank(world.size() - 1), kind)?;
        for _ in 0..3 {
            let guard = lock.lock(world)?;
            increment(world, &count)?;
            guard.unlock()?;
        }
        world.sync()?;
        lock.free(world)?;
    }
    let expected = 3 * u64::from(world.size()) * kinds.len() as u64;
    ensure_eq(world.get_value(count.at(Rank(0), 0))?, expected, "increments under locks")?;
    world.barrier()?;
    count.free(world)
}

pub(crate) fn every_reader_writer_lock_excludes(world: &World) -> Result<()> {
    let count = world.window::<u64>(1)?;
    let kinds = rw::Kind::all();
    for kind in &kinds {
        let lock = RwLock::of_kind(world, Rank(0), kind)?;
        for _ in 0..2 {
            let guard = lock.write(world)?;
            increment(world, &count)?;
            guard.unlock()?;
            let guard = lock.read(world)?;
            let seen = world.get_value(count.at(Rank(0), 0))?;
            ensure(seen > 0, || format!("{}: a reader sees no write", kind.name()))?;
            guard.unlock()?;
        }
        world.sync()?;
        lock.free(world)?;
    }
    let expected = 2 * u64::from(world.size()) * kinds.len() as u64;
    ensure_eq(world.get_value(count.at(Rank(0), 0))?, expected, "increments by writers")?;
    world.barrier()?;
    count.free(world)
}

pub(crate) fn epochs_of_every_design(world: &World) -> Result<()> {
    let designs = [Design::Direct, Design::Backoff(LockAgent::new(world)?), Design::TWO_SIDED];
    for design in designs {
        let options = epoch::Options::new().unit(8).design(design);
        let window = epoch::Window::allocate(world, 64, options)?;
        let next = Rank((world.rank().0 + 1) % world.size());
        window.lock(next, Mode::Exclusive)?;
        window.put(&[7_u64], next, 0)?;
        window.unlock(next)?;
        window.barrier()?;
        let mut own = [0_u64];
        window.read_own(0, &mut own)?;
        ensure_eq(own, [7], design.name())?;
        window.fence()?;
        window.put(&[9_u64], next, 1)?;
        window.last_fence()?;
        window.read_own(1, &mut own)?;
        ensure_eq(own, [9], design.name())?;
        window.free()?;
    }
    Ok(())
}

/// Locks whose words ranks and agents share, under contention.
pub(crate) fn locks_of_agents_exclude(world: &World) -> Result<()> {
    const ROUNDS: u64 = 25;
    let count = world.window::<u64>(1)?;
    let kinds = ["server", "server-posted", "hybrid", "hybrid-posted"].map(lock::Kind::named);
    for (index, kind) in kinds.iter().flatten().enumerate() {
        let lock = Lock::of_kind(world, Rank(0), kind)?;
        for _ in 0..ROUNDS {
            let guard = lock.lock(world)?;
            increment(world, &count)?;
            guard.unlock()?;
        }
        world.sync()?;
        lock.free(world)?;
        let expected = (index as u64 + 1) * ROUNDS * u64::from(world.size());
        ensure_eq(world.get_value(count.at(Rank(0), 0))?, expected, kind.name())?;
        world.barrier()?;
    }
    count.free(world)
}

/// Holders of one target in exclusive mode write two words, which those in shared mode compare.
pub(crate) fn epochs_of_every_design_exclude(world: &World) -> Result<()> {
    const ROUNDS: u32 = 12;
    let is_reader = |rank: Rank, round: u32| (round + rank.0).is_multiple_of(3);
    let agent = LockAgent::new(world)?;
    let designs =
        [Design::Direct, Design::Backoff(agent), Design::Published(agent), Design::TWO_SIDED];
    for design in designs {
        let options = epoch::Options::new().unit(8).design(design);
        let window = epoch::Window::allocate(world, 16, options)?;
        let read = || -> Result<[u64; 2]> {
            let mut words = [[0], [0]];
            for (at, word) in words.iter_mut().enumerate() {
                window.get_into(word, Rank(0), at as u64)?;
            }
            Ok(words.map(|[word]| word))
        };
        for round in 0..ROUNDS {
            let reads = is_reader(world.rank(), round);
            window.lock(Rank(0), if reads { Mode::Shared } else { Mode::Exclusive })?;
            let [first, second] = read()?;
            ensure_eq(first, second, design.name())?;
            window.flush(Rank(0))?;
            for at in (0..2).filter(|_| !reads) {
                window.put(&[first + 1], Rank(0), at)?;
                window.flush(Rank(0))?;
            }
            window.unlock(Rank(0))?;
        }
        window.barrier()?;
        let writes = |rank: Rank| (0..ROUNDS).filter(|&round| !is_reader(rank, round)).count();
        window.lock(Rank(0), Mode::Shared)?;
        let all = world.ranks().map(writes).sum::<usize>() as u64;
        ensure_eq(read()?, [all; 2], design.name())?;
        window.unlock(Rank(0))?;
        window.barrier()?;
        window.free()?;
    }
    Ok(())
}

pub(crate) fn arrays_add_patches(world: &World) -> Result<()> {
    let array = GlobalArray::<i64>::new(world, &[6, 5])?;
    let patch = farside::array::ndarray::Array2::from_elem((4, 3), 1_i64).into_dyn();
    array.accumulate(2, [1..5, 1..4], patch.view())?;
    array.sync()?;
    ensure_eq(array.sum()?, 24 * i64::from(world.size()), "the sum of a global array")?;
    array.free()
}

pub(crate) fn tables_count(world: &World) -> Result<()> {
    let map = HashMap::<u64, u64>::new(world)?;
    for key in 0..20 {
        map.fetch_add(world, key % 7, 1)?;
    }
    world.sync()?;
    ensure_eq(map.get(world, 0)?, Some(3 * u64::from(world.size())), "a count in the table")?;
    world.barrier()?;
    map.free(world)
}

pub(crate) fn aggregators_ask_and_answer(world: &World) -> Result<()> {
    let packing = farside::aggregator::Packing { items: 3, packets: 2 };
    let mut items = Aggregator::<[u32; 2]>::packed(world, packing)?;
    for _ in 0..2 {
        let (me, mut answers) = (world.rank(), 0);
        items.run(
            |out| {
                (0..100).try_for_each(|number| {
                    out.push(Rank((me.0 + number) % world.size()), [number, 0])
                })
            },
            |out, from, arrived| {
                for &[number, is_answer] in arrived {
                    match is_answer {
                        0 => out.push(from, [number, 1])?,
                        _ => answers += number,
                    }
                }
                Ok(())
            },
        )?;
        ensure_eq(answers, 4950, "the sum of all answers")?;
    }
    items.free()
}

pub(crate) fn pages_are_shared(world: &World) -> Result<()> {
    let mut dsm = Dsm::new(world, Config { access: Access::Explicit, ..Config::new(1 << 16) })?;
    let cells = dsm.alloc::<u64>(world.size() as usize)?;
    dsm.set(cells, world.rank().index(), u64::from(world.rank().0) + 1)?;
    dsm.barrier()?;
    for rank in world.ranks() {
        ensure_eq(dsm.get(cells, rank.index())?, u64::from(rank.0) + 1, "a word of another rank")?;
    }
    dsm.barrier()?;
    dsm.close()
}
