//! Puts and gets.

use std::ffi::{c_int, c_void};

use farside::Result;

use crate::layout::{Layout, Type};
use crate::part::Target;
use crate::runtime::Runtime;
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

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_get(
    window: *mut c_void,
    into: *const Buffer,
    at: *const At,
) -> c_int {
    on(window, |runtime, window| {
        // SAFETY: as above.
        unsafe {
            let into = *into;
            (*at).find(runtime, window)?.get(runtime, into.base(), &into.layout())
        }
    })
}
