//! Counts of the packets that a server has dropped.

use crate::wire::Refused;

/// The number of datagrams that were dropped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Not of this protocol, or of another version.
    pub foreign: u64,
    /// With a wrong tag.
    pub forged: u64,
    /// Authentic, but inconsistent.
    pub malformed: u64,
    /// Authentic, but for another server.
    pub astray: u64,
    /// Authentic, but too old or too far ahead.
    pub stale: u64,
    /// Of a lost node or rank.
    pub late: u64,
}

impl Refusals {
    pub(crate) fn count(&mut self, refused: Refused) {
        *match refused {
            Refused::Foreign => &mut self.foreign,
            Refused::Forged => &mut self.forged,
            Refused::Malformed => &mut self.malformed,
            Refused::Astray => &mut self.astray,
            Refused::Stale => &mut self.stale,
            Refused::Late => &mut self.late,
        } += 1;
    }
}
