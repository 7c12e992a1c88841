//! Operations on memory that is mapped here and shared with others.
//!
//! This is where every fabric that reaches memory with the processor ends up: the near path of a
//! rank, the agent that serves far ranks, the simulator. Other ranks may touch the same bytes at
//! the same moment, so nothing here is a plain Rust access: words are relaxed atomics, and long
//! runs are copied by one string instruction, whose effect on each byte is that of a relaxed
//! access. A race therefore yields old or new bytes, and is not the undefined behaviour that a race
//! of plain accesses would be. (Rust's model leaves open what racing atomics of different sizes do;
//! processors do not.)

mod accumulate;
mod copy;
mod held;
mod regions;
mod rows;
mod stripes;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use portable_atomic::AtomicU128;

use crate::operation::{Atomic, Width};

pub use copy::{copy_in, copy_out, full_fence};
pub use held::Held;
pub use rows::Rows;
pub use stripes::{Contender, Stripes, agent_of};

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
    /// The locks of the owner's memory for accumulates.
    pub locks: NonNull<Stripes>,
}

// SAFETY: the memory is shared by construction and only touched by atomic (or equivalent) accesses;
// `_hold` keeps it mapped.
unsafe impl Send for Mapped {}
// SAFETY: as above; no method needs exclusive access.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Describes a mapping: where it is, and how long it is. It is never
    /// [watched](Mapped::is_watched), and its accumulates take no locks: for a fabric that sees
    /// every operation and carries them out one at a time.
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

    /// Returns the address of a byte in this process, for comparisons.
    #[inline]
    pub fn address(&self, offset: u64) -> usize {
        self.base.as_ptr().addr().wrapping_add(offset as usize)
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

/// Two of 64 bits for a word, or one. Words that share them wake each other's waiters for nothing,
/// which is harmless, and with two bits rare.
#[inline]
fn watch_bits(address: u64) -> u64 {
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
    use proptest::prelude::*;

    /// Two words, aligned as an atomic of both must be, which may change behind a shared reference.
    #[derive(Default)]
    #[repr(align(16))]
    pub(super) struct Pair {
        pub(super) words: [AtomicU64; 2],
    }

    /// Heap memory that plays a shared segment.
    pub(super) struct Heap {
        pub(super) memory: Box<[Pair]>,
        watched: AtomicU64,
        pub(super) locks: Stripes,
    }

    pub(super) fn mapped(bytes: usize) -> (Mapped, Arc<Heap>) {
        let memory = (0..bytes.div_ceil(16)).map(|_| Pair::default()).collect();
        let locks = Stripes::default();
        let heap = Arc::new(Heap { memory, watched: AtomicU64::new(0), locks });
        let base = NonNull::new(heap.memory.as_ptr().cast_mut().cast::<u8>()).unwrap();
        let (watched, locks) = (NonNull::from(&heap.watched), NonNull::from(&heap.locks));
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
            prop_assume!(width != Width::Pair || pairs_are_lock_free());
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
        let mut words = heap.memory.iter().flat_map(|pair| &pair.words);
        assert!(words.all(|word| word.load(Ordering::Relaxed) == 0));
    }
}
