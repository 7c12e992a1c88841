//! A rank's own blocks, as memory and as copies, and their borders.

use farside_fabric::{Error, Result};
use farside_rma::Plain;
use ndarray::{ArrayD, ArrayViewD, ArrayViewMutD, IxDyn, ShapeBuilder};

use super::area::Area;
use super::distribution::Block;
use super::transfer::from_packed;
use super::{Builder, GlobalArray};

impl<'w, T: Plain> GlobalArray<'w, T> {
    /// Calls `each` with every block of this rank, as a copy that is written back. Not collective;
    /// others must leave these elements alone meanwhile.
    ///
    /// ```
    /// # use farside::GlobalArray;
    /// # farside::local(3, |world| {
    /// let a = GlobalArray::<u32>::new(world, &[7, 5])?;
    /// a.for_each_own(|area, mut block| {
    ///     for (index, element) in block.indexed_iter_mut() {
    ///         *element = ((area.low()[0] + index[0]) * 10 + area.low()[1] + index[1]) as u32;
    ///     }
    /// })?;
    /// a.sync()?;
    /// assert_eq!(a.get_value(&[6, 4])?, 64);
    /// # a.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn for_each_own(&self, mut each: impl FnMut(&Area, ArrayViewMutD<'_, T>)) -> Result<()> {
        let areas: Vec<Area> = self.own_blocks().collect();
        for area in areas {
            let mut block = self.get(area)?;
            each(&area, block.view_mut());
            self.put(area, block.view())?;
        }
        // What this rank reads next of its own comes after what it wrote.
        self.context().flush(self.context().rank())
    }

    /// Calls `each` with every block of this rank, to be written back, and with the same patch of
    /// another array, wherever that is.
    #[track_caller]
    pub fn for_each_own_with<U: Plain>(
        &self,
        other: &GlobalArray<'_, U>,
        mut each: impl FnMut(&Area, ArrayViewMutD<'_, T>, ArrayViewD<'_, U>),
    ) -> Result<()> {
        self.check_like(other)?;
        let mut failed = Ok(());
        self.for_each_own(|area, block| match other.get(area) {
            Ok(theirs) => each(area, block, theirs.view()),
            Err(error) => failed = Err(error),
        })?;
        failed
    }

    #[track_caller]
    pub(super) fn check_like<U: Plain>(&self, other: &GlobalArray<'_, U>) -> Result<()> {
        if self.shape() == other.shape() {
            return Ok(());
        }
        let (mine, theirs) = (self.shape(), other.shape());
        Err(self.context().failed(Error::InvalidArgument(format!(
            "the shapes of two arrays do not match: {mine:?} and {theirs:?}"
        ))))
    }

    fn own(&self, number: usize) -> Result<Block> {
        let mut own =
            self.blocks.of_member(self.team().index()).filter(|block| !block.area.is_empty());
        own.nth(number).ok_or_else(|| {
            Error::InvalidArgument(format!("this rank has no block number {number}"))
        })
    }

    /// One of this rank's blocks, without a copy.
    ///
    /// # Safety
    ///
    /// For as long as the view lives, no other rank, no other thread, and not this one
    /// through the array, may write these elements. Two syncs with nothing but local work between
    /// them are the usual way to make sure.
    #[track_caller]
    pub unsafe fn own_view(&self, number: usize) -> Result<ArrayViewD<'_, T>> {
        let block = self.context().noted(self.own(number))?;
        let (shape, strides) = (block.area.shape(), &block.strides[..block.area.dimensions()]);
        let end =
            block.offset(&block.area.high().iter().map(|&high| high - 1).collect::<Vec<_>>()) + 1;
        // SAFETY: nobody writes, by the caller's promise.
        let part = unsafe { self.window.own().as_slice() };
        let shape = IxDyn(&shape).strides(IxDyn(strides));
        ArrayViewD::from_shape(shape, &part[block.start..end]).map_err(|error| broken(&error))
    }

    /// One of this rank's blocks, without a copy, to be written.
    ///
    /// # Safety
    ///
    /// For as long as the view lives, no other rank, no other thread, and not this one
    /// through the array or through another view, may read or write these elements. Two syncs with
    /// nothing but local work between them are the usual way to make sure.
    #[track_caller]
    pub unsafe fn own_view_mut(&self, number: usize) -> Result<ArrayViewMutD<'_, T>> {
        let block = self.context().noted(self.own(number))?;
        let (shape, strides) = (block.area.shape(), &block.strides[..block.area.dimensions()]);
        let end =
            block.offset(&block.area.high().iter().map(|&high| high - 1).collect::<Vec<_>>()) + 1;
        // SAFETY: nobody else touches it, by the caller's promise.
        let part = unsafe { self.window.own().as_mut_slice() };
        let shape = IxDyn(&shape).strides(IxDyn(strides));
        ArrayViewMutD::from_shape(shape, &mut part[block.start..end])
            .map_err(|error| broken(&error))
    }

    /// How wide the border of each block is.
    pub fn ghosts(&self) -> &[usize] {
        &self.blocks.ghosts
    }

    /// A copy of this rank's block with its border; `None` if it has no block. What the border
    /// holds comes from [`GlobalArray::update_ghosts`].
    #[track_caller]
    pub fn own_with_ghosts(&self) -> Result<Option<ArrayD<T>>> {
        let Some(block) =
            self.blocks.of_member(self.team().index()).find(|block| !block.area.is_empty())
        else {
            return Ok(None);
        };
        let shape = self.blocks.padded(&block.area);
        let mut data = vec![T::new_zeroed(); shape.iter().product()];
        self.window.own().read(0, &mut data)?;
        from_packed(&shape, data).map(Some)
    }

    /// Fills the borders of all blocks with copies of what is beyond; at the ends of the array,
    /// where its ends meet. Collective.
    ///
    /// ```
    /// # use farside::array::{Builder, ndarray::arr1};
    /// # farside::local(2, |world| {
    /// let ring = Builder::new(&[6]).ghosts(&[1]).create::<i32>(world)?;
    /// ring.put(.., arr1(&[0, 1, 2, 3, 4, 5]).view())?;
    /// ring.update_ghosts()?;
    /// let is_first = world.rank().0 == 0;
    /// let expected = if is_first { arr1(&[5, 0, 1, 2, 3]) } else { arr1(&[2, 3, 4, 5, 0]) };
    /// assert_eq!(ring.own_with_ghosts()?.unwrap(), expected.into_dyn());
    /// # ring.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn update_ghosts(&self) -> Result<()> {
        self.sync()?;
        if let Some(block) =
            self.blocks.of_member(self.team().index()).find(|block| !block.area.is_empty())
        {
            let dimensions = block.area.dimensions();
            let mut direction = vec![-1isize; dimensions];
            loop {
                if direction.iter().any(|&step| step != 0) {
                    self.update_border(&block, &direction)?;
                }
                let Some(dimension) =
                    (0..dimensions).rev().find(|&dimension| direction[dimension] < 1)
                else {
                    break;
                };
                direction[dimension] += 1;
                direction[dimension + 1..].fill(-1);
            }
        }
        self.sync()
    }

    fn update_border(&self, block: &Block, direction: &[isize]) -> Result<()> {
        let range = |dimension: usize| {
            let (low, high) =
                (block.area.low()[dimension] as isize, block.area.high()[dimension] as isize);
            let width = self.blocks.ghosts[dimension] as isize;
            match direction[dimension] {
                -1 => low - width..low,
                0 => low..high,
                _ => high..high + width,
            }
        };
        let ranges: Vec<std::ops::Range<isize>> = (0..direction.len()).map(range).collect();
        if ranges.iter().any(|range| range.is_empty()) {
            return Ok(());
        }
        let data = self.get_periodic(&ranges)?;
        let first: isize = ranges
            .iter()
            .zip(block.area.low())
            .zip(block.strides)
            .map(|((range, &low), stride)| (range.start - low as isize) * stride as isize)
            .sum();
        let start = (block.start as isize + first) as usize;
        // Row by row, into this rank's own memory.
        for (row, values) in data.rows().into_iter().enumerate() {
            let (mut rest, mut at) = (row, start);
            for dimension in (0..direction.len() - 1).rev() {
                let extent = data.shape()[dimension];
                at += rest % extent * block.strides[dimension];
                rest /= extent;
            }
            self.window.own().write(at, &values.to_vec())?;
        }
        Ok(())
    }

    /// A copy of the array on every node, distributed over the members there. Collective over the
    /// array's team; `team` are its members on this rank's node, as
    /// [`Team::split_by_node`](farside_rma::Team::split_by_node) makes them. Its members use it
    /// among themselves.
    ///
    /// ```
    /// # use farside::GlobalArray;
    /// # farside::Local::new(4)?.topology("node:2").run(|world| {
    /// let a = GlobalArray::<i64>::new(world, &[10])?;
    /// a.fill(1)?;
    /// let node = world.split_by_node()?;
    /// let mirror = a.mirror(&node)?;
    /// mirror.accumulate_slice(1, 0..1, &[5])?;
    /// mirror.sync()?;
    /// a.merge(&mirror)?;
    /// assert_eq!((a.get_value(&[0])?, a.get_value(&[1])?), (2 * (1 + 2 * 5), 2));
    /// # world.barrier()?;
    /// # mirror.free()?; a.free()?;
    /// # Ok(()) })?;
    /// # Ok::<(), farside::Error>(())
    /// ```
    #[track_caller]
    pub fn mirror<'t>(&self, team: impl Into<farside_rma::Team<'t>>) -> Result<GlobalArray<'t, T>> {
        let copy = Builder::new(self.shape()).create_on(team)?;
        self.sync()?;
        copy.for_each_own_with(self, |_, mut mine, theirs| mine.assign(&theirs))?;
        self.sync()?;
        copy.sync()?;
        Ok(copy)
    }
}

fn broken(error: &ndarray::ShapeError) -> Error {
    Error::Internal(format!("a block that does not fit its memory: {error}"))
}
