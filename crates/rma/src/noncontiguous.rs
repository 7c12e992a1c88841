//! Strided and vector transfers: many pieces, one request.

use farside_fabric::{Error, Mapped, Piece, Region, Result, Shape};
use zerocopy::IntoBytes;

use crate::context::Context;
use crate::place::Place;
use crate::plain::{Plain, Summand};

/// A block of any dimension on both sides of a strided transfer. All numbers are elements; the last dimension varies fastest.
///
/// The 2 x 3 block at row 1, column 2 of a far matrix with 10 columns, to or from a tight near one:
///
/// ```
/// # use farside::{Patch, Rank};
/// # farside::local(2, |world| {
/// let matrix = world.window::<i64>(100)?;
/// let patch = Patch { counts: &[2, 3], near: &[3, 1], far: &[10, 1] };
/// if world.rank() == Rank(0) {
///     world.put_strided(&[1, 2, 3, 4, 5, 6], matrix.at(Rank(1), 12), &patch)?;
/// }
/// world.sync()?;
/// assert_eq!(world.get_value(matrix.at(Rank(1), 23))?, 5);
/// # matrix.free(&world) }).unwrap();
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Patch<'a> {
    /// How many elements there are in each dimension.
    pub counts: &'a [usize],
    /// How far apart neighbours in each dimension are in the slice.
    pub near: &'a [usize],
    /// How far apart neighbours in each dimension are in the window.
    pub far: &'a [usize],
}

/// A contiguous piece of a vector transfer. All numbers are elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Where it starts in the slice.
    pub near: usize,
    /// Where it starts, counted from the place.
    pub far: usize,
    /// How long it is.
    pub len: usize,
}

impl Context {
    /// Writes a block of `data` to a block at a place. If elements of the far block overlap, which of them wins is unspecified.
    pub fn put_strided<T: Plain>(&self, data: &[T], to: Place<'_, T>, patch: &Patch<'_>) -> Result<()> {
        self.put_runs(data.as_bytes(), to, &Runs::strided::<T>(patch)?)
    }

    /// Reads a block at a place into a block of `into`.
    pub fn get_strided<T: Plain>(&self, from: Place<'_, T>, into: &mut [T], patch: &Patch<'_>) -> Result<()> {
        self.get_runs(from, into.as_mut_bytes(), &Runs::strided::<T>(patch)?)
    }

    /// Adds `scale` times a block of `data` to a block at a place.
    pub fn accumulate_strided<T: Summand>(
        &self,
        scale: T,
        data: &[T],
        to: Place<'_, T>,
        patch: &Patch<'_>,
    ) -> Result<()> {
        self.accumulate_runs(scale, data.as_bytes(), to, &Runs::strided::<T>(patch)?)
    }

    /// Writes pieces of `data` to pieces from a place on.
    pub fn put_vector<T: Plain>(&self, data: &[T], to: Place<'_, T>, runs: &[Run]) -> Result<()> {
        self.put_runs(data.as_bytes(), to, &Runs::vector::<T>(runs)?)
    }

    /// Reads pieces from a place on into pieces of `into`.
    pub fn get_vector<T: Plain>(&self, from: Place<'_, T>, into: &mut [T], runs: &[Run]) -> Result<()> {
        self.get_runs(from, into.as_mut_bytes(), &Runs::vector::<T>(runs)?)
    }

    /// Adds `scale` times pieces of `data` to pieces from a place on.
    pub fn accumulate_vector<T: Summand>(&self, scale: T, data: &[T], to: Place<'_, T>, runs: &[Run]) -> Result<()> {
        self.accumulate_runs(scale, data.as_bytes(), to, &Runs::vector::<T>(runs)?)
    }

    fn put_runs<T>(&self, data: &[u8], to: Place<'_, T>, runs: &Runs) -> Result<()> {
        let bytes = runs.check(data.len(), to)?;
        self.tally().put(to.rank, bytes);
        match self.reach(to)? {
            Some(mapped) => {
                runs.try_for_each(|near, far, bytes| mapped.put(to.offset + far, &data[near..near + bytes]))
            }
            None => {
                let (packed, mut pieces) = (runs.pack(data, bytes), Vec::new());
                self.fabric().put(&runs.region(to, &mut pieces), &packed)?;
                true
            }
        }
        .then_some(())
        .ok_or_else(|| to.out_of_range(bytes))
    }

    fn get_runs<T>(&self, from: Place<'_, T>, into: &mut [u8], runs: &Runs) -> Result<()> {
        let bytes = runs.check(into.len(), from)?;
        self.tally().get(from.rank, bytes);
        match self.reach(from)? {
            Some(mapped) => {
                runs.try_for_each(|near, far, bytes| mapped.get(from.offset + far, &mut into[near..near + bytes]))
            }
            None => {
                let (mut packed, mut pieces) = (vec![0; bytes as usize], Vec::new());
                // SAFETY: `packed` is this function's, has the region's length, and lives until the operation is over.
                let started = unsafe { self.fabric().get(&runs.region(from, &mut pieces), packed.as_mut_ptr())? };
                self.finish(started, from.rank)?;
                let mut rest = &packed[..];
                runs.try_for_each(|near, _, bytes| {
                    let (part, after) = rest.split_at(bytes);
                    into[near..near + bytes].copy_from_slice(part);
                    rest = after;
                    true
                })
            }
        }
        .then_some(())
        .ok_or_else(|| from.out_of_range(bytes))
    }

    fn accumulate_runs<T: Summand>(&self, scale: T, data: &[u8], to: Place<'_, T>, runs: &Runs) -> Result<()> {
        let bytes = runs.check(data.len(), to)?;
        self.tally().accumulate(to.rank, bytes);
        let sum = scale.sum();
        match self.reach(to)? {
            Some(mapped) if self.fabric().caps().cpu_coherent => runs
                .try_for_each(|near, far, bytes| mapped.accumulate(to.offset + far, &sum, &data[near..near + bytes])),
            _ => {
                let (packed, mut pieces) = (runs.pack(data, bytes), Vec::new());
                self.fabric().accumulate(&runs.region(to, &mut pieces), &sum, &packed)?;
                true
            }
        }
        .then_some(())
        .ok_or_else(|| to.out_of_range(bytes))
    }

    /// The memory of a place, if it is near; an error if its owner was lost.
    fn reach<'w, T>(&self, place: Place<'w, T>) -> Result<Option<&'w Mapped>> {
        let near = place.segment.part(place.rank)?.near.as_ref();
        if near.is_some_and(Mapped::somebody_lost) {
            self.flush(place.rank)?;
        }
        Ok(near)
    }
}

/// Pairs of runs, near and far, in bytes from the start of the slice and from the place.
enum Runs {
    Strided { unit: u64, counts: Vec<u64>, near: Vec<u64>, far: Vec<u64> },
    Vector(Vec<(u64, u64, u64)>),
}

impl Runs {
    fn strided<T>(patch: &Patch<'_>) -> Result<Runs> {
        for (what, strides) in [
            ("dimensions of a patch and of its near strides", patch.near),
            ("dimensions of a patch and of its far strides", patch.far),
        ] {
            if strides.len() != patch.counts.len() {
                let (left, right) = (patch.counts.len() as u64, strides.len() as u64);
                return Err(Error::Mismatch { what, left, right });
            }
        }
        let size = size_of::<T>() as u64;
        let scale = |values: &[usize]| values.iter().map(|&value| in_bytes(value, size)).collect::<Result<Vec<u64>>>();
        let (mut near, mut far) = (scale(patch.near)?, scale(patch.far)?);
        let mut counts: Vec<u64> = patch.counts.iter().map(|&count| count as u64).collect();
        let mut unit = size;
        // Inner dimensions that are contiguous on both sides make longer runs.
        while let (Some(&count), Some(&near_stride), Some(&far_stride)) = (counts.last(), near.last(), far.last()) {
            let Some(longer) = unit.checked_mul(count).filter(|_| near_stride == unit && far_stride == unit) else {
                break;
            };
            if longer == 0 {
                break;
            }
            unit = longer;
            counts.pop();
            near.pop();
            far.pop();
        }
        Ok(Runs::Strided { unit, counts, near, far })
    }

    fn vector<T>(runs: &[Run]) -> Result<Runs> {
        let size = size_of::<T>() as u64;
        let run = |run: &Run| Ok((in_bytes(run.near, size)?, in_bytes(run.far, size)?, in_bytes(run.len, size)?));
        Ok(Runs::Vector(runs.iter().map(run).collect::<Result<_>>()?))
    }

    /// Whether both sides stay inside; returns the bytes of the message.
    fn check<T>(&self, near_bytes: usize, place: Place<'_, T>) -> Result<u64> {
        let segment = place.segment;
        let far_bytes = segment.part(place.rank)?.bytes.min(place.end);
        let mut pieces = Vec::new();
        self.region(place, &mut pieces).check(far_bytes)?;
        let mut pieces = Vec::new();
        let near = Region { shape: self.shape(0, true, &mut pieces), ..Region::block(place.rank, segment.id, 0, 0) };
        near.check(near_bytes as u64).map_err(|error| match error {
            Error::OutOfRange { offset, bytes, segment_bytes, .. } => Error::Misuse(format!(
                "the near side of the transfer takes {bytes} bytes from byte {offset} of a slice on, which has {segment_bytes}"
            )),
            other => other,
        })
    }

    fn region<'a, T>(&'a self, place: Place<'_, T>, pieces: &'a mut Vec<Piece>) -> Region<'a> {
        Region { rank: place.rank, segment: place.segment.id, shape: self.shape(place.offset, false, pieces) }
    }

    fn shape<'a>(&'a self, start: u64, near_side: bool, pieces: &'a mut Vec<Piece>) -> Shape<'a> {
        match self {
            Runs::Strided { unit, counts, near, far } => {
                Shape::Strided { offset: start, unit: *unit, counts, strides: if near_side { near } else { far } }
            }
            Runs::Vector(runs) => {
                pieces.extend(runs.iter().map(|&(near, far, bytes)| Piece {
                    // A sum that does not fit is out of range, and stays so when it saturates.
                    offset: start.saturating_add(if near_side { near } else { far }),
                    bytes,
                }));
                Shape::Pieces(pieces)
            }
        }
    }

    /// Calls `each` with near offset, far offset and length of every run until it says no. Only after [`Runs::check`].
    fn try_for_each(&self, mut each: impl FnMut(usize, u64, usize) -> bool) -> bool {
        fn walk(
            (near, far, unit): (u64, u64, u64),
            dimensions: (&[u64], &[u64], &[u64]),
            each: &mut impl FnMut(usize, u64, usize) -> bool,
        ) -> bool {
            match dimensions {
                ([count, counts @ ..], [near_stride, nears @ ..], [far_stride, fars @ ..]) => (0..*count).all(|step| {
                    let at = (near + step * near_stride, far + step * far_stride, unit);
                    walk(at, (counts, nears, fars), each)
                }),
                _ => each(near as usize, far, unit as usize),
            }
        }
        match self {
            Runs::Strided { counts, .. } if counts.contains(&0) => true,
            Runs::Strided { unit, counts, near, far } => walk((0, 0, *unit), (counts, near, far), &mut each),
            Runs::Vector(runs) => runs.iter().all(|&(near, far, bytes)| each(near as usize, far, bytes as usize)),
        }
    }

    fn pack(&self, data: &[u8], bytes: u64) -> Vec<u8> {
        let mut packed = Vec::with_capacity(bytes as usize);
        self.try_for_each(|near, _, bytes| {
            packed.extend_from_slice(&data[near..near + bytes]);
            true
        });
        packed
    }
}

fn in_bytes(elements: usize, size: u64) -> Result<u64> {
    (elements as u64).checked_mul(size).ok_or(Error::TooMuch {
        what: "elements of a transfer",
        value: elements as u64,
        limit: u64::MAX / size.max(1),
    })
}
