//! The operations of an epoch, by elements and by bytes.

use farside::epoch::{Op, Window};
use farside::fabric::Width;
use farside::raw::{Accumulate, Number};
use farside::{Integer, Rank, Result};
use numpy::{PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use super::EpochWindow;
use crate::array::{
    self, as_array, as_summand, check_objects, check_writable, contiguous, has_dtype,
};
use crate::error::{Raise as _, bad_argument, unsupported};
use crate::number::{accumulate_named, word_of};

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
        let descr = self.shared.descr.bind(py);
        let out = match out {
            Some(out) if has_dtype(&out, descr) => out,
            Some(out) => {
                let text = format!("`out` has dtype {}: the window has {descr}", out.dtype());
                return Err(bad_argument(py, text));
            }
            None => array::empty(descr, &[count])?,
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
        let data = contiguous(as_summand(data, self.shared.descr.bind(py))?.as_any())?;
        self.accumulate_bytes(py, target, self.bytes_at(at), &data, "sum")
    }

    /// Combines the elements of a contiguous array with those of a target, from byte `at` on, each
    /// atomically, by sum, prod, min, max, and, or, xor, replace or no_op.
    fn accumulate_bytes(
        &self,
        py: Python<'_>,
        target: u32,
        at: u64,
        data: &Bound<'_, PyUntypedArray>,
        op: &str,
    ) -> PyResult<()> {
        check_tight(data)?;
        let accumulate = accumulate_named(&data.dtype(), op)?;
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(data) };
        let at = self.place(py, target, at, bytes.len())?;
        let is_long = self.is_long(bytes.len() * 8);
        self.run(py, is_long, |window| window.accumulate_by(&accumulate, bytes, Rank(target), at))
    }

    /// Does what `accumulate_bytes` does; the array becomes what was there before.
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
        let accumulate = accumulate_named(&data.dtype(), op)?;
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(data) };
        let sent = bytes.to_vec();
        self.fetch_by(py, &accumulate, target, at, &sent, bytes)
    }

    /// Writes the element of one array to a target, at byte `at`, if it holds that of another,
    /// which becomes what was there before. Both are compared as bytes.
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
        let number = word_of(&held.dtype())?;
        // SAFETY: the arrays live until the call returns.
        let (held, desired) = unsafe { (array::bytes(held), array::bytes(desired)) };
        if (held.len(), desired.len()) != (number.bytes() as usize, number.bytes() as usize) {
            return Err(bad_argument(py, "a compare-and-swap takes one element of each"));
        }
        let mut expected = [0; 16];
        expected[..held.len()].copy_from_slice(held);
        let swap = Accumulate::compare_swap(number, expected).raise(py)?;
        self.fetch_by(py, &swap, target, at, desired, held)
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
            _ => return Err(bad_argument(py, format!("{op:?} is not an operation of a fetch_op"))),
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
    /// Combines elements with those of a target, and reads what was there before.
    fn fetch_by(
        &self,
        py: Python<'_>,
        accumulate: &Accumulate,
        target: u32,
        at: u64,
        data: &[u8],
        old: &mut [u8],
    ) -> PyResult<()> {
        let at = self.place(py, target, at, old.len())?;
        let data = if accumulate.writes() { data } else { &[] };
        self.run(py, self.is_long(old.len() * 8), |window| {
            window.get_accumulate_by(accumulate, data, Rank(target), at, old)
        })
    }

    /// Reads an integer of the window's dtype as the bits of a word.
    fn word(&self, value: &Bound<'_, PyAny>) -> PyResult<(Width, u64)> {
        Ok(match self.shared.number {
            Some(Number::I32) => (Width::W32, u64::from(value.extract::<i32>()? as u32)),
            Some(Number::U32) => (Width::W32, value.extract::<u32>()?.into()),
            Some(Number::I64) => (Width::W64, value.extract::<i64>()? as u64),
            Some(Number::U64) => (Width::W64, value.extract()?),
            _ => {
                let descr = self.shared.descr.bind(value.py());
                let what =
                    format!("atomics on {descr}: only int32, uint32, int64 and uint64 have them");
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
    check_objects(&array.dtype())?;
    if array.is_c_contiguous() && array.is_aligned() {
        return Ok(());
    }
    Err(bad_argument(array.py(), "an operation of an epoch needs a contiguous, aligned array"))
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
