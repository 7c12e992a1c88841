//! Non-blocking barrier and all-reduce: a member leaves its part in its own memory and counts up
//! one word; the last to come folds the parts and gives every member the result.
//!
//! Paper:     none; the arrivals are those of the central barrier (`group/barrier/central.rs`).
//! Differs:   a member has done all that others need when the call that starts it returns, so that
//!            its handle may be dropped at any time; there is no progress to make.
//! State:     8 places: 1 word at the first member, 1 word and 4 KiB on every member.
//! Invariant: a member's part stays until the last to come has read it: a place is used again only
//!            when its result has come, and a handle that is left gets a copy of it.
//! Ordering:  the wait for the place (`a_place_that_is_used_too_early_is_caught`); the counter is
//!            zero before a member is released, as in the central barrier.
//! Cost:      1 atomic for each member; all-reduce: N - 1 gets and N - 1 puts with a signal from
//!            the last to come; barrier: N - 1 signals from it.
//! Checked:   conformance suite; `farside check collective/all_reduce_nb`: 3 ranks exhaustively;
//!            `collective/places`: 2 ranks x 12 rounds, PCT depth 3.

use std::marker::PhantomData;
use std::sync::Arc;

use farside_fabric::{Error, Result};
use zerocopy::IntoBytes;

use crate::group::area::{self as at, PLACE_BYTES, PLACES};
use crate::group::barrier::central;
use crate::group::call::{Call, Started};
use crate::group::steps;
use crate::operations::SignalAt;
use crate::plain::Plain;
use crate::team::Team;

impl Started {
    /// Reads the result, which has come, from its place.
    fn read_result(&self, team: &Team<'_>, into: &mut [u8]) -> Result<()> {
        let context = team.context();
        context.get_at(&team.group().area, context.rank(), at::place(self.place()), into)
    }

    /// Waits for the result, and keeps it for its handle, if there is one: another collective
    /// needs the place.
    fn leave_place(&self, team: &Team<'_>) -> Result<()> {
        team.await_result(self)?;
        if Arc::strong_count(&self.kept) > 1 {
            let mut result = vec![0; self.bytes];
            self.read_result(team, &mut result)?;
            self.kept.get_or_init(|| result);
        }
        Ok(())
    }
}

/// A [`Team::barrier_nb`] under way.
///
/// It can be dropped at any time: the other members do not depend on the handle.
#[must_use = "a barrier has separated the members only after `wait`"]
pub struct PendingBarrier<'t> {
    handle: Handle<'t>,
}

/// A [`Team::all_reduce_nb`] under way.
///
/// It can be dropped at any time: the other members do not depend on the handle.
#[must_use = "the result comes from `wait`"]
pub struct PendingReduce<'t, T> {
    handle: Handle<'t>,
    len: usize,
    element: PhantomData<T>,
}

struct Handle<'t> {
    team: Team<'t>,
    started: Started,
}

impl PendingBarrier<'_> {
    /// Returns whether all members have called it.
    pub fn test(&mut self) -> Result<bool> {
        self.handle.test()
    }

    /// Returns when all members have called it.
    pub fn wait(self) -> Result<()> {
        self.handle.wait()
    }
}

impl<T: Plain> PendingReduce<'_, T> {
    /// Returns whether the result has come, so that `wait` would not have to wait.
    pub fn test(&mut self) -> Result<bool> {
        self.handle.test()
    }

    /// Waits for the result, and returns it.
    pub fn wait(self) -> Result<Vec<T>> {
        let mut result = vec![T::new_zeroed(); self.len];
        self.wait_into(&mut result)?;
        Ok(result)
    }

    /// Waits for the result, and writes it to `into`, which must be as long as what was given.
    pub fn wait_into(self, into: &mut [T]) -> Result<()> {
        if into.len() != self.len {
            return Err(Error::InvalidArgument(format!(
                "a reduction of {} elements into a buffer of {}: both must have the same length",
                self.len,
                into.len()
            )));
        }
        self.handle.wait()?;
        let Handle { team, started } = &self.handle;
        match started.kept.get() {
            Some(result) => into.as_mut_bytes().copy_from_slice(result),
            None => started.read_result(team, into.as_mut_bytes())?,
        }
        Ok(())
    }
}

impl Handle<'_> {
    fn test(&self) -> Result<bool> {
        let Started { step, number, kept, .. } = &self.started;
        if kept.get().is_some() {
            return Ok(true);
        }
        self.team.test_number(step, at::place_flag(self.started.place()), *number)
    }

    fn wait(&self) -> Result<()> {
        self.team.await_result(&self.started)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        let under_way = &self.team.group().under_way;
        under_way.set(under_way.get() - 1);
    }
}

impl Team<'_> {
    fn await_result(&self, started: &Started) -> Result<()> {
        if started.kept.get().is_some() {
            return Ok(());
        }
        let flag = at::place_flag(started.place());
        self.await_number(&started.step, None, flag, started.number).map(drop)
    }
}

#[track_caller]
pub(crate) fn barrier(team: Team<'_>) -> Result<PendingBarrier<'_>> {
    let handle = start(team, Call::BARRIER_NB, &[], &mut |_, _| ())?;
    Ok(PendingBarrier { handle })
}

#[track_caller]
pub(crate) fn all_reduce<'t, T: Plain>(
    team: Team<'t>,
    call: Call,
    data: &[T],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<PendingReduce<'t, T>> {
    let handle = start(team, call, data.as_bytes(), fold)?;
    Ok(PendingReduce { handle, len: data.len(), element: PhantomData })
}

#[track_caller]
fn start<'t>(
    team: Team<'t>,
    call: Call,
    data: &[u8],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<Handle<'t>> {
    let group = team.group();
    if group.under_way.get() == PLACES {
        return Err(Error::TooMuch {
            what: "non-blocking collectives of a team under way (wait for one, or drop it)",
            value: u64::from(PLACES) + 1,
            limit: PLACES.into(),
        });
    }
    if data.len() as u64 > PLACE_BYTES {
        return Err(Error::TooMuch {
            what: "bytes of a non-blocking reduction (use several, or a blocking one)",
            value: data.len() as u64,
            limit: PLACE_BYTES,
        });
    }
    let number = group.started.get().wrapping_add(1);
    let mut last = group.places[(number % PLACES) as usize].borrow_mut();
    let awaits = !team.context().omits(steps::AWAIT_PLACE);
    if let Some(last) = last.as_ref().filter(|_| awaits) {
        last.leave_place(&team)?;
    }
    let step = team.enter(call)?;
    let started = Started { step, number, bytes: data.len(), kept: Arc::default() };
    group.started.set(number);
    *last = Some(started.clone());
    drop(last);
    team.told(arrive(&team, &started, data, fold))?;
    group.under_way.set(group.under_way.get() + 1);
    Ok(Handle { team, started })
}

/// Adds this member's part; the last one to come gives every member the result.
fn arrive(
    team: &Team<'_>,
    started: &Started,
    data: &[u8],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    team.context().put_own(&team.group().area, at::place(started.place()), data)?;
    match central::arrive(team, &started.step, at::place_counter(started.place()))? {
        true => finish(team, started, data.len(), fold),
        false => Ok(()),
    }
}

/// Folds all parts, in the order of the members, and gives every member the result.
fn finish(
    team: &Team<'_>,
    started: &Started,
    bytes: usize,
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    let (context, group) = (team.context(), team.group());
    let (place, flag) = (at::place(started.place()), at::place_flag(started.place()));
    let signal = u64::from(started.number) << 32;
    let others = || (0..group.size()).filter(|&member| member != group.me);
    if bytes == 0 {
        others().try_for_each(|member| team.signal(member, flag, signal))?;
    } else {
        let (mut result, mut theirs) = (vec![0; bytes], vec![0; bytes]);
        context.get_at(&group.area, group.members[0], place, &mut result)?;
        for &rank in &group.members[1..] {
            context.get_at(&group.area, rank, place, &mut theirs)?;
            fold(&mut result, &theirs);
        }
        for member in others() {
            let signal = SignalAt::store(&group.area, flag, signal);
            context.put_signal_at(&group.area, group.members[member], place, &result, signal)?;
        }
        context.put_own(&group.area, place, &result)?;
    }
    team.signal(group.me, flag, signal)
}
