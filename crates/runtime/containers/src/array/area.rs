//! Areas: which elements of an array are meant.

use std::fmt;
use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo};

use farside_fabric::{Error, Result};

/// How many dimensions an array can have.
pub const DIMENSIONS_MAX: usize = 7;

/// A patch of an array: a range in each dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Area {
    dimensions: usize,
    low: [usize; DIMENSIONS_MAX],
    high: [usize; DIMENSIONS_MAX],
}

impl Area {
    /// The area from `low` to before `high`, in each dimension.
    pub(super) fn new(low: &[usize], high: &[usize]) -> Area {
        let mut area =
            Area { dimensions: low.len(), low: [0; DIMENSIONS_MAX], high: [0; DIMENSIONS_MAX] };
        area.low[..low.len()].copy_from_slice(low);
        area.high[..high.len()].copy_from_slice(high);
        area
    }

    pub(super) fn all(shape: &[usize]) -> Area {
        Area::new(&[0; DIMENSIONS_MAX][..shape.len()], shape)
    }

    /// How many dimensions there are.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The first index in each dimension.
    pub fn low(&self) -> &[usize] {
        &self.low[..self.dimensions]
    }

    /// The index after the last one, in each dimension.
    pub fn high(&self) -> &[usize] {
        &self.high[..self.dimensions]
    }

    /// The range in a dimension.
    pub fn range(&self, dimension: usize) -> Range<usize> {
        self.low()[dimension]..self.high()[dimension]
    }

    /// The range in each dimension.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        (0..self.dimensions).map(|dimension| self.range(dimension)).collect()
    }

    /// How many elements there are in each dimension.
    pub fn shape(&self) -> Vec<usize> {
        self.extents()[..self.dimensions].to_vec()
    }

    pub(super) fn extents(&self) -> [usize; DIMENSIONS_MAX] {
        std::array::from_fn(|dimension| self.high[dimension].saturating_sub(self.low[dimension]))
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.extents()[..self.dimensions].iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an element is in it.
    pub fn contains(&self, index: &[usize]) -> bool {
        index.len() == self.dimensions
            && (0..self.dimensions).all(|at| self.range(at).contains(&index[at]))
    }

    /// What two areas have in common.
    #[must_use]
    pub fn intersection(&self, other: &Area) -> Area {
        let mut both = *self;
        for dimension in 0..self.dimensions {
            both.low[dimension] = self.low[dimension].max(other.low[dimension]);
            both.high[dimension] =
                self.high[dimension].min(other.high[dimension]).max(both.low[dimension]);
        }
        both
    }

    /// With the dimensions in the opposite order.
    #[must_use]
    pub(super) fn reversed(&self) -> Area {
        let (mut low, mut high) = (self.low().to_vec(), self.high().to_vec());
        low.reverse();
        high.reverse();
        Area::new(&low, &high)
    }
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.dimensions).map(|dimension| self.range(dimension))).finish()
    }
}

/// How far apart neighbours in each dimension are where a block of these extents is packed, the
/// last dimension fastest.
pub(super) fn strides(extents: &[usize]) -> [usize; DIMENSIONS_MAX] {
    let mut strides = [0; DIMENSIONS_MAX];
    let mut stride = 1;
    for dimension in (0..extents.len()).rev() {
        strides[dimension] = stride;
        stride *= extents[dimension];
    }
    strides
}

/// What can say which elements are meant: an [`Area`], or ranges for all dimensions such as
/// `[0..3, 2..5]` or `[.., ..]`; of an array of one dimension, `0..3`.
pub trait Patch {
    /// The area of an array of this shape, or an error that says why there is none.
    fn area(&self, shape: &[usize]) -> Result<Area>;
}

impl Patch for Area {
    fn area(&self, shape: &[usize]) -> Result<Area> {
        let area = *self;
        check_dimensions(area.dimensions, shape)?;
        for (dimension, &extent) in shape.iter().enumerate() {
            check_range(area.range(dimension), dimension, extent)?;
        }
        Ok(area)
    }
}

impl<R: RangeBounds<usize>> Patch for [R] {
    fn area(&self, shape: &[usize]) -> Result<Area> {
        check_dimensions(self.len(), shape)?;
        let mut area = Area::all(shape);
        for (dimension, (range, &extent)) in self.iter().zip(shape).enumerate() {
            let low = match range.start_bound() {
                Bound::Included(&low) => low,
                Bound::Excluded(&low) => low.saturating_add(1),
                Bound::Unbounded => 0,
            };
            let high = match range.end_bound() {
                Bound::Included(&high) => high.saturating_add(1),
                Bound::Excluded(&high) => high,
                Bound::Unbounded => extent,
            };
            check_range(low..high, dimension, extent)?;
            (area.low[dimension], area.high[dimension]) = (low, high);
        }
        Ok(area)
    }
}

impl<R: RangeBounds<usize>, const N: usize> Patch for [R; N] {
    fn area(&self, shape: &[usize]) -> Result<Area> {
        self[..].area(shape)
    }
}

impl<R: RangeBounds<usize>> Patch for Vec<R> {
    fn area(&self, shape: &[usize]) -> Result<Area> {
        self[..].area(shape)
    }
}

/// One dimension needs no list.
macro_rules! single_ranges {
    ($($range:ty)*) => { $(
        impl Patch for $range {
            fn area(&self, shape: &[usize]) -> Result<Area> {
                std::slice::from_ref(self).area(shape)
            }
        }
    )* };
}
single_ranges!(Range<usize> RangeInclusive<usize> RangeFrom<usize> RangeTo<usize> RangeFull);

impl<P: Patch + ?Sized> Patch for &P {
    fn area(&self, shape: &[usize]) -> Result<Area> {
        (**self).area(shape)
    }
}

pub(super) fn check_dimensions(dimensions: usize, shape: &[usize]) -> Result<()> {
    if dimensions == shape.len() {
        return Ok(());
    }
    let (left, right) = (dimensions as u64, shape.len() as u64);
    Err(Error::Mismatch { what: "dimensions of an index or patch and of its array", left, right })
}

fn check_range(range: Range<usize>, dimension: usize, extent: usize) -> Result<()> {
    if range.start <= range.end && range.end <= extent {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "the range {range:?} of dimension {dimension} is not within the array, which ends at \
         {extent}"
    )))
}
