//! numpy's basic indexing: integers, slices, `...` and `None`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PySlice, PyTuple};

use crate::error::{bad_index, bad_index_type};

/// The most dimensions that a window, or a selection from it, has.
pub(crate) const DIMENSIONS_MAX: usize = 16;

/// Elements of an array in C order, as an index selects them. Strides and offset count bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection {
    pub(crate) offset: usize,
    dimensions: usize,
    counts: [usize; DIMENSIONS_MAX],
    strides: [isize; DIMENSIONS_MAX],
    /// True if integers alone select one element.
    pub(crate) is_element: bool,
}

impl Selection {
    /// Selects nothing yet.
    fn new() -> Selection {
        Selection {
            offset: 0,
            dimensions: 0,
            counts: [0; DIMENSIONS_MAX],
            strides: [0; DIMENSIONS_MAX],
            is_element: false,
        }
    }

    /// Returns the number of elements in each dimension.
    pub(crate) fn counts(&self) -> &[usize] {
        &self.counts[..self.dimensions]
    }

    /// Returns the bytes between neighbours in each dimension.
    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides[..self.dimensions]
    }

    fn push(&mut self, py: Python<'_>, count: usize, stride: isize) -> PyResult<()> {
        if self.dimensions == DIMENSIONS_MAX {
            return Err(bad_index(py, format!("an index has at most {DIMENSIONS_MAX} dimensions")));
        }
        (self.counts[self.dimensions], self.strides[self.dimensions]) = (count, stride);
        self.dimensions += 1;
        Ok(())
    }

    /// Reads an index of an array of `shape` with elements of `item` bytes: one object, or the
    /// objects of a tuple from `skip` on.
    pub(crate) fn read(
        index: &Bound<'_, PyAny>,
        skip: usize,
        shape: &[usize],
        item: usize,
    ) -> PyResult<Selection> {
        let (single, tuple);
        let objects: &mut dyn Iterator<Item = Bound<'_, PyAny>> = match index.cast::<PyTuple>() {
            Ok(index) => {
                tuple = index;
                &mut tuple.iter().skip(skip)
            }
            Err(_) => {
                single = index;
                &mut std::iter::once(single.clone())
            }
        };
        Selection::of(index.py(), &objects.collect::<Vec<_>>(), shape, item)
    }

    fn of(
        py: Python<'_>,
        objects: &[Bound<'_, PyAny>],
        shape: &[usize],
        item: usize,
    ) -> PyResult<Selection> {
        let is_ellipsis = |object: &&Bound<'_, PyAny>| object.is_instance_of::<PyEllipsis>();
        let takes_none = |object: &&Bound<'_, PyAny>| object.is_none() || is_ellipsis(object);
        let ellipses = objects.iter().filter(is_ellipsis).count();
        let given = objects.len() - objects.iter().filter(takes_none).count();
        if ellipses > 1 {
            return Err(bad_index(py, "an index has one ellipsis ('...') at most"));
        }
        if given > shape.len() {
            return Err(bad_index(
                py,
                format!(
                    "too many indices: the part has {} dimensions, but {given} were indexed",
                    shape.len()
                ),
            ));
        }
        let steps = c_strides(shape, item);
        let mut selection = Selection::new();
        let mut at = 0;
        selection.is_element = ellipses == 0 && given == shape.len();
        for object in objects {
            if is_ellipsis(&object) {
                for _ in given..shape.len() {
                    selection.push(py, shape[at], steps[at])?;
                    at += 1;
                }
            } else if object.is_none() {
                selection.push(py, 1, 0)?;
                selection.is_element = false;
            } else if let Ok(slice) = object.cast::<PySlice>() {
                let indices = slice.indices(shape[at] as isize)?;
                if indices.slicelength > 0 {
                    selection.offset += indices.start as usize * steps[at] as usize;
                }
                selection.push(py, indices.slicelength, indices.step * steps[at])?;
                selection.is_element = false;
                at += 1;
            } else {
                selection.offset += integer(object, at, shape[at])? * steps[at] as usize;
                at += 1;
            }
        }
        for rest in at..shape.len() {
            selection.push(py, shape[rest], steps[rest])?;
            selection.is_element = false;
        }
        Ok(selection)
    }
}

/// Returns the bytes between neighbours in each dimension of an array in C order.
fn c_strides(shape: &[usize], item: usize) -> [isize; DIMENSIONS_MAX] {
    let mut strides = [0; DIMENSIONS_MAX];
    let mut stride = item;
    for (at, &count) in shape.iter().enumerate().rev() {
        strides[at] = stride as isize;
        stride *= count.max(1);
    }
    strides
}

/// Reads an integer of an index; negative ones count from the end.
#[inline]
pub(crate) fn integer(
    object: &Bound<'_, PyAny>,
    dimension: usize,
    count: usize,
) -> PyResult<usize> {
    let index = match object.extract::<isize>() {
        Ok(index) if !object.is_instance_of::<PyBool>() => index,
        _ => return Err(not_basic(object)),
    };
    let from_start = if index < 0 { index + count as isize } else { index };
    match usize::try_from(from_start) {
        Ok(found) if found < count => Ok(found),
        _ => Err(bad_index(
            object.py(),
            format!(
                "index {index} is out of bounds for dimension {dimension} with {count} elements"
            ),
        )),
    }
}

#[cold]
fn not_basic(object: &Bound<'_, PyAny>) -> PyErr {
    let name = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    bad_index_type(format!(
        "a window is indexed by integers, slices, '...' and None, not by {name}: get the slice \
         around the elements and index the array"
    ))
}
