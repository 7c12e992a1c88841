//! The modes in which a target is locked.

/// How a target is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Others may have it in this mode at the same time.
    Shared,
    /// Nobody else has it.
    Exclusive,
}
