//! Contexts: completion domains of their own, for threads that must not disturb each other.

use std::cell::RefCell;
use std::ffi::{c_int, c_long, c_void};
use std::sync::Mutex;

use farside::Result;
use farside_interop::handles::Table;

use crate::exit::{self, Call, OrExit};
use crate::races;
use crate::runtime::{Ctx, Runtime, TeamHandle, find_team, runtime};

/// What programs hold: a number in a pointer's clothes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct CtxHandle(*mut c_void);

/// SHMEM_CTX_INVALID and SHMEM_CTX_DEFAULT.
const INVALID: u64 = 0;
const DEFAULT: u64 = 1;
/// SHMEM_CTX_PRIVATE and SHMEM_CTX_SERIALIZED: the program keeps threads apart.
const KEPT_APART: c_long = 1 | 2;

impl CtxHandle {
    pub(crate) fn number(self) -> u64 {
        self.0.addr() as u64
    }

    #[inline]
    pub(crate) fn is_default(self) -> bool {
        self.number() == DEFAULT
    }

    pub(crate) fn from_number(number: u64) -> CtxHandle {
        CtxHandle(std::ptr::without_provenance_mut(number as usize))
    }
}

// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
static CONTEXTS: Table<Ctx> = unsafe { Table::new("context") };

impl Ctx {
    #[inline]
    fn quiet(&self, runtime: &Runtime) -> Result<()> {
        self.with(runtime, |context| {
            while let Some(request) = self.pending.borrow_mut().pop_front() {
                request.wait(context)?;
            }
            // The program stores through `shmem_ptr`, too.
            context.note_stores();
            context.flush_all()?;
            races::completed(runtime, self, context);
            Ok(())
        })
    }
}

/// Returns a context; exits if there is none with that handle.
#[inline]
pub(crate) fn context(runtime: &'static Runtime, handle: CtxHandle, call: Call) -> &'static Ctx {
    match handle.number() {
        DEFAULT => &runtime.default,
        INVALID => exit::end(call, &"the context is SHMEM_CTX_INVALID"),
        number => CONTEXTS.get(number).or_exit(call),
    }
}

#[inline]
pub(crate) fn quiet_default(runtime: &Runtime, call: Call) {
    runtime.default.quiet(runtime).or_exit(call);
}

pub(crate) fn quiet_all(runtime: &Runtime, call: Call) {
    quiet_default(runtime, call);
    for handle in CONTEXTS.handles() {
        if let Ok(ctx) = CONTEXTS.get(handle) {
            ctx.quiet(runtime).or_exit(call);
        }
    }
}

/// Tells the checker of races, if there is one, that a barrier completes what any context has
/// started or posted. The specification says so of barriers, and in a note that it is meant of the
/// default context: programs that read it either way are right.
pub(crate) fn tell_all_complete(runtime: &Runtime) {
    if runtime.world.probe().is_none() {
        return;
    }
    for handle in CONTEXTS.handles() {
        if let Ok(ctx) = CONTEXTS.get(handle)
            && let Some(own) = &ctx.own
        {
            races::completed(runtime, ctx, own);
        }
    }
}

pub(crate) fn forget_all() {
    for handle in CONTEXTS.handles() {
        let _ = CONTEXTS.remove(handle);
    }
}

/// Destroys the contexts of a team that the program has not destroyed.
pub(crate) fn forget_those_of(runtime: &Runtime, team: TeamHandle, call: Call) {
    for handle in CONTEXTS.handles() {
        if CONTEXTS.get(handle).is_ok_and(|ctx| ctx.team == team)
            && let Ok(ctx) = CONTEXTS.remove(handle)
        {
            ctx.quiet(runtime).or_exit(call);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_ctx_create(
    team: TeamHandle,
    options: c_long,
    ctx: *mut CtxHandle,
    call: Call,
) -> c_int {
    let runtime = runtime(call);
    let mut made = INVALID;
    if let Some(state) = find_team(runtime, team, call) {
        // To a checker of races each context is one of its own, also with one thread.
        let own = match runtime.world.probe() {
            Some(_) => Some(runtime.world.context().or_exit(call)),
            None => runtime.another_context(),
        };
        let shared = runtime.has_threads() && options & KEPT_APART == 0;
        let is_world = team == TeamHandle::WORLD;
        let new = Ctx {
            own,
            lock: shared.then(Mutex::default),
            pending: RefCell::default(),
            team,
            members: (!is_world).then(|| state.members.clone()),
            is_shared: state.is_shared,
        };
        made = CONTEXTS.insert(new).or_exit(call);
    }
    if !ctx.is_null() {
        // SAFETY: by the specification it is a context of the caller's.
        unsafe { ctx.write(CtxHandle::from_number(made)) };
    }
    c_int::from(made == INVALID)
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_ctx_destroy(ctx: CtxHandle, call: Call) {
    let runtime = runtime(call);
    if ctx.number() == DEFAULT {
        exit::end(call, &"SHMEM_CTX_DEFAULT cannot be destroyed");
    }
    if ctx.number() != INVALID {
        let ctx = CONTEXTS.remove(ctx.number()).or_exit(call);
        ctx.quiet(runtime).or_exit(call);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_ctx_get_team(
    ctx: CtxHandle,
    team: *mut TeamHandle,
    call: Call,
) -> c_int {
    let runtime = runtime(call);
    let (found, code) = match ctx.number() {
        INVALID => (TeamHandle::INVALID, -1),
        _ => (context(runtime, ctx, call).team, 0),
    };
    if !team.is_null() {
        // SAFETY: by the specification it is a team of the caller's.
        unsafe { team.write(found) };
    }
    code
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_quiet(ctx: CtxHandle, call: Call) {
    let runtime = runtime(call);
    if ctx.number() != INVALID {
        context(runtime, ctx, call).quiet(runtime).or_exit(call);
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_fence(ctx: CtxHandle, call: Call) {
    let runtime = runtime(call);
    if ctx.number() != INVALID {
        let ctx = context(runtime, ctx, call);
        ctx.with(runtime, |context| {
            let _mark = races::mark(runtime, ctx, context, call, races::Told::Other);
            context.fence()
        })
        .or_exit(call);
    }
}
