//! Arrays whose blocks are distributed over the members of a team.

use std::any::Any;
use std::ops::Range;

use farside::array::{Builder, Element};
use farside::raw::Accumulate;
use farside::{Complex, Error, Rank, Result, Summand};
use numpy::{PyArrayDescr, PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::{self, as_array, as_summand, contiguous, plain_dtype, scalar};
use crate::error::{Raise as _, bad_argument, unsupported};
use crate::made::Made;
use crate::number::{fold_named, folder, is_summand, no_summand, number_of, of_summand};
use crate::team::Team;
use crate::window::read_shape;

/// An array of numbers whose blocks are distributed over the members of a team, by areas: the first
/// index and the one after the last in each dimension.
#[pyclass(frozen, subclass, module = "farside")]
pub(crate) struct GlobalArray {
    /// They borrow the team.
    made: Made<Box<dyn Blocks>>,
    shape: Vec<usize>,
    descr: Py<PyArrayDescr>,
}

type Area = [Range<usize>];

/// The rank that has a block, its first index, and the one after its last.
type OwnedArea = (u32, Vec<usize>, Vec<usize>);

/// An array of some kind of number, whose elements come and go as bytes.
trait Blocks: Any {
    fn get(&self, area: &Area, into: &mut [u8]) -> Result<()>;
    fn put(&self, area: &Area, data: &[u8]) -> Result<()>;
    fn accumulate(&self, area: &Area, data: &[u8], scale: Option<&[u8]>) -> Result<()>;
    fn gather(&self, indices: &[Vec<usize>], into: &mut [u8]) -> Result<()>;
    fn scatter(&self, indices: &[Vec<usize>], data: &[u8]) -> Result<()>;
    fn fill(&self, value: &[u8]) -> Result<()>;
    fn change(&self, value: &[u8], fold: Accumulate) -> Result<()>;
    fn reduce(&self, fold: Accumulate) -> Result<Vec<u8>>;
    fn sync(&self) -> Result<()>;
    fn owner(&self, index: &[usize]) -> Result<Rank>;
    fn areas(&self) -> Vec<(Rank, Vec<usize>, Vec<usize>)>;
    fn update_ghosts(&self) -> Result<()>;
    fn with_ghosts(&self) -> Result<Option<(Vec<usize>, Vec<u8>)>>;
    fn multiply(&self, a: &dyn Blocks, b: &dyn Blocks) -> Result<()>;
    fn save(&self, path: &str) -> Result<()>;
    fn load(&self, path: &str) -> Result<()>;
    fn free(self: Box<Self>) -> Result<()>;
}

/// Numbers that a product of matrices is made of.
trait Multiply: Summand + Element {
    fn multiply(
        c: &farside::GlobalArray<'static, Self>,
        a: &farside::GlobalArray<'static, Self>,
        b: &farside::GlobalArray<'static, Self>,
    ) -> Result<()>;
}

macro_rules! real {
    ($($type:ty)*) => {$(
        impl Multiply for $type {
            fn multiply(
                c: &farside::GlobalArray<'static, Self>,
                a: &farside::GlobalArray<'static, Self>,
                b: &farside::GlobalArray<'static, Self>,
            ) -> Result<()> {
                c.multiply_from(1 as $type, a, b, 0 as $type)
            }
        }
    )*};
}
real! { i32 i64 u32 u64 f32 f64 }

macro_rules! complex {
    ($($type:ty)*) => {$(
        impl Multiply for Complex<$type> {
            fn multiply(
                _: &farside::GlobalArray<'static, Self>,
                _: &farside::GlobalArray<'static, Self>,
                _: &farside::GlobalArray<'static, Self>,
            ) -> Result<()> {
                Err(Error::Unsupported { what: "a product of complex matrices".into() })
            }
        }
    )*};
}
complex! { f32 f64 }

/// Returns bytes as numbers.
fn numbers<T: Summand>(bytes: &[u8]) -> Result<&[T]> {
    // SAFETY: any bytes are numbers.
    let (before, numbers, after) = unsafe { bytes.align_to::<T>() };
    match before.is_empty() && after.is_empty() {
        true => Ok(numbers),
        false => Err(Error::InvalidArgument("the array is not aligned".into())),
    }
}

fn numbers_mut<T: Summand>(bytes: &mut [u8]) -> Result<&mut [T]> {
    // SAFETY: any bytes are numbers, and the other way round.
    let (before, numbers, after) = unsafe { bytes.align_to_mut::<T>() };
    match before.is_empty() && after.is_empty() {
        true => Ok(numbers),
        false => Err(Error::InvalidArgument("the array is not aligned".into())),
    }
}

/// Reads one number.
fn number<T: Summand>(bytes: &[u8]) -> T {
    debug_assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: any bytes are a number, and there are as many.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// Returns the bytes of numbers.
fn bytes<T: Summand>(numbers: &[T]) -> &[u8] {
    // SAFETY: numbers have no bytes that are not defined.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

fn folded<T: Summand>(a: T, b: T, fold: Accumulate) -> T {
    let mut into = bytes(&[a]).to_vec();
    fold.apply_all(&mut into, bytes(&[b]));
    number(&into)
}

impl<T: Multiply> Blocks for farside::GlobalArray<'static, T> {
    fn get(&self, area: &Area, into: &mut [u8]) -> Result<()> {
        self.get_slice(area.to_vec(), numbers_mut(into)?)
    }

    fn put(&self, area: &Area, data: &[u8]) -> Result<()> {
        self.put_slice(area.to_vec(), numbers(data)?)
    }

    fn accumulate(&self, area: &Area, data: &[u8], scale: Option<&[u8]>) -> Result<()> {
        self.accumulate_slice(scale.map_or(T::ONE, number), area.to_vec(), numbers(data)?)
    }

    fn gather(&self, indices: &[Vec<usize>], into: &mut [u8]) -> Result<()> {
        let values = farside::GlobalArray::gather(self, indices)?;
        into.copy_from_slice(bytes(&values));
        Ok(())
    }

    fn scatter(&self, indices: &[Vec<usize>], data: &[u8]) -> Result<()> {
        farside::GlobalArray::scatter(self, indices, numbers(data)?)
    }

    fn fill(&self, value: &[u8]) -> Result<()> {
        farside::GlobalArray::fill(self, number(value))
    }

    fn change(&self, value: &[u8], fold: Accumulate) -> Result<()> {
        let value = number(value);
        self.map_in_place(|element: T| folded(element, value, fold))
    }

    fn reduce(&self, fold: Accumulate) -> Result<Vec<u8>> {
        let value = farside::GlobalArray::reduce(self, |a, b| folded(a, b, fold))?;
        Ok(bytes(&[value]).to_vec())
    }

    fn sync(&self) -> Result<()> {
        farside::GlobalArray::sync(self)
    }

    fn owner(&self, index: &[usize]) -> Result<Rank> {
        farside::GlobalArray::owner(self, index)
    }

    fn areas(&self) -> Vec<(Rank, Vec<usize>, Vec<usize>)> {
        let all = self.blocks();
        all.map(|(rank, area)| (rank, area.low().to_vec(), area.high().to_vec())).collect()
    }

    fn update_ghosts(&self) -> Result<()> {
        farside::GlobalArray::update_ghosts(self)
    }

    fn with_ghosts(&self) -> Result<Option<(Vec<usize>, Vec<u8>)>> {
        let block = self.own_with_ghosts()?;
        Ok(block.map(|block| {
            let all: Vec<T> = block.iter().copied().collect();
            (block.shape().to_vec(), bytes(&all).to_vec())
        }))
    }

    fn multiply(&self, a: &dyn Blocks, b: &dyn Blocks) -> Result<()> {
        let same = |other: &dyn Blocks| {
            let other: &dyn Any = other;
            // SAFETY: a shared borrow of the same lifetime.
            other.downcast_ref::<Self>().map(|other| unsafe { &*std::ptr::from_ref(other) })
        };
        match (same(a), same(b)) {
            (Some(a), Some(b)) => T::multiply(self, a, b),
            _ => Err(Error::InvalidArgument("the matrices have different dtypes".into())),
        }
    }

    fn save(&self, path: &str) -> Result<()> {
        self.save_npy(path)
    }

    fn load(&self, path: &str) -> Result<()> {
        self.read_npy(path)
    }

    fn free(self: Box<Self>) -> Result<()> {
        farside::GlobalArray::free(*self)
    }
}

fn make<T: Multiply>(team: farside::Team<'static>, builder: Builder) -> Result<Box<dyn Blocks>> {
    Ok(Box::new(builder.create_on::<T>(team)?))
}

#[pymethods]
impl Team {
    /// Makes an array of a shape, all zero, whose blocks are distributed over the members.
    /// Collective.
    #[pyo3(signature = (shape, dtype, ghosts=None))]
    fn global_array(
        &self,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
        ghosts: Option<Vec<usize>>,
    ) -> PyResult<GlobalArray> {
        let (py, team) = (shape.py(), &self.shared);
        let (shape, descr) = (read_shape(shape)?, plain_dtype(dtype)?);
        let number = number_of(&descr).filter(|&number| is_summand(number));
        if number.is_none() {
            return Err(no_summand(&descr));
        }
        let mut builder = Builder::new(&shape);
        if let Some(ghosts) = &ghosts {
            builder = builder.ghosts(ghosts);
        }
        // SAFETY: the array is used within `enter`, keeps the team, and is forgotten in the end.
        let blocks = unsafe {
            team.make(py, |team| {
                of_summand!(number, make(team, builder), {
                    Err(Error::Internal("a dtype without an array".into()))
                })
            })?
        };
        let made = Made::new(team, "array", blocks);
        Ok(GlobalArray { made, shape, descr: descr.unbind() })
    }
}

impl GlobalArray {
    fn run<R>(
        &self,
        py: Python<'_>,
        is_long: bool,
        call: impl FnOnce(&dyn Blocks) -> Result<R>,
    ) -> PyResult<R> {
        self.made.run(py, is_long, |blocks, _| call(&**blocks))
    }

    fn area(&self, low: &[usize], high: &[usize]) -> Vec<Range<usize>> {
        low.iter().zip(high).map(|(&low, &high)| low..high.max(low)).collect()
    }

    fn data<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
        contiguous(as_array(value, self.descr.bind(value.py()))?.as_any())
    }

    fn element(&self, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let array = self.data(value)?;
        // SAFETY: the array lives until the bytes were copied.
        let bytes = unsafe { array::bytes(&array) };
        match bytes.len() == array.dtype().itemsize() {
            true => Ok(bytes.to_vec()),
            false => Err(bad_argument(value.py(), "expected one number, not several")),
        }
    }

    fn fold(&self, py: Python<'_>, op: &str) -> PyResult<Accumulate> {
        let descr = self.descr.bind(py);
        let fold = folder(descr, fold_named(py, op)?);
        fold.ok_or_else(|| unsupported(py, format!("{op} of {descr}")))
    }
}

/// Reads a list of indices: a row for each element.
fn rows(indices: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<usize>>> {
    indices.call_method0("tolist")?.extract()
}

#[pymethods]
impl GlobalArray {
    /// The number of elements in each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The dtype of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        self.descr.bind(py).clone()
    }

    /// Reads an area.
    fn get<'py>(
        &self,
        py: Python<'py>,
        low: Vec<usize>,
        high: Vec<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let area = self.area(&low, &high);
        let shape: Vec<usize> = area.iter().map(ExactSizeIterator::len).collect();
        let array = array::empty(self.descr.bind(py), &shape)?;
        if shape.contains(&0) {
            return Ok(array.into_any());
        }
        // SAFETY: the array lives until the call returns.
        let into = unsafe { array::bytes(&array) };
        self.run(py, true, |blocks| blocks.get(&area, into))?;
        Ok(array.into_any())
    }

    /// Writes an array of its shape to an area.
    fn put(
        &self,
        py: Python<'_>,
        low: Vec<usize>,
        high: Vec<usize>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (area, data) = (self.area(&low, &high), self.data(data)?);
        if area.iter().any(Range::is_empty) {
            return Ok(());
        }
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(&data) };
        self.run(py, true, |blocks| blocks.put(&area, bytes))
    }

    /// Adds `scale` times an array of its shape to an area.
    #[pyo3(signature = (low, high, data, scale=None))]
    fn add(
        &self,
        py: Python<'_>,
        low: Vec<usize>,
        high: Vec<usize>,
        data: &Bound<'_, PyAny>,
        scale: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let descr = self.descr.bind(py);
        let (area, data) = (self.area(&low, &high), contiguous(as_summand(data, descr)?.as_any())?);
        let scale =
            scale.map(|scale| self.element(as_summand(scale, descr)?.as_any())).transpose()?;
        if area.iter().any(Range::is_empty) {
            return Ok(());
        }
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(&data) };
        self.run(py, true, |blocks| blocks.accumulate(&area, bytes, scale.as_deref()))
    }

    /// Reads elements here and there: `indices` has a row for each.
    fn gather<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = rows(indices)?;
        let array = array::empty(self.descr.bind(py), &[rows.len()])?;
        // SAFETY: the array lives until the call returns.
        let into = unsafe { array::bytes(&array) };
        self.run(py, true, |blocks| blocks.gather(&rows, into))?;
        Ok(array.into_any())
    }

    /// Writes elements here and there: `indices` has a row for each.
    fn scatter(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (rows, values) = (rows(indices)?, self.data(values)?);
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(&values) };
        self.run(py, true, |blocks| blocks.scatter(&rows, bytes))
    }

    /// Sets all elements. Collective.
    fn fill(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = self.element(value)?;
        self.run(py, true, |blocks| blocks.fill(&value))
    }

    /// Folds a number into every element by sum, prod, min, max, and, or, or xor. Collective.
    fn change(&self, py: Python<'_>, value: &Bound<'_, PyAny>, op: &str) -> PyResult<()> {
        let value = as_summand(value, self.descr.bind(py))?;
        let (value, fold) = (self.element(&value)?, self.fold(py, op)?);
        self.run(py, true, |blocks| blocks.change(&value, fold))
    }

    /// Folds all elements into one, which all members get. Collective.
    #[pyo3(signature = (op="sum"))]
    fn reduce<'py>(&self, py: Python<'py>, op: &str) -> PyResult<Bound<'py, PyAny>> {
        let fold = self.fold(py, op)?;
        let mut value = self.run(py, true, |blocks| blocks.reduce(fold))?;
        scalar(self.descr.bind(py), &mut value)
    }

    /// Sets this matrix to the product of two others. Collective.
    fn multiply(&self, py: Python<'_>, a: &GlobalArray, b: &GlobalArray) -> PyResult<()> {
        let access = &self.made.team.access;
        let entered = access.enter(py)?;
        let multiplied = self.made.get(&entered).and_then(|blocks| {
            match (a.made.get(&entered), b.made.get(&entered)) {
                (Ok(a), Ok(b)) => access.released(py, || blocks.multiply(&**a, &**b)),
                _ => Err(Error::InvalidState("a factor was freed".into())),
            }
        });
        drop(entered);
        multiplied.raise(py)
    }

    /// Returns when all members have called it and all that any of them has put has landed.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, |blocks| blocks.sync())
    }

    /// Returns the rank that has an element.
    fn owner(&self, py: Python<'_>, index: Vec<usize>) -> PyResult<u32> {
        self.run(py, false, |blocks| Ok(blocks.owner(&index)?.0))
    }

    /// Returns the blocks: the rank that has each, and its area.
    fn blocks(&self, py: Python<'_>) -> PyResult<Vec<OwnedArea>> {
        let areas = self.run(py, false, |blocks| Ok(blocks.areas()))?;
        Ok(areas.into_iter().map(|(rank, low, high)| (rank.0, low, high)).collect())
    }

    /// Fills the borders of all blocks with copies of what is beyond. Collective.
    fn update_ghosts(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, |blocks| blocks.update_ghosts())
    }

    /// Returns a copy of this rank's block with its border; `None` if it has no block.
    fn own_with_ghosts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((shape, data)) = self.run(py, false, |blocks| blocks.with_ghosts())? else {
            return Ok(None);
        };
        let array = array::empty(self.descr.bind(py), &shape)?;
        // SAFETY: the array is new.
        unsafe { array::bytes(&array) }.copy_from_slice(&data);
        Ok(Some(array.into_any()))
    }

    /// Writes the array into a file that `numpy.load` reads. Collective.
    fn save(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.run(py, true, |blocks| blocks.save(path))
    }

    /// Reads the array from a file that `numpy.save` has written. Collective.
    fn load(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.run(py, true, |blocks| blocks.load(path))
    }

    /// Gives its memory back. Collective.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.made.free(py, |blocks, _| blocks.free())
    }
}
