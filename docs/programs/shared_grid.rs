use farside::World;
use farside::dsm::{Config, Dsm};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let mut dsm = Dsm::new(world, Config::new(1 << 20))?; // collective
    let grid = dsm.alloc::<f64>(1000)?; // every rank, in the same order
    let mine = dsm.part_of(0..1000);
    let first = mine.start;
    let part = dsm.view_mut(grid, mine.clone())?;
    mine.for_each(|at| part.set(at - first, at as f64)); // plain stores
    dsm.barrier()?;
    let all: f64 = dsm.view(grid, 0..1000)?.iter().sum(); // plain loads; pages come as touched
    assert_eq!(all, 999.0 * 500.0);
    dsm.close()
}
