use farside::array::{Builder, Distribution, ndarray::Array2};
use farside::{GlobalArray, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let a = GlobalArray::<f64>::new(world, &[1000, 1000])?; // regular blocks
    let cyclic = Distribution::BlockCyclic(vec![64, 64]);
    let b = Builder::new(&[1000, 1000]).distribution(cyclic).create::<f64>(world)?;
    a.fill(1.0)?;
    if world.rank().0 == 0 {
        a.put([10..20, 30..50], Array2::<f64>::zeros((10, 20)).view())?; // a patch, of any owner
    }
    a.sync()?; // the combined fence and barrier
    b.copy_from(&a)?;
    assert_eq!(b.sum()?, 1e6 - 200.0);
    b.free()?;
    a.free()
}
