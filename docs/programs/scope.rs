use farside::World;

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let window = world.window::<u64>(100)?;
    world.put(&[u64::from(world.rank().0); 100], window.at(world.rank(), 0))?;
    world.sync()?;
    let mut rows = vec![[0_u64; 100]; world.size() as usize];
    world.scope(|scope| {
        for (row, peer) in rows.iter_mut().zip(world.ranks()) {
            let _ = scope.get_nb(window.at(peer, 0), row)?; // complete at the scope's end
        }
        Ok(())
    })?;
    assert!(rows.iter().enumerate().all(|(rank, row)| row[99] == rank as u64));
    println!("{} has read {} rows", world.rank(), rows.len());
    world.sync()?;
    window.free(world)
}
