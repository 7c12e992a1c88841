//! The library's state, from `shmem_init` to `shmem_finalize`: contexts and teams, too.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use farside::fabric::{Purpose, SegmentId};
use farside::raw::{Memory, Request};
use farside::{Context, Detached, Rank, Result, Team, World};
use farside_interop::handles::Table;

use crate::environment::Environment;
use crate::exit::{self, Call, OrExit};
use crate::heap::Heap;
use crate::region::Regions;
use crate::seen::Seen;

/// SHMEM_THREAD_MULTIPLE: several threads may be in the library at once.
pub(crate) const MULTIPLE: c_int = 3;

/// A PE's state from `shmem_init` to `shmem_finalize`.
pub(crate) struct Runtime {
    pub(crate) world: World,
    pub(crate) environment: Environment,
    /// The level of threads that the program was given.
    pub(crate) threads: c_int,
    pub(crate) all: Box<[Rank]>,
    pub(crate) regions: Regions,
    pub(crate) heap: Mutex<Heap>,
    pub(crate) default: Ctx,
    pub(crate) world_team: TeamState,
    pub(crate) shared_team: TeamState,
    /// The teams of the active sets that were used. They stay until the job is over.
    pub(crate) sets: Mutex<HashMap<SetKey, Box<TeamState>>>,
    /// Contexts for waits of threads, where there are several.
    pub(crate) waiters: Mutex<Vec<Context>>,
    /// The locks that this PE holds.
    pub(crate) locks: Mutex<Vec<(SegmentId, u64)>>,
    /// A word of every PE that tells it to exit, and words by which the members of an active set
    /// meet.
    pub(crate) control: Memory,
    /// What the checker of races is told, if there is one.
    pub(crate) seen: Seen,
}

// SAFETY: the world's context, which is not for several threads at once, is used under the lock of
// the default context if the program has asked for several threads; else the program promises that
// one thread at a time is in the library.
unsafe impl Sync for Runtime {}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());

/// Makes a state that was leaked, or null, that of the library; returns the one before.
pub(crate) fn replace(runtime: *mut Runtime) -> *mut Runtime {
    RUNTIME.swap(runtime, Ordering::AcqRel)
}

/// Returns the state; exits if the program has not set the library up, or has taken it down.
#[inline]
pub(crate) fn runtime(call: Call) -> &'static Runtime {
    let runtime = RUNTIME.load(Ordering::Acquire);
    // SAFETY: it was leaked, and is freed by `finalize`, during which by the specification's rules
    // no other call is under way.
    match unsafe { runtime.as_ref() } {
        Some(runtime) => runtime,
        None => exit::not_running(call),
    }
}

#[inline]
pub(crate) fn if_running() -> Option<&'static Runtime> {
    // SAFETY: as in `runtime`.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

impl Runtime {
    #[inline]
    pub(crate) fn has_threads(&self) -> bool {
        self.threads == MULTIPLE
    }

    /// Returns the PE with a number of the world.
    #[inline]
    pub(crate) fn rank(&self, pe: c_int, call: Call) -> Rank {
        match u32::try_from(pe) {
            Ok(rank) if rank < self.world.size() => Rank(rank),
            _ => exit::no_such_pe(call, pe, self.world.size() as usize),
        }
    }

    /// Waits for a purpose, in slices: calls `slice`, which waits for a while, with a context in
    /// which this thread may wait, until it returns something. To viewers that is one wait.
    pub(crate) fn waiting<R>(
        &self,
        purpose: Purpose,
        mut slice: impl FnMut(&Context) -> Option<R>,
    ) -> R {
        if !self.has_threads() {
            return in_slices(&self.world, purpose, slice);
        }
        let idle = || self.waiters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let taken = idle().pop();
        let Some(context) = taken.or_else(|| self.another_context()) else {
            // Others need the default context, too.
            loop {
                if let Some(result) = self.default.with(self, &mut slice) {
                    return result;
                }
            }
        };
        let result = in_slices(&context, purpose, slice);
        idle().push(context);
        result
    }

    /// Makes a context beside the world's, if there are several threads and the fabric has one
    /// left.
    pub(crate) fn another_context(&self) -> Option<Context> {
        self.has_threads().then(|| self.default.with(self, |context| context.context()).ok())?
    }
}

fn in_slices<R>(
    context: &Context,
    purpose: Purpose,
    mut slice: impl FnMut(&Context) -> Option<R>,
) -> R {
    let _doing = context.begin(purpose);
    loop {
        if let Some(result) = slice(context) {
            return result;
        }
    }
}

/// A completion domain.
pub(crate) struct Ctx {
    /// The context of its own, if there are several threads and the fabric has one left; else it
    /// shares the world's, and the lock of the default context.
    pub(crate) own: Option<Context>,
    /// Held during an operation, if several threads may use it at once.
    pub(crate) lock: Option<Mutex<()>>,
    /// Transfers that the next quiet completes.
    pub(crate) pending: RefCell<VecDeque<Request>>,
    pub(crate) team: TeamHandle,
    /// The PEs of its team; `None` if that is the world.
    pub(crate) members: Option<Arc<[Rank]>>,
    /// Whether its team descends from SHMEM_TEAM_SHARED.
    pub(crate) is_shared: bool,
}

// SAFETY: what must not be used by several threads at once is used under the lock, or the program
// has promised to keep threads apart.
unsafe impl Sync for Ctx {}

impl Ctx {
    /// The default context.
    pub(crate) fn of_world(has_threads: bool) -> Ctx {
        Ctx {
            own: None,
            lock: has_threads.then(Mutex::default),
            pending: RefCell::default(),
            team: TeamHandle::WORLD,
            members: None,
            is_shared: false,
        }
    }

    /// Calls `act` with the context, which no other thread uses meanwhile.
    #[inline]
    pub(crate) fn with<R>(&self, runtime: &Runtime, act: impl FnOnce(&Context) -> R) -> R {
        let (lock, context) = match &self.own {
            Some(own) => (&self.lock, own),
            None => (&runtime.default.lock, &*runtime.world),
        };
        let _guard =
            lock.as_ref().map(|lock| lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        act(context)
    }

    /// Returns the PE with a number of the context's team.
    #[inline]
    pub(crate) fn rank(&self, runtime: &Runtime, pe: c_int, call: Call) -> Rank {
        let Some(members) = &self.members else {
            return runtime.rank(pe, call);
        };
        match usize::try_from(pe).ok().and_then(|pe| members.get(pe)) {
            Some(&rank) => rank,
            None => exit::no_such_pe(call, pe, members.len()),
        }
    }

    /// Notes a transfer that the next quiet completes. The fabric bears only so many: if they are
    /// too many, the oldest is waited for.
    pub(crate) fn add(&self, context: &Context, request: Request) -> Result<()> {
        let mut pending = self.pending.borrow_mut();
        pending.push_back(request);
        let most = context.job().caps.outstanding_max.max(1) as usize;
        match pending.len() < most {
            true => Ok(()),
            false => pending.pop_front().map_or(Ok(()), |oldest| oldest.wait(context)),
        }
    }
}

/// What programs hold: a number in a pointer's clothes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct TeamHandle(*mut c_void);

impl TeamHandle {
    pub(crate) const INVALID: TeamHandle = TeamHandle(ptr::null_mut());
    pub(crate) const WORLD: TeamHandle = TeamHandle(ptr::without_provenance_mut(1));
    pub(crate) const SHARED: TeamHandle = TeamHandle(ptr::without_provenance_mut(2));

    pub(crate) fn number(self) -> u64 {
        self.0.addr() as u64
    }

    pub(crate) fn from_number(number: u64) -> TeamHandle {
        TeamHandle(ptr::without_provenance_mut(number as usize))
    }
}

pub(crate) struct TeamState {
    pub(crate) members: Arc<[Rank]>,
    pub(crate) index: usize,
    /// What its collectives need; `None` for that of the world.
    pub(crate) group: Option<Detached>,
    /// The context of its collectives, if there are several threads.
    pub(crate) own: Option<Context>,
    /// How many contexts the program wants to make of it.
    pub(crate) contexts: c_int,
    /// Whether it descends from SHMEM_TEAM_SHARED: what its contexts do atomically is atomic to
    /// contexts of such teams alone.
    pub(crate) is_shared: bool,
}

// SAFETY: by the specification, the collectives of a team are made by one thread at a time.
unsafe impl Sync for TeamState {}

// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
pub(crate) static TEAMS: Table<TeamState> = unsafe { Table::new("team") };

impl TeamState {
    pub(crate) fn new(
        members: &[Rank],
        me: Rank,
        group: Option<Detached>,
        own: Option<Context>,
    ) -> TeamState {
        let index = members.iter().position(|&rank| rank == me).unwrap_or(0);
        let is_shared = false;
        TeamState { members: members.into(), index, group, own, contexts: 0, is_shared }
    }

    /// Makes it one that descends from SHMEM_TEAM_SHARED, or not.
    pub(crate) fn descends_from_shared(self, is_shared: bool) -> TeamState {
        TeamState { is_shared, ..self }
    }

    /// Calls `act` with the team and the context of its collectives.
    #[inline]
    pub(crate) fn with<R>(&self, runtime: &Runtime, act: impl FnOnce(&Team<'_>) -> R) -> R {
        match (&self.group, &self.own) {
            (Some(group), Some(own)) => act(&group.attach(own)),
            (Some(group), None) => {
                runtime.default.with(runtime, |context| act(&group.attach(context)))
            }
            (None, _) => act(&runtime.world.team()),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }
}

/// Returns a team; `None` for SHMEM_TEAM_INVALID. Exits if there is none with that handle.
#[inline]
pub(crate) fn find_team(
    runtime: &'static Runtime,
    handle: TeamHandle,
    call: Call,
) -> Option<&'static TeamState> {
    match handle {
        TeamHandle::INVALID => None,
        TeamHandle::WORLD => Some(&runtime.world_team),
        TeamHandle::SHARED => Some(&runtime.shared_team),
        other => Some(TEAMS.get(other.number()).or_exit(call)),
    }
}

/// What tells active sets apart. Collectives of one set with two arrays may be under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SetKey {
    pub(crate) start: usize,
    pub(crate) stride: usize,
    pub(crate) size: usize,
    pub(crate) psync: usize,
}
