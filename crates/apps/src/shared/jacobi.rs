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

    fn step(&self, [above, beside, below]: [&[f32]; 3], into: &mut [f32]) {
        into.copy_from_slice(beside);
        for at in 1..self.columns - 1 {
            into[at] = (above[at] + below[at] + beside[at - 1] + beside[at + 1]) * 0.25;
        }
    }
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
        let mut rows: [Vec<f32>; 3] = std::array::from_fn(|_| vec![0.0; self.columns]);
        for _ in 0..self.iterations {
            for (row, into) in inside.clone().zip(scratch.chunks_exact_mut(self.columns)) {
                for (into, row) in rows.iter_mut().zip(row - 1..) {
                    machine.dsm.view(grid, self.row(row))?.copy_to(0, into);
                }
                self.step([&rows[0], &rows[1], &rows[2]], into);
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
                let around = [row - 1, row, row + 1].map(|row| &grid[self.row(row)]);
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
