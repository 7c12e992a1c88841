//! Programs without races, and what they must see.

use farside::dsm::{Dsm, Placement, Shared};
use farside::{Rank, Result, WaitOptions, Words};

use crate::family::wrong;

/// The word of a page that is at this place: pages have two words, and all lie in a row.
pub(super) fn words(dsm: &mut Dsm<'_>) -> Result<Shared<u32>> {
    dsm.alloc_at(16, Placement::At(0))
}

/// Rank 0 writes data and then a flag, on different pages, under a lock; the others look once.
pub(super) fn message_passing(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    let (data, flag) = (0, 2);
    dsm.lock(0)?;
    if dsm.world().rank() == Rank(0) {
        dsm.set(all, data, 7)?;
        dsm.set(all, flag, 1)?;
    } else if dsm.get(all, flag)? == 1 && dsm.get(all, data)? != 7 {
        return Err(wrong("sees the flag without the data"));
    }
    dsm.unlock(0)
}

/// Each of two writes its word under a lock of its own, and reads the other's under the other's
/// lock.
pub(super) fn store_buffering(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    let me = dsm.world().rank().0;
    if me < 2 {
        let other = 1 - me;
        dsm.lock(me)?;
        dsm.set(all, 2 * me as usize, 1)?;
        dsm.unlock(me)?;
        dsm.lock(other)?;
        let seen = dsm.get(all, 2 * other as usize)?;
        dsm.unlock(other)?;
        dsm.set(all, 4 + 2 * me as usize, seen + 1)?;
    }
    dsm.barrier()?;
    if (dsm.get(all, 4)?, dsm.get(all, 6)?) == (1, 1) {
        return Err(wrong("neither of two sees what the other wrote before it looked"));
    }
    Ok(())
}

/// All ranks write words next to each other, another one in each round, and see all of them after a
/// barrier.
pub(super) fn false_sharing(dsm: &mut Dsm<'_>, rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    let (me, count) = (dsm.world().rank().index(), dsm.world().size() as usize);
    let mut expected = vec![0; count];
    for round in 1..=rounds {
        let place = |rank: usize| (rank + round as usize) % count;
        dsm.set(all, place(me), round * 10 + me as u32)?;
        (0..count).for_each(|rank| expected[place(rank)] = round * 10 + rank as u32);
        dsm.barrier()?;
        let seen = dsm.view(all, 0..count)?.to_vec();
        if seen != expected {
            return Err(wrong(format!(
                "rank {me} sees {seen:?} instead of {expected:?} after barrier {round}"
            )));
        }
        if round < rounds {
            dsm.barrier()?;
        }
    }
    Ok(())
}

/// The pages that [`long_messages`] writes: so many that the notices of a barrier do not come with
/// its signal, and that there is no room for those of four barriers.
const LONG_PAGES: usize = 64;

/// The last rank writes a word of every second page in each round, and all meet.
pub(super) fn long_messages(dsm: &mut Dsm<'_>, rounds: u32) -> Result<()> {
    let all: Shared<u32> = dsm.alloc_at(4 * LONG_PAGES, Placement::At(0))?;
    let (me, last) = (dsm.world().rank().0, dsm.world().size() - 1);
    for round in 1..=rounds {
        for page in (0..LONG_PAGES).filter(|_| me == last) {
            dsm.set(all, 4 * page, round)?;
        }
        dsm.barrier()?;
    }
    let seen = dsm.get(all, 0)?;
    if seen == rounds { Ok(()) } else { Err(wrong(format!("{seen} instead of {rounds}"))) }
}

/// Rank 0 writes a word of each of two pages, and writes it back; rank 1, which has no copy of
/// them, may fetch them meanwhile for their other words. One of the pages was written before.
pub(super) fn changes_back(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    let is_writer = dsm.world().rank() == Rank(0);
    if is_writer {
        dsm.set(all, 0, 1)?;
    }
    dsm.barrier()?;
    if is_writer {
        dsm.set(all, 1, 5)?;
        dsm.set(all, 3, 5)?;
    } else if (dsm.get(all, 0)?, dsm.get(all, 2)?) != (1, 0) {
        return Err(wrong("misses a store before a barrier"));
    }
    // For the explorer: between two operations a rank is alone.
    dsm.world().barrier()?;
    if is_writer {
        dsm.set(all, 1, 0)?;
        dsm.set(all, 3, 0)?;
    }
    dsm.barrier()?;
    match (dsm.get(all, 1)?, dsm.get(all, 3)?) {
        (0, 0) => Ok(()),
        seen => Err(wrong(format!("sees {seen:?}: words of a page that have changed back"))),
    }
}

/// Rank 1 waits for a lock of rank 2, which may die, and rank 0 for rank 1, which does not leave
/// before that.
pub(super) fn meets_without_a_third(dsm: &mut Dsm<'_>, heard: &Words) -> Result<()> {
    let (world, pair) = (dsm.world(), [Rank(0), Rank(1)]);
    match world.rank().0 {
        0 => {
            let met = dsm.barrier_of(&pair);
            world.signal(heard.at(Rank(1), 0), 1)?;
            met
        }
        1 => {
            let locked = dsm.locked(0, |_| Ok(()));
            let met = dsm.barrier_of(&pair);
            let options = WaitOptions::default();
            world.wait_among(&pair, heard.at(Rank(1), 0), |heard| heard == 1, options)?;
            locked.and(met)
        }
        _ => dsm.locked(0, |_| Ok(())),
    }
}

/// Rank 0 tells rank 2, which may die, of more than its signal brings, and then, in other barriers,
/// rank 1: until there is no room for more before all of it was taken.
pub(super) fn long_without_a_third(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all: Shared<u32> = dsm.alloc_at(4 * LONG_PAGES, Placement::At(0))?;
    for (round, pair) in [[0, 2], [0, 1], [0, 1]].into_iter().enumerate() {
        let me = dsm.world().rank().0;
        if me == 0 {
            (0..LONG_PAGES).try_for_each(|page| dsm.set(all, 4 * page, round as u32 + 1))?;
        }
        if pair.contains(&me) {
            dsm.barrier_of(&pair.map(Rank))?;
        }
    }
    Ok(())
}

/// Every rank counts, under a lock.
pub(super) fn counting(dsm: &mut Dsm<'_>, rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    for _ in 0..rounds {
        dsm.lock(1)?;
        dsm.set(all, 3, dsm.get(all, 3)? + 1)?;
        dsm.unlock(1)?;
    }
    dsm.barrier()?;
    let (seen, expected) = (dsm.get(all, 3)?, rounds * dsm.world().size());
    if seen == expected { Ok(()) } else { Err(wrong(format!("{seen} of {expected} were counted"))) }
}

/// Rank 0 tells rank 1 under one lock, and rank 1 tells rank 2 under another.
pub(super) fn chain(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    let (first, second) = (0, 2);
    match dsm.world().rank().0 {
        0 => {
            dsm.lock(0)?;
            dsm.set(all, first, 5)?;
            dsm.unlock(0)
        }
        1 => {
            dsm.lock(0)?;
            let seen = dsm.get(all, first)?;
            dsm.unlock(0)?;
            if seen == 0 {
                return Ok(());
            }
            dsm.lock(1)?;
            dsm.set(all, second, 1)?;
            dsm.unlock(1)
        }
        _ => {
            dsm.lock(1)?;
            let (told, seen) = (dsm.get(all, second)?, dsm.get(all, first)?);
            dsm.unlock(1)?;
            if (told, seen) == (1, 0) {
                return Err(wrong("hears of the second write without what the writer had seen"));
            }
            Ok(())
        }
    }
}

/// Ranks 0 and 1 meet, then ranks 1 and 2, then all.
pub(super) fn some(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    let me = dsm.world().rank().0;
    dsm.set(all, me as usize, me + 1)?;
    let sees = |dsm: &Dsm<'_>, count: usize| {
        let seen = dsm.view(all, 0..count)?.to_vec();
        let expected: Vec<u32> = (1..=count as u32).collect();
        if seen == expected {
            Ok(())
        } else {
            Err(wrong(format!("rank {me} sees {seen:?} instead of {expected:?}")))
        }
    };
    if me < 2 {
        dsm.barrier_of(&[Rank(0), Rank(1)])?;
        sees(dsm, 2)?;
    }
    if me > 0 {
        dsm.barrier_of(&[Rank(1), Rank(2)])?;
        // The write that rank 0 told rank 1 of is seen, too.
        sees(dsm, 3)?;
    }
    dsm.barrier()?;
    sees(dsm, 3)
}

/// Rank 0 tells rank 1 in a barrier of both, and rank 1 tells rank 2 under a lock.
pub(super) fn told(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    let (first, second) = (0, 2);
    let me = dsm.world().rank().0;
    if me == 0 {
        dsm.set(all, first, 5)?;
    }
    if me < 2 {
        dsm.barrier_of(&[Rank(0), Rank(1)])?;
    }
    if me == 0 {
        return Ok(());
    }
    dsm.lock(1)?;
    let (told, seen) = (dsm.get(all, second)?, dsm.get(all, first)?);
    if me == 1 {
        dsm.set(all, second, 1)?;
    }
    dsm.unlock(1)?;
    if (me == 1 || told == 1) && seen == 0 {
        return Err(wrong(format!("rank {me} goes on without what rank 0 told in a barrier")));
    }
    Ok(())
}

/// Locks and barriers by turns.
pub(super) fn mixed(dsm: &mut Dsm<'_>, rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    let (me, count) = (dsm.world().rank().0, dsm.world().size());
    for round in 1..=rounds {
        for lock in [me % 2, 1 - me % 2] {
            dsm.lock(lock)?;
            let at = 8 + lock as usize;
            dsm.set(all, at, dsm.get(all, at)? + 1)?;
            dsm.unlock(lock)?;
        }
        dsm.set(all, ((me + round) % count) as usize, round)?;
        dsm.barrier()?;
        let seen = dsm.view(all, 0..10)?.to_vec();
        let mut expected = vec![round; count as usize];
        expected.extend([round * count; 2]);
        if seen != expected {
            return Err(wrong(format!(
                "rank {me} sees {seen:?} instead of {expected:?} in round {round}"
            )));
        }
        dsm.barrier()?;
    }
    Ok(())
}

/// What ranks see of a barrier that has no room for what rank 0 has written: an error, which stays,
/// or what was written.
pub(super) fn meets_without_room(dsm: &mut Dsm<'_>, rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    if dsm.world().rank() == Rank(0) {
        (0..4).try_for_each(|page| dsm.set(all, 2 * page, 7))?;
    }
    for _ in 0..=rounds {
        if dsm.barrier().is_ok() && dsm.get(all, 0) != Ok(7) {
            return Err(wrong("goes on without what was written"));
        }
    }
    if dsm.check().is_ok() {
        return Err(wrong("goes on after an error of another"));
    }
    // Whoever has left would be missed anyway.
    dsm.world().barrier()
}

/// Rank 0 has no room for what it has written under a lock: the others get the lock from a rank
/// that had it before, or an error.
pub(super) fn unlocks_without_room(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all = words(dsm)?;
    if dsm.world().rank() == Rank(0) {
        dsm.lock(1)?;
        (0..4).try_for_each(|page| dsm.set(all, 2 * page, 7))?;
        if dsm.unlock(1).is_ok() {
            return Err(wrong("finds room for too much"));
        }
    } else if dsm.lock(1).is_ok() {
        dsm.set(all, 8, 1)?;
        dsm.unlock(1)?;
    }
    // Whoever has left would be missed anyway.
    dsm.world().barrier()
}

/// There is no room for the notices of what rank 0 has written, whoever of its domain ends the
/// interval: it is told. Of two others that add to a word under a lock, one on each node, one sees
/// what the other has written, or one hears of the failure.
pub(super) fn closes_without_room(dsm: &mut Dsm<'_>, _rounds: u32) -> Result<()> {
    let all: Shared<u32> = dsm.alloc_at(1 << 11, Placement::At(0))?;
    let mut seen = [0, 0];
    if dsm.world().rank() == Rank(0) {
        (2..1 << 10).step_by(2).try_for_each(|page| dsm.set(all, 2 * page, 7))?;
    }
    dsm.world().barrier()?;
    if dsm.world().rank() == Rank(0) {
        if dsm.locked(0, |_| Ok(())).is_ok() {
            return Err(wrong("goes on although nobody was told what it has written"));
        }
    } else if let Ok(before) = dsm.locked(1, |dsm| {
        let before = dsm.get(all, 0)?;
        dsm.set(all, 0, before + 1)?;
        Ok(before)
    }) {
        seen = [1, before];
    }
    dsm.world().all_sum(&mut seen)?;
    match seen {
        [2, 0] => Err(wrong("two under one lock see nothing of each other")),
        _ => Ok(()),
    }
}
