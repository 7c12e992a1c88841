//! Calls with arguments at random, most of which make no sense: each returns a code, and memory
//! outside of what the caller gave stays as it is.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use farside_c::atomic::*;
use farside_c::call::*;
use farside_c::collective::*;
use farside_c::epoch::*;
use farside_c::job::*;
use farside_c::lock::*;
use farside_c::request::*;
use farside_c::status::*;
use farside_c::team::*;
use farside_c::transfer::*;
use farside_c::wait::*;
use farside_c::window::*;
use farside_fabric::random::SplitMix;

const CALLS: u64 = 60_000;
/// What lies before and behind the caller's memory.
const GUARD: [u8; 64] = [0xa5; 64];

/// Numbers at random, small ones and extremes among them.
struct Random(SplitMix);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    fn number(&mut self) -> u64 {
        match self.below(6) {
            0 => self.next(),
            1 => u64::MAX - self.below(10),
            2 => 1 << self.below(64),
            _ => self.below(80),
        }
    }

    fn code(&mut self) -> c_int {
        if self.below(20) == 0 { self.next() as c_int } else { self.below(9) as c_int - 1 }
    }

    fn handle(&mut self, good: u64) -> u64 {
        if self.below(10) == 0 { self.number() } else { good }
    }

    fn rank(&mut self) -> u32 {
        if self.below(5) == 0 { self.number() as u32 } else { 0 }
    }
}

/// Memory of the caller, between guards.
#[repr(C, align(64))]
struct Memory {
    before: [u8; 64],
    data: [u8; 128],
    after: [u8; 64],
}

struct World {
    world: farside_context_t,
    team: farside_team_t,
    window: farside_window_t,
    epoch: farside_epoch_t,
    lock: farside_lock_t,
    rwlock: farside_rwlock_t,
}

/// The arguments of a call. Lengths of the caller's memory are true, everything else is at random.
#[derive(Clone, Copy)]
struct Call {
    context: farside_context_t,
    team: farside_team_t,
    window: farside_window_t,
    epoch: farside_epoch_t,
    lock: farside_lock_t,
    rwlock: farside_rwlock_t,
    rank: u32,
    offset: u64,
    elsewhere: u64,
    value: u64,
    code: c_int,
    other: c_int,
    bits: c_int,
    pointer: *mut c_void,
    length: usize,
    count: usize,
}

impl Call {
    fn random(world: &World, random: &mut Random, memory: &mut Memory) -> Call {
        let start = random.below(40) as usize;
        let pointer = memory.data[start..].as_mut_ptr().cast();
        Call {
            context: farside_context_t { id: random.handle(world.world.id) },
            team: farside_team_t { id: random.handle(world.team.id) },
            window: farside_window_t { id: random.handle(world.window.id) },
            epoch: farside_epoch_t { id: random.handle(world.epoch.id) },
            lock: farside_lock_t { id: random.handle(world.lock.id) },
            rwlock: farside_rwlock_t { id: random.handle(world.rwlock.id) },
            rank: random.rank(),
            offset: random.number(),
            elsewhere: random.number(),
            value: random.next(),
            code: random.code(),
            other: random.code(),
            bits: [32, 64, 128, 63][random.below(4) as usize],
            pointer: if random.below(12) == 0 { null_mut() } else { pointer },
            length: random.below(80) as usize,
            count: random.below(5) as usize,
        }
    }

    fn transfer(self) -> c_int {
        let Call { context, window, rank, offset, pointer, length, value, .. } = self;
        let far = [self.elsewhere as usize, value as usize];
        let (counts, near) = ([self.count, 2], [8, 4]);
        let strides = farside_strides_t {
            dimensions: 2,
            counts: counts.as_ptr(),
            near_strides: near.as_ptr(),
            far_strides: far.as_ptr(),
            element_bytes: self.count,
        };
        let pieces = [offset, self.elsewhere].map(|offset| farside_piece_t {
            memory: pointer,
            offset,
            bytes: length,
        });
        let (offset_of_signal, operation) = (self.elsewhere, self.other);
        let signal = farside_signal_t { window, offset: offset_of_signal, operation, value };
        let scale = if value & 1 == 0 { null() } else { pointer.cast_const() };
        let mut request = farside_request_t { id: value };
        let (number, operation, count) = (self.code, self.other, self.count);
        // SAFETY: pointers are null or to memory of the length that is given; handles may be
        // anything.
        unsafe {
            match value % 11 {
                0 => farside_put(context, window, rank, offset, pointer, length),
                1 => farside_get(context, window, rank, offset, pointer, length),
                2 => farside_put_strided(context, window, rank, offset, pointer, &strides),
                3 => farside_get_strided(context, window, rank, offset, pointer, &strides),
                4 => farside_put_vector(context, window, rank, pieces.as_ptr(), 2),
                5 => farside_get_vector(context, window, rank, pieces.as_ptr(), 2),
                6 => farside_put_signal(context, window, rank, offset, pointer, length, &signal),
                7 => farside_put_nbi(context, window, rank, offset, pointer, length),
                8 => match farside_get_request(
                    context,
                    window,
                    rank,
                    offset,
                    pointer,
                    length,
                    &mut request,
                ) {
                    FARSIDE_OK => farside_request_wait(request),
                    _ => farside_request_wait(farside_request_t { id: self.elsewhere }),
                },
                9 => {
                    let beside = pointer.wrapping_byte_add(24);
                    let old = if pointer.is_null() { pointer } else { beside };
                    farside_get_accumulate(
                        context, window, rank, offset, pointer, old, count, number, operation,
                    )
                }
                _ => farside_accumulate(
                    context, window, rank, offset, pointer, count, number, operation, scale,
                ),
            }
        }
    }

    fn word(self) -> c_int {
        let Call { context, window, rank, offset, value, code, bits, pointer, .. } = self;
        let condition = farside_condition_t { window, offset, comparison: code, value };
        let (mut word, mut holds, mut which) = (0, 0, 0);
        // SAFETY: as above.
        unsafe {
            match value % 10 {
                0 => farside_atomic(
                    context, window, rank, offset, bits, code, pointer, pointer, pointer,
                ),
                1 => farside_fetch_add(context, window, rank, offset, value, &mut word),
                2 => farside_compare_swap(context, window, rank, offset, 0, value, &mut word),
                3 => farside_swap(context, window, rank, offset, value, &mut word),
                4 => farside_load(context, window, rank, offset, &mut word),
                5 => farside_store(context, window, rank, offset, value),
                6 => farside_post_add(context, window, rank, offset, value),
                7 => farside_wait(context, window, offset, bits, code, value, 1000, &mut word),
                8 => {
                    farside_test(context, window, offset, bits, code, value, &mut holds, null_mut())
                }
                _ => farside_wait_any(context, &condition, 1, 1000, &mut which, &mut word),
            }
        }
    }

    /// Does what ranks do together, alone.
    fn together(self) -> c_int {
        let Call { context, team, epoch, lock, rwlock, rank, offset, value, code, .. } = self;
        let Call { pointer, length, count, other, .. } = self;
        let (mut word, mut state, mut size, mut apart) = (0, 0, 0, [0u8; 128]);
        // SAFETY: as above.
        unsafe {
            match value % 18 {
                0 => farside_broadcast(team, rank, pointer, length),
                1 => farside_all_reduce(team, pointer, pointer, count, code, other),
                2 => farside_exclusive_scan(team, pointer, pointer, count, code, other),
                3 => farside_all_gather(team, pointer, length, apart.as_mut_ptr().cast()),
                4 => farside_epoch_put(epoch, rank, offset, pointer, length),
                5 => farside_epoch_fetch_op(epoch, rank, offset, code, value, &mut word),
                6 => farside_epoch_lock(epoch, rank, code),
                7 => farside_epoch_unlock(epoch, rank),
                8 => farside_epoch_fence(epoch),
                9 => farside_epoch_last_fence(epoch),
                10 => farside_lock_acquire(context, lock, 0),
                11 => farside_lock_release(lock),
                12 => farside_rwlock_read(context, rwlock, 0),
                13 => farside_rwlock_write(context, rwlock, 0),
                14 => farside_rwlock_release(rwlock),
                15 => farside_flush(context, rank),
                16 => farside_call(
                    context,
                    rank,
                    code as u32,
                    pointer,
                    length,
                    null_mut(),
                    0,
                    &mut size,
                ),
                _ => farside_peer_state(context, rank, &mut state, null_mut()),
            }
        }
    }
}

#[test]
fn nonsense_is_refused_and_touches_nothing() {
    let mut made = World {
        world: farside_context_t { id: 0 },
        team: farside_team_t { id: 0 },
        window: farside_window_t { id: 0 },
        epoch: farside_epoch_t { id: 0 },
        lock: farside_lock_t { id: 0 },
        rwlock: farside_rwlock_t { id: 0 },
    };
    // SAFETY: all pointers are to memory of this function.
    unsafe {
        assert_eq!(farside_join(&mut made.world), FARSIDE_OK);
        assert_eq!(farside_team_world(made.world, &mut made.team), FARSIDE_OK);
        assert_eq!(farside_window_allocate(made.team, 64, &mut made.window), FARSIDE_OK);
        let design = FARSIDE_EPOCH_DIRECT;
        assert_eq!(farside_epoch_allocate(made.team, 64, 8, design, &mut made.epoch), FARSIDE_OK);
        assert_eq!(farside_lock_create(made.team, 0, null(), &mut made.lock), FARSIDE_OK);
        assert_eq!(farside_rwlock_create(made.team, 0, null(), &mut made.rwlock), FARSIDE_OK);
    }
    let mut memory = Memory { before: GUARD, data: [0; 128], after: GUARD };
    let mut random = Random(SplitMix::new(7));
    let mut codes = [0u64; 22];
    for at in 0..CALLS {
        let arguments = Call::random(&made, &mut random, &mut memory);
        let code = match random.below(3) {
            0 => arguments.transfer(),
            1 => arguments.word(),
            _ => arguments.together(),
        };
        assert!((0..22).contains(&code), "call {at}: {code}");
        assert_ne!(code, FARSIDE_ERROR_INTERNAL, "call {at}");
        assert!(memory.before == GUARD && memory.after == GUARD, "call {at}");
        codes[code as usize] += 1;
    }
    assert!(codes[0] > CALLS / 20, "some calls make sense: {codes:?}");
    for seen in [FARSIDE_ERROR_RANK, FARSIDE_ERROR_BOUNDS, FARSIDE_ERROR_ARGUMENT] {
        assert!(codes[seen as usize] > 0, "{codes:?}");
    }
}
