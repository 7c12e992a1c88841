//! Windows and words as memory.

use farside::{Error, ErrorClass, Pair, Rank, Result, World};

use crate::{ensure, ensure_eq};

pub(crate) fn fresh_windows_are_zero(world: &World) -> Result<()> {
    let window = world.window::<u8>(100_000)?;
    for peer in world.ranks() {
        let mut all = vec![1; 100_000];
        world.get(window.at(peer, 0), &mut all)?;
        ensure(all.iter().all(|&byte| byte == 0), || {
            format!("{peer} has fresh memory that is not zero")
        })?;
    }
    window.free(world)
}

pub(crate) fn parts_have_the_lengths_asked_for(world: &World) -> Result<()> {
    // One rank has nothing at all, and the lengths are no multiples of anything.
    let len = |rank: Rank| rank.index() * 1237;
    let window = world.window::<u16>(len(world.rank()))?;
    ensure_eq(window.own().len(), len(world.rank()), "own length")?;
    for peer in world.ranks() {
        ensure_eq(window.len(peer)?, len(peer), "length of a peer")?;
        if let Some(last) = len(peer).checked_sub(1) {
            world.get_value(window.at(peer, last))?;
        }
        ensure(world.get_value(window.at(peer, len(peer))).is_err(), || {
            format!("{peer} has one element too many")
        })?;
    }
    window.free(world)
}

pub(crate) fn alignment_is_kept(world: &World) -> Result<()> {
    let odd = world.window::<u8>(3)?;
    let pairs = world.window::<Pair>(2)?;
    // SAFETY: nobody writes these windows in this test.
    let address = unsafe { pairs.own().as_slice() }.as_ptr().addr();
    ensure_eq(address % 4096, 0, "alignment of a window, which is that of a page")?;
    odd.free(world)?;
    pairs.free(world)
}

pub(crate) fn freed_memory_comes_back_zero(world: &World) -> Result<()> {
    for round in 1..=5u8 {
        let window = world.window::<u8>(50_000)?;
        let mine = window.own().to_vec()?;
        ensure(mine.iter().all(|&byte| byte == 0), || {
            format!("round {round}: memory was not zeroed")
        })?;
        window.own().write(0, &vec![round; 50_000])?;
        window.free(world)?;
    }
    Ok(())
}

pub(crate) fn own_part_is_memory(world: &World) -> Result<()> {
    let window = world.window::<u32>(10)?;
    let own = window.own();
    own.write(2, &[7, 8, 9])?;
    own.set(9, world.rank().0)?;
    ensure_eq(own.to_vec()?, vec![0, 0, 7, 8, 9, 0, 0, 0, 0, world.rank().0], "own part")?;
    ensure_eq(own.get(3)?, 8, "one element")?;
    ensure(own.get(10).is_err() && own.write(9, &[1, 2]).is_err(), || {
        "own access past the end".into()
    })?;
    world.sync()?;
    let next = Rank((world.rank().0 + 1) % world.size());
    ensure_eq(world.get_value(window.at(next, 9))?, next.0, "a neighbour's element")?;
    world.sync()?;
    // SAFETY: between the two syncs every rank touches its own part only, through this slice alone.
    unsafe { own.as_mut_slice() }.fill(5);
    world.sync()?;
    ensure_eq(world.get_value(window.at(next, 0))?, 5, "an element written as memory")?;
    window.free(world)
}

pub(crate) fn words_are_symmetric(world: &World) -> Result<()> {
    let first = world.words(3)?;
    let second = world.words(1)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    world.fetch_add(first.at(next, 2), 5)?;
    world.fetch_add(second.at(next, 0), 7)?;
    world.sync()?;
    ensure_eq(world.load(first.at(world.rank(), 2))?, 5, "a word of the first allocation")?;
    ensure_eq(world.load(second.at(world.rank(), 0))?, 7, "a word of the second allocation")?;
    ensure(world.load(first.at(next, 3)).is_err(), || "a word beyond the allocation".into())?;
    first.free(world)?;
    let third = world.words(2)?;
    for index in 0..2 {
        ensure_eq(world.load(third.at(next, index))?, 0, "a word that was used before")?;
    }
    second.free(world)?;
    third.free(world)
}

pub(crate) fn many_windows_come_and_go(world: &World) -> Result<()> {
    let mut kept = Vec::new();
    for round in 0..200usize {
        let window = world.window::<u64>(round % 7)?;
        if round % 3 == 0 {
            kept.push(window);
        } else {
            window.free(world)?;
        }
    }
    for window in kept {
        window.free(world)?;
    }
    Ok(())
}

pub(crate) fn a_window_can_be_cast(world: &World) -> Result<()> {
    let window = world.window::<u64>(2)?;
    world.store(window.at(world.rank(), 1), 0x0102_0304_0506_0708)?;
    let bytes = window.cast::<u8>()?;
    ensure_eq(world.get_value(bytes.at(world.rank(), 8))?, 8, "the lowest byte")?;
    match bytes.cast::<[u8; 3]>() {
        Err(Error::Mismatch { left: 16, right: 3, .. }) => world.barrier(),
        Err(error) => Err(error),
        Ok(_) => Err(Error::Program("test failed: a cast that leaves bytes over".into())),
    }
}

pub(crate) fn too_much_memory_is_refused_by_all(world: &World) -> Result<()> {
    // Only one rank asks for too much: the others must not be left with half a window.
    let len = if world.rank().0 == 1 { usize::MAX / 8 } else { 10 };
    match world.window::<u64>(len) {
        Err(Error::OutOfMemory { .. }) if world.rank().0 == 1 => {}
        Err(Error::PeerFailed { rank: Rank(1), class: ErrorClass::Memory }) => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(Error::Program("test failed: a window larger than the memory".into())),
    }
    let window = world.window::<u64>(10)?;
    window.free(world)
}
