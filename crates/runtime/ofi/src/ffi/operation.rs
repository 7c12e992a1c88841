//! What an operation is given, and what it gives back.

use std::ffi::{c_int, c_void};

use farside_fabric::{Error, Result};

use super::abi::Peer;

/// The context of an operation, which its completion returns. The provider may use the beginning.
#[repr(C)]
pub(crate) struct Context {
    room: [u64; 8],
    index: usize,
}

impl Context {
    pub(crate) fn new(index: usize) -> Box<Context> {
        Box::new(Context { room: [0; 8], index })
    }
}

pub(crate) struct Completion {
    /// The index in its context.
    pub(crate) index: usize,
    /// The number of bytes received, or the failure.
    pub(crate) outcome: Result<usize>,
}

#[derive(Clone, Copy)]
pub(crate) struct LocalBytes {
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) desc: *mut c_void,
}

#[derive(Clone, Copy)]
pub(crate) struct RemoteBytes {
    pub(crate) peer: Peer,
    pub(crate) address: u64,
    pub(crate) key: u64,
}

/// An atomic, as the library names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtomicCall {
    pub(crate) datatype: c_int,
    pub(crate) op: c_int,
    pub(crate) operand: u64,
    pub(crate) expected: Option<u64>,
}

/// The offsets of an atomic's operands in its memory; the result is at the beginning.
impl AtomicCall {
    pub(crate) const OPERAND_AT: usize = 16;
    pub(crate) const EXPECTED_AT: usize = 32;
    pub(crate) const BYTES: usize = 40;
}

/// Whether the provider has taken an operation.
#[derive(Debug, PartialEq)]
pub(crate) enum Posted {
    Yes,
    /// Not now; the caller may try again.
    Busy,
    /// Never, for this reason.
    No(Error),
}

/// Returns the index in the context of an operation, if it has one.
///
/// # Safety
///
/// `context` must be null, or that of an operation that has just completed.
pub(super) unsafe fn index_of(context: *mut c_void) -> Option<usize> {
    // SAFETY: valid until the operation completes, by the promise made when it was started.
    (!context.is_null()).then(|| unsafe { (*context.cast::<Context>()).index })
}
