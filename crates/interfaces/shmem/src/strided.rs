//! Transfers of elements that lie apart.

use std::ffi::{c_int, c_void};
use std::slice;

use farside::raw::Memory;
use farside::{Context, Patch, Rank, Result};

use crate::context::CtxHandle;
use crate::exit::{self, Call, OrExit};
use crate::races::Told;
use crate::transfer::{Target, check_not_null};

/// Elements that lie apart, here and there. Strides count elements.
#[derive(Clone, Copy)]
pub(crate) struct Strided {
    pub(crate) here: usize,
    pub(crate) there: usize,
    pub(crate) count: usize,
    /// The bytes of an element.
    pub(crate) element: usize,
}

impl Strided {
    /// Exits if a stride is not positive, or if the elements leave the address space.
    pub(crate) fn new(
        here: isize,
        there: isize,
        count: usize,
        element: usize,
        call: Call,
    ) -> Strided {
        let positive = |stride: isize| match usize::try_from(stride) {
            Ok(stride @ 1..) => stride,
            _ => exit::end(call, &format!("a stride of {stride}: strides are at least 1")),
        };
        let strided = Strided { here: positive(here), there: positive(there), count, element };
        let fits = |stride: usize| strided.span(stride).is_some();
        if !fits(strided.here) || !fits(strided.there) {
            exit::end(
                call,
                &format!("{count} elements with strides {here} and {there} exceed all memory"),
            );
        }
        strided
    }

    /// The bytes from the first element to the end of the last.
    fn span(&self, stride: usize) -> Option<usize> {
        let last = self.count.checked_sub(1)?.checked_mul(stride)?;
        last.checked_add(1)?.checked_mul(self.element).filter(|&bytes| bytes < isize::MAX as usize)
    }

    fn bytes(&self, stride: usize) -> usize {
        self.span(stride).unwrap_or(0)
    }
}

impl Strided {
    /// Tells the checker of races, if there is one, of the elements of this PE.
    fn uses(&self, target: &Target, first: *const c_void, fills: bool) {
        if target.runtime.world.probe().is_some() {
            for at in 0..self.count {
                let element = first.wrapping_byte_add(at * self.here * self.element);
                target.uses(element, self.element, fills, true);
            }
        }
    }
}

/// Calls `act` with the patch that elements are, in bytes.
fn with_patch<R>(strided: &Strided, act: impl FnOnce(&Patch<'_>) -> R) -> R {
    let Strided { here, there, count, element } = *strided;
    let (near, far) = ([here * element, 1], [there * element, 1]);
    act(&Patch { counts: &[count, element], near: &near, far: &far })
}

/// A symmetric object on a PE.
pub(crate) struct Place<'m> {
    pub(crate) memory: &'m Memory,
    pub(crate) rank: Rank,
    pub(crate) offset: u64,
}

/// Puts elements from `source` on to a symmetric object, which was looked up for its whole length.
///
/// # Safety
///
/// `source` must be readable for all elements.
pub(crate) unsafe fn put(
    context: &Context,
    to: &Place<'_>,
    source: *const u8,
    strided: &Strided,
) -> Result<()> {
    let Place { memory, rank, offset } = *to;
    // SAFETY: by the caller's promise.
    let data = unsafe { slice::from_raw_parts(source, strided.bytes(strided.here)) };
    let to = memory.at(rank, offset);
    with_patch(strided, |patch| context.put_strided(data, to, patch))?;
    memory.wake_within(context, rank, offset, strided.bytes(strided.there) as u64);
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_iput(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    dest_stride: isize,
    source_stride: isize,
    nelems: usize,
    element: usize,
    pe: c_int,
    call: Call,
) {
    if nelems == 0 {
        return;
    }
    let strided = Strided::new(source_stride, dest_stride, nelems, element, call);
    let target = Target::new(ctx, dest, strided.bytes(strided.there), pe, call);
    check_not_null(source, strided.bytes(strided.here), call);
    strided.uses(&target, source, false);
    let put = target.told(Told::Put, |context, memory| {
        let to = Place { memory, rank: target.rank, offset: target.offset };
        // SAFETY: by the specification the source is readable.
        unsafe { put(context, &to, source.cast(), &strided) }
    });
    put.or_exit(call);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_iget(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    dest_stride: isize,
    source_stride: isize,
    nelems: usize,
    element: usize,
    pe: c_int,
    call: Call,
) {
    if nelems == 0 {
        return;
    }
    let strided = Strided::new(dest_stride, source_stride, nelems, element, call);
    let target = Target::new(ctx, source, strided.bytes(strided.there), pe, call);
    check_not_null(dest, strided.bytes(strided.here), call);
    strided.uses(&target, dest, true);
    let got = target.with(|context, memory| {
        let bytes = strided.bytes(strided.here);
        // SAFETY: by the specification it is writable, and nothing else uses it meanwhile.
        let into = unsafe { slice::from_raw_parts_mut(dest.cast::<u8>(), bytes) };
        let from = memory.at(target.rank, target.offset);
        with_patch(&strided, |patch| context.get_strided(from, into, patch))
    });
    got.or_exit(call);
}
