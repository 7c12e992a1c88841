//! Long collectives across nodes: members expose what they have in memory that the group keeps, and
//! each fetches what it needs straight from there, so that long transfers go as fast as gets.
//!
//! Paper:     none; a reduction is the reduce-scatter and all-gather that MPI libraries use for
//!            long vectors.
//! Differs:   slices are fetched from everybody at once, not passed on in steps.
//! State:     on every member, room for the longest call so far, rounded up to a power of two.
//! Invariant: what a member exposes stays until all members have fetched their parts.
//! Ordering:  a meeting before parts are fetched, one more before the slices of a reduction are,
//!            and one before the room is used again (`all_reduce_gives_all_the_same_bits`,
//!            `all_gather_keeps_the_order`, `all_to_all_transposes`).
//! Cost:      2 barriers, 1 get from each member; a reduction 3, and twice that many gets, of
//!            slices. The first call of its length allocates.
//! Checked:   conformance suite; `farside check collective`: 3 ranks on 3 nodes, by random
//!            schedules.

use std::sync::Arc;

use farside_fabric::{Rank, Result};

use crate::group::call::Call;
use crate::place::Place;
use crate::segment::{Segment, Traffic};
use crate::team::Team;

/// From so many bytes of a member on, this takes less time than messages along a tree.
pub(crate) const BYTES_MIN: usize = 256 * 1024;

#[track_caller]
pub(crate) fn all_gather(team: &Team<'_>, call: Call, mine: &[u8], all: &mut [u8]) -> Result<()> {
    let parts = team.members().iter().zip(all.chunks_exact_mut(mine.len()));
    fetch(team, call, mine, parts.map(|(&rank, into)| (rank, 0, into)))
}

#[track_caller]
pub(crate) fn all_to_all(
    team: &Team<'_>,
    call: Call,
    send: &[u8],
    receive: &mut [u8],
) -> Result<()> {
    let (block, me) = (send.len() / team.size(), team.group().me);
    let parts = team.members().iter().zip(receive.chunks_exact_mut(block));
    fetch(team, call, send, parts.map(|(&rank, into)| (rank, me * block, into)))
}

/// Exposes what this member sends, and fetches parts of what others do: from whom, where it begins
/// there, and where it goes.
#[track_caller]
fn fetch<'p>(
    team: &Team<'_>,
    call: Call,
    send: &[u8],
    parts: impl Iterator<Item = (Rank, usize, &'p mut [u8])>,
) -> Result<()> {
    let room = room(team, call, send.len())?;
    team.told(team.context().put_own(&room, 0, send))?;
    team.barrier()?;
    let fetched = get_all(team, &room, parts);
    // The others wait for this member, whether it has got its parts or not.
    team.barrier().and(fetched)
}

/// Folds all members' data, in their order, and gives every member the result: each folds a slice.
#[track_caller]
pub(crate) fn all_reduce(
    team: &Team<'_>,
    call: Call,
    element: usize,
    data: &mut [u8],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    let (size, me, bytes) = (team.size(), team.group().me, data.len());
    let slice = |member: usize| super::slice(bytes, element, size, member);
    let room = room(team, call, bytes)?;
    team.told(team.context().put_own(&room, 0, data))?;
    team.barrier()?;
    let mine = slice(me);
    let mut theirs = vec![0; mine.len() * size];
    let of_each = theirs.chunks_exact_mut(mine.len().max(1));
    let parts = team.members().iter().zip(of_each);
    let made = get_all(team, &room, parts.map(|(&rank, into)| (rank, mine.start, into)));
    let made = made.and_then(|()| {
        let mut slices = theirs.chunks_exact(mine.len().max(1));
        if let Some(first) = slices.next() {
            data[mine.clone()].copy_from_slice(first);
        }
        slices.for_each(|from| fold(&mut data[mine.clone()], from));
        // Nobody else has read this part of the room, or will before all have met.
        team.context().put_own(&room, mine.start as u64, &data[mine.clone()])
    });
    // Nobody takes what this member has not folded.
    team.told(made)?;
    team.barrier()?;
    let mut rest = &mut *data;
    let mut parts = Vec::with_capacity(size);
    for (member, &rank) in team.members().iter().enumerate() {
        let (into, others) = rest.split_at_mut(slice(member).len());
        rest = others;
        if member != me {
            parts.push((rank, slice(member).start, into));
        }
    }
    let fetched = get_all(team, &room, parts.into_iter());
    team.barrier().and(fetched)
}

/// Enters a collective, and returns room for so many bytes on every member; the first that is so
/// long allocates it. All members ask for the same.
#[track_caller]
fn room(team: &Team<'_>, call: Call, bytes: usize) -> Result<Arc<Segment>> {
    // Members that do not agree on the length find out here.
    team.meet_for(call)?;
    let known = team.group().exposed.borrow().clone();
    match known {
        Some(room) if room.own.bytes() >= bytes as u64 => return Ok(room),
        Some(short) => {
            // Everybody has fetched its parts of the last call, and nobody puts to the room.
            *team.group().exposed.borrow_mut() = None;
            short.end();
            team.told(team.context().fabric().deregister(short.id))?;
        }
        None => {}
    }
    let room = team.segment(bytes.next_power_of_two() as u64, 1, Traffic::Uncounted)?;
    let room = Arc::new(room);
    *team.group().exposed.borrow_mut() = Some(room.clone());
    Ok(room)
}

fn get_all<'p>(
    team: &Team<'_>,
    room: &Segment,
    parts: impl Iterator<Item = (Rank, usize, &'p mut [u8])>,
) -> Result<()> {
    team.context().scope(|scope| {
        for (rank, start, into) in parts.filter(|(.., into)| !into.is_empty()) {
            drop(scope.get_nb(Place::first(room, rank).skip(start), into)?);
        }
        Ok(())
    })
}
