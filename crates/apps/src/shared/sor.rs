//! Red-black successive over-relaxation: a grid whose edges are one and whose inside is zero at the
//! start.
//!
//! The red and the black points are two shared arrays. A rank has some rows of both; it needs one
//! row of its neighbours on either side.

use std::ops::Range;

use farside::Result;
use farside::dsm::{Dsm, Placement, Shared};

use super::{Kernel, Machine, Options, picture};

/// How far each step goes beyond the mean of the neighbours.
const OMEGA: f32 = 1.25;
/// Operations for each point.
const FLOPS: usize = 7;

pub(super) struct Sor {
    rows: usize,
    /// Points of each colour in a row.
    half: usize,
    iterations: usize,
    grids: Option<[Shared<f32>; 2]>,
}

impl Sor {
    pub(super) fn new(size: &[usize], iterations: usize) -> Result<Sor> {
        let [rows, columns] = Options::check_size("sor", size, 4)?;
        Ok(Sor { rows, half: columns.div_ceil(2), iterations, grids: None })
    }

    fn row(&self, row: usize) -> Range<usize> {
        row * self.half..(row + 1) * self.half
    }

    /// What a row holds at the start.
    fn first(&self, row: usize, colour: usize) -> Vec<f32> {
        let is_edge = row == 0 || row == self.rows - 1;
        let mut values = vec![if is_edge { 1.0 } else { 0.0 }; self.half];
        // The first and the last point of a row, whichever colour they have.
        if (row + colour).is_multiple_of(2) {
            values[0] = 1.0;
        } else {
            values[self.half - 1] = 1.0;
        }
        values
    }

    /// One row of one colour; `other` are the rows above, beside and below of the other colour.
    fn relax(&self, row: usize, colour: usize, mine: &mut [f32], other: [&[f32]; 3]) {
        let [above, beside, below] = other;
        // In every second row the neighbours to the left and to the right change places.
        let shifted = usize::from(!(row + colour).is_multiple_of(2));
        for at in 1 - shifted..self.half - shifted {
            let neighbours = beside[at + shifted - 1] + beside[at + shifted];
            let mean = (above[at] + below[at] + neighbours) * 0.25;
            mine[at] += OMEGA * (mean - mine[at]);
        }
    }
}

impl Kernel for Sor {
    fn bytes(&self) -> u64 {
        (2 * self.rows * self.half * 4) as u64 + (1 << 16)
    }

    fn run(&mut self, machine: &mut Machine<'_, '_>) -> Result<()> {
        let points = self.rows * self.half;
        let grids = [(); 2].map(|()| machine.dsm.alloc_at::<f32>(points, Placement::Pages));
        let [red, black] = grids;
        let grids = [red?, black?];
        self.grids = Some(grids);
        let mine = machine.part(self.rows);
        for row in mine.clone() {
            for (colour, &grid) in grids.iter().enumerate() {
                machine.dsm.view_mut(grid, self.row(row))?.copy_from(0, &self.first(row, colour));
            }
        }
        machine.dsm.barrier()?;
        let mut rows: [Vec<f32>; 4] = std::array::from_fn(|_| vec![0.0; self.half]);
        for _ in 0..self.iterations {
            for colour in 0..2 {
                for row in mine.start.max(1)..mine.end.min(self.rows - 1) {
                    let (own, others) = rows.split_at_mut(1);
                    for (into, row) in others.iter_mut().zip(row - 1..) {
                        machine.dsm.view(grids[1 - colour], self.row(row))?.copy_to(0, into);
                    }
                    let view = machine.dsm.view_mut(grids[colour], self.row(row))?;
                    view.copy_to(0, &mut own[0]);
                    self.relax(row, colour, &mut own[0], [&others[0], &others[1], &others[2]]);
                    view.copy_from(0, &own[0]);
                    machine.computes(FLOPS * self.half);
                }
                machine.dsm.barrier()?;
            }
        }
        Ok(())
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for grid in self.grids.into_iter().flatten() {
            all.extend(dsm.view(grid, 0..grid.len())?.iter().map(f64::from));
        }
        Ok(all)
    }

    fn sequential(&self) -> Vec<f64> {
        let mut grids: [Vec<f32>; 2] = std::array::from_fn(|colour| {
            (0..self.rows).flat_map(|row| self.first(row, colour)).collect()
        });
        for _ in 0..self.iterations {
            for colour in 0..2 {
                let [red, black] = &mut grids;
                let (own, other) = if colour == 0 { (red, black) } else { (black, red) };
                for row in 1..self.rows - 1 {
                    let others = [row - 1, row, row + 1].map(|row| &other[self.row(row)]);
                    self.relax(row, colour, &mut own[self.row(row)], others);
                }
            }
        }
        grids.concat().into_iter().map(f64::from).collect()
    }

    fn picture(&self, result: &[f64]) -> String {
        picture::field("SOR, red points", &result[..result.len() / 2], self.half)
    }
}
