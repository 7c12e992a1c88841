//! Strided and vector transfers: many pieces, one request.

use std::fmt;

use farside_fabric::memory::Rows;
use farside_fabric::strided::walk;
use farside_fabric::{Accumulate, Error, Op, Piece, Region, Result, Shape};
use zerocopy::IntoBytes;

use crate::accumulates::check_lengths;
use crate::context::Context;
use crate::near::Near;
use crate::place::{Place, short_name};
use crate::plain::{Plain, Summand};
use crate::target::{Message, Target, old_elements};

/// A block of any dimension on both sides of a strided transfer. All numbers are elements; the last
/// dimension varies fastest.
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
/// # matrix.free(world) }).unwrap();
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
    /// Its start in the slice.
    pub near: usize,
    /// Its start, counted from the place.
    pub far: usize,
    /// How long it is.
    pub len: usize,
}

impl Context {
    /// Writes a block of `data` to a block at a place. If elements of the far block overlap, which
    /// of them wins is unspecified.
    #[track_caller]
    pub fn put_strided<T: Plain>(
        &self,
        data: &[T],
        to: Place<'_, T>,
        patch: &Patch<'_>,
    ) -> Result<()> {
        self.put_runs(data.as_bytes(), to, &Runs::strided::<T>(patch)?)
    }

    /// Reads a block at a place into a block of `into`.
    #[track_caller]
    pub fn get_strided<T: Plain>(
        &self,
        from: Place<'_, T>,
        into: &mut [T],
        patch: &Patch<'_>,
    ) -> Result<()> {
        self.get_runs(from, into.as_mut_bytes(), &Runs::strided::<T>(patch)?)
    }

    /// Adds `scale` times a block of `data` to a block at a place.
    #[track_caller]
    pub fn accumulate_strided<T: Summand>(
        &self,
        scale: T,
        data: &[T],
        to: Place<'_, T>,
        patch: &Patch<'_>,
    ) -> Result<()> {
        self.accumulate_runs(&scale.sum()?, data.as_bytes(), to, &Runs::strided::<T>(patch)?)
    }

    /// Combines a block of `data` with a block at a place.
    #[track_caller]
    pub fn accumulate_strided_with<T: Summand>(
        &self,
        op: Op,
        data: &[T],
        to: Place<'_, T>,
        patch: &Patch<'_>,
    ) -> Result<()> {
        let accumulate = Accumulate::new(T::NUMBER, op)?;
        self.accumulate_runs(&accumulate, data.as_bytes(), to, &Runs::strided::<T>(patch)?)
    }

    /// Combines a block of `data` with a block at a place, and reads what was there before into the
    /// same block of `old`. For [`Op::NoOp`], `data` may be empty.
    #[track_caller]
    pub fn get_accumulate_strided<T: Summand>(
        &self,
        op: Op,
        data: &[T],
        to: Place<'_, T>,
        patch: &Patch<'_>,
        old: &mut [T],
    ) -> Result<()> {
        let (accumulate, runs) = (Accumulate::new(T::NUMBER, op)?, Runs::strided::<T>(patch)?);
        self.get_accumulate_runs(&accumulate, data.as_bytes(), to, &runs, old.as_mut_bytes())
    }

    /// Writes pieces of `data` to pieces from a place on.
    #[track_caller]
    pub fn put_vector<T: Plain>(&self, data: &[T], to: Place<'_, T>, runs: &[Run]) -> Result<()> {
        self.put_runs(data.as_bytes(), to, &Runs::vector::<T>(runs)?)
    }

    /// Reads pieces from a place on into pieces of `into`.
    #[track_caller]
    pub fn get_vector<T: Plain>(
        &self,
        from: Place<'_, T>,
        into: &mut [T],
        runs: &[Run],
    ) -> Result<()> {
        self.get_runs(from, into.as_mut_bytes(), &Runs::vector::<T>(runs)?)
    }

    /// Adds `scale` times pieces of `data` to pieces from a place on.
    #[track_caller]
    pub fn accumulate_vector<T: Summand>(
        &self,
        scale: T,
        data: &[T],
        to: Place<'_, T>,
        runs: &[Run],
    ) -> Result<()> {
        self.accumulate_runs(&scale.sum()?, data.as_bytes(), to, &Runs::vector::<T>(runs)?)
    }

    /// Combines pieces of `data` with pieces from a place on.
    #[track_caller]
    pub fn accumulate_vector_with<T: Summand>(
        &self,
        op: Op,
        data: &[T],
        to: Place<'_, T>,
        runs: &[Run],
    ) -> Result<()> {
        let accumulate = Accumulate::new(T::NUMBER, op)?;
        self.accumulate_runs(&accumulate, data.as_bytes(), to, &Runs::vector::<T>(runs)?)
    }

    /// Combines pieces of `data` with pieces from a place on, and reads what was there before into
    /// the same pieces of `old`. For [`Op::NoOp`], `data` may be empty.
    #[track_caller]
    pub fn get_accumulate_vector<T: Summand>(
        &self,
        op: Op,
        data: &[T],
        to: Place<'_, T>,
        runs: &[Run],
        old: &mut [T],
    ) -> Result<()> {
        let (accumulate, runs) = (Accumulate::new(T::NUMBER, op)?, Runs::vector::<T>(runs)?);
        self.get_accumulate_runs(&accumulate, data.as_bytes(), to, &runs, old.as_mut_bytes())
    }

    /// Returns near memory and the rows of runs that are nothing else, if what the place is a part
    /// of has them. Whatever is wrong, others say.
    #[inline]
    fn near_rows<'a, T>(
        &'a self,
        place: Place<'a, T>,
        runs: &Runs<'_>,
    ) -> Option<(Near<'a>, Rows)> {
        let rows = runs.rows()?;
        let (_, far) = rows.reach()?;
        if far > place.end.checked_sub(place.offset)? {
            return None;
        }
        match self.target(place.segment, place.rank) {
            Ok(Target::Near(mapped)) => Some((self.near(mapped, place.rank), rows)),
            _ => None,
        }
    }

    #[track_caller]
    fn put_runs<T>(&self, data: &[u8], to: Place<'_, T>, runs: &Runs<'_>) -> Result<()> {
        if let Some((near, rows)) = self.near_rows(to, runs)
            && self.put_rows_near(near, to.offset, data, rows)
        {
            return Ok(());
        }
        let bytes = runs.check(data.len(), to)?;
        let fits = match to.said(self.target(to.segment, to.rank))? {
            Target::Near(mapped) => {
                self.put_pieces_near(self.near(mapped, to.rank), bytes, |mapped| {
                    runs.all(|near, far, bytes| {
                        mapped.put(to.offset + far, &data[near..near + bytes])
                    })
                })
            }
            Target::Far(far) => {
                let packed = runs.pack(data, bytes);
                self.note_place();
                runs.with_region(to, |region| {
                    far.post(self, region, |fabric| fabric.put(region, &packed))
                })?;
                self.tally().put(to.rank, bytes);
                true
            }
        };
        if fits { Ok(()) } else { Err(to.out_of_range(bytes)) }
    }

    #[track_caller]
    fn get_runs<T>(&self, from: Place<'_, T>, into: &mut [u8], runs: &Runs<'_>) -> Result<()> {
        if let Some((near, rows)) = self.near_rows(from, runs)
            && self.get_rows_near(near, from.offset, into, rows)
        {
            return Ok(());
        }
        let bytes = runs.check(into.len(), from)?;
        let fits = match from.said(self.target(from.segment, from.rank))? {
            Target::Near(mapped) => {
                self.get_pieces_near(self.near(mapped, from.rank), bytes, |mapped| {
                    let mut first = None;
                    let fits = runs.all(|near, far, bytes| {
                        let (offset, piece) = (from.offset + far, near..near + bytes);
                        let fits = mapped.get(offset, &mut into[piece.clone()]);
                        first.get_or_insert((offset, piece));
                        fits
                    });
                    (fits, first.map(|(offset, piece)| (offset, &into[piece])))
                })
            }
            Target::Far(far) => {
                let mut packed = vec![0; bytes as usize];
                self.note_place();
                runs.with_region(from, |region| far.get(self, region, &mut packed))?;
                runs.unpack(&packed, into);
                self.tally().get(from.rank, bytes);
                true
            }
        };
        if fits { Ok(()) } else { Err(from.out_of_range(bytes)) }
    }

    #[track_caller]
    pub(crate) fn accumulate_runs<T>(
        &self,
        accumulate: &Accumulate,
        data: &[u8],
        to: Place<'_, T>,
        runs: &Runs<'_>,
    ) -> Result<()> {
        let bytes = runs.check(data.len(), to)?;
        runs.check_elements(accumulate, to)?;
        let message = Message::new(accumulate, data);
        match to.said(self.atomic_target(to.segment, to.rank))? {
            Target::Near(mapped) => {
                let near = self.near(mapped, to.rank);
                self.accumulate_runs_near(near, message, to, (runs, bytes), None)
            }
            Target::Far(far) => {
                let packed = runs.pack(message.bytes, accumulate.message_bytes(bytes));
                let message = Message { accumulate, bytes: &packed };
                self.note_place();
                runs.with_region(to, |region| far.post_accumulate(self, region, message))?;
                self.tally().accumulate(to.rank, bytes);
                Ok(())
            }
        }
    }

    #[track_caller]
    pub(crate) fn get_accumulate_runs<T>(
        &self,
        accumulate: &Accumulate,
        data: &[u8],
        to: Place<'_, T>,
        runs: &Runs<'_>,
        old: &mut [u8],
    ) -> Result<()> {
        let bytes = runs.check(old.len(), to)?;
        let message = Message::new(accumulate, data);
        check_lengths(message, old.len())?;
        runs.check_elements(accumulate, to)?;
        match to.said(self.atomic_target(to.segment, to.rank))? {
            Target::Near(mapped) => {
                let near = self.near(mapped, to.rank);
                self.accumulate_runs_near(near, message, to, (runs, bytes), Some(old))
            }
            Target::Far(far) => {
                let packed = runs.pack(message.bytes, accumulate.message_bytes(bytes));
                let message = Message { accumulate, bytes: &packed };
                self.note_place();
                let started =
                    runs.with_region(to, |region| far.start_accumulate(self, region, message))?;
                self.tally().accumulate(to.rank, bytes);
                let mut held = vec![0; bytes as usize];
                old_elements(self.finish(started, to.rank)?, &mut held)?;
                runs.unpack(&held, old);
                Ok(())
            }
        }
    }

    /// Combines runs of near memory, which were checked.
    #[track_caller]
    fn accumulate_runs_near<T>(
        &self,
        to_near: Near<'_>,
        message: Message<'_>,
        to: Place<'_, T>,
        (runs, bytes): (&Runs<'_>, u64),
        mut old: Option<&mut [u8]>,
    ) -> Result<()> {
        let Message { accumulate, bytes: data } = message;
        let fits = self.accumulate_near(to_near, bytes, old.is_some(), |mapped, contender| {
            runs.all(|near, far, bytes| {
                let part = if data.is_empty() { data } else { &data[near..near + bytes] };
                let held = old.as_mut().map(|old| &mut old[near..near + bytes]);
                let piece = Piece { offset: to.offset + far, bytes: bytes as u64 };
                mapped.accumulate(piece, accumulate, part, held, contender)
            })
        });
        if fits { Ok(()) } else { Err(to.out_of_range(0)) }
    }
}

pub(crate) enum Runs<'a> {
    /// A block whose inner dimensions, as far as they are contiguous on both sides, were joined to
    /// units of `unit` elements.
    Strided {
        size: u64,
        unit: u64,
        counts: &'a [usize],
        near: &'a [usize],
        far: &'a [usize],
    },
    Vector {
        size: u64,
        runs: &'a [Run],
    },
}

/// The bytes of the message, and how many bytes from the start each side reaches.
#[derive(Default)]
struct Extents {
    bytes: u64,
    near: u64,
    far: u64,
}

impl fmt::Display for Runs<'_> {
    #[track_caller]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Runs::Strided { unit, counts, near, far, .. } => {
                write!(
                    f,
                    "a block of {counts:?} runs of {unit} elements, {near:?} apart here and \
                     {far:?} there,"
                )
            }
            Runs::Vector { runs, .. } => write!(f, "a list of {} runs", runs.len()),
        }
    }
}

impl<'a> Runs<'a> {
    #[track_caller]
    fn strided<T>(patch: &Patch<'a>) -> Result<Runs<'a>> {
        for (what, strides) in [
            ("dimensions of a patch and of its near strides", patch.near),
            ("dimensions of a patch and of its far strides", patch.far),
        ] {
            if strides.len() != patch.counts.len() {
                let (left, right) = (patch.counts.len() as u64, strides.len() as u64);
                return Err(Error::Mismatch { what, left, right });
            }
        }
        let (mut dimensions, mut unit) = (patch.counts.len(), 1u64);
        while let Some(last) = dimensions.checked_sub(1) {
            let contiguous = patch.counts[last] == 1
                || (patch.near[last] as u64 == unit && patch.far[last] as u64 == unit);
            match unit
                .checked_mul(patch.counts[last] as u64)
                .filter(|&longer| contiguous && longer > 0)
            {
                Some(longer) => (dimensions, unit) = (last, longer),
                None => break,
            }
        }
        let (counts, near, far) =
            (&patch.counts[..dimensions], &patch.near[..dimensions], &patch.far[..dimensions]);
        Ok(Runs::Strided { size: size_of::<T>() as u64, unit, counts, near, far })
    }

    #[track_caller]
    pub(crate) fn vector<T>(runs: &'a [Run]) -> Result<Runs<'a>> {
        Ok(Runs::Vector { size: size_of::<T>() as u64, runs })
    }

    /// Whether both sides stay inside; returns the bytes of the message.
    #[track_caller]
    fn check<T>(&self, near_bytes: usize, place: Place<'_, T>) -> Result<u64> {
        let far_bytes = place.said(place.segment.part(place.rank))?.bytes.min(place.end);
        let size = size_of::<T>().max(1) as u64;
        let Some(Extents { bytes, near, far }) = self.extents() else {
            return Err(Error::InvalidArgument(format!(
                "{self} reaches further than 64 bits count; {}'s part has {} elements ({}), and \
                 the slice has {}",
                place.rank,
                far_bytes / size,
                short_name::<T>(),
                near_bytes as u64 / size
            )));
        };
        if far > far_bytes.saturating_sub(place.offset) {
            return Err(place.out_of_range(far));
        }
        if near > near_bytes as u64 {
            return Err(Error::InvalidArgument(format!(
                "the near side of {self} reaches {} elements into a slice that has {}",
                near / size,
                near_bytes as u64 / size
            )));
        }
        Ok(bytes)
    }

    /// Checks that every run is made of whole, aligned elements.
    #[track_caller]
    fn check_elements<T>(&self, accumulate: &Accumulate, to: Place<'_, T>) -> Result<()> {
        let number = accumulate.number();
        let (size, align) = (number.bytes(), number.align());
        let mut result = match to.offset.is_multiple_of(align) {
            true => Ok(()),
            false => Err(Error::Misaligned { offset: to.offset, align }),
        };
        // Where a run is counted in such elements, there is nothing more to look at.
        if result.is_ok() && size_of::<T>() as u64 != size {
            self.all(|_, far, bytes| {
                let (offset, bytes) = (to.offset + far, bytes as u64);
                if !offset.is_multiple_of(align) {
                    result = Err(Error::Misaligned { offset, align });
                } else if !bytes.is_multiple_of(size) {
                    let what = "bytes of a piece and the size of a number";
                    result = Err(Error::Mismatch { what, left: bytes, right: size });
                }
                result.is_ok()
            });
        }
        result
    }

    /// Returns the extents of the transfer; `None` if they do not fit into 64 bits.
    #[track_caller]
    fn extents(&self) -> Option<Extents> {
        match self {
            Runs::Strided { counts, .. } if counts.contains(&0) => Some(Extents::default()),
            Runs::Strided { size, unit, counts, near, far } => {
                let reach = |strides: &[usize]| {
                    let steps = counts.iter().zip(strides);
                    let mut last = steps
                        .map(|(&count, &stride)| (count as u64 - 1).checked_mul(stride as u64));
                    let last = last.try_fold(0u64, |sum, step| sum.checked_add(step?))?;
                    last.checked_add(*unit)?.checked_mul(*size)
                };
                let elements =
                    counts.iter().try_fold(*unit, |all, &count| all.checked_mul(count as u64))?;
                let bytes = elements.checked_mul(*size)?;
                Some(Extents { bytes, near: reach(near)?, far: reach(far)? })
            }
            Runs::Vector { size, runs } => {
                runs.iter().try_fold(Extents::default(), |Extents { bytes, near, far }, run| {
                    let reach = |start: usize| {
                        (start as u64).checked_add(run.len as u64)?.checked_mul(*size)
                    };
                    let bytes = bytes.checked_add((run.len as u64).checked_mul(*size)?)?;
                    let (near, far) = (near.max(reach(run.near)?), far.max(reach(run.far)?));
                    Some(Extents { bytes, near, far })
                })
            }
        }
    }

    /// The rows, in bytes, if there is only one dimension of them.
    #[inline]
    fn rows(&self) -> Option<Rows> {
        let Runs::Strided { size, unit, counts: &[count], near: &[near], far: &[far] } = *self
        else {
            return None;
        };
        let in_bytes = |elements: usize| elements.checked_mul(size as usize);
        let bytes = in_bytes(unit as usize)?;
        Some(Rows { count, bytes, near: in_bytes(near)?, far: in_bytes(far)? })
    }

    /// Calls `each` with near offset, far offset and length, in bytes, of every run until it says
    /// no. Only after [`Runs::check`].
    #[track_caller]
    fn all(&self, mut each: impl FnMut(usize, u64, usize) -> bool) -> bool {
        match *self {
            Runs::Strided { size, unit, counts, near, far } => {
                let (size, bytes) = (size as usize, (unit * size) as usize);
                walk([0, 0], counts, [near, far], &mut |[near, far]| {
                    each(near * size, (far * size) as u64, bytes)
                })
            }
            Runs::Vector { size, runs } => {
                let size = size as usize;
                runs.iter()
                    .all(|run| each(run.near * size, (run.far * size) as u64, run.len * size))
            }
        }
    }

    /// The far side, as a fabric wants it. Only after [`Runs::check`].
    #[track_caller]
    fn with_region<T, R>(&self, place: Place<'_, T>, run: impl FnOnce(&Region<'_>) -> R) -> R {
        let (rank, segment, offset) = (place.rank, place.segment.id, place.offset);
        match *self {
            Runs::Strided { size, unit, counts, far, .. } => {
                let counts: Vec<u64> = counts.iter().map(|&count| count as u64).collect();
                let strides: Vec<u64> =
                    far.iter().map(|&stride| (stride as u64).saturating_mul(size)).collect();
                let shape = Shape::Strided {
                    offset,
                    unit: unit * size,
                    counts: &counts,
                    strides: &strides,
                };
                run(&Region { rank, segment, shape })
            }
            Runs::Vector { size, runs } => {
                let piece = |run: &Run| Piece {
                    offset: offset + run.far as u64 * size,
                    bytes: run.len as u64 * size,
                };
                let pieces: Vec<Piece> = runs.iter().map(piece).collect();
                run(&Region { rank, segment, shape: Shape::Pieces(&pieces) })
            }
        }
    }

    /// Returns the near side of a message; nothing, if that is how long it is.
    #[track_caller]
    fn pack(&self, data: &[u8], bytes: u64) -> Vec<u8> {
        if bytes == 0 {
            return Vec::new();
        }
        let mut packed = Vec::with_capacity(bytes as usize);
        self.all(|near, _, bytes| {
            packed.extend_from_slice(&data[near..near + bytes]);
            true
        });
        packed
    }

    #[track_caller]
    fn unpack(&self, packed: &[u8], into: &mut [u8]) {
        let mut rest = packed;
        self.all(|near, _, bytes| {
            let (part, after) = rest.split_at(bytes);
            into[near..near + bytes].copy_from_slice(part);
            rest = after;
            true
        });
    }
}
