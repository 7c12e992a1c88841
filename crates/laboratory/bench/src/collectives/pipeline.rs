//! A wavefront that goes through all ranks, as that of the Parallel Research Kernels (p2p): a grid
//! whose columns are divided among the ranks, each cell made of three neighbours, so that every row
//! hands one value on to the next rank; the last cell goes back to the first.

use farside::{Error, Place, Rank, Result, Window, World};

/// Rows and columns of the grid.
const SIDE: usize = 1024;
/// What is handed on at once.
pub(super) const VALUE_BYTES: usize = size_of::<f64>();

/// A rank's columns, and what it is handed.
pub(super) struct Pipeline {
    /// Row by row; the first column is the last one of the rank before, or the border.
    cells: Vec<f64>,
    width: usize,
    /// One value for each row, and behind them that of the last cell.
    values: Window<f64>,
    come: Window<u64>,
    taken: u64,
    sweeps: u64,
}

impl Pipeline {
    pub(super) fn new(world: &World) -> Result<Pipeline> {
        let (me, size) = (world.rank().index(), world.size() as usize);
        // The first column is the border of rank 0; of the others it belongs to the one before.
        let columns = me * (SIDE - 1) / size..(me + 1) * (SIDE - 1) / size;
        let width = columns.len() + 1;
        let mut cells = vec![0.0; SIDE * width];
        for (at, cell) in cells[..width].iter_mut().enumerate() {
            *cell = (columns.start + at) as f64;
        }
        if me == 0 {
            cells.chunks_mut(width).enumerate().for_each(|(row, cells)| cells[0] = row as f64);
        }
        let (values, come) = (world.window(SIDE + 1)?, world.window(1)?);
        Ok(Pipeline { cells, width, values, come, taken: 0, sweeps: 0 })
    }

    pub(super) fn sweep(&mut self, world: &World) -> Result<()> {
        let (me, last) = (world.rank(), Rank(world.size() - 1));
        self.sweeps += 1;
        for row in 1..SIDE {
            if me != Rank(0) {
                self.cells[row * self.width] = self.receive(world, row)?;
            }
            let (above, below) = self.cells.split_at_mut(row * self.width);
            advance(&above[(row - 1) * self.width..], &mut below[..self.width]);
            if me != last {
                let value = self.cells[(row + 1) * self.width - 1];
                self.send(world, Rank(me.0 + 1), row, value)?;
            }
        }
        // The next sweep begins with the last cell of this one.
        if me == last {
            self.send(world, Rank(0), SIDE, -self.cells[SIDE * self.width - 1])?;
        }
        if me == Rank(0) {
            self.cells[0] = self.receive(world, SIDE)?;
        }
        Ok(())
    }

    fn send(&self, world: &World, to: Rank, row: usize, value: f64) -> Result<()> {
        let at: Place<'_, f64> = self.values.at(to, row);
        // The count says how many values have come, and not which: they must come in order.
        world.fence()?;
        world.put_signal_add(&[value], at, 1, self.come.at(to, 0))
    }

    fn receive(&mut self, world: &World, row: usize) -> Result<f64> {
        self.taken += 1;
        let taken = self.taken;
        world.wait(self.come.at(world.rank(), 0), |come| come >= taken)?;
        self.values.own().get(row)
    }

    /// The last cell is known beforehand.
    pub(super) fn check(&self, world: &World) -> Result<()> {
        let corner = self.cells[SIDE * self.width - 1];
        let expected = (self.sweeps * 2 * (SIDE as u64 - 1)) as f64;
        match world.rank() != Rank(world.size() - 1) || corner == expected {
            true => Ok(()),
            false => Err(Error::Program(format!("the last cell is {corner}, not {expected}"))),
        }
    }

    pub(super) fn free(self, world: &World) -> Result<()> {
        self.values.free(world)?;
        self.come.free(world)
    }
}

/// Makes a row of the one above it, from its first cell on.
fn advance(above: &[f64], row: &mut [f64]) {
    let mut left = row[0];
    for (pair, cell) in above.windows(2).zip(&mut row[1..]) {
        left = left + pair[1] - pair[0];
        *cell = left;
    }
}
