//! The ranks of a simulated job as fibers that run a program.

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use farside_fabric::{Connection, ExitCause, FailureCounters, Rank, Topology};

use crate::engine::{Engine, Shared};
use crate::fiber::{Fiber, Pause, Resume, Stacks, Switch};
use crate::port::Port;
use crate::prefetch;

/// The body of a simulated rank: it prepares, calls [`Start::prepared`], and goes on with the part
/// that is explored or measured.
pub type Program = Rc<dyn Fn(Box<dyn Connection>, &Start) -> Result<(), String>>;

/// Marks the end of a rank's preparations.
#[derive(Clone)]
pub struct Start {
    switch: Rc<Switch>,
    failures: Arc<FailureCounters>,
}

impl Start {
    /// Returns when all ranks are prepared. The preparations are not explored: the oldest event
    /// always comes first.
    pub fn prepared(&self) {
        self.switch.pause(Pause::Prepared);
    }

    /// Returns the number of ranks that were lost so far.
    pub fn losses(&self) -> u32 {
        self.failures.losses.load(Ordering::SeqCst)
    }
}

pub(crate) struct Fibers {
    all: Vec<Fiber>,
    /// The addresses of each rank's port and switch, for prefetching alone.
    hints: Vec<(*const u8, *const u8)>,
    failure: Rc<RefCell<Option<String>>>,
    over: Rc<Cell<bool>>,
}

impl Fibers {
    /// Makes one fiber for each rank, each plugged into `machine`; none of them runs yet.
    pub(crate) fn new<E: Engine + 'static>(
        topology: &Topology,
        root_bytes: u64,
        stacks: &Rc<Stacks>,
        program: &Program,
        machine: &Shared<E>,
    ) -> Result<Fibers, String> {
        let mut fibers = Fibers {
            all: Vec::new(),
            hints: Vec::new(),
            failure: Rc::default(),
            over: Rc::default(),
        };
        for rank in (0..topology.ranks()).map(Rank) {
            let switch = Switch::new();
            let port = Box::new(Port::new(rank, machine, &switch, root_bytes));
            fibers.hints.push(((&raw const *port).cast(), Rc::as_ptr(&switch).cast()));
            let body = fibers.body(rank, port, program.clone(), &switch, machine.clone());
            let fiber = Fiber::new(stacks, &switch, body).map_err(|error| {
                format!(
                    "no memory for the stack of {rank}: {error}; see `ulimit -v`, or simulate \
                         fewer ranks"
                )
            })?;
            fibers.all.push(fiber);
        }
        Ok(fibers)
    }

    pub(crate) fn resume(&mut self, rank: usize, resume: Resume) -> Option<Pause> {
        self.all[rank].resume(resume)
    }

    /// Asks for what it takes to let a rank run.
    pub(crate) fn fetch(&self, rank: usize) {
        prefetch::value(&self.all[rank]);
        let (port, switch) = self.hints[rank];
        prefetch::lines(port, 2);
        prefetch::lines(switch, 1);
    }

    /// Ends a rank's fiber where it stands: it unwinds, and nothing that it does meanwhile counts.
    pub(crate) fn kill(&mut self, rank: usize) {
        self.over.set(true);
        self.all[rank].end();
        self.over.set(false);
    }

    /// The first failure of a rank since the last call.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.borrow_mut().take()
    }

    fn body<E: Engine + 'static>(
        &self,
        rank: Rank,
        port: Box<Port<E>>,
        program: Program,
        switch: &Rc<Switch>,
        machine: Shared<E>,
    ) -> impl FnOnce() + 'static {
        let (failure, over) = (self.failure.clone(), self.over.clone());
        let start = Start {
            switch: switch.clone(),
            failures: machine.borrow_mut().store().failures.clone(),
        };
        move || {
            let result = std::panic::catch_unwind(AssertUnwindSafe(|| program(port, &start)));
            let (lost, problem) = match result {
                Ok(Ok(())) => (None, None),
                Ok(Err(problem)) => (Some(ExitCause::Failed), Some(problem)),
                // The run was given up: go on unwinding.
                Err(panic) if over.get() => std::panic::resume_unwind(panic),
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text
                        .or_else(|| panic.downcast_ref::<&str>().copied())
                        .unwrap_or("something");
                    (Some(ExitCause::Panicked), Some(format!("panicked: {text}")))
                }
            };
            if let Some(problem) = problem {
                failure.borrow_mut().get_or_insert_with(|| format!("{rank}: {problem}"));
            }
            machine.borrow_mut().depart(rank, lost);
        }
    }
}

impl Drop for Fibers {
    fn drop(&mut self) {
        // Fibers that are dropped in the middle unwind, and must not take that for a failure of
        // theirs.
        self.over.set(true);
        self.all.clear();
    }
}
