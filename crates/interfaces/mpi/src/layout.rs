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
    number_bytes: u32,
    /// The first byte of an element, and the last but one.
    first: i64,
    last: i64,
    /// How far apart the runs of an element are, if all are equally long and equally far apart;
    /// else zero.
    stride: i64,
    /// Whether elements lie one behind the other without gaps, for the border.
    _is_flat: u32,
}

impl Type {
    /// One run of numbers of so many bytes each.
    ///
    /// # Safety
    ///
    /// The run must stay where it is for as long as the type is used.
    pub(crate) unsafe fn of_run(run: &Run, number_bytes: usize) -> Type {
        Type {
            size: run.bytes,
            extent: run.bytes as i64,
            runs: run,
            count: 1,
            _number: 0,
            number_bytes: number_bytes as u32,
            first: run.offset,
            last: run.offset.wrapping_add(run.bytes as i64),
            stride: 0,
            _is_flat: 1,
        }
    }
}

/// Elements of a type, from some origin on: an address, or a displacement.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'a> {
    kind: &'a Type,
    count: u64,
    /// The bytes that are used at most, from the first run on.
    limit: u64,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(kind: &'a Type, count: u64) -> Layout<'a> {
        Layout { kind, count, limit: u64::MAX }
    }

    /// The first bytes of it: what is sent may be shorter than the place that it is sent to.
    pub(crate) fn first(self, bytes: usize) -> Layout<'a> {
        Layout { limit: self.limit.min(bytes as u64), ..self }
    }

    fn runs(&self) -> &'a [Run] {
        match self.kind.count {
            0 => &[],
            // SAFETY: the border has made them, and keeps them.
            count => unsafe { slice::from_raw_parts(self.kind.runs, count as usize) },
        }
    }

    pub(crate) fn number_bytes(&self) -> usize {
        self.kind.number_bytes as usize
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.kind.size.saturating_mul(self.count).min(self.limit)
    }

    /// The only run, if there is but one.
    #[inline]
    pub(crate) fn contiguous(&self) -> Option<Run> {
        let run = match *self.runs() {
            [run] if self.count == 1 => run,
            [run] if run.bytes as i64 == self.kind.extent => {
                Run { offset: run.offset, bytes: run.bytes.saturating_mul(self.count) }
            }
            _ => return None,
        };
        Some(Run { bytes: run.bytes.min(self.limit), ..run })
    }

    /// The runs, one after the other; neighbours that touch are one.
    pub(crate) fn iter(&self) -> Runs<'a> {
        match self.contiguous() {
            Some(run) => Runs { single: Some(run), ..Runs::of(Layout { count: 0, ..*self }) },
            None => Runs::of(*self),
        }
    }

    /// The first and the last byte but one, counted from the origin; `None` if there are none.
    #[inline]
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        if self.count == 0 || self.kind.count == 0 {
            return None;
        }
        let (first, last) = (self.kind.first, self.kind.last);
        let shift = (self.count as i64 - 1).saturating_mul(self.kind.extent);
        Some((first.min(first.saturating_add(shift)), last.max(last.saturating_add(shift))))
    }
}

pub(crate) struct Runs<'a> {
    /// All there is.
    single: Option<Run>,
    steps: Steps<'a>,
    /// A run that the next one may touch.
    held: Option<Run>,
    /// The bytes that are left of those that are used.
    limit: u64,
}

impl<'a> Runs<'a> {
    fn of(layout: Layout<'a>) -> Runs<'a> {
        let mut steps = Steps::of(layout);
        Runs { single: None, held: steps.next(), steps, limit: layout.limit }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        if self.single.is_some() {
            return self.single.take();
        }
        let mut held = self.held.take()?;
        for run in self.steps.by_ref() {
            if held.offset.wrapping_add(held.bytes as i64) != run.offset {
                self.held = Some(run);
                break;
            }
            held.bytes += run.bytes;
        }
        held.bytes = held.bytes.min(self.limit);
        self.limit -= held.bytes;
        (held.bytes > 0).then_some(held)
    }
}

/// The runs of each element, as they are.
struct Steps<'a> {
    runs: &'a [Run],
    left: std::slice::Iter<'a, Run>,
    /// Where this element begins, and how many follow.
    start: i64,
    extent: i64,
    more: u64,
}

impl<'a> Steps<'a> {
    fn of(layout: Layout<'a>) -> Steps<'a> {
        let runs = if layout.count == 0 { &[] } else { layout.runs() };
        let more = layout.count.saturating_sub(1);
        Steps { runs, left: runs.iter(), start: 0, extent: layout.kind.extent, more }
    }
}

impl Iterator for Steps<'_> {
    type Item = Run;

    #[inline(always)]
    fn next(&mut self) -> Option<Run> {
        if self.left.as_slice().is_empty() && self.more > 0 {
            self.more -= 1;
            self.start = self.start.wrapping_add(self.extent);
            self.left = self.runs.iter();
        }
        let run = self.left.next()?;
        Some(Run { offset: self.start.wrapping_add(run.offset), ..*run })
    }
}

struct Strided {
    first: Run,
    stride: i64,
    count: u64,
}

impl Layout<'_> {
    fn strided(&self) -> Option<Strided> {
        let Type { stride, count, .. } = *self.kind;
        let first = *self.runs().first()?;
        (self.count == 1 && stride != 0).then_some(Strided { first, stride, count })
    }
}

/// Calls `each` with pieces of two layouts, in step: offset here, offset there, length. What one
/// has more than the other is left out. Neither is limited.
#[inline(always)]
pub(crate) fn in_step(
    here: &Layout<'_>,
    there: &Layout<'_>,
    mut each: impl FnMut(i64, i64, usize),
) {
    if let (Some(left), Some(right)) = (here.contiguous(), there.contiguous()) {
        return each(left.offset, right.offset, left.bytes.min(right.bytes) as usize);
    }
    if let (Some(left), Some(right)) = (here.strided(), there.strided())
        && left.first.bytes == right.first.bytes
    {
        let bytes = left.first.bytes as usize;
        let (mut here, mut there) = (left.first.offset, right.first.offset);
        let mut steps = |bytes: usize| {
            for _ in 0..left.count.min(right.count) {
                each(here, there, bytes);
                (here, there) = (here + left.stride, there + right.stride);
            }
        };
        // A word is a load and a store, which the loop must know.
        return match bytes {
            8 => steps(8),
            4 => steps(4),
            bytes => steps(bytes),
        };
    }
    let (mut here, mut there) = (Steps::of(*here), Steps::of(*there));
    let (Some(mut left), Some(mut right)) = (here.next(), there.next()) else { return };
    loop {
        let bytes = left.bytes.min(right.bytes);
        each(left.offset, right.offset, bytes as usize);
        for (run, steps) in [(&mut left, &mut here), (&mut right, &mut there)] {
            if run.bytes > bytes {
                *run = Run { offset: run.offset + bytes as i64, bytes: run.bytes - bytes };
                continue;
            }
            match steps.next() {
                Some(next) => *run = next,
                None => return,
            }
        }
    }
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
/// All bytes of the layout from `base` on must be writable; `packed` may be some of them.
pub(crate) unsafe fn unpack(base: *mut u8, layout: &Layout<'_>, mut packed: &[u8]) {
    for run in layout.iter() {
        let bytes = packed.len().min(run.bytes as usize);
        let (now, rest) = packed.split_at(bytes);
        // SAFETY: by the caller's promise.
        unsafe { base.wrapping_offset(run.offset as isize).copy_from(now.as_ptr(), bytes) };
        packed = rest;
    }
}
