//! Collectives of teams and of active sets.
//!
//! The specification lets a PE write another's destination as soon as it has entered: "ready to
//! accept" is the caller's promise. So data goes straight from source to destination by puts, and
//! one meeting follows. Reductions of much data are dealt out: each member folds a part of it.

use std::ffi::{c_int, c_long, c_void};
use std::ops::Range;
use std::{ptr, slice};

use farside::raw::{self, Moved};
use farside::{Context, Rank, Result, Team};

use crate::context::{self, quiet_default};
use crate::exit::{self, Call, OrExit};
use crate::races;
use crate::region::Region;
use crate::runtime::{Runtime, TeamHandle, TeamState, find_team, runtime};
use crate::set::{self, ActiveSet};
use crate::strided::{self, Strided};
use crate::team;
use crate::transfer::symmetric;

/// The group of a collective, as `core.h` has it.
#[repr(C)]
pub(crate) struct Group {
    team: TeamHandle,
    start: c_int,
    log_stride: c_int,
    size: c_int,
    psync: *mut c_long,
}

/// From so many bytes on, a reduction among near members is dealt out.
const DEALT_OUT: usize = 16 << 10;

impl Group {
    fn is_set(&self) -> bool {
        !self.psync.is_null()
    }

    /// Returns the team; `None` for SHMEM_TEAM_INVALID.
    fn team(&self, runtime: &'static Runtime, call: Call) -> Option<&'static TeamState> {
        if !self.is_set() {
            return find_team(runtime, self.team, call);
        }
        let Group { start, log_stride, size, psync, .. } = *self;
        let set = ActiveSet { start, log_stride, size, psync };
        Some(set::team_of(runtime, set, call))
    }
}

/// A collective of members that move data by one-sided operations.
struct Move {
    runtime: &'static Runtime,
    team: &'static TeamState,
    call: Call,
}

impl Move {
    fn new(group: &Group, call: Call) -> Option<Move> {
        let runtime = runtime(call);
        let team = group.team(runtime, call)?;
        Some(Move { runtime, team, call })
    }

    fn find(&self, address: *const c_void, bytes: usize) -> (&'static Region, u64) {
        if bytes == 0 {
            // Nothing will be moved, and the address may be anything.
            return (self.runtime.regions.first(), 0);
        }
        symmetric(self.runtime, address, bytes, self.call)
    }

    /// Calls `act` with the team and its context; then everything that it has put lands, and all
    /// members meet, who must agree on what was moved.
    fn together(&self, moved: Moved, act: impl FnOnce(&Team<'_>, &Context) -> Result<()>) -> c_int {
        let done = self.team.with(self.runtime, |team| {
            // What the program has put may be on the same context, and is not completed by this.
            races::aside(team.context(), true);
            let done = act(team, team.context()).and_then(|()| team.context().flush_all());
            races::aside(team.context(), false);
            done?;
            raw::barrier_after(team, moved)
        });
        done.or_exit(self.call);
        0
    }

    /// Tells the checker of races, if there is one, that this member's source is read now.
    fn reads(&self, source: *const c_void, bytes: usize) {
        races::touches(self.runtime, self.call, source, bytes, false);
    }

    /// Tells the checker of races, if there is one, that this member's destination is filled now.
    fn fills(&self, dest: *const c_void, bytes: usize) {
        races::touches(self.runtime, self.call, dest, bytes, true);
    }

    /// Puts `data` to the same place of every member.
    fn put_to_all(
        &self,
        context: &Context,
        data: &[u8],
        (region, offset): (&Region, u64),
    ) -> Result<()> {
        let size = self.team.size();
        // Not all members begin with the same one.
        for step in 0..size {
            let rank = self.team.members[(self.team.index + step) % size];
            region.memory.put_and_wake(context, rank, offset, data)?;
        }
        Ok(())
    }
}

/// # Safety
///
/// `source` must be readable for `bytes` bytes.
unsafe fn bytes_of<'a>(source: *const c_void, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { slice::from_raw_parts(source.cast(), bytes) }
}

const NO_TEAM: c_int = -1;

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_barrier(group: &Group, call: Call) -> c_int {
    let runtime = runtime(call);
    quiet_default(runtime, call);
    context::tell_all_complete(runtime);
    // SAFETY: as this function's.
    unsafe { farside_shmem_sync(group, call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_sync(group: &Group, call: Call) -> c_int {
    let runtime = runtime(call);
    let Some(team) = group.team(runtime, call) else { return NO_TEAM };
    team::barrier(runtime, team, call).or_exit(call);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_broadcast(
    group: &Group,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    root: c_int,
    call: Call,
) -> c_int {
    let Some(it) = Move::new(group, call) else { return NO_TEAM };
    let Some(root) = usize::try_from(root).ok().filter(|&root| root < it.team.size()) else {
        exit::no_such_pe(call, root, it.team.size());
    };
    let to = it.find(dest, bytes);
    let skips_root = group.is_set();
    if it.team.index == root {
        it.reads(source, bytes);
    }
    let moved = Moved::Broadcast { bytes, root: it.team.members[root] };
    let done = it.together(moved, |_, context| {
        if it.team.index != root || bytes == 0 {
            return Ok(());
        }
        // SAFETY: by the specification it is readable on the root.
        let data = unsafe { bytes_of(source, bytes) };
        for (member, &rank) in it.team.members.iter().enumerate() {
            if member != root {
                to.0.memory.put_and_wake(context, rank, to.1, data)?;
            }
        }
        if !skips_root {
            // SAFETY: both are this long; they may be the same.
            unsafe { ptr::copy(data.as_ptr(), dest.cast(), bytes) };
        }
        Ok(())
    });
    if it.team.index != root || !skips_root {
        it.fills(dest, bytes);
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_collect(
    group: &Group,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    call: Call,
) -> c_int {
    let Some(it) = Move::new(group, call) else { return NO_TEAM };
    it.reads(source, bytes);
    let mut all = 0;
    // The members' lengths may differ.
    let done = it.together(Moved::AllGather(0), |team, context| {
        let lengths = team.all_gather(&[bytes as u64])?;
        all = lengths.iter().fold(0u64, |sum, &length| sum.saturating_add(length)) as usize;
        let (region, offset) = it.find(dest, all);
        let before: u64 = lengths[..it.team.index].iter().sum();
        // SAFETY: by the specification it is readable.
        let data = unsafe { bytes_of(source, bytes) };
        it.put_to_all(context, data, (region, offset + before))
    });
    it.fills(dest, all);
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_fcollect(
    group: &Group,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    call: Call,
) -> c_int {
    let Some(it) = Move::new(group, call) else { return NO_TEAM };
    let (region, offset) = it.find(dest, bytes.saturating_mul(it.team.size()));
    it.reads(source, bytes);
    let done = it.together(Moved::AllGather(bytes), |_, context| {
        // SAFETY: by the specification it is readable.
        let data = unsafe { bytes_of(source, bytes) };
        it.put_to_all(context, data, (region, offset + (it.team.index * bytes) as u64))
    });
    it.fills(dest, bytes.saturating_mul(it.team.size()));
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_alltoall(
    group: &Group,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    call: Call,
) -> c_int {
    let Some(it) = Move::new(group, call) else { return NO_TEAM };
    let size = it.team.size();
    let (region, offset) = it.find(dest, bytes.saturating_mul(size));
    let offset = offset + (it.team.index * bytes) as u64;
    it.reads(source, bytes.saturating_mul(size));
    let done = it.together(Moved::AllToAll(bytes), |_, context| {
        for step in 0..size {
            let member = (it.team.index + step) % size;
            // SAFETY: by the specification there is a block for each member.
            let block = unsafe { bytes_of(source.wrapping_byte_add(member * bytes), bytes) };
            region.memory.put_and_wake(context, it.team.members[member], offset, block)?;
        }
        Ok(())
    });
    it.fills(dest, bytes.saturating_mul(size));
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_alltoalls(
    group: &Group,
    dest: *mut c_void,
    source: *const c_void,
    dest_stride: isize,
    source_stride: isize,
    nelems: usize,
    element: usize,
    call: Call,
) -> c_int {
    let Some(it) = Move::new(group, call) else { return NO_TEAM };
    let size = it.team.size();
    let strided = Strided::new(source_stride, dest_stride, nelems.max(1), element, call);
    let block = |stride: usize| nelems * stride * element;
    let span = (block(strided.there) * size).saturating_sub((strided.there - 1) * element);
    let (region, offset) = it.find(dest, if nelems == 0 { 0 } else { span });
    let offset = offset + (it.team.index * block(strided.there)) as u64;
    it.together(Moved::AllToAll(nelems.saturating_mul(element)), |_, context| {
        for step in 0..if nelems == 0 { 0 } else { size } {
            let member = (it.team.index + step) % size;
            let from = source.wrapping_byte_add(member * block(strided.here));
            let to =
                strided::Place { memory: &region.memory, rank: it.team.members[member], offset };
            // SAFETY: by the specification there are elements for each member.
            unsafe { strided::put(context, &to, from.cast(), &strided)? };
        }
        Ok(())
    })
}

/// Folds the second run of elements into the first.
type Fold = unsafe extern "C" fn(into: *mut c_void, from: *const c_void, nelems: usize);

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_reduce(
    group: &Group,
    dest: *mut c_void,
    source: *const c_void,
    nelems: usize,
    element: usize,
    fold: Fold,
    call: Call,
) -> c_int {
    let Some(it) = Move::new(group, call) else { return NO_TEAM };
    let bytes = nelems.saturating_mul(element);
    let (to, from) = (it.find(dest, bytes), it.find(source, bytes));
    let reduction = Reduction { it: &it, to, from, element, fold };
    if bytes >= DEALT_OUT && it.team.size() > 1 && reduction.is_near() {
        return reduction.dealt_out(nelems);
    }
    it.reads(source, bytes);
    if bytes > 0 {
        // SAFETY: both were looked up for their length; they may be the same.
        unsafe { ptr::copy(source.cast::<u8>(), dest.cast::<u8>(), bytes) };
    }
    let into: &mut [u8] = match bytes {
        0 => &mut [],
        // SAFETY: it was looked up, and by the specification nothing else uses it meanwhile.
        _ => unsafe { slice::from_raw_parts_mut(dest.cast(), bytes) },
    };
    let folded = it.team.with(it.runtime, |team| {
        raw::all_reduce(team, element, into, |into, from| reduction.fold_bytes(into, from))
    });
    folded.or_exit(call);
    it.fills(dest, bytes);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_scan(
    group: &Group,
    dest: *mut c_void,
    source: *const c_void,
    nelems: usize,
    element: usize,
    fold: Fold,
    is_inclusive: c_int,
    call: Call,
) -> c_int {
    let Some(it) = Move::new(group, call) else { return NO_TEAM };
    let bytes = nelems.saturating_mul(element);
    let (to, from) = (it.find(dest, bytes), it.find(source, bytes));
    it.reads(source, bytes);
    let reduction = Reduction { it: &it, to, from, element, fold };
    let result = reduction.scan(bytes, is_inclusive != 0);
    if bytes > 0 {
        // SAFETY: it was looked up, and by the specification nothing else uses it meanwhile.
        unsafe { ptr::copy_nonoverlapping(result.as_ptr(), dest.cast(), bytes) };
    }
    it.fills(dest, bytes);
    0
}

struct Reduction<'m> {
    it: &'m Move,
    to: (&'static Region, u64),
    from: (&'static Region, u64),
    element: usize,
    fold: Fold,
}

impl Reduction<'_> {
    fn fold_bytes(&self, into: &mut [u8], from: &[u8]) {
        let count = into.len() / self.element;
        if into.as_ptr().addr().is_multiple_of(16) && from.as_ptr().addr().is_multiple_of(16) {
            // SAFETY: both hold so many elements, and are aligned for any type.
            return unsafe { (self.fold)(into.as_mut_ptr().cast(), from.as_ptr().cast(), count) };
        }
        // Element by element, over memory that is aligned for any type.
        let (mut a, mut b) = ([0u128; 4], [0u128; 4]);
        for (into, from) in into.chunks_exact_mut(self.element).zip(from.chunks_exact(self.element))
        {
            // SAFETY: no type of a reduction has more than 64 bytes.
            unsafe {
                ptr::copy_nonoverlapping(into.as_ptr(), a.as_mut_ptr().cast(), self.element);
                ptr::copy_nonoverlapping(from.as_ptr(), b.as_mut_ptr().cast(), self.element);
                (self.fold)(a.as_mut_ptr().cast(), b.as_ptr().cast(), 1);
                ptr::copy_nonoverlapping(a.as_ptr().cast(), into.as_mut_ptr(), self.element);
            }
        }
    }

    /// Returns the sources of the members before this one folded in their order, and with them its
    /// own if that is included; nothing is zero. All have read all they need when it returns.
    fn scan(&self, bytes: usize, is_inclusive: bool) -> Vec<u8> {
        let it = self.it;
        let before = &it.team.members[..it.team.index + usize::from(is_inclusive)];
        let (mut folded, mut next) = (vec![0; bytes], vec![0; bytes]);
        let done = it.team.with(it.runtime, |team| {
            // The others' sources are ready once they are here.
            team.barrier()?;
            races::aside(team.context(), true);
            let got = before.iter().enumerate().try_for_each(|(at, &member)| {
                let from = self.from.0.memory.at(member, self.from.1);
                if at == 0 {
                    return team.context().get(from, &mut folded);
                }
                team.context().get(from, &mut next)?;
                self.fold_bytes(&mut folded, &next);
                Ok(())
            });
            races::aside(team.context(), false);
            got?;
            raw::barrier_after(team, Moved::Scan(bytes))
        });
        done.or_exit(it.call);
        folded
    }

    /// Returns whether loads and stores reach the memory of all members. In a job whose operations
    /// somebody sees, they reach none.
    fn is_near(&self) -> bool {
        let regions = [self.to.0, self.from.0];
        let is_near =
            |&rank: &Rank| regions.iter().all(|region| region.memory.near(rank).is_some());
        self.it.team.members.iter().all(is_near)
    }

    /// Each member folds its part of all members' sources into its own destination, straight from
    /// their memory; then all get the parts of the others. In place this works, too: a member's
    /// own part of its source is read by none but itself.
    fn dealt_out(&self, nelems: usize) -> c_int {
        let (it, size) = (self.it, self.it.team.size());
        let part = |member: usize| -> Range<usize> {
            // Whole lines of the processor's cache.
            let grain = (64 / self.element).max(1);
            let share = nelems.div_ceil(size).next_multiple_of(grain);
            (member * share).min(nelems) * self.element
                ..((member + 1) * share).min(nelems) * self.element
        };
        let address = |(region, offset): (&Region, u64), member: usize| -> *mut u8 {
            let base = region.memory.near(it.team.members[member]);
            // The members are near: all have an address here.
            base.map_or(ptr::null_mut(), |base| base.as_ptr().wrapping_add(offset as usize))
        };
        let me = it.team.index;
        let done = it.team.with(it.runtime, |team| {
            // Whoever folds less than the others would read what is not there.
            raw::barrier_after(team, Moved::AllReduce(nelems * self.element))?;
            let mine = part(me);
            let count = mine.len() / self.element;
            // In the order of the members, so that every run has the same result.
            let sum = address(self.to, me).wrapping_add(mine.start);
            // SAFETY: the ranges were looked up on this member, and are the same on all.
            unsafe {
                let mut own: Vec<u128> = vec![0; mine.len().div_ceil(16)];
                let folded = own.as_mut_ptr().cast::<u8>();
                for member in 0..size {
                    let theirs = address(self.from, member).wrapping_add(mine.start);
                    if member == 0 {
                        ptr::copy_nonoverlapping(theirs, folded, mine.len());
                    } else {
                        (self.fold)(folded.cast(), theirs.cast(), count);
                    }
                }
                ptr::copy_nonoverlapping(folded, sum, mine.len());
            }
            team.barrier()?;
            for member in (me + 1..size).chain(0..me) {
                let theirs = part(member);
                let from = address(self.to, member).wrapping_add(theirs.start);
                let into = address(self.to, me).wrapping_add(theirs.start);
                // SAFETY: as above.
                unsafe { ptr::copy_nonoverlapping(from, into, theirs.len()) };
            }
            // The others may still read this member's part.
            team.barrier()
        });
        done.or_exit(it.call);
        0
    }
}
