//! The job: joining and leaving it, its ranks and nodes, contexts of threads, what was lost.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::ops::Deref;

use farside::fabric::{Atomicity, Foreign, Probe, ProbeEvent};
use farside::raw::Request;
use farside::{Context, Error, Exchange, ExitCause, PeerState, Rank, Result, World};

use crate::status::{FARSIDE_NO_RANK, Out, bad, guarded, output};
use farside_interop::handles::Table;
use farside_interop::{PLACES, caller};

/// One thread's access to the job, with completions and an order of its own. What farside_join
/// gives is the context of the first thread; others take theirs with farside_context_create.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct farside_context_t {
    /// The number of the context; 0 is none.
    pub id: u64,
}

/// What a context has done to one rank, or to all together.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct farside_counters_t {
    /// Puts of any shape.
    pub puts: u64,
    /// Bytes put.
    pub put_bytes: u64,
    /// Gets of any shape.
    pub gets: u64,
    /// Bytes gotten.
    pub get_bytes: u64,
    /// Accumulates of any shape.
    pub accumulates: u64,
    /// Bytes accumulated.
    pub accumulate_bytes: u64,
    /// Atomics, signals among them.
    pub atomics: u64,
    /// Calls of handlers.
    pub calls: u64,
    /// Waits that did not find their event at once, for whatever rank.
    pub waits: u64,
}

/// Exchanges bytes among all processes of a job: gives the `bytes` bytes at `mine` to all, and
/// writes what all gave to `all`, one after the other by rank. All processes call it with the same
/// length, and it returns when all have called it. `user` is what farside_join_with was given. It
/// returns 0, or any other number if it failed.
pub type farside_all_gather_t = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        mine: *const c_void,
        bytes: usize,
        all: *mut c_void,
    ) -> c_int,
>;

/// A rank that has not joined yet.
pub const FARSIDE_STATE_STARTING: c_int = 0;
/// A rank that is a member of the job.
pub const FARSIDE_STATE_ALIVE: c_int = 1;
/// A rank that has left in order.
pub const FARSIDE_STATE_LEFT: c_int = 2;
/// A rank that a signal ended, whose number is given.
pub const FARSIDE_STATE_SIGNALLED: c_int = 3;
/// A rank that exited without leaving, with the status that is given.
pub const FARSIDE_STATE_EXITED: c_int = 4;
/// A rank that failed in another way: it panicked or returned an error.
pub const FARSIDE_STATE_FAILED: c_int = 5;
/// A rank that stopped answering.
pub const FARSIDE_STATE_SILENT: c_int = 6;
/// A rank whose process ended without leaving, nobody knows how.
pub const FARSIDE_STATE_VANISHED: c_int = 7;

/// What a context's handle stands for.
pub(crate) struct ContextEntry {
    access: Access,
    /// Transfers that complete at the next flush.
    implicit: RefCell<VecDeque<(Rank, Request)>>,
    /// The numbers of places for the checker of races, by return address.
    places: RefCell<HashMap<usize, u32>>,
    /// How many things borrow the context: held locks, windows with epochs, started collectives.
    pub(crate) users: Cell<u32>,
}

#[allow(clippy::large_enum_variant, reason = "contexts are few, and every operation looks here")]
enum Access {
    World(World),
    Thread(Context),
}

// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
static CONTEXTS: Table<ContextEntry> = unsafe { Table::new("context") };

impl ContextEntry {
    fn new(access: Access) -> ContextEntry {
        let (implicit, places) = (RefCell::default(), RefCell::default());
        ContextEntry { access, implicit, places, users: Cell::new(0) }
    }

    #[inline]
    pub(crate) fn context(&self) -> &Context {
        match &self.access {
            Access::World(world) => world,
            Access::Thread(context) => context,
        }
    }

    /// Returns the context for a transfer; the checker of races, if there is one, is told where the
    /// program calls until what is returned is dropped.
    #[inline]
    pub(crate) fn told(&self) -> Told<'_> {
        let context = self.context();
        if let Some(probe) = context.probe() {
            self.tell(probe.as_ref());
        }
        Told { context }
    }

    #[cold]
    fn tell(&self, probe: &dyn Probe) {
        let address = caller::address().unwrap_or(0);
        let mut places = self.places.borrow_mut();
        let name = || caller::name(address, "farside");
        let number = || probe.event(ProbeEvent::NamePlace(&name())).unwrap_or(0) as u32;
        let place = *places.entry(address).or_insert_with(number);
        let (is_put, is_nonblocking, atomicity) = (false, false, Atomicity::default());
        let foreign = Foreign { place, is_put, is_nonblocking, atomicity };
        probe.event(ProbeEvent::Foreign(Some(foreign)));
    }

    /// Returns the world, of which collectives and allocations are.
    pub(crate) fn world(&self) -> Result<&World> {
        match &self.access {
            Access::World(world) => Ok(world),
            Access::Thread(_) => Err(Error::InvalidState(
                "this is the context of another thread: make teams and handlers from the context \
                 that farside_join gave"
                    .into(),
            )),
        }
    }

    /// Adds a transfer that completes at the next flush. The fabric bears only so many: if they
    /// are too many, the oldest is waited for.
    pub(crate) fn add_implicit(&self, rank: Rank, request: Request) -> Result<()> {
        let mut implicit = self.implicit.borrow_mut();
        let most = self.context().job().caps.outstanding_max.max(1) as usize;
        implicit.push_back((rank, request));
        if implicit.len() < most {
            return Ok(());
        }
        implicit.pop_front().map_or(Ok(()), |(_, oldest)| oldest.wait(self.context()))
    }

    /// Completes the transfers to a rank, or to all, that complete at a flush.
    #[inline]
    pub(crate) fn complete_implicit(&self, rank: Option<Rank>) -> Result<()> {
        if self.implicit.borrow().is_empty() { Ok(()) } else { self.complete_some(rank) }
    }

    #[cold]
    fn complete_some(&self, rank: Option<Rank>) -> Result<()> {
        let all = std::mem::take(&mut *self.implicit.borrow_mut());
        let mut first_error = Ok(());
        for (peer, request) in all {
            if rank.is_none_or(|rank| rank == peer) {
                first_error = first_error.and(request.wait(self.context()));
            } else {
                self.implicit.borrow_mut().push_back((peer, request));
            }
        }
        first_error
    }
}

/// A context whose operations are the program's.
pub(crate) struct Told<'c> {
    context: &'c Context,
}

impl Deref for Told<'_> {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        self.context
    }
}

impl Drop for Told<'_> {
    #[inline]
    fn drop(&mut self) {
        self.context.tell(|| ProbeEvent::Foreign(None));
    }
}

/// Looks a context up.
#[inline]
pub(crate) fn context(handle: farside_context_t) -> Result<&'static ContextEntry> {
    CONTEXTS.get(handle.id)
}

fn insert(access: Access) -> Result<farside_context_t> {
    Ok(farside_context_t { id: CONTEXTS.insert(ContextEntry::new(access))? })
}

/// Joins the job that this process was started for by `farside run`, `mpirun`, `mpiexec` or `srun`,
/// or, if it was started without a launcher, a job of one rank. A process joins once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_join(world: *mut farside_context_t) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let world = unsafe { Out::new(world, "world")? };
        world.set(insert(joined(farside::join()?))?);
        Ok(())
    })
}

fn joined(world: World) -> Access {
    world.find_places_by(Some(PLACES));
    Access::World(world)
}

/// An exchange over a function of the caller.
struct Callback {
    rank: u32,
    size: u32,
    gather: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int,
    user: *mut c_void,
}

impl Exchange for Callback {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; mine.len().saturating_mul(self.size as usize)];
        let (from, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: the function is what the caller of `farside_join_with` says it is; it reads and
        // writes no more than it is told.
        match unsafe { (self.gather)(self.user, from, mine.len(), to) } {
            0 => Ok(all),
            code => {
                Err(Error::Program(format!("the function that exchanges bytes returned {code}")))
            }
        }
    }
}

/// Joins a job whose processes another runtime has started, as `rank` of `size`. What the processes
/// have to tell each other they exchange with `gather`, which is called with `user` and is not used
/// any more when the call returns. All processes call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_join_with(
    rank: u32,
    size: u32,
    gather: farside_all_gather_t,
    user: *mut c_void,
    world: *mut farside_context_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let world = unsafe { Out::new(world, "world")? };
        let gather = gather.ok_or_else(|| bad("`gather` is null: farside_join_with needs it"))?;
        let joined = farside::join_with(Box::new(Callback { rank, size, gather, user }))?;
        world.set(insert(self::joined(joined))?);
        Ok(())
    })
}

/// Leaves the job in order. Windows, teams and locks that were not freed go with it. A process that
/// ends without leaving counts as lost, and the ranks that need it get FARSIDE_ERROR_LOST. It is an
/// error if a lock is held, a window with epochs is not freed, or a started collective is not
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_leave(world: farside_context_t) -> c_int {
    guarded(|| {
        context(world)?.world()?;
        free(world)
    })
}

fn free(handle: farside_context_t) -> Result<()> {
    let entry = context(handle)?;
    match entry.users.get() {
        0 => {}
        users => {
            return Err(Error::InvalidState(format!(
                "{users} locks that are held, windows with epochs or started collectives still \
                 use this context: release, free or wait for them first"
            )));
        }
    }
    let completed = entry.complete_implicit(None);
    drop(CONTEXTS.remove(handle.id)?);
    completed
}

/// Ends this process at once with `status`, without leaving the job: the other ranks are told that
/// it is lost, and `farside run` ends them unless it was told to keep going. It returns only if
/// there is no such context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_abort(world: farside_context_t, status: c_int) -> c_int {
    guarded(|| {
        context(world)?;
        std::process::exit(status)
    })
}

/// Makes a context for another thread of this rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_context_create(
    context: farside_context_t,
    created: *mut farside_context_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let created = unsafe { Out::new(created, "created")? };
        let beside = self::context(context)?.context().context()?;
        created.set(insert(Access::Thread(beside))?);
        Ok(())
    })
}

/// Frees a context that farside_context_create has made. What was put through it and not flushed
/// may be lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_context_free(context: farside_context_t) -> c_int {
    guarded(|| match &self::context(context)?.access {
        Access::Thread(_) => free(context),
        Access::World(_) => {
            Err(Error::InvalidState("only farside_leave frees the context of the job".into()))
        }
    })
}

/// Gives this rank's number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_rank(context: farside_context_t, rank: *mut u32) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        unsafe { Out::new(rank, "rank")? }.set(self::context(context)?.context().rank().0);
        Ok(())
    })
}

/// Gives the number of ranks of the job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_size(context: farside_context_t, size: *mut u32) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        unsafe { Out::new(size, "size")? }.set(self::context(context)?.context().size());
        Ok(())
    })
}

/// Gives the number of nodes of the job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_nodes(context: farside_context_t, nodes: *mut u32) -> c_int {
    guarded(|| {
        let count = self::context(context)?.context().topology().nodes();
        // SAFETY: by the caller's promise.
        unsafe { Out::new(nodes, "nodes")? }.set(count);
        Ok(())
    })
}

/// Gives the node that a rank is on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_node_of(
    context: farside_context_t,
    rank: u32,
    node: *mut u32,
) -> c_int {
    guarded(|| {
        let topology = self::context(context)?.context().topology();
        topology.check(Rank(rank))?;
        // SAFETY: by the caller's promise.
        unsafe { Out::new(node, "node")? }.set(topology.node_of(Rank(rank)).0);
        Ok(())
    })
}

/// Gives 1 if a rank is on this rank's node, so that loads and stores may reach its windows; else
/// 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_is_near(
    context: farside_context_t,
    rank: u32,
    is_near: *mut c_int,
) -> c_int {
    guarded(|| {
        let context = self::context(context)?.context();
        context.topology().check(Rank(rank))?;
        let near = context.topology().same_node(context.rank(), Rank(rank));
        // SAFETY: by the caller's promise.
        unsafe { Out::new(is_near, "is_near")? }.set(near.into());
        Ok(())
    })
}

/// Gives the time in nanoseconds, for measuring: since some moment that all ranks of a node share.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_clock(context: farside_context_t, ns: *mut u64) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        unsafe { Out::new(ns, "ns")? }.set(self::context(context)?.context().now_ns());
        Ok(())
    })
}

/// Gives what a context has done to a rank so far, or to all together for FARSIDE_NO_RANK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_counters(
    context: farside_context_t,
    rank: u32,
    counters: *mut farside_counters_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let out = unsafe { Out::new(counters, "counters")? };
        let context = self::context(context)?.context();
        let counters = context.counters();
        let counted = if rank == FARSIDE_NO_RANK {
            counters.total()
        } else {
            context.topology().check(Rank(rank))?;
            counters.peer(Rank(rank))
        };
        out.set(farside_counters_t {
            puts: counted.puts,
            put_bytes: counted.put_bytes,
            gets: counted.gets,
            get_bytes: counted.get_bytes,
            accumulates: counted.accumulates,
            accumulate_bytes: counted.accumulate_bytes,
            atomics: counted.atomics,
            calls: counted.calls,
            waits: counters.effort.waits,
        });
        Ok(())
    })
}

/// Gives the number of ranks that were lost, and writes as many of them to `ranks` as there is
/// `room` for, in the order of their numbers. `ranks` may be null if `room` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_lost(
    context: farside_context_t,
    ranks: *mut u32,
    room: usize,
    count: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (ranks, count) = unsafe { (output(ranks, room, "ranks")?, Out::new(count, "count")?) };
        let context = self::context(context)?.context();
        let lost: Vec<Rank> = context.ranks().filter(|&rank| context.is_lost(rank)).collect();
        ranks.iter_mut().zip(&lost).for_each(|(rank, lost)| *rank = lost.0);
        count.set(lost.len());
        Ok(())
    })
}

/// Gives the state of a rank, one of FARSIDE_STATE_..., and the signal or the exit status that
/// belongs to it, else 0. `number` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_peer_state(
    context: farside_context_t,
    rank: u32,
    state: *mut c_int,
    number: *mut c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let state = unsafe { Out::new(state, "state")? };
        let context = self::context(context)?.context();
        context.topology().check(Rank(rank))?;
        let (code, what) = match context.peer_state(Rank(rank)) {
            PeerState::Starting => (FARSIDE_STATE_STARTING, 0),
            PeerState::Alive => (FARSIDE_STATE_ALIVE, 0),
            PeerState::Left | PeerState::Lost(ExitCause::Left) => (FARSIDE_STATE_LEFT, 0),
            PeerState::Lost(ExitCause::Signal(signal)) => (FARSIDE_STATE_SIGNALLED, signal),
            PeerState::Lost(ExitCause::Status(status)) => (FARSIDE_STATE_EXITED, status),
            PeerState::Lost(ExitCause::Panicked | ExitCause::Failed) => (FARSIDE_STATE_FAILED, 0),
            PeerState::Lost(ExitCause::Silent) => (FARSIDE_STATE_SILENT, 0),
            PeerState::Lost(ExitCause::Vanished) => (FARSIDE_STATE_VANISHED, 0),
        };
        state.set(code);
        if !number.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { Out::new(number, "number")? }.set(what);
        }
        Ok(())
    })
}
