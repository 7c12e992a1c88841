//! Locks: a queue in the `long` that programs give, which every PE has (`d-mcs-packed` of
//! `farside::lock`).

use std::ffi::{c_int, c_long};
use std::panic::Location;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use farside::fabric::{ActivityKind, Purpose, SegmentId};
use farside::lock::packed::{self, Half, Halves};
use farside::{Context, Error, Place, Rank, Result, WaitOptions};

use crate::context::quiet_default;
use crate::exit::{self, Call, OrExit};
use crate::region::Region;
use crate::runtime::{Runtime, runtime};
use crate::transfer::symmetric;

/// How long a wait lasts before it begins anew.
const SLICE: Duration = Duration::from_millis(10);

struct Lock {
    runtime: &'static Runtime,
    region: &'static Region,
    offset: u64,
}

impl Lock {
    fn new(lock: *const c_long, call: Call) -> Lock {
        let runtime = runtime(call);
        if !lock.is_aligned() {
            exit::end(call, &format!("the lock at address {lock:p} is not aligned"));
        }
        let (region, offset) = symmetric(runtime, lock.cast(), size_of::<c_long>(), call);
        Lock { runtime, region, offset }
    }
}

impl Halves for Lock {
    fn half(&self, rank: Rank, half: Half) -> Place<'_, u32> {
        self.region.memory.at(rank, self.offset).cast::<u32>().skip(half as usize)
    }

    /// Not the same for all locks of an array.
    fn home(&self) -> Rank {
        let word = self.offset / size_of::<c_long>() as u64;
        Rank((word % u64::from(self.runtime.world.size())) as u32)
    }

    fn me(&self) -> Rank {
        self.runtime.world.rank()
    }

    fn with<R>(&self, act: impl FnOnce(&Context) -> Result<R>) -> Result<R> {
        self.runtime.default.with(self.runtime, act)
    }

    fn wait(&self, until: impl Fn(u32) -> bool) -> Result<u32> {
        let own = self.half(self.me(), Half::Node);
        let options = WaitOptions { timeout: Some(SLICE), soon: true };
        let purpose = Purpose::new(ActivityKind::Lock, "set_lock").of(self.segment(), self.offset);
        self.runtime.waiting(purpose, |context| {
            match context.wait_among(&self.runtime.all, own, &until, options) {
                Err(Error::TimedOut { .. }) => None,
                done => Some(done),
            }
        })
    }
}

impl Lock {
    fn segment(&self) -> SegmentId {
        self.region.memory.segment()
    }

    fn key(&self) -> (SegmentId, u64) {
        (self.segment(), self.offset)
    }

    fn held(&self) -> MutexGuard<'_, Vec<(SegmentId, u64)>> {
        self.runtime.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this PE has the lock, for `shmem_clear_lock` and for viewers.
    #[track_caller]
    fn note_held(&self) {
        self.held().push(self.key());
        let place = Location::caller();
        self.runtime.default.with(self.runtime, |context| {
            context.note_held(self.segment(), self.offset, place);
        });
    }

    /// Notes that this PE has the lock no more; false if it did not have it.
    fn note_released(&self) -> bool {
        let mut held = self.held();
        let Some(at) = held.iter().position(|&lock| lock == self.key()) else { return false };
        held.swap_remove(at);
        drop(held);
        self.runtime.default.with(self.runtime, |context| {
            context.note_released(self.segment(), self.offset);
        });
        true
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_set_lock(lock: *mut c_long, call: Call) {
    let lock = Lock::new(lock, call);
    // Where there are several threads, another one may be about to clear it.
    if !lock.runtime.has_threads() && lock.held().contains(&lock.key()) {
        exit::end(call, &"this PE holds the lock already");
    }
    packed::acquire(&lock).or_exit(call);
    lock.note_held();
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_test_lock(lock: *mut c_long, call: Call) -> c_int {
    let lock = Lock::new(lock, call);
    let is_taken = packed::attempt(&lock).or_exit(call);
    if is_taken {
        lock.note_held();
    }
    c_int::from(!is_taken)
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_clear_lock(lock: *mut c_long, call: Call) {
    let lock = Lock::new(lock, call);
    if !lock.note_released() {
        match packed::holder(&lock).or_exit(call) {
            Some(Rank(pe)) => exit::end(call, &format!("PE {pe} holds the lock, not this PE")),
            None => exit::end(call, &"no PE holds the lock"),
        }
    }
    quiet_default(lock.runtime, call);
    packed::release(&lock).or_exit(call);
}
