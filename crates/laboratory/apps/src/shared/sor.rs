//! Red-black successive over-relaxation: a grid whose edges are one and whose inside is zero at the
//! start.
//!
//! The red and the black points are two shared arrays. A rank has some rows of both; it needs one
//! row of its neighbours on either side.

use std::cell::Cell;
use std::ops::Range;

use farside::Result;
use farside::dsm::{Dsm, Placement, Shared};

use super::{Base, Kernel, Machine, Options, SharedRun, picture};

/// How far each step goes beyond the mean of the neighbours.
const OMEGA: f32 = 1.25;
/// Operations for each point.
const FLOPS: usize = 7;

#[derive(Clone)]
pub(super) struct Sor {
    rows: usize,
    /// Points of each colour in a row.
    half: usize,
    iterations: usize,
}

impl Sor {
    pub(super) fn new(size: &[usize], iterations: usize) -> Result<Sor> {
        let [rows, columns] = Options::check_size("sor", size, 4)?;
        Ok(Sor { rows, half: columns.div_ceil(2), iterations })
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

    /// The points of a row that change: in every second row the neighbours to the left and to the
    /// right change places.
    fn inside(&self, row: usize, colour: usize) -> Range<usize> {
        let shifted = usize::from(!(row + colour).is_multiple_of(2));
        1 - shifted..self.half - shifted
    }
}

/// The neighbours of some points of a row, which have the other colour.
struct Around<I> {
    above: I,
    below: I,
    left: I,
    right: I,
}

/// Moves points of one row of one colour towards the mean of their neighbours, and beyond.
fn relax(mine: &[Cell<f32>], around: Around<impl Iterator<Item = f32>>) {
    let Around { above, below, left, right } = around;
    let others = above.zip(below).zip(left.zip(right));
    for (point, ((above, below), (left, right))) in mine.iter().zip(others) {
        let mean = (above + below + (left + right)) * 0.25;
        point.set(point.get() + OMEGA * (mean - point.get()));
    }
}

impl Kernel for Sor {
    fn bytes(&self) -> u64 {
        (2 * self.rows * self.half * 4) as u64 + (1 << 16)
    }

    fn steps(&self) -> usize {
        self.iterations
    }

    fn prepare(&self, machine: &mut Machine<'_, '_>) -> Result<Box<dyn SharedRun>> {
        let points = self.rows * self.half;
        let grids = [(); 2].map(|()| machine.dsm.alloc_at::<f32>(points, Placement::Pages));
        let [red, black] = grids;
        let grids = [red?, black?];
        let mine = machine.part(self.rows);
        for row in mine.clone() {
            for (colour, &grid) in grids.iter().enumerate() {
                machine.dsm.view_mut(grid, self.row(row))?.copy_from(0, &self.first(row, colour));
            }
        }
        machine.dsm.barrier()?;
        Ok(Box::new(SharedSor { sor: self.clone(), grids, mine }))
    }

    fn base(&self) -> Box<dyn Base> {
        let grids = std::array::from_fn(|colour| {
            (0..self.rows).flat_map(|row| self.first(row, colour)).collect()
        });
        Box::new(OwnSor { sor: self.clone(), grids })
    }

    fn picture(&self, result: &[f64]) -> String {
        picture::field("SOR, red points", &result[..result.len() / 2], self.half)
    }
}

struct SharedSor {
    sor: Sor,
    grids: [Shared<f32>; 2],
    mine: Range<usize>,
}

impl SharedRun for SharedSor {
    fn step(&mut self, machine: &mut Machine<'_, '_>, _: usize) -> Result<()> {
        let SharedSor { sor, grids, mine } = self;
        for colour in 0..2 {
            for row in mine.start.max(1)..mine.end.min(sor.rows - 1) {
                let other = |row| machine.dsm.view(grids[1 - colour], sor.row(row));
                let (above, beside, below) = (other(row - 1)?, other(row)?, other(row + 1)?);
                let mine = machine.dsm.view_mut(grids[colour], sor.row(row))?;
                let inside = sor.inside(row, colour);
                // SAFETY: between two barriers, ranks store to points of one colour, each to its
                // own rows, and load points of the other.
                let [above, below, left, right, mine] = unsafe {
                    [
                        above.slice(inside.clone()).cells(),
                        below.slice(inside.clone()).cells(),
                        beside.slice(0..sor.half - 1).cells(),
                        beside.slice(1..sor.half).cells(),
                        &mine.cells()[inside],
                    ]
                };
                let around = Around {
                    above: above.iter().map(Cell::get),
                    below: below.iter().map(Cell::get),
                    left: left.iter().map(Cell::get),
                    right: right.iter().map(Cell::get),
                };
                relax(mine, around);
                machine.computes(FLOPS * sor.half);
            }
            machine.dsm.barrier()?;
        }
        Ok(())
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for grid in self.grids {
            all.extend(dsm.view(grid, 0..grid.len())?.iter().map(f64::from));
        }
        Ok(all)
    }
}

struct OwnSor {
    sor: Sor,
    grids: [Vec<f32>; 2],
}

impl Base for OwnSor {
    fn step(&mut self, _: usize) -> usize {
        let OwnSor { sor, grids } = self;
        let mut operations = 0;
        for colour in 0..2 {
            let [red, black] = &mut *grids;
            let (own, other) = if colour == 0 { (red, black) } else { (black, red) };
            for row in 1..sor.rows - 1 {
                let [above, beside, below] =
                    [row - 1, row, row + 1].map(|row| &other[sor.row(row)]);
                let inside = sor.inside(row, colour);
                let around = Around {
                    above: above[inside.clone()].iter().copied(),
                    below: below[inside.clone()].iter().copied(),
                    left: beside[..sor.half - 1].iter().copied(),
                    right: beside[1..].iter().copied(),
                };
                let mine = Cell::from_mut(&mut own[sor.row(row)]).as_slice_of_cells();
                relax(&mine[inside], around);
                operations += FLOPS * sor.half;
            }
        }
        operations
    }

    fn result(&self) -> Vec<f64> {
        self.grids.iter().flatten().map(|&value| value.into()).collect()
    }
}
