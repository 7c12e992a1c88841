//! The part of a window that a member has: memory of the job, or any memory of its process.

use std::slice;

use farside::raw::{Memory, NearPart, Pieces, Request};
use farside::{Error, Rank, Result};

use crate::foreign::{self, Piece, Way};
use crate::layout::{Layout, Run, Type, in_step, pack, unpack};
use crate::runtime::Runtime;

/// What the border says of a member's part, as the members have told each other.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartInfo {
    /// The rank in the world of the member.
    rank: u32,
    /// The rank in the world whose memory it is, if it is memory of the job.
    owner: u32,
    kind: u32,
    /// The bytes that a displacement counts.
    unit: u32,
    /// An offset in the owner's part of the heap, or an address of the member's process.
    start: u64,
    bytes: u64,
}

/// The kinds of `core.h`.
const OF_JOB: u32 = 0;
const OF_PROCESS: u32 = 1;

pub(crate) struct Part {
    pub(crate) rank: Rank,
    unit: i64,
    bytes: u64,
    pub(crate) place: PlaceOf,
    /// Its memory, if loads and stores reach it.
    near: Option<NearPart>,
}

#[derive(Clone, Copy)]
pub(crate) enum PlaceOf {
    /// In the heap, from an offset of a rank's part on.
    Heap {
        owner: Rank,
        offset: u64,
    },
    Own {
        start: *mut u8,
    },
    /// In another process on this node that lets this one reach its memory.
    Near {
        process: i32,
        start: usize,
    },
    /// In another process, which has to be asked.
    Far {
        start: usize,
    },
}

/// Bytes of a part, by a layout from a displacement on.
pub(crate) struct Target<'a> {
    pub(crate) part: &'a Part,
    at: i64,
    pub(crate) layout: Layout<'a>,
}

impl Part {
    pub(crate) fn new(runtime: &Runtime, info: &PartInfo) -> Result<Part> {
        let world = &runtime.world;
        let (rank, owner) = (Rank(info.rank), Rank(info.owner));
        let place = match info.kind {
            OF_JOB => PlaceOf::Heap { owner, offset: info.start },
            OF_PROCESS if rank == world.rank() => {
                PlaceOf::Own { start: std::ptr::with_exposed_provenance_mut(info.start as usize) }
            }
            OF_PROCESS => match runtime.reachable(rank) {
                Some(process) => PlaceOf::Near { process, start: info.start as usize },
                None => PlaceOf::Far { start: info.start as usize },
            },
            other => return Err(Error::Internal(format!("a part of kind {other}"))),
        };
        let near = match place {
            PlaceOf::Heap { owner, offset } => {
                let whole = runtime.heap().memory.near_part(world, owner);
                whole.and_then(|whole| whole.narrowed(offset, info.bytes))
            }
            PlaceOf::Own { start } => {
                // SAFETY: what the members say of their own windows is true.
                Some(unsafe { NearPart::of_process(world, start, info.bytes) })
            }
            _ => None,
        };
        Ok(Part { rank, unit: info.unit.into(), bytes: info.bytes, place, near })
    }

    pub(crate) fn owner(&self) -> Rank {
        match self.place {
            PlaceOf::Heap { owner, .. } => owner,
            _ => self.rank,
        }
    }

    /// Returns its memory, if loads and stores reach it and it is not all of the process's.
    #[inline(always)]
    pub(crate) fn near(&self) -> Option<&NearPart> {
        self.near.as_ref().filter(|near| !near.base().is_null())
    }

    pub(crate) fn unit(&self) -> i64 {
        self.unit
    }

    /// Returns its memory, likewise, and the offset in it of a displacement.
    #[inline(always)]
    pub(crate) fn near_at(&self, displacement: i64) -> Option<(&NearPart, u64)> {
        let at = u64::try_from(displacement.checked_mul(self.unit)?).ok()?;
        Some((self.near()?, at))
    }

    /// Checks that a layout lies inside.
    #[inline]
    pub(crate) fn target<'a>(
        &'a self,
        displacement: i64,
        layout: Layout<'a>,
    ) -> Result<Target<'a>> {
        let at = i128::from(displacement) * i128::from(self.unit);
        let is_inside = layout.span().is_none_or(|(first, last)| {
            // A dynamic window has all addresses.
            at + i128::from(first) >= 0 && at + i128::from(last) <= i128::from(self.bytes)
        });
        match i64::try_from(at) {
            Ok(at) if is_inside => Ok(Target { part: self, at, layout }),
            _ => Err(self.outside(at, layout.span())),
        }
    }

    #[cold]
    fn outside(&self, at: i128, span: Option<(i64, i64)>) -> Error {
        let (first, last) = span.unwrap_or_default();
        let (first, last) = (at + i128::from(first), at + i128::from(last));
        Outside { rank: self.rank, first, last, bytes: self.bytes }.into()
    }
}

#[derive(Debug)]
struct Outside {
    rank: Rank,
    first: i128,
    last: i128,
    bytes: u64,
}

impl std::fmt::Display for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outside { rank, first, last, bytes } = self;
        write!(
            f,
            "bytes {first} to {last} are outside the window of {rank}, which has {bytes} bytes: \
             check displacement, unit, count and datatype"
        )
    }
}

impl std::error::Error for Outside {}

impl farside::fabric::Fault for Outside {
    fn class(&self) -> farside::ErrorClass {
        farside::ErrorClass::Bounds
    }
}

impl Target<'_> {
    /// The runs, as offsets in the part.
    fn runs(&self) -> impl Iterator<Item = Run> {
        let at = self.at;
        self.layout.iter().map(move |run| Run { offset: at.wrapping_add(run.offset), ..run })
    }

    /// An offset of the layout, as one in the part.
    #[inline(always)]
    fn offset(&self, there: i64) -> u64 {
        self.at.wrapping_add(there) as u64
    }

    /// The first byte, as an offset of the memory of the job, if it is that.
    pub(crate) fn in_heap(&self, run: Run) -> Option<(Rank, u64)> {
        match self.part.place {
            PlaceOf::Heap { owner, offset } => {
                Some((owner, offset.wrapping_add(self.at.wrapping_add(run.offset) as u64)))
            }
            _ => None,
        }
    }

    pub(crate) fn is_of_job(&self) -> bool {
        matches!(self.part.place, PlaceOf::Heap { .. })
    }

    pub(crate) fn aligned_in_heap(&self, run: Run, align: u64) -> Option<(Rank, u64)> {
        self.in_heap(run).filter(|(_, offset)| offset.is_multiple_of(align))
    }

    pub(crate) fn number_bytes(&self) -> usize {
        self.layout.number_bytes()
    }

    fn pieces(&self, start: usize) -> Vec<Piece> {
        let piece = |run: Run| Piece {
            address: start.wrapping_add(run.offset as usize),
            bytes: run.bytes as usize,
        };
        self.runs().map(piece).collect()
    }

    /// Writes the bytes of a buffer.
    ///
    /// # Safety
    ///
    /// All bytes of `from` from `base` on must be readable.
    pub(crate) unsafe fn put(
        &self,
        runtime: &Runtime,
        base: *const u8,
        from: &Layout<'_>,
    ) -> Result<()> {
        let put = |to: &mut Pieces<'_>| {
            in_step(from, &self.layout, |here, there, bytes| {
                // SAFETY: by the caller's promise.
                unsafe { to.put(self.offset(there), base.wrapping_offset(here as isize), bytes) };
            });
        };
        if self.part.near.as_ref().is_some_and(|near| near.put_pieces(&runtime.world, put)) {
            return Ok(());
        }
        // SAFETY: by the caller's promise.
        let packed = unsafe { Packed::new(base, from) };
        self.put_packed(runtime, packed.bytes())
    }

    pub(crate) fn first(&self, bytes: usize) -> Target<'_> {
        Target { layout: self.layout.first(bytes), ..*self }
    }

    /// One element of another type at the same place.
    pub(crate) fn with<'b>(&self, kind: &'b Type) -> Target<'b>
    where
        Self: 'b,
    {
        Target { layout: Layout::new(kind, 1), ..*self }
    }

    /// Writes packed bytes, which may be fewer than there is room for.
    pub(crate) fn put_packed(&self, runtime: &Runtime, packed: &[u8]) -> Result<()> {
        let target = self.first(packed.len());
        match self.part.place {
            PlaceOf::Heap { owner, offset } => {
                target.put_far(runtime, &runtime.heap().memory, owner, offset, packed)
            }
            PlaceOf::Own { start } => {
                // SAFETY: the target was found inside of this process's window.
                unsafe { unpack(start.wrapping_offset(self.at as isize), &target.layout, packed) };
                Ok(())
            }
            PlaceOf::Near { process, start } => {
                let pieces = target.pieces(start);
                foreign::transfer(self.part.rank, process, &pieces, Way::Write(packed))
                    .map_err(|error| lost(runtime, error))
            }
            PlaceOf::Far { start } => {
                let pieces = target.pieces(start);
                runtime.service.transfer(runtime, self.part.rank, &pieces, Way::Write(packed))
            }
        }
    }

    fn put_far(
        &self,
        runtime: &Runtime,
        memory: &Memory,
        owner: Rank,
        offset: u64,
        packed: &[u8],
    ) -> Result<()> {
        let base = offset.wrapping_add(self.at as u64);
        if let Some(run) = self.layout.contiguous() {
            return runtime
                .world
                .put(packed, memory.at(owner, base.wrapping_add(run.offset as u64)));
        }
        let runs = self.vector();
        let first = runs.first().map_or(0, |_| self.lowest());
        let place = memory.at(owner, base.wrapping_add(first as u64));
        runtime.world.put_vector(packed, place, &runs)
    }

    fn lowest(&self) -> i64 {
        self.layout.span().map_or(0, |(first, _)| first)
    }

    /// The runs as the pieces of a vector transfer, from the lowest on.
    fn vector(&self) -> Vec<farside::Run> {
        let (lowest, mut near) = (self.lowest(), 0);
        self.layout
            .iter()
            .map(|run| {
                let len = run.bytes as usize;
                let piece = farside::Run { near, far: (run.offset - lowest) as usize, len };
                near += len;
                piece
            })
            .collect()
    }

    /// Starts to read into a buffer, if that can go on while the caller does something else: bytes
    /// in one piece at both sides, of another node.
    ///
    /// # Safety
    ///
    /// As for [`Target::get`], until the request is complete.
    pub(crate) unsafe fn start_get(
        &self,
        runtime: &Runtime,
        base: *mut u8,
        into: &Layout<'_>,
    ) -> Result<Option<Request>> {
        let PlaceOf::Heap { owner, offset } = self.part.place else { return Ok(None) };
        let (Some(here), Some(there)) = (into.contiguous(), self.layout.contiguous()) else {
            return Ok(None);
        };
        // Another thread could wait for the request of this one.
        let bytes = here.bytes.min(there.bytes);
        if self.part.near.is_some() || bytes == 0 || runtime.has_threads() {
            return Ok(None);
        }
        let from = offset.wrapping_add(self.at as u64).wrapping_add(there.offset as u64);
        let first = base.wrapping_offset(here.offset as isize);
        let place = runtime.heap().memory.at(owner, from);
        // SAFETY: by the caller's promise.
        unsafe { Request::get(&runtime.world, place, first, bytes as usize).map(Some) }
    }

    /// Reads into a buffer.
    ///
    /// # Safety
    ///
    /// All bytes of `into` from `base` on must be writable.
    pub(crate) unsafe fn get(
        &self,
        runtime: &Runtime,
        base: *mut u8,
        into: &Layout<'_>,
    ) -> Result<()> {
        let get = |from: &mut Pieces<'_>| {
            in_step(into, &self.layout, |here, there, bytes| {
                // SAFETY: by the caller's promise.
                unsafe { from.get(self.offset(there), base.wrapping_offset(here as isize), bytes) };
            });
        };
        if self.part.near.as_ref().is_some_and(|near| near.get_pieces(&runtime.world, get)) {
            return Ok(());
        }
        let bytes = into.bytes().min(self.layout.bytes());
        if let Some(run) = into.contiguous()
            && bytes > 0
        {
            let first = base.wrapping_offset(run.offset as isize);
            // SAFETY: by the caller's promise.
            let into = unsafe { slice::from_raw_parts_mut(first, bytes as usize) };
            return self.get_packed(runtime, into);
        }
        let mut packed = vec![0; bytes as usize];
        self.get_packed(runtime, &mut packed)?;
        // SAFETY: by the caller's promise.
        unsafe { unpack(base, into, &packed) };
        Ok(())
    }

    pub(crate) fn get_packed(&self, runtime: &Runtime, into: &mut [u8]) -> Result<()> {
        match self.part.place {
            PlaceOf::Heap { owner, offset } => {
                let memory = &runtime.heap().memory;
                let base = offset.wrapping_add(self.at as u64);
                if let Some(run) = self.layout.contiguous() {
                    let place = memory.at(owner, base.wrapping_add(run.offset as u64));
                    return runtime.world.get(place, into);
                }
                let runs = self.vector();
                let place = memory.at(owner, base.wrapping_add(self.lowest() as u64));
                runtime.world.get_vector(place, into, &runs)
            }
            PlaceOf::Own { start } => {
                // SAFETY: the target was found inside of this process's window.
                let bytes = unsafe { pack(start.wrapping_offset(self.at as isize), &self.layout) };
                let length = into.len().min(bytes.len());
                into[..length].copy_from_slice(&bytes[..length]);
                Ok(())
            }
            PlaceOf::Near { process, start } => {
                let pieces = self.pieces(start);
                foreign::transfer(self.part.rank, process, &pieces, Way::Read(into))
                    .map_err(|error| lost(runtime, error))
            }
            PlaceOf::Far { start } => {
                let pieces = self.pieces(start);
                runtime.service.transfer(runtime, self.part.rank, &pieces, Way::Read(into))
            }
        }
    }
}

/// The error of a transfer to a process that may be gone.
#[cold]
fn lost(runtime: &Runtime, error: Error) -> Error {
    foreign::explain(error, |rank| runtime.world.loss_among([rank]))
}

/// The bytes of a buffer in one piece: as they lie, or copied.
pub(crate) enum Packed<'a> {
    There(&'a [u8]),
    Copied(Vec<u8>),
}

impl<'a> Packed<'a> {
    /// # Safety
    ///
    /// All bytes of the layout from `base` on must be readable, and stay as they are.
    pub(crate) unsafe fn new(base: *const u8, layout: &Layout<'_>) -> Packed<'a> {
        match layout.contiguous() {
            // There may be nothing at all at the base.
            Some(run) if run.bytes == 0 => Packed::There(&[]),
            Some(run) => {
                let first = base.wrapping_offset(run.offset as isize);
                // SAFETY: by the caller's promise.
                Packed::There(unsafe { slice::from_raw_parts(first, run.bytes as usize) })
            }
            // SAFETY: by the caller's promise.
            None => Packed::Copied(unsafe { pack(base, layout) }),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Packed::There(bytes) => bytes,
            Packed::Copied(bytes) => bytes,
        }
    }
}
