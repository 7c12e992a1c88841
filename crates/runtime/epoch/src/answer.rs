//! Operations with an answer, as the designs of passive epochs see them.

use farside_fabric::Result;
use farside_rma::{Context, Place};

/// An operation with an answer of any type.
pub(crate) trait AnswerSlot<'t> {
    /// Starts it directly.
    fn start(&self, context: &'t Context, at: Place<'_, u8>) -> Result<()>;
    /// Returns whether its answer is there, and keeps the answer.
    fn is_done(&self) -> Result<bool>;
    /// Waits for its answer, and keeps it.
    fn finish(&self) -> Result<()>;
    /// Returns true if its answer comes from the target's memory, rather than from its own buffer.
    fn reads(&self) -> bool;
    /// Its answer has come in a message.
    fn fill(&self, bytes: &[u8]) -> Result<()>;
}
