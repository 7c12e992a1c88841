//! Windows with epochs, as MPI programs know them.

mod operation;

use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use farside::epoch::{Design, Mode, Options, Window};
use farside::raw::{Memory, Number};
use farside::{Error, Rank, Result};
use numpy::{PyArrayDescr, PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use crate::access::{Access, HELD_BYTES};
use crate::array::{self, check_writable, plain_dtype};
use crate::error::{Raise, bad_argument, bad_state, raise};
use crate::number::number_of;
use crate::team::{Team, TeamShared};
use crate::window::{ViewBase, bytes_of, read_shape};

/// Memory with a part on every member of a team, whose operations are done in epochs and complete
/// when their epoch ends. Displacements count elements.
#[pyclass(frozen, module = "farside")]
pub(crate) struct EpochWindow {
    shared: Arc<Shared>,
}

struct Shared {
    team: Arc<TeamShared>,
    /// `None` once it was freed. It borrows the team, and is forgotten if it was not freed.
    window: UnsafeCell<Option<Window<'static>>>,
    memory: Memory,
    shape: Vec<usize>,
    descr: Py<PyArrayDescr>,
    number: Option<Number>,
    item: usize,
    /// Where each rank's part begins in its memory, and how many bytes it has.
    parts: Box<[(u64, u64)]>,
    /// True if an operation may wait: for another node, or for the target's calls.
    is_slow: bool,
    /// Counted by the views of the own part.
    views: Arc<()>,
    attached: Option<Attached>,
}

// SAFETY: the window is used within `Access::enter` only, by one thread at a time.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // What was not freed stays until the job ends, and borrows from it. The array, too: its
        // pages are the job's.
        if let Some(window) = self.window.get_mut().take() {
            std::mem::forget((window, self.attached.take()));
        }
    }
}

#[pymethods]
impl Team {
    /// Allocates a window with epochs, as MPI programs know them. Collective.
    #[pyo3(signature = (shape, dtype, design="direct", checking=true))]
    fn epoch_window(
        &self,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
        design: &str,
        checking: bool,
    ) -> PyResult<EpochWindow> {
        let (py, team) = (shape.py(), &self.shared);
        let (shape, descr) = (read_shape(shape)?, plain_dtype(dtype)?);
        let bytes = bytes_of(py, &shape, descr.itemsize())? as u64;
        let design = match design {
            "direct" => Design::Direct,
            "two-sided" => Design::TWO_SIDED,
            _ => {
                let text = format!("{design:?} is not a design; use direct or two-sided");
                return Err(bad_argument(py, text));
            }
        };
        let options = Options::new().design(design).checking(checking);
        let mut allocated = None;
        // SAFETY: the window is used within `enter`, keeps the team, and is forgotten in the end.
        let made = unsafe {
            team.make(py, |team| {
                let parts = parts(&team, (0, bytes))?;
                let memory = Memory::allocate(&team, bytes)?;
                allocated = Some(memory.clone());
                let window = Window::attach(team, memory.clone().window::<u8>()?, options)?;
                Ok((window, memory, parts))
            })
        };
        let (window, memory, parts) = made.inspect_err(|_| {
            if let Some(memory) = allocated {
                // Why there is no window says more than why its memory stays.
                let _ = team.run(py, |team| memory.free(team));
            }
        })?;
        let is_two_sided = matches!(design, Design::TwoSided { .. });
        let made = Made { window, memory, parts, attached: None, is_two_sided };
        Ok(EpochWindow::of(team, made, shape, &descr))
    }

    /// Shares an array that the program has as a window with epochs; none has no bytes. Whole pages
    /// change their place in the machine, with what else is in them, and keep their addresses.
    /// Collective.
    #[pyo3(signature = (array, checking=true))]
    fn epoch_window_over(
        &self,
        py: Python<'_>,
        array: Option<&Bound<'_, PyAny>>,
        checking: bool,
    ) -> PyResult<EpochWindow> {
        let team = &self.shared;
        let bytes = py.import("numpy")?.getattr("dtype")?.call1(("u1",))?;
        let (array, descr, shape) = match array {
            None => (None, plain_dtype(&bytes)?, vec![0]),
            Some(array) => {
                let array = array.cast::<PyUntypedArray>()?;
                check_writable(array)?;
                if !array.is_c_contiguous() {
                    return Err(bad_argument(py, "a shared array must be contiguous"));
                }
                (Some(array), plain_dtype(array.dtype().as_any())?, array.shape().to_vec())
            }
        };
        let (at, len) = array.map_or((std::ptr::null_mut(), 0), |array| {
            (array::data(array), array.len() * descr.itemsize())
        });
        let options = Options::new().checking(checking);
        let page = rustix::param::page_size();
        let start = at.addr() / page * page;
        let before = at.addr() - start;
        let end = if len == 0 { start } else { (start + before + len).next_multiple_of(page) };
        let pages = start..end;
        let entered = team.access.enter(py)?;
        let is_private = farside_interop::check_private(&pages).is_ok();
        let is_claimed = is_private && team.access.claim(&pages);
        let first = NonNull::new(at.wrapping_sub(before)).unwrap_or(NonNull::dangling());
        // SAFETY: the window is used within `enter`, keeps the team, and is forgotten in the end.
        let members = unsafe { team.team_for_ever(py, &entered)? };
        let (mut allocated, mut is_laid) = (None, false);
        let made = (|| {
            check_claims(&members, is_claimed)?;
            let memory = Memory::allocate(&members, pages.len() as u64)?;
            allocated = Some(memory.clone());
            // SAFETY: the pages are the array's, which is kept, and its neighbours'. The memory is
            // fresh. The interpreter's lock is held, so that no other thread of Python writes them
            // where the system cannot let them wait.
            let laid =
                unsafe { farside_interop::lay_over_together(&members, &memory, &pages, first) };
            is_laid = laid.as_ref().map_or_else(|not_laid| not_laid.stays, |()| true);
            laid.map_err(|not_laid| not_laid.error)?;
            let parts = parts(&members, (before as u64, len as u64))?;
            let window = Window::attach(members, memory.clone().window::<u8>()?, options)?;
            Ok((window, memory, parts))
        })();
        let attached = array.map(|array| Attached { array: array.clone().unbind(), pages });
        if made.is_err() {
            let given = match attached.as_ref().filter(|_| is_claimed) {
                Some(attached) if is_laid => attached.give_back(py, &team.access),
                Some(attached) => {
                    team.access.unclaim(&attached.pages);
                    Ok(())
                }
                None => Ok(()),
            };
            let members = team.team(py, &entered)?;
            // Why there is no window says more than why its memory stays.
            let free = |memory| free_unless(&members, memory, given.is_err());
            let _ = team.access.released(py, || allocated.map_or(Ok(()), free));
        }
        drop(entered);
        let (window, memory, parts) = made.raise(py)?;
        let made = Made { window, memory, parts, attached, is_two_sided: false };
        Ok(EpochWindow::of(team, made, shape, &descr))
    }
}

impl EpochWindow {
    fn of(
        team: &Arc<TeamShared>,
        made: Made,
        shape: Vec<usize>,
        descr: &Bound<'_, PyArrayDescr>,
    ) -> EpochWindow {
        let shared = Shared {
            team: team.for_user(),
            window: UnsafeCell::new(Some(made.window)),
            memory: made.memory,
            shape,
            number: number_of(descr),
            item: descr.itemsize(),
            descr: descr.clone().unbind(),
            parts: made.parts,
            is_slow: made.is_two_sided || !team.access.is_one_node,
            views: Arc::new(()),
            attached: made.attached,
        };
        EpochWindow { shared: Arc::new(shared) }
    }

    /// Runs a call of the window.
    fn run<R>(
        &self,
        py: Python<'_>,
        is_long: bool,
        call: impl FnOnce(&Window<'static>) -> Result<R>,
    ) -> PyResult<R> {
        self.shared.team.access.run(py, is_long, |_| {
            // SAFETY: within a use of the context.
            match unsafe { &*self.shared.window.get() } {
                Some(window) => call(window),
                None => Err(Error::InvalidState("the window was freed".into())),
            }
        })
    }

    fn is_long(&self, bytes: usize) -> bool {
        bytes > HELD_BYTES || self.shared.is_slow
    }

    /// Returns the byte of a rank's memory at which so many bytes from a displacement on begin.
    fn place(&self, py: Python<'_>, rank: u32, at: u64, bytes: usize) -> PyResult<u64> {
        let Some(&(start, length)) = self.shared.parts.get(rank as usize) else {
            let ranks = self.shared.team.access.size;
            return Err(raise(py, &Error::UnknownRank { rank: Rank(rank), ranks }));
        };
        match at.checked_add(bytes as u64) {
            Some(end) if end <= length => Ok(start + at),
            _ => Err(raise(
                py,
                &Error::OutOfBounds {
                    rank: Rank(rank),
                    first: at,
                    end: at.saturating_add(bytes as u64),
                    elements: length,
                    element: "byte",
                    of: "this window".into(),
                },
            )),
        }
    }

    /// Returns the displacement of an element in bytes.
    fn bytes_at(&self, at: u64) -> u64 {
        at.saturating_mul(self.shared.item as u64)
    }
}

/// An array that memory of the job lies over, and its pages.
struct Attached {
    array: Py<PyUntypedArray>,
    pages: Range<usize>,
}

impl Attached {
    /// Makes the pages the program's alone again.
    fn give_back(&self, py: Python<'_>, access: &Access) -> Result<()> {
        // SAFETY: no other rank uses the window any more, and the interpreter's lock is held, so
        // that no other thread of Python writes the pages where the system cannot let them wait.
        let given = unsafe { farside_interop::give_back(&self.pages) };
        match given {
            Ok(()) => access.unclaim(&self.pages),
            // They stay the job's, and must not be used for anything else.
            Err(_) => std::mem::forget(self.array.clone_ref(py)),
        }
        given
    }
}

/// Refuses, on all members, arrays in whose pages a member has another window.
fn check_claims(team: &farside::Team<'_>, is_claimed: bool) -> Result<()> {
    let claims = team.all_gather(&[u8::from(is_claimed)])?;
    match claims.iter().position(|&claimed| claimed == 0) {
        None => Ok(()),
        Some(at) => Err(Error::InvalidState(format!(
            "the array of {} lies in a page that is shared already, by another window or a mapped \
             file: give each window pages of its own, with memory that starts at a page boundary \
             and is whole pages long",
            team.members()[at]
        ))),
    }
}

/// Frees memory, unless it must stay on a member. Collective.
fn free_unless(team: &farside::Team<'_>, memory: Memory, stays: bool) -> Result<()> {
    match team.all_gather(&[u8::from(stays)])?.contains(&1) {
        true => Ok(()),
        false => memory.free(team),
    }
}

/// What a window is made of.
struct Made {
    window: Window<'static>,
    memory: Memory,
    parts: Box<[(u64, u64)]>,
    attached: Option<Attached>,
    is_two_sided: bool,
}

/// Tells all members where each one's part begins and how long it is; by rank.
fn parts(team: &farside::Team<'_>, mine: (u64, u64)) -> Result<Box<[(u64, u64)]>> {
    let all = team.all_gather(&[mine.0, mine.1])?;
    let mut parts = vec![(0, 0); team.context().size() as usize];
    for (says, rank) in all.chunks_exact(2).zip(team.members()) {
        parts[rank.index()] = (says[0], says[1]);
    }
    Ok(parts.into())
}

fn mode(is_shared: bool) -> Mode {
    if is_shared { Mode::Shared } else { Mode::Exclusive }
}

#[pymethods]
impl EpochWindow {
    /// Ends the fence epoch before it, if there is one, and begins another. Collective.
    fn fence(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, Window::fence)
    }

    /// Ends the fence epoch before it, and begins none. Collective.
    fn last_fence(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, Window::last_fence)
    }

    /// Begins an exposure epoch of this rank's own part for these origins.
    fn post(&self, py: Python<'_>, origins: Vec<u32>) -> PyResult<()> {
        let origins: Vec<Rank> = origins.into_iter().map(Rank).collect();
        self.run(py, true, |window| window.post(&origins))
    }

    /// Begins an access epoch to these targets.
    fn start(&self, py: Python<'_>, targets: Vec<u32>) -> PyResult<()> {
        let targets: Vec<Rank> = targets.into_iter().map(Rank).collect();
        self.run(py, true, |window| window.start(&targets))
    }

    /// Ends the access epoch of `start`.
    fn complete(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, Window::complete)
    }

    /// Ends the exposure epoch of `post`: returns when its origins have completed.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, Window::wait)
    }

    /// Returns whether `wait` would return at once, and ends the exposure epoch then.
    fn test(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, true, Window::test)
    }

    /// Begins a passive epoch to one target.
    #[pyo3(signature = (target, shared=false))]
    fn lock(&self, py: Python<'_>, target: u32, shared: bool) -> PyResult<()> {
        self.run(py, true, |window| window.lock(Rank(target), mode(shared)))
    }

    /// Ends a passive epoch: all its operations are complete, here and at the target.
    fn unlock(&self, py: Python<'_>, target: u32) -> PyResult<()> {
        let is_long = self.is_long(0);
        self.run(py, is_long, |window| window.unlock(Rank(target)))
    }

    /// Begins a passive epoch to all members, in shared mode. Not collective.
    fn lock_all(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, Window::lock_all)
    }

    /// Ends an epoch of `lock_all`.
    fn unlock_all(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, Window::unlock_all)
    }

    /// Completes all operations on a target, or on all that are locked, here and there.
    #[pyo3(signature = (target=None))]
    fn flush(&self, py: Python<'_>, target: Option<u32>) -> PyResult<()> {
        let is_long = self.is_long(0);
        self.run(py, is_long, |window| match target {
            Some(target) => window.flush(Rank(target)),
            None => window.flush_all(),
        })
    }

    /// Makes what this rank has written to its own part visible, and what others have written
    /// visible to it.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, self.is_long(0), Window::sync)
    }

    /// Returns when every member has called it.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, true, Window::barrier)
    }

    /// Returns this rank's own part as an array without a copy.
    fn own_view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shared = &*self.shared;
        if let Some(attached) = &shared.attached {
            return Ok(attached.array.bind(py).clone().into_any());
        }
        // SAFETY: only whether there is a window is looked at, with the interpreter's lock held.
        if unsafe { (*shared.window.get()).is_none() } {
            return Err(bad_state(py, "the window was freed"));
        }
        let holder = ViewBase::make(py, &shared.memory, &shared.views)?;
        let base = shared.memory.base().as_ptr();
        // SAFETY: the part is mapped, and as long as the shape says, while the memory is held.
        let view = unsafe { array::over(shared.descr.bind(py), &shared.shape, base, holder)? };
        Ok(view.into_any())
    }

    /// Returns the bytes of a rank's part.
    fn bytes_of(&self, py: Python<'_>, rank: u32) -> PyResult<u64> {
        self.place(py, rank, 0, 0)?;
        Ok(self.shared.parts[rank as usize].1)
    }

    /// The dtype of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        self.shared.descr.bind(py).clone()
    }

    /// The shape of this rank's own part.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, &self.shared.shape)
    }

    /// Ends the window; all its epochs must be over. Collective. An array that was shared is the
    /// program's alone again, with its contents. If a member still has a view of its part, the
    /// memory stays until the job ends.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let shared = &*self.shared;
        let entered = shared.team.access.enter(py)?;
        let team = shared.team.team_of_user(py, &entered)?;
        // SAFETY: within a use of the context.
        let Some(window) = (unsafe { (*shared.window.get()).take() }) else {
            return Ok(());
        };
        let access = &shared.team.access;
        let detached = access.released(py, || window.detach());
        // Also after a loss: what others still send goes to memory of the job.
        let given =
            shared.attached.as_ref().map_or(Ok(()), |attached| attached.give_back(py, access));
        let stays = given.is_err() || Arc::strong_count(&shared.views) > 1;
        let freed = access.released(py, || {
            let (memory, ended) = detached?;
            let freed = free_unless(&team, memory.into(), stays);
            let ended = match ended {
                // What was put to a lost rank is lost with it.
                Err(Error::RankLost { .. }) => Ok(()),
                ended => ended,
            };
            ended.and(freed).and(given)
        });
        drop(team);
        shared.team.end_use(py, entered, freed)
    }
}
