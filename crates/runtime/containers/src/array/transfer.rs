//! Patches and elements in and out: one request for each owner.

use std::collections::BTreeMap;
use std::ops::Range;

use farside_fabric::strided::walk;
use farside_fabric::{Error, Result};
use farside_rma::{Integer, Patch as Strided, Plain, Run, Summand};
use ndarray::{ArrayD, ArrayView, ArrayViewMut, Dimension, IxDyn, SliceInfoElem};

use super::area::{Area, Patch, check_dimensions, strides};
use super::distribution::Block;
use super::{DIMENSIONS_MAX, GlobalArray};

/// The part of a transfer that goes to one owner.
enum Request<'r> {
    Strided { near: usize, far: usize, patch: Strided<'r> },
    Vector(Vec<Run>),
}

impl<T: Plain> GlobalArray<'_, T> {
    /// Reads a patch.
    #[track_caller]
    pub fn get(&self, patch: impl Patch) -> Result<ArrayD<T>> {
        let area = self.patch(patch)?;
        let mut data = vec![T::new_zeroed(); area.len()];
        self.get_area(&area, &mut data)?;
        from_packed(&area.shape(), data)
    }

    /// Reads a patch into an array of its shape.
    #[track_caller]
    pub fn get_into<D: Dimension>(
        &self,
        patch: impl Patch,
        mut into: ArrayViewMut<'_, T, D>,
    ) -> Result<()> {
        let area = self.patch(patch)?;
        self.context().noted(check_shape(&area, into.shape()))?;
        match into.as_slice_mut() {
            Some(packed) => self.get_area(&area, packed),
            None => {
                let mut packed = vec![T::new_zeroed(); area.len()];
                self.get_area(&area, &mut packed)?;
                into.iter_mut().zip(packed).for_each(|(into, value)| *into = value);
                Ok(())
            }
        }
    }

    /// Reads a patch into a slice, the last dimension fastest.
    #[track_caller]
    pub fn get_slice(&self, patch: impl Patch, into: &mut [T]) -> Result<()> {
        let area = self.patch(patch)?;
        self.context().noted(check_len(&area, into.len()))?;
        self.get_area(&area, into)
    }

    /// Writes an array of its shape to a patch. It has landed after a [`GlobalArray::sync`].
    #[track_caller]
    pub fn put<D: Dimension>(&self, patch: impl Patch, data: ArrayView<'_, T, D>) -> Result<()> {
        let area = self.patch(patch)?;
        self.context().noted(check_shape(&area, data.shape()))?;
        match data.as_slice() {
            Some(packed) => self.put_area(&area, packed),
            None => self.put_area(&area, &data.iter().copied().collect::<Vec<T>>()),
        }
    }

    /// Writes a slice to a patch, the last dimension fastest.
    #[track_caller]
    pub fn put_slice(&self, patch: impl Patch, data: &[T]) -> Result<()> {
        let area = self.patch(patch)?;
        self.context().noted(check_len(&area, data.len()))?;
        self.put_area(&area, data)
    }

    /// One element.
    #[track_caller]
    pub fn get_value(&self, index: &[usize]) -> Result<T> {
        self.context().noted(self.check_index(index))?;
        let block = self.blocks.of_element(index);
        self.context().get_value(self.window.at(self.rank_of(block.member), block.offset(index)))
    }

    /// Sets one element.
    #[track_caller]
    pub fn put_value(&self, index: &[usize], value: T) -> Result<()> {
        self.context().noted(self.check_index(index))?;
        let block = self.blocks.of_element(index);
        self.context()
            .put_value(value, self.window.at(self.rank_of(block.member), block.offset(index)))
    }

    /// Reads elements here and there, in their order; one request for each owner.
    ///
    /// ```
    /// # use farside::GlobalArray;
    /// # farside::local(3, |world| {
    /// let a = GlobalArray::<i32>::new(world, &[9, 9])?;
    /// if world.rank().0 == 0 {
    ///     a.scatter(&[[0, 0], [8, 8], [4, 4]], &[1, 2, 3])?;
    /// }
    /// a.sync()?;
    /// assert_eq!(a.gather(&[[4, 4], [8, 8], [1, 1]])?, [3, 2, 0]);
    /// # a.sync()?;
    /// # a.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn gather<I: AsRef<[usize]>>(&self, indices: &[I]) -> Result<Vec<T>> {
        let mut values = vec![T::new_zeroed(); indices.len()];
        for (member, runs) in self.context().noted(self.elements(indices, indices.len()))? {
            self.context().get_vector(
                self.window.at(self.rank_of(member), 0),
                &mut values,
                &runs,
            )?;
        }
        Ok(values)
    }

    /// Writes elements here and there; one request for each owner. If an element comes twice, which
    /// value it gets is unspecified.
    #[track_caller]
    pub fn scatter<I: AsRef<[usize]>>(&self, indices: &[I], values: &[T]) -> Result<()> {
        for (member, runs) in self.context().noted(self.elements(indices, values.len()))? {
            self.context().put_vector(values, self.window.at(self.rank_of(member), 0), &runs)?;
        }
        Ok(())
    }

    /// Where elements are, by owner.
    fn elements<I: AsRef<[usize]>>(
        &self,
        indices: &[I],
        values: usize,
    ) -> Result<BTreeMap<usize, Vec<Run>>> {
        if indices.len() != values {
            let (left, right) = (indices.len() as u64, values as u64);
            return Err(Error::Mismatch { what: "numbers of indices and values", left, right });
        }
        let mut by_owner: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
        for (near, index) in indices.iter().map(AsRef::as_ref).enumerate() {
            self.check_index(index)?;
            let block = self.blocks.of_element(index);
            by_owner.entry(block.member).or_default().push(Run {
                near,
                far: block.offset(index),
                len: 1,
            });
        }
        Ok(by_owner)
    }

    /// Reads a patch of an array whose ends meet: indices may lie outside, on either side.
    ///
    /// ```
    /// # use farside::{GlobalArray, array::ndarray::arr1};
    /// # farside::local(2, |world| {
    /// let ring = GlobalArray::<i32>::new(world, &[6])?;
    /// ring.put_periodic(&[4..8], arr1(&[1, 2, 3, 4]).view())?;
    /// ring.sync()?;
    /// assert_eq!(ring.get(0..6)?, arr1(&[3, 4, 0, 0, 1, 2]).into_dyn());
    /// assert_eq!(ring.get_periodic(&[-2..1])?, arr1(&[1, 2, 3]).into_dyn());
    /// # ring.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn get_periodic(&self, ranges: &[Range<isize>]) -> Result<ArrayD<T>> {
        let shape = self.context().noted(periodic_shape(ranges, self.shape()))?;
        let mut data = ArrayD::from_elem(IxDyn(&shape), T::new_zeroed());
        self.for_each_period(ranges, |area, window| {
            let part = self.get(area)?;
            data.slice_mut(window).assign(&part);
            Ok(())
        })?;
        Ok(data)
    }

    /// Writes to a patch of an array whose ends meet. See [`GlobalArray::get_periodic`]. If a range
    /// is longer than the array, elements come twice, and which value they get is unspecified.
    #[track_caller]
    pub fn put_periodic<D: Dimension>(
        &self,
        ranges: &[Range<isize>],
        data: ArrayView<'_, T, D>,
    ) -> Result<()> {
        let data = data.into_dyn();
        let shape = self.context().noted(periodic_shape(ranges, self.shape()))?;
        self.context().noted(check_same(&shape, data.shape()))?;
        self.for_each_period(ranges, |area, window| self.put(area, data.slice(window)))
    }

    /// Calls `each` with an area of the array, and with where it is in a patch that goes beyond its
    /// ends.
    fn for_each_period(
        &self,
        ranges: &[Range<isize>],
        mut each: impl FnMut(Area, &[SliceInfoElem]) -> Result<()>,
    ) -> Result<()> {
        let pieces: Vec<Vec<(Range<usize>, usize)>> = ranges
            .iter()
            .zip(self.shape())
            .map(|(range, &extent)| periods(range, extent))
            .collect();
        if pieces.iter().any(Vec::is_empty) {
            return Ok(());
        }
        let mut at = vec![0; pieces.len()];
        loop {
            let chosen: Vec<&(Range<usize>, usize)> =
                at.iter().zip(&pieces).map(|(&at, pieces)| &pieces[at]).collect();
            let (low, high): (Vec<usize>, Vec<usize>) =
                chosen.iter().map(|(range, _)| (range.start, range.end)).unzip();
            let slice = |(range, start): &&(Range<usize>, usize)| SliceInfoElem::Slice {
                start: *start as isize,
                end: Some((*start + range.len()) as isize),
                step: 1,
            };
            each(Area::new(&low, &high), &chosen.iter().map(slice).collect::<Vec<_>>())?;
            let Some(dimension) =
                (0..at.len()).rev().find(|&dimension| at[dimension] + 1 < pieces[dimension].len())
            else {
                return Ok(());
            };
            at[dimension] += 1;
            at[dimension + 1..].fill(0);
        }
    }

    #[track_caller]
    pub(super) fn patch(&self, patch: impl Patch) -> Result<Area> {
        self.context().noted(patch.area(self.shape()))
    }

    #[track_caller]
    pub(super) fn get_area(&self, area: &Area, into: &mut [T]) -> Result<()> {
        let got = self.for_each_owner(area, |member, request| {
            let place = self.window.at(self.rank_of(member), 0);
            match request {
                Request::Strided { near, far, patch } => {
                    self.context().get_strided(place.skip(*far), &mut into[*near..], patch)
                }
                Request::Vector(runs) => self.context().get_vector(place, into, runs),
            }
        });
        self.context().noted(got)
    }

    #[track_caller]
    pub(super) fn put_area(&self, area: &Area, data: &[T]) -> Result<()> {
        let put = self.for_each_owner(area, |member, request| {
            let place = self.window.at(self.rank_of(member), 0);
            match request {
                Request::Strided { near, far, patch } => {
                    self.context().put_strided(&data[*near..], place.skip(*far), patch)
                }
                Request::Vector(runs) => self.context().put_vector(data, place, runs),
            }
        });
        self.context().noted(put)
    }

    /// Calls `each` for every owner of a part of an area, with all that is its own in one request.
    fn for_each_owner(
        &self,
        area: &Area,
        mut each: impl FnMut(usize, &Request<'_>) -> Result<()>,
    ) -> Result<()> {
        let dimensions = area.dimensions();
        let near_strides = strides(&area.extents()[..dimensions]);
        // Most owners have one block; the blocks of the others are put together.
        let mut several: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
        let is_single = self.blocks.is_single();
        self.blocks.for_each_in(area, |block| {
            let part = block.area.intersection(area);
            let near = offset(part.low(), area.low(), &near_strides);
            if !is_single {
                let several = several.entry(block.member).or_default();
                add_rows(&part, near, &near_strides, &block, several);
                return Ok(());
            }
            let (counts, far) = (part.extents(), block.offset(part.low()));
            let patch = Strided {
                counts: &counts[..dimensions],
                near: &near_strides[..dimensions],
                far: &block.strides[..dimensions],
            };
            each(block.member, &Request::Strided { near, far, patch })
        })?;
        several.into_iter().try_for_each(|(member, runs)| each(member, &Request::Vector(runs)))
    }
}

impl<T: Summand> GlobalArray<'_, T> {
    /// Adds `scale` times an array of its shape to a patch. What several ranks add to the same
    /// elements adds up.
    ///
    /// ```
    /// # use farside::{GlobalArray, array::ndarray::arr2};
    /// # farside::local(4, |world| {
    /// let a = GlobalArray::<f64>::new(world, &[5, 5])?;
    /// a.accumulate(0.5, [1..2, 1..3], arr2(&[[2.0, 4.0]]).view())?;
    /// a.sync()?;
    /// assert_eq!(a.get([1..2, 0..4])?, arr2(&[[0.0, 4.0, 8.0, 0.0]]).into_dyn());
    /// # a.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn accumulate<D: Dimension>(
        &self,
        scale: T,
        patch: impl Patch,
        data: ArrayView<'_, T, D>,
    ) -> Result<()> {
        let area = self.patch(patch)?;
        self.context().noted(check_shape(&area, data.shape()))?;
        match data.as_slice() {
            Some(packed) => self.accumulate_area(scale, &area, packed),
            None => self.accumulate_area(scale, &area, &data.iter().copied().collect::<Vec<T>>()),
        }
    }

    /// Adds `scale` times a slice to a patch, the last dimension fastest.
    #[track_caller]
    pub fn accumulate_slice(&self, scale: T, patch: impl Patch, data: &[T]) -> Result<()> {
        let area = self.patch(patch)?;
        self.context().noted(check_len(&area, data.len()))?;
        self.accumulate_area(scale, &area, data)
    }

    #[track_caller]
    fn accumulate_area(&self, scale: T, area: &Area, data: &[T]) -> Result<()> {
        let added = self.for_each_owner(area, |member, request| {
            let place = self.window.at(self.rank_of(member), 0);
            match request {
                Request::Strided { near, far, patch } => self.context().accumulate_strided(
                    scale,
                    &data[*near..],
                    place.skip(*far),
                    patch,
                ),
                Request::Vector(runs) => self.context().accumulate_vector(scale, data, place, runs),
            }
        });
        self.context().noted(added)
    }

    /// Adds to elements here and there; one request for each owner. An element may come several
    /// times.
    #[track_caller]
    pub fn scatter_accumulate<I: AsRef<[usize]>>(
        &self,
        scale: T,
        indices: &[I],
        values: &[T],
    ) -> Result<()> {
        for (member, runs) in self.context().noted(self.elements(indices, values.len()))? {
            self.context().accumulate_vector(
                scale,
                values,
                self.window.at(self.rank_of(member), 0),
                &runs,
            )?;
        }
        Ok(())
    }

    /// Adds to a patch of an array whose ends meet. See [`GlobalArray::get_periodic`].
    #[track_caller]
    pub fn accumulate_periodic<D: Dimension>(
        &self,
        scale: T,
        ranges: &[Range<isize>],
        data: ArrayView<'_, T, D>,
    ) -> Result<()> {
        let data = data.into_dyn();
        let shape = self.context().noted(periodic_shape(ranges, self.shape()))?;
        self.context().noted(check_same(&shape, data.shape()))?;
        self.for_each_period(ranges, |area, window| {
            self.accumulate(scale, area, data.slice(window))
        })
    }
}

impl<T: Integer> GlobalArray<'_, T> {
    /// Adds to an element atomically, and returns what it was before: a counter that all ranks
    /// share.
    ///
    /// ```
    /// # use farside::GlobalArray;
    /// # farside::local(3, |world| {
    /// let tasks = GlobalArray::<i64>::new(world, &[1])?;
    /// let mine = tasks.read_increment(&[0], 1)?;
    /// assert!((0..3).contains(&mine));
    /// # tasks.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn read_increment(&self, index: &[usize], value: T) -> Result<T> {
        self.context().noted(self.check_index(index))?;
        let block = self.blocks.of_element(index);
        self.context()
            .fetch_add(self.window.at(self.rank_of(block.member), block.offset(index)), value)
    }
}

fn add_rows(
    part: &Area,
    near: usize,
    near_strides: &[usize; DIMENSIONS_MAX],
    block: &Block,
    runs: &mut Vec<Run>,
) {
    let (dimensions, extents, far) = (part.dimensions(), part.extents(), block.offset(part.low()));
    let (last, len) = (dimensions - 1, extents[dimensions - 1]);
    let strides = [&near_strides[..last], &block.strides[..last]];
    walk([near, far], &extents[..last], strides, &mut |[near, far]| {
        runs.push(Run { near, far, len });
        true
    });
}

fn offset(index: &[usize], low: &[usize], strides: &[usize; DIMENSIONS_MAX]) -> usize {
    index.iter().zip(low).zip(strides).map(|((at, low), stride)| (at - low) * stride).sum()
}

/// The pieces of a range that goes beyond the ends: each within the array, and where it begins in
/// the range.
fn periods(range: &Range<isize>, extent: usize) -> Vec<(Range<usize>, usize)> {
    let (mut at, mut pieces) = (range.start, Vec::new());
    while at < range.end {
        let low = at.rem_euclid(extent as isize) as usize;
        let len = (extent - low).min((range.end - at) as usize);
        pieces.push((low..low + len, (at - range.start) as usize));
        at += len as isize;
    }
    pieces
}

fn periodic_shape(ranges: &[Range<isize>], shape: &[usize]) -> Result<Vec<usize>> {
    check_dimensions(ranges.len(), shape)?;
    match ranges.iter().find(|range| range.start > range.end) {
        Some(range) => {
            Err(Error::InvalidArgument(format!("the range {range:?} ends before it begins")))
        }
        None => Ok(ranges.iter().map(|range| (range.end - range.start) as usize).collect()),
    }
}

fn check_shape(area: &Area, shape: &[usize]) -> Result<()> {
    check_same(&area.extents()[..area.dimensions()], shape)
}

fn check_same(expected: &[usize], shape: &[usize]) -> Result<()> {
    if expected == shape {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "data of shape {shape:?} does not fit a patch of shape {expected:?}"
    )))
}

fn check_len(area: &Area, len: usize) -> Result<()> {
    if area.len() == len {
        return Ok(());
    }
    Err(Error::Mismatch {
        what: "numbers of elements of a patch and of a slice",
        left: area.len() as u64,
        right: len as u64,
    })
}

pub(super) fn from_packed<T>(shape: &[usize], data: Vec<T>) -> Result<ArrayD<T>> {
    ArrayD::from_shape_vec(IxDyn(shape), data)
        .map_err(|error| Error::Internal(format!("a patch of shape {shape:?}: {error}")))
}
