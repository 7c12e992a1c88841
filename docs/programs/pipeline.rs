use farside::{Rank, World};

const BLOCK: usize = 64;
const SLOTS: u64 = 4;
const BLOCKS: u64 = 100;

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let me = world.rank();
    let ring = world.window::<u64>(BLOCK * SLOTS as usize)?;
    let come = world.window::<u64>(1)?; // written by the stage before
    let done = world.window::<u64>(1)?; // written by the stage after
    let (is_first, is_last) = (me == Rank(0), me.0 + 1 == world.size());
    for number in 0..BLOCKS {
        let slot = (number % SLOTS) as usize * BLOCK;
        let mut block = vec![number; BLOCK];
        world.fence()?; // the last block's signals arrive before this block's
        if !is_first {
            world.wait(come.at(me, 0), |count| count > number)?;
            ring.own().read(slot, &mut block)?;
            world.signal(done.at(Rank(me.0 - 1), 0), number + 1)?; // the slot is free
        }
        block.iter_mut().for_each(|value| *value += 1); // this stage's work
        if !is_last {
            let next = Rank(me.0 + 1);
            world.wait(done.at(me, 0), |free| free + SLOTS > number)?; // a slot is free there
            world.put_signal(&block, ring.at(next, slot), number + 1, come.at(next, 0))?;
        } else {
            assert_eq!(block, vec![number + u64::from(world.size()); BLOCK]);
        }
    }
    world.sync()?;
    ring.free(world)?;
    come.free(world)?;
    done.free(world)
}
