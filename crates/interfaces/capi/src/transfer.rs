//! Transfers by window, rank and byte offset, and their order.

use std::ffi::{c_int, c_void};

use farside::raw::{self, Request};
use farside::{Patch, Rank, Result, Run};

use crate::atomic::{FARSIDE_ATOMIC_ADD, FARSIDE_ATOMIC_STORE};
use crate::job::{context, farside_context_t};
use crate::number;
use crate::status::{bad, bytes, bytes_mut, guarded, input};
use crate::window::{farside_window_t, window};

/// One piece of a vector transfer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct farside_piece_t {
    /// Where it begins in memory of the caller.
    pub memory: *mut c_void,
    /// Where it begins in the rank's part of the window, in bytes.
    pub offset: u64,
    /// Its length.
    pub bytes: usize,
}

/// The shape of a strided transfer: a block of any number of dimensions, of which the last varies
/// fastest.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct farside_strides_t {
    /// The number of dimensions.
    pub dimensions: usize,
    /// The number of elements in each dimension.
    pub counts: *const usize,
    /// The bytes between neighbours of each dimension in memory of the caller.
    pub near_strides: *const usize,
    /// The bytes between neighbours of each dimension in the window.
    pub far_strides: *const usize,
    /// The bytes of one element, which are contiguous on both sides.
    pub element_bytes: usize,
}

/// Writes `bytes` bytes of `data` to a rank's part of a window, from `offset` on. Returns as soon
/// as `data` may be reused; farside_flush tells when the bytes have landed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_put(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let data = unsafe { self::bytes(data, bytes, "data")? };
        let (memory, entry) = (self::window(window)?, self::context(context)?);
        if let Ok(word) = data.try_into()
            && memory.put_directly(entry.context(), Rank(rank), offset, word)
        {
            return Ok(());
        }
        entry.told().put(data, memory.at(Rank(rank), offset))
    })
}

/// Reads `bytes` bytes of a rank's part of a window, from `offset` on, into `into`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_get(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let into = unsafe { bytes_mut(into, bytes, "into")? };
        let (memory, entry) = (self::window(window)?, self::context(context)?);
        if let Ok(word) = into.try_into()
            && memory.get_directly(entry.context(), Rank(rank), offset, word)
        {
            return Ok(());
        }
        entry.told().get(memory.at(Rank(rank), offset), into)
    })
}

/// Starts a farside_put. `data` must not be changed before the next farside_flush of the rank,
/// farside_flush_all or farside_sync of the same context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_put_nbi(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let data = unsafe { self::bytes(data, bytes, "data")? };
        let to = self::window(window)?.at(Rank(rank), offset);
        let entry = self::context(context)?;
        // SAFETY: by the caller's promise the data stays until the flush, which waits for it.
        let request = unsafe { Request::put(&entry.told(), data.as_ptr(), data.len(), to)? };
        entry.add_implicit(Rank(rank), request)
    })
}

/// Starts a farside_get. The bytes are there, and `into` may be touched, after the next
/// farside_flush of the rank, farside_flush_all or farside_sync of the same context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_get_nbi(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let into = unsafe { bytes_mut(into, bytes, "into")? };
        let from = self::window(window)?.at(Rank(rank), offset);
        let entry = self::context(context)?;
        // SAFETY: by the caller's promise nothing touches it until the flush, which waits for it.
        let request = unsafe { Request::get(&entry.told(), from, into.as_mut_ptr(), into.len())? };
        entry.add_implicit(Rank(rank), request)
    })
}

/// The near side of a strided transfer, and its shape with the bytes of an element as the last
/// dimension.
struct Block {
    counts: Vec<usize>,
    near: Vec<usize>,
    far: Vec<usize>,
    /// How far the near side reaches.
    near_bytes: usize,
}

impl Block {
    /// Reads a shape.
    ///
    /// # Safety
    ///
    /// The pointers are null or valid for reads of as many numbers as there are dimensions.
    unsafe fn read(strides: *const farside_strides_t) -> Result<Block> {
        // SAFETY: by the caller's promise.
        let strides = unsafe { input(strides, 1, "strides")? }[0];
        let numbers = |pointer, name| {
            // SAFETY: by the caller's promise.
            let numbers = unsafe { input(pointer, strides.dimensions, name)? };
            Ok::<Vec<usize>, farside::Error>(numbers.to_vec())
        };
        let mut block = Block {
            counts: numbers(strides.counts, "counts")?,
            near: numbers(strides.near_strides, "near_strides")?,
            far: numbers(strides.far_strides, "far_strides")?,
            near_bytes: 0,
        };
        if !block.counts.contains(&0) {
            let steps = block.counts.iter().zip(&block.near);
            let mut reach = steps.map(|(&count, &stride)| (count - 1).checked_mul(stride));
            let last = reach.try_fold(0usize, |sum, step| sum.checked_add(step?));
            let end = last.and_then(|last| last.checked_add(strides.element_bytes));
            block.near_bytes = end.ok_or_else(|| bad("the strides reach beyond all memory"))?;
        }
        block.counts.push(strides.element_bytes);
        block.near.push(1);
        block.far.push(1);
        Ok(block)
    }

    fn patch(&self) -> Patch<'_> {
        Patch { counts: &self.counts, near: &self.near, far: &self.far }
    }
}

/// Writes a block of memory of the caller to a block of a rank's part of a window: like farside_put
/// for all of its elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_put_strided(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    data: *const c_void,
    strides: *const farside_strides_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let block = unsafe { Block::read(strides)? };
        // SAFETY: by the caller's promise, as far as the shape reaches.
        let data = unsafe { bytes(data, block.near_bytes, "data")? };
        let to = self::window(window)?.at(Rank(rank), offset);
        self::context(context)?.told().put_strided(data, to, &block.patch())
    })
}

/// Reads a block of a rank's part of a window into a block of memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_get_strided(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    into: *mut c_void,
    strides: *const farside_strides_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let block = unsafe { Block::read(strides)? };
        // SAFETY: by the caller's promise, as far as the shape reaches.
        let into = unsafe { bytes_mut(into, block.near_bytes, "into")? };
        let from = self::window(window)?.at(Rank(rank), offset);
        self::context(context)?.told().get_strided(from, into, &block.patch())
    })
}

/// The pieces of a vector transfer, packed near.
fn runs(pieces: &[farside_piece_t]) -> Result<(Vec<Run>, usize)> {
    let mut packed = 0usize;
    let run = |piece: &farside_piece_t| {
        let far = usize::try_from(piece.offset)
            .map_err(|_| bad(format!("a piece at offset {} is beyond memory", piece.offset)))?;
        let run = Run { near: packed, far, len: piece.bytes };
        packed = packed
            .checked_add(piece.bytes)
            .filter(|&sum| sum <= isize::MAX as usize)
            .ok_or_else(|| bad("the pieces are longer than all memory"))?;
        Ok(run)
    };
    let runs = pieces.iter().map(run).collect::<Result<Vec<Run>>>()?;
    Ok((runs, packed))
}

/// Writes pieces of memory of the caller to pieces of a rank's part of a window, in one operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_put_vector(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    pieces: *const farside_piece_t,
    count: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let pieces = unsafe { input(pieces, count, "pieces")? };
        let (runs, sum) = runs(pieces)?;
        let mut packed = Vec::with_capacity(sum);
        for piece in pieces {
            // SAFETY: by the caller's promise.
            packed.extend_from_slice(unsafe { bytes(piece.memory, piece.bytes, "memory")? });
        }
        let to = self::window(window)?.at(Rank(rank), 0);
        self::context(context)?.told().put_vector(&packed, to, &runs)
    })
}

/// Reads pieces of a rank's part of a window into pieces of memory of the caller, in one operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_get_vector(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    pieces: *const farside_piece_t,
    count: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let pieces = unsafe { input(pieces, count, "pieces")? };
        let (runs, sum) = runs(pieces)?;
        let from = self::window(window)?.at(Rank(rank), 0);
        // Before memory is set aside for it: a length may be nonsense.
        let part = self::window(window)?.bytes(Rank(rank))?;
        if let Some(far) = pieces.iter().find(|piece| piece.bytes as u64 > part) {
            return Err(bad(format!("a piece of {} bytes of a part that has {part}", far.bytes)));
        }
        let mut packed = vec![0; sum];
        self::context(context)?.told().get_vector(from, &mut packed, &runs)?;
        for (piece, run) in pieces.iter().zip(&runs) {
            // SAFETY: by the caller's promise.
            let into = unsafe { bytes_mut(piece.memory, piece.bytes, "memory")? };
            into.copy_from_slice(&packed[run.near..run.near + run.len]);
        }
        Ok(())
    })
}

/// Where farside_put_signal signals, and how.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct farside_signal_t {
    /// The window of the word, which may be another one than that of the data.
    pub window: farside_window_t,
    /// The word of 64 bits in the part of the same rank.
    pub offset: u64,
    /// FARSIDE_ATOMIC_STORE or FARSIDE_ATOMIC_ADD.
    pub operation: c_int,
    /// The value that is stored or added.
    pub value: u64,
}

/// Does what farside_put does and then, when the bytes are there, stores or adds a value to a word
/// of the same rank, which wakes a rank that waits for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_put_signal(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    data: *const c_void,
    bytes: usize,
    signal: *const farside_signal_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (data, signal) =
            unsafe { (self::bytes(data, bytes, "data")?, input(signal, 1, "signal")?[0]) };
        let to = self::window(window)?.at(Rank(rank), offset);
        let at = self::window(signal.window)?.at(Rank(rank), signal.offset).cast::<u64>();
        let context = self::context(context)?.told();
        match signal.operation {
            FARSIDE_ATOMIC_STORE => context.put_signal(data, to, signal.value, at),
            FARSIDE_ATOMIC_ADD => context.put_signal_add(data, to, signal.value, at),
            other => Err(bad(format!(
                "{other} is not an operation of a signal; use FARSIDE_ATOMIC_STORE or \
                 FARSIDE_ATOMIC_ADD"
            ))),
        }
    })
}

/// Combines `count` elements of `data` with those of a rank's part of a window, from `offset` on;
/// accumulates on the same elements do not disturb each other. `number` is their kind, one of
/// FARSIDE_I32 to FARSIDE_F64_INDEX, `operation` one of FARSIDE_SUM to FARSIDE_NO_OP that they have
/// (else FARSIDE_ERROR_UNSUPPORTED), and a sum may multiply the elements of `data` by `scale`; NULL
/// is one. Returns as soon as `data` may be reused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_accumulate(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    data: *const c_void,
    count: usize,
    number: c_int,
    operation: c_int,
    scale: *const c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let accumulate = unsafe { number::accumulate(number, operation, scale)? };
        // SAFETY: by the caller's promise.
        let data = unsafe { number::elements(&accumulate, data, count)? };
        let to = self::window(window)?.at(Rank(rank), offset);
        raw::accumulate(&self::context(context)?.told(), &accumulate, data, to)
    })
}

/// Does a farside_accumulate, and writes what the elements were before to `old`: each is read and
/// changed in one step. For FARSIDE_NO_OP, `data` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_get_accumulate(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    data: *const c_void,
    old: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: there is no scale.
        let accumulate = unsafe { number::accumulate(number, operation, std::ptr::null())? };
        // SAFETY: by the caller's promise.
        let (data, old) = unsafe { number::fetching(&accumulate, data, old, count)? };
        let to = self::window(window)?.at(Rank(rank), offset);
        raw::get_accumulate(&self::context(context)?.told(), &accumulate, data, to, old)
    })
}

/// Orders puts: what this context put before lands ahead of what it puts, signals, accumulates or
/// does atomically at the same rank afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_fence(context: farside_context_t) -> c_int {
    guarded(|| self::context(context)?.told().fence())
}

/// Returns when all that this context put to `rank` has landed there, and what it got from it by
/// farside_get_nbi is here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_flush(context: farside_context_t, rank: u32) -> c_int {
    guarded(|| {
        let entry = self::context(context)?;
        let completed = entry.complete_implicit(Some(Rank(rank)));
        entry.context().flush(Rank(rank)).and(completed)
    })
}

/// Returns when all that this context put to any rank has landed there, and what it got by
/// farside_get_nbi is here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_flush_all(context: farside_context_t) -> c_int {
    guarded(|| {
        let entry = self::context(context)?;
        let completed = entry.complete_implicit(None);
        entry.context().flush_all().and(completed)
    })
}
