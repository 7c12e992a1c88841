//! Which rank owns which block, and what the matrix is.

use farside::Rank;
use farside_fabric::random::SplitMix;

/// A matrix in blocks, dealt out to a grid of ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) size: usize,
    pub(super) block: usize,
    rows: usize,
    columns: usize,
}

impl Grid {
    /// As square a grid as the number of ranks allows.
    pub(super) fn new(size: usize, block: usize, ranks: u32) -> Grid {
        let ranks = ranks as usize;
        let rows = (1..=ranks)
            .take_while(|rows| rows * rows <= ranks)
            .filter(|rows| ranks.is_multiple_of(*rows))
            .last()
            .unwrap_or(1);
        Grid { size, block, rows, columns: ranks / rows }
    }

    /// How many blocks a row of the matrix has.
    pub(super) fn count(&self) -> usize {
        self.size.div_ceil(self.block)
    }

    /// How many rows, or columns, of the matrix the blocks number `at` really have.
    pub(super) fn extent(&self, at: usize) -> usize {
        self.block.min(self.size - at * self.block)
    }

    /// How many numbers a block takes in memory, also at the edge.
    pub(super) fn block_len(&self) -> usize {
        self.block * self.block
    }

    /// How many blocks a rank has at most.
    pub(super) fn blocks_of_each(&self) -> usize {
        self.count().div_ceil(self.rows) * self.count().div_ceil(self.columns)
    }

    /// Returns the owner of a block, and where in the owner's part the block begins.
    pub(super) fn place(&self, (i, j): (usize, usize)) -> (Rank, usize) {
        let owner = (i % self.rows) * self.columns + j % self.columns;
        let index = (i / self.rows) * self.count().div_ceil(self.columns) + j / self.columns;
        (Rank(owner as u32), index * self.block_len())
    }

    pub(super) fn own(&self, rank: Rank) -> impl Iterator<Item = (usize, usize)> + '_ {
        let all = (0..self.count()).flat_map(|i| (0..self.count()).map(move |j| (i, j)));
        all.filter(move |&at| self.place(at).0 == rank)
    }

    /// In the order in which a rank goes through its blocks.
    pub(super) fn sorted(&self, mut blocks: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
        blocks.sort_unstable();
        blocks
    }

    /// An element of the matrix: small numbers that look random, and a diagonal that outweighs
    /// them.
    fn element(&self, row: usize, column: usize) -> f64 {
        let diagonal = if row == column { self.size as f64 } else { 0.0 };
        scatter(row, column) * 2.0 - 1.0 + diagonal
    }

    pub(super) fn original(&self, (i, j): (usize, usize)) -> Vec<f64> {
        let mut block = vec![0.0; self.block_len()];
        for row in 0..self.extent(i) {
            for column in 0..self.extent(j) {
                block[row * self.block + column] =
                    self.element(i * self.block + row, j * self.block + column);
            }
        }
        block
    }

    /// Adds a block of a factor, times a vector, to another vector: of the lower factor, whose
    /// diagonal is one, or of the upper.
    pub(super) fn apply(
        &self,
        (i, j): (usize, usize),
        block: &[f64],
        lower: bool,
        x: &[f64],
        into: &mut [f64],
    ) {
        for row in 0..self.extent(i) {
            let at = i * self.block + row;
            for column in 0..self.extent(j) {
                let other = j * self.block + column;
                into[at] += match (lower, at.cmp(&other)) {
                    (true, std::cmp::Ordering::Equal) => x[other],
                    (true, std::cmp::Ordering::Greater) => {
                        block[row * self.block + column] * x[other]
                    }
                    (false, std::cmp::Ordering::Equal | std::cmp::Ordering::Less) => {
                        block[row * self.block + column] * x[other]
                    }
                    _ => 0.0,
                };
            }
        }
    }

    pub(super) fn apply_original(&self, x: &[f64], into: &mut [f64]) {
        for (row, sum) in into.iter_mut().enumerate() {
            *sum = x.iter().enumerate().map(|(column, x)| self.element(row, column) * x).sum();
        }
    }
}

/// A number from 0 to 1 that is the same in every run.
pub(super) fn scatter(row: usize, column: usize) -> f64 {
    SplitMix::new((row as u64) << 32 | column as u64).fraction()
}
