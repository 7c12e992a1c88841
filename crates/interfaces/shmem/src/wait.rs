//! Waits and tests on words of this PE's symmetric memory.
//!
//! Programs signal by atomics, by plain puts, and by stores through `shmem_ptr`. The first wake a
//! sleeper, the second nearly always do, the last never: so a waiter that has slept for a while
//! looks again by itself.

use std::cell::OnceCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use farside::fabric::{ActivityKind, Purpose};
use farside::{Error, Polling, WaitOptions};

use crate::exit::{self, Call, OrExit};
use crate::races;
use crate::runtime::{Runtime, runtime};
use crate::transfer::{check_aligned, symmetric};

/// How long a waiter sleeps before it looks again.
const NAP: Duration = Duration::from_millis(1);

/// The words of a question have a type, as `core.h` numbers them.
#[derive(Clone, Copy)]
struct Kind {
    bytes: usize,
    signed: bool,
}

impl Kind {
    #[inline]
    fn new(word: c_int, call: Call) -> Kind {
        match word {
            0..=5 => Kind { bytes: 2 << (word / 2), signed: word % 2 == 0 },
            other => exit::end(call, &format!("there is no kind of word {other}")),
        }
    }

    /// Extends the low bytes of a word to 64 bits.
    #[inline]
    fn extend(self, bits: u64) -> u64 {
        let unused = 64 - 8 * self.bytes as u32;
        let high = bits << unused;
        if self.signed { ((high as i64) >> unused) as u64 } else { high >> unused }
    }

    /// Reads a word, atomically.
    ///
    /// # Safety
    ///
    /// The address must be valid and aligned.
    #[inline]
    unsafe fn read(self, at: *const c_void) -> u64 {
        use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
        // SAFETY: by the caller's promise.
        let bits = unsafe {
            match self.bytes {
                2 => u64::from((*at.cast::<AtomicU16>()).load(Ordering::Acquire)),
                4 => u64::from((*at.cast::<AtomicU32>()).load(Ordering::Acquire)),
                _ => (*at.cast::<AtomicU64>()).load(Ordering::Acquire),
            }
        };
        self.extend(bits)
    }
}

/// A comparison with a value, as the header numbers them.
#[derive(Clone, Copy)]
struct Comparison {
    cmp: c_int,
    value: u64,
    kind: Kind,
}

impl Comparison {
    fn new(kind: Kind, cmp: c_int, value: u64, call: Call) -> Comparison {
        if !(0..=5).contains(&cmp) {
            exit::end(call, &format!("{cmp} is not a comparison: see SHMEM_CMP_EQ and the others"));
        }
        Comparison { cmp, value: kind.extend(value), kind }
    }

    /// Whether a word's extended value satisfies it.
    #[inline]
    fn holds(self, held: u64) -> bool {
        // Extended words compare as their types do, once the sign is turned.
        let turn = if self.kind.signed { 1 << 63 } else { 0 };
        let (held, value) = (held ^ turn, self.value ^ turn);
        match self.cmp {
            0 => held == value,
            1 => held != value,
            2 => held > value,
            3 => held <= value,
            4 => held < value,
            _ => held >= value,
        }
    }
}

fn purpose() -> Purpose {
    Purpose::new(ActivityKind::Word, "wait_until")
}

/// Sleeps until a word of this PE satisfies a comparison; returns its value.
fn sleep(runtime: &'static Runtime, ivar: *const c_void, until: Comparison, call: Call) -> u64 {
    let kind = until.kind;
    let (region, offset) = symmetric(runtime, ivar, kind.bytes, call);
    // A word of two bytes is watched as part of one of four.
    let (word, shift) = (offset & !3, (offset & 3) * 8);
    let place = region.memory.at(runtime.world.rank(), if kind.bytes == 8 { offset } else { word });
    let mut soon = true;
    let waited = runtime.waiting(purpose(), |context| {
        let options = WaitOptions { timeout: Some(NAP), soon };
        let waited = match kind.bytes {
            8 => {
                let holds = |held: u64| until.holds(held);
                context.wait_among(&runtime.all, place.cast::<u64>(), holds, options)
            }
            _ => {
                let holds = |held: u32| until.holds(kind.extend(u64::from(held) >> shift));
                let waited = context.wait_among(&runtime.all, place.cast::<u32>(), holds, options);
                waited.map(|held| kind.extend(u64::from(held) >> shift))
            }
        };
        match waited {
            Err(Error::TimedOut { .. }) => {
                soon = false;
                None
            }
            done => Some(done),
        }
    });
    waited.or_exit(call)
}

/// Checks that a word may be waited for.
#[inline]
fn check(runtime: &'static Runtime, ivar: *const c_void, bytes: usize, count: usize, call: Call) {
    check_aligned(ivar, bytes / count, call);
    symmetric(runtime, ivar, bytes, call);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_wait(
    ivar: *const c_void,
    word: c_int,
    cmp: c_int,
    value: u64,
    call: Call,
) -> u64 {
    let runtime = runtime(call);
    let kind = Kind::new(word, call);
    check(runtime, ivar, kind.bytes, 1, call);
    let until = Comparison::new(kind, cmp, value, call);
    // SAFETY: it was checked.
    let held = unsafe { kind.read(ivar) };
    let held = if until.holds(held) { held } else { sleep(runtime, ivar, until, call) };
    races::acquired(runtime, ivar, kind.bytes, call);
    fence(Ordering::Acquire);
    held
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_test(
    ivar: *const c_void,
    word: c_int,
    cmp: c_int,
    value: u64,
    call: Call,
) -> c_int {
    let runtime = runtime(call);
    let kind = Kind::new(word, call);
    check(runtime, ivar, kind.bytes, 1, call);
    // SAFETY: it was checked.
    let held = unsafe { kind.read(ivar) };
    let holds = Comparison::new(kind, cmp, value, call).holds(held);
    if holds {
        races::acquired(runtime, ivar, kind.bytes, call);
        note_fetch(runtime, ivar.addr(), held);
    } else {
        // Programs test in loops: others may need the processor.
        relax(runtime, call);
    }
    c_int::from(holds)
}

thread_local! {
    /// What this thread has fetched, where several may.
    static POLLING: OnceCell<Polling> = const { OnceCell::new() };
}

/// Notes that the program has looked at a word, and lets others run if it only does that.
#[inline]
fn note_fetch(runtime: &'static Runtime, at: usize, held: u64) {
    if !runtime.has_threads() {
        runtime.world.note_fetch(at, held);
    } else if POLLING
        .with(|own| own.get_or_init(|| Polling::new(&runtime.world.job())).should_yield(at, held))
    {
        std::thread::yield_now();
    }
}

/// Lets others run, and ends the job if a PE was lost.
fn relax(runtime: &'static Runtime, call: Call) {
    if runtime.has_threads() {
        std::thread::yield_now();
    } else {
        runtime.world.relax_among(&runtime.all).or_exit(call);
    }
}

/// Notes that the program has asked about words, and what it has found: programs ask in loops, and
/// others may need the processor.
fn note_test(runtime: &'static Runtime, question: &Question, found: Option<usize>, call: Call) {
    match found {
        Some(found) => note_fetch(runtime, question.ivars.addr(), found as u64),
        None => relax(runtime, call),
    }
}

/// A question about several words, as `core.h` has it.
#[repr(C)]
pub(crate) struct Question {
    ivars: *const c_void,
    word: c_int,
    nelems: usize,
    status: *const c_int,
    cmp: c_int,
    values: *const c_void,
    is_vector: c_int,
}

/// A question, checked.
struct Words<'q> {
    runtime: &'static Runtime,
    question: &'q Question,
    kind: Kind,
    call: Call,
}

impl<'q> Words<'q> {
    fn new(runtime: &'static Runtime, question: &'q Question, call: Call) -> Words<'q> {
        let kind = Kind::new(question.word, call);
        if question.nelems > 0 {
            let bytes = question.nelems.saturating_mul(kind.bytes);
            check(runtime, question.ivars, bytes, question.nelems, call);
        }
        Words { runtime, question, kind, call }
    }

    #[inline]
    fn is_in(&self, at: usize) -> bool {
        let status = self.question.status;
        // SAFETY: by the specification there is a status for each word, or none.
        status.is_null() || unsafe { *status.add(at) } == 0
    }

    fn ivar(&self, at: usize) -> *const c_void {
        self.question.ivars.wrapping_byte_add(at * self.kind.bytes)
    }

    fn comparison(&self, at: usize) -> Comparison {
        let at = if self.question.is_vector != 0 { at } else { 0 };
        let value = self.question.values.wrapping_byte_add(at * self.kind.bytes);
        // SAFETY: by the specification there is a value for each word, or one for all.
        let value = unsafe {
            match self.kind.bytes {
                2 => u64::from(value.cast::<u16>().read_unaligned()),
                4 => u64::from(value.cast::<u32>().read_unaligned()),
                _ => value.cast::<u64>().read_unaligned(),
            }
        };
        Comparison::new(self.kind, self.question.cmp, value, self.call)
    }

    #[inline]
    fn holds(&self, at: usize) -> bool {
        // SAFETY: all words were checked.
        let holds = self.comparison(at).holds(unsafe { self.kind.read(self.ivar(at)) });
        if holds {
            races::acquired(self.runtime, self.ivar(at), self.kind.bytes, self.call);
        }
        holds
    }

    fn all(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.question.nelems).filter(|&at| self.is_in(at))
    }

    /// A word that satisfies its comparison. The search begins elsewhere each time, so that one
    /// that is always satisfied does not hide the others.
    fn any(&self) -> Option<usize> {
        static FROM: AtomicUsize = AtomicUsize::new(0);
        let count = self.question.nelems;
        if count == 0 {
            return None;
        }
        let from = FROM.fetch_add(1, Ordering::Relaxed) % count;
        let found = (from..count).chain(0..from).find(|&at| self.is_in(at) && self.holds(at));
        fence(Ordering::Acquire);
        found
    }

    /// Writes down which words satisfy their comparisons; returns how many.
    ///
    /// # Safety
    ///
    /// `indices` must have room for all words.
    unsafe fn some(&self, indices: *mut usize) -> usize {
        let mut count = 0;
        for at in self.all().filter(|&at| self.holds(at)) {
            // SAFETY: by the caller's promise.
            unsafe { indices.add(count).write(at) };
            count += 1;
        }
        fence(Ordering::Acquire);
        count
    }

    /// Waits until `found` has something, asleep if only one word is asked for.
    fn wait<R>(&self, runtime: &'static Runtime, mut found: impl FnMut() -> Option<R>) -> R {
        let begin = Instant::now();
        loop {
            if let Some(found) = found() {
                return found;
            }
            if begin.elapsed() > AWAKE {
                break;
            }
            relax(runtime, self.call);
        }
        runtime.waiting(purpose(), |context| {
            found().or_else(|| {
                // No bell rings for many words at once: wait for the first, and look at all.
                context.pause_among(&runtime.all, LOOK_AGAIN).or_exit(self.call);
                None
            })
        })
    }
}

/// For how long a waiter for many words looks at them without a pause, and the pause.
const AWAKE: Duration = Duration::from_millis(1);
const LOOK_AGAIN: Duration = Duration::from_micros(50);

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_wait_all(question: &Question, call: Call) {
    let runtime = runtime(call);
    let words = Words::new(runtime, question, call);
    for at in words.all() {
        if !words.holds(at) {
            sleep(runtime, words.ivar(at), words.comparison(at), call);
            races::acquired(runtime, words.ivar(at), words.kind.bytes, call);
        }
    }
    fence(Ordering::Acquire);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_wait_any(question: &Question, call: Call) -> usize {
    let runtime = runtime(call);
    let words = Words::new(runtime, question, call);
    if words.all().next().is_none() {
        return usize::MAX;
    }
    words.wait(runtime, || words.any())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_wait_some(
    question: &Question,
    indices: *mut usize,
    call: Call,
) -> usize {
    let runtime = runtime(call);
    let words = Words::new(runtime, question, call);
    if words.all().next().is_none() {
        return 0;
    }
    // SAFETY: by the specification there is room.
    words.wait(runtime, || Some(unsafe { words.some(indices) }).filter(|&count| count > 0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_test_all(question: &Question, call: Call) -> c_int {
    let runtime = runtime(call);
    let words = Words::new(runtime, question, call);
    let holds = words.all().all(|at| words.holds(at));
    fence(Ordering::Acquire);
    note_test(runtime, question, holds.then_some(0), call);
    c_int::from(holds)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_test_any(question: &Question, call: Call) -> usize {
    let runtime = runtime(call);
    let found = Words::new(runtime, question, call).any();
    note_test(runtime, question, found, call);
    found.unwrap_or(usize::MAX)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_test_some(
    question: &Question,
    indices: *mut usize,
    call: Call,
) -> usize {
    let runtime = runtime(call);
    // SAFETY: by the specification there is room.
    let count = unsafe { Words::new(runtime, question, call).some(indices) };
    note_test(runtime, question, Some(count).filter(|&count| count > 0), call);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_compare_as_their_types_do() {
        let call = Call::new(c"test");
        let holds = |word, cmp, held: u64, value: u64| {
            let kind = Kind::new(word, call);
            Comparison::new(kind, cmp, value, call).holds(kind.extend(held))
        };
        const GT: c_int = 2;
        const LT: c_int = 4;
        for (signed, bits) in [(0, 16), (2, 32), (4, 64)] {
            let minus_one = u64::MAX >> (64 - bits);
            assert!(holds(signed, LT, minus_one, 0) && !holds(signed, GT, minus_one, 0));
            assert!(holds(signed + 1, GT, minus_one, 0) && !holds(signed + 1, LT, minus_one, 0));
            // Bits above the word do not matter.
            assert!(holds(signed, 0, minus_one, u64::MAX));
            let smallest = 1 << (bits - 1);
            assert!(holds(signed, LT, smallest, minus_one));
            assert!(holds(signed, 3, smallest, smallest) && holds(signed, 5, smallest, smallest));
            assert!(holds(signed, 1, smallest, minus_one));
        }
    }
}
