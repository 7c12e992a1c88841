//! Accumulates whose kind of elements and operation are known only now, on places of bytes.

use farside_fabric::{Accumulate, Result};

use crate::context::Context;
use crate::noncontiguous::{Run, Runs};
use crate::place::Place;

/// Combines the elements of `data` with those at a place. Returns as soon as `data` may be reused.
///
/// ```
/// use farside::raw::{self, Accumulate, Memory, Number};
/// use farside::{Op, Rank};
///
/// farside::local(2, |world| {
///     let memory = Memory::allocate(&world.team(), 64)?;
///     let min = Accumulate::new(Number::I16, Op::Min)?;
///     raw::accumulate(world, &min, &(-7i16).to_le_bytes(), memory.at(Rank(1), 8))?;
///     world.sync()?;
///     let mut old = [0; 2];
///     let nothing = Accumulate::new(Number::I16, Op::NoOp)?;
///     raw::get_accumulate(world, &nothing, &[], memory.at(Rank(1), 8), &mut old)?;
///     assert_eq!(i16::from_le_bytes(old), -7);
///     memory.free(world)
/// })
/// .unwrap();
/// ```
#[track_caller]
pub fn accumulate(
    context: &Context,
    accumulate: &Accumulate,
    data: &[u8],
    to: Place<'_, u8>,
) -> Result<()> {
    context.accumulate_posted(accumulate, data, to)
}

/// Combines the elements of `data` with those at a place, and reads what was there before into
/// `old`. Both are equally long; the data of a no-op may be empty.
#[track_caller]
pub fn get_accumulate(
    context: &Context,
    accumulate: &Accumulate,
    data: &[u8],
    to: Place<'_, u8>,
    old: &mut [u8],
) -> Result<()> {
    context.get_accumulate_at(accumulate, data, to, old)
}

/// Combines pieces of `data` with pieces from a place on: runs are counted in bytes, and are made
/// of whole, aligned elements.
#[track_caller]
pub fn accumulate_vector(
    context: &Context,
    accumulate: &Accumulate,
    data: &[u8],
    to: Place<'_, u8>,
    runs: &[Run],
) -> Result<()> {
    context.accumulate_runs(accumulate, data, to, &Runs::vector::<u8>(runs)?)
}

/// [`accumulate_vector`], which also reads what was there before into the same pieces of `old`. The
/// data of a no-op may be empty.
#[track_caller]
pub fn get_accumulate_vector(
    context: &Context,
    accumulate: &Accumulate,
    data: &[u8],
    to: Place<'_, u8>,
    runs: &[Run],
    old: &mut [u8],
) -> Result<()> {
    context.get_accumulate_runs(accumulate, data, to, &Runs::vector::<u8>(runs)?, old)
}
