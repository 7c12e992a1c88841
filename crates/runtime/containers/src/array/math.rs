//! What is computed with whole arrays.

use std::io::Write;

use farside_fabric::{Error, Result};
use farside_rma::{Plain, Rank, Summand};
use ndarray::{Array2, ArrayD, Ix2, LinalgScalar};

use super::GlobalArray;
use super::area::Area;
use super::product::add_product;

/// How many columns of the one factor and rows of the other are fetched at a time.
const PANEL: usize = 256;

impl<T: Plain> GlobalArray<'_, T> {
    /// Sets all elements. Collective.
    #[track_caller]
    pub fn fill(&self, value: T) -> Result<()> {
        self.sync()?;
        for area in self.own_blocks().collect::<Vec<_>>() {
            self.put_slice(area, &vec![value; area.len()])?;
        }
        self.sync()
    }

    /// Copies another array of the same shape, however it is distributed. Collective.
    #[track_caller]
    pub fn copy_from(&self, other: &GlobalArray<'_, T>) -> Result<()> {
        self.check_like(other)?;
        self.sync()?;
        self.for_each_own_with(other, |_, mut mine, theirs| mine.assign(&theirs))?;
        self.sync()
    }

    /// Replaces each element by what `change` makes of it. Collective.
    #[track_caller]
    pub fn map_in_place(&self, change: impl Fn(T) -> T) -> Result<()> {
        self.sync()?;
        self.for_each_own(|_, mut block| block.mapv_inplace(&change))?;
        self.sync()
    }

    /// Copies the transpose of another array: the dimensions in the opposite order. Collective. It
    /// may be this one.
    ///
    /// ```
    /// # use farside::GlobalArray;
    /// # farside::local(3, |world| {
    /// let a = GlobalArray::<u8>::new(world, &[2, 5])?;
    /// let b = GlobalArray::<u8>::new(world, &[5, 2])?;
    /// a.put_value(&[1, 3], 7)?;
    /// b.transpose_from(&a)?;
    /// assert_eq!(b.get_value(&[3, 1])?, 7);
    /// # a.sync()?;
    /// # a.free()?; b.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn transpose_from(&self, other: &GlobalArray<'_, T>) -> Result<()> {
        let reversed: Vec<usize> = other.shape().iter().rev().copied().collect();
        if self.shape() != reversed {
            let (mine, theirs) = (self.shape(), other.shape());
            return Err(self.context().failed(Error::InvalidArgument(format!(
                "the transpose of an array of shape {theirs:?} does not fit one of shape {mine:?}"
            ))));
        }
        self.set_blocks(&[other], |area| Ok(other.get(area.reversed())?.reversed_axes()))
    }

    /// Sets each own block to what `block` makes of arrays, of which this may be one: then nobody
    /// writes before all have read.
    fn set_blocks(
        &self,
        read: &[&GlobalArray<'_, T>],
        block: impl Fn(Area) -> Result<ArrayD<T>>,
    ) -> Result<()> {
        self.sync()?;
        let reads_itself = read.iter().any(|other| other.window.segment() == self.window.segment());
        let mut later = Vec::new();
        for area in self.own_blocks().collect::<Vec<Area>>() {
            let made = block(area)?;
            match reads_itself {
                true => later.push((area, made)),
                false => self.put(area, made.view())?,
            }
        }
        if reads_itself {
            self.sync()?;
        }
        later.into_iter().try_for_each(|(area, made)| self.put(area, made.view()))?;
        self.sync()
    }

    /// Folds all elements into one; all members get the same. Collective. `fold` must be
    /// associative and commutative.
    #[track_caller]
    pub fn reduce(&self, fold: impl Fn(T, T) -> T) -> Result<T> {
        self.sync()?;
        let mut mine: Option<T> = None;
        for area in self.own_blocks().collect::<Vec<Area>>() {
            let folded = self.get(area)?.into_iter().reduce(&fold);
            mine = mine.into_iter().chain(folded).reduce(&fold);
        }
        self.sync()?;
        self.reduce_parts(mine, fold)
    }

    /// Folds what members have, in their order.
    fn reduce_parts<U: Plain>(&self, mine: Option<U>, fold: impl Fn(U, U) -> U) -> Result<U> {
        let has = self.team().all_gather(&[u8::from(mine.is_some())])?;
        let values = self.team().all_gather(&[mine.unwrap_or(U::new_zeroed())])?;
        let present =
            values.into_iter().zip(has).filter(|(_, has)| *has == 1).map(|(value, _)| value);
        present
            .reduce(fold)
            .ok_or_else(|| Error::InvalidArgument("an array without elements was reduced".into()))
    }

    /// The element that is better than all others, with its index; of several, the first.
    /// Collective.
    ///
    /// ```
    /// # use farside::GlobalArray;
    /// # farside::local(3, |world| {
    /// let a = GlobalArray::<f64>::new(world, &[4, 4])?;
    /// a.put_value(&[2, 1], -3.0)?;
    /// assert_eq!(a.select(|one, other| one < other)?, (vec![2, 1], -3.0));
    /// # a.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn select(&self, is_better: impl Fn(T, T) -> bool) -> Result<(Vec<usize>, T)> {
        self.sync()?;
        let flat = |index: &[usize]| {
            index
                .iter()
                .zip(self.shape())
                .fold(0u64, |flat, (&at, &extent)| flat * extent as u64 + at as u64)
        };
        let mut best: Option<(T, u64)> = None;
        let beats = |(one, at): (T, u64), (other, there): (T, u64)| {
            is_better(one, other) || (!is_better(other, one) && at < there)
        };
        for area in self.own_blocks().collect::<Vec<Area>>() {
            for (index, &value) in self.get(area)?.indexed_iter() {
                let index: Vec<usize> =
                    area.low().iter().enumerate().map(|(at, low)| low + index[at]).collect();
                let candidate = (value, flat(&index));
                if best.is_none_or(|best| beats(candidate, best)) {
                    best = Some(candidate);
                }
            }
        }
        self.sync()?;
        let has = self.team().all_gather(&[u8::from(best.is_some())])?;
        let (value, place) = best.unwrap_or((T::new_zeroed(), 0));
        let (values, places) =
            (self.team().all_gather(&[value])?, self.team().all_gather(&[place])?);
        let present = values
            .into_iter()
            .zip(places)
            .zip(has)
            .filter(|(_, has)| *has == 1)
            .map(|(best, _)| best);
        let best = present.reduce(|one, other| if beats(other, one) { other } else { one });
        let (value, mut place) = best.ok_or_else(|| {
            Error::InvalidArgument("an empty array has no minimum or maximum".into())
        })?;
        let mut index = vec![0; self.shape().len()];
        for (at, &extent) in self.shape().iter().enumerate().rev() {
            (index[at], place) = ((place % extent as u64) as usize, place / extent as u64);
        }
        Ok((index, value))
    }

    /// Writes the whole array as text; the first member writes, and the others wait. Collective.
    #[track_caller]
    pub fn print(&self, to: &mut dyn Write) -> Result<()>
    where
        T: std::fmt::Display,
    {
        self.sync()?;
        let printed = match self.team().index() {
            0 => {
                let all = self.get(self.area())?;
                writeln!(to, "{:?} over {} ranks\n{all}", self.shape(), self.team().size())
            }
            _ => Ok(()),
        };
        self.sync()?;
        printed.map_err(|error| Error::File(format!("cannot print an array: {error}")))
    }
}

impl<T: Plain + PartialOrd> GlobalArray<'_, T> {
    /// The smallest element. Collective. What is no number counts only if there is nothing else.
    #[track_caller]
    pub fn min(&self) -> Result<T> {
        self.reduce(|a, b| if b < a || is_unordered(&a) { b } else { a })
    }

    /// The largest element. Collective. What is no number counts only if there is nothing else.
    #[track_caller]
    pub fn max(&self) -> Result<T> {
        self.reduce(|a, b| if b > a || is_unordered(&a) { b } else { a })
    }
}

impl<T: Plain + LinalgScalar> GlobalArray<'_, T> {
    /// Multiplies all elements. Collective.
    #[track_caller]
    pub fn scale(&self, factor: T) -> Result<()> {
        self.map_in_place(|value| value * factor)
    }

    /// Sets this array to `alpha * a + beta * b`. Collective. It may be one of them.
    #[track_caller]
    pub fn add_from(
        &self,
        alpha: T,
        a: &GlobalArray<'_, T>,
        beta: T,
        b: &GlobalArray<'_, T>,
    ) -> Result<()> {
        self.check_like(a)?;
        self.check_like(b)?;
        self.set_blocks(&[a, b], |area| {
            Ok(a.get(area)?.mapv(|a| a * alpha) + b.get(area)?.mapv(|b| b * beta))
        })
    }

    /// The sum of the products of the elements of two arrays. Collective.
    #[track_caller]
    pub fn dot(&self, other: &GlobalArray<'_, T>) -> Result<T> {
        self.check_like(other)?;
        self.sync()?;
        let mut sum = T::new_zeroed();
        for area in self.own_blocks().collect::<Vec<Area>>() {
            let products = self.get(area)? * other.get(area)?;
            sum = sum + products.sum();
        }
        self.sync()?;
        self.reduce_parts(Some(sum), |a, b| a + b)
    }

    /// The sum of all elements. Collective.
    #[track_caller]
    pub fn sum(&self) -> Result<T> {
        self.reduce(|a, b| a + b)
    }

    /// Sets this matrix to `alpha * a * b + beta * itself`. Collective. Each rank computes its own
    /// blocks, from panels that it fetches. It may be one of the factors.
    ///
    /// ```
    /// # use farside::{GlobalArray, array::ndarray::arr2};
    /// # farside::local(4, |world| {
    /// let a = GlobalArray::<f64>::new(world, &[2, 3])?;
    /// let b = GlobalArray::new(world, &[3, 2])?;
    /// let c = GlobalArray::new(world, &[2, 2])?;
    /// a.put([.., ..], arr2(&[[1., 2., 3.], [4., 5., 6.]]).view())?;
    /// b.put([.., ..], arr2(&[[1., 0.], [0., 1.], [1., 1.]]).view())?;
    /// c.multiply_from(1.0, &a, &b, 0.0)?;
    /// assert_eq!(c.get([.., ..])?, arr2(&[[4., 5.], [10., 11.]]).into_dyn());
    /// # a.sync()?;
    /// # a.free()?; b.free()?; c.free() }).unwrap();
    /// ```
    #[track_caller]
    pub fn multiply_from(
        &self,
        alpha: T,
        a: &GlobalArray<'_, T>,
        b: &GlobalArray<'_, T>,
        beta: T,
    ) -> Result<()> {
        let context = self.context();
        let [rows, columns] = context.noted(two(self.shape()))?;
        let [a_rows, inner] = context.noted(two(a.shape()))?;
        let [b_rows, b_columns] = context.noted(two(b.shape()))?;
        if (a_rows, b_columns, inner) != (rows, columns, b_rows) {
            return Err(context.failed(Error::InvalidArgument(format!(
                "matrices of shape {:?} and {:?} do not multiply to one of shape {:?}",
                a.shape(),
                b.shape(),
                self.shape()
            ))));
        }
        self.set_blocks(&[a, b], |area| {
            // What a matrix that does not count holds may be no number.
            let mut c = if beta.is_zero() {
                Array2::from_elem([area.range(0).len(), area.range(1).len()], T::new_zeroed())
            } else {
                matrix(self.get(area)?)?.mapv_into(|value| value * beta)
            };
            for start in (0..inner).step_by(PANEL) {
                let panel = start..inner.min(start + PANEL);
                let left = matrix(a.get([area.range(0), panel.clone()])?)?;
                let right = matrix(b.get([panel, area.range(1)])?)?;
                add_product(&mut c, alpha, &left, &right);
            }
            Ok(c.into_dyn())
        })
    }
}

impl<T: Summand> GlobalArray<'_, T> {
    /// Sets this array to the sum of its mirrors of all nodes. Collective. See
    /// [`GlobalArray::mirror`].
    #[track_caller]
    pub fn merge(&self, mirror: &GlobalArray<'_, T>) -> Result<()> {
        self.check_like(mirror)?;
        self.fill(T::new_zeroed())?;
        for area in mirror.own_blocks().collect::<Vec<Area>>() {
            self.accumulate(T::ONE, area, mirror.get(area)?.view())?;
        }
        self.sync()
    }
}

/// Whether a value is neither smaller nor larger than any, as NaN is.
fn is_unordered<T: PartialOrd>(value: &T) -> bool {
    value.partial_cmp(value).is_none()
}

fn two(shape: &[usize]) -> Result<[usize; 2]> {
    shape
        .try_into()
        .map_err(|_| Error::InvalidArgument(format!("an array of shape {shape:?} is not a matrix")))
}

fn matrix<T>(array: ndarray::ArrayD<T>) -> Result<ndarray::Array2<T>> {
    array
        .into_dimensionality::<Ix2>()
        .map_err(|error| Error::Internal(format!("a block of a matrix: {error}")))
}

pub(super) fn is_first<T: Plain>(array: &GlobalArray<'_, T>) -> bool {
    array.team().members().first().copied().unwrap_or(Rank(0)) == array.context().rank()
}
