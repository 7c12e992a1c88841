//! Waiting for words of this rank's own memory.

use std::ffi::c_int;
use std::time::Duration;

use farside::fabric::Width;
use farside::{Place, Rank, Result, WaitOptions};

use crate::atomic::width;
use crate::job::{ContextEntry, context, farside_context_t};
use crate::status::{Out, bad, guarded, input};
use crate::window::{farside_window_t, window};

/// In place of a time limit: none.
pub const FARSIDE_FOREVER: u64 = u64::MAX;

/// The word equals the value.
pub const FARSIDE_EQ: c_int = 0;
/// The word differs from the value.
pub const FARSIDE_NE: c_int = 1;
/// The word is greater than the value, both without sign.
pub const FARSIDE_GT: c_int = 2;
/// The word is greater than the value or equals it, both without sign.
pub const FARSIDE_GE: c_int = 3;
/// The word is less than the value, both without sign.
pub const FARSIDE_LT: c_int = 4;
/// The word is less than the value or equals it, both without sign.
pub const FARSIDE_LE: c_int = 5;

/// What a word of this rank's own memory must satisfy.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct farside_condition_t {
    /// The window in whose own part the word is.
    pub window: farside_window_t,
    /// Where the word of 64 bits is, in bytes.
    pub offset: u64,
    /// One of FARSIDE_EQ to FARSIDE_LE.
    pub comparison: c_int,
    /// What the word is compared with.
    pub value: u64,
}

/// Reads a comparison.
fn comparison(code: c_int) -> Result<fn(&u64, &u64) -> bool> {
    Ok(match code {
        FARSIDE_EQ => u64::eq,
        FARSIDE_NE => u64::ne,
        FARSIDE_GT => u64::gt,
        FARSIDE_GE => u64::ge,
        FARSIDE_LT => u64::lt,
        FARSIDE_LE => u64::le,
        _ => {
            return Err(bad(format!("{code} is not a comparison; use FARSIDE_EQ to FARSIDE_LE")));
        }
    })
}

/// A time limit.
pub(crate) fn limit(timeout_ns: u64) -> Option<Duration> {
    (timeout_ns != FARSIDE_FOREVER).then(|| Duration::from_nanos(timeout_ns))
}

/// A word of this rank's own memory.
fn own(entry: &ContextEntry, handle: farside_window_t, offset: u64) -> Result<Place<'static, u8>> {
    Ok(window(handle)?.at(entry.context().rank(), offset))
}

fn options(timeout_ns: u64) -> WaitOptions {
    WaitOptions { timeout: limit(timeout_ns), ..WaitOptions::default() }
}

/// Refuses words that cannot be waited for.
fn single(bits: c_int) -> Result<Width> {
    match width(bits)? {
        Width::Pair => Err(bad("a rank waits for words of 32 or 64 bits, not of 128")),
        width => Ok(width),
    }
}

/// Waits until the word of `bits` bits, 32 or 64, at `offset` of this rank's own part of a window
/// satisfies a comparison with `value`, for at most `timeout_ns` nanoseconds or FARSIDE_FOREVER,
/// and gives what it held then; `seen` may be null. Atomics and signals wake the rank; a plain put
/// to the word need not be noticed. Fails with FARSIDE_ERROR_LOST if a rank was lost, since it
/// might have been the one to signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_wait(
    context: farside_context_t,
    window: farside_window_t,
    offset: u64,
    bits: c_int,
    comparison: c_int,
    value: u64,
    timeout_ns: u64,
    seen: *mut u64,
) -> c_int {
    guarded(|| {
        let holds = self::comparison(comparison)?;
        let entry = self::context(context)?;
        let place = own(entry, window, offset)?;
        let context = entry.told();
        let word = match (single(bits)?, limit(timeout_ns)) {
            (Width::W32, None) => {
                context.wait(place.cast::<u32>(), |word| holds(&word.into(), &value))?.into()
            }
            (Width::W32, Some(limit)) => context
                .wait_timeout(place.cast::<u32>(), |word| holds(&word.into(), &value), limit)?
                .into(),
            (_, None) => context.wait(place.cast::<u64>(), |word| holds(&word, &value))?,
            (_, Some(limit)) => {
                context.wait_timeout(place.cast::<u64>(), |word| holds(&word, &value), limit)?
            }
        };
        if !seen.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { Out::new(seen, "seen")? }.set(word);
        }
        Ok(())
    })
}

/// Gives 1 if farside_wait would return at once, else 0, and what the word holds; `seen` may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_test(
    context: farside_context_t,
    window: farside_window_t,
    offset: u64,
    bits: c_int,
    comparison: c_int,
    value: u64,
    holds: *mut c_int,
    seen: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let out = unsafe { Out::new(holds, "holds")? };
        let holds = self::comparison(comparison)?;
        let entry = self::context(context)?;
        let place = own(entry, window, offset)?;
        let word = match single(bits)? {
            Width::W32 => entry.told().load(place.cast::<u32>())?.into(),
            _ => entry.told().load(place.cast::<u64>())?,
        };
        out.set(holds(&word, &value).into());
        if !seen.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { Out::new(seen, "seen")? }.set(word);
        }
        Ok(())
    })
}

/// Waits until one of `count` words of 64 bits of this rank's own memory satisfies its condition,
/// and gives which and what it held; `seen` may be null. See farside_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_wait_any(
    context: farside_context_t,
    conditions: *const farside_condition_t,
    count: usize,
    timeout_ns: u64,
    which: *mut usize,
    seen: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (conditions, which) =
            unsafe { (input(conditions, count, "conditions")?, Out::new(which, "which")?) };
        if conditions.is_empty() && timeout_ns == FARSIDE_FOREVER {
            return Err(bad("the list of words to wait for is empty: the wait would never end"));
        }
        let entry = self::context(context)?;
        let checks = conditions.iter().map(|condition| {
            let (holds, value) = (comparison(condition.comparison)?, condition.value);
            Ok(Box::new(move |word: u64| holds(&word, &value)) as Box<dyn Fn(u64) -> bool>)
        });
        let checks = checks.collect::<Result<Vec<_>>>()?;
        let words = conditions.iter().zip(&checks).map(|(condition, check)| {
            Ok((own(entry, condition.window, condition.offset)?.cast::<u64>(), &**check))
        });
        let words = words.collect::<Result<Vec<_>>>()?;
        let (index, word) = entry.told().wait_any(&words, options(timeout_ns))?;
        which.set(index);
        if !seen.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { Out::new(seen, "seen")? }.set(word);
        }
        Ok(())
    })
}

/// Stands in a loop that polls memory of another rank: lets other ranks run, and fails with
/// FARSIDE_ERROR_LOST once a rank was lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_relax(context: farside_context_t) -> c_int {
    guarded(|| self::context(context)?.context().relax())
}

/// A rank as Rust names it.
pub(crate) fn ranks(numbers: &[u32]) -> Vec<Rank> {
    numbers.iter().copied().map(Rank).collect()
}
