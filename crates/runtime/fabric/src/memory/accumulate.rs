//! Accumulates on mapped memory: one pass over the elements, under the locks of `stripes.rs`.
//!
//! The lock of an element is that of the stripe in which its first byte lies. Every accumulate
//! takes it, however short: single instructions of the processor would be atomic with each other,
//! but not with a vector that another rank loads, combines and stores.

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;

use super::Mapped;
use super::copy::{copy_in, copy_out};
use super::stripes::{
    Contender, STRIPE_BYTES, STRIPES, STRIPES_AT_ONCE, Stripes, acquire, release_all_as, release_as,
};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::vectors;
use crate::accumulate::{Accumulate, Element, Visit, visit};
use crate::address::Piece;
use crate::number::Op;

impl Mapped {
    /// Combines the packed elements of `message` with those of a piece, and writes what was there
    /// before to `old`, if that is wanted. Returns false, and does nothing, if the piece is
    /// outside, misaligned or not a whole number of elements, or if a length does not fit.
    ///
    /// Accumulates exclude each other by the mapping's locks, if it has any, some
    /// stripes at a time. One
    /// that fetches is visible to all when it returns, as an atomic is.
    #[must_use]
    pub fn accumulate(
        &self,
        at: Piece,
        accumulate: &Accumulate,
        message: &[u8],
        old: Option<&mut [u8]>,
        contender: &mut Contender<'_>,
    ) -> bool {
        let Piece { offset, bytes } = at;
        let (size, align) = (accumulate.number().bytes(), accumulate.number().align());
        let lengths_fit = message.len() as u64 == accumulate.message_bytes(bytes)
            && old.as_ref().is_none_or(|old| old.len() as u64 == bytes);
        // An alignment is a power of two.
        if !self.holds(offset, bytes) || offset & (align - 1) != 0 || !lengths_fit {
            return false;
        }
        if bytes != size {
            return self.accumulate_some(at, accumulate, message, old, contender);
        }
        let fetches = old.is_some();
        let pass = Pass {
            // SAFETY: inside the mapping, by the check above.
            y: unsafe { self.base.as_ptr().add(offset as usize) },
            x: message.as_ptr(),
            old: old.map(<[u8]>::as_mut_ptr),
            bytes: bytes as usize,
        };
        let lock = self.stripe(offset);
        if let Some(lock) = lock {
            acquire(lock, contender);
        }
        // SAFETY: all three are one element long, by the checks above.
        unsafe { pass.run(accumulate) };
        release_as(lock, contender.me, fetches);
        true
    }

    /// Returns the lock of the element that begins at an offset, if there are locks.
    #[inline(always)]
    fn stripe(&self, offset: u64) -> Option<&AtomicU32> {
        let stripe = (self.salt + offset) / STRIPE_BYTES % STRIPES;
        self.stripes().map(|locks| &locks.0[stripe as usize])
    }

    #[inline(always)]
    pub(super) fn stripes(&self) -> Option<&Stripes> {
        // SAFETY: the locks are valid while `self` lives.
        self.locks.map(|locks| unsafe { locks.as_ref() })
    }

    /// Several elements, or none, whose lengths and place have been checked, up to whether they
    /// are whole.
    #[inline(never)]
    fn accumulate_some(
        &self,
        at: Piece,
        accumulate: &Accumulate,
        message: &[u8],
        old: Option<&mut [u8]>,
        contender: &mut Contender<'_>,
    ) -> bool {
        let Piece { offset, bytes } = at;
        let size = accumulate.number().bytes();
        if !bytes.is_multiple_of(size) {
            return false;
        }
        let fetches = old.is_some();
        // SAFETY: inside the mapping, by the check above.
        let y = unsafe { self.base.as_ptr().add(offset as usize) };
        let (x, old) = (message.as_ptr(), old.map(<[u8]>::as_mut_ptr));
        let mut done = 0;
        while done < bytes {
            let start = self.salt + offset + done;
            let first = start / STRIPE_BYTES % STRIPES;
            // Up to the first element that begins behind the stripes that are locked at once, which
            // are locked in the order of their locks, so that no two wait for each other.
            let stripes = STRIPES_AT_ONCE.min(STRIPES - first);
            let room = stripes * STRIPE_BYTES - start % STRIPE_BYTES;
            let left = bytes - done;
            let now = if left <= room { left } else { room.next_multiple_of(size) };
            let last_element = start + now - size;
            let last = first + last_element / STRIPE_BYTES - start / STRIPE_BYTES;
            let locks = self.stripes();
            let locks = locks.map_or(&[][..], |all| &all.0[first as usize..=last as usize]);
            locks.iter().for_each(|lock| acquire(lock, contender));
            // A pass that lived in memory from one turn to the next would be copied for each.
            let mut pass = Pass { y, x, old, bytes: now as usize };
            pass.skip(done as usize);
            // SAFETY: the next `now` bytes of all three are what the checks above allow.
            unsafe { pass.run(accumulate) };
            release_all_as(locks, contender.me, fetches);
            done += now;
        }
        true
    }
}

#[derive(Clone, Copy)]
struct Pass {
    /// The elements of the target.
    y: *mut u8,
    /// The elements of the message, unless it is empty.
    x: *const u8,
    old: Option<*mut u8>,
    bytes: usize,
}

impl Pass {
    /// Combines the elements.
    ///
    /// # Safety
    ///
    /// For `bytes` bytes, whole elements, `y` must be mapped shared memory, `x` readable private
    /// memory unless the operation is a no-op, and `old`, if there is one, writable private memory.
    #[inline(always)]
    unsafe fn run(self, accumulate: &Accumulate) {
        let is_copy = match accumulate.op() {
            Op::NoOp => true,
            Op::Replace => accumulate.operand().is_none(),
            _ => false,
        };
        if !is_copy {
            // SAFETY: by the caller's promise.
            return visit(accumulate, unsafe { Combining::new(self) });
        }
        if let Some(old) = self.old {
            // SAFETY: by the caller's promise.
            unsafe { copy_out(old, self.y, self.bytes) };
        }
        if accumulate.writes() {
            // SAFETY: by the caller's promise.
            unsafe { copy_in(self.y, self.x, self.bytes) };
        }
    }

    #[inline(always)]
    fn skip(&mut self, bytes: usize) {
        self.y = self.y.wrapping_add(bytes);
        self.x = self.x.wrapping_add(bytes);
        self.old = self.old.map(|old| old.wrapping_add(bytes));
    }
}

/// A loop over elements whose promises have been made.
#[derive(Clone, Copy)]
struct Combining(Pass);

impl Combining {
    /// # Safety
    ///
    /// As [`Pass::run`].
    #[inline(always)]
    unsafe fn new(pass: Pass) -> Combining {
        Combining(pass)
    }

    #[inline(always)]
    fn skip(&mut self, bytes: usize) {
        self.0.skip(bytes);
        self.0.bytes -= bytes;
    }
}

impl Visit for Combining {
    #[inline(always)]
    fn with<T: Element, const N: usize>(mut self, combine: impl Fn(T, T) -> T) {
        if self.0.bytes == size_of::<T>() {
            // SAFETY: by the promise of `new`.
            return unsafe { combine_one(self, combine) };
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.0.bytes >= vectors::BLOCK_BYTES && is_x86_feature_detected!("avx2") {
            let Pass { y, x, old, bytes } = self.0;
            // SAFETY: by the promise of `new`; the processor has the instructions.
            let done = unsafe {
                match (vectors::has_avx512(), old) {
                    (true, None) => {
                        vectors::combine_avx512::<T, N, false>(y, x, old, bytes, &combine)
                    }
                    (true, Some(_)) => {
                        vectors::combine_avx512::<T, N, true>(y, x, old, bytes, &combine)
                    }
                    (false, None) => {
                        vectors::combine_avx2::<T, N, false>(y, x, old, bytes, &combine)
                    }
                    (false, Some(_)) => {
                        vectors::combine_avx2::<T, N, true>(y, x, old, bytes, &combine)
                    }
                }
            };
            self.skip(done);
        }
        if self.0.bytes > 0 {
            // SAFETY: by the promise of `new`.
            unsafe { combine_rest(self, combine) };
        }
    }
}

/// The part of a buffer on the stack that is copied out, combined and copied in at a time.
const BUFFER_BYTES: usize = 512;

#[repr(align(64))]
struct Buffer([MaybeUninit<u8>; BUFFER_BYTES]);

/// Combines one element.
///
/// # Safety
///
/// As [`Combining::new`].
#[inline(always)]
unsafe fn combine_one<T: Element>(Combining(one): Combining, combine: impl Fn(T, T) -> T) {
    let mut element = MaybeUninit::<T>::uninit();
    // SAFETY: any bytes are an element; the rest by the caller's promise.
    unsafe {
        copy_out(element.as_mut_ptr().cast(), one.y, size_of::<T>());
        let held = element.assume_init();
        if let Some(old) = one.old {
            old.cast::<T>().write_unaligned(held);
        }
        let combined = combine(held, one.x.cast::<T>().read_unaligned());
        copy_in(one.y, (&raw const combined).cast(), size_of::<T>());
    }
}

/// Combines elements by way of private memory.
///
/// # Safety
///
/// As [`Combining::new`].
#[inline(never)]
unsafe fn combine_rest<T: Element>(mut rest: Combining, combine: impl Fn(T, T) -> T) {
    let mut buffer = Buffer([MaybeUninit::uninit(); BUFFER_BYTES]);
    let held = buffer.0.as_mut_ptr().cast::<u8>();
    while rest.0.bytes > 0 {
        let Pass { y, x, old, bytes } = rest.0;
        let now = bytes.min(BUFFER_BYTES);
        // SAFETY: `now` bytes are in the buffer, which is aligned for any element, and any bytes
        // are elements; the rest by the caller's promise.
        unsafe {
            copy_out(held, y, now);
            if let Some(old) = old {
                old.copy_from_nonoverlapping(held, now);
            }
            let elements = std::slice::from_raw_parts_mut(held.cast::<T>(), now / size_of::<T>());
            for (at, y) in elements.iter_mut().enumerate() {
                *y = combine(*y, x.cast::<T>().add(at).read_unaligned());
            }
            copy_in(y, held, now);
        }
        rest.skip(now);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::mapped;
    use super::*;
    use crate::names::Rank;
    use crate::number::Number;

    const ME: Rank = Rank(5);
    /// Two stripes, and some bytes more.
    const MEMORY_BYTES: usize = 2 * STRIPE_BYTES as usize + 64;

    /// A rank that finds every lock free.
    fn alone() -> Contender<'static> {
        fn nobody(holder: Rank) -> bool {
            panic!("{holder} holds a lock")
        }
        Contender { me: ME, holder_is_lost: Box::leak(Box::new(nobody)) }
    }

    fn add(mapped: &Mapped, offset: u64, message: &[u8], contender: &mut Contender<'_>) -> bool {
        let sum = Accumulate::new(Number::I64, Op::Sum).unwrap();
        let bytes = message.len() as u64;
        mapped.accumulate(Piece { offset, bytes }, &sum, message, None, contender)
    }

    fn all() -> Vec<Accumulate> {
        let with = |number| Op::ALL.into_iter().flat_map(move |op| Accumulate::new(number, op));
        let scaled = |number| Accumulate::scaled_sum(number, [0x40; 16]);
        let numbers = Number::ALL.into_iter();
        let swap = |number| Accumulate::compare_swap(number, [0x40; 16]);
        numbers.flat_map(|number| with(number).chain(scaled(number)).chain(swap(number))).collect()
    }

    /// Elements as bytes, with many that are equal, or that mean something: zero, one, -1 or NaN.
    fn elements(bytes: usize) -> impl Strategy<Value = Vec<u8>> {
        let element = prop_oneof![
            Just(vec![0; bytes]),
            Just(vec![0xFF; bytes]),
            Just([&[1][..], &vec![0; bytes - 1]].concat()),
            vec(any::<u8>(), bytes),
        ];
        vec(element, 0..150).prop_map(|elements| elements.concat())
    }

    /// Whether two elements are the same, or were made of a NaN by arithmetic.
    fn is_same(accumulate: &Accumulate, left: &[u8], right: &[u8]) -> bool {
        let is_nan = |bytes: &[u8]| match bytes.len() {
            4 => f32::from_le_bytes(bytes.try_into().unwrap()).is_nan(),
            _ => f64::from_le_bytes(bytes.try_into().unwrap()).is_nan(),
        };
        let part = match (accumulate.number(), accumulate.op()) {
            (Number::F32 | Number::C32, Op::Sum | Op::Product) => 4,
            (Number::F64 | Number::C64, Op::Sum | Op::Product) => 8,
            _ => return left == right,
        };
        let mut parts = left.chunks_exact(part).zip(right.chunks_exact(part));
        parts.all(|(left, right)| left == right || (is_nan(left) && is_nan(right)))
    }

    struct WithoutVectors(Combining);

    impl Visit for WithoutVectors {
        fn with<T: Element, const N: usize>(self, combine: impl Fn(T, T) -> T) {
            // SAFETY: the test has made the promises.
            unsafe { combine_rest(self.0, combine) };
        }
    }

    /// Combines by the vectors that a processor without AVX-512 has.
    struct WithAvx2(Combining);

    impl Visit for WithAvx2 {
        fn with<T: Element, const N: usize>(mut self, combine: impl Fn(T, T) -> T) {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if is_x86_feature_detected!("avx2") {
                let Pass { y, x, old, bytes } = self.0.0;
                // SAFETY: the test has made the promises; the processor has the instructions.
                let done = unsafe {
                    match old {
                        None => vectors::combine_avx2::<T, N, false>(y, x, old, bytes, &combine),
                        Some(_) => vectors::combine_avx2::<T, N, true>(y, x, old, bytes, &combine),
                    }
                };
                self.0.skip(done);
            }
            // SAFETY: the test has made the promises.
            unsafe { combine_rest(self.0, combine) };
        }
    }

    /// What an accumulate is made of.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum By {
        Usual,
        Avx2,
        Elements,
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 4000 }))]
        #[test]
        fn every_accumulate_does_what_the_reference_says(
            (accumulate, y, x) in proptest::sample::select(all()).prop_flat_map(|accumulate| {
                let bytes = accumulate.number().bytes() as usize;
                (Just(accumulate), elements(bytes), elements(bytes))
            }),
            skipped in 0u64..70, wants_old in any::<bool>(),
            by in proptest::sample::select(vec![By::Usual, By::Avx2, By::Elements]),
        ) {
            let number = accumulate.number();
            let bytes = y.len().min(x.len());
            let (y, x) = (&y[..bytes], &x[..bytes]);
            let message = if accumulate.writes() { x } else { &[] };
            // Across the end of a stripe, at any aligned place.
            let offset = STRIPE_BYTES - 64 + skipped * number.align();
            let (mapped, _heap) = mapped(MEMORY_BYTES);
            prop_assert!(mapped.put(offset, y));
            let mut old = vec![0xAA; bytes];
            let piece = Piece { offset, bytes: bytes as u64 };
            let by_copy = matches!(accumulate.op(), Op::Replace | Op::NoOp);
            if by == By::Usual || by_copy {
                let wanted = wants_old.then_some(&mut old[..]);
                prop_assert!(mapped.accumulate(piece, &accumulate, message, wanted, &mut alone()));
            } else {
                let place = mapped.base().as_ptr().wrapping_add(offset as usize);
                let wanted = wants_old.then_some(old.as_mut_ptr());
                let pass = Pass { y: place, x: message.as_ptr(), old: wanted, bytes };
                // SAFETY: all three have so many bytes.
                let pass = unsafe { Combining::new(pass) };
                match by {
                    By::Avx2 => visit(&accumulate, WithAvx2(pass)),
                    _ => visit(&accumulate, WithoutVectors(pass)),
                }
            }
            let mut held = vec![0; bytes];
            prop_assert!(mapped.get(offset, &mut held));
            let size = number.bytes() as usize;
            for at in (0..bytes).step_by(size) {
                let mut expected = y[at..at + size].to_vec();
                accumulate.apply(&mut expected, &x[at..at + size]);
                let held = &held[at..at + size];
                prop_assert!(
                    is_same(&accumulate, held, &expected),
                    "{accumulate:?} of {:?} and {:?}: {held:?}, not {expected:?}",
                    &y[at..at + size], &x[at..at + size]
                );
            }
            prop_assert!(!wants_old || old == y);
            let mut around = vec![0; MEMORY_BYTES];
            prop_assert!(mapped.get(0, &mut around));
            around[offset as usize..][..bytes].fill(0);
            prop_assert!(around.iter().all(|&byte| byte == 0), "nothing else is touched");
        }
    }

    #[test]
    fn every_kind_and_operation_is_tried() {
        let unscaled: usize = [12, 12, 10, 10, 8, 8, 8, 8, 8, 8, 5, 5, 17, 17].iter().sum();
        assert_eq!(all().len(), unscaled + 12 + 8);
    }

    #[test]
    fn a_long_accumulate_reaches_every_element() {
        let (mapped, _heap) = mapped(40_000);
        let x: Vec<u8> = (0..4000i64).flat_map(i64::to_le_bytes).collect();
        for _ in 0..2 {
            assert!(add(&mapped, 24, &x, &mut alone()));
        }
        let mut held = vec![0; 40_000];
        assert!(mapped.get(0, &mut held));
        let value = |at: usize| i64::from_le_bytes(held[at..at + 8].try_into().unwrap());
        assert!((0..4000).all(|i| value(24 + i * 8) == 2 * i as i64));
        assert_eq!((value(16), value(24 + 32_000)), (0, 0));
    }

    #[test]
    fn a_lock_is_taken_over_from_the_lost_and_from_nobody_else() {
        let (mapped, heap) = mapped(64);
        heap.locks.0[0].store(8, Ordering::Relaxed);
        let mut waits = 0;
        let mut lost_at_last = |holder| {
            assert_eq!(holder, Rank(7));
            waits += 1;
            waits == 3
        };
        let mut contender = Contender { me: ME, holder_is_lost: &mut lost_at_last };
        assert!(add(&mapped, 0, &[1; 8], &mut contender));
        assert_eq!(waits, 3);
        assert_eq!(heap.locks.0[0].load(Ordering::Relaxed), 0, "and it is free afterwards");
    }

    #[test]
    fn an_element_has_one_lock_wherever_it_lies() {
        let (mapped, heap) = mapped(MEMORY_BYTES);
        let sum = Accumulate::new(Number::C64, Op::Sum).unwrap();
        let piece = Piece { offset: STRIPE_BYTES - 8, bytes: 32 };
        // One element lies across the end of the first stripe, one in the second.
        let mut waits = 0;
        heap.locks.0[1].store(8, Ordering::Relaxed);
        let mut holder_is_lost = |_| {
            waits += 1;
            let first = heap.locks.0[0].load(Ordering::Relaxed);
            assert_eq!(first, ME.0 + 1, "both locks, in their order");
            true
        };
        let mut contender = Contender { me: ME, holder_is_lost: &mut holder_is_lost };
        let message = [1f64; 4].map(f64::to_le_bytes).concat();
        assert!(mapped.accumulate(piece, &sum, &message, None, &mut contender));
        assert_eq!(waits, 1);
        let mut held = [0; 32];
        assert!(mapped.get(piece.offset, &mut held));
        assert_eq!(held[..], message[..]);
    }

    #[test]
    fn a_long_accumulate_passes_every_lock_and_frees_it() {
        // Longer than all stripes together, from the middle of one on.
        let offset = STRIPE_BYTES * (STRIPES - 3) + 24;
        let bytes = (STRIPES + 2) * STRIPE_BYTES;
        let (mapped, heap) = mapped((offset + bytes) as usize);
        let ones: Vec<u8> = (0..bytes / 8).flat_map(|_| 1u64.to_le_bytes()).collect();
        // Somebody holds one of them, and is lost when it is waited for.
        let rounds = if cfg!(miri) { 2 } else { STRIPES };
        for held in (0..STRIPES as usize).rev().take(rounds as usize) {
            heap.locks.0[held].store(8, Ordering::Relaxed);
            let mut waits = 0;
            let mut is_lost = |_| {
                waits += 1;
                true
            };
            let mut contender = Contender { me: ME, holder_is_lost: &mut is_lost };
            assert!(add(&mapped, offset, &ones, &mut contender));
            assert_eq!(waits, 1, "lock {held}");
            let all = heap.locks.0.iter();
            assert!(all.map(|lock| lock.load(Ordering::Relaxed)).all(|lock| lock == 0));
        }
        let mut held = vec![0; bytes as usize];
        assert!(mapped.get(offset, &mut held));
        assert!(held.as_chunks::<8>().0.iter().all(|&sum| u64::from_le_bytes(sum) == rounds));
    }

    #[test]
    fn no_two_fetch_the_same() {
        const COUNT: usize = 100;
        let (mapped, _heap) = mapped(MEMORY_BYTES);
        let rounds = if cfg!(miri) { 5 } else { 3000 };
        let sum = Accumulate::new(Number::C64, Op::Sum).unwrap();
        let ones = [1f64; 2 * COUNT].map(f64::to_le_bytes).concat();
        let fetch = |me: u32| {
            let mut relax = |_| {
                std::thread::yield_now();
                false
            };
            let mut contender = Contender { me: Rank(me), holder_is_lost: &mut relax };
            let fetch_one = |_| {
                // One element lies across the end of the first stripe.
                let piece = Piece { offset: STRIPE_BYTES - 808, bytes: 1600 };
                let mut old = [0; 16 * COUNT];
                assert!(mapped.accumulate(piece, &sum, &ones, Some(&mut old), &mut contender));
                let numbers = old.as_chunks::<8>().0.iter().map(|&old| f64::from_le_bytes(old));
                let numbers: Vec<u64> = numbers.map(|old| old as u64).collect();
                assert!(numbers.as_chunks::<2>().0.iter().all(|[re, im]| re == im));
                [numbers[0], numbers[100], numbers[2 * COUNT - 1]]
            };
            (0..rounds).map(fetch_one).collect::<Vec<[u64; 3]>>()
        };
        let fetched: Vec<[u64; 3]> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..3).map(|me| scope.spawn(move || fetch(me))).collect();
            ranks.into_iter().flat_map(|rank| rank.join().unwrap()).collect()
        });
        for at in 0..3 {
            let all: BTreeSet<u64> = fetched.iter().map(|fetched| fetched[at]).collect();
            assert_eq!(all, (0..3 * rounds).collect(), "each value exactly once");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (mapped, heap) = mapped(64);
        let sum = Accumulate::new(Number::F64, Op::Sum).unwrap();
        let tries = |offset, bytes, message: &[u8], old: Option<&mut [u8]>| {
            mapped.accumulate(Piece { offset, bytes }, &sum, message, old, &mut alone())
        };
        assert!(!tries(4, 8, &[1; 8], None), "misaligned");
        assert!(!tries(0, 12, &[1; 12], None), "not whole elements");
        assert!(!tries(64, 8, &[1; 8], None), "outside");
        assert!(!tries(u64::MAX - 7, 8, &[1; 8], None), "far outside");
        assert!(!tries(0, 16, &[1; 8], None), "too short a message");
        assert!(!tries(0, 8, &[1; 8], Some(&mut [0; 16])), "too much is to be fetched");
        assert!(tries(64, 0, &[], Some(&mut [])), "nothing fits everywhere");
        let mut words = heap.memory.iter().flat_map(|pair| &pair.words);
        assert!(words.all(|word| word.load(Ordering::Relaxed) == 0));
    }
}
