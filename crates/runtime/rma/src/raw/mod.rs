//! The untyped layer: memory by rank and byte offset, requests without a lifetime, and the way from
//! an address of this process to the memory it lies in. Interfaces of other languages stand on it.
//!
//! [`Memory::at`] gives a [`Place`] of bytes, which every operation of a [`Context`] takes;
//! [`Place::cast`] makes it a word for atomics.

mod accumulate;
mod together;

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use farside_fabric::{
    Atomic, Error, ProbeEvent, Rank, Reply, Result, SegmentId, Started, Ticket, Width,
};

use crate::context::{Context, ContextId};
use crate::near::Near;
use crate::place::Place;
use crate::plain::Plain;
use crate::segment::{Segment, Traffic};
use crate::target::old_elements;
use crate::team::Team;
use crate::unfreed::Allocation;
use crate::window::Window;

pub use crate::near::{NearPart, Pieces};
pub use accumulate::{accumulate, accumulate_vector, get_accumulate, get_accumulate_vector};
pub use farside_fabric::{Accumulate, Number};
pub use together::{Moved, Rendezvous, all_reduce, barrier_after, barrier_to_leave, team_among};

/// A window without a type: bytes with a part on every member of a team. Copies of the handle name
/// the same memory.
///
/// ```
/// use farside::{Rank, raw::Memory};
///
/// farside::local(2, |world| {
///     let memory = Memory::allocate(&world.team(), 64)?;
///     world.put(b"raw bytes", memory.at(Rank(1), 8))?;
///     world.fetch_add(memory.at(Rank(1), 32).cast::<u64>(), 7)?;
///     world.sync()?;
///     assert_eq!(world.load(memory.at(Rank(1), 32).cast::<u64>())?, 14);
///     memory.free(world)
/// })
/// .unwrap();
/// ```
#[derive(Clone)]
pub struct Memory {
    segment: Arc<Segment>,
    /// The parts of the segment that it is, by rank, if they are not the whole.
    extents: Option<Arc<[Extent]>>,
}

/// A run of bytes of a rank's part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Where it begins.
    pub start: u64,
    /// How long it is.
    pub bytes: u64,
}

impl Memory {
    /// Allocates `bytes` on this member; the others may give other lengths. Fresh memory is zero
    /// and begins at a page.
    pub fn allocate(team: &Team<'_>, bytes: u64) -> Result<Memory> {
        let segment = Arc::new(team.segment(bytes, 1, Traffic::Counted)?);
        let id = segment.id;
        team.context().tell(|| ProbeEvent::Program { segment: id, element: 1 });
        Ok(Memory { segment, extents: None })
    }

    /// Returns the same memory as if each member's part were only an extent of it, which must be
    /// inside: offset 0 is its first byte. `mine` is this member's. Collective.
    pub fn narrowed(self, team: &Team<'_>, mine: Extent) -> Result<Memory> {
        let own = self.segment.own.bytes();
        let is_far_in = u32::try_from(mine.start).is_err();
        if is_far_in || mine.start.checked_add(mine.bytes).is_none_or(|end| end > own) {
            let (rank, segment) = (team.context().rank(), self.segment.id);
            let Extent { start: offset, bytes } = mine;
            return Err(Error::OutOfRange { rank, segment, offset, bytes, segment_bytes: own });
        }
        let all = team.all_gather(&[mine.start, mine.bytes])?;
        let mut extents = vec![Extent::default(); team.context().size() as usize];
        for (says, rank) in all.chunks_exact(2).zip(team.members()) {
            extents[rank.index()] = Extent { start: says[0], bytes: says[1] };
        }
        Ok(Memory { extents: Some(extents.into()), ..self })
    }

    /// The offset in the segment of `bytes` bytes from `offset` on of a rank's part.
    #[inline]
    fn within(&self, rank: Rank, offset: u64, bytes: u64) -> Result<u64> {
        let Some(extents) = &self.extents else { return Ok(offset) };
        let extent = extents.get(rank.index()).copied().unwrap_or_default();
        match offset.checked_add(bytes) {
            Some(end) if end <= extent.bytes => Ok(extent.start + offset),
            _ => Err(self.segment.out_of_range(rank, offset, bytes)),
        }
    }

    #[inline]
    fn start(&self, rank: Rank) -> u64 {
        match &self.extents {
            None => 0,
            Some(extents) => extents.get(rank.index()).map_or(0, |extent| extent.start),
        }
    }

    /// Returns byte `offset` of a rank's part. Whether there is one is checked when the place is
    /// used.
    #[inline]
    pub fn at(&self, rank: Rank, offset: u64) -> Place<'_, u8> {
        match &self.extents {
            None => Place::first(&self.segment, rank).skip(offset as usize),
            Some(extents) => {
                let extent = extents.get(rank.index()).copied().unwrap_or_default();
                let Extent { start, bytes } = extent;
                Place::within(&self.segment, rank, start as u32, bytes).skip(offset as usize)
            }
        }
    }

    /// Returns the length of a rank's part.
    pub fn bytes(&self, rank: Rank) -> Result<u64> {
        let whole = self.segment.part(rank)?.bytes;
        Ok(match &self.extents {
            None => whole,
            Some(extents) => extents.get(rank.index()).map_or(0, |extent| extent.bytes),
        })
    }

    /// Returns the ranks that have a part.
    pub fn members(&self) -> &[Rank] {
        &self.segment.members
    }

    /// Returns the name of this memory in the job.
    pub fn segment(&self) -> SegmentId {
        self.segment.id
    }

    /// Returns where this rank's part begins. What is read or written there obeys the rules of
    /// [`Own::as_slice`](crate::Own::as_slice), and ends with [`Memory::free`].
    #[track_caller]
    pub fn base(&self) -> NonNull<u8> {
        self.segment.tell_lent("base");
        self.first_byte()
    }

    fn first_byte(&self) -> NonNull<u8> {
        let start = self.start(self.segment.me) as usize;
        // SAFETY: the extent is inside of the part, which is mapped.
        unsafe { self.segment.own.base().add(start) }
    }

    /// Returns where a rank's part begins in this process, if loads and stores reach it.
    pub fn near(&self, rank: Rank) -> Option<NonNull<u8>> {
        let base = self.segment.near(rank)?.base();
        // SAFETY: as above.
        Some(unsafe { base.add(self.start(rank) as usize) })
    }

    /// Writes `bytes` from `offset` on of a rank's part, and wakes the rank if it sleeps in a wait
    /// for a word among them: for programs that signal by plain puts.
    ///
    /// The wake is likely, not certain: a rank that falls asleep at this moment may be missed, and
    /// what goes through the fabric wakes only if it is one word. Waiters look again by themselves.
    #[inline]
    #[track_caller]
    pub fn put_and_wake(
        &self,
        context: &Context,
        rank: Rank,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let offset = self.within(rank, offset, bytes.len() as u64)?;
        let Some(near) = context.direct_target(&self.segment, rank) else {
            return self.put_far_and_wake(context, rank, offset, bytes);
        };
        if context.put_near_and_wake(near, offset, bytes) {
            Ok(())
        } else {
            Err(self.segment.out_of_range(rank, offset, bytes.len() as u64))
        }
    }

    /// Returns a rank's part for a context that uses it often, if loads and stores reach it.
    pub fn near_part(&self, context: &Context, rank: Rank) -> Option<NearPart> {
        let whole = NearPart::new(context, &self.segment, rank)?;
        let Some(extents) = &self.extents else { return Some(whole) };
        let Extent { start, bytes } = *extents.get(rank.index())?;
        whole.narrowed(start, bytes)
    }

    /// Wakes a rank as [`Memory::put_and_wake`] does: for puts of another kind.
    pub fn wake_within(&self, context: &Context, rank: Rank, offset: u64, bytes: u64) {
        if let Ok(offset) = self.within(rank, offset, bytes)
            && let Some(mapped) = self.segment.near(rank)
        {
            context.wake_within(mapped, rank, offset, bytes);
        }
    }

    #[inline(never)]
    #[track_caller]
    fn put_far_and_wake(
        &self,
        context: &Context,
        rank: Rank,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let width = match *bytes {
            [_, _, _, _] => Width::W32,
            [_, _, _, _, _, _, _, _] => Width::W64,
            _ => return self.put_some_and_wake(context, rank, offset, bytes),
        };
        if !offset.is_multiple_of(width.bytes()) {
            return self.put_some_and_wake(context, rank, offset, bytes);
        }
        let mut value = [0; 16];
        value[..bytes.len()].copy_from_slice(bytes);
        let op = Atomic::Store(u128::from_le_bytes(value));
        context.post_at(&self.segment, rank, offset, width, op)
    }

    /// Writes bytes that are no word. They may be near: then they wake, too.
    #[track_caller]
    fn put_some_and_wake(
        &self,
        context: &Context,
        rank: Rank,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        context.put_at(&self.segment, rank, offset, bytes)?;
        if let Some(mapped) = self.segment.near(rank) {
            context.wake_within(mapped, rank, offset, bytes.len() as u64);
        }
        Ok(())
    }

    /// Writes a word of a rank's part if a plain store does; false, and nothing done, in all other
    /// cases: those are left to [`Context::put`]. For interfaces whose calls cost as much as that.
    #[inline(always)]
    pub fn put_directly(&self, context: &Context, rank: Rank, offset: u64, word: &[u8; 8]) -> bool {
        self.direct(context, rank).is_some_and(|near| context.put_near(near, offset, word))
    }

    /// Reads a word of a rank's part if a plain load does, as [`Memory::put_directly`] writes one.
    #[inline(always)]
    pub fn get_directly(
        &self,
        context: &Context,
        rank: Rank,
        offset: u64,
        into: &mut [u8; 8],
    ) -> bool {
        self.direct(context, rank).is_some_and(|near| context.get_near(near, offset, into))
    }

    /// Executes an atomic if an instruction does, and returns what the word held before; `None`,
    /// and nothing done, in all other cases: those are left to [`Memory::atomic`].
    #[inline(always)]
    pub fn atomic_directly(
        &self,
        context: &Context,
        rank: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Option<u128> {
        if self.extents.is_some() {
            return None;
        }
        context.fetch_direct(&self.segment, rank, offset, width, op)
    }

    /// A rank's part, if the processor's instructions may be used on it and no rank was lost.
    #[inline(always)]
    fn direct<'s>(&'s self, context: &'s Context, rank: Rank) -> Option<Near<'s>> {
        if self.extents.is_some() {
            return None;
        }
        context.direct_target(&self.segment, rank)
    }

    /// Executes an atomic on the word at `offset` of a rank's part, whose width is known only now;
    /// returns what the word held before.
    #[inline]
    #[track_caller]
    pub fn atomic(
        &self,
        context: &Context,
        rank: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Result<u128> {
        let offset = self.within(rank, offset, width.bytes())?;
        context.atomic_at(&self.segment, rank, offset, width, op)
    }

    /// Posts an atomic whose old value is not wanted: it has landed after a flush.
    #[inline]
    #[track_caller]
    pub fn post(
        &self,
        context: &Context,
        rank: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Result<()> {
        let offset = self.within(rank, offset, width.bytes())?;
        context.post_at(&self.segment, rank, offset, width, op)
    }

    /// Returns the window of elements of one type that this memory is. The sizes must divide.
    pub fn window<T: Plain>(self) -> Result<Window<T>> {
        if self.extents.is_some() {
            return Err(Error::InvalidState("a window is the whole of its memory".into()));
        }
        Window::<u8>::of(Allocation::unwatched(self.segment)).cast()
    }

    /// Gives the memory back. Every member must do so, and no copy of the handle may be used
    /// afterwards: operations through one fail, and pointers into the memory dangle.
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        team.into().free_segment(&self.segment)
    }
}

impl<T: Plain> From<Window<T>> for Memory {
    fn from(window: Window<T>) -> Memory {
        Memory { segment: window.into_segment(), extents: None }
    }
}

/// A transfer or an atomic under way, without a lifetime: its caller keeps the buffer.
#[must_use = "the buffer must not be touched before `wait` or `test` says so"]
#[derive(Debug)]
pub struct Request {
    peer: Rank,
    /// `None` if it was complete when it was started. Tickets are numbered by each context.
    ticket: Option<(Ticket, ContextId)>,
    old: Option<OldElements>,
}

/// Memory for the old elements of an accumulate.
#[derive(Debug)]
struct OldElements {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the memory is the request's alone, by the promise made to `Request::get_accumulate`, on
// whichever thread that is.
unsafe impl Send for OldElements {}

impl OldElements {
    fn take_in(self, reply: Reply) -> Result<()> {
        // SAFETY: valid for writes and ours alone, by the promise made to
        // `Request::get_accumulate`; the request is not complete before this returns.
        let into = unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) };
        old_elements(reply, into)
    }
}

impl Request {
    /// Starts a put of `bytes` from `data` on. When the request is complete `data` may be reused;
    /// the bytes have landed after a flush.
    ///
    /// # Safety
    ///
    /// `data` must be valid for reads of so many bytes, and nothing may write them, until the
    /// request is complete.
    #[track_caller]
    pub unsafe fn put(
        context: &Context,
        data: *const u8,
        bytes: usize,
        to: Place<'_, u8>,
    ) -> Result<Request> {
        // SAFETY: by the caller's promise.
        let ticket = unsafe { context.put_lent(std::slice::from_raw_parts(data, bytes), to)? };
        Ok(Request { peer: to.rank(), ticket: ticket.map(|one| (one, context.id())), old: None })
    }

    /// Starts a get of `bytes` to `into` on.
    ///
    /// # Safety
    ///
    /// `into` must be valid for writes of so many bytes, and nothing else may touch them, until the
    /// request is complete.
    #[track_caller]
    pub unsafe fn get(
        context: &Context,
        from: Place<'_, u8>,
        into: *mut u8,
        bytes: usize,
    ) -> Result<Request> {
        // SAFETY: by the caller's promise.
        let ticket =
            unsafe { context.get_lent(from, std::slice::from_raw_parts_mut(into, bytes))? };
        Ok(Request { peer: from.rank(), ticket: ticket.map(|one| (one, context.id())), old: None })
    }

    /// Starts a [`get_accumulate`] of `data`, which may be reused at once, to `bytes` bytes from
    /// `old` on.
    ///
    /// # Safety
    ///
    /// `old` must be valid for writes of so many bytes, and nothing else may touch them, until the
    /// request is complete.
    #[track_caller]
    pub unsafe fn get_accumulate(
        context: &Context,
        accumulate: &Accumulate,
        data: &[u8],
        to: Place<'_, u8>,
        old: *mut u8,
        bytes: usize,
    ) -> Result<Request> {
        // SAFETY: by the caller's promise.
        let into = unsafe { std::slice::from_raw_parts_mut(old, bytes) };
        let peer = to.rank();
        Ok(match context.start_get_accumulate(accumulate, data, to, into)? {
            Started::Done(_) => Request { peer, ticket: None, old: None },
            Started::Pending(ticket) => {
                let old = Some(OldElements { start: old, bytes });
                Request { peer, ticket: Some((ticket, context.id())), old }
            }
        })
    }

    /// Returns whether the request is complete, without waiting. After an error it is, too.
    ///
    /// # Panics
    ///
    /// If another context has started it.
    pub fn test(&mut self, context: &Context) -> Result<bool> {
        let Some(ticket) = self.ticket_of(context) else {
            return Ok(true);
        };
        let reply = context.look(ticket).inspect_err(|_| self.ticket = None)?;
        let Some(reply) = reply else { return Ok(false) };
        self.ticket = None;
        self.old.take().map_or(Ok(()), |old| old.take_in(reply))?;
        Ok(true)
    }

    /// Waits until the request is complete. Whatever it returns, the buffer is the caller's again.
    ///
    /// # Panics
    ///
    /// If another context has started it. It is not complete then.
    pub fn wait(mut self, context: &Context) -> Result<()> {
        match self.ticket_of(context) {
            Some(ticket) => {
                let reply = context.complete(ticket, self.peer)?;
                self.old.take().map_or(Ok(()), |old| old.take_in(reply))
            }
            None => Ok(()),
        }
    }

    /// Gives the request up: the buffer is the caller's again, and what the transfer has done of
    /// its work is not known.
    ///
    /// # Panics
    ///
    /// If another context has started it. It is not given up then.
    pub fn cancel(self, context: &Context) {
        if let Some(ticket) = self.ticket_of(context) {
            context.fabric().cancel(ticket);
        }
    }

    /// Its ticket, which must be one of this context.
    fn ticket_of(&self, context: &Context) -> Option<Ticket> {
        let (ticket, by) = self.ticket.as_ref()?;
        assert!(*by == context.id(), "a request is completed by the context that has started it");
        Some(*ticket)
    }
}

/// The memories of this rank by address: from a pointer to the memory and the offset it means.
///
/// ```
/// use farside::raw::{AddressTable, Memory};
///
/// farside::local(2, |world| {
///     let memory = Memory::allocate(&world.team(), 64)?;
///     let mut table = AddressTable::default();
///     table.insert(&memory);
///     let address = memory.base().as_ptr().wrapping_add(24);
///     let (found, offset) = table.find(address, 40).unwrap();
///     assert_eq!((found.segment(), offset), (memory.segment(), 24));
///     assert!(table.find(address, 41).is_none());
///     table.remove(&memory);
///     memory.free(world)
/// })
/// .unwrap();
/// ```
#[derive(Default)]
pub struct AddressTable {
    by_start: BTreeMap<usize, Memory>,
}

impl AddressTable {
    /// Adds this rank's part of a memory.
    pub fn insert(&mut self, memory: &Memory) {
        self.by_start.insert(memory.first_byte().addr().get(), memory.clone());
    }

    /// Takes this rank's part of a memory away; returns whether it was there.
    pub fn remove(&mut self, memory: &Memory) -> bool {
        self.by_start.remove(&memory.first_byte().addr().get()).is_some()
    }

    /// Returns the memory in which `bytes` from an address on lie, and the offset of the first.
    pub fn find(&self, address: *const u8, bytes: usize) -> Option<(&Memory, u64)> {
        let address = address.addr();
        let (start, memory) = self.by_start.range(..=address).next_back()?;
        let offset = address - start;
        let end = offset.checked_add(bytes)?;
        let bytes = memory.bytes(memory.segment.me).ok()?;
        (end as u64 <= bytes).then_some((memory, offset as u64))
    }
}
