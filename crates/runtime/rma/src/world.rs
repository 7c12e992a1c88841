//! The world: a rank's handle on the job.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::Arc;

use farside_fabric::{Agent, Connection, Error, HandlerId, Rank, Result, SegmentId, Topology};

use crate::context::Context;
use crate::group::{BarrierKind, Group, SyncKind, area as at, steps};
use crate::plain::Plain;
use crate::segment::{Segment, Traffic};
use crate::team::Team;
use crate::window::Window;
use crate::words::Words;

/// A rank's handle on the job: the context of its first thread, and the team of all ranks.
///
/// Dropping it leaves the job.
pub struct World {
    context: Context,
    parts: Parts,
}

struct Parts {
    group: Group,
    handlers: Cell<u32>,
    /// What the end of the program's preparations is told by, if somebody wants to know.
    preparations: RefCell<Option<Box<dyn FnOnce()>>>,
}

// SAFETY: nobody has `Parts` but a `World`, which is not `Sync`, since its context is not: no
// reference to them gets to another thread.
unsafe impl Sync for Parts {}

/// Returns how many bytes a fabric's first segment must have for a job of `ranks` ranks.
pub fn root_bytes(ranks: u32) -> u64 {
    at::area_bytes(ranks)
}

impl World {
    /// Builds a world over a connection to a job.
    pub fn new(fabric: Box<dyn Connection>) -> Result<World> {
        let job = fabric.job();
        let ranks = job.topology.ranks();
        let (needed, given) = (root_bytes(ranks), job.caps.root_bytes);
        if given < needed {
            return Err(Error::Join(format!(
                "the first segment has {given} bytes, but {ranks} ranks need {needed}"
            )));
        }
        let (members, traffic) = (job.topology.all().clone(), Traffic::Uncounted);
        let (id, failed) = (SegmentId::ROOT, Arc::default());
        let own = (id, Segment::own(&*fabric, id)?);
        let area = Segment::open(&*fabric, own, members, traffic, &|_| given, failed);
        let group = Group::new(&*fabric, area)?;
        let context = Context::new(fabric)?;
        // Before there is a window that could be put to: all that ever lands is counted.
        context.count_landings()?;
        let parts = Parts { group, handlers: Cell::new(0), preparations: RefCell::default() };
        Ok(World { context, parts })
    }

    /// Sets what [`World::end_preparations`] does: for those who explore a program from there on.
    #[doc(hidden)]
    pub fn at_end_of_preparations(&self, act: impl FnOnce() + 'static) {
        *self.parts.preparations.borrow_mut() = Some(Box::new(act));
    }

    /// Says that this rank's preparations are over: once, and to whom wants to know.
    #[doc(hidden)]
    pub fn end_preparations(&self) {
        let act = self.parts.preparations.borrow_mut().take();
        if let Some(act) = act {
            act();
        }
    }

    /// Returns the team of all ranks.
    pub fn team(&self) -> Team<'_> {
        Team::borrowed(&self.context, &self.parts.group)
    }

    /// Returns the job's topology: which node, socket, … each rank is on.
    pub fn topology(&self) -> &Topology {
        self.context.topology()
    }

    /// Registers a handler with the agent of every node. Collective: every rank registers the same
    /// program's handlers in the same order. A handler must not block, and must not hold a
    /// [`Context`] or a [`World`]: the rank would then never leave.
    ///
    /// A node runs one handler at a time, in the process of its first rank, with that rank's copy
    /// of it. When that rank has left or was killed, the process of the next rank of the node goes
    /// on with its own copy. So a handler keeps nothing in variables of its own: what it must
    /// remember is in memory of a rank of its node, which stays when the rank is gone.
    ///
    /// ```
    /// # use farside::fabric::Atomic;
    /// # use farside::{Node, Rank};
    /// # farside::local(3, |world| {
    /// let words = world.words(1)?;
    /// let visitors = words.at(Rank(0), 0).word();
    /// let count = world.serve(move |agent, _from, bytes| {
    ///     match agent.atomic(visitors, Atomic::Add(bytes[0].into())) {
    ///         Ok(before) => vec![before as u8 + bytes[0]],
    ///         Err(_) => vec![],
    ///     }
    /// })?;
    /// let seen = world.call(Node(0), count, &[1])?;
    /// assert!((1..=3).contains(&seen[0]));
    /// words.free(world)
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn serve(
        &self,
        handler: impl Fn(&dyn Agent, Rank, &[u8]) -> Vec<u8> + Send + 'static,
    ) -> Result<HandlerId> {
        let id = HandlerId(self.parts.handlers.get());
        self.parts.handlers.set(id.0 + 1);
        self.context.note_place();
        // All meet, also when one of them has failed: then nobody calls the handler.
        let served = self.context.fabric().serve(id, Box::new(handler));
        if self.context.omits(steps::MEET_TO_SERVE) {
            return served.map(|()| id);
        }
        self.team().agree_on_success(None, served).map(|()| id)
    }

    /// See [`Team::barrier`].
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.team().barrier()
    }

    /// See [`Team::barrier_by`].
    #[track_caller]
    pub fn barrier_by(&self, kind: BarrierKind) -> Result<()> {
        self.team().barrier_by(kind)
    }

    /// See [`Team::sync_by`].
    #[track_caller]
    pub fn sync_by(&self, kind: SyncKind) -> Result<()> {
        self.team().sync_by(kind)
    }

    /// See [`Team::sync`].
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        self.team().sync()
    }

    /// See [`Team::broadcast`].
    #[track_caller]
    pub fn broadcast<T: Plain>(&self, root: Rank, data: &mut [T]) -> Result<()> {
        self.team().broadcast(root, data)
    }

    /// See [`Team::reduce`].
    #[track_caller]
    pub fn reduce<T: Plain>(
        &self,
        root: Rank,
        data: &mut [T],
        fold: impl Fn(T, T) -> T,
    ) -> Result<()> {
        self.team().reduce(root, data, fold)
    }

    /// See [`Team::all_reduce`].
    #[track_caller]
    pub fn all_reduce<T: Plain>(&self, data: &mut [T], fold: impl Fn(T, T) -> T) -> Result<()> {
        self.team().all_reduce(data, fold)
    }

    /// See [`Team::all_gather`].
    #[track_caller]
    pub fn all_gather<T: Plain>(&self, mine: &[T]) -> Result<Vec<T>> {
        self.team().all_gather(mine)
    }

    /// See [`Team::all_to_all`].
    #[track_caller]
    pub fn all_to_all<T: Plain>(&self, send: &[T]) -> Result<Vec<T>> {
        self.team().all_to_all(send)
    }

    /// See [`Team::window`].
    #[track_caller]
    pub fn window<T: Plain>(&self, len: usize) -> Result<Window<T>> {
        self.team().window(len)
    }

    /// See [`Team::words`].
    #[track_caller]
    pub fn words(&self, count: usize) -> Result<Words> {
        self.team().words(count)
    }

    /// See [`Team::split`].
    #[track_caller]
    pub fn split(&self, colour: Option<u64>, key: u64) -> Result<Option<Team<'_>>> {
        self.team().split(colour, key)
    }

    /// See [`Team::split_by_node`].
    #[track_caller]
    pub fn split_by_node(&self) -> Result<Team<'_>> {
        self.team().split_by_node()
    }
}

impl Deref for World {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl<'w> From<&'w World> for Team<'w> {
    fn from(world: &'w World) -> Team<'w> {
        world.team()
    }
}
