//! Operations whose answers are awaited, as the designs of passive epochs see them.

use farside_fabric::Result;
use farside_rma::{Context, Place};

/// An operation whose answer is awaited, whatever its type.
pub(crate) trait AnswerSlot<'t> {
    /// Starts it directly.
    fn start(&self, context: &'t Context, at: Place<'_, u8>) -> Result<()>;
    /// Whether its answer is there. Keeps it.
    fn is_done(&self) -> Result<bool>;
    /// Waits for its answer, and keeps it.
    fn finish(&self) -> Result<()>;
    /// Whether its answer tells of the target's memory, rather than of its own buffer.
    fn reads(&self) -> bool;
    /// Its answer has come in a message.
    fn fill(&self, bytes: &[u8]) -> Result<()>;
}
