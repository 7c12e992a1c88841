//! Puts, gets and accumulates between a numpy array and a selection of a rank's part.

use farside::{Patch, Rank, Summand};
use numpy::{PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use crate::access::HELD_BYTES;
use crate::array::{self, as_array, as_summand, check_writable, has_dtype, scalar};
use crate::error::bad_argument;
use crate::number::{is_summand, no_summand, of_summand};
use crate::selection::Selection;
use crate::window::Window;

/// Both sides of a transfer. Strides count bytes; those of the far side are not negative.
pub(crate) struct Block {
    counts: Vec<usize>,
    near: Vec<isize>,
    far: Vec<usize>,
    /// The first element of the near side.
    memory: *mut u8,
    pub(crate) offset: u64,
    item: usize,
    /// The dimensions that were turned round.
    turned: Vec<usize>,
}

impl Block {
    /// Puts a selection and an array with these strides side by side, and turns dimensions round
    /// in which the selection goes backwards.
    pub(crate) fn new(
        selection: &Selection,
        memory: *mut u8,
        near: &[isize],
        item: usize,
    ) -> Block {
        let mut block = Block {
            counts: selection.counts().to_vec(),
            near: near.to_vec(),
            far: Vec::with_capacity(near.len()),
            memory,
            offset: selection.offset as u64,
            item,
            turned: Vec::new(),
        };
        for (at, &stride) in selection.strides().iter().enumerate() {
            let last = block.counts[at].saturating_sub(1);
            if stride < 0 && last > 0 {
                block.offset -= last as u64 * stride.unsigned_abs() as u64;
                block.memory = block.memory.wrapping_offset(last as isize * block.near[at]);
                block.near[at] = -block.near[at];
                block.turned.push(at);
            }
            block.far.push(stride.unsigned_abs());
        }
        block
    }

    /// Returns the bytes of the transfer.
    pub(crate) fn bytes(&self) -> usize {
        self.counts.iter().product::<usize>() * self.item
    }

    fn goes_backwards(&self) -> bool {
        self.near.iter().zip(&self.counts).any(|(&stride, &count)| stride < 0 && count > 1)
    }

    /// Returns whether strides are those of an array in C order.
    fn is_tight(&self, stride_of: impl Fn(usize) -> isize) -> bool {
        let mut expected = self.item as isize;
        self.counts.iter().enumerate().rev().all(|(at, &count)| {
            let is_next = count == 1 || stride_of(at) == expected;
            expected *= count as isize;
            is_next
        })
    }

    /// Returns whether both sides are one run of bytes.
    pub(crate) fn is_one_run(&self) -> bool {
        self.is_near_tight() && self.is_tight(|at| self.far[at] as isize)
    }

    fn is_near_tight(&self) -> bool {
        self.is_tight(|at| self.near[at])
    }

    /// Returns how far the near side reaches.
    fn reach(&self) -> usize {
        let steps = self.counts.iter().zip(&self.near);
        steps.map(|(&count, &stride)| (count - 1) * stride as usize).sum::<usize>() + self.item
    }

    /// Returns the near side as bytes.
    ///
    /// # Safety
    ///
    /// The array lives for as long as the bytes are used; it has elements; no stride is negative.
    pub(crate) unsafe fn near_bytes<'a>(&self) -> &'a mut [u8] {
        // SAFETY: by the caller's promise; numpy keeps the strides of an array inside of it.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.reach()) }
    }

    /// Copies the near side to memory of its own, in C order and aligned for any number.
    fn pack(&self) -> Vec<u128> {
        let mut packed = vec![0u128; self.bytes().div_ceil(16)];
        let mut into = packed.as_mut_ptr().cast::<u8>();
        self.walk(0, self.memory, &mut |from| {
            // SAFETY: there is an element, and room for as many as there are.
            unsafe { std::ptr::copy_nonoverlapping(from, into, self.item) };
            into = into.wrapping_add(self.item);
        });
        packed
    }

    fn walk(&self, dimension: usize, from: *const u8, each: &mut dyn FnMut(*const u8)) {
        match self.counts.get(dimension) {
            None => each(from),
            Some(&count) => (0..count as isize).for_each(|at| {
                self.walk(dimension + 1, from.wrapping_offset(at * self.near[dimension]), each);
            }),
        }
    }

    /// Makes memory of its own the near side.
    fn use_packed(&mut self, packed: &mut [u128]) {
        self.memory = packed.as_mut_ptr().cast();
        let mut stride = self.item as isize;
        for (near, &count) in self.near.iter_mut().zip(&self.counts).rev() {
            *near = stride;
            stride *= count as isize;
        }
    }

    /// Calls something with the shape of a strided transfer of bytes.
    fn with_patch<R>(&self, run: impl FnOnce(&Patch<'_>) -> R) -> R {
        let near = self.near.iter().map(|&stride| stride as usize);
        let (mut counts, mut far) = (self.counts.clone(), self.far.clone());
        let mut near: Vec<usize> = near.collect();
        counts.push(self.item);
        near.push(1);
        far.push(1);
        run(&Patch { counts: &counts, near: &near, far: &far })
    }
}

/// Returns the strides of an array that is spread to a shape, as an assignment spreads it.
fn broadcast(array: &Bound<'_, PyUntypedArray>, shape: &[usize]) -> PyResult<Vec<isize>> {
    let (own, strides) = (array.shape(), array.strides());
    let surplus = own.len().saturating_sub(shape.len());
    let misfit = || {
        let text = format!("an array of shape {own:?} does not fit into a selection of {shape:?}");
        bad_argument(array.py(), text)
    };
    if own[..surplus].iter().any(|&count| count != 1) {
        return Err(misfit());
    }
    let (own, strides) = (&own[surplus..], &strides[surplus..]);
    let lead = shape.len() - own.len();
    let spread = |(at, &count): (usize, &usize)| match at.checked_sub(lead) {
        None => Ok(0),
        Some(at) if own[at] == count => Ok(strides[at]),
        Some(at) if own[at] == 1 => Ok(0),
        Some(_) => Err(misfit()),
    };
    shape.iter().enumerate().map(spread).collect()
}

impl Window {
    /// Returns whether a transfer is so long, or goes so far, that the interpreter's lock is
    /// released for it.
    #[inline]
    pub(crate) fn is_long(&self, rank: Rank, bytes: usize) -> bool {
        bytes > HELD_BYTES || !self.is_near(rank)
    }

    /// Writes a value to a selection.
    pub(crate) fn put_value(
        &self,
        py: Python<'_>,
        rank: Rank,
        selection: &Selection,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (array, mut block) = self.source(py, selection, value)?;
        let mut packed = Vec::new();
        if block.bytes() == 0 {
            return Ok(());
        }
        if block.goes_backwards() {
            packed = block.pack();
            block.use_packed(&mut packed);
        }
        let is_long = self.is_long(rank, block.bytes());
        let to = self.memory().at(rank, block.offset);
        // SAFETY: the array, or the packed copy, lives until the end of this function.
        let data = unsafe { block.near_bytes() };
        self.access.run(py, is_long, |context| match block.is_one_run() {
            true => context.put(data, to),
            false => block.with_patch(|patch| context.put_strided(data, to, patch)),
        })?;
        drop((array, packed));
        Ok(())
    }

    /// Returns a value as an array of the window's dtype, beside a selection.
    pub(crate) fn source<'py>(
        &self,
        py: Python<'py>,
        selection: &Selection,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyUntypedArray>, Block)> {
        let array = as_array(value, self.descr(py))?;
        let near = broadcast(&array, selection.counts())?;
        let block = Block::new(selection, array::data(&array), &near, self.item());
        Ok((array, block))
    }

    /// Reads a selection into an array, which is made if there is none.
    pub(crate) fn get_value<'py>(
        &self,
        py: Python<'py>,
        rank: Rank,
        selection: &Selection,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = match out {
            None => array::empty(self.descr(py), selection.counts())?,
            Some(out) => self.destination(py, selection, out)?,
        };
        let mut block = Block::new(selection, array::data(&array), array.strides(), self.item());
        if block.bytes() == 0 {
            return Ok(array.into_any());
        }
        if block.goes_backwards() {
            if out.is_some() {
                let fresh = self.get_value(py, rank, selection, None)?;
                array::copy(&array, &fresh.cast_into::<PyUntypedArray>()?)?;
                return Ok(array.into_any());
            }
            // The fresh array is filled forwards, and a view of it goes backwards.
            block.memory = array::data(&array);
            block.near = array.strides().to_vec();
        }
        let is_long = self.is_long(rank, block.bytes());
        let from = self.memory().at(rank, block.offset);
        // SAFETY: the array lives until the end of this function.
        let into = unsafe { block.near_bytes() };
        self.access.run(py, is_long, |context| match block.is_one_run() {
            true => context.get(from, into),
            false => block.with_patch(|patch| context.get_strided(from, into, patch)),
        })?;
        match out {
            None => turn(array, &block.turned),
            Some(_) => Ok(array.into_any()),
        }
    }

    /// Checks an array that is to be read into.
    pub(crate) fn destination<'py>(
        &self,
        py: Python<'py>,
        selection: &Selection,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let array = out.cast::<PyUntypedArray>()?;
        check_writable(array)?;
        let (shape, wanted) = (array.shape(), selection.counts());
        if !has_dtype(array, self.descr(py)) || shape != wanted {
            let text = format!(
                "`out` has dtype {} and shape {shape:?}: the selection has {} and {wanted:?}",
                array.dtype(),
                self.descr(py)
            );
            return Err(bad_argument(py, text));
        }
        Ok(array.clone())
    }

    /// Reads one element.
    #[inline]
    pub(crate) fn get_element<'py>(
        &self,
        py: Python<'py>,
        rank: Rank,
        offset: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut small = [0u64; 2];
        let item = self.item();
        let mut large = Vec::new();
        let element: &mut [u8] = if item <= 16 {
            // SAFETY: so many bytes of integers.
            unsafe { std::slice::from_raw_parts_mut(small.as_mut_ptr().cast(), item) }
        } else {
            large.resize(item, 0);
            &mut large
        };
        let from = self.memory().at(rank, offset as u64);
        self.access.run(py, self.is_long(rank, item), |context| context.get(from, element))?;
        scalar(self.descr(py), element)
    }

    /// Adds `scale` times a value to a selection.
    pub(crate) fn accumulate_value(
        &self,
        py: Python<'_>,
        rank: Rank,
        selection: &Selection,
        value: &Bound<'_, PyAny>,
        scale: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let number = self.number();
        let none = || Err(no_summand(self.descr(py)));
        if !number.is_some_and(is_summand) {
            return none();
        }
        let value = as_summand(value, self.descr(py))?;
        let (array, mut block) = self.source(py, selection, value.as_any())?;
        let mut packed = Vec::new();
        if block.bytes() == 0 {
            return Ok(());
        }
        if !block.is_near_tight() || !array.is_aligned() {
            packed = block.pack();
            block.use_packed(&mut packed);
        }
        let scale = scale.map(|scale| as_summand(scale, self.descr(py))).transpose()?;
        if scale.as_ref().is_some_and(|scale| scale.len() != 1) {
            return Err(bad_argument(py, "the scale must be one number"));
        }
        let factor = scale.as_ref().map_or(std::ptr::null(), |one| array::data(one).cast_const());
        let call = ScaledSum { window: self, rank, block: &block, factor };
        of_summand!(number, accumulate(py, &call), none())?;
        drop((array, packed, scale));
        Ok(())
    }
}

/// An accumulate whose kind of number is not known yet.
struct ScaledSum<'a> {
    window: &'a Window,
    rank: Rank,
    block: &'a Block,
    /// One number, or null.
    factor: *const u8,
}

fn accumulate<T: Summand>(py: Python<'_>, call: &ScaledSum<'_>) -> PyResult<()> {
    let ScaledSum { window, rank, block, factor } = *call;
    let (bytes, size) = (block.bytes(), size_of::<T>());
    // SAFETY: the near side is tight and aligned, and lives until the call returns.
    let data = unsafe { std::slice::from_raw_parts(block.memory.cast::<T>(), bytes / size) };
    let scale = match factor.is_null() {
        true => T::ONE,
        // SAFETY: an array of one element, which may not be aligned.
        false => unsafe { factor.cast::<T>().read_unaligned() },
    };
    let to = window.memory().at(rank, block.offset).cast::<T>();
    // Sums take locks of stripes, which another rank may hold.
    let is_long = window.is_long(rank, bytes.saturating_mul(8));
    window.access.run(py, is_long, |context| {
        if block.is_one_run() {
            return context.accumulate(scale, data, to);
        }
        let near: Vec<usize> = block.near.iter().map(|&stride| stride as usize / size).collect();
        let far: Vec<usize> = block.far.iter().map(|&stride| stride / size).collect();
        let patch = Patch { counts: &block.counts, near: &near, far: &far };
        context.accumulate_strided(scale, data, to, &patch)
    })
}

/// Returns a view of an array in which some dimensions go backwards.
fn turn<'py>(array: Bound<'py, PyUntypedArray>, turned: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    if turned.is_empty() {
        return Ok(array.into_any());
    }
    let py = array.py();
    let backwards = || py.eval(c"slice(None, None, -1)", None, None);
    let forwards = || Ok(PySlice::full(py).into_any());
    let slices = (0..array.ndim())
        .map(|at| if turned.contains(&at) { backwards() } else { forwards() })
        .collect::<PyResult<Vec<_>>>()?;
    array.get_item(PyTuple::new(py, slices)?)
}
