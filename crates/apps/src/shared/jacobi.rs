//! Jacobi's method: every point becomes the mean of its neighbours. A rank computes from copies of
//! three old rows in its own memory, and keeps the new rows that its neighbours still read until
//! all have computed theirs; the program of \[BST97\] keeps all of them, in a scratch array.

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
    /// Whether all new rows are kept until all have computed theirs.
    keeps_all: bool,
    grid: Option<Shared<f32>>,
}

impl Jacobi {
    pub(super) fn new(size: &[usize], iterations: usize, keeps_all: bool) -> Result<Jacobi> {
        let [rows, columns] = Options::check_size("jacobi", size, 3)?;
        Ok(Jacobi { rows, columns, iterations, keeps_all, grid: None })
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

    /// The new points of a row between two others; those at its ends stay.
    fn step(&self, [above, beside, below]: [&[f32]; 3], into: &mut [f32]) {
        let last = self.columns - 1;
        (into[0], into[last]) = (beside[0], beside[last]);
        let others = above[1..last].iter().zip(&below[1..last]);
        let others = others.zip(beside[..last - 1].iter().zip(&beside[2..]));
        for (point, ((above, below), (left, right))) in into[1..last].iter_mut().zip(others) {
            *point = (above + below + left + right) * 0.25;
        }
    }

    /// Computes the new rows `inside` of a rank that has the rows `mine`, and writes those that
    /// need not be kept; returns the others.
    fn sweep(
        &self,
        machine: &mut Machine<'_, '_>,
        grid: Shared<f32>,
        (mine, inside): (&Range<usize>, &Range<usize>),
        Rows { old: [above, beside, below], new }: &mut Rows,
    ) -> Result<Vec<(usize, Vec<f32>)>> {
        let mut kept = Vec::new();
        if inside.is_empty() {
            return Ok(kept);
        }
        for (row, into) in [(inside.start - 1, &mut *above), (inside.start, &mut *beside)] {
            machine.dsm.view(grid, self.row(row))?.copy_to(0, into);
        }
        for row in inside.clone() {
            machine.dsm.view(grid, self.row(row + 1))?.copy_to(0, below);
            self.step([above, beside, below], new);
            if self.keeps_all || row == mine.start || row + 1 == mine.end {
                kept.push((row, new.clone()));
            } else {
                machine.dsm.view_mut(grid, self.row(row))?.copy_from(0, new);
            }
            std::mem::swap(above, beside);
            std::mem::swap(beside, below);
            machine.computes(FLOPS * self.columns);
        }
        Ok(kept)
    }
}

/// Rows in a rank's own memory: three old ones, from which a new one is computed.
struct Rows {
    old: [Vec<f32>; 3],
    new: Vec<f32>,
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
        let row = || vec![0.0; self.columns];
        let mut rows = Rows { old: [row(), row(), row()], new: row() };
        for _ in 0..self.iterations {
            let kept = self.sweep(machine, grid, (&mine, &inside), &mut rows)?;
            machine.dsm.barrier()?;
            for (row, new) in kept {
                machine.dsm.view_mut(grid, self.row(row))?.copy_from(0, &new);
            }
            machine.computes(inside.len() * self.columns);
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
                let old = [row - 1, row, row + 1].map(|row| &grid[self.row(row)]);
                self.step(old, &mut next[self.row(row)]);
            }
            std::mem::swap(&mut grid, &mut next);
        }
        grid.into_iter().map(f64::from).collect()
    }

    fn picture(&self, result: &[f64]) -> String {
        picture::field("Jacobi", result, self.columns)
    }
}
