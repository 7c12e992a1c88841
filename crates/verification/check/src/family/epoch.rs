//! Windows with epochs: passive ones of every design, active ones, and what is wrong on purpose.

mod active;
mod passive;

use crate::check::Check;

/// All checks of epochs.
pub fn checks() -> Vec<Check> {
    let mut checks = passive::checks();
    checks.extend(active::checks());
    checks
}
