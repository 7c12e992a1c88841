//! Windows with epochs, as MPI programs know them.

use std::ffi::{c_int, c_void};
use std::ops::Deref;

use farside::epoch::{Design, Mode, Op, Options, Window};
use farside::{Rank, Result};

use crate::job::{Told, context, farside_context_t};
use crate::number;
use crate::request::Users;
use crate::status::{Out, bad, bytes, bytes_mut, guarded, input};
use crate::team::{farside_team_t, team};
use crate::wait::ranks;
use farside_interop::handles::Table;

/// Memory with a part on every member of a team, whose operations are done in epochs and complete
/// when their epoch ends.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct farside_epoch_t {
    /// The number of the window; 0 is none.
    pub id: u64,
}

/// Origins lock a target by themselves, and operations are issued at once.
pub const FARSIDE_EPOCH_DIRECT: c_int = 0;
/// Lock, operations and unlock go to the target in one message, which it serves in its own calls.
pub const FARSIDE_EPOCH_TWO_SIDED: c_int = 1;

/// Others may have the lock in this mode at the same time.
pub const FARSIDE_SHARED: c_int = 0;
/// No other origin has the lock.
pub const FARSIDE_EXCLUSIVE: c_int = 1;

/// Adds, wrapping.
pub const FARSIDE_FETCH_SUM: c_int = 0;
/// Writes.
pub const FARSIDE_FETCH_REPLACE: c_int = 1;
/// Changes nothing.
pub const FARSIDE_FETCH_NO_OP: c_int = 2;
/// Keeps the bits that the operand has too.
pub const FARSIDE_FETCH_AND: c_int = 3;
/// Sets the operand's bits.
pub const FARSIDE_FETCH_OR: c_int = 4;
/// Flips the operand's bits.
pub const FARSIDE_FETCH_XOR: c_int = 5;

/// What the handle of a window with epochs stands for.
struct EpochEntry {
    /// Dropped first: it borrows from what the users count for.
    window: Window<'static>,
    context: farside_context_t,
    _users: Users,
}

// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
static EPOCHS: Table<EpochEntry> = unsafe { Table::new("window with epochs") };

fn epoch(handle: farside_epoch_t) -> Result<&'static Window<'static>> {
    let entry = EPOCHS.get(handle.id)?;
    context(entry.context)?;
    Ok(&entry.window)
}

/// A window with epochs for an operation; the checker of races, if there is one, is told where the
/// program calls until it is dropped.
struct ToldEpoch {
    window: &'static Window<'static>,
    _told: Option<Told<'static>>,
}

impl Deref for ToldEpoch {
    type Target = Window<'static>;

    #[inline]
    fn deref(&self) -> &Window<'static> {
        self.window
    }
}

#[inline]
fn told(handle: farside_epoch_t) -> Result<ToldEpoch> {
    let entry = EPOCHS.get(handle.id)?;
    let (window, context) = (&entry.window, context(entry.context)?);
    // In an operation of the two-sided design those of others may be served.
    let is_direct = context.context().probe().is_some() && window.design() == "direct";
    Ok(ToldEpoch { window, _told: is_direct.then(|| context.told()) })
}

/// Allocates a window with epochs: `bytes` on this member, all zero, displacements to which count
/// `unit` bytes. `design` is FARSIDE_EPOCH_DIRECT or FARSIDE_EPOCH_TWO_SIDED, the same on all
/// members. The rules of epochs are checked: a call that breaks one returns FARSIDE_ERROR_EPOCH.
/// Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_allocate(
    team: farside_team_t,
    bytes: usize,
    unit: usize,
    design: c_int,
    epoch: *mut farside_epoch_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let out = unsafe { Out::new(epoch, "epoch")? };
        let design = match design {
            FARSIDE_EPOCH_DIRECT => Design::Direct,
            FARSIDE_EPOCH_TWO_SIDED => Design::TWO_SIDED,
            _ => return Err(bad(format!("{design} is not a design; use FARSIDE_EPOCH_..."))),
        };
        let found = self::team(team)?;
        let (context, users) = (found.entry.context, Users::new(found.context, found.entry));
        let options = Options::new().unit(unit as u64).design(design);
        let window = Window::allocate(found.team, bytes, options)?;
        let id = EPOCHS.insert(EpochEntry { window, context, _users: users })?;
        out.set(farside_epoch_t { id });
        Ok(())
    })
}

/// Frees a window with epochs, all of which must be over. Collective. Whatever it returns, the
/// handle is not valid any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_free(epoch: farside_epoch_t) -> c_int {
    guarded(|| {
        self::epoch(epoch)?;
        let EpochEntry { window, _users, .. } = EPOCHS.remove(epoch.id)?;
        window.free()
    })
}

/// Ends the fence epoch before it, if there is one, and begins another: whatever any member did in
/// the epoch before is complete everywhere. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_fence(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.fence())
}

/// Ends the fence epoch before it, and begins none. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_last_fence(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.last_fence())
}

/// Begins an exposure epoch of this rank's own part for `count` origins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_post(
    epoch: farside_epoch_t,
    origins: *const u32,
    count: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let origins = unsafe { input(origins, count, "origins")? };
        self::epoch(epoch)?.post(&ranks(origins))
    })
}

/// Begins an access epoch to `count` targets; returns when they have posted theirs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_start(
    epoch: farside_epoch_t,
    targets: *const u32,
    count: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let targets = unsafe { input(targets, count, "targets")? };
        self::epoch(epoch)?.start(&ranks(targets))
    })
}

/// Ends the access epoch of farside_epoch_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_complete(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.complete())
}

/// Ends the exposure epoch of farside_epoch_post: returns when its origins have completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_wait(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.wait())
}

/// Gives 1 if farside_epoch_wait would return at once, and ends the exposure epoch then; else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_test(epoch: farside_epoch_t, is_over: *mut c_int) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let is_over = unsafe { Out::new(is_over, "is_over")? };
        is_over.set(self::epoch(epoch)?.test()?.into());
        Ok(())
    })
}

/// Begins a passive access epoch to one target; `mode` is FARSIDE_SHARED or FARSIDE_EXCLUSIVE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_lock(
    epoch: farside_epoch_t,
    target: u32,
    mode: c_int,
) -> c_int {
    guarded(|| {
        let mode = match mode {
            FARSIDE_SHARED => Mode::Shared,
            FARSIDE_EXCLUSIVE => Mode::Exclusive,
            _ => {
                return Err(bad(format!(
                    "{mode} is not a mode; use FARSIDE_SHARED or FARSIDE_EXCLUSIVE"
                )));
            }
        };
        self::epoch(epoch)?.lock(Rank(target), mode)
    })
}

/// Ends a passive access epoch: all its operations are complete, here and at the target.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_unlock(epoch: farside_epoch_t, target: u32) -> c_int {
    guarded(|| self::epoch(epoch)?.unlock(Rank(target)))
}

/// Begins a passive access epoch to all members, in shared mode. Not collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_lock_all(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.lock_all())
}

/// Ends an epoch of farside_epoch_lock_all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_unlock_all(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.unlock_all())
}

/// Within a passive epoch: all operations on a target are complete, here and there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_flush(epoch: farside_epoch_t, target: u32) -> c_int {
    guarded(|| self::epoch(epoch)?.flush(Rank(target)))
}

/// Within a passive epoch: all operations on all targets that are locked are complete, here and
/// there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_flush_all(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.flush_all())
}

/// Makes what this rank has written to its own part visible, and what others have written visible
/// to it; serves others where the design needs it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_sync(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.sync())
}

/// Returns when every member has called it; serves others meanwhile, where the design needs it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_barrier(epoch: farside_epoch_t) -> c_int {
    guarded(|| self::epoch(epoch)?.barrier())
}

/// Writes `bytes` bytes of `data` to a target, from displacement `at` on. `data` may be reused at
/// once; it has landed when the epoch ends, or after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_put(
    epoch: farside_epoch_t,
    target: u32,
    at: u64,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let data = unsafe { self::bytes(data, bytes, "data")? };
        told(epoch)?.put(data, Rank(target), at)
    })
}

/// Reads `bytes` bytes of a target, from displacement `at` on, into `into`. Returns when they are
/// there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_get(
    epoch: farside_epoch_t,
    target: u32,
    at: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let into = unsafe { bytes_mut(into, bytes, "into")? };
        told(epoch)?.get_into(into, Rank(target), at)
    })
}

/// Combines `count` elements of `data` with those of a target, from displacement `at` on. See
/// farside_accumulate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_accumulate(
    epoch: farside_epoch_t,
    target: u32,
    at: u64,
    data: *const c_void,
    count: usize,
    number: c_int,
    operation: c_int,
    scale: *const c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let accumulate = unsafe { number::accumulate(number, operation, scale)? };
        // SAFETY: by the caller's promise.
        let data = unsafe { number::elements(&accumulate, data, count)? };
        told(epoch)?.accumulate_by(&accumulate, data, Rank(target), at)
    })
}

/// Does a farside_epoch_accumulate, and writes what the elements were before to `old`. See
/// farside_get_accumulate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_get_accumulate(
    epoch: farside_epoch_t,
    target: u32,
    at: u64,
    data: *const c_void,
    old: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: there is no scale.
        let accumulate = unsafe { number::accumulate(number, operation, std::ptr::null())? };
        // SAFETY: by the caller's promise.
        let (data, old) = unsafe { number::fetching(&accumulate, data, old, count)? };
        told(epoch)?.get_accumulate_by(&accumulate, data, Rank(target), at, old)
    })
}

/// Changes one word of 64 bits of a target by FARSIDE_FETCH_SUM to FARSIDE_FETCH_XOR, and gives
/// what it held before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_fetch_op(
    epoch: farside_epoch_t,
    target: u32,
    at: u64,
    operation: c_int,
    value: u64,
    held: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let held = unsafe { Out::new(held, "held")? };
        let op = match operation {
            FARSIDE_FETCH_SUM => Op::Sum,
            FARSIDE_FETCH_REPLACE => Op::Replace,
            FARSIDE_FETCH_NO_OP => Op::NoOp,
            FARSIDE_FETCH_AND => Op::And,
            FARSIDE_FETCH_OR => Op::Or,
            FARSIDE_FETCH_XOR => Op::Xor,
            _ => {
                return Err(bad(format!("{operation} is not an operation; use FARSIDE_FETCH_...")));
            }
        };
        let window = told(epoch)?;
        held.set(window.wait_fetched(window.fetch_op(op, value, Rank(target), at)?)?);
        Ok(())
    })
}

/// Writes `desired` to a word of 64 bits of a target if it holds `expected`, and gives what it held
/// before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_compare_swap(
    epoch: farside_epoch_t,
    target: u32,
    at: u64,
    expected: u64,
    desired: u64,
    held: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let held = unsafe { Out::new(held, "held")? };
        let window = told(epoch)?;
        let fetched = window.compare_swap(expected, desired, Rank(target), at)?;
        held.set(window.wait_fetched(fetched)?);
        Ok(())
    })
}

/// Reads this rank's own part by itself, from displacement `at` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_read_own(
    epoch: farside_epoch_t,
    at: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let into = unsafe { bytes_mut(into, bytes, "into")? };
        told(epoch)?.read_own(at, into)
    })
}

/// Writes this rank's own part by itself, from displacement `at` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_epoch_write_own(
    epoch: farside_epoch_t,
    at: u64,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let data = unsafe { self::bytes(data, bytes, "data")? };
        told(epoch)?.write_own(data, at)
    })
}
