//! Collectives on teams. All members make the same calls, in the same order.

use std::ffi::{c_int, c_void};

use farside::{Error, Rank, Result, Team};

use crate::number::{Foldable, of_number, operation};
use crate::status::{bad, bytes, bytes_mut, guarded, input, output};
use crate::team::{farside_team_t, team};

/// Gives every member a copy of the `bytes` bytes that the member `root`, a rank of the job, has
/// at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_broadcast(
    team: farside_team_t,
    root: u32,
    data: *mut c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let data = unsafe { bytes_mut(data, bytes, "data")? };
        self::team(team)?.team.broadcast(Rank(root), data)
    })
}

/// Folds all members' `count` numbers of `send`, element by element, with `operation`, one of
/// FARSIDE_SUM to FARSIDE_XOR, and writes the result to `receive` of the member `root`, a rank of
/// the job. The others' `receive` is not touched and may be null. `number` is one of FARSIDE_I32 to
/// FARSIDE_C64. `receive` may be `send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_reduce(
    team: farside_team_t,
    root: u32,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        let is_root = found.context().rank().0 == root;
        let data = Folded { send, receive, count, operation };
        // SAFETY: by the caller's promise; only the root's result is written.
        unsafe { of_number!(number, reduce(&found.team, Rank(root), is_root, &data)) }
    })
}

/// The numbers of a reduction.
struct Folded {
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    operation: c_int,
}

impl Folded {
    /// Copies what is sent to where the result goes, and returns that.
    ///
    /// # Safety
    ///
    /// The pointers are null or valid for so many numbers; they are the same, or do not overlap.
    unsafe fn in_place<'a, T: Foldable>(&self) -> Result<&'a mut [T]> {
        let Folded { send, receive, count, .. } = *self;
        if send.cast_mut() != receive {
            let bytes = count.saturating_mul(size_of::<T>());
            check_apart(send, bytes, receive, bytes)?;
            // SAFETY: by the caller's promise.
            let (from, into) = unsafe {
                (input::<T>(send.cast(), count, "send")?, output(receive.cast(), count, "receive")?)
            };
            into.copy_from_slice(from);
        }
        // SAFETY: by the caller's promise.
        unsafe { output(receive.cast(), count, "receive") }
    }
}

/// Reduces numbers of one kind.
///
/// # Safety
///
/// What is sent is null or valid for reads of so many numbers, and so is, at the root, where the
/// result goes for writes.
unsafe fn reduce<T: Foldable>(
    team: &Team<'_>,
    root: Rank,
    is_root: bool,
    numbers: &Folded,
) -> Result<()> {
    let fold = operation::<T>(numbers.operation)?.fold;
    // SAFETY: by the caller's promise.
    let mut data = unsafe { input::<T>(numbers.send.cast(), numbers.count, "send")? }.to_vec();
    if !is_root {
        return team.reduce(root, &mut data, fold);
    }
    // SAFETY: by the caller's promise.
    unsafe { output::<T>(numbers.receive.cast(), numbers.count, "receive")? };
    team.reduce(root, &mut data, fold)?;
    // SAFETY: as before; what is sent, which may be the same memory, is not used any more.
    unsafe { output(numbers.receive.cast(), numbers.count, "receive")? }.copy_from_slice(&data);
    Ok(())
}

/// All-reduces numbers of one kind.
///
/// # Safety
///
/// As for [`Folded::in_place`].
unsafe fn all_reduce<T: Foldable>(team: &Team<'_>, numbers: &Folded) -> Result<()> {
    let fold = operation::<T>(numbers.operation)?.fold;
    // SAFETY: by the caller's promise.
    team.all_reduce(unsafe { numbers.in_place::<T>()? }, fold)
}

/// Scans numbers of one kind.
///
/// # Safety
///
/// As for [`Folded::in_place`].
unsafe fn scan<T: Foldable>(team: &Team<'_>, numbers: &Folded) -> Result<()> {
    let fold = operation::<T>(numbers.operation)?.fold;
    // SAFETY: by the caller's promise.
    team.scan(unsafe { numbers.in_place::<T>()? }, fold)
}

/// Scans numbers of one kind, without each member's own.
///
/// # Safety
///
/// As for [`Folded::in_place`].
unsafe fn exclusive_scan<T: Foldable>(team: &Team<'_>, numbers: &Folded) -> Result<()> {
    let operation = operation::<T>(numbers.operation)?;
    // SAFETY: by the caller's promise.
    let data = unsafe { numbers.in_place::<T>()? };
    team.exclusive_scan(data, operation.identity, operation.fold)
}

/// Folds all members' `count` numbers of `send`, element by element, and writes the same result,
/// bit by bit, to `receive` of every member. `receive` may be `send`. See farside_reduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_all_reduce(
    team: farside_team_t,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        let data = Folded { send, receive, count, operation };
        // SAFETY: by the caller's promise.
        unsafe { of_number!(number, all_reduce(&found.team, &data)) }
    })
}

/// Writes the fold, element by element, of the numbers of all members up to and including this one,
/// in the order of the team, to `receive`. `receive` may be `send`. See farside_reduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_scan(
    team: farside_team_t,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        let data = Folded { send, receive, count, operation };
        // SAFETY: by the caller's promise.
        unsafe { of_number!(number, scan(&found.team, &data)) }
    })
}

/// Writes the fold, element by element, of the numbers of all members before this one, in the order
/// of the team, to `receive`; the first member gets the number that the operation leaves all others
/// as they are with, such as 0 for a sum. `receive` may be `send`. See farside_reduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_exclusive_scan(
    team: farside_team_t,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        let data = Folded { send, receive, count, operation };
        // SAFETY: by the caller's promise.
        unsafe { of_number!(number, exclusive_scan(&found.team, &data)) }
    })
}

/// Writes every member's `bytes` bytes of `send` to `receive` of all, one after the other in the
/// order of the team. All send the same length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_all_gather(
    team: farside_team_t,
    send: *const c_void,
    bytes: usize,
    receive: *mut c_void,
) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        let all = times(bytes, found.team.size())?;
        check_apart(send, bytes, receive, all)?;
        // SAFETY: by the caller's promise.
        let (send, receive) =
            unsafe { (self::bytes(send, bytes, "send")?, bytes_mut(receive, all, "receive")?) };
        found.team.all_gather_into(send, receive)
    })
}

/// Sends the i-th block of `bytes` bytes of `send` to the i-th member, and writes what the members
/// sent here to `receive`, in their order. All send the same length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_all_to_all(
    team: farside_team_t,
    send: *const c_void,
    bytes: usize,
    receive: *mut c_void,
) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        let all = times(bytes, found.team.size())?;
        check_apart(send, all, receive, all)?;
        // SAFETY: by the caller's promise.
        let (send, receive) =
            unsafe { (self::bytes(send, all, "send")?, bytes_mut(receive, all, "receive")?) };
        found.team.all_to_all_into(send, receive)
    })
}

/// Sends parts of any lengths: the i-th member gets `send_bytes[i]` bytes of `send`, whose parts
/// lie one after the other. What the members sent here is written to `receive`, one after the other
/// in their order, and how much each has sent to `receive_bytes`. If that is more than there is
/// `room` for, the call fails with FARSIDE_ERROR_BOUNDS after `receive_bytes` was written, and the
/// data is lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_all_to_all_v(
    team: farside_team_t,
    send: *const c_void,
    send_bytes: *const usize,
    receive: *mut c_void,
    room: usize,
    receive_bytes: *mut usize,
) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        let size = found.team.size();
        // SAFETY: by the caller's promise.
        let (counts, received) = unsafe {
            (input(send_bytes, size, "send_bytes")?, output(receive_bytes, size, "receive_bytes")?)
        };
        let all = counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count));
        let all = all.ok_or_else(|| bad("`send_bytes` add up to more than all memory"))?;
        check_apart(send, all, receive, room)?;
        // SAFETY: by the caller's promise.
        let (send, receive) =
            unsafe { (bytes(send, all, "send")?, bytes_mut(receive, room, "receive")?) };
        let mut got = Vec::new();
        found.team.all_to_all_v_into(send, counts, &mut got, received)?;
        let Some(into) = receive.get_mut(..got.len()) else {
            return Err(Error::OutOfBounds {
                rank: found.context().rank(),
                first: 0,
                end: got.len() as u64,
                elements: room as u64,
                element: "byte",
                of: "`receive`".into(),
            });
        };
        into.copy_from_slice(&got);
        Ok(())
    })
}

/// Refuses memory to be sent and to be received into that overlaps.
fn check_apart(
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: usize,
) -> Result<()> {
    let (from, into) = (send.addr(), receive.addr());
    let is_apart = send_bytes == 0
        || receive_bytes == 0
        || from.saturating_add(send_bytes) <= into
        || into.saturating_add(receive_bytes) <= from;
    if is_apart {
        return Ok(());
    }
    Err(bad(format!(
        "{send_bytes} bytes of `send` at {send:p} and {receive_bytes} of `receive` at {receive:p} \
         overlap: use separate memory for the result"
    )))
}

/// The bytes of all members together.
fn times(bytes: usize, members: usize) -> Result<usize> {
    let all = bytes.checked_mul(members);
    all.ok_or_else(|| bad(format!("{members} times {bytes} bytes are more than all memory")))
}
