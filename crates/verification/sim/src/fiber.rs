//! Ranks as fibers: each has a stack of its own, and runs until it has to wait.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;

use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use farside_fabric::Ticket;

use crate::event::{Access, What};
use crate::parked_wait::ParkedWait;
use crate::stack::GuardedStack;

/// The size of a fiber's stack. Protocols and tests need a fraction of it; untouched pages cost
/// nothing.
pub(crate) const STACK_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy)]
pub(crate) enum Pause {
    Wait(ParkedWait),
    /// It waits until what it posted to this rank has landed.
    Flush(u32),
    /// It is about to read or write these bytes of its own memory, in this way.
    Own(Access, What),
    /// It is about to look whether an operation is complete.
    Poll(Ticket),
    /// It polls, and has seen nothing new.
    Relax,
    /// It computes for so many nanoseconds.
    Work(u64),
    /// It has too many posted operations in flight.
    NeedsRoom,
    Prepared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// It starts, or what it waited for has happened: which condition was satisfied, by which
    /// value.
    Go(usize, u64),
    Departure,
    TimedOut,
}

/// Stacks to be used again: making one takes longer than a short run.
#[derive(Default)]
pub(crate) struct Stacks {
    free: RefCell<Vec<Shifted>>,
    made: Cell<usize>,
}

impl Stacks {
    fn take(&self) -> std::io::Result<Shifted> {
        match self.free.borrow_mut().pop() {
            Some(stack) => Ok(stack),
            None => {
                let made = self.made.get();
                self.made.set(made + 1);
                Ok(Shifted { stack: GuardedStack::new(STACK_BYTES)?, skipped: shift(made) })
            }
        }
    }
}

/// A stack that begins a little below its end. Stacks are aligned alike, and what thousands of
/// ranks have at the same place of theirs would compete for the same few lines of the processor's
/// caches.
struct Shifted {
    stack: GuardedStack,
    skipped: usize,
}

/// Returns the shift of the object with this number, in bytes: whole pairs of cache lines within a
/// page.
pub(crate) fn shift(number: usize) -> usize {
    const LINES: usize = 128;
    number % (4096 / LINES) * LINES
}

// SAFETY: all of it lies within the inner stack, whose guard is still at its end; shifts are
// multiples of the alignment.
unsafe impl Stack for Shifted {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.stack.base().get() - self.skipped).unwrap_or(self.stack.base())
    }

    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }
}

pub(crate) struct Fiber {
    coroutine: Option<Coroutine<Resume, Pause, (), Shifted>>,
    stacks: Rc<Stacks>,
    switch: Rc<Switch>,
}

impl Fiber {
    /// A fiber that will run `body`, which finds itself through `switch`.
    pub(crate) fn new(
        stacks: &Rc<Stacks>,
        switch: &Rc<Switch>,
        body: impl FnOnce() + 'static,
    ) -> std::io::Result<Fiber> {
        let stack = stacks.take()?;
        switch.stand_on(&stack);
        let inside = switch.clone();
        let coroutine =
            Coroutine::with_stack(stack, move |yielder: &Yielder<Resume, Pause>, _first| {
                inside.yielder.set(Some(std::ptr::from_ref(yielder)));
                body();
                inside.yielder.set(None);
            });
        Ok(Fiber { coroutine: Some(coroutine), stacks: stacks.clone(), switch: switch.clone() })
    }

    /// Runs it until it pauses; `None` when it has ended.
    pub(crate) fn resume(&mut self, resume: Resume) -> Option<Pause> {
        let coroutine = self.coroutine.as_mut()?;
        match coroutine.resume(resume) {
            CoroutineResult::Yield(pause) => Some(pause),
            CoroutineResult::Return(()) => {
                if let Some(coroutine) = self.coroutine.take() {
                    self.give_back(coroutine.into_stack());
                }
                None
            }
        }
    }

    /// Ends it where it stands: it unwinds, so that what it holds is freed; then its stack can be
    /// used again.
    pub(crate) fn end(&mut self) {
        if let Some(mut coroutine) = self.coroutine.take() {
            coroutine.force_unwind();
            self.give_back(coroutine.into_stack());
        }
    }

    fn give_back(&self, stack: Shifted) {
        self.switch.stand_nowhere();
        self.stacks.free.borrow_mut().push(stack);
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        self.end();
    }
}

/// The way out of a fiber, for the code that runs in it.
pub(crate) struct Switch {
    yielder: Cell<Option<*const Yielder<Resume, Pause>>>,
    home: ThreadId,
    /// The first and the last address of the fiber's stack. Atomic, since a caller on another
    /// thread has to find out here that it is not at home.
    stack: (AtomicUsize, AtomicUsize),
}

impl Switch {
    pub(crate) fn new() -> Rc<Switch> {
        let stack = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Rc::new(Switch { yielder: Cell::new(None), home: std::thread::current().id(), stack })
    }

    /// Returns whether the caller is on the thread that runs the simulation.
    ///
    /// Asking the system for the thread takes longer than most calls from here. But stacks never
    /// leave their thread, so a caller on the fiber's stack is at home.
    #[inline]
    pub(crate) fn is_home(&self) -> bool {
        let here = 0u8;
        let here = std::ptr::from_ref(&here).addr();
        let (from, to) =
            (self.stack.0.load(Ordering::Relaxed), self.stack.1.load(Ordering::Relaxed));
        (from..to).contains(&here) || std::thread::current().id() == self.home
    }

    /// Pauses the fiber; `None` if the caller is in no fiber.
    pub(crate) fn pause(&self, pause: Pause) -> Option<Resume> {
        assert!(self.is_home(), "a simulated rank belongs to one thread");
        // SAFETY: the yielder lives on the fiber's own stack for as long as its body runs, and the
        // body is what calls this.
        self.yielder.get().map(|yielder| unsafe { &*yielder }.suspend(pause))
    }

    fn stand_on(&self, stack: &impl Stack) {
        self.stack.0.store(stack.limit().get(), Ordering::Relaxed);
        self.stack.1.store(stack.base().get(), Ordering::Relaxed);
    }

    /// The stack is not this fiber's any more. A range that is read while it changes is empty.
    fn stand_nowhere(&self) {
        self.stack.0.store(usize::MAX, Ordering::Relaxed);
        self.stack.1.store(0, Ordering::Relaxed);
    }
}
