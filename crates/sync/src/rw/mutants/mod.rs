//! Known-wrong variants, for the checker to find out: a checker that never fails proves nothing.

use farside_fabric::{Rank, Result};
use farside_rma::World;

use super::frame::Algorithm;
use super::{RwLock, fompi_rw};
use crate::lock::frame::{Site, Variant};
use crate::lock::site;

pub use crate::lock::mutants::{InTwoSteps, WithoutFlush};

/// The algorithms that come in variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// `fompi-rw`.
    FompiRw,
}

/// Makes a lock of a variant.
pub fn lock<V: Variant>(world: &World, home: Rank, base: Base) -> Result<RwLock> {
    let make = |words: usize| -> Result<Site> { site(&world.team(), home, words, &format!("a variant of {base:?}")) };
    let algorithm: Box<dyn Algorithm> = match base {
        Base::FompiRw => Box::new(fompi_rw::FompiRw::<V>::new(make(fompi_rw::WORDS)?, false)),
    };
    Ok(RwLock::with(algorithm, world.rank()))
}
