//! The modes in which a target is locked.

/// The mode of a target's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Others may have it in this mode at the same time.
    Shared,
    /// No other origin has it.
    Exclusive,
}
