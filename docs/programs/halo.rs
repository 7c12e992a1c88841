use farside::{Rank, World};

const CELLS: usize = 100;
const STEPS: u64 = 50;

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let me = world.rank();
    let rods = [world.window::<f64>(CELLS + 2)?, world.window::<f64>(CELLS + 2)?];
    let arrived = world.window::<u64>(2)?; // the last step whose edge came from left and right
    let left = me.0.checked_sub(1).map(Rank);
    let right = Some(Rank(me.0 + 1)).filter(|right| right.0 < world.size());
    if me == Rank(0) {
        rods[0].own().set(1, 1000.0)?;
    }
    world.sync()?;
    for step in 1..=STEPS {
        let (old, new) = (&rods[(step % 2) as usize ^ 1], &rods[(step % 2) as usize]);
        world.fence()?; // the last step's signals arrive before this step's
        if let Some(left) = left {
            let edge = [old.own().get(1)?];
            world.put_signal(&edge, old.at(left, CELLS + 1), step, arrived.at(left, 1))?;
        }
        if let Some(right) = right {
            let edge = [old.own().get(CELLS)?];
            world.put_signal(&edge, old.at(right, 0), step, arrived.at(right, 0))?;
        }
        if left.is_some() {
            world.wait(arrived.at(me, 0), |from_left| from_left >= step)?;
        }
        if right.is_some() {
            world.wait(arrived.at(me, 1), |from_right| from_right >= step)?;
        }
        let from = old.own().to_vec()?;
        let to: Vec<f64> = (1..=CELLS)
            .map(|cell| from[cell] + 0.25 * (from[cell - 1] - 2.0 * from[cell] + from[cell + 1]))
            .collect();
        new.own().write(1, &to)?;
    }
    let mut heat = [rods[STEPS as usize % 2].own().to_vec()?[1..=CELLS].iter().sum::<f64>()];
    world.all_reduce(&mut heat, |a, b| a + b)?;
    assert!(heat[0] > 0.0 && heat[0] <= 1000.0);
    world.sync()?;
    let [one, other] = rods;
    one.free(world)?;
    other.free(world)?;
    arrived.free(world)
}
