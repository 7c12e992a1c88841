//! The job: joining and leaving it, its ranks and nodes.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use farside::fabric::{Place, PlaceFinder};
use farside::{PeerState, Rank};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::access::{Access, Solely};
use crate::context::{Context, counters, fence, flush};
use crate::error::{Raise, bad_state};
use crate::lock::Lock;
use crate::team::{Team, TeamShared};

/// A rank's handle on the job, and the team of all ranks. It belongs to the thread that has joined.
#[pyclass(frozen, extends = Team, module = "farside")]
pub(crate) struct World {
    pub(crate) access: Arc<Access>,
    team: Arc<TeamShared>,
    contexts: Mutex<Vec<Weak<Access>>>,
    /// The locks of `lock`, by their home.
    locks: Mutex<Vec<(u32, Py<Lock>)>>,
    process: u32,
}

/// Joins the job that this process was started for, or, if it was started without a launcher, a job
/// of one rank. A process joins once.
#[pyfunction]
pub(crate) fn join(py: Python<'_>) -> PyResult<Py<World>> {
    let world = py.detach(|| Solely(farside::join())).into_inner().raise(py)?;
    // Inside of a call without the interpreter's lock no Python code handles an interrupt, and the
    // call may wait for ranks that the same interrupt has ended: the default action ends it, too.
    let flag = (world.size() > 1).then(|| Arc::new(AtomicBool::new(false)));
    if let Some(flag) = &flag {
        let done = signal_hook::flag::register_conditional_default(2, flag.clone());
        done.map_err(|error| bad_state(py, format!("cannot watch for interrupts: {error}")))?;
    }
    world.find_places_by(Some(PlaceFinder { quickly: place, exactly: place }));
    world.note_unseen("accesses of Python programs");
    let access = Arc::new(Access::of_world(world, flag));
    let team = Team::of(TeamShared::of_world(access.clone()));
    let shared = team.shared.clone();
    let (contexts, locks) = (Mutex::default(), Mutex::default());
    let process = std::process::id();
    let world = World { access, team: shared, contexts, locks, process };
    Py::new(py, PyClassInitializer::from(team).add_subclass(world))
}

/// Returns the line of the program that this thread executes, in Python.
fn place() -> Option<Place> {
    // While the interpreter ends there is nobody to ask.
    let found = Python::try_attach(|py| -> PyResult<Place> {
        let package: String = py.import("farside")?.getattr("__path__")?.get_item(0)?.extract()?;
        let mut frame = py.import("sys")?.call_method0("_getframe")?;
        loop {
            let file: String = frame.getattr("f_code")?.getattr("co_filename")?.extract()?;
            let caller = frame.getattr("f_back")?;
            // The module's own lines, such as those of its MPI, were called by the program.
            if !file.starts_with(&package) || caller.is_none() {
                return Ok(Place {
                    file: file.into(),
                    line: frame.getattr("f_lineno")?.extract()?,
                });
            }
            frame = caller;
        }
    });
    found?.ok()
}

#[pymethods]
impl World {
    /// This rank's number.
    #[getter]
    fn rank(&self) -> u32 {
        self.access.rank.0
    }

    /// True once the job was left.
    #[getter]
    fn is_left(&self) -> bool {
        self.access.is_left()
    }

    /// The number of nodes.
    #[getter]
    fn nodes(&self, py: Python<'_>) -> PyResult<u32> {
        self.access.run(py, false, |context| Ok(context.topology().nodes()))
    }

    /// Returns the node that a rank is on.
    fn node_of(&self, py: Python<'_>, rank: u32) -> PyResult<u32> {
        self.access.run(py, false, |context| {
            context.topology().check(Rank(rank))?;
            Ok(context.topology().node_of(Rank(rank)).0)
        })
    }

    /// Returns whether a rank is on this rank's node.
    fn is_near(&self, py: Python<'_>, rank: u32) -> PyResult<bool> {
        self.access.run(py, false, |context| {
            context.topology().check(Rank(rank))?;
            Ok(context.topology().same_node(context.rank(), Rank(rank)))
        })
    }

    /// Makes a context for another thread of this rank.
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        let made = self.access.run(py, true, |context| Ok(Solely(context.context()?)))?;
        let access = Arc::new(self.access.beside(made.into_inner()));
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.retain(|other| other.strong_count() > 0);
        contexts.push(Arc::downgrade(&access));
        Ok(Context { access })
    }

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

    /// Stands in a loop that polls memory of another rank: lets other ranks run, and raises
    /// `RankLost` once a rank was lost.
    fn relax(&self, py: Python<'_>) -> PyResult<()> {
        self.access.run(py, true, farside::Context::relax)
    }

    /// Returns what this rank's first thread has done to a rank, or to all together.
    #[pyo3(signature = (rank=None))]
    fn counters<'py>(&self, py: Python<'py>, rank: Option<u32>) -> PyResult<Bound<'py, PyDict>> {
        counters(&self.access, py, rank)
    }

    /// Returns the state of a rank: starting, alive, left, or how it was lost.
    fn peer_state(&self, py: Python<'_>, rank: u32) -> PyResult<String> {
        self.access.run(py, false, |context| {
            context.topology().check(Rank(rank))?;
            Ok(match context.peer_state(Rank(rank)) {
                PeerState::Starting => "starting".to_owned(),
                PeerState::Alive => "alive".to_owned(),
                PeerState::Left => "left".to_owned(),
                PeerState::Lost(how) => format!("lost: it {how}"),
            })
        })
    }

    /// The ranks that were lost.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.access.run(py, false, |context| {
            let lost = context.ranks().filter(|&rank| context.is_lost(rank));
            Ok(lost.map(|rank| rank.0).collect())
        })
    }

    /// Goes on after losses: should this rank end later, that is not because of a loss that it
    /// knows of now.
    fn go_on(&self, py: Python<'_>) -> PyResult<()> {
        self.access.run(py, false, |context| {
            context.go_on();
            Ok(())
        })
    }

    /// Returns the exclusive lock whose shared words are in the memory of `home`. The first call
    /// for a home makes it, and is collective; later ones return the same lock.
    #[pyo3(signature = (home=0))]
    fn lock(&self, py: Python<'_>, home: u32) -> PyResult<Py<Lock>> {
        let known = || self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, lock)) = known().iter().find(|(known, _)| *known == home) {
            return Ok(lock.clone_ref(py));
        }
        let lock = Py::new(py, Lock::make(py, &self.team, Rank(home), None)?)?;
        known().push((home, lock.clone_ref(py)));
        Ok(lock)
    }

    /// Returns the time in nanoseconds since some moment that all ranks of a node share.
    fn now_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.access.run(py, false, |context| Ok(context.now_ns()))
    }

    /// Notes that the program of this rank has failed by itself: when the rank ends, it is lost.
    fn note_failure(&self, py: Python<'_>) -> PyResult<()> {
        self.access.run(py, false, |context| {
            context.note_failure();
            Ok(())
        })
    }

    /// Whether this process is the rank, and not a child that it has forked.
    #[getter]
    fn is_own_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Leaves the job in order. Nothing can be done with its objects afterwards.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let contexts =
            std::mem::take(&mut *self.contexts.lock().unwrap_or_else(PoisonError::into_inner));
        for context in contexts.iter().filter_map(Weak::upgrade) {
            context.leave(py)?;
        }
        self.access.leave(py)
    }

    fn __enter__(slf: Py<World>) -> Py<World> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        // After an exception the interpreter's end tells the others.
        if kind.is_none() {
            self.leave(py)?;
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<farside.World, rank {} of {}>", self.access.rank.0, self.access.size)
    }
}
