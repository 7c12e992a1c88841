//! All-to-all with parts of unequal lengths: members tell each other the lengths, expose what they
//! send, and each fetches its parts.
//!
//! Paper:     none.
//! Differs:   -
//! State:     the scratch space of the flat collectives, or a window of what is sent, for the call.
//! Invariant: what a member sends stays until all members have fetched their parts.
//! Ordering:  a meeting before the parts are fetched, and one before the window is freed
//!            (`all_to_all_v_deals_unequal_parts`).
//! Cost:      1 all-to-all of 24 bytes to each; then 1 barrier where all members share memory and
//!            send 256 KiB at most, else allocating and freeing a window; 1 get for each part.
//! Checked:   conformance suite; `farside check collective/all_to_all_v`: 3 ranks exhaustively.

use std::panic::Location;

use farside_fabric::{Error, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{flat, tree};
use crate::group::area::SCRATCH_BYTES;
use crate::group::call::{Call, Kind};
use crate::plain::Plain;
use crate::team::Team;

/// A part, as its sender tells the receiver, in elements.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Part {
    /// Its start in what the member sends.
    start: u64,
    len: u64,
    total: u64,
}

/// Sends `counts[i]` elements to member i, one part after the other in `send`; replaces `receive`
/// by what the members have sent here, and `received` by how much that was.
#[track_caller]
pub(crate) fn all_to_all<T: Plain>(
    team: &Team<'_>,
    send: &[T],
    counts: &[usize],
    receive: &mut Vec<T>,
    received: &mut [usize],
) -> Result<()> {
    check_counts(team, send.len(), counts, received.len())?;
    let call = Call::new(Kind::AllToAllV, size_of::<T>());
    let parts = team.told(tell(team, call, counts, send.len()))?;
    for (received, part) in received.iter_mut().zip(&parts) {
        *received = part.len as usize;
    }
    receive.clear();
    receive.resize(received.iter().sum(), T::new_zeroed());
    let most = parts.iter().map(|part| part.total).max().unwrap_or(0);
    if team.group().one_node && most * size_of::<T>() as u64 <= SCRATCH_BYTES {
        team.told(fetch_from_scratch(team, call, send, &parts, receive))
    } else {
        fetch_from_window(team, send, &parts, receive)
    }
}

fn check_counts(team: &Team<'_>, len: usize, counts: &[usize], received: usize) -> Result<()> {
    for (what, given) in [("counts", counts.len()), ("places for received counts", received)] {
        if given != team.size() {
            return Err(Error::InvalidArgument(format!(
                "an all-to-all of {} members needs as many {what}, not {given}",
                team.size()
            )));
        }
    }
    let sum = counts.iter().fold(0usize, |sum, &count| sum.saturating_add(count));
    if sum != len {
        return Err(Error::InvalidArgument(format!(
            "the counts add up to {sum} elements, but there are {len} to send"
        )));
    }
    Ok(())
}

/// Tells every member where its part is; returns where this member's parts are.
#[track_caller]
fn tell(team: &Team<'_>, call: Call, counts: &[usize], total: usize) -> Result<Vec<Part>> {
    let mut start = 0;
    let told: Vec<Part> = counts
        .iter()
        .map(|&len| {
            let part = Part { start, len: len as u64, total: total as u64 };
            start += len as u64;
            part
        })
        .collect();
    let mut heard = told.clone();
    if team.group().one_node {
        flat::all_to_all(team, call, told.as_bytes(), heard.as_mut_bytes())?;
    } else {
        tree::all_to_all(team, &team.enter(call)?, told.as_bytes(), heard.as_mut_bytes())?;
    }
    Ok(heard)
}

#[track_caller]
fn fetch_from_scratch<T: Plain>(
    team: &Team<'_>,
    call: Call,
    send: &[T],
    parts: &[Part],
    receive: &mut [T],
) -> Result<()> {
    let step = flat::exchange(team, call, Location::caller(), send.as_bytes())?;
    let mut rest = receive;
    for (member, part) in parts.iter().enumerate() {
        let (into, others) = rest.split_at_mut(part.len as usize);
        rest = others;
        let skip = part.start * size_of::<T>() as u64;
        flat::read(team, &step, member, skip, into.as_mut_bytes())?;
    }
    Ok(())
}

#[track_caller]
fn fetch_from_window<T: Plain>(
    team: &Team<'_>,
    send: &[T],
    parts: &[Part],
    receive: &mut [T],
) -> Result<()> {
    let window = team.short_lived_window::<T>(send.len())?;
    let fetched = team.told(window.own().write(0, send)).and_then(|()| team.barrier());
    let fetched = fetched.and_then(|()| {
        team.context().scope(|scope| {
            let mut rest = receive;
            for (&rank, part) in team.members().iter().zip(parts) {
                let (into, others) = rest.split_at_mut(part.len as usize);
                rest = others;
                if !into.is_empty() {
                    drop(scope.get_nb(window.at(rank, part.start as usize), into)?);
                }
            }
            Ok(())
        })
    });
    // The others wait for this member, whether it has got its parts or not.
    window.free(team).and(fetched)
}
