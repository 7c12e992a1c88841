//! How the library starts, in `MPI_Init`, and ends, in `MPI_Finalize`.

use std::ffi::{c_int, c_void};
use std::ptr;

use farside::raw::Memory;
use farside::{Error, Exchange, Result, World};

use crate::combination::Accumulates;
use crate::heap::Heap;
use crate::runtime::{Lock, Runtime, Service, if_running, probe, set_running};
use crate::service::CONTROL_BYTES;
use crate::status::guarded;

/// What the border gives at the start.
#[repr(C)]
#[derive(Clone, Copy)]
struct Host {
    rank: c_int,
    size: c_int,
    /// Whether several threads may call at once.
    has_threads: c_int,
    /// Gives `bytes` bytes at `mine` to all processes, and has those of all written to `all`.
    gather: unsafe extern "C" fn(mine: *const c_void, bytes: usize, all: *mut c_void) -> c_int,
    /// Has MPI make progress.
    progress: unsafe extern "C" fn(),
}

impl Host {
    fn check(&self) -> Result<(u32, u32)> {
        match (u32::try_from(self.rank), u32::try_from(self.size)) {
            (Ok(rank), Ok(size)) if rank < size => Ok((rank, size)),
            _ => Err(Error::InvalidArgument(format!("rank {} of {}", self.rank, self.size))),
        }
    }
}

struct ByMpi(Host);

impl Exchange for ByMpi {
    fn rank(&self) -> u32 {
        self.0.rank as u32
    }

    fn size(&self) -> u32 {
        self.0.size as u32
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        gather(&self.0, mine)
    }
}

fn gather(host: &Host, mine: &[u8]) -> Result<Vec<u8>> {
    let mut all = vec![0; mine.len() * host.size as usize];
    // SAFETY: the border's function reads and writes so many bytes.
    let code = unsafe { (host.gather)(mine.as_ptr().cast(), mine.len(), all.as_mut_ptr().cast()) };
    match code {
        0 => Ok(all),
        code => Err(Error::Join(format!("MPI's allgather failed with error {code}"))),
    }
}

/// Joins with all others, or fails on all. One that could not join may wait until the others of its
/// node have left: so they first ask the job for it, and then MPI.
fn join(host: &Host) -> Result<World> {
    let joined =
        farside::join_with(Box::new(ByMpi(*host))).and_then(|world| match world.barrier() {
            Err(error) if error.lost_rank().is_some() => Err(error),
            met => Ok((world, met)),
        });
    let is_well = matches!(&joined, Ok((_, Ok(()))));
    let are_well = gather(host, &[u8::from(is_well)])?;
    let (world, met) = joined?;
    met?;
    match are_well.iter().position(|&is_well| is_well == 0) {
        Some(rank) => {
            Err(Error::Join(format!("rank {rank} could not join; its own error says why")))
        }
        None => Ok(world),
    }
}

fn start(host: Host) -> Result<Runtime> {
    host.check()?;
    let world = join(&host)?;
    world.find_places_by(Some(farside_interop::PLACES));
    world.note_unseen("one-sided operations of MPI");
    let process = gather(&host, &std::process::id().to_le_bytes())?;
    let processes = process.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect();
    let probe = gather(&host, &probe().to_le_bytes())?;
    let probes = probe.as_chunks().0.iter().map(|&bytes| usize::from_le_bytes(bytes)).collect();
    let control = Memory::allocate(&world.team(), CONTROL_BYTES)?;
    let heap = Heap::start(&world)?;
    world.barrier()?;
    let lock = (host.has_threads != 0).then(Lock::new);
    let progress = host.progress;
    world.call_while_waiting(Some(std::sync::Arc::new(move || {
        // SAFETY: a function of the border that needs nothing.
        let call = || unsafe { progress() };
        match if_running() {
            Some(runtime) => runtime.meanwhile(call),
            None => call(),
        }
    })));
    Ok(Runtime {
        world,
        heap,
        processes,
        probes,
        control,
        service: Service::default(),
        accumulates: Accumulates::new(),
        lock,
    })
}

/// Starts the library. Collective over all processes.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_start(host: *const Host) -> c_int {
    guarded(|| {
        // SAFETY: the border passes one.
        let host = unsafe { *host };
        let runtime = Box::leak(Box::new(start(host)?));
        set_running(runtime);
        Ok(())
    })
}

/// Ends the library. Collective over all processes.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_finish() -> c_int {
    guarded(|| {
        let is_rank = |runtime: &&Runtime| runtime.world.is_own_process();
        let Some(runtime) = if_running().filter(is_rank) else { return Ok(()) };
        let flushed = runtime.world.flush_all();
        let met = runtime.world.barrier().and(flushed);
        runtime.service.stop(runtime);
        set_running(ptr::null_mut());
        // SAFETY: it was leaked by `farside_mpi_start`, and this is the last call.
        let runtime = unsafe { Box::from_raw(ptr::from_ref(runtime).cast_mut()) };
        // Memory of `MPI_Alloc_mem` that the program has not freed stays until the process ends.
        std::mem::forget(runtime.heap);
        met
    })
}
