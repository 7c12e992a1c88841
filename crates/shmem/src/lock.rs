//! Locks: a queue in the `long` that programs give, which every PE has (`d-mcs-packed` of
//! `farside::lock`).

use std::ffi::{c_int, c_long};
use std::time::Duration;

use farside::lock::frame::Right;
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
        loop {
            let waited = self
                .runtime
                .waiting(|context| context.wait_among(&self.runtime.all, own, &until, options));
            match waited {
                Err(Error::TimedOut { .. }) => {}
                done => return done,
            }
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_set_lock(lock: *mut c_long, call: Call) {
    packed::acquire::<Right>(&Lock::new(lock, call)).or_exit(call);
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_test_lock(lock: *mut c_long, call: Call) -> c_int {
    c_int::from(!packed::attempt(&Lock::new(lock, call)).or_exit(call))
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_clear_lock(lock: *mut c_long, call: Call) {
    let lock = Lock::new(lock, call);
    quiet_default(lock.runtime, call);
    packed::release::<Right>(&lock).or_exit(call);
}
