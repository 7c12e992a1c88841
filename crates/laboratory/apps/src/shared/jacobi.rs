//! Jacobi's method: every point becomes the mean of its neighbours. A rank computes from copies of
//! three old rows in its own memory, and keeps the new rows that its neighbours still read until
//! all have computed theirs; the program of \[BST97\] keeps all of them, in a scratch array.

use std::ops::Range;

use farside::Result;
use farside::dsm::{Dsm, Placement, Shared};

use super::{Base, Kernel, Machine, Options, SharedRun, picture};

/// Operations for each point.
const FLOPS: usize = 4;

#[derive(Clone)]
pub(super) struct Jacobi {
    rows: usize,
    columns: usize,
    iterations: usize,
    /// Whether all new rows are kept until all have computed theirs.
    keeps_all: bool,
}

impl Jacobi {
    pub(super) fn new(size: &[usize], iterations: usize, keeps_all: bool) -> Result<Jacobi> {
        let [rows, columns] = Options::check_size("jacobi", size, 3)?;
        Ok(Jacobi { rows, columns, iterations, keeps_all })
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
}

impl Kernel for Jacobi {
    fn bytes(&self) -> u64 {
        (self.rows * self.columns * 4) as u64 + (1 << 16)
    }

    fn steps(&self) -> usize {
        self.iterations
    }

    fn prepare(&self, machine: &mut Machine<'_, '_>) -> Result<Box<dyn SharedRun>> {
        let grid = machine.dsm.alloc_at::<f32>(self.rows * self.columns, Placement::Pages)?;
        let mine = machine.part(self.rows);
        for row in mine.clone() {
            machine.dsm.view_mut(grid, self.row(row))?.copy_from(0, &self.first(row));
        }
        machine.dsm.barrier()?;
        let inside = mine.start.max(1)..mine.end.min(self.rows - 1).max(mine.start.max(1));
        let row = || vec![0.0; self.columns];
        let rows = Rows { old: [row(), row(), row()], new: row() };
        Ok(Box::new(SharedJacobi { jacobi: self.clone(), grid, mine, inside, rows }))
    }

    fn base(&self) -> Box<dyn Base> {
        let grid: Vec<f32> = (0..self.rows).flat_map(|row| self.first(row)).collect();
        Box::new(OwnJacobi { jacobi: self.clone(), next: grid.clone(), grid })
    }

    fn picture(&self, result: &[f64]) -> String {
        picture::field("Jacobi", result, self.columns)
    }
}

/// Rows in a rank's own memory: three old ones, from which a new one is computed.
struct Rows {
    old: [Vec<f32>; 3],
    new: Vec<f32>,
}

struct SharedJacobi {
    jacobi: Jacobi,
    grid: Shared<f32>,
    mine: Range<usize>,
    /// Those of its rows that change.
    inside: Range<usize>,
    rows: Rows,
}

impl SharedJacobi {
    /// Computes the new rows, and writes those that need not be kept; returns the others.
    fn sweep(&mut self, machine: &mut Machine<'_, '_>) -> Result<Vec<(usize, Vec<f32>)>> {
        let SharedJacobi { jacobi, grid, mine, inside, rows } = self;
        let Rows { old: [above, beside, below], new } = rows;
        let (grid, inside, mut kept) = (*grid, inside.clone(), Vec::new());
        if inside.is_empty() {
            return Ok(kept);
        }
        for (row, into) in [(inside.start - 1, &mut *above), (inside.start, &mut *beside)] {
            machine.dsm.view(grid, jacobi.row(row))?.copy_to(0, into);
        }
        for row in inside {
            machine.dsm.view(grid, jacobi.row(row + 1))?.copy_to(0, below);
            jacobi.step([above, beside, below], new);
            if jacobi.keeps_all || row == mine.start || row + 1 == mine.end {
                kept.push((row, new.clone()));
            } else {
                machine.dsm.view_mut(grid, jacobi.row(row))?.copy_from(0, new);
            }
            std::mem::swap(above, beside);
            std::mem::swap(beside, below);
            machine.computes(FLOPS * jacobi.columns);
        }
        Ok(kept)
    }
}

impl SharedRun for SharedJacobi {
    fn step(&mut self, machine: &mut Machine<'_, '_>, _: usize) -> Result<()> {
        let kept = self.sweep(machine)?;
        machine.dsm.barrier()?;
        for (row, new) in kept {
            machine.dsm.view_mut(self.grid, self.jacobi.row(row))?.copy_from(0, &new);
        }
        machine.computes(self.inside.len() * self.jacobi.columns);
        machine.dsm.barrier()
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        Ok(dsm.view(self.grid, 0..self.grid.len())?.iter().map(f64::from).collect())
    }
}

/// All rows in one rank's own memory, twice: the old ones, and the new ones.
struct OwnJacobi {
    jacobi: Jacobi,
    grid: Vec<f32>,
    next: Vec<f32>,
}

impl Base for OwnJacobi {
    fn step(&mut self, _: usize) -> usize {
        let OwnJacobi { jacobi, grid, next } = self;
        for row in 1..jacobi.rows - 1 {
            let old = [row - 1, row, row + 1].map(|row| &grid[jacobi.row(row)]);
            jacobi.step(old, &mut next[jacobi.row(row)]);
        }
        std::mem::swap(grid, next);
        // One more for each point, which is moved to its place.
        (FLOPS + 1) * (jacobi.rows - 2) * jacobi.columns
    }

    fn result(&self) -> Vec<f64> {
        self.grid.iter().map(|&value| value.into()).collect()
    }
}
