//! The calls that begin, complete and end epochs.

use std::ffi::{c_int, c_void};
use std::slice;

use farside::epoch::Mode;
use farside::{Rank, Result};

use crate::runtime::if_running;
use crate::status::OK;
use crate::transfer::NOT_NEAR;
use crate::window::{Window, on};

/// # Safety
///
/// `members` must be `count` members of the window.
unsafe fn ranks(window: &Window, members: *const c_int, count: usize) -> Result<Vec<Rank>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: by the caller's promise.
    let members = unsafe { slice::from_raw_parts(members, count) };
    members.iter().map(|&member| window.rank(member)).collect()
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_lock(window: *mut c_void, target: c_int, exclusive: c_int) -> c_int {
    on(window, |_, window| {
        let mode = if exclusive != 0 { Mode::Exclusive } else { Mode::Shared };
        window.epochs.lock(window.rank(target)?, mode)
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_unlock(window: *mut c_void, target: c_int) -> c_int {
    on(window, |runtime, window| {
        let target = window.rank(target)?;
        let completed = window.complete_elsewhere(runtime, Some(target));
        // The epoch ends also if a get has failed: others wait for the lock.
        window
            .gets
            .complete(&runtime.world, Some(target))
            .and(window.epochs.unlock(target))
            .and(completed)
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_lock_all(window: *mut c_void, is_shared: c_int) -> c_int {
    on(window, |runtime, window| {
        window.epochs.lock_all()?;
        if is_shared == 0 {
            return Ok(());
        }
        // Loads and stores reach every part, and make no call at which it could be locked.
        let locked = window.members.iter().try_for_each(|&rank| window.enter(runtime, rank));
        locked.inspect_err(|_| drop(window.epochs.unlock_all()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_unlock_all(window: *mut c_void) -> c_int {
    on(window, |runtime, window| {
        let completed = window.complete_elsewhere(runtime, None);
        window.gets.complete(&runtime.world, None).and(window.epochs.unlock_all()).and(completed)
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_flush(window: *mut c_void, target: c_int) -> c_int {
    on(window, |runtime, window| {
        let target = window.rank(target)?;
        window.gets.complete(&runtime.world, Some(target))?;
        runtime.world.note_stores();
        window.epochs.flush(target)?;
        window.complete_elsewhere(runtime, Some(target))
    })
}

/// Flushes a target that is locked and whose memory this process maps, or returns [`NOT_NEAR`].
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_flush_near(window: *const c_void, target: c_int) -> c_int {
    // SAFETY: the border passes what `farside_mpi_window` gave and was not yet freed.
    let window = unsafe { &*window.cast::<Window>() };
    let (Some(runtime), Some(part)) = (if_running(), window.parts.get(target as usize)) else {
        return NOT_NEAR;
    };
    runtime.world.note_stores();
    let is_done = window.gets.is_quiet()
        && runtime.world.flush(part.rank).is_ok()
        && (part.owner() == part.rank || runtime.world.flush(part.owner()).is_ok());
    if is_done { OK } else { NOT_NEAR }
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_flush_all(window: *mut c_void) -> c_int {
    on(window, |runtime, window| {
        window.epochs.check_locked("flush_all")?;
        window.gets.complete(&runtime.world, None)?;
        runtime.world.note_stores();
        window.epochs.flush_all()?;
        window.complete_elsewhere(runtime, None)
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_flush_local(window: *mut c_void, target: c_int) -> c_int {
    on(window, |runtime, window| {
        let target = window.rank(target)?;
        window.gets.complete(&runtime.world, Some(target))?;
        window.epochs.flush_local(target)
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_flush_local_all(window: *mut c_void) -> c_int {
    on(window, |runtime, window| {
        window.epochs.check_locked("flush_local_all")?;
        window.gets.complete(&runtime.world, None)?;
        window.epochs.flush_local_all()
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_sync(window: *mut c_void) -> c_int {
    on(window, |_, window| window.epochs.sync())
}

/// Ends a fence epoch, and begins another unless it is the last.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_fence(window: *mut c_void, is_last: c_int) -> c_int {
    on(window, |runtime, window| {
        // The others wait for this member also if a get has failed.
        window.gets.complete(&runtime.world, None).and(match is_last {
            0 => window.epochs.fence(),
            _ => window.epochs.last_fence(),
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_post(
    window: *mut c_void,
    origins: *const c_int,
    count: usize,
) -> c_int {
    on(window, |_, window| {
        // SAFETY: the border passes so many.
        window.epochs.post(&unsafe { ranks(window, origins, count)? })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_begin(
    window: *mut c_void,
    targets: *const c_int,
    count: usize,
) -> c_int {
    on(window, |_, window| {
        // SAFETY: the border passes so many.
        window.epochs.start(&unsafe { ranks(window, targets, count)? })
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_complete(window: *mut c_void) -> c_int {
    on(window, |runtime, window| {
        let completed = window.complete_elsewhere(runtime, None);
        window.gets.complete(&runtime.world, None).and(window.epochs.complete()).and(completed)
    })
}

#[unsafe(no_mangle)]
extern "C" fn farside_mpi_wait(window: *mut c_void) -> c_int {
    on(window, |_, window| window.epochs.wait())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_test(window: *mut c_void, is_over: *mut c_int) -> c_int {
    on(window, |_, window| {
        let over = window.epochs.test()?;
        // SAFETY: the border passes a pointer of its own.
        unsafe { is_over.write(c_int::from(over)) };
        Ok(())
    })
}
