//! The operations of an epoch, by elements and by bytes.

use farside::epoch::{Op, Window};
use farside::fabric::Width;
use farside::{AtomicWord, Integer, Rank, Result, Summand};
use numpy::{PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use super::EpochWindow;
use crate::array::{self, as_array, check_writable, contiguous};
use crate::error::{bad_argument, unsupported};
use crate::number::{Fold, Folder, Number, folder, no_summand, of_summand};

#[pymethods]
impl EpochWindow {
    /// Writes data to a target, from displacement `at` on. It has landed when the epoch ends, or
    /// after a flush.
    fn put(&self, py: Python<'_>, target: u32, at: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = contiguous(as_array(data, self.shared.descr.bind(py))?.as_any())?;
        self.put_bytes(py, target, self.bytes_at(at), &data)
    }

    /// Writes the bytes of a contiguous array to a target, from byte `at` on.
    fn put_bytes(
        &self,
        py: Python<'_>,
        target: u32,
        at: u64,
        data: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        check_tight(data)?;
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(data) };
        let at = self.place(py, target, at, bytes.len())?;
        self.run(py, self.is_long(bytes.len()), |window| window.put(&*bytes, Rank(target), at))
    }

    /// Reads `out`, or `count` elements, from displacement `at` of a target on.
    #[pyo3(signature = (target, at, count=1, out=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        target: u32,
        at: u64,
        count: usize,
        out: Option<Bound<'py, PyUntypedArray>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let out = match out {
            Some(out) => out,
            None => array::empty(self.shared.descr.bind(py), &[count])?,
        };
        self.get_bytes(py, target, self.bytes_at(at), &out)?;
        Ok(out.into_any())
    }

    /// Fills a contiguous array with the bytes of a target, from byte `at` on.
    fn get_bytes(
        &self,
        py: Python<'_>,
        target: u32,
        at: u64,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        check_tight(out)?;
        check_writable(out)?;
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(out) };
        let at = self.place(py, target, at, bytes.len())?;
        let is_long = self.is_long(bytes.len());
        self.run(py, is_long, |window| window.get_into(bytes, Rank(target), at))
    }

    /// Adds data to the elements of a target, from displacement `at` on.
    fn accumulate(
        &self,
        py: Python<'_>,
        target: u32,
        at: u64,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let data = contiguous(as_array(data, self.shared.descr.bind(py))?.as_any())?;
        self.accumulate_bytes(py, target, self.bytes_at(at), &data)
    }

    /// Adds the numbers of a contiguous array to those of a target, from byte `at` on.
    fn accumulate_bytes(
        &self,
        py: Python<'_>,
        target: u32,
        at: u64,
        data: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        check_tight(data)?;
        let descr = data.dtype();
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(data) };
        let at = self.place(py, target, at, bytes.len())?;
        let call = (py, self, Rank(target), at, &*bytes);
        let number = Number::of(&descr);
        of_summand!(number, accumulate(call.0, call.1, call.2, call.3, call.4), {
            Err(no_summand(&descr))
        })
    }

    /// Folds the numbers of a contiguous array into those of a target, from byte `at` on, each
    /// atomically; the array holds what was there before. For operations that fabrics do not have.
    fn fold_bytes(
        &self,
        py: Python<'_>,
        target: u32,
        at: u64,
        data: &Bound<'_, PyUntypedArray>,
        op: &str,
    ) -> PyResult<()> {
        check_tight(data)?;
        check_writable(data)?;
        let descr = data.dtype();
        let fold: Option<Folder> = match op {
            "replace" => Some(|into, from| into.copy_from_slice(from)),
            "no_op" => Some(|_, _| {}),
            _ => {
                let operation = Fold::named(py, op)?;
                Number::of(&descr).and_then(|number| folder(number, operation))
            }
        };
        let Some(fold) = fold else {
            return Err(unsupported(py, format!("{op} of {descr}")));
        };
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(data) };
        let at = self.place(py, target, at, bytes.len())?;
        let target = Rank(target);
        match descr.itemsize() {
            4 => self.run(py, true, |window| change_each::<u32>(window, target, at, bytes, fold)),
            8 => self.run(py, true, |window| change_each::<u64>(window, target, at, bytes, fold)),
            _ => Err(unsupported(
                py,
                format!("{op} of {descr} at another rank: elements have 4 or 8 bytes"),
            )),
        }
    }

    /// Writes the element of one array to a target, at byte `at`, if it holds that of another,
    /// which becomes what was there before. Elements have 4 or 8 bytes.
    fn swap_bytes(
        &self,
        py: Python<'_>,
        target: u32,
        at: u64,
        held: &Bound<'_, PyUntypedArray>,
        desired: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        check_tight(held)?;
        check_tight(desired)?;
        check_writable(held)?;
        // SAFETY: the arrays live until the call returns.
        let (held, desired) = unsafe { (array::bytes(held), array::bytes(desired)) };
        let at = self.place(py, target, at, held.len())?;
        let (target, is_long) = (Rank(target), self.is_long(0));
        match (held.len(), desired.len()) {
            (4, 4) => self.run(py, is_long, |to| swap::<u32>(to, target, at, held, desired)),
            (8, 8) => self.run(py, is_long, |to| swap::<u64>(to, target, at, held, desired)),
            (held, desired) => Err(unsupported(
                py,
                format!("a compare-and-swap of {held} and {desired} bytes: 4 or 8 of both are"),
            )),
        }
    }

    /// Changes an integer of a target by sum, replace, no_op, and, or, or xor; returns what it was.
    fn fetch_op<'py>(
        &self,
        py: Python<'py>,
        target: u32,
        at: u64,
        value: &Bound<'py, PyAny>,
        op: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let op = match op {
            "sum" => Op::Sum,
            "replace" => Op::Replace,
            "no_op" => Op::NoOp,
            "and" => Op::And,
            "or" => Op::Or,
            "xor" => Op::Xor,
            _ => return Err(bad_argument(py, format!("{op:?} is no operation of a fetch_op"))),
        };
        let place = self.place(py, target, self.bytes_at(at), self.shared.item)?;
        let (width, bits) = self.word(value)?;
        let is_long = self.is_long(0);
        let held = self.run(py, is_long, |window| match width {
            Width::W32 => fetch::<u32>(window, op, bits, Rank(target), place),
            _ => fetch::<u64>(window, op, bits, Rank(target), place),
        })?;
        self.integer(py, held)
    }

    /// Writes `desired` to an integer of a target if it is `expected`; returns what it was.
    fn compare_swap<'py>(
        &self,
        py: Python<'py>,
        target: u32,
        at: u64,
        expected: &Bound<'py, PyAny>,
        desired: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let place = self.place(py, target, self.bytes_at(at), self.shared.item)?;
        let ((width, expected), (_, desired)) = (self.word(expected)?, self.word(desired)?);
        let held = self.run(py, self.is_long(0), |window| match width {
            Width::W32 => {
                let (expected, desired) = (expected as u32, desired as u32);
                let fetched = window.compare_swap(expected, desired, Rank(target), place)?;
                Ok(u64::from(window.wait_fetched(fetched)?))
            }
            _ => {
                let fetched = window.compare_swap(expected, desired, Rank(target), place)?;
                window.wait_fetched(fetched)
            }
        })?;
        self.integer(py, held)
    }
}

impl EpochWindow {
    /// Reads an integer of the window's dtype as the bits of a word.
    fn word(&self, value: &Bound<'_, PyAny>) -> PyResult<(Width, u64)> {
        Ok(match self.shared.number {
            Some(Number::I32) => (Width::W32, u64::from(value.extract::<i32>()? as u32)),
            Some(Number::U32) => (Width::W32, value.extract::<u32>()?.into()),
            Some(Number::I64) => (Width::W64, value.extract::<i64>()? as u64),
            Some(Number::U64) => (Width::W64, value.extract()?),
            _ => {
                let descr = self.shared.descr.bind(value.py());
                let what = format!("atomics on {descr}: int32, uint32, int64 and uint64 have them");
                return Err(unsupported(value.py(), what));
            }
        })
    }

    fn integer<'py>(&self, py: Python<'py>, bits: u64) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.shared.number {
            Some(Number::I32) => (bits as i32).into_pyobject(py)?.into_any(),
            Some(Number::I64) => (bits as i64).into_pyobject(py)?.into_any(),
            _ => bits.into_pyobject(py)?.into_any(),
        })
    }
}

/// Refuses arrays that are not one run of aligned bytes.
fn check_tight(array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    if array.is_c_contiguous() && array.is_aligned() {
        return Ok(());
    }
    Err(bad_argument(array.py(), "an operation of an epoch takes a contiguous, aligned array"))
}

/// Changes elements of a target one by one, by compare-and-swap.
fn change_each<W: AtomicWord + PartialEq>(
    window: &Window<'static>,
    target: Rank,
    at: u64,
    data: &mut [u8],
    fold: Folder,
) -> Result<()> {
    let size = size_of::<W>();
    for (index, element) in data.chunks_exact_mut(size).enumerate() {
        let at = at + (index * size) as u64;
        let mut old = [W::from_bits(0)];
        window.get_into(&mut old, target, at)?;
        loop {
            let expected = old[0];
            let mut bits = expected.to_bits().to_le_bytes();
            fold(&mut bits[..size], element);
            let desired = W::from_bits(u128::from_le_bytes(bits));
            let fetched = window.compare_swap(expected, desired, target, at)?;
            old[0] = window.wait_fetched(fetched)?;
            if old[0] == expected {
                element.copy_from_slice(&expected.to_bits().to_le_bytes()[..size]);
                break;
            }
        }
    }
    Ok(())
}

/// Compares and swaps a word of a target; `held` becomes what was there before.
fn swap<W: AtomicWord>(
    window: &Window<'static>,
    target: Rank,
    at: u64,
    held: &mut [u8],
    desired: &[u8],
) -> Result<()> {
    let word = |bytes: &[u8]| {
        let mut bits = [0; 16];
        bits[..bytes.len()].copy_from_slice(bytes);
        W::from_bits(u128::from_le_bytes(bits))
    };
    let fetched = window.compare_swap(word(held), word(desired), target, at)?;
    let old = window.wait_fetched(fetched)?.to_bits().to_le_bytes();
    held.copy_from_slice(&old[..held.len()]);
    Ok(())
}

fn accumulate<T: Summand>(
    py: Python<'_>,
    window: &EpochWindow,
    target: Rank,
    at: u64,
    bytes: &[u8],
) -> PyResult<()> {
    // SAFETY: the array is aligned, and lives until the call returns.
    let data = unsafe {
        std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), bytes.len() / size_of::<T>())
    };
    let is_long = window.is_long(bytes.len() * 8);
    window.run(py, is_long, |window| window.accumulate(T::ONE, data, target, at))
}

fn fetch<I: Integer>(
    window: &Window<'static>,
    op: Op,
    bits: u64,
    target: Rank,
    at: u64,
) -> Result<u64> {
    let fetched = window.fetch_op(op, I::from_bits(bits.into()), target, at)?;
    Ok(window.wait_fetched(fetched)?.to_bits() as u64)
}
