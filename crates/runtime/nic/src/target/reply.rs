//! The reply that a server is writing.

use crate::wire::HEADER_BYTES;
use crate::wire::answer::Sink;

/// The bytes of a reply, with room for its header. The memory is used again for the next reply, and
/// is not cleared between them: what is read into it need not be zeroed first.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Reply {
    bytes: Vec<u8>,
    used: usize,
}

impl Reply {
    pub(super) fn new(bytes: usize) -> Reply {
        Reply { bytes: vec![0; bytes.max(HEADER_BYTES)], used: HEADER_BYTES }
    }

    pub(super) fn begin(&mut self) {
        self.used = HEADER_BYTES;
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.used = self.used.min(len.max(HEADER_BYTES));
    }

    /// Appends so many bytes, for the caller to write.
    pub(super) fn grow(&mut self, count: usize) -> &mut [u8] {
        let begin = self.used;
        self.used += count;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used, 0);
        }
        &mut self.bytes[begin..self.used]
    }

    /// Returns the answers without the header.
    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..self.used]
    }

    pub(super) fn packet(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.used]
    }
}

impl Sink for Reply {
    fn write(&mut self, bytes: &[u8]) {
        self.grow(bytes.len()).copy_from_slice(bytes);
    }
}
