//! How the library is set up by the first call and taken down by the last, and what it says of
//! itself.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use farside::raw::{self, Memory};
use farside::{Context, Rank};
use farside_interop::PLACES;

use crate::environment::{self, Environment};
use crate::exit::{self, Call, OrExit};
use crate::heap::Heap;
use crate::region::Regions;
use crate::runtime::{Ctx, MULTIPLE, Runtime, TeamState, if_running, replace, runtime};
use crate::seen::Seen;
use crate::{context, races, set, statics, strands, team};

/// How many calls of `shmem_finalize` are still to come.
static STARTS: AtomicU32 = AtomicU32::new(0);

/// Joins the job; returns the state, and a context for the thread that ends the job.
fn start(requested: c_int, call: Call) -> (Runtime, Option<Context>) {
    let environment = Environment::read().unwrap_or_else(|error| exit::bad_setting(call, &error));
    let world = farside::join().or_exit(call);
    exit::set_pe(world.rank().0 as c_int);
    if world.rank() == Rank(0) {
        if environment.version {
            println!("farside {}: OpenSHMEM 1.5", env!("CARGO_PKG_VERSION"));
        }
        if environment.info {
            println!("{}", environment::HELP);
        }
    }
    world.find_places_by(Some(PLACES));
    exit::want_callers(world.probe().is_some());
    races::note_unseen(&world);
    let threads = requested.clamp(0, MULTIPLE);
    let has_threads = threads == MULTIPLE;
    let regions = Regions::new(has_threads);
    let control = Memory::allocate(&world.team(), set::control_bytes(world.size())).or_exit(call);
    let heap = Heap::start(&world, &regions, environment.heap_bytes).or_exit(call);
    statics::share(&world, &regions).or_exit(call);
    let shared = world.split_by_node().and_then(|team| team.detach()).or_exit(call);
    let several =
        |wanted: bool| -> Option<Context> { wanted.then(|| world.context().or_exit(call)) };
    let world_team = if has_threads {
        // Its collectives must not stop the default context.
        let again = world.split(Some(0), 0).or_exit(call);
        let again = again.map(|team| team.detach().or_exit(call));
        TeamState::new(world.team().members(), world.rank(), again, several(true))
    } else {
        TeamState::new(world.team().members(), world.rank(), None, None)
    };
    let shared_members = shared.attach(&world).members().to_vec();
    let shared_team =
        TeamState::new(&shared_members, world.rank(), Some(shared), several(has_threads))
            .descends_from_shared(true);
    let farewell = several(has_threads);
    let all = world.ranks().collect();
    let default = Ctx::of_world(has_threads);
    world.barrier().or_exit(call);
    let runtime = Runtime {
        world,
        environment,
        threads,
        all,
        regions,
        heap: Mutex::new(heap),
        default,
        world_team,
        shared_team,
        sets: Mutex::default(),
        waiters: Mutex::default(),
        locks: Mutex::default(),
        control,
        seen: Seen::default(),
    };
    (runtime, farewell)
}

/// Sets the library up, at the first call.
fn init(requested: c_int, call: Call) -> &'static Runtime {
    if STARTS.fetch_add(1, Ordering::AcqRel) == 0 {
        if exit::pe() == exit::FINALIZED {
            exit::not_running(call);
        }
        let (runtime, farewell) = start(requested, call);
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        replace(ptr::from_ref(runtime).cast_mut());
        exit::watch(&runtime.world, farewell, runtime.control.clone());
        // SAFETY: the handler is a function of this library, which is never unloaded while the
        // program runs.
        unsafe { on_exit(at_exit, ptr::null_mut()) };
        return runtime;
    }
    runtime(call)
}

unsafe extern "C" {
    fn on_exit(function: unsafe extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// A program may return from `main` without `shmem_finalize`. One that exits with an error does
/// not wait for the others, which may be waiting for it: they are told. A child that the program
/// has forked is not a PE, and its end means nothing.
unsafe extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    let is_rank = if_running().is_some_and(|runtime| runtime.world.is_own_process());
    if is_rank && status == 0 && !exit::is_under_way() {
        STARTS.store(1, Ordering::Release);
        finalize(Call::new(c"exit"));
    }
}

fn finalize(call: Call) {
    let take_one = |starts: u32| starts.checked_sub(1);
    match STARTS.fetch_update(Ordering::AcqRel, Ordering::Acquire, take_one) {
        Ok(1) => {}
        // Once too often is as good as once.
        Err(_) if exit::pe() == exit::FINALIZED => return,
        Err(_) => exit::not_running(call),
        Ok(_) => return,
    }
    let runtime = runtime(call);
    if !runtime.world.is_own_process() {
        return;
    }
    context::quiet_all(runtime, call);
    runtime.world_team.with(runtime, |team| raw::barrier_to_leave(team)).or_exit(call);
    exit::unwatch();
    let runtime = replace(ptr::null_mut());
    exit::set_pe(exit::FINALIZED);
    strands::wait_for_tellers();
    context::forget_all();
    team::forget_all();
    // SAFETY: it was leaked by `init`, and no other call is under way.
    drop(unsafe { Box::from_raw(runtime) });
}

/// Sets the library up; returns 0, and the level of threads that the program gets.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_init(
    requested: c_int,
    provided: *mut c_int,
    call: Call,
) -> c_int {
    let runtime = init(requested, call);
    if !provided.is_null() {
        // SAFETY: by the specification it is an int of the caller.
        unsafe { provided.write(runtime.threads) };
    }
    0
}

/// Sets the library up once, however often it is called.
#[unsafe(no_mangle)]
extern "C" fn farside_shmem_start_pes(call: Call) {
    if if_running().is_none() {
        init(0, call);
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_finalize(call: Call) {
    finalize(call);
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_my_pe(call: Call) -> c_int {
    runtime(call).world.rank().0 as c_int
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_n_pes(call: Call) -> c_int {
    runtime(call).world.size() as c_int
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_query_thread(call: Call) -> c_int {
    runtime(call).threads
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_is_initialized() -> c_int {
    c_int::from(if_running().is_some())
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_pe_accessible(pe: c_int, call: Call) -> c_int {
    let size = runtime(call).world.size();
    c_int::from(u32::try_from(pe).is_ok_and(|pe| pe < size))
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_addr_accessible(
    address: *const c_void,
    pe: c_int,
    call: Call,
) -> c_int {
    let is_symmetric = runtime(call).regions.find(address.addr(), 1).is_some();
    c_int::from(is_symmetric && farside_shmem_pe_accessible(pe, call) == 1)
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_ptr(dest: *const c_void, pe: c_int, call: Call) -> *mut c_void {
    let runtime = runtime(call);
    let Some((region, offset)) = runtime.regions.find(dest.addr(), 1) else {
        return ptr::null_mut();
    };
    let rank = match u32::try_from(pe) {
        Ok(rank) if rank < runtime.world.size() => Rank(rank),
        _ => return ptr::null_mut(),
    };
    if rank == runtime.world.rank() {
        return dest.cast_mut();
    }
    let near = region.memory.near(rank);
    match near.or_else(|| races::pointer(runtime, rank, region.memory.segment())) {
        Some(base) => base.as_ptr().wrapping_add(offset as usize).cast(),
        None => ptr::null_mut(),
    }
}
