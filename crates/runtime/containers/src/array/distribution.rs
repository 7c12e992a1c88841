//! Ownership: an array is cut into blocks, and each block belongs to a member.

use farside_fabric::strided::walk;
use farside_fabric::{Error, Result};

use super::area::{Area, DIMENSIONS_MAX, strides};

/// How an array is to be distributed over the members of its team.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Distribution {
    /// A block for each member, as nearly square and as nearly alike as possible.
    #[default]
    Regular,
    /// A block for each member on a grid of so many members in each dimension; members beyond have
    /// none.
    Grid(Vec<usize>),
    /// A block for each member, cut at given places: for each dimension the first indices of the
    /// blocks, the first of which is 0.
    Irregular(Vec<Vec<usize>>),
    /// Blocks of a given shape, dealt out to the members in turns.
    BlockCyclic(Vec<usize>),
    /// Blocks of a given shape, dealt out on a grid of members in turns in each dimension, as
    /// ScaLAPACK does.
    BlockCyclicGrid {
        /// The shape of a block.
        block: Vec<usize>,
        /// How many members there are in each dimension.
        grid: Vec<usize>,
    },
}

/// A distribution of one array over so many members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) shape: Vec<usize>,
    /// Where blocks begin in each dimension, and the end.
    cuts: Vec<Vec<usize>>,
    /// The member that has each block, and where it begins in that member's part.
    homes: Vec<Home>,
    /// How wide the border of each block is.
    pub(super) ghosts: Vec<usize>,
    by_member: Vec<Vec<usize>>,
    pub(super) lens: Vec<usize>,
    is_single: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Home {
    member: usize,
    start: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) member: usize,
    pub(super) area: Area,
    /// Where the first element lies, and how far apart neighbours are.
    pub(super) start: usize,
    pub(super) strides: [usize; DIMENSIONS_MAX],
}

/// Where an array is cut into blocks, and in which turns they are dealt out.
struct Cuts {
    /// For each dimension the first indices of the blocks, and the end.
    cuts: Vec<Vec<usize>>,
    turns: Turns,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Turns {
    /// Each member gets one at most.
    None,
    ByNumber,
    /// The members of a grid follow each other in each dimension.
    OnGrid(Vec<usize>),
}

impl Cuts {
    fn new(shape: &[usize], how: &Distribution, members: usize) -> Result<Cuts> {
        let dimensions = shape.len();
        let even = |grid: &[usize]| -> Vec<Vec<usize>> {
            let cut = |(&extent, &parts): (&usize, &usize)| {
                (0..=parts).map(|part| part * extent / parts).collect()
            };
            shape.iter().zip(grid).map(cut).collect()
        };
        let (cuts, turns) = match how {
            Distribution::Regular => (even(&grid_of(shape, members)), Turns::None),
            Distribution::Grid(grid) => (even(check_grid(grid, dimensions, members)?), Turns::None),
            Distribution::Irregular(starts) => (irregular(shape, starts, members)?, Turns::None),
            Distribution::BlockCyclic(block) => (tiles(shape, block)?, Turns::ByNumber),
            Distribution::BlockCyclicGrid { block, grid } => {
                let cuts = tiles(shape, block)?;
                (cuts, Turns::OnGrid(check_grid(grid, dimensions, members)?.to_vec()))
            }
        };
        Ok(Cuts { cuts, turns })
    }
}

fn irregular(shape: &[usize], starts: &[Vec<usize>], members: usize) -> Result<Vec<Vec<usize>>> {
    let what = "dimensions that blocks are cut in, and of their array";
    check_same(what, starts.len(), shape)?;
    let cuts: Vec<Vec<usize>> = starts
        .iter()
        .zip(shape)
        .map(|(starts, &extent)| starts.iter().copied().chain([extent]).collect())
        .collect();
    for (cuts, starts) in cuts.iter().zip(starts) {
        if starts.first() != Some(&0) || cuts.windows(2).any(|pair| pair[0] > pair[1]) {
            let what = format!(
                "blocks that begin at {starts:?} do not cover a dimension: expected 0 and then \
                 ascending numbers within the array"
            );
            return Err(Error::InvalidArgument(what));
        }
    }
    let grid: Vec<usize> = starts.iter().map(Vec::len).collect();
    check_grid(&grid, shape.len(), members)?;
    Ok(cuts)
}

fn tiles(shape: &[usize], block: &[usize]) -> Result<Vec<Vec<usize>>> {
    check_same("dimensions of a block and of its array", block.len(), shape)?;
    if block.contains(&0) {
        return Err(Error::InvalidArgument(format!("blocks of shape {block:?} are empty")));
    }
    let cut =
        |(&extent, &step): (&usize, &usize)| (0..extent).step_by(step).chain([extent]).collect();
    Ok(shape.iter().zip(block).map(cut).collect())
}

fn check_same(what: &'static str, given: usize, shape: &[usize]) -> Result<()> {
    match given == shape.len() {
        true => Ok(()),
        false => Err(Error::Mismatch { what, left: given as u64, right: shape.len() as u64 }),
    }
}

impl Blocks {
    pub(super) fn new(
        shape: &[usize],
        how: &Distribution,
        ghosts: &[usize],
        members: usize,
    ) -> Result<Blocks> {
        check_shape(shape, ghosts)?;
        let Cuts { cuts, turns } = Cuts::new(shape, how, members)?;
        if turns != Turns::None && ghosts.iter().any(|&width| width > 0) {
            return Err(Error::Unsupported {
                what: "ghost cells around blocks that are distributed cyclically".into(),
            });
        }
        let mut blocks = Blocks {
            shape: shape.to_vec(),
            cuts,
            homes: Vec::new(),
            ghosts: ghosts.to_vec(),
            by_member: vec![Vec::new(); members],
            lens: vec![0; members],
            is_single: false,
        };
        blocks.deal(&turns, members);
        blocks.is_single = blocks.by_member.iter().all(|blocks| blocks.len() <= 1);
        Ok(blocks)
    }

    fn deal(&mut self, turns: &Turns, members: usize) {
        for number in 0..self.counts().iter().product() {
            let at = self.position(number);
            let member = match turns {
                Turns::None => number,
                Turns::ByNumber => number % members,
                Turns::OnGrid(grid) => {
                    grid.iter().zip(at).fold(0, |member, (&size, at)| member * size + at % size)
                }
            };
            let home = Home { member, start: self.lens[member] };
            self.homes.push(home);
            self.by_member[member].push(number);
            self.lens[member] += self.padded(&self.area(number)).iter().product::<usize>();
        }
    }

    fn counts(&self) -> Vec<usize> {
        self.cuts.iter().map(|cuts| cuts.len() - 1).collect()
    }

    fn position(&self, number: usize) -> [usize; DIMENSIONS_MAX] {
        let (mut at, mut rest) = ([0; DIMENSIONS_MAX], number);
        for dimension in (0..self.cuts.len()).rev() {
            let count = self.cuts[dimension].len() - 1;
            (at[dimension], rest) = (rest % count, rest / count);
        }
        at
    }

    fn area(&self, number: usize) -> Area {
        let at = self.position(number);
        let low: Vec<usize> = self.cuts.iter().zip(at).map(|(cuts, at)| cuts[at]).collect();
        let high: Vec<usize> = self.cuts.iter().zip(at).map(|(cuts, at)| cuts[at + 1]).collect();
        Area::new(&low, &high)
    }

    pub(super) fn padded(&self, area: &Area) -> Vec<usize> {
        if area.is_empty() {
            return vec![0; self.shape.len()];
        }
        area.shape().iter().zip(&self.ghosts).map(|(extent, ghost)| extent + 2 * ghost).collect()
    }

    pub(super) fn block(&self, number: usize) -> Block {
        let (area, home) = (self.area(number), self.homes[number]);
        let strides = strides(&self.padded(&area));
        let border: usize =
            self.ghosts.iter().zip(strides).map(|(ghost, stride)| ghost * stride).sum();
        Block { member: home.member, area, start: home.start + border, strides }
    }

    /// Whether no member has more than one block.
    pub(super) fn is_single(&self) -> bool {
        self.is_single
    }

    pub(super) fn of_member(&self, member: usize) -> impl Iterator<Item = Block> + '_ {
        self.by_member[member].iter().map(|&number| self.block(number))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.homes.len()).map(|number| self.block(number))
    }

    pub(super) fn of_element(&self, index: &[usize]) -> Block {
        let number = self
            .cuts
            .iter()
            .zip(index)
            .fold(0, |number, (cuts, &at)| number * (cuts.len() - 1) + place(cuts, at));
        self.block(number)
    }

    pub(super) fn for_each_in(
        &self,
        area: &Area,
        mut each: impl FnMut(Block) -> Result<()>,
    ) -> Result<()> {
        if area.is_empty() {
            return Ok(());
        }
        let dimensions = self.shape.len();
        // The blocks are numbered as the elements of an array with one element for each of them.
        let (mut counts, mut strides) = ([0; DIMENSIONS_MAX], [0; DIMENSIONS_MAX]);
        let (mut first, mut stride) = (0, 1);
        for dimension in (0..dimensions).rev() {
            let cuts = &self.cuts[dimension];
            let low = place(cuts, area.low()[dimension]);
            counts[dimension] = place(cuts, area.high()[dimension] - 1) - low + 1;
            strides[dimension] = stride;
            first += low * stride;
            stride *= cuts.len() - 1;
        }
        let mut done = Ok(());
        walk([first], &counts[..dimensions], [&strides[..dimensions]], &mut |[number]| {
            let block = self.block(number);
            if !block.area.is_empty() {
                done = each(block);
            }
            done.is_ok()
        });
        done
    }
}

impl Block {
    /// Where an element of the block lies in its owner's part.
    pub(super) fn offset(&self, index: &[usize]) -> usize {
        let steps = index.iter().zip(self.area.low()).zip(self.strides);
        self.start + steps.map(|((&at, &low), stride)| (at - low) * stride).sum::<usize>()
    }
}

/// The block of an index in one dimension.
fn place(cuts: &[usize], index: usize) -> usize {
    cuts.partition_point(|&cut| cut <= index) - 1
}

fn check_shape(shape: &[usize], ghosts: &[usize]) -> Result<()> {
    if shape.is_empty() || shape.len() > DIMENSIONS_MAX {
        let what =
            format!("an array of {} dimensions; 1 to {DIMENSIONS_MAX} are possible", shape.len());
        return Err(Error::Unsupported { what });
    }
    if shape.contains(&0) {
        return Err(Error::Unsupported {
            what: format!("an array of shape {shape:?}, which has no elements"),
        });
    }
    if shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent)).is_none() {
        return Err(Error::Unsupported {
            what: format!("an array of shape {shape:?}, which has 2^64 elements or more"),
        });
    }
    if ghosts.len() != shape.len() {
        let (left, right) = (ghosts.len() as u64, shape.len() as u64);
        return Err(Error::Mismatch {
            what: "dimensions of the ghost widths and of the array",
            left,
            right,
        });
    }
    Ok(())
}

fn check_grid(grid: &[usize], dimensions: usize, members: usize) -> Result<&[usize]> {
    if grid.len() != dimensions {
        let (left, right) = (grid.len() as u64, dimensions as u64);
        return Err(Error::Mismatch {
            what: "dimensions of a grid of members and of the array",
            left,
            right,
        });
    }
    match grid.iter().try_fold(1usize, |all, &size| all.checked_mul(size)) {
        Some(needed) if needed >= 1 && needed <= members => Ok(grid),
        _ => Err(Error::InvalidArgument(format!(
            "a grid of {grid:?} does not fit {members} members: expected a product of 1 to \
             {members}"
        ))),
    }
}

/// A grid of all members whose blocks are as nearly square as possible: the largest factors go
/// where blocks are longest.
fn grid_of(shape: &[usize], members: usize) -> Vec<usize> {
    let (mut factors, mut rest) = (Vec::new(), members);
    let mut factor = 2;
    while rest > 1 {
        while rest.is_multiple_of(factor) {
            factors.push(factor);
            rest /= factor;
        }
        factor += 1;
    }
    let mut grid = vec![1; shape.len()];
    for &factor in factors.iter().rev() {
        let longest = (0..shape.len())
            .max_by_key(|&dimension| (shape[dimension] / grid[dimension], shape.len() - dimension));
        grid[longest.unwrap_or(0)] *= factor;
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_one_place() {
        let hows = [
            Distribution::Regular,
            Distribution::Grid(vec![2, 3]),
            Distribution::Irregular(vec![vec![0, 1, 4], vec![0, 9]]),
            Distribution::BlockCyclic(vec![2, 3]),
            Distribution::BlockCyclicGrid { block: vec![3, 2], grid: vec![3, 2] },
        ];
        for how in hows {
            let blocks = Blocks::new(&[5, 11], &how, &[0, 0], 6).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for row in 0..5 {
                for column in 0..11 {
                    let block = blocks.of_element(&[row, column]);
                    assert!(block.area.contains(&[row, column]), "{how:?}");
                    let offset = block.offset(&[row, column]);
                    assert!(offset < blocks.lens[block.member]);
                    assert!(
                        seen.insert((block.member, offset)),
                        "{how:?}: two elements in one place"
                    );
                }
            }
            assert_eq!(blocks.lens.iter().sum::<usize>(), 55);
        }
    }

    #[test]
    fn grids_follow_the_shape() {
        assert_eq!(grid_of(&[100, 100], 6), [3, 2]);
        assert_eq!(grid_of(&[10, 1000], 4), [1, 4]);
        assert_eq!(grid_of(&[7], 5), [5]);
        assert_eq!(grid_of(&[8, 8, 8], 8), [2, 2, 2]);
    }

    #[test]
    fn what_cannot_be_distributed_is_named() {
        let says = |how: &Distribution, shape: &[usize], ghosts: &[usize]| {
            Blocks::new(shape, how, ghosts, 4).unwrap_err().to_string()
        };
        assert!(says(&Distribution::Regular, &[], &[]).contains("0 dimensions"));
        assert!(says(&Distribution::Regular, &[3, 0], &[0, 0]).contains("[3, 0]"));
        assert!(says(&Distribution::Grid(vec![3, 2]), &[9, 9], &[0, 0]).contains("4 members"));
        assert!(says(&Distribution::Irregular(vec![vec![1]]), &[9], &[0]).contains("[1]"));
        assert!(says(&Distribution::BlockCyclic(vec![0]), &[9], &[0]).contains("[0]"));
        assert!(says(&Distribution::BlockCyclic(vec![2]), &[9], &[1]).contains("ghost cells"));
        assert!(says(&Distribution::Regular, &[9], &[1, 1]).contains("ghost widths"));
    }
}
