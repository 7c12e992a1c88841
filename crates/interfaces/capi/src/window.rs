//! Windows: memory with a part on every member of a team.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use farside::raw::Memory;
use farside::{Error, Rank, Result};

use crate::job::{context, farside_context_t};
use crate::status::{Out, guarded};
use crate::team::{farside_team_t, team};
use farside_interop::Attached;
use farside_interop::handles::Table;

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
    held: Held,
}

/// A window's memory.
enum Held {
    Allocated(Memory),
    /// The caller's own.
    Attached(Attached),
}

impl WindowEntry {
    fn memory(&self) -> &Memory {
        match &self.held {
            Held::Allocated(memory) => memory,
            Held::Attached(attached) => &attached.memory,
        }
    }
}

// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
static WINDOWS: Table<WindowEntry> = unsafe { Table::new("window") };

/// Looks a window up.
#[inline]
pub(crate) fn window(handle: farside_window_t) -> Result<&'static Memory> {
    WINDOWS.get(handle.id).map(WindowEntry::memory)
}

/// Looks a window up whose memory is about to be pointed at.
fn pointed_at(handle: farside_window_t) -> Result<&'static Memory> {
    let entry = usable(handle)?;
    let what = "loads and stores through pointers into windows";
    context(entry.context)?.context().note_unseen(what);
    Ok(entry.memory())
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
        let held = Held::Allocated(memory);
        let id = WINDOWS.insert(WindowEntry { context: found.entry.context, held })?;
        window.set(farside_window_t { id });
        Ok(())
    })
}

/// Makes a window of memory that the caller has: `bytes` from `memory` on, of this member; the
/// others may attach other lengths. Offset 0 is its first byte, and its contents stay. Collective.
///
/// Whole pages are shared, with what else is in them. Two windows must not have a page in common,
/// the memory must not be on the stack, no other thread may write to its pages during the call, and
/// it must not be freed before the window is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_window_attach(
    team: farside_team_t,
    memory: *mut c_void,
    bytes: usize,
    window: *mut farside_window_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let window = unsafe { Out::new(window, "window")? };
        let found = self::team(team)?;
        let memory = NonNull::new(memory.cast::<u8>())
            .ok_or_else(|| Error::InvalidArgument("`memory` is a null pointer".into()))?;
        // SAFETY: by the caller's promise.
        let held = Held::Attached(unsafe { farside_interop::attach(&found.team, memory, bytes)? });
        let id = WINDOWS.insert(WindowEntry { context: found.entry.context, held })?;
        window.set(farside_window_t { id });
        Ok(())
    })
}

/// Frees a window. Collective over the team that allocated it. Pointers into it dangle afterwards;
/// memory that the caller attached is the caller's alone again, with its contents.
/// Whatever it returns, the handle is not valid any more, unless it is of another team.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_window_free(
    team: farside_team_t,
    window: farside_window_t,
) -> c_int {
    guarded(|| {
        let (found, entry) = (self::team(team)?, WINDOWS.get(window.id)?);
        if found.team.members() != entry.memory().members() {
            return Err(Error::InvalidState(
                "only the team that allocated a window can free it".into(),
            ));
        }
        let completed = found.context.complete_implicit(None);
        let freed = match WINDOWS.remove(window.id)?.held {
            Held::Allocated(memory) => memory.free(&found.team),
            // SAFETY: by the caller's promise.
            Held::Attached(attached) => unsafe { farside_interop::detach(&found.team, attached) },
        };
        freed.and(completed)
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
        unsafe { Out::new(base, "base")? }.set(pointed_at(window)?.base().as_ptr().cast());
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
            .set(usable(window)?.memory().bytes(Rank(rank))? as usize);
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
        let memory = pointed_at(window)?;
        memory.bytes(Rank(rank))?;
        let near = memory.near(Rank(rank));
        pointer.set(near.map_or(std::ptr::null_mut(), |near| near.as_ptr().cast()));
        Ok(())
    })
}
