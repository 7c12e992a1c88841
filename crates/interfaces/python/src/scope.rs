//! Scopes: transfers that overlap with computation, and the arrays that they use.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use farside::raw::{Memory, Request};
use numpy::{PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use crate::access::{Access, Solely};
use crate::array;
use crate::context::Context;
use crate::error::{Raise, bad_state};
use crate::selection::Selection;
use crate::transfer::Block;
use crate::window::Window;
use crate::world::World;

/// Transfers under way. At the end of its `with` block all of them are complete, here: what was
/// gotten is there, and the arrays that were put may be changed. A flush says when puts have
/// landed.
#[pyclass(frozen, module = "farside")]
pub(crate) struct Scope {
    access: Arc<Access>,
    state: Mutex<State>,
}

struct State {
    is_open: bool,
    underway: VecDeque<Underway>,
}

/// A transfer, what it reads or writes, and the memory that it goes to.
struct Underway {
    request: Solely<Request>,
    array: Py<PyUntypedArray>,
    _memory: Memory,
}

macro_rules! opens_scopes {
    ($($type:ident)*) => {$(
        #[pymethods]
        impl $type {
            /// Opens a scope for transfers that overlap with computation.
            fn scope(&self) -> Scope {
                let state = Mutex::new(State { is_open: false, underway: VecDeque::new() });
                Scope { access: self.access.clone(), state }
            }
        }
    )*};
}
opens_scopes! { World Context Window }

impl Scope {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.state().is_open {
            return Ok(());
        }
        Err(bad_state(
            py,
            "a scope must be used inside its `with` block: `with world.scope() as s:`",
        ))
    }

    /// Adds a transfer. The fabric bears only so many: if they are too many, the oldest is waited
    /// for.
    fn add(&self, py: Python<'_>, added: Underway) -> PyResult<()> {
        self.state().underway.push_back(added);
        let entered = self.access.enter(py)?;
        let context = entered.context();
        let most = context.job().caps.outstanding_max.max(1) as usize;
        let oldest = {
            let mut state = self.state();
            if state.underway.len() < most { None } else { state.underway.pop_front() }
        };
        let Some(Underway { request, array, _memory }) = oldest else { return Ok(()) };
        let waited = self.access.released(py, || request.into_inner().wait(context));
        drop((entered, array));
        waited.raise(py)
    }

    fn wait_all(&self, py: Python<'_>) -> PyResult<()> {
        if self.state().underway.is_empty() {
            return Ok(());
        }
        // If another thread is in a call, they stay under way, and keep their arrays.
        let entered = self.access.enter(py)?;
        let all = std::mem::take(&mut self.state().underway);
        let (requests, arrays): (Vec<_>, Vec<_>) =
            all.into_iter().map(|each| (each.request, (each.array, each._memory))).unzip();
        let context = entered.context();
        // All of them, also after one has failed: their arrays are in use until then.
        let waited = self.access.released(py, || {
            let wait = |request: Solely<Request>| request.into_inner().wait(context);
            requests.into_iter().map(wait).fold(Ok(()), Result::and)
        });
        drop((entered, arrays));
        waited.raise(py)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let all = std::mem::take(&mut self.state().underway);
        if all.is_empty() {
            return;
        }
        Python::attach(|py| match self.access.enter(py) {
            Ok(entered) => {
                all.into_iter().for_each(|each| each.request.into_inner().cancel(entered.context()))
            }
            // They go on, and use their arrays.
            Err(_) => std::mem::forget(all),
        });
    }
}

#[pymethods]
impl Scope {
    /// Starts a put of data to a selection of a rank's part. The data must not be changed before
    /// the block ends.
    fn put(
        &self,
        py: Python<'_>,
        window: &Window,
        rank: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.check_open(py)?;
        let rank = window.rank(rank)?;
        let selection = Selection::read(index, 0, window.part(py, rank)?, window.item())?;
        let (array, block) = window.source(py, &selection, data)?;
        if block.bytes() == 0 {
            return Ok(());
        }
        if !block.is_one_run() {
            return window.put_value(py, rank, &selection, data);
        }
        let to = window.memory().at(rank, block.offset);
        // SAFETY: the array is kept until the request is complete.
        let data = unsafe { block.near_bytes() };
        let request = self.access.run(py, window.is_long(rank, block.bytes()), |context| {
            // SAFETY: as above.
            unsafe { Request::put(context, data.as_ptr(), data.len(), to) }
        })?;
        let (request, memory) = (Solely(request), window.memory().clone());
        self.add(py, Underway { request, array: array.unbind(), _memory: memory })
    }

    /// Starts a get of a selection of a rank's part; returns the array, which is filled when the
    /// block ends.
    #[pyo3(signature = (window, rank, index, out=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        window: &Window,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_open(py)?;
        let rank = window.rank(rank)?;
        let selection = Selection::read(index, 0, window.part(py, rank)?, window.item())?;
        let array = match out {
            None => array::empty(window.descr(py), selection.counts())?,
            Some(out) => window.destination(py, &selection, out)?,
        };
        let block = Block::new(&selection, array::data(&array), array.strides(), window.item());
        if block.bytes() == 0 {
            return Ok(array.into_any());
        }
        if !block.is_one_run() {
            return window.get_value(py, rank, &selection, out);
        }
        let from = window.memory().at(rank, block.offset);
        // SAFETY: the array is kept until the request is complete.
        let into = unsafe { block.near_bytes() };
        let request = self.access.run(py, window.is_long(rank, block.bytes()), |context| {
            // SAFETY: as above.
            unsafe { Request::get(context, from, into.as_mut_ptr(), into.len()) }
        })?;
        let (request, memory) = (Solely(request), window.memory().clone());
        let kept = array.clone().unbind();
        self.add(py, Underway { request, array: kept, _memory: memory })?;
        Ok(array.into_any())
    }

    /// Waits until all transfers that were started are complete.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.wait_all(py)
    }

    fn __enter__(slf: Py<Scope>) -> PyResult<Py<Scope>> {
        slf.get().state().is_open = true;
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.state().is_open = false;
        self.wait_all(py)?;
        Ok(false)
    }
}
