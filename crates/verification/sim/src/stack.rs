//! The stacks of fibers: mappings with a guard at their end, as many as there are ranks.

use std::io;

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const PAGE: usize = 4096;
/// Makes pages that nobody may touch without a mapping of their own, since Linux 6.13: neighbouring
/// stacks are one mapping then, and a process may have only so many.
const MADV_GUARD_INSTALL: i32 = 102;

/// A stack, and what it costs.
pub(crate) enum GuardedStack {
    /// One of many in a mapping.
    Shared(Shared),
    /// One that takes two mappings: its own and its guard's.
    Alone(DefaultStack),
}

/// A part of a mapping: a guard, and the stack above it.
pub(crate) struct Shared {
    start: StackPointer,
    bytes: usize,
}

impl GuardedStack {
    pub(crate) fn new(bytes: usize) -> io::Result<GuardedStack> {
        match Shared::new(bytes) {
            Some(stack) => Ok(GuardedStack::Shared(stack)),
            None => DefaultStack::new(bytes).map(GuardedStack::Alone),
        }
    }

    /// Whether the next one takes mappings of its own.
    pub(crate) fn takes_mappings() -> bool {
        Shared::new(PAGE).is_none()
    }
}

impl Shared {
    /// Returns nothing where the kernel has no such guards, or no memory.
    fn new(bytes: usize) -> Option<Shared> {
        let bytes = bytes.next_multiple_of(PAGE) + PAGE;
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the system's choice disturbs nobody.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }.ok()?;
        // Dropped, it is unmapped.
        let stack = Shared { start: StackPointer::new(start.addr())?, bytes };
        // A huge page would be there for eight stacks as soon as one is used. A kernel without them
        // refuses, and needs no such advice. It is given before the guard is made, while the kernel
        // still joins the mapping to its neighbour's.
        // SAFETY: the mapping that was just made; the advice changes nothing of its contents.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        // SAFETY: the first page of the mapping, which nobody uses yet.
        let guarded = unsafe { libc::madvise(start, PAGE, MADV_GUARD_INSTALL) } == 0;
        guarded.then_some(stack)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let start = std::ptr::with_exposed_provenance_mut(self.start.get());
        // SAFETY: what was mapped; whoever ran on it has ended, or it would not be dropped.
        let _ = unsafe { munmap(start, self.bytes) };
    }
}

// SAFETY: base and limit are the ends of one readable and writable mapping, aligned to pages, that
// lives as long as the stack; the page at its limit is the guard.
unsafe impl Stack for GuardedStack {
    fn base(&self) -> StackPointer {
        match self {
            GuardedStack::Alone(stack) => stack.base(),
            GuardedStack::Shared(stack) => {
                StackPointer::new(stack.start.get() + stack.bytes).unwrap_or(stack.start)
            }
        }
    }

    fn limit(&self) -> StackPointer {
        match self {
            GuardedStack::Alone(stack) => stack.limit(),
            GuardedStack::Shared(stack) => stack.start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mappings() -> usize {
        std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted").lines().count()
    }

    #[test]
    fn many_stacks_are_few_mappings_where_the_kernel_has_light_guards() {
        let before = mappings();
        let stacks: Vec<GuardedStack> =
            (0..500).map(|_| GuardedStack::new(64 << 10).expect("there is memory")).collect();
        let more = mappings().saturating_sub(before);
        match GuardedStack::takes_mappings() {
            true => assert!(more >= 500, "{more} mappings for {} stacks", stacks.len()),
            false => assert!(more < 100, "{more} mappings for {} stacks", stacks.len()),
        }
        for stack in &stacks {
            let room = stack.base().get() - stack.limit().get();
            assert_eq!(room, (64 << 10) + PAGE);
        }
    }
}
