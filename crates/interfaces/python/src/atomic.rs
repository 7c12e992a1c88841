//! Atomics on the elements of a window, signals, and waits for own elements.

use std::time::Duration;

use farside::fabric::{Atomic, Width};
use farside::raw::Number;
use farside::{Integer, Place, Rank, Result, WaitOptions};
use pyo3::prelude::*;

use crate::error::{bad_argument, bad_state, unsupported};
use crate::selection::Selection;
use crate::window::Window;

/// A word of a window, and how its bits are a number.
#[derive(Clone, Copy)]
struct Word {
    rank: Rank,
    offset: u64,
    width: Width,
    number: Number,
}

impl Word {
    /// Returns the bits of a number.
    fn bits(self, value: &Bound<'_, PyAny>) -> PyResult<u128> {
        Ok(match self.number {
            Number::I32 => (value.extract::<i32>()? as u32).into(),
            Number::U32 => value.extract::<u32>()?.into(),
            Number::I64 => (value.extract::<i64>()? as u64).into(),
            _ => value.extract::<u64>()?.into(),
        })
    }

    /// Returns the number that bits are.
    fn number<'py>(self, py: Python<'py>, bits: u128) -> PyResult<Bound<'py, PyAny>> {
        let word = bits as u64;
        Ok(match self.number {
            Number::I32 => (word as i32).into_pyobject(py)?.into_any(),
            Number::U32 => (word as u32).into_pyobject(py)?.into_any(),
            Number::I64 => (word as i64).into_pyobject(py)?.into_any(),
            _ => word.into_pyobject(py)?.into_any(),
        })
    }
}

impl Window {
    /// Returns whether atomics on the part of a rank are the processor's own.
    #[inline]
    fn is_direct(&self, rank: Rank) -> bool {
        self.access.has_direct_atomics && self.is_near(rank)
    }

    fn word(&self, py: Python<'_>, rank: Rank, index: &Bound<'_, PyAny>) -> PyResult<Word> {
        let (number, width) = match self.number() {
            Some(number @ (Number::I32 | Number::U32)) => (number, Width::W32),
            Some(number @ (Number::I64 | Number::U64)) => (number, Width::W64),
            _ => {
                let what = format!(
                    "atomics on {}: only int32, uint32, int64 and uint64 have them",
                    self.descr(py)
                );
                return Err(unsupported(py, what));
            }
        };
        let offset = self.element(py, rank, index)? as u64;
        Ok(Word { rank, offset, width, number })
    }

    /// Executes an atomic and returns what the word held before.
    fn atomic<'py>(
        &self,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        operation: impl FnOnce(Word) -> PyResult<Atomic>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        let word = self.word(py, self.rank(rank)?, index)?;
        let op = operation(word)?;
        let held = self.access.run(py, !self.is_direct(word.rank), |context| {
            self.memory().atomic(context, word.rank, word.offset, word.width, op)
        })?;
        word.number(py, held)
    }

    /// Posts an atomic whose old value is not wanted.
    fn post(
        &self,
        rank: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        operation: impl FnOnce(Word) -> PyResult<Atomic>,
    ) -> PyResult<()> {
        let py = index.py();
        let word = self.word(py, self.rank(rank)?, index)?;
        let op = operation(word)?;
        self.access.run(py, !self.is_direct(word.rank), |context| {
            self.memory().post(context, word.rank, word.offset, word.width, op)
        })
    }
}

/// A comparison of a word with a value.
#[derive(Clone, Copy)]
enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    fn named(py: Python<'_>, name: &str) -> PyResult<Comparison> {
        Ok(match name {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            _ => {
                let text = format!("{name:?} is not a comparison; use ==, !=, >, >=, < or <=");
                return Err(bad_argument(py, text));
            }
        })
    }

    fn holds<T: PartialOrd>(self, word: T, value: T) -> bool {
        match self {
            Comparison::Equal => word == value,
            Comparison::NotEqual => word != value,
            Comparison::Greater => word > value,
            Comparison::GreaterOrEqual => word >= value,
            Comparison::Less => word < value,
            Comparison::LessOrEqual => word <= value,
        }
    }
}

/// Reads a time limit in seconds.
pub(crate) fn limit(py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let read = |seconds: f64| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| bad_argument(py, format!("{seconds} is not a time limit in seconds")))
    };
    timeout.map(read).transpose()
}

/// A wait for an own word.
struct Awaited<T> {
    comparison: Comparison,
    value: T,
    timeout: Option<Duration>,
}

impl<T: Integer + PartialOrd> Awaited<T> {
    fn run(&self, context: &farside::Context, at: Place<'_, u8>) -> Result<T> {
        let until = |word: T| self.comparison.holds(word, self.value);
        let at = at.cast::<T>();
        match self.timeout {
            None => context.wait(at, until),
            Some(time) => context.wait_timeout(at, until, time),
        }
    }
}

#[pymethods]
impl Window {
    /// Adds to an element, wrapping, and returns what it was before.
    fn fetch_add<'py>(
        &self,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.atomic(rank, index, |word| Ok(Atomic::Add(word.bits(value)?)))
    }

    /// Keeps the bits of an element that the value has too; returns what it was before.
    fn fetch_and<'py>(
        &self,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.atomic(rank, index, |word| Ok(Atomic::And(word.bits(value)?)))
    }

    /// Sets the value's bits in an element; returns what it was before.
    fn fetch_or<'py>(
        &self,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.atomic(rank, index, |word| Ok(Atomic::Or(word.bits(value)?)))
    }

    /// Flips the value's bits in an element; returns what it was before.
    fn fetch_xor<'py>(
        &self,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.atomic(rank, index, |word| Ok(Atomic::Xor(word.bits(value)?)))
    }

    /// Writes an element and returns what it was before.
    fn swap<'py>(
        &self,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.atomic(rank, index, |word| Ok(Atomic::Swap(word.bits(value)?)))
    }

    /// Writes `desired` to an element if it is `expected`; returns what it was before.
    fn compare_swap<'py>(
        &self,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        expected: &Bound<'py, PyAny>,
        desired: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.atomic(rank, index, |word| {
            let (expected, desired) = (word.bits(expected)?, word.bits(desired)?);
            Ok(Atomic::CompareSwap { expected, desired })
        })
    }

    /// Reads an element atomically.
    fn load<'py>(
        &self,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.atomic(rank, index, |_| Ok(Atomic::Load))
    }

    /// Writes an element atomically, and wakes a rank that waits for it. Returns when it has
    /// landed.
    fn store(
        &self,
        rank: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.atomic(rank, index, |word| Ok(Atomic::Store(word.bits(value)?))).map(drop)
    }

    /// Posts a `store`: it lands later, behind what was put before only if a fence stands between.
    fn signal(
        &self,
        rank: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.post(rank, index, |word| Ok(Atomic::Store(word.bits(value)?)))
    }

    /// Posts an addition to an element: it has landed after a flush.
    fn add(
        &self,
        rank: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.post(rank, index, |word| Ok(Atomic::Add(word.bits(value)?)))
    }

    /// Writes data to a selection and then, when it is there, `value` to an element of `signal` on
    /// the same rank, or adds it; wakes a rank that waits for the element.
    #[pyo3(signature = (rank, index, data, signal, at, value, add=false))]
    #[allow(clippy::too_many_arguments, reason = "they are named in Python")]
    fn put_signal(
        &self,
        py: Python<'_>,
        rank: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        signal: &Window,
        at: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        add: bool,
    ) -> PyResult<()> {
        let rank = self.rank(rank)?;
        let selection = Selection::read(index, 0, self.part(py, rank)?, self.item())?;
        let word = signal.word(py, rank, at)?;
        let bits = word.bits(value)?;
        let (array, block) = self.source(py, &selection, data)?;
        if block.bytes() == 0 || !block.is_one_run() {
            // Several runs are put first; the fence orders the signal behind them.
            self.put_value(py, rank, &selection, data)?;
            self.access.run(py, !self.is_near(rank), farside::Context::fence)?;
            let op = if add { Atomic::Add(bits) } else { Atomic::Store(bits) };
            return self.access.run(py, !self.is_near(rank), |context| {
                signal.memory().post(context, rank, word.offset, word.width, op)
            });
        }
        // SAFETY: the array lives until the end of this function.
        let data = unsafe { block.near_bytes() };
        let to = self.memory().at(rank, block.offset);
        let flag = signal.memory().at(rank, word.offset);
        self.access.run(py, self.is_long(rank, block.bytes()), |context| {
            match (word.width, add) {
                (Width::W32, false) => context.put_signal(data, to, bits as u32, flag.cast()),
                (Width::W32, true) => context.put_signal_add(data, to, bits as u32, flag.cast()),
                (_, false) => context.put_signal(data, to, bits as u64, flag.cast()),
                (_, true) => context.put_signal_add(data, to, bits as u64, flag.cast()),
            }
        })?;
        drop(array);
        Ok(())
    }

    /// Waits until an element of this rank's own part compares with a value as asked, for `timeout`
    /// seconds at most; returns what it was then. Atomics and signals wake the rank; a plain put
    /// need not.
    #[pyo3(signature = (index, comparison, value, timeout=None))]
    fn wait<'py>(
        &self,
        index: &Bound<'py, PyAny>,
        comparison: &str,
        value: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        let word = self.word(py, self.access.rank, index)?;
        let comparison = Comparison::named(py, comparison)?;
        let timeout = limit(py, timeout)?;
        let at = self.memory().at(word.rank, word.offset);
        macro_rules! wait {
            ($type:ty) => {{
                let awaited = Awaited { comparison, value: value.extract::<$type>()?, timeout };
                let seen = self.access.run(py, true, |context| awaited.run(context, at))?;
                Ok(seen.into_pyobject(py)?.into_any())
            }};
        }
        match word.number {
            Number::I32 => wait!(i32),
            Number::U32 => wait!(u32),
            Number::I64 => wait!(i64),
            _ => wait!(u64),
        }
    }

    /// Waits until one of several elements of this rank's own part compares with a value as asked;
    /// returns its place in the list and what it was. The elements have 64 bits.
    #[pyo3(signature = (indices, comparison, value, timeout=None))]
    fn wait_any<'py>(
        &self,
        py: Python<'py>,
        indices: Vec<Bound<'py, PyAny>>,
        comparison: &str,
        value: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<(usize, Bound<'py, PyAny>)> {
        let comparison = Comparison::named(py, comparison)?;
        let words = indices.iter().map(|index| self.word(py, self.access.rank, index));
        let words = words.collect::<PyResult<Vec<Word>>>()?;
        let Some(&first) = words.first() else {
            return Err(bad_argument(py, "wait_any needs at least one index: the list is empty"));
        };
        if first.width != Width::W64 {
            return Err(bad_state(py, "wait_any works on elements of 64 bits only"));
        }
        let value = first.bits(value)? as u64;
        let is_signed = first.number == Number::I64;
        let until = |word: u64| match is_signed {
            true => comparison.holds(word as i64, value as i64),
            false => comparison.holds(word, value),
        };
        let places = |word: &Word| self.memory().at(word.rank, word.offset).cast::<u64>();
        let awaited: Vec<_> =
            words.iter().map(|word| (places(word), &until as &dyn Fn(u64) -> bool)).collect();
        let options = WaitOptions { timeout: limit(py, timeout)?, ..WaitOptions::default() };
        let (which, seen) =
            self.access.run(py, true, |context| context.wait_any(&awaited, options))?;
        Ok((which, first.number(py, seen.into())?))
    }
}
