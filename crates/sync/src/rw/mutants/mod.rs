//! Known-wrong variants, for the checker to find out: a checker that never fails proves nothing.

use farside_fabric::{Rank, Result};
use farside_rma::World;

use super::frame::Algorithm;
use super::rma_rw::{self, RmaRw, Thresholds};
use super::slots::{self, Bounds, Slots};
use super::{RwLock, fompi_rw};
use crate::lock::frame::{Site, Variant};
use crate::lock::site;

pub use crate::lock::mutants::{InTwoSteps, WithoutFlush, WithoutWaking};

farside_rma::wrong_variants! {
    /// Goes in as a writer while readers are inside (\[RMALOCK16\] listing 6).
    WithoutDrain: DRAINS;
    /// Waits at the readers' limit for a writer that may have left (\[RMALOCK16\] listing 9).
    WithoutAskingAgain: ASKS_AGAIN;
    /// Starts a counter anew in several steps (\[RMALOCK16\] listing 6).
    ResetsInSteps: RESETS_AT_ONCE;
    /// Lets the next of its element go up before the wider queue is left.
    ClimbsTooEarly: CLIMBS_LAST;
    /// Passes the lock from writer to writer for as long as there are any.
    WithoutTW: KEEPS_T_W;
    /// Lets readers in for as long as they come.
    WithoutTR: KEEPS_T_R;
}

/// The right steps with fields so narrow that they run over in every run.
#[derive(Debug)]
pub struct Narrow;

impl Variant for Narrow {
    const TURN_BITS: u32 = 1;
    const ARRIVAL_BITS: u32 = 2;
    const REQUEST_BITS: u32 = 2;
    const PLACE_BITS: u32 = 2;
}

/// Closes counters that readers are in, and opens them again when time is up: a reader that sleeps
/// through two openings does not know that it was let in.
#[derive(Debug)]
pub struct GivesUpOnReaders;

impl Variant for GivesUpOnReaders {
    const CLOSES_EMPTY: bool = false;
    const TURN_BITS: u32 = 1;
}

/// Narrow arrivals that run over into the name of the closer.
#[derive(Debug)]
pub struct RunsOver;

impl Variant for RunsOver {
    const ARRIVALS_ON_TOP: bool = false;
    const ARRIVAL_BITS: u32 = 2;
}

/// The algorithms that come in variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// `fompi-rw`.
    FompiRw,
    /// `rma-rw` with a counter for each rank, T_R = 1, and at most two writers of an element in a
    /// row.
    RmaRw,
    /// `rma-rw` with these T_DC, T_L and T_R.
    RmaRwOf(Option<u32>, &'static [u32], u32),
    /// `default-rw` with readers that withdraw once and at most two writers in a row.
    Slots,
    /// `default-rw` with this `t_w` and these `yields`.
    SlotsOf(u32, u32),
    /// `default-rw` with one counter for all, writers that do not follow each other, and readers
    /// that insist at once.
    SharedSlots,
}

/// Makes a lock of a variant.
pub fn lock<V: Variant>(world: &World, home: Rank, base: Base) -> Result<RwLock> {
    let make = |words: usize| -> Result<Site> {
        site(&world.team(), home, words, &format!("a variant of {base:?}"))
    };
    let algorithm: Box<dyn Algorithm> = match base {
        Base::RmaRw => return lock::<V>(world, home, Base::RmaRwOf(Some(1), &[1, 2], 1)),
        Base::RmaRwOf(t_dc, t_l, t_r) => {
            let thresholds = Thresholds { name: "rma-rw", t_dc, t_l: t_l.to_vec(), t_r };
            Box::new(RmaRw::<V>::new(make(rma_rw::words(&world.team()))?, world, thresholds)?)
        }
        Base::Slots => return lock::<V>(world, home, Base::SlotsOf(2, 1)),
        Base::SlotsOf(..) | Base::SharedSlots => {
            let bounds = match base {
                Base::SlotsOf(t_w, yields) => Bounds { t_dc: None, t_w, yields },
                _ => Bounds { t_dc: Some(4), t_w: 1, yields: 0 },
            };
            Box::new(Slots::<V>::new(make(slots::WORDS)?, &world.team(), bounds)?)
        }
        Base::FompiRw => Box::new(fompi_rw::FompiRw::<V>::new(make(fompi_rw::WORDS)?, false)),
    };
    Ok(RwLock::with(algorithm, world.rank()))
}
