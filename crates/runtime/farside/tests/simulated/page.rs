use farside::{Rank, World};

#[farside::test(ranks = 3)]
fn nobody_draws_the_same_ticket(world: &World) -> farside::Result<()> {
    let tickets = world.words(1)?;
    farside::check::begin(world);
    let mine = world.fetch_add(tickets.at(Rank(0), 0), 1)?;
    assert!(mine < 3);
    Ok(())
}
