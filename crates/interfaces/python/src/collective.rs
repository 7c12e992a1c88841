//! Collectives of a team on arrays and on bytes.

use farside::raw::{self, Accumulate};
use farside::{Error, Rank, Result};
use numpy::{PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::{self, check_writable, contiguous};
use crate::error::{bad_argument, unsupported};
use crate::number::{fold_named, folder};
use crate::team::Team;

/// A contiguous array of numbers that a collective folds, and how.
struct Folded<'py> {
    array: Bound<'py, PyUntypedArray>,
    item: usize,
    fold: Accumulate,
}

impl<'py> Folded<'py> {
    /// Takes a copy of a value, which the result will be in.
    fn copy(value: &Bound<'py, PyAny>, op: &str) -> PyResult<Folded<'py>> {
        let array = contiguous(value)?;
        let array = array.call_method1("copy", ("C",))?.cast_into::<PyUntypedArray>()?;
        Folded::of(array, op)
    }

    fn of(array: Bound<'py, PyUntypedArray>, op: &str) -> PyResult<Folded<'py>> {
        let (py, descr) = (array.py(), array.dtype());
        match folder(&descr, fold_named(py, op)?) {
            Some(fold) => Ok(Folded { item: descr.itemsize(), array, fold }),
            None => Err(unsupported(
                py,
                format!(
                    "{op} of {descr}: complex numbers have sum and prod, floating-point numbers \
                     also min and max, integers all of them, in native byte order"
                ),
            )),
        }
    }

    fn bytes(&self) -> &'static mut [u8] {
        // SAFETY: the array outlives its use, which is in the call that made this.
        unsafe { array::bytes(&self.array) }
    }
}

/// Gives every member's bytes to all. They may have different lengths.
fn all_gather_bytes(team: &farside::Team<'_>, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
    let parts = vec![mine; team.size()];
    team.all_to_all_v(&parts)
}

impl Team {
    fn root(&self, py: Python<'_>, root: usize) -> PyResult<Rank> {
        let members = &self.shared.members;
        members.get(root).copied().ok_or_else(|| {
            bad_argument(py, format!("root {root} of a team with {} members", members.len()))
        })
    }
}

#[pymethods]
impl Team {
    /// Gives every member a copy of the root's array, in place; returns the array. `root` is an
    /// index of the team.
    #[pyo3(signature = (array, root=0))]
    fn broadcast<'py>(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
        root: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = array.cast::<PyUntypedArray>()?;
        let root = self.root(py, root)?;
        if root != self.shared.access.rank {
            check_writable(array)?;
        }
        let tight = contiguous(array)?;
        // SAFETY: the array lives until the call returns.
        let bytes = unsafe { array::bytes(&tight) };
        self.shared.run(py, |team| team.broadcast(root, bytes))?;
        if root != self.shared.access.rank && !tight.is(array) {
            array::copy(array, &tight)?;
        }
        Ok(array.clone().into_any())
    }

    /// Folds all members' arrays, element by element, and gives every member the same result. The
    /// operation is sum, prod, min, max, and, or, or xor.
    #[pyo3(signature = (array, op="sum"))]
    fn all_reduce<'py>(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
        op: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let folded = Folded::copy(array, op)?;
        let (bytes, item, fold) = (folded.bytes(), folded.item, folded.fold);
        self.shared.run(py, |team| {
            raw::all_reduce(team, item, bytes, |into, from| fold.apply_all(into, from))
        })?;
        Ok(unwrap(folded.array))
    }

    /// Like `all_reduce`, for the root only; the others get `None`.
    #[pyo3(signature = (array, root=0, op="sum"))]
    fn reduce<'py>(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
        root: usize,
        op: &str,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let root = self.root(py, root)?;
        let result = self.all_reduce(py, array, op)?;
        Ok((root == self.shared.access.rank).then_some(result))
    }

    /// Folds the arrays of all members up to and including this one, in the order of the team;
    /// without this one if `exclusive`, where the first member gets `None`.
    #[pyo3(signature = (array, op="sum", exclusive=false))]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
        op: &str,
        exclusive: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let folded = Folded::copy(array, op)?;
        let (bytes, fold) = (folded.bytes(), folded.fold);
        let is_there = self.shared.run(py, |team| {
            let all = team.all_gather(&*bytes)?;
            let count = team.index() + usize::from(!exclusive);
            let mut parts = all.chunks_exact(bytes.len().max(1)).take(count);
            let Some(first) = parts.next() else { return Ok(count > 0) };
            bytes.copy_from_slice(first);
            parts.for_each(|part| fold.apply_all(bytes, part));
            Ok(true)
        })?;
        Ok(is_there.then(|| unwrap(folded.array)))
    }

    /// Stacks all members' arrays, which have one shape, along a new first dimension, in the order
    /// of the team.
    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mine = contiguous(array)?;
        let shape = [&[self.shared.members.len()], mine.shape()].concat();
        let all = array::empty(&mine.dtype(), &shape)?;
        // SAFETY: both live until the call returns.
        let (from, into) = unsafe { (array::bytes(&mine), array::bytes(&all)) };
        self.shared.run(py, |team| team.all_gather_into(&*from, into))?;
        Ok(all.into_any())
    }

    /// Sends the i-th part of an array, along its first dimension, to the i-th member; returns what
    /// the members have sent here, in their order. The first dimension divides by the members.
    fn all_to_all<'py>(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mine = contiguous(array)?;
        let members = self.shared.members.len();
        let rows = mine.shape().first().copied().unwrap_or(0);
        if !rows.is_multiple_of(members) || mine.ndim() == 0 {
            let text = format!("{rows} rows cannot be divided among {members} members");
            return Err(bad_argument(py, text));
        }
        let all = array::empty(&mine.dtype(), mine.shape())?;
        // SAFETY: both live until the call returns.
        let (from, into) = unsafe { (array::bytes(&mine), array::bytes(&all)) };
        self.shared.run(py, |team| team.all_to_all_into(&*from, into))?;
        Ok(all.into_any())
    }

    /// Gives every member's bytes, of any lengths, to all.
    fn all_gather_bytes<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let all = self.shared.run(py, |team| all_gather_bytes(team, data))?;
        Ok(all.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }

    /// Sends the i-th of the given bytes, of any lengths, to the i-th member; returns what the
    /// members have sent here.
    fn all_to_all_bytes<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<Bound<'py, PyBytes>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let slices: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        let all = self.shared.run(py, |team| {
            if slices.len() != team.size() {
                return Err(Error::InvalidArgument(format!(
                    "{} parts for {} members",
                    slices.len(),
                    team.size()
                )));
            }
            team.all_to_all_v(&slices)
        })?;
        Ok(all.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }

    /// Gives every member the root's bytes; the others' are not looked at.
    #[pyo3(signature = (data, root=0))]
    fn broadcast_bytes<'py>(
        &self,
        py: Python<'py>,
        data: Option<&[u8]>,
        root: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let root = self.root(py, root)?;
        if root == self.shared.access.rank && data.is_none() {
            return Err(bad_argument(py, "the root must pass the bytes to broadcast"));
        }
        let all = self.shared.run(py, |team| {
            let mut length = [data.map_or(0, <[u8]>::len) as u64];
            team.broadcast(root, &mut length)?;
            let mut bytes = match data {
                Some(data) if root == team.context().rank() => data.to_vec(),
                _ => vec![0; length[0] as usize],
            };
            team.broadcast(root, &mut bytes)?;
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &all))
    }
}

/// Returns an array, or the scalar that an array without dimensions is.
fn unwrap(array: Bound<'_, PyUntypedArray>) -> Bound<'_, PyAny> {
    let is_scalar = array.ndim() == 0;
    let array = array.into_any();
    match is_scalar {
        true => array.get_item(pyo3::types::PyTuple::empty(array.py())).unwrap_or(array),
        false => array,
    }
}
