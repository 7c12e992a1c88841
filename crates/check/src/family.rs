//! The families of protocols that are checked.

pub mod lock;

use crate::check::Check;

/// All checks.
pub fn checks() -> Vec<Check> {
    [lock::checks()].into_iter().flatten().collect()
}
