//! Contexts of threads: their order, completions and counters.

use std::sync::Arc;

use farside::Rank;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::access::Access;

/// One thread's way into the job, with completions and an order of its own.
#[pyclass(frozen, module = "farside")]
pub(crate) struct Context {
    pub(crate) access: Arc<Access>,
}

pub(crate) fn fence(access: &Access, py: Python<'_>) -> PyResult<()> {
    access.run(py, !access.is_one_node, farside::Context::fence)
}

pub(crate) fn flush(access: &Access, py: Python<'_>, rank: Option<u32>) -> PyResult<()> {
    access.run(py, !access.is_one_node, |context| match rank {
        Some(rank) => context.flush(Rank(rank)),
        None => context.flush_all(),
    })
}

pub(crate) fn counters<'py>(
    access: &Access,
    py: Python<'py>,
    rank: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let (counted, waits) = access.run(py, false, |context| {
        let counters = context.counters();
        let counted = match rank {
            None => counters.total(),
            Some(rank) => {
                context.topology().check(Rank(rank))?;
                counters.peer(Rank(rank))
            }
        };
        Ok((counted, counters.effort.waits))
    })?;
    let all = PyDict::new(py);
    for (name, value) in [
        ("puts", counted.puts),
        ("put_bytes", counted.put_bytes),
        ("gets", counted.gets),
        ("get_bytes", counted.get_bytes),
        ("accumulates", counted.accumulates),
        ("accumulate_bytes", counted.accumulate_bytes),
        ("atomics", counted.atomics),
        ("calls", counted.calls),
        ("waits", waits),
    ] {
        all.set_item(name, value)?;
    }
    Ok(all)
}

#[pymethods]
impl Context {
    /// Orders puts: what was put before lands ahead of what is put, signalled or accumulated at the
    /// same rank afterwards.
    fn fence(&self, py: Python<'_>) -> PyResult<()> {
        fence(&self.access, py)
    }

    /// Returns when all that was put to a rank, or to all, has landed.
    #[pyo3(signature = (rank=None))]
    fn flush(&self, py: Python<'_>, rank: Option<u32>) -> PyResult<()> {
        flush(&self.access, py, rank)
    }

    /// Returns what this context has done to a rank, or to all together.
    #[pyo3(signature = (rank=None))]
    fn counters<'py>(&self, py: Python<'py>, rank: Option<u32>) -> PyResult<Bound<'py, PyDict>> {
        counters(&self.access, py, rank)
    }

    /// Gives the context up. What was put through it and not flushed may be lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.access.leave(py)
    }

    fn __enter__(slf: Py<Context>) -> Py<Context> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.close(py)?;
        Ok(false)
    }
}
