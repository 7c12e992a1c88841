//! Programs about what comes, or is opened, before it is asked for, and what is left out then.

use farside::dsm::{Dsm, Placement};
use farside::{Rank, Result};

use super::{Rounds, programs as run};
use crate::family::wrong;

/// The pages of [`pushed_later`].
pub(super) const MANY: u32 = 9;

/// Two ranks count under a lock, and all look at the sum after a barrier. The second time, the
/// diffs of both come with it to rank 0; the fourth time, those of one of them to rank 1.
pub(super) fn pushed(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    for round in 1..=4 {
        let looker = if round <= 2 { Rank(0) } else { Rank(1) };
        if dsm.world().rank() != looker {
            dsm.locked(0, |dsm| dsm.set(all, 0, dsm.get(all, 0)? + 1))?;
        }
        dsm.barrier()?;
        let seen = dsm.get(all, 0)?;
        if seen != 2 * round {
            return Err(wrong(format!(
                "sees {seen} of {}: an older word came over one that came with a barrier",
                2 * round
            )));
        }
        dsm.barrier()?;
    }
    Ok(())
}

/// Rank 1 writes all pages, which the others read; then all of them again, too many to come with a
/// barrier, and rank 2 asks for them; then the first one, which comes.
pub(super) fn pushed_later(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = dsm.alloc_at::<u32>(2 * MANY as usize, Placement::At(0))?;
    let is_writer = dsm.world().rank() == Rank(1);
    for round in 1..=2 {
        for page in (0..MANY as usize).filter(|_| is_writer) {
            dsm.set(all, 2 * page, round)?;
        }
        dsm.barrier()?;
        let reads = round == 1 || dsm.world().rank() == Rank(2);
        for page in (0..MANY as usize).filter(|_| reads) {
            dsm.get(all, 2 * page)?;
        }
        // What was touched is said here.
        dsm.barrier()?;
    }
    if is_writer {
        dsm.set(all, 1, 3)?;
    }
    dsm.barrier()?;
    match (dsm.get(all, 0)?, dsm.get(all, 1)?) {
        (2, 3) => Ok(()),
        (2, _) => Err(wrong("misses a store before a barrier")),
        _ => Err(wrong("misses a store before one that came with a barrier")),
    }
}

/// Rank 1 writes all pages twice, too many to come with a barrier, and before each time the others
/// have no copy of them, if every barrier reclaims. They look as soon as they have left it.
pub(super) fn written_again(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = dsm.alloc_at::<u32>(2 * MANY as usize, Placement::At(0))?;
    let is_writer = dsm.world().rank() == Rank(1);
    for round in 1..=2 {
        for page in (0..MANY as usize).filter(|_| is_writer) {
            dsm.set(all, 2 * page, round)?;
        }
        dsm.barrier()?;
        for page in 0..MANY as usize {
            if dsm.get(all, 2 * page)? != round {
                return Err(wrong("misses what was written before storage was reclaimed"));
            }
        }
        dsm.barrier()?;
    }
    Ok(())
}

/// Rank 1 makes a view of four pages, and writes some of them: another one in each round. The
/// others write a word of the last one.
pub(super) fn opened(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    let me = dsm.world().rank();
    for round in 1..=3 {
        if me == Rank(1) {
            let mine = dsm.view_mut(all, 0..8)?;
            mine.set(0, round);
            mine.set(2 * round as usize, round);
        } else if me == Rank(0) {
            dsm.set(all, 7, 10 * round)?;
        }
        dsm.barrier()?;
        let seen = dsm.view(all, 0..8)?.to_vec();
        if seen[2 * round as usize] != round {
            return Err(wrong("misses a store to a page that was opened ahead"));
        }
        if (seen[0], seen[7]) != (round, 10 * round) {
            return Err(wrong(format!("sees {seen:?} in round {round}")));
        }
        dsm.barrier()?;
    }
    Ok(())
}

/// Rank 1 writes all words of a page under a lock, and rank 2 one of them, if it has seen the other
/// one. Rank 0, which has not touched the page, sees both.
pub(super) fn whole(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    let mut has_seen = 0;
    match dsm.world().rank().0 {
        1 => dsm.locked(0, |dsm| {
            dsm.set(all, 0, 5)?;
            dsm.set(all, 1, 5)
        })?,
        2 => dsm.locked(0, |dsm| {
            has_seen = dsm.get(all, 1)?;
            if has_seen == 5 { dsm.set(all, 0, 6) } else { Ok(()) }
        })?,
        _ => {}
    }
    dsm.barrier()?;
    if dsm.world().rank() == Rank(2) {
        dsm.set(all, 2, has_seen)?;
    }
    dsm.barrier()?;
    let seen = dsm.get(all, 2)?;
    match (dsm.get(all, 0)?, dsm.get(all, 1)?) {
        (6, 5) => Ok(()),
        (5, 5) if seen != 5 => Ok(()),
        (first, 5) => {
            Err(wrong(format!("sees {first}: misses a word after all words of its page")))
        }
        (_, _) => Err(wrong("misses a word that was written before a barrier")),
    }
}

/// Rank 1 writes a word of a page under a lock, and then rank 2 the three others.
pub(super) fn most(dsm: &mut Dsm<'_>, _rounds: Rounds) -> Result<()> {
    let all = run::words(dsm)?;
    match dsm.world().rank().0 {
        1 => dsm.locked(0, |dsm| dsm.set(all, 1, 5))?,
        2 => dsm.locked(0, |dsm| [0, 2, 3].into_iter().try_for_each(|at| dsm.set(all, at, 6)))?,
        _ => {}
    }
    dsm.barrier()?;
    match dsm.view(all, 0..4)?.to_vec()[..] {
        [6, 5, 6, 6] => Ok(()),
        [6, _, 6, 6] => Err(wrong("misses a word that was written before all others of its page")),
        _ => Err(wrong("misses a word that was written before a barrier")),
    }
}
