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

    /// Repeats what is overdue, and adds the packets to `repeated`.
    fn repeat(sender: &mut Sender, now_ns: u64, repeated: &mut Vec<Vec<u8>>) {
        sender.repeat_overdue(
            now_ns,
            |_| {},
            |packet, _| {
                repeated.push(packet.to_vec());
                Carrier::DATAGRAM
            },
        );
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
        repeat(&mut sender, LATER_NS, &mut repeated);
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
        repeat(&mut sender, LATER_NS, &mut repeated);
        repeat(&mut sender, 3 * LATER_NS, &mut repeated);
        assert_eq!(repeated, [[1, 2, 7, 7, 7]; 2]);
        sender.take_over(|part| part.is_none());
        repeat(&mut sender, 5 * LATER_NS, &mut repeated);
        assert_eq!(repeated[2], [1, 2, 7, 7, 7], "copied once");
    }

    /// Sends a packet whose source, the memory of another rank say, is written afterwards although
    /// it must not be, and repeats it twice; `between` is called once the source has changed.
    fn repeated_after_a_change(between: impl Fn(&mut Sender)) -> Vec<Vec<u8>> {
        const LATER_NS: u64 = 1_000_000_000;
        let source = Box::into_raw(Box::new([7u8; 3]));
        let mut sender: Sender = Sender::new();
        // SAFETY: one thread at a time reads or writes it, through this pointer.
        sender.keep(
            sent(unsafe { Loan::new(std::slice::from_raw_parts(source.cast(), 3), None) }),
            1,
        );
        // SAFETY: as above.
        unsafe { (*source)[1] = 9 };
        between(&mut sender);
        let sum = |packet: &[u8]| packet[1..].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        let mut repeated = Vec::new();
        for round in [1, 3] {
            sender.repeat_overdue(
                round * LATER_NS,
                |packet| packet[0] = sum(packet),
                |packet, _| {
                    repeated.push(packet.to_vec());
                    Carrier::DATAGRAM
                },
            );
            // SAFETY: as above.
            unsafe { (*source)[2] = 8 };
        }
        drop(sender);
        // SAFETY: it was made of a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(source) });
        repeated
    }

    #[test]
    fn a_repetition_is_sealed_anew_with_what_it_carries() {
        assert_eq!(repeated_after_a_change(|_| {}), [[25, 2, 7, 9, 7]; 2]);
    }

    #[test]
    fn a_repetition_of_what_was_taken_over_is_sealed_anew() {
        let repeated = repeated_after_a_change(|sender| sender.take_over(|part| part.is_none()));
        assert_eq!(repeated, [[25, 2, 7, 9, 7]; 2]);
    }
}
