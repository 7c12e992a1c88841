use farside::World;
use farside::dsm::{Config, Dsm, Shared, SharedHeap};
use farside::zerocopy::{FromBytes, Immutable, IntoBytes};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[zerocopy(crate = "farside::zerocopy")]
#[repr(C)]
struct Node {
    next: Shared<Node>,
    value: u64,
}

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
    let heap = SharedHeap::new(&mut dsm, 1 << 16, 0)?; // every rank; lock 0 guards it
    let first = dsm.alloc::<Shared<Node>>(1)?;
    let node = heap.alloc::<Node>(&mut dsm, 1)?; // this rank alone
    dsm.locked(1, |dsm| {
        let value = u64::from(world.rank().0);
        dsm.set(node, 0, Node { next: dsm.get(first, 0)?, value })?;
        dsm.set(first, 0, node)
    })?;
    dsm.barrier()?;
    let (mut sum, mut node) = (0, dsm.get(first, 0)?);
    while !node.is_empty() {
        let Node { next, value } = dsm.get(node, 0)?;
        (sum, node) = (sum + value, next);
    }
    assert_eq!(sum, (0..u64::from(world.size())).sum());
    dsm.close()
}
