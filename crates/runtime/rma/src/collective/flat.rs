//! Collectives of members that share memory: each writes to its own scratch space, meets the
//! others, and reads what it needs.
//!
//! Paper:     none.
//! Differs:   -
//! State:     2 x 256 KiB on every member.
//! Invariant: between a step's barrier and the next one's, the scratch space of that step holds
//!            what its owner wrote.
//! Ordering:  two scratch spaces, used in turn: a member may write for the next step while others
//!            still read this one (`collectives_in_a_row_do_not_mix`).
//! Cost:      1 barrier for each 32 KiB, or 256 KiB where members outnumber their processors, and 1
//!            get from each member whose data is needed. A reduction from 4 KiB on: 2 barriers, and
//!            2 gets of a slice from each member.
//! Checked:   conformance suite, with thread, process and simulated ranks;
//!            `farside check collective`: 3 ranks exhaustively.

use std::panic::Location;

use farside_fabric::Result;

use crate::group::area::{self as at, SCRATCH_BYTES};
use crate::group::call::Step;
use crate::group::call::{Call, Kind};
use crate::team::Team;

/// What is written before a meeting where every member has a processor: so much that the meeting
/// does not count, and so little that it stays in the caches, and that a root writes the next piece
/// while the others read this one.
const PIECE_BYTES: usize = 32 * 1024;
/// From so many bytes on the members share the work of a reduction: it takes a second meeting.
const SLICED_BYTES: usize = 4096;

/// How much goes into a step. A meeting of members that outnumber their processors is as many
/// switches of context, so that they write all that there is room for.
fn piece(team: &Team<'_>) -> usize {
    if team.group().crowded { SCRATCH_BYTES as usize } else { PIECE_BYTES }
}

#[track_caller]
pub(crate) fn broadcast(team: &Team<'_>, call: Call, root: usize, data: &mut [u8]) -> Result<()> {
    let place = Location::caller();
    for_each_chunk(data.len(), piece(team), |range| {
        let mine = (team.group().me == root).then_some(&data[range.clone()]);
        let step = exchange(team, call, place, mine.unwrap_or_default())?;
        if mine.is_none() {
            read(team, &step, root, 0, &mut data[range])?;
        }
        Ok(())
    })
}

/// Folds all members' data, in their order, into that of `root`, or of every member.
///
/// Of a long piece, each member folds a slice, and those who want the result collect the slices: a
/// member that folds all of it by itself reads as many pieces as there are members.
#[track_caller]
pub(crate) fn reduce(
    team: &Team<'_>,
    call: Call,
    root: Option<usize>,
    element: usize,
    data: &mut [u8],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    let (me, size) = (team.group().me, team.size());
    let is_wanted = root.is_none_or(|root| root == me);
    // The root of two would have to wait for a slice that it folds as fast itself.
    let slices = size > 2 || (size == 2 && root.is_none());
    let chunk = (piece(team) / element).max(1) * element;
    // Of a slice, there are two: another member's, and this one's own.
    let mut theirs = vec![0; chunk.min(data.len()) + element];
    let place = Location::caller();
    for_each_chunk(data.len(), chunk, |range| {
        let data = &mut data[range];
        if !slices || data.len() < SLICED_BYTES {
            let step = exchange(team, call, place, data)?;
            return match is_wanted {
                true => fold_first(team, &step, size, data, &mut theirs, fold),
                false => Ok(()),
            };
        }
        let bytes = data.len();
        let slice = |member: usize| super::slice(bytes, element, size, member);
        // Nobody else reads what this member folds itself.
        let (mine, others) = (slice(me), || (0..size).filter(|&member| member != me));
        let parts = others().map(|member| (slice(member).start as u64, &data[slice(member)]));
        let step = exchange_parts(team, call, place, parts)?;
        let (theirs, own) = theirs.split_at_mut(mine.len());
        let own = &mut own[..mine.len()];
        own.copy_from_slice(&data[mine.clone()]);
        for member in 0..size {
            let into = &mut data[mine.clone()];
            match member {
                0 if me == 0 => {}
                0 => read(team, &step, 0, mine.start as u64, into)?,
                _ if member == me => fold(into, own),
                _ => {
                    read(team, &step, member, mine.start as u64, theirs)?;
                    fold(into, theirs);
                }
            }
        }
        let step = exchange(team, call, place, &data[mine])?;
        for member in others().filter(|_| is_wanted) {
            read(team, &step, member, 0, &mut data[slice(member)])?;
        }
        Ok(())
    })
}

/// Replaces this member's data by the fold of that of all members up to it; for an exclusive scan,
/// before it, which leaves the first member's as it is.
#[track_caller]
pub(crate) fn scan(
    team: &Team<'_>,
    call: Call,
    element: usize,
    data: &mut [u8],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    let chunk = (piece(team) / element).max(1) * element;
    let mut theirs = vec![0; chunk.min(data.len())];
    let count = team.group().me + usize::from(call.kind == Kind::Scan);
    let place = Location::caller();
    for_each_chunk(data.len(), chunk, |range| {
        let step = exchange(team, call, place, &data[range.clone()])?;
        fold_first(team, &step, count, &mut data[range], &mut theirs, fold)
    })
}

/// Folds the data of the first `count` members; without any, leaves `into` as it is.
fn fold_first(
    team: &Team<'_>,
    step: &Step,
    count: usize,
    into: &mut [u8],
    theirs: &mut [u8],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    let theirs = &mut theirs[..into.len()];
    for member in 0..count {
        match member {
            // What this member itself has given.
            0 if team.group().me == 0 => {}
            0 => read(team, step, member, 0, into)?,
            _ => {
                read(team, step, member, 0, theirs)?;
                fold(into, theirs);
            }
        }
    }
    Ok(())
}

#[track_caller]
pub(crate) fn all_gather(team: &Team<'_>, call: Call, mine: &[u8], all: &mut [u8]) -> Result<()> {
    let block = mine.len();
    let place = Location::caller();
    for_each_chunk(block, piece(team), |range| {
        let step = exchange(team, call, place, &mine[range.clone()])?;
        for member in 0..team.group().members.len() {
            let start = member * block;
            let into = &mut all[start + range.start..start + range.end];
            match member == team.group().me {
                true => into.copy_from_slice(&mine[range.clone()]),
                false => read(team, &step, member, 0, into)?,
            }
        }
        Ok(())
    })
}

#[track_caller]
pub(crate) fn all_to_all(
    team: &Team<'_>,
    call: Call,
    send: &[u8],
    receive: &mut [u8],
) -> Result<()> {
    let (size, me) = (team.group().members.len(), team.group().me);
    let block = send.len() / size;
    receive[me * block..][..block].copy_from_slice(&send[me * block..][..block]);
    // A member's scratch space has a part for each of the others, in their order. One byte for each
    // is always possible: a team that shares memory is smaller than the scratch space.
    let chunk = (piece(team) / (size - 1).max(1)).max(1);
    let others = || (0..size).filter(|&member| member != me);
    let place = Location::caller();
    for_each_chunk(block, chunk, |range| {
        let part = |member: usize| member * block + range.start..member * block + range.end;
        let parts = others().enumerate().map(|(at, member)| {
            let part = &send[part(member)];
            ((at * part.len()) as u64, part)
        });
        let step = exchange_parts(team, call, place, parts)?;
        for member in others() {
            let mine = me - usize::from(me > member);
            read(team, &step, member, (mine * range.len()) as u64, &mut receive[part(member)])?;
        }
        Ok(())
    })
}

/// Makes one step: every member's `mine` can be read when this returns.
pub(crate) fn exchange(
    team: &Team<'_>,
    call: Call,
    place: &'static Location<'static>,
    mine: &[u8],
) -> Result<Step> {
    exchange_parts(team, call, place, std::iter::once((0, mine)))
}

/// Makes one step: every member's parts, each with its place in the scratch space, can be read when
/// this returns.
fn exchange_parts<'m>(
    team: &Team<'_>,
    call: Call,
    place: &'static Location<'static>,
    parts: impl Iterator<Item = (u64, &'m [u8])>,
) -> Result<Step> {
    let step = team.enter_at(call, place)?;
    let start = at::scratch(step.meeting);
    let parts = parts.map(|(skip, part)| (start + skip, part));
    team.context().put_own_parts(&team.group().area, parts)?;
    team.meet(&step)?;
    Ok(step)
}

pub(crate) fn read(
    team: &Team<'_>,
    step: &Step,
    member: usize,
    skip: u64,
    into: &mut [u8],
) -> Result<()> {
    let group = team.group();
    team.context().get_at(
        &group.area,
        group.members[member],
        at::scratch(step.meeting) + skip,
        into,
    )
}

/// Calls `each` with consecutive ranges; with one empty range if there is nothing, so that an empty
/// collective is checked, too.
fn for_each_chunk(
    bytes: usize,
    chunk: usize,
    mut each: impl FnMut(std::ops::Range<usize>) -> Result<()>,
) -> Result<()> {
    let mut start = 0;
    loop {
        let end = bytes.min(start + chunk);
        each(start..end)?;
        if end == bytes {
            return Ok(());
        }
        start = end;
    }
}
