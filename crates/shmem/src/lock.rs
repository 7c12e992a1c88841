//! Locks: a queue in the `long` that programs give, which every PE has.
//!
//! Paper:     \[RMALOCK16\] listings 2 and 3 (D-MCS), in one word of every PE.
//! Differs:   the halves of the word are the tail, used at one PE only, and this PE's node; a
//!            node at rest is zero, as programs initialize it.
//! State:     2 x 32 bits on every PE.
//! Invariant: at most one PE between `set` and `clear`; entry in the order of the swaps.
//! Ordering:  `clear` completes what was put before it passes the lock on.
//! Cost:      set 1 atomic, +1 atomic if queued; clear 1 load and 1 atomic, alone or not.
//! Checked:   programs of the tests, with contention.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use farside::{Error, Place, Rank, Result, WaitOptions};

use crate::context::quiet_default;
use crate::exit::{self, Call, OrExit};
use crate::region::Region;
use crate::runtime::{Runtime, runtime};
use crate::transfer::symmetric;

/// Which half of the word is which.
const TAIL: usize = 0;
const NODE: usize = 1;
/// The bit of a node to which the lock was passed; the others name its successor, counted from
/// one.
const GRANTED: u32 = 1 << 31;

struct Lock {
    runtime: &'static Runtime,
    region: &'static Region,
    offset: u64,
    call: Call,
}

impl Lock {
    fn new(lock: *const c_long, call: Call) -> Lock {
        let runtime = runtime(call);
        if !lock.is_aligned() {
            exit::end(call, &format!("the lock at address {lock:p} is not aligned"));
        }
        let (region, offset) = symmetric(runtime, lock.cast(), size_of::<c_long>(), call);
        Lock { runtime, region, offset, call }
    }

    /// The PE at which the lock's tail is: not the same for all locks of an array.
    fn home(&self) -> Rank {
        let word = self.offset / size_of::<c_long>() as u64;
        Rank((word % u64::from(self.runtime.world.size())) as u32)
    }

    fn half(&self, rank: Rank, half: usize) -> Place<'static, u32> {
        self.region.memory.at(rank, self.offset).cast::<u32>().skip(half)
    }

    /// This PE, as links name it.
    fn me(&self) -> u32 {
        self.runtime.world.rank().0 + 1
    }

    fn own(&self) -> Place<'static, u32> {
        self.half(self.runtime.world.rank(), NODE)
    }

    fn set(&self) -> Result<()> {
        let (runtime, default) = (self.runtime, &self.runtime.default);
        let tail = self.half(self.home(), TAIL);
        let before = default.with(runtime, |context| context.swap(tail, self.me()))?;
        if before == 0 {
            return Ok(());
        }
        let pred = self.half(Rank(before - 1), NODE);
        default.with(runtime, |context| context.or(pred, self.me()))?;
        self.wait(|node| node & GRANTED != 0)?;
        // A successor may link itself at this moment.
        default.with(runtime, |context| context.fetch_and(self.own(), !GRANTED)).map(drop)
    }

    /// Waits until this PE's node satisfies `until`.
    fn wait(&self, until: impl Fn(u32) -> bool) -> Result<u32> {
        loop {
            let options = WaitOptions { timeout: Some(Duration::from_millis(10)), soon: true };
            let waited = self.runtime.waiting(|context| {
                context.wait_among(&self.runtime.all, self.own(), &until, options)
            });
            match waited {
                Err(Error::TimedOut { .. }) => {}
                done => return done,
            }
        }
    }

    /// Takes the lock if it is free.
    fn test(&self) -> Result<bool> {
        let default = &self.runtime.default;
        let tail = self.half(self.home(), TAIL);
        Ok(default.with(self.runtime, |context| context.compare_swap(tail, 0, self.me()))? == 0)
    }

    fn clear(&self) -> Result<()> {
        let default = &self.runtime.default;
        let mut node = default.with(self.runtime, |context| context.load(self.own()))?;
        if node == 0 {
            let tail = self.half(self.home(), TAIL);
            let held =
                default.with(self.runtime, |context| context.compare_swap(tail, self.me(), 0))?;
            if held == self.me() {
                return Ok(());
            }
            if held == 0 {
                exit::end(self.call, &"the lock is not held");
            }
            // A successor has taken its place, and is about to link itself.
            node = self.wait(|node| node != 0)?;
        }
        default.with(self.runtime, |context| {
            context.store(self.own(), 0)?;
            context.or(self.half(Rank(node - 1), NODE), GRANTED)
        })
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_set_lock(lock: *mut c_long, call: Call) {
    Lock::new(lock, call).set().or_exit(call);
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_test_lock(lock: *mut c_long, call: Call) -> c_int {
    c_int::from(!Lock::new(lock, call).test().or_exit(call))
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_clear_lock(lock: *mut c_long, call: Call) {
    let lock = Lock::new(lock, call);
    quiet_default(lock.runtime, call);
    lock.clear().or_exit(call);
}
