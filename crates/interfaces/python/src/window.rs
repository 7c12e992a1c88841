//! Windows: arrays with a part on every member of a team.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use farside::fabric::text::counted;
use farside::raw::{Memory, Number};
use farside::{Error, Rank};
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};

use crate::access::Access;
use crate::array::{self, plain_dtype};
use crate::context::Context;
use crate::error::{Raise, bad_argument, bad_index_type, bad_state, raise};
use crate::number::{bytes_of as number_bytes, number_of};
use crate::selection::{DIMENSIONS_MAX, Selection, integer};
use crate::team::{Team, TeamShared};

/// An array with a part on every member of a team. `w[rank, index]` reads and writes the part of
/// any rank; an index is what numpy calls a basic one.
#[pyclass(frozen, module = "farside")]
pub(crate) struct Window {
    shared: Arc<Shared>,
    pub(crate) access: Arc<Access>,
}

/// What all handles of a window have in common.
struct Shared {
    memory: Memory,
    team: Arc<TeamShared>,
    descr: Py<PyArrayDescr>,
    item: usize,
    number: Option<Number>,
    shapes: Shapes,
    is_freed: AtomicBool,
    /// Counted by the views of the own part.
    views: Arc<()>,
}

/// The shapes of the parts.
enum Shapes {
    Same(Box<[usize]>),
    /// By rank.
    Each(Box<[Box<[usize]>]>),
}

/// The base of a view: keeps its memory mapped, and counts the view.
#[pyclass(frozen, module = "farside")]
pub(crate) struct ViewBase {
    _memory: Memory,
    _view: Arc<()>,
}

impl ViewBase {
    /// Makes the base of a view of a memory, which `views` counts.
    pub(crate) fn make<'py>(
        py: Python<'py>,
        memory: &Memory,
        views: &Arc<()>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let base = ViewBase { _memory: memory.clone(), _view: views.clone() };
        Ok(Bound::new(py, base)?.into_any())
    }
}

/// Reads a shape: an integer, or a sequence of them.
pub(crate) fn read_shape(shape: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let py = shape.py();
    let counts: Vec<isize> = match shape.extract::<isize>() {
        Ok(count) => vec![count],
        Err(_) => shape.extract()?,
    };
    if counts.len() > DIMENSIONS_MAX {
        let text = format!("a shape has at most {DIMENSIONS_MAX} dimensions, not {}", counts.len());
        return Err(bad_argument(py, text));
    }
    let count = |&count: &isize| {
        usize::try_from(count)
            .map_err(|_| bad_argument(py, format!("a dimension cannot have {count} elements")))
    };
    counts.iter().map(count).collect()
}

/// Returns the bytes of an array.
pub(crate) fn bytes_of(py: Python<'_>, shape: &[usize], item: usize) -> PyResult<usize> {
    let bytes = shape.iter().try_fold(item, |all, &count| all.checked_mul(count));
    let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as usize);
    bytes.ok_or_else(|| bad_argument(py, format!("shape {shape:?} is larger than all memory")))
}

#[pymethods]
impl Team {
    /// Allocates a window: a part of this shape on this member, all zero; other members may choose
    /// other shapes with as many dimensions. Collective.
    fn window(&self, shape: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<Window> {
        let (py, team) = (shape.py(), &self.shared);
        let (shape, descr) = (read_shape(shape)?, plain_dtype(dtype)?);
        let item = descr.itemsize();
        let bytes = bytes_of(py, &shape, item)?;
        let mut says = [0u64; SAID_FIRST + DIMENSIONS_MAX];
        let said = [item as u64, shape.len() as u64, dtype_code(&descr)];
        says[..SAID_FIRST].copy_from_slice(&said);
        shape.iter().zip(&mut says[SAID_FIRST..]).for_each(|(&count, say)| *say = count as u64);
        let (memory, all, members) = team.run(py, |team| {
            let all = team.all_gather(&says)?;
            if let Some((other, at)) = disagreement(&all, &says) {
                let theirs = all[other * says.len() + at];
                let text = |said: u64| match at {
                    SAID_DTYPE => dtype_text(said),
                    _ => said.to_string(),
                };
                return Err(Error::Disagreement {
                    what: format!("{} of a window", SAID[at]),
                    mine: text(says[at]),
                    rank: team.members()[other],
                    theirs: text(theirs),
                });
            }
            Ok((Memory::allocate(team, bytes as u64)?, all, team.members().to_vec()))
        })?;
        let shapes = Shapes::read(&all, &says, &members, team.access.size);
        let shared = Shared {
            memory,
            team: team.for_user(),
            item,
            number: number_of(&descr),
            descr: descr.unbind(),
            shapes,
            is_freed: AtomicBool::new(false),
            views: Arc::new(()),
        };
        Ok(Window { shared: Arc::new(shared), access: team.access.clone() })
    }
}

impl Window {
    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    #[inline]
    pub(crate) fn descr<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyArrayDescr> {
        self.shared.descr.bind(py)
    }

    #[inline]
    pub(crate) fn item(&self) -> usize {
        self.shared.item
    }

    #[inline]
    pub(crate) fn number(&self) -> Option<Number> {
        self.shared.number
    }

    /// Returns whether loads and stores reach the part of a rank.
    #[inline]
    pub(crate) fn is_near(&self, rank: Rank) -> bool {
        self.access.is_one_node || self.shared.memory.near(rank).is_some()
    }

    /// Returns the shape of a rank's part.
    #[inline]
    pub(crate) fn part(&self, py: Python<'_>, rank: Rank) -> PyResult<&[usize]> {
        if self.shared.is_freed.load(Ordering::Relaxed) {
            return Err(bad_state(py, "the window was freed"));
        }
        if rank.0 >= self.access.size {
            return Err(raise(py, &Error::UnknownRank { rank, ranks: self.access.size }));
        }
        match &self.shared.shapes {
            Shapes::Same(shape) => Ok(shape),
            Shapes::Each(shapes) => {
                self.shared.memory.bytes(rank).raise(py)?;
                Ok(&shapes[rank.index()])
            }
        }
    }

    /// Reads the rank of an index.
    #[inline]
    pub(crate) fn rank(&self, object: &Bound<'_, PyAny>) -> PyResult<Rank> {
        if object.is_instance_of::<PyBool>() {
            return Err(bad_index_type("a rank is an integer, not a truth value"));
        }
        let number = object.extract::<i64>()?;
        match u32::try_from(number) {
            Ok(rank) => Ok(Rank(rank)),
            Err(_) => {
                let ranks = counted(self.access.size, "rank");
                Err(bad_argument(object.py(), format!("rank {number}: the job has {ranks}")))
            }
        }
    }

    /// Reads a key whose first object is a rank.
    fn select(&self, key: &Bound<'_, PyAny>) -> PyResult<(Rank, Selection)> {
        let (py, item) = (key.py(), self.item());
        let Ok(tuple) = key.cast::<PyTuple>() else {
            let rank = self.rank(key)?;
            let whole = PyTuple::empty(py);
            return Ok((rank, Selection::read(&whole, 0, self.part(py, rank)?, item)?));
        };
        let rank = self.rank(&tuple.get_item(0)?)?;
        Ok((rank, Selection::read(key, 1, self.part(py, rank)?, item)?))
    }

    /// Reads the index of one element of a rank's part; returns its offset in bytes.
    #[inline]
    pub(crate) fn element(
        &self,
        py: Python<'_>,
        rank: Rank,
        index: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let shape = self.part(py, rank)?;
        match index.cast::<PyTuple>() {
            Err(_) if shape.len() == 1 => Ok(integer(index, 0, shape[0])? * self.item()),
            Ok(tuple) if tuple.len() == shape.len() => self.element_of(tuple, 0, shape),
            _ => Err(bad_argument(
                py,
                format!("one element of a part of shape {shape:?} has {} indices", shape.len()),
            )),
        }
    }

    #[inline]
    fn element_of(
        &self,
        tuple: &Bound<'_, PyTuple>,
        skip: usize,
        shape: &[usize],
    ) -> PyResult<usize> {
        let mut at = 0;
        for (dimension, &count) in shape.iter().enumerate() {
            at = at * count + integer(&tuple.get_item(skip + dimension)?, dimension, count)?;
        }
        Ok(at * self.item())
    }

    /// Reads a key of integers only; `None` if it has something else.
    #[inline]
    fn fast_element(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(Rank, usize)>> {
        let Ok(tuple) = key.cast_exact::<PyTuple>() else { return Ok(None) };
        for object in tuple.iter_borrowed() {
            if !object.is_exact_instance_of::<pyo3::types::PyInt>() {
                return Ok(None);
            }
        }
        if tuple.is_empty() {
            return Ok(None);
        }
        let rank = self.rank(&tuple.get_item(0)?)?;
        let shape = self.part(key.py(), rank)?;
        if tuple.len() != shape.len() + 1 {
            return Ok(None);
        }
        Ok(Some((rank, self.element_of(tuple, 1, shape)?)))
    }
}

/// What members tell each other of a window, on which they agree; the shapes come behind it.
const SAID: [&str; 3] = ["itemsize", "dimensions", "dtype"];
const SAID_DTYPE: usize = 2;
const SAID_FIRST: usize = SAID.len();

/// If members say different things of a window, returns the first that says something else than
/// this one, and what. It is the same on all members whether they do, also on one that agrees with
/// every other: none goes on alone.
fn disagreement(all: &[u64], mine: &[u64]) -> Option<(usize, usize)> {
    let said = |at: usize| {
        let members = all.chunks_exact(mine.len()).map(move |says| says[at]).enumerate();
        members.filter(move |&(_, said)| at != SAID_DTYPE || said != 0)
    };
    (0..SAID_FIRST).find_map(|at| {
        let (_, first) = said(at).next()?;
        said(at).find(|&(_, said)| said != first)?;
        let (member, _) = said(at).find(|&(_, said)| said != mine[at])?;
        Some((member, at))
    })
}

/// Returns what is said of a dtype: its kind, and whether its bytes are swapped. Records and bytes
/// without a meaning agree with all dtypes.
fn dtype_code(descr: &Bound<'_, PyArrayDescr>) -> u64 {
    let is_swapped = descr.is_native_byteorder() == Some(false);
    match descr.kind() {
        b'V' => 0,
        kind => u64::from(kind) << 1 | u64::from(is_swapped),
    }
}

/// Returns what was said of a dtype, for a message.
fn dtype_text(said: u64) -> String {
    let kind = if said == 0 { 'V' } else { char::from((said >> 1) as u8) };
    format!("kind '{kind}'{}", if said & 1 == 1 { " in another byte order" } else { "" })
}

impl Shapes {
    fn read(all: &[u64], mine: &[u64], members: &[Rank], ranks: u32) -> Shapes {
        let shape = |says: &[u64]| -> Box<[usize]> {
            let shape = &says[SAID_FIRST..SAID_FIRST + says[1] as usize];
            shape.iter().map(|&count| count as usize).collect()
        };
        let each = || all.chunks_exact(mine.len());
        if members.len() == ranks as usize && each().all(|theirs| theirs == mine) {
            return Shapes::Same(shape(mine));
        }
        let mut shapes = vec![Box::default(); ranks as usize];
        for (says, rank) in each().zip(members) {
            shapes[rank.index()] = shape(says);
        }
        Shapes::Each(shapes.into())
    }
}

#[pymethods]
impl Window {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some((rank, offset)) = self.fast_element(key)? {
            return self.get_element(py, rank, offset);
        }
        let (rank, selection) = self.select(key)?;
        match selection.is_element {
            true => self.get_element(py, rank, selection.offset),
            false => self.get_value(py, rank, &selection, None),
        }
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if let Some((rank, offset)) = self.fast_element(key)?
            && let Some((bytes, len)) = self.number().and_then(|number| number_bytes(number, value))
        {
            let to = self.memory().at(rank, offset as u64);
            let is_long = self.is_long(rank, len);
            return self.access.run(py, is_long, |context| context.put(&bytes[..len], to));
        }
        let (rank, selection) = self.select(key)?;
        self.put_value(py, rank, &selection, value)
    }

    /// Writes data to a selection of a rank's part: `w[rank, index] = data`.
    fn put(
        &self,
        py: Python<'_>,
        rank: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let rank = self.rank(rank)?;
        let selection = Selection::read(index, 0, self.part(py, rank)?, self.item())?;
        self.put_value(py, rank, &selection, data)
    }

    /// Reads a selection of a rank's part, into `out` if it is given.
    #[pyo3(signature = (rank, index, out=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        rank: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rank = self.rank(rank)?;
        let selection = Selection::read(index, 0, self.part(py, rank)?, self.item())?;
        match out {
            None if selection.is_element => self.get_element(py, rank, selection.offset),
            _ => self.get_value(py, rank, &selection, out),
        }
    }

    /// Adds `scale` times the data to a selection of a rank's part, element by element;
    /// accumulates on the same elements do not disturb each other.
    #[pyo3(signature = (rank, index, data, scale=None))]
    fn accumulate(
        &self,
        py: Python<'_>,
        rank: &Bound<'_, PyAny>,
        index: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        scale: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let rank = self.rank(rank)?;
        let selection = Selection::read(index, 0, self.part(py, rank)?, self.item())?;
        self.accumulate_value(py, rank, &selection, data, scale)
    }

    /// A copy of this rank's own part.
    #[getter]
    fn own<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rank = self.access.rank;
        let selection = Selection::read(&PyTuple::empty(py), 0, self.part(py, rank)?, self.item())?;
        self.get_value(py, rank, &selection, None)
    }

    /// Writes this rank's own part.
    #[setter]
    fn set_own(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let rank = self.access.rank;
        let selection = Selection::read(&PyTuple::empty(py), 0, self.part(py, rank)?, self.item())?;
        self.put_value(py, rank, &selection, value)
    }

    /// Returns this rank's own part as an array without a copy. Other ranks may write it at any
    /// time; a barrier, a lock or a signal says when they do not.
    fn own_view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.near_view(py, self.access.rank.0)
    }

    /// Returns the part of a rank of this node as an array without a copy.
    fn near_view<'py>(&self, py: Python<'py>, rank: u32) -> PyResult<Bound<'py, PyAny>> {
        let rank = Rank(rank);
        let shape = self.part(py, rank)?;
        let base = match rank == self.access.rank {
            true => Some(self.memory().base()),
            false => self.memory().near(rank),
        };
        let Some(base) = base else {
            let text = format!("a view of the part of {rank}, which is on another node");
            return Err(crate::error::unsupported(py, text));
        };
        let holder = ViewBase::make(py, self.memory(), &self.shared.views)?;
        // SAFETY: the part is mapped, and as long as the shape says, while the memory is held.
        let view = unsafe { array::over(self.descr(py), shape, base.as_ptr(), holder)? };
        Ok(view.into_any())
    }

    /// Returns the same window, used through another context.
    fn on(&self, context: &Context) -> Window {
        Window { shared: self.shared.clone(), access: context.access.clone() }
    }

    /// Returns the shape of a rank's part; of this rank's own without one.
    #[pyo3(signature = (rank=None))]
    fn shape_of<'py>(&self, py: Python<'py>, rank: Option<u32>) -> PyResult<Bound<'py, PyTuple>> {
        let rank = rank.map_or(self.access.rank, Rank);
        PyTuple::new(py, self.part(py, rank)?)
    }

    /// The shape of this rank's own part.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.shape_of(py, None)
    }

    /// The dtype of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        self.descr(py).clone()
    }

    /// The ranks that have a part.
    #[getter]
    fn members(&self) -> Vec<u32> {
        self.memory().members().iter().map(|rank| rank.0).collect()
    }

    /// True once the window was freed.
    #[getter]
    fn is_freed(&self) -> bool {
        self.shared.is_freed.load(Ordering::Relaxed)
    }

    /// Gives the memory back. Collective. It is an error, on all members, if one of them still has
    /// a view of the memory.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_freed() {
            return Ok(());
        }
        let mut views = [Arc::strong_count(&self.shared.views) as u64 - 1];
        if views[0] > 0 {
            // Views in reference cycles are garbage, not in use.
            py.import("gc")?.call_method0("collect")?;
            views[0] = Arc::strong_count(&self.shared.views) as u64 - 1;
        }
        let (memory, shared) = (self.memory().clone(), &self.shared.team);
        let entered = shared.access.enter(py)?;
        let team = shared.team_of_user(py, &entered)?;
        let freed = shared.access.released(py, || {
            let all = team.all_gather(&views)?;
            match all.iter().position(|&views| views > 0) {
                None => memory.free(&team),
                Some(at) => Err(Error::InvalidState(format!(
                    "{} still has {} of this window: delete the arrays that own_view and \
                     near_view gave before it is freed",
                    team.members()[at],
                    counted(all[at], "view")
                ))),
            }
        });
        drop(team);
        if freed.is_err() {
            drop(entered);
            return freed.raise(py);
        }
        self.shared.is_freed.store(true, Ordering::Relaxed);
        shared.end_use(py, entered, freed)
    }

    fn __enter__(slf: Py<Window>) -> Py<Window> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        // After an exception the other members may not come.
        if kind.is_none() {
            self.free(py)?;
        }
        Ok(false)
    }

    /// The own part, for `numpy.asarray`.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = if copy == Some(false) { self.own_view(py)? } else { self.own(py)? };
        match dtype {
            None => Ok(array),
            Some(dtype) => array.call_method1("astype", (dtype,)),
        }
    }

    /// The own part without a copy, as DLPack gives it to other libraries.
    #[pyo3(signature = (**options))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, pyo3::types::PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.own_view(py)?.call_method("__dlpack__", (), options)
    }

    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.own_view(py)?.call_method0("__dlpack_device__")
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.part(py, self.access.rank)?.first().copied().unwrap_or(1))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shape = match &self.shared.shapes {
            Shapes::Same(shape) => format!("{shape:?}"),
            Shapes::Each(_) => "several shapes".to_owned(),
        };
        format!(
            "<farside.Window of {} parts, {shape}, {}>",
            self.memory().members().len(),
            self.descr(py)
        )
    }
}
