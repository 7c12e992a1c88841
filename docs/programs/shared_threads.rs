use farside::World;
use farside::dsm::{Config, Dsm};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
    let grid = dsm.alloc::<f64>(1000)?;
    let mine = dsm.part_of(0..1000);
    let half = mine.len() / 2;
    let part = dsm.lend().write(grid, mine)?;
    let (mut left, mut right) = part.split_at(half);
    std::thread::scope(|scope| {
        scope.spawn(move || left.fill(1.0));
        scope.spawn(move || right.fill(1.0));
    });
    dsm.barrier()?;
    assert_eq!(dsm.view(grid, 0..1000)?.iter().sum::<f64>(), 1000.0);
    dsm.close()
}
