//! The widths of a counter's fields, as programs use them and as a checker does.

use super::fields::{Fields, PRESENT_BITS};

/// As programs use them.
pub(in crate::rw::algorithms) struct Wide;

impl Fields for Wide {
    const TURN_BITS: u32 = 5;
    const ARRIVAL_BITS: u32 = 18;
}

/// So narrow that they run over in every run.
pub(in crate::rw::algorithms) struct Narrow;

impl Fields for Narrow {
    const TURN_BITS: u32 = 1;
    const ARRIVAL_BITS: u32 = 2;
}

/// With arrivals that are not on top.
pub(in crate::rw::algorithms) struct Low;

impl Fields for Low {
    const TURN_BITS: u32 = 5;
    const ARRIVAL_BITS: u32 = 2;
    const ARRIVALS: u32 = PRESENT_BITS;
    const CLOSER: u32 = PRESENT_BITS + Self::ARRIVAL_BITS;
}
