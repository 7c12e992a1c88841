//! The programs in which calls fail. Each makes what it needs, and frees it whatever becomes of its
//! use.

use std::cell::Cell;

use farside::array::Builder;
use farside::dsm::{Config, Dsm};
use farside::epoch::{Design, Mode, Options as EpochOptions, Window};
use farside::map::{Options, Synchronization};
use farside::{
    Aggregator, Error, FixedMap, FixedSet, GlobalArray, HashMap, Lock, Rank, Result, RwLock, World,
    rw,
};

/// Whoever fails with a lock ends at once: others wait for it. One that finds no room gives it
/// back.
fn unless_locked(is_locked: bool, used: Result<()>) -> Result<Result<()>> {
    match used {
        Err(error) if is_locked && !is_full(&error) => Err(error),
        used => Ok(used),
    }
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::TooMuch { .. })
}

fn map_of(world: &World, synchronization: Synchronization) -> Result<()> {
    let is_locked = matches!(synchronization, Synchronization::Locked(_));
    let options = Options { synchronization, slots: 4, reserve_bytes: Some(1 << 16) };
    let map = HashMap::<u64, u64>::with(&world.team(), &options)?;
    // Each of these may fail, and all ranks meet whether it does or not.
    let me = u64::from(world.rank().0);
    let inserted = Cell::new(0);
    let used = (|| {
        for key in 0..8 {
            map.insert(world, 4 * key + me, key)?;
            inserted.set(key + 1);
        }
        map.insert_all(world, &[(4 * 9 + me, 9), (4 * 10 + me, 10)])?;
        map.update(world, 4 * 2 + me, |value| value.map(|value| value + 1))?;
        map.remove(world, me)?;
        map.get(world, 4 + me).map(drop)
    })();
    let used = unless_locked(is_locked, used)?;
    if used.as_ref().is_err_and(is_full) {
        // What it had no room for is not in it, and all else is.
        for key in 0..8 {
            let held = map.get(world, 4 * key + me).expect("that needs no room");
            assert_eq!(held, (key < inserted.get()).then_some(key), "of {}", inserted.get());
        }
    }
    world.barrier()?;
    let counted = map.own_entries(world).map(drop);
    world.barrier()?;
    map.free(world)?;
    used.and(counted)
}

pub(crate) fn map(world: &World) -> Result<()> {
    map_of(world, Synchronization::Atomics)
}

pub(crate) fn locked_map(world: &World) -> Result<()> {
    map_of(world, Synchronization::Locked(rw::Kind::Default))
}

pub(crate) fn array(world: &World) -> Result<()> {
    let a = GlobalArray::<i64>::new(world, &[6, 6])?;
    let used = a.fill(1).and_then(|()| a.transpose_from(&a)).and_then(|()| a.sum()).map(drop);
    let like = a.like();
    let like = like.and_then(GlobalArray::free);
    a.free()?;
    used.and(like)?;
    match Builder::new(&[4]).ghosts(&[1, 2]).create::<u64>(world) {
        Ok(array) => array.free(),
        Err(_) => Ok(()),
    }
}

pub(crate) fn aggregator(world: &World) -> Result<()> {
    let mut items = Aggregator::<u64>::new(world)?;
    let ran =
        items.run(|out| world.ranks().try_for_each(|rank| out.push(rank, 1)), |_, _, _| Ok(()));
    items.free()?;
    ran
}

pub(crate) fn pages(world: &World) -> Result<()> {
    let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
    let words = dsm.alloc::<u64>(64)?;
    let used = (|| {
        dsm.set(words, world.rank().index(), 1)?;
        dsm.barrier()?;
        dsm.locked(0, |dsm| dsm.set(words, 8, dsm.get(words, 8)? + 1))?;
        dsm.barrier()?;
        dsm.get(words, 8).map(drop)
    })();
    dsm.close()?;
    used
}

pub(crate) fn collectives(world: &World) -> Result<()> {
    let mut sum = [1u64];
    world.all_reduce(&mut sum, |a, b| a + b)?;
    world.all_gather(&[world.rank().0])?;
    world.broadcast(Rank(1), &mut sum)?;
    world.team().scan(&mut sum, |a, b| a + b)?;
    world.all_to_all(&[1u32; 4])?;
    world.team().all_to_all_v(&[&[1u8][..], &[2, 3], &[], &[4]])?;
    world.team().all_reduce_nb(&[1u64], |a, b| a + b)?.wait()?;
    world.sync()?;
    let team = world.split(Some(u64::from(world.rank().0 % 2)), 0)?;
    team.map_or(Ok(()), |team| {
        let used = team.words(3).and_then(|words| words.free(&team));
        // A member whose meeting fails cannot know whether the others still write to its team.
        let freed = team.free().map_err(|error| Error::Program(format!("{KEEPS_TEAM}: {error}")));
        used.and(freed)
    })
}

/// Begins the error of a member that could not free its team, and keeps its memory.
pub(crate) const KEEPS_TEAM: &str = "the team stays";

/// Collectives so long that members of several nodes expose what they have, and fetch it from each
/// other. Who has no error has the right result.
pub(crate) fn long_collectives(world: &World) -> Result<()> {
    const LONG: usize = 33_001;
    let (me, size) = (u64::from(world.rank().0), u64::from(world.size()));
    let mut sum = vec![me; LONG];
    world.all_reduce(&mut sum, |a, b| a + b)?;
    assert!(sum.iter().all(|&sum| sum == size * (size - 1) / 2), "a wrong sum");
    let all = world.all_gather(&vec![me; LONG])?;
    assert!(all.chunks_exact(LONG).zip(0..).all(|(of, rank)| of.iter().all(|&of| of == rank)));
    let sent: Vec<u64> =
        world.ranks().flat_map(|to| vec![4 * me + u64::from(to.0); LONG]).collect();
    let received = world.all_to_all(&sent)?;
    let mut of_each = received.chunks_exact(LONG).zip(0..);
    assert!(of_each.all(|(of, rank)| of.iter().all(|&of| of == 4 * rank + me)));
    Ok(())
}

/// A file that ends too early: the map is made, and given back.
pub(crate) fn loads_half_a_map(world: &World) -> Result<()> {
    let path = format!("{}/half-a-map-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    if world.rank() == Rank(0) {
        let header = [8u64, 8, 100].map(u64::to_le_bytes).concat();
        std::fs::write(&path, [&b"farside map  1\r\n"[..], &header].concat())
            .map_err(|error| Error::File(error.to_string()))?;
    }
    world.barrier()?;
    let options = Options { reserve_bytes: Some(1 << 16), ..Options::default() };
    let loaded = HashMap::<u64, u64>::load(&world.team(), &options, &path);
    if world.rank() == Rank(0) {
        // All have read it, or hear of an error.
        let _ = std::fs::remove_file(&path);
    }
    match loaded {
        Ok(_) => Err(Error::Program("half a map was read".into())),
        Err(error) if error.to_string().contains("the fault of a test") => Err(error),
        Err(_) => Ok(()),
    }
}

fn fixed_of(world: &World, synchronization: &Synchronization) -> Result<()> {
    let is_locked = matches!(synchronization, Synchronization::Locked(_));
    let map = FixedMap::new(world, 4, 64, synchronization)?;
    let me = u64::from(world.rank().0);
    let used = (0..8).try_for_each(|key| map.insert(world, 4 * key + me, key).map(drop));
    let used = unless_locked(is_locked, used.and_then(|()| map.get(world, me).map(drop)))?;
    map.free(world)?;
    let of_map = used;
    let set = FixedSet::new(world, 4, 64, synchronization)?;
    let used = (0..8).try_for_each(|at| set.insert(world, 4 * at + me).map(drop));
    let used = unless_locked(is_locked, used.and_then(|()| set.contains(world, me).map(drop)))?;
    set.free(world)?;
    of_map.and(used)
}

/// Maps and sets of fixed size.
pub(crate) fn fixed(world: &World) -> Result<()> {
    fixed_of(world, &Synchronization::Atomics)
}

pub(crate) fn locked_fixed(world: &World) -> Result<()> {
    fixed_of(world, &Synchronization::Locked(rw::Kind::Default))
}

pub(crate) fn locks(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank(1))?;
    (0..2).try_for_each(|_| lock.lock(world)?.unlock())?;
    lock.free(world)?;
    let lock = RwLock::new(world, Rank(0))?;
    lock.read(world)?.unlock()?;
    lock.write(world)?.unlock()?;
    lock.free(world)
}

fn epochs_of(world: &World, body: impl Fn(&Window<'_>, Rank) -> Result<()>) -> Result<()> {
    for design in [Design::Direct, Design::TWO_SIDED] {
        let window = Window::allocate(world, 64, EpochOptions::new().design(design))?;
        let next = Rank((world.rank().0 + 1) % world.size());
        let used = body(&window, next);
        // One whose epoch failed half-way is not freed, and its owner has an error.
        window.free()?;
        used?;
    }
    Ok(())
}

/// Windows whose epochs are active, in both designs.
pub(crate) fn epochs(world: &World) -> Result<()> {
    epochs_of(world, |window, next| {
        // Every member comes to both fences, whatever came of the first.
        let begun = window.fence();
        let put = window.put(&[1u64], next, 0);
        window.last_fence().and(put).and(begun)
    })
}

pub(crate) fn locked_epochs(world: &World) -> Result<()> {
    epochs_of(world, |window, next| {
        window.lock(next, Mode::Exclusive)?;
        window.put(&[2u64], next, 8)?;
        window.unlock(next)?;
        window.lock_all()?;
        window.flush_all()?;
        window.unlock_all()
    })
}

/// A two-sided window whose members make every call of its epochs, whatever came of those before:
/// who could not do its part tells the others.
pub(crate) fn told_epochs(world: &World) -> Result<()> {
    let options = EpochOptions::new().design(Design::TWO_SIDED);
    let window = Window::allocate(world, 64, options)?;
    let (me, size) = (world.rank().0, world.size());
    let (next, before) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let locked = window
        .lock(next, Mode::Exclusive)
        .and(window.put(&[2u64], next, 8))
        .and(window.flush(next))
        .and(window.put(&[3u64], next, 16))
        .and(window.unlock(next));
    let started = window
        .post(&[before])
        .and(window.start(&[next]))
        .and(window.put(&[1u64], next, 0))
        .and(window.complete())
        .and(window.wait());
    let freed = window.free();
    locked.and(started).and(freed)
}
