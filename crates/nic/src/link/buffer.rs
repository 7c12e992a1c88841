//! Memory that a caller lends to an operation until that is complete.

/// The destination of a get.
#[derive(Debug)]
pub struct Buffer {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: its holder may write the memory, by the promise made to `new`, from any thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Describes a buffer.
    ///
    /// # Safety
    ///
    /// `start` must be valid for writes of `bytes` bytes, and nothing else may access them, until
    /// the buffer is dropped.
    pub unsafe fn new(start: *mut u8, bytes: usize) -> Buffer {
        Buffer { start, bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes at `offset`. Returns false, and writes nothing, if the bytes do not fit.
    #[must_use]
    pub fn write(&mut self, offset: usize, from: &[u8]) -> bool {
        if offset.checked_add(from.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        // SAFETY: inside, by the check above; writable and ours alone, by the promise made to
        // `new`; `from` is a borrow of other memory.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.add(offset), from.len()) };
        true
    }
}

/// Explored states hold no buffers, but the types that could must be `Clone`.
#[cfg(test)]
impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        unreachable!("a buffer belongs to one transfer")
    }
}

/// Bytes to be sent that stay the caller's while they are lent.
#[derive(Debug)]
pub struct Loan {
    start: *const u8,
    bytes: usize,
    part: Option<u32>,
}

// SAFETY: its holder may read the memory, by the promise made to `new`, from any thread.
unsafe impl Send for Loan {}

#[cfg(test)]
impl Clone for Loan {
    fn clone(&self) -> Loan {
        unreachable!("a loan belongs to one request")
    }
}

impl Loan {
    /// Borrows bytes for the part of a transfer, which completes when they are returned. Without a
    /// part, the caller takes them back itself.
    ///
    /// # Safety
    ///
    /// They must stay valid and unchanged until the loan is dropped.
    pub unsafe fn new(from: &[u8], part: Option<u32>) -> Loan {
        Loan { start: from.as_ptr(), bytes: from.len(), part }
    }

    pub(crate) fn part(&self) -> Option<u32> {
        self.part
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: it was a slice, and has not changed since, by the promise made to `new`.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// Static bytes need no promise.
impl From<&'static [u8]> for Loan {
    fn from(bytes: &'static [u8]) -> Loan {
        Loan { start: bytes.as_ptr(), bytes: bytes.len(), part: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Sender, Sent};
    use crate::transport::Carrier;

    fn sent(loan: Loan) -> Sent {
        let (packet, loan, carrier) = (vec![1, 2], Some(loan), Carrier::DATAGRAM);
        Sent { packet, loan, wants_answer: false, is_long: false, carrier }
    }

    #[test]
    fn what_was_lent_is_copied_before_the_lender_uses_it_again() {
        const LATER_NS: u64 = 1_000_000_000;
        let mut sender: Sender = Sender::new();
        let mut data = vec![7u8; 3];
        // SAFETY: it is taken over before the bytes are changed.
        sender.keep(sent(unsafe { Loan::new(&data, None) }), 1);
        sender.take_over(|part| part.is_none());
        data.fill(9);
        let mut repeated = Vec::new();
        sender.repeat_overdue(LATER_NS, |packet, lent, _| {
            repeated.push([packet, lent].concat());
            Carrier::DATAGRAM
        });
        assert_eq!(repeated, [[1, 2, 7, 7, 7]]);
    }

    #[test]
    fn what_is_lent_can_be_repeated_meanwhile() {
        const LATER_NS: u64 = 1_000_000_000;
        let mut sender: Sender = Sender::new();
        let data = vec![7u8; 3];
        // SAFETY: the bytes outlive the sender's use of them.
        sender.keep(sent(unsafe { Loan::new(&data, None) }), 1);
        let mut repeated = Vec::new();
        sender.repeat_overdue(LATER_NS, |packet, lent, _| {
            repeated.push([packet, lent].concat());
            Carrier::DATAGRAM
        });
        sender.repeat_overdue(3 * LATER_NS, |packet, lent, _| {
            repeated.push([packet, lent].concat());
            Carrier::DATAGRAM
        });
        assert_eq!(repeated, [[1, 2, 7, 7, 7]; 2]);
    }
}
