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

/// How many calls are made.
const CALLS: u64 = 60_000;
/// What lies before and behind the caller's memory.
const GUARD: [u8; 64] = [0xa5; 64];

/// Numbers at random (splitmix64), small ones and extremes among them.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
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

/// Makes one call. Lengths of the caller's memory are true, everything else is at random.
fn call(world: &World, random: &mut Random, memory: &mut Memory) -> c_int {
    let context = farside_context_t { id: random.handle(world.world.id) };
    let team = farside_team_t { id: random.handle(world.team.id) };
    let window = farside_window_t { id: random.handle(world.window.id) };
    let epoch = farside_epoch_t { id: random.handle(world.epoch.id) };
    let lock = farside_lock_t { id: random.handle(world.lock.id) };
    let rwlock = farside_rwlock_t { id: random.handle(world.rwlock.id) };
    let (rank, offset, value) = (random.rank(), random.number(), random.next());
    let (code, other, bits) =
        (random.code(), random.code(), [32, 64, 128, 63][random.below(4) as usize]);
    let start = random.below(40) as usize;
    let length = random.below(80) as usize;
    let pointer: *mut c_void =
        if random.below(12) == 0 { null_mut() } else { memory.data[start..].as_mut_ptr().cast() };
    let (mut word, mut flag, mut size, mut apart) = (0u64, 0, 0usize, [0u8; 128]);
    let mut request = farside_request_t { id: random.number() };
    let steps = [random.number() as usize, random.number() as usize];
    let counts = [random.below(3) as usize, random.below(3) as usize];
    let near = [24, 8];
    let strides = farside_strides_t {
        dimensions: 2,
        counts: counts.as_ptr(),
        near_strides: near.as_ptr(),
        far_strides: steps.as_ptr(),
        element_bytes: random.below(9) as usize,
    };
    let pieces = [
        farside_piece_t { memory: pointer, offset, bytes: length },
        farside_piece_t {
            memory: memory.data.as_mut_ptr().cast(),
            offset: random.number(),
            bytes: random.below(64) as usize,
        },
    ];
    let signal = farside_signal_t { window, offset: random.number(), operation: other, value };
    let condition = farside_condition_t { window, offset, comparison: code, value };
    // SAFETY: pointers are null or to memory of the length that is given; handles may be anything.
    unsafe {
        match random.below(34) {
            0 => farside_put(context, window, rank, offset, pointer, length),
            1 => farside_get(context, window, rank, offset, pointer, length),
            2 => farside_put_strided(context, window, rank, offset, pointer, &strides),
            3 => farside_get_strided(context, window, rank, offset, pointer, &strides),
            4 => farside_put_vector(context, window, rank, pieces.as_ptr(), 2),
            5 => farside_get_vector(context, window, rank, pieces.as_ptr(), 2),
            6 => farside_put_signal(context, window, rank, offset, pointer, length, &signal),
            7 => {
                let count = random.below(5) as usize;
                let scale = if value & 1 == 0 { null() } else { pointer.cast_const() };
                farside_accumulate(
                    context, window, rank, offset, pointer, count, code, other, scale,
                )
            }
            8 => {
                farside_atomic(context, window, rank, offset, bits, code, pointer, pointer, pointer)
            }
            9 => farside_fetch_add(context, window, rank, offset, value, &mut word),
            10 => farside_compare_swap(context, window, rank, offset, 0, value, &mut word),
            11 => farside_swap(context, window, rank, offset, value, &mut word),
            12 => farside_load(context, window, rank, offset, &mut word),
            13 => farside_store(context, window, rank, offset, value),
            14 => farside_post_add(context, window, rank, offset, value),
            15 => farside_wait(context, window, offset, bits, code, value, 1000, &mut word),
            16 => farside_test(context, window, offset, bits, code, value, &mut flag, null_mut()),
            17 => farside_wait_any(context, &condition, 1, 1000, &mut size, &mut word),
            18 => farside_flush(context, rank),
            19 => farside_put_nbi(context, window, rank, offset, pointer, length),
            20 => {
                let started = farside_get_request(
                    context,
                    window,
                    rank,
                    offset,
                    pointer,
                    length,
                    &mut request,
                );
                if value & 1 == 0 { farside_request_wait(request) } else { started }
            }
            21 => farside_request_test(request, &mut flag),
            22 => farside_broadcast(team, rank, pointer, length),
            23 => farside_all_reduce(team, pointer, pointer, random.below(5) as usize, code, other),
            24 => farside_exclusive_scan(team, pointer, pointer, 2, code, other),
            25 => farside_all_gather(team, pointer, length, apart.as_mut_ptr().cast()),
            26 => farside_epoch_put(epoch, rank, offset, pointer, length),
            27 => farside_epoch_fetch_op(epoch, rank, offset, code, value, &mut word),
            28 => match value % 4 {
                0 => farside_epoch_lock(epoch, rank, code),
                1 => farside_epoch_unlock(epoch, rank),
                2 => farside_epoch_fence(epoch),
                _ => farside_epoch_last_fence(epoch),
            },
            29 => match value % 2 {
                0 => farside_lock_acquire(context, lock, 0),
                _ => farside_lock_release(lock),
            },
            30 => match value % 3 {
                0 => farside_rwlock_read(context, rwlock, 0),
                1 => farside_rwlock_write(context, rwlock, 0),
                _ => farside_rwlock_release(rwlock),
            },
            31 => {
                farside_call(context, rank, code as u32, pointer, length, null_mut(), 0, &mut size)
            }
            32 => farside_window_bytes(window, rank, &mut size),
            _ => farside_peer_state(context, rank, &mut flag, &mut flag),
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
    let mut random = Random(7);
    let mut codes = [0u64; 22];
    for at in 0..CALLS {
        let code = call(&made, &mut random, &mut memory);
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
