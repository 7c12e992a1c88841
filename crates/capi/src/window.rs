//! Windows: memory with a part on every member of a team.

use std::ffi::{c_int, c_void};

use farside::raw::Memory;
use farside::{Error, Rank, Result};

use crate::job::{context, farside_context_t};
use crate::status::{Out, guarded};
use crate::team::{farside_team_t, team};
use farside_handles::Table;

/// Memory with a part on every member of a team, reached by rank and byte offset.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct farside_window_t {
    /// The number of the window; 0 is none.
    pub id: u64,
}

/// What a window's handle stands for.
pub(crate) struct WindowEntry {
    context: farside_context_t,
    pub(crate) memory: Memory,
}

static WINDOWS: Table<WindowEntry> = Table::new("window");

/// Looks a window up.
#[inline]
pub(crate) fn window(handle: farside_window_t) -> Result<&'static Memory> {
    WINDOWS.get(handle.id).map(|entry| &entry.memory)
}

/// Looks a window up whose job was not left.
fn usable(handle: farside_window_t) -> Result<&'static WindowEntry> {
    let entry = WINDOWS.get(handle.id)?;
    context(entry.context)?;
    Ok(entry)
}

/// Allocates `bytes` on this member; the others may choose other lengths. Fresh memory is zero and
/// begins at a page. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_window_allocate(
    team: farside_team_t,
    bytes: usize,
    window: *mut farside_window_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let window = unsafe { Out::new(window, "window")? };
        let found = self::team(team)?;
        let memory = Memory::allocate(&found.team, bytes as u64)?;
        let id = WINDOWS.insert(WindowEntry { context: found.entry.context, memory })?;
        window.set(farside_window_t { id });
        Ok(())
    })
}

/// Would make a window of memory that the caller has. No fabric can reach such memory yet: it
/// returns FARSIDE_ERROR_UNSUPPORTED. Allocate a window and copy, or let the data live in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_window_attach(
    team: farside_team_t,
    memory: *mut c_void,
    bytes: usize,
    window: *mut farside_window_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        unsafe { Out::new(window, "window")? };
        self::team(team)?;
        Err(Error::Unsupported {
            what: format!(
                "a window over {bytes} bytes at {memory:p} that the caller has: ranks share memory \
                 that farside has allocated; use farside_window_allocate and copy"
            ),
        })
    })
}

/// Frees a window. Collective over the team that allocated it. Pointers into it dangle afterwards.
/// Whatever it returns, the handle is not valid any more, unless it is of another team.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_window_free(
    team: farside_team_t,
    window: farside_window_t,
) -> c_int {
    guarded(|| {
        let (found, entry) = (self::team(team)?, WINDOWS.get(window.id)?);
        if found.team.members() != entry.memory.members() {
            return Err(Error::InvalidState(
                "a window is freed by the team that allocated it, not by another".into(),
            ));
        }
        let completed = found.context.complete_implicit(None);
        WINDOWS.remove(window.id)?.memory.free(&found.team).and(completed)
    })
}

/// Gives the address of this rank's own part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_window_base(
    window: farside_window_t,
    base: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        unsafe { Out::new(base, "base")? }.set(usable(window)?.memory.base().as_ptr().cast());
        Ok(())
    })
}

/// Gives the length of a rank's part in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_window_bytes(
    window: farside_window_t,
    rank: u32,
    bytes: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        unsafe { Out::new(bytes, "bytes")? }
            .set(usable(window)?.memory.bytes(Rank(rank))? as usize);
        Ok(())
    })
}

/// Gives the address of a rank's part in this process, or null if loads and stores do not reach it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_window_pointer(
    window: farside_window_t,
    rank: u32,
    pointer: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let pointer = unsafe { Out::new(pointer, "pointer")? };
        let memory = &usable(window)?.memory;
        memory.bytes(Rank(rank))?;
        let near = memory.near(Rank(rank));
        pointer.set(near.map_or(std::ptr::null_mut(), |near| near.as_ptr().cast()));
        Ok(())
    })
}
