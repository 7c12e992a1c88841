//! Jacobi's method: every point becomes the mean of its neighbours. The new values are kept in a
//! rank's own memory until all have computed theirs.

use std::ops::Range;

use farside::Result;
use farside::dsm::{Dsm, Placement, Shared};

use super::{Kernel, Machine, Options, picture};

/// Operations for each point.
const FLOPS: usize = 4;

pub(super) struct Jacobi {
    rows: usize,
    columns: usize,
    iterations: usize,
    grid: Option<Shared<f32>>,
}

impl Jacobi {
    pub(super) fn new(size: &[usize], iterations: usize) -> Result<Jacobi> {
        let [rows, columns] = Options::check_size("jacobi", size, 3)?;
        Ok(Jacobi { rows, columns, iterations, grid: None })
    }

    fn row(&self, row: usize) -> Range<usize> {
        row * self.columns..(row + 1) * self.columns
    }

    /// What a row holds at the start: one at the edges.
    fn first(&self, row: usize) -> Vec<f32> {
        let is_edge = row == 0 || row == self.rows - 1;
        let mut values = vec![if is_edge { 1.0 } else { 0.0 }; self.columns];
        values[0] = 1.0;
        values[self.columns - 1] = 1.0;
        values
    }

    /// The new points of a row, without those at its ends.
    fn step(&self, around: Around<impl Iterator<Item = f32>>, into: &mut [f32]) {
        let Around { above, below, left, right } = around;
        let others = above.zip(below).zip(left.zip(right));
        let inside = into[1..self.columns - 1].iter_mut();
        for (point, ((above, below), (left, right))) in inside.zip(others) {
            *point = (above + below + left + right) * 0.25;
        }
    }
}

/// The neighbours of the points of a row, without those at its ends.
struct Around<I> {
    above: I,
    below: I,
    left: I,
    right: I,
}

impl Kernel for Jacobi {
    fn bytes(&self) -> u64 {
        (self.rows * self.columns * 4) as u64 + (1 << 16)
    }

    fn run(&mut self, machine: &mut Machine<'_, '_>) -> Result<()> {
        let grid = machine.dsm.alloc_at::<f32>(self.rows * self.columns, Placement::Pages)?;
        self.grid = Some(grid);
        let mine = machine.part(self.rows);
        for row in mine.clone() {
            machine.dsm.view_mut(grid, self.row(row))?.copy_from(0, &self.first(row));
        }
        machine.dsm.barrier()?;
        let inside = mine.start.max(1)..mine.end.min(self.rows - 1).max(mine.start.max(1));
        let mut scratch = vec![0.0; inside.len() * self.columns];
        for _ in 0..self.iterations {
            for (row, into) in inside.clone().zip(scratch.chunks_exact_mut(self.columns)) {
                let view = |row| machine.dsm.view(grid, self.row(row));
                let (above, beside, below) = (view(row - 1)?, view(row)?, view(row + 1)?);
                let last = self.columns - 1;
                (into[0], into[last]) = (beside.get(0), beside.get(last));
                let around = Around {
                    above: above.slice(1..last).iter(),
                    below: below.slice(1..last).iter(),
                    left: beside.slice(0..last - 1).iter(),
                    right: beside.slice(2..last + 1).iter(),
                };
                self.step(around, into);
                machine.computes(FLOPS * self.columns);
            }
            machine.dsm.barrier()?;
            for (row, from) in inside.clone().zip(scratch.chunks_exact(self.columns)) {
                machine.dsm.view_mut(grid, self.row(row))?.copy_from(0, from);
            }
            machine.computes(scratch.len());
            machine.dsm.barrier()?;
        }
        Ok(())
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let Some(grid) = self.grid else { return Ok(Vec::new()) };
        Ok(dsm.view(grid, 0..grid.len())?.iter().map(f64::from).collect())
    }

    fn sequential(&self) -> Vec<f64> {
        let mut grid: Vec<f32> = (0..self.rows).flat_map(|row| self.first(row)).collect();
        let mut next = grid.clone();
        for _ in 0..self.iterations {
            for row in 1..self.rows - 1 {
                let [above, beside, below] =
                    [row - 1, row, row + 1].map(|row| &grid[self.row(row)]);
                let last = self.columns - 1;
                let around = Around {
                    above: above[1..last].iter().copied(),
                    below: below[1..last].iter().copied(),
                    left: beside[..last - 1].iter().copied(),
                    right: beside[2..].iter().copied(),
                };
                self.step(around, &mut next[self.row(row)]);
            }
            std::mem::swap(&mut grid, &mut next);
        }
        grid.into_iter().map(f64::from).collect()
    }

    fn picture(&self, result: &[f64]) -> String {
        picture::field("Jacobi", result, self.columns)
    }
}
