//! Where the bytes of a buffer lie: a datatype, flattened to runs of bytes, some times over.

use std::slice;

/// A run of bytes of one element of a datatype.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) offset: i64,
    pub(crate) bytes: u64,
}

/// A datatype, as the border has flattened it. It stays as it is for as long as it is used.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Type {
    /// The bytes of one element.
    size: u64,
    /// How far apart elements are.
    extent: i64,
    runs: *const Run,
    count: u64,
    /// The kind of number that it is made of, for the border; 0 if it is made of several.
    _number: u32,
    /// The bytes of one such number.
    number_bytes: u32,
}

/// Elements of a type, from some origin on: an address, or a displacement.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a> {
    kind: &'a Type,
    count: u64,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(kind: &'a Type, count: u64) -> Layout<'a> {
        Layout { kind, count }
    }

    fn runs(&self) -> &'a [Run] {
        match self.kind.count {
            0 => &[],
            // SAFETY: the border has made them, and keeps them.
            count => unsafe { slice::from_raw_parts(self.kind.runs, count as usize) },
        }
    }

    /// The bytes of one of the numbers that it is made of.
    pub(crate) fn number_bytes(&self) -> usize {
        self.kind.number_bytes as usize
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.kind.size.saturating_mul(self.count)
    }

    /// The only run, if there is but one.
    #[inline]
    pub(crate) fn contiguous(&self) -> Option<Run> {
        match *self.runs() {
            [run] if self.count == 1 => Some(run),
            [run] if run.bytes as i64 == self.kind.extent => {
                Some(Run { offset: run.offset, bytes: run.bytes * self.count })
            }
            _ => None,
        }
    }

    /// The runs, one after the other; neighbours that touch are one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> + use<'a> {
        let (runs, kind, count) = (self.runs(), self.kind, self.count);
        let single = self.contiguous();
        let many = (0..if single.is_some() { 0 } else { count }).flat_map(move |element| {
            let start = (element as i64).wrapping_mul(kind.extent);
            runs.iter().map(move |run| Run { offset: start.wrapping_add(run.offset), ..*run })
        });
        single.into_iter().chain(Touching { runs: many, held: None })
    }

    /// The first and the last byte but one, counted from the origin; `None` if there are none.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let runs = self.runs();
        if self.count == 0 || runs.is_empty() {
            return None;
        }
        let first = runs.iter().map(|run| run.offset).min()?;
        let last = runs.iter().map(|run| run.offset.saturating_add(run.bytes as i64)).max()?;
        let shift = (self.count as i64 - 1).saturating_mul(self.kind.extent);
        Some((first.min(first.saturating_add(shift)), last.max(last.saturating_add(shift))))
    }
}

/// Joins runs that touch.
struct Touching<I> {
    runs: I,
    held: Option<Run>,
}

impl<I: Iterator<Item = Run>> Iterator for Touching<I> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        for run in self.runs.by_ref() {
            match &mut self.held {
                Some(held) if held.offset.wrapping_add(held.bytes as i64) == run.offset => {
                    held.bytes += run.bytes;
                }
                held => {
                    let before = held.replace(run);
                    if before.is_some() {
                        return before;
                    }
                }
            }
        }
        self.held.take()
    }
}

/// Calls `each` with pieces of two layouts of as many bytes, in step: offset here, offset there,
/// length. What one has more than the other is left out.
pub(crate) fn in_step<E>(
    here: &Layout<'_>,
    there: &Layout<'_>,
    mut each: impl FnMut(i64, i64, u64) -> Result<(), E>,
) -> Result<(), E> {
    let (mut here, mut there) = (here.iter(), there.iter());
    let (mut a, mut b) = (here.next(), there.next());
    while let (Some(left), Some(right)) = (&mut a, &mut b) {
        let bytes = left.bytes.min(right.bytes);
        each(left.offset, right.offset, bytes)?;
        for run in [left, right] {
            run.offset += bytes as i64;
            run.bytes -= bytes;
        }
        if a.is_some_and(|run| run.bytes == 0) {
            a = here.next();
        }
        if b.is_some_and(|run| run.bytes == 0) {
            b = there.next();
        }
    }
    Ok(())
}

/// Copies the bytes of a buffer into one piece.
///
/// # Safety
///
/// All bytes of the layout from `base` on must be readable.
pub(crate) unsafe fn pack(base: *const u8, layout: &Layout<'_>) -> Vec<u8> {
    let mut packed = Vec::with_capacity(layout.bytes() as usize);
    for run in layout.iter() {
        let from = base.wrapping_offset(run.offset as isize);
        // SAFETY: by the caller's promise.
        packed.extend_from_slice(unsafe { slice::from_raw_parts(from, run.bytes as usize) });
    }
    packed
}

/// Copies bytes in one piece to where they belong in a buffer.
///
/// # Safety
///
/// All bytes of the layout from `base` on must be writable.
pub(crate) unsafe fn unpack(base: *mut u8, layout: &Layout<'_>, mut packed: &[u8]) {
    for run in layout.iter() {
        let bytes = packed.len().min(run.bytes as usize);
        let (now, rest) = packed.split_at(bytes);
        // SAFETY: by the caller's promise; `packed` is memory of this library.
        unsafe {
            base.wrapping_offset(run.offset as isize).copy_from_nonoverlapping(now.as_ptr(), bytes);
        }
        packed = rest;
    }
}
