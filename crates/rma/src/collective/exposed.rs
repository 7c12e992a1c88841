//! Long collectives across nodes: members expose what they have in a window, and each fetches what it
//! needs straight from there, so that long transfers go as fast as gets.
//!
//! Paper:     none; a reduction is the reduce-scatter and all-gather that MPI libraries use for long
//!            vectors.
//! Differs:   slices are fetched from everybody at once, not passed on in steps.
//! State:     a window of what a member has, for the call.
//! Invariant: what a member exposes stays until all members have fetched their parts.
//! Ordering:  a meeting before parts are fetched, one more before the slices of a reduction are, and
//!            one before the window is freed (`all_reduce_gives_all_the_same_bits`,
//!            `all_gather_keeps_the_order`, `all_to_all_transposes`).
//! Cost:      allocating and freeing a window, 1 barrier, 1 get from each member; a reduction twice
//!            that many gets, of slices.
//! Checked:   conformance suite; `farside check collective`: 3 ranks on 3 nodes, by random
//!            schedules.

use farside_fabric::{Rank, Result};

use crate::group::call::Call;
use crate::plain::Plain;
use crate::team::Team;
use crate::window::Window;

/// From so many bytes of a member on, a window takes less time than messages along a tree.
pub(crate) const BYTES_MIN: usize = 256 * 1024;

#[track_caller]
pub(crate) fn all_gather<T: Plain>(
    team: &Team<'_>,
    call: Call,
    mine: &[T],
    all: &mut [T],
) -> Result<()> {
    team.meet(&team.enter(call)?)?;
    let parts = team.members().iter().zip(all.chunks_exact_mut(mine.len()));
    fetch(team, mine, parts.map(|(&rank, into)| (rank, 0, into)))
}

#[track_caller]
pub(crate) fn all_to_all<T: Plain>(
    team: &Team<'_>,
    call: Call,
    send: &[T],
    receive: &mut [T],
) -> Result<()> {
    team.meet(&team.enter(call)?)?;
    let (block, me) = (send.len() / team.size(), team.group().me);
    let parts = team.members().iter().zip(receive.chunks_exact_mut(block));
    fetch(team, send, parts.map(|(&rank, into)| (rank, me * block, into)))
}

/// Exposes what this member sends, and fetches parts of what others do: from whom, where it begins
/// there, and where it goes.
#[track_caller]
pub(crate) fn fetch<'p, T: Plain>(
    team: &Team<'_>,
    send: &[T],
    parts: impl Iterator<Item = (Rank, usize, &'p mut [T])>,
) -> Result<()> {
    let window = team.short_lived_window::<T>(send.len())?;
    window.own().write(0, send)?;
    team.barrier()?;
    let fetched = get_all(team, &window, parts);
    // The others wait for this member, whether it has got its parts or not.
    window.free(team).and(fetched)
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
    team.meet(&team.enter(call)?)?;
    let (size, me, bytes) = (team.size(), team.group().me, data.len());
    let slice = |member: usize| super::slice(bytes, element, size, member);
    let window = team.short_lived_window::<u8>(data.len())?;
    let made = (|| {
        window.own().write(0, data)?;
        team.barrier()?;
        let mine = slice(me);
        let mut theirs = vec![0; mine.len() * size];
        let parts = team.members().iter().zip(theirs.chunks_exact_mut(mine.len().max(1)));
        get_all(team, &window, parts.map(|(&rank, into)| (rank, mine.start, into)))?;
        let mut slices = theirs.chunks_exact(mine.len().max(1));
        if let Some(first) = slices.next() {
            data[mine.clone()].copy_from_slice(first);
        }
        slices.for_each(|from| fold(&mut data[mine.clone()], from));
        // Nobody else has read this part of the window, or will before all have met.
        window.own().write(mine.start, &data[mine])
    })();
    // The others come here, too: who has failed says so afterwards.
    let met = team.barrier();
    let fetched = met.and(made).and_then(|()| {
        let mut rest = &mut *data;
        let mut parts = Vec::with_capacity(size);
        for (member, &rank) in team.members().iter().enumerate() {
            let (into, others) = rest.split_at_mut(slice(member).len());
            rest = others;
            if member != me {
                parts.push((rank, slice(member).start, into));
            }
        }
        get_all(team, &window, parts.into_iter())
    });
    window.free(team).and(fetched)
}

fn get_all<'p, T: Plain>(
    team: &Team<'_>,
    window: &Window<T>,
    parts: impl Iterator<Item = (Rank, usize, &'p mut [T])>,
) -> Result<()> {
    team.context().scope(|scope| {
        for (rank, start, into) in parts.filter(|(.., into)| !into.is_empty()) {
            drop(scope.get_nb(window.at(rank, start), into)?);
        }
        Ok(())
    })
}
