//! Bad input and bad luck: errors that name the value, nothing corrupted, nobody left waiting.

use farside::fabric::{Atomic, Connection, OldValue, Region, Width, Word};
use farside::{Error, ExitCause, Patch, Rank, Result, Run, World};
use farside_fabric::{Event, Started, Wait};

use crate::{ensure, ensure_eq};

fn all_zero(world: &World, window: &farside::Window<u64>) -> Result<()> {
    world.sync()?;
    ensure(window.own().to_vec()?.iter().all(|&value| value == 0), || {
        "a refused operation left traces".into()
    })
}

pub(crate) fn types_without_size_are_refused(world: &World) -> Result<()> {
    let refused = world.window::<[u64; 0]>(4).map(|_| ());
    ensure(matches!(refused, Err(Error::Unsupported { .. })), || {
        format!("a window of nothing: {refused:?}")
    })?;
    world.barrier()
}

pub(crate) fn out_of_range_is_named(world: &World) -> Result<()> {
    let window = world.window::<u64>(10)?;
    let guard = world.window::<u64>(10)?;
    let peer = Rank((world.rank().0 + 1) % world.size());
    let bounds = |first, end, elements, of: &str| {
        let element = "u64";
        Error::OutOfBounds { rank: peer, first, end, elements, element, of: of.to_owned() }
    };
    let error = |first, end| bounds(first, end, 10, "this window");
    ensure_eq(world.put(&[1; 3], window.at(peer, 8)), Err(error(8, 11)), "a put over the end")?;
    ensure_eq(world.put(&[1], window.at(peer, 10)), Err(error(10, 11)), "a put at the end")?;
    ensure_eq(world.put(&[], window.at(peer, 10)), Ok(()), "a put of nothing at the end")?;
    ensure_eq(world.get(window.at(peer, 8), &mut [0; 3]), Err(error(8, 11)), "a get over the end")?;
    ensure_eq(world.fetch_add(window.at(peer, 10), 1), Err(error(10, 11)), "an atomic at the end")?;
    ensure_eq(world.signal(window.at(peer, 10), 1), Err(error(10, 11)), "a signal at the end")?;
    let started = world.fetch_add_nb(window.at(peer, 10), 1).map(|_| ());
    ensure_eq(started, Err(error(10, 11)), "an atomic that is started at the end")?;
    let read = world.get_nb(window.at(peer, 8), 3).map(|_| ());
    ensure_eq(read, Err(error(8, 11)), "a read over the end")?;
    let written = world.put_nb(vec![1; 3], window.at(peer, 8)).map(|_| ());
    ensure_eq(written, Err(error(8, 11)), "a write over the end")?;
    let words = world.words(3)?;
    let error = |first, end| bounds(first, end, 3, "these words");
    ensure_eq(
        world.put(&[1; 2], words.at(peer, 2)),
        Err(error(2, 4)),
        "a put over the end of words",
    )?;
    ensure_eq(
        world.fetch_add(words.at(peer, 3), 1),
        Err(error(3, 4)),
        "an atomic at the end of words",
    )?;
    words.free(world)?;
    ensure(world.put(&[1], window.at(peer, usize::MAX)).is_err(), || {
        "a put beyond all memory".into()
    })?;
    ensure(world.fetch_add(window.at(peer, usize::MAX / 8), 1).is_err(), || {
        "an atomic beyond all memory".into()
    })?;
    let patch = Patch { counts: &[3, 2], near: &[2, 1], far: &[5, 1] };
    ensure(world.put_strided(&[1; 6], window.at(peer, 0), &patch).is_err(), || {
        "a block over the end".into()
    })?;
    let runs = [Run { near: 0, far: 0, len: 1 }, Run { near: 0, far: 9, len: 2 }];
    ensure(world.put_vector(&[1; 2], window.at(peer, 0), &runs).is_err(), || {
        "pieces over the end".into()
    })?;
    all_zero(world, &window)?;
    all_zero(world, &guard)?;
    window.free(world)?;
    guard.free(world)
}

pub(crate) fn shapes_that_contradict_themselves_are_refused(world: &World) -> Result<()> {
    let window = world.window::<u64>(10)?;
    let peer = Rank((world.rank().0 + 1) % world.size());
    let at = window.at(peer, 0);
    let put = |counts: &[usize], near: &[usize], far: &[usize]| {
        world.put_strided(&[1; 4], at, &Patch { counts, near, far })
    };
    ensure(put(&[2, 2], &[2], &[2, 1]).is_err(), || "near strides of another dimension".into())?;
    ensure(put(&[2, 2], &[2, 1], &[1]).is_err(), || "far strides of another dimension".into())?;
    ensure(put(&[5], &[1], &[1]).is_err(), || "more than the slice has".into())?;
    let more =
        put(&[usize::MAX], &[0], &[0]).map_err(|error| error.to_string()).err().unwrap_or_default();
    ensure(more.contains("10 elements (u64)") && !more.contains("fabric"), || {
        format!("more than there is: {more:?}")
    })?;
    ensure(put(&[2], &[1], &[usize::MAX]).is_err(), || "a stride beyond all memory".into())?;
    let run = |near, far, len| world.put_vector(&[1; 4], at, &[Run { near, far, len }]);
    ensure(run(3, 0, 2).is_err(), || "a piece over the end of the slice".into())?;
    ensure(run(0, usize::MAX, 1).is_err(), || "a piece beyond all memory".into())?;
    ensure(run(usize::MAX, 0, 1).is_err(), || "a piece from beyond all memory".into())?;
    all_zero(world, &window)?;
    window.free(world)
}

pub(crate) fn unknown_ranks_are_named(world: &World) -> Result<()> {
    let window = world.window::<u64>(1)?;
    let (rank, ranks) = (Rank(world.size()), world.size());
    let error = Error::UnknownRank { rank, ranks };
    ensure_eq(world.put(&[1], window.at(rank, 0)), Err(error.clone()), "put")?;
    ensure_eq(world.get_value(window.at(rank, 0)), Err(error.clone()), "get")?;
    ensure_eq(world.fetch_add(window.at(rank, 0), 1), Err(error.clone()), "atomic")?;
    ensure_eq(world.flush(rank), Err(error.clone()), "flush")?;
    ensure_eq(world.broadcast(rank, &mut [1]), Err(error), "broadcast")?;
    ensure(window.len(Rank(u32::MAX)).is_err(), || "the length of nobody's part".into())?;
    window.free(world)
}

pub(crate) fn freed_segments_are_refused(world: &World) -> Result<()> {
    let window = world.window::<u64>(4)?;
    let (segment, peer) = (window.segment(), Rank((world.rank().0 + 1) % world.size()));
    let fabric = world.fabric();
    let region = Region::block(peer, segment, 0, 8);
    let word = Word { rank: peer, segment, offset: 0, width: Width::W64 };
    fabric.put(&region, &[0; 8])?;
    window.free(world)?;
    world.barrier()?;
    let error = Error::NoSegment { rank: peer, segment };
    ensure_eq(finish(fabric, fabric.put(&region, &[0; 8]), peer), Err(error.clone()), "put")?;
    let atomic = fabric
        .atomic(word, Atomic::Add(1), OldValue::Wanted)
        .and_then(|started| complete(fabric, started));
    ensure_eq(atomic, Err(error), "atomic")?;
    // Another window may well lie at the same place by now, and must not be touched through the old
    // name.
    let next = world.window::<u64>(4)?;
    ensure(finish(fabric, fabric.put(&region, &[1; 8]), peer).is_err(), || {
        "a put to a freed segment".into()
    })?;
    all_zero(world, &next)?;
    next.free(world)
}

/// A posted operation may report its error as late as the flush.
fn finish(fabric: &dyn Connection, posted: Result<()>, peer: Rank) -> Result<()> {
    posted.and_then(|()| fabric.flush(peer))
}

/// A fetching operation may report its error as late as its completion.
fn complete(fabric: &dyn Connection, started: Started) -> Result<()> {
    let Started::Pending(ticket) = started else { return Ok(()) };
    while fabric.poll(ticket)?.is_none() {
        let known_departures = fabric.job().failures.departures();
        fabric.block(&Wait {
            event: Event::Done(ticket),
            known_departures,
            timeout: None,
            soon: true,
            lasting: None,
        })?;
    }
    Ok(())
}

pub(crate) fn misaligned_words_are_refused(world: &World) -> Result<()> {
    let window = world.window::<u64>(4)?;
    let peer = Rank((world.rank().0 + 1) % world.size());
    let fabric = world.fabric();
    for (offset, width) in [(4, Width::W64), (1, Width::W32), (8, Width::Pair)] {
        let word = Word { rank: peer, segment: window.segment(), offset, width };
        let result = fabric.atomic(word, Atomic::Swap(1), OldValue::Wanted).map(|_| ());
        ensure_eq(
            result,
            Err(Error::Misaligned { offset, align: width.bytes() }),
            "a misaligned word",
        )?;
    }
    let pair = Word { rank: peer, segment: window.segment(), offset: 0, width: Width::Pair };
    let sum = fabric.atomic(pair, Atomic::Add(1), OldValue::Wanted).map(|_| ());
    ensure(matches!(sum, Err(Error::Unsupported { .. })), || format!("a sum of pairs: {sum:?}"))?;
    all_zero(world, &window)?;
    window.free(world)
}

pub(crate) fn other_ranks_memory_is_not_waited_for(world: &World) -> Result<()> {
    let words = world.words(1)?;
    let owner = Rank((world.rank().0 + 1) % world.size());
    let result = world.wait(words.at(owner, 0), |word| word == 0);
    ensure_eq(
        result,
        Err(Error::NotOwn { rank: world.rank(), owner }),
        "a wait on another's word",
    )?;
    words.free(world)
}

pub(crate) fn strangers_have_no_part(world: &World) -> Result<()> {
    let single = world.split(Some(u64::from(world.rank().0)), 0)?.expect("everybody has a colour");
    let window = single.window::<u64>(1)?;
    let stranger = Rank((world.rank().0 + 1) % world.size());
    let expected = Error::NotAMember { rank: stranger, of: "window" };
    ensure_eq(world.get_value(window.at(stranger, 0)), Err(expected), "a get from a stranger")?;
    let refused = window.free(world);
    ensure(matches!(refused, Err(Error::InvalidState(_))), || {
        format!("a window freed by another team: {refused:?}")
    })?;
    world.barrier()
}

/// Whether all ranks got a disagreement, and whether it names `what`.
fn is_disagreement(result: Result<()>, what: [&str; 2]) -> Result<()> {
    match result {
        Err(Error::Disagreement { mine, theirs, .. }) => {
            let named = |part: &&str| mine.contains(*part) || theirs.contains(*part);
            ensure(what.iter().all(named), || {
                format!("the error says {mine:?} and {theirs:?}, not {what:?}")
            })
        }
        other => ensure(false, || format!("expected a disagreement, got {other:?}")),
    }
}

pub(crate) fn different_lengths_are_a_disagreement(world: &World) -> Result<()> {
    let team = world.split(Some(0), 0)?.expect("everybody has a colour");
    let mut data = vec![0u8; if world.rank() == Rank(1) { 24 } else { 16 }];
    // The root of a broadcast may be done before anybody else has looked.
    if let Err(error) = team.broadcast(Rank(0), &mut data) {
        is_disagreement(Err(error), ["16 bytes", "24 bytes"])?;
    }
    // The team is out of step for good, and says so; the world is not.
    is_disagreement(team.barrier(), ["", ""])?;
    world.barrier()
}

pub(crate) fn different_collectives_are_a_disagreement(world: &World) -> Result<()> {
    let team = world.split(Some(0), 0)?.expect("everybody has a colour");
    let result = if world.rank() == Rank(0) {
        team.barrier()
    } else {
        team.all_reduce(&mut [1u64], |a, b| a + b)
    };
    if result.is_err() {
        is_disagreement(result, ["a barrier", "an all-reduce of 8 bytes"])?;
    }
    is_disagreement(team.barrier(), ["", ""])?;
    one_of_three_differs(world)?;
    world.barrier()
}

/// Whoever it is that notices, all three are told of both calls.
fn one_of_three_differs(world: &World) -> Result<()> {
    if world.size() < 3 {
        return Ok(());
    }
    let Some(team) = world.split((world.rank().0 < 3).then_some(0), 0)? else { return Ok(()) };
    for turn in 0..3 {
        // The one before has spoiled its team for good.
        let team = team.split(Some(0), 0)?.expect("everybody has a colour");
        let result = if team.index() == turn {
            team.all_reduce(&mut [1u64], |a, b| a + b)
        } else {
            team.barrier()
        };
        is_disagreement(result, ["a barrier", "an all-reduce of 8 bytes"])?;
    }
    Ok(())
}

pub(crate) fn different_types_are_a_disagreement(world: &World) -> Result<()> {
    let result = if world.rank() == Rank(0) {
        world.window::<u64>(4).map(|_| ())
    } else {
        world.window::<u32>(4).map(|_| ())
    };
    is_disagreement(result, ["8 bytes", "4 bytes"])?;
    // All know of it before anything is allocated, so the team goes on.
    world.barrier()
}

pub(crate) fn different_word_counts_are_a_disagreement(world: &World) -> Result<()> {
    let team = world.split(Some(0), 0)?.expect("everybody has a colour");
    let result = team.words(if world.rank() == Rank(0) { 2 } else { 3 }).map(|_| ());
    is_disagreement(result, ["2 words", "3 words"])?;
    world.barrier()
}

pub(crate) fn freeing_different_windows_is_a_disagreement(world: &World) -> Result<()> {
    let team = world.split(Some(0), 0)?.expect("everybody has a colour");
    let (first, second) = (team.window::<u64>(1)?, team.window::<u64>(1)?);
    let freed = if world.rank() == Rank(0) { first.free(&team) } else { second.free(&team) };
    is_disagreement(freed, ["freeing", "segment"])?;
    world.barrier()
}

pub(crate) fn who_polls_the_left_is_told(world: &World) -> Result<()> {
    let words = world.words(1)?;
    if world.rank() != Rank(0) {
        return Ok(());
    }
    loop {
        match world.load(words.at(Rank(1), 0)).and_then(|_| world.relax()) {
            Ok(()) => {}
            Err(Error::RankLost { how: ExitCause::Left, .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn who_left_early_is_missed(world: &World) -> Result<()> {
    world.barrier()?;
    if world.rank() == Rank(0) {
        return Ok(());
    }
    let lost = Error::RankLost { rank: Rank(0), how: ExitCause::Left };
    ensure_eq(world.barrier(), Err(lost), "a barrier that rank 0 does not come to")
}

pub(crate) fn who_left_in_order_is_not_missed(world: &World) -> Result<()> {
    // Rank 0 leaves right after a barrier that others may still be in; the rest goes on without it.
    let words = world.words(1)?;
    world.barrier()?;
    let rest = world.split(if world.rank() == Rank(0) { None } else { Some(1) }, 0)?;
    let Some(rest) = rest else {
        return Ok(());
    };
    for round in 1..=50 {
        let members = rest.members();
        let next = members[(rest.index() + 1) % members.len()];
        world.signal(words.at(next, 0), round)?;
        world.wait(words.at(world.rank(), 0), |word| word >= round)?;
        rest.barrier()?;
    }
    // What it left behind can still be read.
    ensure_eq(world.load(words.at(Rank(0), 0))?, 0, "a word of who has left")?;
    // In the end the others leave one by one, too.
    Ok(())
}
