//! Operations on memory that is mapped here and shared with others.
//!
//! This is where every fabric that reaches memory with the processor ends up: the near path of a
//! rank, the agent that serves far ranks, the simulator. Other ranks may touch the same bytes at
//! the same moment, so nothing here is a plain Rust access: words are relaxed atomics, and long
//! runs are copied by one string instruction, whose effect on each byte is that of a relaxed
//! access. A race therefore yields old or new bytes, and is not the undefined behaviour that a race
//! of plain accesses would be. (Rust's model leaves open what racing atomics of different sizes do;
//! processors do not.)

mod copy;
mod held;
mod regions;

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use portable_atomic::AtomicU128;

use crate::address::Rank;
use crate::operation::{Atomic, Sum, Width};
use copy::{copy_in, copy_out};

pub use copy::full_fence;
pub use held::Held;

#[cfg(target_endian = "big")]
compile_error!(
    "farside's messages are little-endian; a big-endian port has to convert at the edges of \
     memory.rs"
);

/// One rank's part of a segment, reachable from here by ordinary instructions.
///
/// All methods are safe: they check bounds and alignment, and a race with another rank is not
/// undefined behaviour.
#[derive(Clone)]
pub struct Mapped {
    base: NonNull<u8>,
    bytes: u64,
    salt: u64,
    /// `None` if the fabric sees every operation itself.
    watched: Option<NonNull<AtomicU64>>,
    locks: Option<NonNull<Stripes>>,
    _hold: Arc<dyn Send + Sync>,
}

/// The words of a mapping that processors of several ranks reach at the same time. See
/// [`Mapped::with_words`].
#[derive(Debug, Clone, Copy)]
pub struct SharedWords {
    /// A number that tells the mapping's words from those of other segments: the same for every
    /// process that maps it, and a multiple of 64.
    pub salt: u64,
    /// The [`Mapped::watch_bits`] of the words that sleepers of the memory's owner wait for.
    pub watched: NonNull<AtomicU64>,
    /// The locks of the owner's memory for sums.
    pub locks: NonNull<Stripes>,
}

/// Locks for sums, each for every 64th page: zero, or one more than the rank that holds it.
#[repr(C, align(128))]
pub struct Stripes([AtomicU32; 64]);

impl Default for Stripes {
    fn default() -> Stripes {
        Stripes(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

/// The pages of the stripes, and the longest sum under one lock.
const STRIPE_BYTES: u64 = 4096;

// SAFETY: the memory is shared by construction and only touched by atomic (or equivalent) accesses;
// `_hold` keeps it mapped.
unsafe impl Send for Mapped {}
// SAFETY: as above; no method needs exclusive access.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Describes a mapping: where it is, and how long it is. It is never
    /// [watched](Mapped::is_watched), and its sums take no locks: for a fabric that sees every
    /// operation and carries them out one at a time.
    ///
    /// # Safety
    ///
    /// `base` must be aligned to 16 bytes and valid for reads and writes of `bytes` bytes for as
    /// long as `hold` lives; and no Rust references to the memory may exist except under the
    /// contract of [`Mapped::base`].
    pub unsafe fn new(base: NonNull<u8>, bytes: u64, hold: Arc<dyn Send + Sync>) -> Mapped {
        debug_assert!(base.as_ptr().addr().is_multiple_of(16));
        Mapped { base, bytes, salt: 0, watched: None, locks: None, _hold: hold }
    }

    /// Returns the same mapping with the words that let several ranks use it directly.
    ///
    /// # Safety
    ///
    /// The words must be valid for as long as the mapping's holder lives.
    #[must_use]
    pub unsafe fn with_words(self, words: SharedWords) -> Mapped {
        debug_assert!(words.salt.is_multiple_of(16));
        let SharedWords { salt, watched, locks } = words;
        Mapped { salt, watched: Some(watched), locks: Some(locks), ..self }
    }

    /// Returns how many bytes this part has.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the first byte. Dereferencing it as a plain reference is sound only while no other
    /// rank touches the same bytes (while none writes them, for a shared reference).
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns what is added to an offset before its [`watch_bits`] are computed.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// Returns the bits under which sleepers announce that they wait for the word at `offset`; a
    /// pair has those of both halves.
    #[inline]
    pub fn watch_bits(&self, offset: u64, width: Width) -> u64 {
        let first = watch_bits(self.salt.wrapping_add(offset));
        if width == Width::Pair {
            first | watch_bits(self.salt.wrapping_add(offset + 8))
        } else {
            first
        }
    }

    /// Returns whether the word at `offset` is among those whose bits are in `watched`.
    #[inline]
    pub fn is_among(&self, watched: u64, offset: u64, width: Width) -> bool {
        let is_in = |offset: u64| {
            let bits = watch_bits(self.salt.wrapping_add(offset));
            watched & bits == bits
        };
        watched != 0 && (is_in(offset) || (width == Width::Pair && is_in(offset + 8)))
    }

    /// Returns whether the owner may be asleep in a wait for the word at `offset`: then it must be
    /// woken after the word was changed.
    ///
    /// The load is sequentially consistent, as are the atomics of [`Mapped::atomic`]: a waiter
    /// announces itself before it looks at the word for the last time, so one of the two sees the
    /// other.
    #[inline]
    pub fn is_watched(&self, offset: u64, width: Width) -> bool {
        let Some(watched) = self.watched else { return false };
        // SAFETY: `watched` is valid while `self` lives.
        let watched = unsafe { watched.as_ref() }.load(Ordering::SeqCst);
        self.is_among(watched, offset, width)
    }

    /// Returns the word that has the [bits](Mapped::watch_bits) of all words that sleepers of the
    /// owner wait for, if there is one: while it is zero, nothing is watched.
    pub fn watched(&self) -> Option<NonNull<AtomicU64>> {
        self.watched
    }

    /// Returns whether the owner may be asleep in a wait for one of the words that `bytes` at
    /// `offset` touch. A sleeper that announces itself at this moment may be missed: the load is
    /// not ordered with the writes before it.
    #[inline]
    pub fn is_watched_within(&self, offset: u64, bytes: u64) -> bool {
        let Some(watched) = self.watched else { return false };
        // SAFETY: `watched` is valid while `self` lives.
        let watched = unsafe { watched.as_ref() }.load(Ordering::Relaxed);
        watched != 0 && bytes != 0 && self.has_watched(watched, offset, bytes)
    }

    #[cold]
    fn has_watched(&self, watched: u64, offset: u64, bytes: u64) -> bool {
        let (first, last) = (offset & !7, (offset + (bytes - 1)) & !7);
        let mut words = (first..=last).step_by(8);
        // There are 64 bits: so many words touch all of them.
        (last - first) / 8 >= 64 || words.any(|at| self.is_among(watched, at, Width::W64))
    }

    /// Returns whether `bytes` at `offset` are inside.
    #[inline]
    fn holds(&self, offset: u64, bytes: u64) -> bool {
        bytes <= self.bytes && offset <= self.bytes - bytes
    }

    /// Writes `from` at `offset`; false, and nothing written, if it does not fit.
    #[inline]
    #[must_use]
    pub fn put(&self, offset: u64, from: &[u8]) -> bool {
        if !self.holds(offset, from.len() as u64) {
            return false;
        }
        // SAFETY: inside the mapping, by the check above.
        unsafe { copy_in(self.base.as_ptr().add(offset as usize), from.as_ptr(), from.len()) };
        true
    }

    /// Reads into `into` from `offset`; false, and nothing read, if that is not all inside.
    #[inline]
    #[must_use]
    pub fn get(&self, offset: u64, into: &mut [u8]) -> bool {
        // SAFETY: `into` is writable for its length.
        unsafe { self.get_raw(offset, into.as_mut_ptr(), into.len()) }
    }

    /// Like [`Mapped::get`], into memory that need not be initialized.
    ///
    /// # Safety
    ///
    /// `into` must be valid for writes of `bytes` bytes.
    #[inline]
    #[must_use]
    pub unsafe fn get_raw(&self, offset: u64, into: *mut u8, bytes: usize) -> bool {
        if !self.holds(offset, bytes as u64) {
            return false;
        }
        // SAFETY: inside the mapping, by the check above; `into` by the caller's promise.
        unsafe { copy_out(into, self.base.as_ptr().add(offset as usize), bytes) };
        true
    }

    /// Executes `op` on the word at `offset` and returns what it held before; `None`, and nothing
    /// done, if the word is outside or misaligned, or if the operation does not exist for that
    /// width.
    ///
    /// Inlined into its callers: nearly all of them know width and operation, and then it is one
    /// instruction.
    #[inline(always)]
    #[must_use]
    pub fn atomic(&self, offset: u64, width: Width, op: Atomic) -> Option<u128> {
        if !self.holds(offset, width.bytes()) || !offset.is_multiple_of(width.bytes()) {
            return None;
        }
        // SAFETY: inside and aligned by the check above; `base` is aligned to 16 bytes.
        let word = unsafe { self.base.as_ptr().add(offset as usize) };
        // SAFETY: as above.
        unsafe {
            match width {
                Width::W32 => Some(atomic_32(&*word.cast::<AtomicU32>(), op).into()),
                Width::W64 => Some(atomic_64(&*word.cast::<AtomicU64>(), op).into()),
                Width::Pair => atomic_pair(&*word.cast::<AtomicU128>(), op),
            }
        }
    }

    /// Returns the word at `offset`, to be looked at again and again; `None` if it is outside or
    /// misaligned, or a pair.
    #[inline]
    pub fn look(&self, offset: u64, width: Width) -> Option<Look<'_>> {
        if !self.holds(offset, width.bytes()) || !offset.is_multiple_of(width.bytes()) {
            return None;
        }
        // SAFETY: inside and aligned by the check above; the mapping outlives `self`.
        unsafe {
            let word = self.base.as_ptr().add(offset as usize);
            match width {
                Width::W32 => Some(Look::Narrow(&*word.cast::<AtomicU32>())),
                Width::W64 => Some(Look::Wide(&*word.cast::<AtomicU64>())),
                Width::Pair => None,
            }
        }
    }

    /// Accumulates the packed elements of `from` to those at `offset`; false, and nothing done, if
    /// they are not inside, misaligned, or if `from` is not a whole number of elements.
    ///
    /// Sums exclude each other by the mapping's locks, if it has any, a page at a time. While `me`
    /// has to wait for one, `holder_is_lost` is called with its holder; it lets others run, and
    /// says whether the holder is lost: then the lock is taken over.
    #[must_use]
    pub fn accumulate(
        &self,
        offset: u64,
        sum: &Sum,
        from: &[u8],
        me: Rank,
        holder_is_lost: &mut dyn FnMut(Rank) -> bool,
    ) -> bool {
        if !self.holds(offset, from.len() as u64)
            || !offset.is_multiple_of(sum.number.align())
            || !(from.len() as u64).is_multiple_of(sum.number.bytes())
        {
            return false;
        }
        // Clearing it would take longer than most sums.
        let mut held = [MaybeUninit::<u8>::uninit(); STRIPE_BYTES as usize];
        let (mut rest, mut at) = (from, offset);
        while !rest.is_empty() {
            let stripe = self.salt + at;
            // No element lies across the end of a stripe: elements are aligned to their size, and
            // so is the mapping.
            let room = (STRIPE_BYTES - stripe % STRIPE_BYTES).min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at(room);
            // SAFETY: the locks are valid while `self` lives.
            let lock = self
                .locks
                .map(|locks| &unsafe { locks.as_ref() }.0[(stripe / STRIPE_BYTES % 64) as usize]);
            if let Some(lock) = lock {
                acquire(lock, me, holder_is_lost);
            }
            // Out, add, in: private memory is what the compiler makes fast loops for. SAFETY:
            // inside the mapping, by the check above; `room` is at most a stripe, and that much of
            // `held` is written first.
            unsafe {
                let place = self.base.as_ptr().add(at as usize);
                let held = held.as_mut_ptr().cast::<u8>();
                copy_out(held, place, room);
                sum.apply_all(std::slice::from_raw_parts_mut(held, room), now);
                copy_in(place, held, room);
            }
            // Should the lock have been taken over, because this rank counts as lost, it is not
            // this rank's to free.
            if let Some(lock) = lock {
                let _ = lock.compare_exchange(me.0 + 1, 0, Ordering::Release, Ordering::Relaxed);
            }
            (rest, at) = (later, at + room as u64);
        }
        true
    }
}

/// A word that a rank waits on.
#[derive(Debug, Clone, Copy)]
pub enum Look<'a> {
    /// 32 bits.
    Narrow(&'a AtomicU32),
    /// 64 bits.
    Wide(&'a AtomicU64),
}

impl Look<'_> {
    /// Returns what it holds.
    #[inline]
    pub fn load(self) -> u64 {
        match self {
            Look::Narrow(word) => word.load(Ordering::SeqCst).into(),
            Look::Wide(word) => word.load(Ordering::SeqCst),
        }
    }
}

fn acquire(lock: &AtomicU32, me: Rank, holder_is_lost: &mut dyn FnMut(Rank) -> bool) {
    let mut expected = 0;
    while let Err(held) =
        lock.compare_exchange(expected, me.0 + 1, Ordering::Acquire, Ordering::Relaxed)
    {
        // A holder that was lost in the middle of a sum leaves some of its elements added, and the
        // lock to the next rank.
        expected = if held != 0 && holder_is_lost(Rank(held - 1)) { held } else { 0 };
    }
}

/// Two of 64 bits for a word, or one. Words that share them wake each other's waiters for nothing,
/// which is harmless, and with two bits rare.
#[inline]
pub fn watch_bits(address: u64) -> u64 {
    let hash = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    1 << (hash >> 58) | 1 << (hash >> 52 & 63)
}

/// Returns whether the processor swaps pairs without a lock. Where it does not, pair atomics are
/// unsupported, because the emulation's lock would not be shared between processes.
pub fn pairs_are_lock_free() -> bool {
    AtomicU128::is_lock_free()
}

/// Executes an atomic on a word of one width.
macro_rules! atomic_of {
    ($name:ident, $word:ty, $value:ty) => {
        #[inline(always)]
        fn $name(word: &$word, op: Atomic) -> $value {
            const SC: Ordering = Ordering::SeqCst;
            match op {
                Atomic::Load => word.load(SC),
                Atomic::Store(value) | Atomic::Swap(value) => word.swap(value as $value, SC),
                Atomic::Add(value) => word.fetch_add(value as $value, SC),
                Atomic::And(value) => word.fetch_and(value as $value, SC),
                Atomic::Or(value) => word.fetch_or(value as $value, SC),
                Atomic::Xor(value) => word.fetch_xor(value as $value, SC),
                Atomic::CompareSwap { expected, desired } => word
                    .compare_exchange(expected as $value, desired as $value, SC, SC)
                    .unwrap_or_else(|held| held),
            }
        }
    };
}
atomic_of!(atomic_32, AtomicU32, u32);
atomic_of!(atomic_64, AtomicU64, u64);

#[inline]
fn atomic_pair(word: &AtomicU128, op: Atomic) -> Option<u128> {
    const SC: Ordering = Ordering::SeqCst;
    if !pairs_are_lock_free() {
        return None;
    }
    match op {
        Atomic::Load => Some(word.load(SC)),
        Atomic::Store(value) | Atomic::Swap(value) => Some(word.swap(value, SC)),
        Atomic::CompareSwap { expected, desired } => {
            Some(word.compare_exchange(expected, desired, SC, SC).unwrap_or_else(|held| held))
        }
        Atomic::Add(_) | Atomic::And(_) | Atomic::Or(_) | Atomic::Xor(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Number;
    use proptest::prelude::*;

    /// Two words, aligned as an atomic of both must be, which may change behind a shared reference.
    #[derive(Default)]
    #[repr(align(16))]
    struct Pair {
        words: [AtomicU64; 2],
    }

    /// Heap memory that plays a shared segment.
    struct Heap {
        memory: Box<[Pair]>,
        watched: AtomicU64,
        sums: Stripes,
    }

    fn mapped(bytes: usize) -> (Mapped, Arc<Heap>) {
        let memory = (0..bytes.div_ceil(16)).map(|_| Pair::default()).collect();
        let sums = Stripes::default();
        let heap = Arc::new(Heap { memory, watched: AtomicU64::new(0), sums });
        let base = NonNull::new(heap.memory.as_ptr().cast_mut().cast::<u8>()).unwrap();
        let (watched, locks) = (NonNull::from(&heap.watched), NonNull::from(&heap.sums));
        let words = SharedWords { salt: 0, watched, locks };
        // SAFETY: the heap is held by the mapping, and these tests look at it only through the
        // mapping.
        let mapped = unsafe { Mapped::new(base, bytes as u64, heap.clone()).with_words(words) };
        (mapped, heap)
    }

    fn atomics() -> impl Strategy<Value = Atomic> {
        let v = any::<u128>();
        prop_oneof![
            Just(Atomic::Load),
            v.prop_map(Atomic::Store),
            v.prop_map(Atomic::Add),
            v.prop_map(Atomic::Swap),
            v.prop_map(Atomic::And),
            v.prop_map(Atomic::Or),
            v.prop_map(Atomic::Xor),
            (0u128..3, v).prop_map(|(expected, desired)| Atomic::CompareSwap { expected, desired }),
        ]
    }

    proptest! {
        #[test]
        fn atomics_do_what_the_reference_says(
            start in prop_oneof![0u128..3, any::<u128>()], op in atomics(),
            width in prop_oneof![Just(Width::W32), Just(Width::W64), Just(Width::Pair)],
        ) {
            prop_assume!(op.check(width).is_ok());
            let (mapped, _heap) = mapped(64);
            let start = width.truncate(start);
            mapped.atomic(16, width, Atomic::Store(start)).unwrap();
            prop_assert_eq!(mapped.atomic(16, width, op), Some(start));
            prop_assert_eq!(mapped.atomic(16, width, Atomic::Load), Some(op.apply(width, start)));
        }

        #[test]
        fn copies_move_exactly_the_bytes_asked_for(offset in 0usize..40, len in 0usize..1500) {
            let (mapped, _heap) = mapped(1600);
            let from: Vec<u8> = (0..len).map(|i| (i % 251) as u8 + 1).collect();
            prop_assert!(mapped.put(offset as u64, &from));
            let mut all = vec![0xEE; 1600];
            prop_assert!(mapped.get(0, &mut all));
            prop_assert_eq!(&all[offset..offset + len], &from[..]);
            prop_assert!(all[..offset].iter().chain(&all[offset + len..]).all(|&byte| byte == 0));
        }

        #[test]
        fn sums_do_what_the_reference_says(
            number in prop_oneof![
                Just(Number::I32), Just(Number::I64), Just(Number::F32), Just(Number::F64),
                Just(Number::C32), Just(Number::C64),
            ],
            start in proptest::collection::vec(-1000i16..1000, 4),
            x in proptest::collection::vec(-1000i16..1000, 4),
            scale in (-9i16..9, -9i16..9),
        ) {
            let encode = |values: &[i16]| -> Vec<u8> { values.iter().flat_map(|&v| match number {
                Number::I32 => i32::from(v).to_le_bytes().to_vec(),
                Number::I64 => i64::from(v).to_le_bytes().to_vec(),
                Number::F32 | Number::C32 => f32::from(v).to_le_bytes().to_vec(),
                Number::F64 | Number::C64 => f64::from(v).to_le_bytes().to_vec(),
            }).collect() };
            let (mapped, _heap) = mapped(64);
            let (start, x) = (encode(&start), encode(&x));
            let mut sum = Sum { number, scale: [0; 16] };
            let scale = encode(&[scale.0, scale.1]);
            let bytes = number.bytes() as usize;
            sum.scale[..bytes].copy_from_slice(&scale[..bytes]);
            prop_assert!(mapped.put(16, &start));
            prop_assert!(mapped.accumulate(16, &sum, &x, Rank(0), &mut |_| false));
            let mut expected = start.clone();
            let pairs = expected.chunks_exact_mut(bytes).zip(x.chunks_exact(bytes));
            pairs.for_each(|(y, x)| sum.apply(y, x));
            let mut held = vec![0; start.len()];
            prop_assert!(mapped.get(16, &mut held));
            prop_assert_eq!(held, expected);
        }
    }

    #[test]
    fn a_long_sum_reaches_every_element() {
        let (mapped, _heap) = mapped(40_000);
        let sum =
            Sum { number: Number::I64, scale: [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] };
        let x: Vec<u8> = (0..4000i64).flat_map(i64::to_le_bytes).collect();
        for _ in 0..2 {
            assert!(
                mapped.accumulate(24, &sum, &x, Rank(5), &mut |_| panic!("nobody else is here"))
            );
        }
        let mut held = vec![0; 40_000];
        assert!(mapped.get(0, &mut held));
        let value = |at: usize| i64::from_le_bytes(held[at..at + 8].try_into().unwrap());
        assert!((0..4000).all(|i| value(24 + i * 8) == 6 * i as i64));
        assert_eq!((value(16), value(24 + 32_000)), (0, 0));
    }

    #[test]
    fn a_lock_is_taken_over_from_the_lost_and_from_nobody_else() {
        let (mapped, heap) = mapped(64);
        heap.sums.0[0].store(8, Ordering::Relaxed);
        let sum =
            Sum { number: Number::I64, scale: [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] };
        let mut waits = 0;
        let mut lost_at_last = |holder| {
            assert_eq!(holder, Rank(7));
            waits += 1;
            waits == 3
        };
        assert!(mapped.accumulate(0, &sum, &[1; 8], Rank(0), &mut lost_at_last));
        assert_eq!(waits, 3);
        assert_eq!(heap.sums.0[0].load(Ordering::Relaxed), 0, "and it is free afterwards");
    }

    #[test]
    fn nothing_outside_is_touched() {
        let (mapped, heap) = mapped(64);
        assert!(!mapped.put(60, &[1; 8]));
        assert!(!mapped.put(u64::MAX, &[1; 8]));
        assert!(!mapped.get(64, &mut [0; 1]));
        assert!(mapped.get(64, &mut []));
        assert_eq!(mapped.atomic(60, Width::W64, Atomic::Add(1)), None);
        assert_eq!(mapped.atomic(64, Width::W32, Atomic::Add(1)), None);
        assert_eq!(mapped.atomic(4, Width::W64, Atomic::Add(1)), None, "misaligned");
        let sum = Sum { number: Number::F64, scale: [0; 16] };
        let accumulate =
            |offset, from: &[u8]| mapped.accumulate(offset, &sum, from, Rank(0), &mut |_| false);
        assert!(!accumulate(4, &[0; 8]), "misaligned");
        assert!(!accumulate(0, &[0; 12]), "not whole elements");
        assert!(!accumulate(64, &[0; 8]), "outside");
        let mut words = heap.memory.iter().flat_map(|pair| &pair.words);
        assert!(words.all(|word| word.load(Ordering::Relaxed) == 0));
    }
}
