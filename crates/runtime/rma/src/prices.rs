//! What processing costs in virtual time: a hook for measurements in the simulator, where handling
//! a page or a message takes no time by itself.

/// The prices of processing. All are zero unless a measurement sets them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prices {
    /// Noticing an access to a page.
    pub fault_ns: u64,
    /// Copying, comparing or changing a byte of a page, in picoseconds.
    pub byte_ps: u64,
    /// Handling a message of a two-sided library.
    pub message_ns: u64,
    /// Making, comparing or merging a write notice.
    pub notice_ns: u64,
}

/// What a protocol has processed.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processing {
    /// An access to a page was noticed.
    Fault,
    /// So many bytes of pages were copied, compared or changed.
    Bytes(usize),
    /// A message of a two-sided library was handled.
    Message,
    /// So many write notices were made, compared or merged.
    Notices(usize),
}

impl Prices {
    #[inline]
    pub(crate) fn of(&self, what: Processing) -> u64 {
        match what {
            Processing::Fault => self.fault_ns,
            Processing::Bytes(bytes) => bytes as u64 * self.byte_ps / 1000,
            Processing::Message => self.message_ns,
            Processing::Notices(count) => count as u64 * self.notice_ns,
        }
    }
}
