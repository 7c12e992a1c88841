//! Dense arrays distributed over the ranks.
//!
//! ```
//! use farside::GlobalArray;
//! use farside::array::ndarray::array;
//!
//! farside::local(4, |world| {
//!     let a = GlobalArray::<f64>::new(world, &[6, 8])?;
//!     a.fill(1.0)?;
//!     if world.rank().0 == 2 {
//!         // Any patch, of any owner.
//!         a.put([1..3, 4..6], array![[1.0, 2.0], [3.0, 4.0]].view())?;
//!     }
//!     a.sync()?;
//!     assert_eq!(a.get([2..3, 3..6])?, array![[1.0, 3.0, 4.0]].into_dyn());
//!     assert_eq!(a.sum()?, 44.0 + 10.0);
//!     a.free()
//! })
//! .unwrap();
//! ```
//!
//! An array has 1 to 7 dimensions, the last of which varies fastest, and is cut into blocks, each
//! of which belongs to a member of the team that made it ([`Distribution`]). A rank that wants to
//! read or write asks for a patch, by ranges: `[0..10, 5..7]`, `[.., ..]`, or an [`Area`]. What is
//! put or accumulated is there for everybody after [`GlobalArray::sync`]. *Collective* methods must
//! be called by all members; they begin and end with a sync.
//!
//! # From Global Arrays to here
//!
//! - `NGA_Create`, `GA_Duplicate`, `GA_Destroy`: [`GlobalArray::new`], [`GlobalArray::like`],
//!   [`GlobalArray::free`].
//! - `NGA_Create_irreg`, `GA_Set_chunk`, `GA_Set_restricted`: [`Builder::distribution`] with
//!   [`Distribution::Irregular`], [`Distribution::Grid`].
//! - `GA_Set_block_cyclic`, `GA_Set_block_cyclic_proc_grid`: [`Distribution::BlockCyclic`],
//!   [`Distribution::BlockCyclicGrid`].
//! - `NGA_Create_ghosts`, `GA_Update_ghosts`, `NGA_Access_ghosts`: [`Builder::ghosts`],
//!   [`GlobalArray::update_ghosts`], [`GlobalArray::own_with_ghosts`].
//! - `GA_Pgroup_create`, `NGA_Create_config`: [`farside_rma::Team`], [`Builder::create_on`].
//! - `GA_Sync`: [`GlobalArray::sync`], [`GlobalArray::sync_by`].
//! - `NGA_Put`, `NGA_Get`, `NGA_Acc`: [`GlobalArray::put`], [`GlobalArray::get`],
//!   [`GlobalArray::accumulate`].
//! - `NGA_Periodic_put`, `_get`, `_acc`: [`GlobalArray::put_periodic`],
//!   [`GlobalArray::get_periodic`], [`GlobalArray::accumulate_periodic`].
//! - `NGA_Scatter`, `NGA_Scatter_acc`, `NGA_Gather`: [`GlobalArray::scatter`],
//!   [`GlobalArray::scatter_accumulate`], [`GlobalArray::gather`].
//! - `NGA_Read_inc`: [`GlobalArray::read_increment`].
//! - `NGA_Locate`, `NGA_Locate_region`, `NGA_Distribution`: [`GlobalArray::owner`],
//!   [`GlobalArray::owners`], [`GlobalArray::blocks_of`].
//! - `NGA_Access`, `NGA_Release`: [`GlobalArray::own_view`], [`GlobalArray::own_view_mut`]
//!   (unsafe), [`GlobalArray::for_each_own`] (safe, by copy).
//! - `GA_Iterator`, `NGA_Local_iterator`: [`GlobalArray::blocks`], [`GlobalArray::own_blocks`],
//!   [`GlobalArray::for_each_own_with`].
//! - `GA_Fill`, `GA_Zero`, `GA_Copy`, `GA_Scale`, `GA_Add`: [`GlobalArray::fill`],
//!   [`GlobalArray::copy_from`], [`GlobalArray::scale`], [`GlobalArray::add_from`].
//! - `GA_Dot`, `GA_Dgop`, `NGA_Select_elem`: [`GlobalArray::dot`], [`GlobalArray::reduce`],
//!   [`GlobalArray::sum`], [`GlobalArray::min`], [`GlobalArray::max`], [`GlobalArray::select`].
//! - `GA_Transpose`, `GA_Dgemm`: [`GlobalArray::transpose_from`], [`GlobalArray::multiply_from`].
//! - `GA_Merge_mirrored`, mirrored arrays: [`GlobalArray::mirror`], [`GlobalArray::merge`].
//! - `GA_Print`, files of DRA: [`GlobalArray::print`], [`GlobalArray::save_npy`],
//!   [`GlobalArray::load_npy`].

mod area;
mod distribution;
mod local;
mod math;
mod npy;
mod product;
mod transfer;

use std::rc::Rc;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Plain, Team, Window, World};
use farside_sync::Fences;
use farside_sync::fence::Style;

pub use area::{Area, DIMENSIONS_MAX, Patch};
pub use distribution::Distribution;
/// The crate whose arrays and views go in and out.
pub use ndarray;
pub use npy::Element;

use distribution::Blocks;

/// An array whose elements are distributed over the members of a team; see the [module](self).
#[must_use = "an array that is dropped without `free` keeps its memory until the job ends"]
pub struct GlobalArray<'w, T> {
    window: Window<T>,
    blocks: Rc<Blocks>,
    home: Rc<Home<'w>>,
}

/// Whose array it is, and how they synchronize.
struct Home<'w> {
    team: Team<'w>,
    /// The fences of all ranks, if all are members.
    fences: Option<Fences>,
}

impl Home<'_> {
    /// Gives back what arrays of one origin share. Collective.
    fn free(self) -> Result<()> {
        self.fences.map_or(Ok(()), |fences| fences.free(&self.team))
    }
}

/// How a sync makes sure that everything has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completion {
    /// By the fence and barrier in one of \[ARMCI03\].
    #[default]
    Combined,
    /// By a fence on each member, one after the other, and then a barrier: the old way, which the
    /// combined one replaced.
    AllFence(Style),
}

impl Completion {
    /// Its name, as benchmarks spell it.
    pub fn name(self) -> &'static str {
        match self {
            Completion::Combined => "combined",
            Completion::AllFence(Style::Acknowledged) => "allfence",
            Completion::AllFence(Style::Confirmed) => "allfence-confirmed",
        }
    }
}

/// An array to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builder {
    shape: Vec<usize>,
    distribution: Distribution,
    ghosts: Vec<usize>,
}

impl Builder {
    /// An array of a shape, in regular blocks.
    pub fn new(shape: &[usize]) -> Builder {
        Builder {
            shape: shape.to_vec(),
            distribution: Distribution::default(),
            ghosts: vec![0; shape.len()],
        }
    }

    /// Distributed in another way.
    #[must_use]
    pub fn distribution(self, distribution: Distribution) -> Builder {
        Builder { distribution, ..self }
    }

    /// With a border around each block, so wide in each dimension, for copies of its neighbours'
    /// elements.
    #[must_use]
    pub fn ghosts(self, widths: &[usize]) -> Builder {
        Builder { ghosts: widths.to_vec(), ..self }
    }

    /// Makes it, for all ranks. Collective. All elements are zero.
    ///
    /// ```
    /// # use farside::array::{Builder, Distribution};
    /// # farside::local(4, |world| {
    /// let cyclic = Distribution::BlockCyclicGrid { block: vec![2, 2], grid: vec![2, 2] };
    /// let a = Builder::new(&[10, 10]).distribution(cyclic).create::<i64>(world)?;
    /// assert_eq!(a.owner(&[2, 4])?, farside::Rank(2));
    /// # a.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn create<T: Plain>(self, world: &World) -> Result<GlobalArray<'_, T>> {
        let home = Rc::new(Home { team: world.team(), fences: Some(Fences::new(world)?) });
        let made = self.make(home.clone());
        if let (Err(_), Some(home)) = (&made, Rc::into_inner(home)) {
            // Why there is no array says more than why this cannot be freed.
            let _ = home.free();
        }
        made
    }

    /// Makes it for the members of a team. Collective over the team.
    #[track_caller]
    pub fn create_on<'w, T: Plain>(self, team: impl Into<Team<'w>>) -> Result<GlobalArray<'w, T>> {
        self.make(Rc::new(Home { team: team.into(), fences: None }))
    }

    #[track_caller]
    fn make<T: Plain>(self, home: Rc<Home<'_>>) -> Result<GlobalArray<'_, T>> {
        let blocks = Blocks::new(&self.shape, &self.distribution, &self.ghosts, home.team.size())?;
        home.team.context().note_unseen("accesses inside global arrays");
        let window = home.team.window(blocks.lens[home.team.index()])?;
        Ok(GlobalArray { window, blocks: Rc::new(blocks), home })
    }
}

impl<'w, T: Plain> GlobalArray<'w, T> {
    /// Makes an array of a shape for all ranks, in regular blocks. Collective. All elements are
    /// zero.
    #[track_caller]
    pub fn new(world: &'w World, shape: &[usize]) -> Result<GlobalArray<'w, T>> {
        Builder::new(shape).create(world)
    }

    /// Makes another array of the same shape, distribution and members. Collective. All elements
    /// are zero.
    #[track_caller]
    pub fn like(&self) -> Result<GlobalArray<'w, T>> {
        let window = self.team().window(self.blocks.lens[self.team().index()])?;
        Ok(GlobalArray { window, blocks: self.blocks.clone(), home: self.home.clone() })
    }

    /// How many elements there are in each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.blocks.shape
    }

    /// The whole array, as an area.
    pub fn area(&self) -> Area {
        Area::all(self.shape())
    }

    /// Whose array it is.
    pub fn team(&self) -> &Team<'w> {
        &self.home.team
    }

    pub(crate) fn context(&self) -> &'w Context {
        self.home.team.context()
    }

    /// Returns when all members have called it and all that any of them has put before, to anybody,
    /// has landed. Collective.
    ///
    /// That is [`Team::sync`]: for arrays of all ranks, the combined fence and barrier of
    /// \[ARMCI03\], which was invented for this call.
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        self.sync_by(Completion::Combined)
    }

    /// The same in a chosen way. Arrays of a team always wait for acknowledgements.
    #[track_caller]
    pub fn sync_by(&self, completion: Completion) -> Result<()> {
        match (&self.home.fences, completion) {
            (Some(fences), Completion::AllFence(style)) => {
                fences.all_fence(self.context(), style)?;
                self.team().barrier()
            }
            _ => self.team().sync(),
        }
    }

    /// Returns the owner of an element.
    #[track_caller]
    pub fn owner(&self, index: &[usize]) -> Result<Rank> {
        self.context().noted(self.check_index(index))?;
        Ok(self.rank_of(self.blocks.of_element(index).member))
    }

    /// Returns the owners of a patch, each with its part.
    ///
    /// ```
    /// # use farside::{GlobalArray, Rank};
    /// # farside::local(2, |world| {
    /// let a = GlobalArray::<f32>::new(world, &[10])?;
    /// let owners = a.owners(3..8)?.into_iter();
    /// let owners: Vec<_> = owners.map(|(rank, area)| (rank, area.range(0))).collect();
    /// assert_eq!(owners, [(Rank(0), 3..5), (Rank(1), 5..8)]);
    /// # a.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn owners(&self, patch: impl Patch) -> Result<Vec<(Rank, Area)>> {
        let area = self.patch(patch)?;
        let mut owners = Vec::new();
        self.blocks.for_each_in(&area, |block| {
            owners.push((self.rank_of(block.member), block.area.intersection(&area)));
            Ok(())
        })?;
        Ok(owners)
    }

    /// All blocks, each with its owner.
    pub fn blocks(&self) -> impl Iterator<Item = (Rank, Area)> + '_ {
        self.blocks
            .all()
            .filter(|block| !block.area.is_empty())
            .map(|block| (self.rank_of(block.member), block.area))
    }

    /// The blocks of a member.
    pub fn blocks_of(&self, rank: Rank) -> impl Iterator<Item = Area> + '_ {
        self.blocks().filter(move |(owner, _)| *owner == rank).map(|(_, area)| area)
    }

    /// The blocks of this rank.
    pub fn own_blocks(&self) -> impl Iterator<Item = Area> + '_ {
        let own = self.blocks.of_member(self.team().index());
        own.map(|block| block.area).filter(|area| !area.is_empty())
    }

    /// Gives its memory back. Collective. What arrays of the same origin share is given back with
    /// the last of them.
    #[track_caller]
    pub fn free(self) -> Result<()> {
        let GlobalArray { window, home, .. } = self;
        let freed = window.free(&home.team);
        freed.and(Rc::into_inner(home).map_or(Ok(()), Home::free))
    }

    fn rank_of(&self, member: usize) -> Rank {
        self.team().members()[member]
    }

    fn check_index(&self, index: &[usize]) -> Result<()> {
        area::check_dimensions(index.len(), self.shape())?;
        match (0..index.len()).find(|&at| index[at] >= self.shape()[at]) {
            None => Ok(()),
            Some(_) => Err(farside_fabric::Error::InvalidArgument(format!(
                "there is no element {index:?} in an array of shape {:?}",
                self.shape()
            ))),
        }
    }
}
