use farside::World;
use farside::dsm::{Config, Dsm, Placement};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let (rows, columns, iterations) = (64, 64, 10);
    let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
    let grid = dsm.alloc_at::<f32>(rows * columns, Placement::Pages)?;
    dsm.parallel_for(0..columns, |dsm, part| {
        dsm.view_mut(grid, part)?.fill(1.0);
        Ok(())
    })?;
    for colour in (0..2).cycle().take(2 * iterations) {
        dsm.parallel_for(1..rows - 1, |dsm, part| {
            for row in part {
                let around = dsm.view(grid, (row - 1) * columns..(row + 2) * columns)?;
                let mine = dsm.view_mut(grid, row * columns..(row + 1) * columns)?;
                for at in (1..columns - 1).filter(|at| (row + at) % 2 == colour) {
                    let sides = mine.get(at - 1) + mine.get(at + 1);
                    let mean = (around.get(at) + around.get(2 * columns + at) + sides) / 4.0;
                    mine.set(at, mine.get(at) + 1.25 * (mean - mine.get(at)));
                }
            }
            Ok(())
        })?;
    }
    let hottest = dsm.view(grid, columns..2 * columns)?.iter().fold(0.0, f32::max);
    println!("{}: the hottest point of the second row has {hottest}", world.rank());
    assert!(hottest > 0.5);
    dsm.close()
}
