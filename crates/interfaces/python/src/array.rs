//! numpy's arrays as memory: where they begin, their shape and their strides in bytes.

use std::ffi::c_void;

use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, PyArray_Descr};
use numpy::{PyArrayDescr, PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use crate::error::{bad_argument, unsupported};

/// Reads a dtype whose elements are plain bytes.
pub(crate) fn plain_dtype<'py>(dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArrayDescr>> {
    let py = dtype.py();
    let descr = PyArrayDescr::new(py, dtype)?;
    check_objects(&descr)?;
    if descr.itemsize() == 0 || descr.has_subarray() {
        return Err(bad_argument(
            py,
            format!("dtype {descr} has no scalar elements: pass its base and a longer shape"),
        ));
    }
    Ok(descr)
}

/// Refuses a dtype whose elements are, or have, Python objects.
pub(crate) fn check_objects(descr: &Bound<'_, PyArrayDescr>) -> PyResult<()> {
    if descr.has_object() {
        return Err(unsupported(
            descr.py(),
            format!("dtype {descr}: Python objects have no meaning in another process"),
        ));
    }
    Ok(())
}

/// A new reference to a dtype, for a function that takes one over.
fn given(descr: &Bound<'_, PyArrayDescr>) -> *mut PyArray_Descr {
    descr.clone().into_dtype_ptr()
}

/// Returns an array, if an object is one.
#[inline]
pub(crate) fn is_array<'a, 'py>(
    object: &'a Bound<'py, PyAny>,
) -> Option<&'a Bound<'py, PyUntypedArray>> {
    object.cast::<PyUntypedArray>().ok()
}

/// Returns whether an array has elements of a dtype.
#[inline]
pub(crate) fn has_dtype(
    array: &Bound<'_, PyUntypedArray>,
    descr: &Bound<'_, PyArrayDescr>,
) -> bool {
    let own = array.dtype();
    own.as_dtype_ptr() == descr.as_dtype_ptr() || own.is_equiv_to(descr)
}

/// Returns a value as an array of a dtype: itself if it is one, else converted as an assignment to
/// an array converts it.
pub(crate) fn as_array<'py>(
    value: &Bound<'py, PyAny>,
    descr: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Some(array) = is_array(value).filter(|array| has_dtype(array, descr)) {
        return Ok(array.clone());
    }
    let py = value.py();
    // SAFETY: the reference to the dtype is given away; the others are null or borrowed.
    let made = unsafe {
        PY_ARRAY_API.PyArray_FromAny(
            py,
            value.as_ptr(),
            given(descr),
            0,
            0,
            npyffi::NPY_ARRAY_FORCECAST | npyffi::NPY_ARRAY_ALIGNED,
            std::ptr::null_mut(),
        )
    };
    // SAFETY: a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made)? };
    Ok(made.cast_into::<PyUntypedArray>()?)
}

/// Returns numbers that are added to others of a dtype as an array of it. Numbers that the dtype
/// cannot have are refused, as `+=` refuses them: half of something is not nothing.
pub(crate) fn as_summand<'py>(
    value: &Bound<'py, PyAny>,
    descr: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = match is_array(value) {
        Some(array) => array.clone(),
        None => value.py().import("numpy")?.call_method1("asarray", (value,))?.cast_into()?,
    };
    let order = |kind: u8| match kind {
        b'b' => Some(0),
        // Integers of both kinds wrap.
        b'i' | b'u' => Some(1),
        b'f' => Some(2),
        b'c' => Some(3),
        _ => None,
    };
    let (from, to) = (array.dtype(), descr);
    match order(from.kind()).zip(order(to.kind())) {
        Some((from_order, to_order)) if from_order > to_order && !array.is_empty() => {
            let text =
                format!("cannot combine numbers of {from} with numbers of {to}: convert them");
            Err(bad_argument(value.py(), text))
        }
        _ => as_array(value, descr),
    }
}

/// Returns a value as a contiguous array of whatever dtype it has.
pub(crate) fn contiguous<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = value.py().import("numpy")?.call_method1("ascontiguousarray", (value,))?;
    // `ascontiguousarray` makes scalars arrays of one element.
    let array = match is_array(value).map(|value| value.ndim()) {
        Some(0) => array.call_method1("reshape", ((),))?,
        None if value.call_method0("__len__").is_err() => array.call_method1("reshape", ((),))?,
        _ => array,
    };
    let array = array.cast_into::<PyUntypedArray>()?;
    check_objects(&array.dtype())?;
    Ok(array)
}

/// Makes an array with undefined contents.
pub(crate) fn empty<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    make(descr, shape, std::ptr::null_mut())
}

/// Makes an array over memory that its base keeps.
///
/// # Safety
///
/// The memory is valid for an array of this shape for as long as the base lives.
pub(crate) unsafe fn over<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    memory: *mut u8,
    base: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = make(descr, shape, memory)?;
    let py = array.py();
    // SAFETY: the array is new and has no base; the reference to it is given away.
    let set =
        unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_array_ptr(), base.into_ptr()) };
    if set == 0 { Ok(array) } else { Err(PyErr::fetch(py)) }
}

fn make<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    memory: *mut u8,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = descr.py();
    let mut dims: Vec<isize> = shape.iter().map(|&count| count as isize).collect();
    // SAFETY: the type is numpy's own, the reference to the dtype is given away, the shape is
    // copied, and numpy sets memory aside if there is none.
    let made = unsafe {
        PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            given(descr),
            dims.len() as i32,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            memory.cast(),
            // Without memory, any flag would ask for Fortran's order.
            if memory.is_null() { 0 } else { npyffi::NPY_ARRAY_CARRAY },
            std::ptr::null_mut(),
        )
    };
    // SAFETY: a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made)? };
    Ok(made.cast_into::<PyUntypedArray>()?)
}

/// Makes a numpy scalar of the bytes of one element.
#[inline]
pub(crate) fn scalar<'py>(
    descr: &Bound<'py, PyArrayDescr>,
    element: &mut [u8],
) -> PyResult<Bound<'py, PyAny>> {
    debug_assert!(element.len() >= descr.itemsize());
    let py = descr.py();
    // SAFETY: numpy copies one element, which is there.
    let made = unsafe {
        PY_ARRAY_API.PyArray_Scalar(
            py,
            element.as_mut_ptr().cast::<c_void>(),
            descr.as_dtype_ptr(),
            std::ptr::null_mut(),
        )
    };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

/// Returns where the elements of an array begin.
#[inline]
pub(crate) fn data(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the object is an array.
    unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).data.cast() }
}

/// Returns the bytes of a contiguous array.
///
/// # Safety
///
/// The array lives for as long as the bytes are used.
pub(crate) unsafe fn bytes<'a>(array: &Bound<'_, PyUntypedArray>) -> &'a mut [u8] {
    debug_assert!(array.is_c_contiguous());
    let len = array.len() * array.dtype().itemsize();
    if len == 0 {
        return &mut [];
    }
    // SAFETY: by the caller's promise; a contiguous array has as many bytes.
    unsafe { std::slice::from_raw_parts_mut(data(array), len) }
}

/// Refuses an array that cannot be written.
pub(crate) fn check_writable(array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    // SAFETY: the object is an array.
    let flags =
        unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).flags };
    if flags & npyffi::NPY_ARRAY_WRITEABLE != 0 {
        return Ok(());
    }
    Err(bad_argument(array.py(), "the array to read into is read-only"))
}

/// Copies the elements of one array to another of the same shape and dtype.
pub(crate) fn copy(
    into: &Bound<'_, PyUntypedArray>,
    from: &Bound<'_, PyUntypedArray>,
) -> PyResult<()> {
    let py = into.py();
    // SAFETY: both are arrays.
    let done =
        unsafe { PY_ARRAY_API.PyArray_CopyInto(py, into.as_array_ptr(), from.as_array_ptr()) };
    if done == 0 { Ok(()) } else { Err(PyErr::fetch(py)) }
}
