//! Puts and gets.

use std::ffi::{c_int, c_void};

use farside::Result;
use farside::raw::NearPart;

use crate::layout::{Layout, Type};
use crate::part::Target;
use crate::runtime::{Runtime, if_running};
use crate::status::OK;
use crate::window::{Window, on};

/// A buffer of the caller: elements of a type.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) base: *mut c_void,
    pub(crate) kind: *const Type,
    pub(crate) count: u64,
}

impl Buffer {
    /// # Safety
    ///
    /// The type must be one of the border's, which it keeps during the call.
    pub(crate) unsafe fn layout<'a>(&self) -> Layout<'a> {
        // SAFETY: by the caller's promise.
        Layout::new(unsafe { &*self.kind }, self.count)
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.cast()
    }
}

/// Elements of a type on a member, from a displacement on.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct At {
    member: c_int,
    displacement: i64,
    kind: *const Type,
    count: u64,
}

impl At {
    /// Finds the target of an operation, which must be allowed now.
    ///
    /// # Safety
    ///
    /// As for [`Buffer::layout`].
    #[inline]
    pub(crate) unsafe fn find<'a>(
        &self,
        runtime: &Runtime,
        window: &'a Window,
    ) -> Result<Target<'a>> {
        let part = window.part(self.member)?;
        window.enter(runtime, part.rank)?;
        // SAFETY: by the caller's promise.
        let layout = Layout::new(unsafe { &*self.kind }, self.count);
        part.target(self.displacement, layout)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_put(
    window: *mut c_void,
    from: *const Buffer,
    at: *const At,
) -> c_int {
    on(window, |runtime, window| {
        // SAFETY: the border passes its own, and what it says of the program's buffer is true.
        unsafe {
            let from = *from;
            (*at).find(runtime, window)?.put(runtime, from.base(), &from.layout())
        }
    })
}

/// Gets. If the get may last, the buffer is the caller's again when the epoch ends, or after a
/// flush; otherwise at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_get(
    window: *mut c_void,
    into: *const Buffer,
    at: *const At,
    may_last: c_int,
) -> c_int {
    on(window, |runtime, window| {
        // SAFETY: as above.
        unsafe {
            let into = *into;
            let target = (*at).find(runtime, window)?;
            if may_last != 0
                && let Some(get) = target.start_get(runtime, into.base(), &into.layout())?
            {
                return window.gets.keep(&runtime.world, target.part.rank, get);
            }
            target.get(runtime, into.base(), &into.layout())
        }
    })
}

/// Returned by what is done only for a target whose memory this process maps, in an epoch in which
/// nothing is to be done first: the caller goes the long way.
pub(crate) const NOT_NEAR: c_int = -1;

/// Puts bytes to near memory from an offset on, or returns [`NOT_NEAR`].
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_put_near(
    part: &NearPart,
    offset: u64,
    from: *const u8,
    bytes: u64,
) -> c_int {
    let Some(runtime) = if_running() else { return NOT_NEAR };
    // SAFETY: what the border says of the program's buffer is true.
    let is_done = unsafe { part.put(&runtime.world, offset, from, bytes as usize) };
    if is_done { OK } else { NOT_NEAR }
}

/// Gets bytes of near memory, likewise.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_get_near(
    part: &NearPart,
    offset: u64,
    into: *mut u8,
    bytes: u64,
) -> c_int {
    let Some(runtime) = if_running() else { return NOT_NEAR };
    // SAFETY: as above.
    let is_done = unsafe { part.get(&runtime.world, offset, into, bytes as usize) };
    if is_done { OK } else { NOT_NEAR }
}
