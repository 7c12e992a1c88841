//! A buffer that somebody has lent for as long as an operation takes.

/// Where the bytes of a get go.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: whoever holds it may write the memory, by the promise made to `new`, from whatever thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Describes a buffer.
    ///
    /// # Safety
    ///
    /// `start` must be valid for writes of `bytes` bytes, and nobody else may touch them, until the buffer is dropped.
    pub(crate) unsafe fn new(start: *mut u8, bytes: usize) -> Buffer {
        Buffer { start, bytes }
    }

    /// Writes at `offset`; false, and nothing written, if that is not all inside.
    #[must_use]
    pub(crate) fn write(&mut self, offset: usize, from: &[u8]) -> bool {
        if offset.checked_add(from.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        // SAFETY: inside, by the check above; writable and ours alone, by the promise made to `new`; `from` is a borrow of other memory.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.add(offset), from.len()) };
        true
    }
}
