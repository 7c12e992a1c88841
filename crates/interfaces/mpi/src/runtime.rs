//! The library's state, from `MPI_Init` to `MPI_Finalize`.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::thread::JoinHandle;

use farside::raw::Memory;
use farside::{Error, Place, Rank, Result, World};

use crate::combination::Accumulates;
use crate::heap::Heap;
use crate::status::guarded;

pub(crate) struct Runtime {
    pub(crate) world: World,
    pub(crate) heap: Heap,
    /// The processes of all ranks, as this one's system numbers them.
    pub(crate) processes: Box<[i32]>,
    /// An address that every rank can read.
    pub(crate) probes: Box<[usize]>,
    /// Words of every rank: see [`crate::accumulate`] and [`crate::service`].
    pub(crate) control: Memory,
    pub(crate) service: Service,
    pub(crate) accumulates: Accumulates,
    pub(crate) lock: Option<Lock>,
}

/// The thread of this rank that serves, if there is one: see [`crate::service`].
#[derive(Default)]
pub(crate) struct Service {
    pub(crate) thread: RefCell<Option<Serving>>,
}

pub(crate) struct Serving {
    pub(crate) ends: Arc<AtomicBool>,
    pub(crate) thread: JoinHandle<()>,
}

// SAFETY: everything is used under `lock` if the program has asked for several threads; else it
// promises that one thread at a time calls.
unsafe impl Sync for Runtime {}
// SAFETY: as above.
unsafe impl Send for Runtime {}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());

/// A lock that the waiting thread lets go of now and then.
pub(crate) struct Lock {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    waiting: AtomicU32,
}

/// So often a thread yields to those that wait for the lock which it let go of: a mutex would be
/// its own again before another one wakes up.
const YIELDS: u32 = 64;

impl Lock {
    pub(crate) fn new() -> Lock {
        let mutex = UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER);
        Lock { mutex, waiting: AtomicU32::new(0) }
    }

    fn acquire(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // SAFETY: it is initialized and stays where it is: the runtime is on the heap.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn release(&self) {
        // SAFETY: as above, and this thread has it.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }

    /// Lets a thread that waits have the lock first.
    fn acquire_again(&self) {
        let before = self.waiting.load(Ordering::Relaxed);
        for _ in 0..YIELDS {
            if before == 0 || self.waiting.load(Ordering::Relaxed) < before {
                break;
            }
            std::thread::yield_now();
        }
        self.acquire();
    }
}

pub(crate) fn if_running() -> Option<&'static Runtime> {
    // SAFETY: it was leaked, and is freed by `farside_mpi_finish`, the last call.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

/// Makes a state that was leaked, or null, that of the library.
pub(crate) fn set_running(runtime: *mut Runtime) {
    RUNTIME.store(runtime, Ordering::Release);
}

/// Runs a call with the state, alone in the library.
#[inline]
pub(crate) fn with(call: impl FnOnce(&'static Runtime) -> Result<()>) -> c_int {
    guarded(|| {
        let runtime = if_running()
            .ok_or_else(|| Error::InvalidState("MPI is not initialized, or is finalized".into()))?;
        let Some(lock) = &runtime.lock else { return call(runtime) };
        lock.acquire();
        let _release = Release(lock);
        call(runtime)
    })
}

struct Release<'a>(&'a Lock);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Runtime {
    /// Makes a call of MPI that may wait, while other threads may be in the library.
    pub(crate) fn meanwhile<R>(&self, call: impl FnOnce() -> R) -> R {
        if let Some(lock) = &self.lock {
            lock.release();
        }
        let result = call();
        if let Some(lock) = &self.lock {
            lock.acquire_again();
        }
        result
    }

    /// Takes a word of a rank's control memory that is zero while nobody has it, and gives it back
    /// when what is returned is dropped: also after an error, and after a panic.
    pub(crate) fn hold(&self, rank: Rank, at: u64) -> Result<Held<'_>> {
        let word: Place<'_, u64> = self.control.at(rank, at).cast();
        while self.world.compare_swap(word, 0, mark(&self.world))? != 0 {
            self.world.relax()?;
        }
        Ok(Held { world: &self.world, word })
    }

    pub(crate) fn has_threads(&self) -> bool {
        self.lock.is_some()
    }

    /// Returns the process of a rank, if this one may reach its memory by the kernel's calls.
    pub(crate) fn reachable(&self, rank: Rank) -> Option<i32> {
        let is_near = self.world.topology().same_node(rank, self.world.rank());
        let process = *self.processes.get(rank.index())?;
        (is_near && !asks() && crate::foreign::is_allowed(process, self.probes[rank.index()]))
            .then_some(process)
    }

    #[inline(always)]
    pub(crate) fn heap(&self) -> &Heap {
        &self.heap
    }
}

/// A word that this rank has taken.
pub(crate) struct Held<'a> {
    world: &'a World,
    word: Place<'a, u64>,
}

impl Held<'_> {
    /// Gives the word back. Whoever wants it waits as long as that fails, so the caller must know.
    pub(crate) fn release(self) -> Result<()> {
        std::mem::ManuallyDrop::new(self).give_back()
    }

    fn give_back(&self) -> Result<()> {
        let (world, me) = (self.world, mark(self.world));
        // The second attempt changes nothing if the first was carried out after all.
        let again = |_| world.compare_swap(self.word, me, 0).map(drop);
        world.store(self.word, 0).or_else(again)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // After an error, which says enough. A rank that is lost needs its words no more.
        let _ = self.give_back();
    }
}

/// What a word holds that this rank has taken.
fn mark(world: &World) -> u64 {
    u64::from(world.rank().0) + 1
}

/// Returns whether the ranks of this node outnumber its processors.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_is_crowded() -> c_int {
    let Some(runtime) = if_running() else { return 0 };
    let world = &runtime.world;
    let near = |&rank: &Rank| world.topology().same_node(rank, world.rank());
    let ranks: Vec<Rank> = world.ranks().filter(near).collect();
    c_int::from(world.is_crowded(&ranks))
}

/// Returns the number of this process's node.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_node() -> c_int {
    let Some(runtime) = if_running() else { return 0 };
    runtime.world.topology().node_of(runtime.world.rank()).0 as c_int
}

/// Returns whether the user wants that memory of a process is read and written by itself alone.
fn asks() -> bool {
    std::env::var_os("FARSIDE_MPI_SERVICE").is_some()
}

/// Returns an address that every process can read, if it can read any of this one.
pub(crate) fn probe() -> usize {
    ptr::from_ref(&RUNTIME).addr()
}

/// Lets other processes reach the memory of this one by the kernel's calls: a window needs it.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_allow_others() {
    if !asks() {
        crate::foreign::allow_others();
    }
}

/// Returns whether this process reaches the memory of all these ranks of the world by the kernel's
/// calls; if not, they must [serve](farside_mpi_serve).
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_reaches_all(ranks: *const c_int, count: usize) -> c_int {
    let Some(runtime) = if_running() else { return 0 };
    // SAFETY: the border passes so many.
    let ranks = unsafe { std::slice::from_raw_parts(ranks, count) };
    let me = runtime.world.rank();
    let reaches = |&rank: &c_int| {
        let rank = Rank(rank as u32);
        rank == me || runtime.reachable(rank).is_some()
    };
    c_int::from(ranks.iter().all(reaches))
}

/// Has a thread of this process read and write its memory for others.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_serve() -> c_int {
    with(|runtime| runtime.service.start(runtime))
}
