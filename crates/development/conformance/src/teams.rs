//! Subsets of the ranks.

use farside::{Error, Rank, Result, World};

use crate::{ensure, ensure_eq};

pub(crate) fn teams_by_colour(world: &World) -> Result<()> {
    // Two teams, ordered backwards by their key.
    let me = world.rank().0;
    let team =
        world.split(Some(u64::from(me % 2)), u64::from(100 - me))?.expect("everybody has a colour");
    let expected: Vec<Rank> = world.ranks().filter(|rank| rank.0 % 2 == me % 2).rev().collect();
    ensure_eq(team.members(), &expected[..], "members")?;
    ensure_eq(team.members()[team.index()], world.rank(), "own position")?;
    ensure_eq(team.size(), expected.len(), "size")?;
    let all = team.all_gather(&[me])?;
    ensure(all.into_iter().eq(expected.iter().map(|rank| rank.0)), || {
        "gathered in the order of the team".into()
    })?;
    let root = expected[0];
    let mut data = [me];
    team.broadcast(root, &mut data)?;
    ensure_eq(data[0], root.0, "broadcast in a team")?;
    let stranger = world.ranks().find(|rank| rank.0 % 2 != me % 2);
    if let Some(stranger) = stranger {
        let refused = team.broadcast(stranger, &mut data);
        ensure_eq(
            refused,
            Err(Error::NotAMember { rank: stranger, of: "team" }),
            "a root outside",
        )?;
    }
    world.barrier()
}

pub(crate) fn teams_are_independent(world: &World) -> Result<()> {
    // One team does many collectives while the other does few.
    let me = world.rank().0;
    let team = world.split(Some(u64::from(me % 2)), 0)?.expect("everybody has a colour");
    for round in 0..if me.is_multiple_of(2) { 100 } else { 3 } {
        let mut sum = [round];
        team.all_reduce(&mut sum, |a, b| a + b)?;
        ensure_eq(sum[0], round * team.size() as i32, "a sum in a team")?;
        team.barrier()?;
    }
    world.barrier()
}

pub(crate) fn teams_can_be_split_again(world: &World) -> Result<()> {
    let me = world.rank().0;
    let most = world.split(if me == 0 { None } else { Some(5) }, 0)?;
    if let Some(most) = most {
        ensure_eq(most.size(), world.size() as usize - 1, "all but one")?;
        let single = most.split(Some(u64::from(me)), 0)?.expect("everybody has a colour");
        ensure_eq(single.members(), &[world.rank()][..], "a team of one")?;
        single.barrier()?;
        let mut data = [me];
        single.all_reduce(&mut data, |a, b| a + b)?;
        ensure_eq(data[0], me, "a sum of one")?;
    }
    world.barrier()
}

pub(crate) fn a_team_of_one_node(world: &World) -> Result<()> {
    let team = world.split_by_node()?;
    let topology = world.topology();
    ensure_eq(
        team.members(),
        topology.ranks_of(topology.node_of(world.rank())),
        "members of the node",
    )?;
    team.barrier()?;
    world.barrier()
}

pub(crate) fn windows_of_a_team(world: &World) -> Result<()> {
    let me = world.rank().0;
    let team = world.split(Some(u64::from(me % 2)), 0)?.expect("everybody has a colour");
    let window = team.window::<u32>(3)?;
    let words = team.words(1)?;
    for &peer in team.members() {
        world.fetch_add(words.at(peer, 0), 1)?;
        world.put(&[me], window.at(peer, 1))?;
    }
    team.sync()?;
    ensure_eq(world.load(words.at(world.rank(), 0))?, team.size() as u64, "arrivals in the team")?;
    ensure(window.own().get(1)? % 2 == me % 2, || "a put from outside of the team".into())?;
    let stranger = world.ranks().find(|rank| rank.0 % 2 != me % 2);
    if let Some(stranger) = stranger {
        let refused = world.put(&[1], window.at(stranger, 0));
        ensure_eq(
            refused,
            Err(Error::NotAMember { rank: stranger, of: "window" }),
            "a put to a stranger",
        )?;
    }
    words.free(&team)?;
    window.free(&team)?;
    world.barrier()
}

pub(crate) fn teams_come_and_go(world: &World) -> Result<()> {
    for round in 0..50u32 {
        let team = world
            .split(Some(u64::from((world.rank().0 + round) % 2)), 0)?
            .expect("everybody has a colour");
        let mut sum = [1u32];
        team.all_reduce(&mut sum, |a, b| a + b)?;
        ensure_eq(sum[0] as usize, team.size(), "members counted")?;
        team.free()?;
    }
    let refused = world.team().free();
    ensure(matches!(refused, Err(Error::InvalidState(_))), || {
        format!("the world was freed: {refused:?}")
    })
}

pub(crate) fn who_has_no_colour_has_no_team(world: &World) -> Result<()> {
    let team = world.split(None, 0)?;
    ensure(team.is_none(), || "a team of nobody".into())
}

/// What members of a team put before its sync, to any rank, is seen by every member after it,
/// whatever the others do meanwhile: for teams that are spread over the nodes, and teams of one.
pub(crate) fn a_team_syncs(world: &World) -> Result<()> {
    let (me, n) = (world.rank(), world.size() as usize);
    let window = world.window::<u64>(n)?;
    let spread = world.split(Some(u64::from(me.0 % 2)), 0)?.expect("everybody has a colour");
    let alone = world.split(Some(u64::from(me.0)), 0)?.expect("everybody has a colour");
    for team in [&spread, &alone] {
        for round in 1..=20u64 {
            for peer in world.ranks() {
                world.put(&[round], window.at(peer, me.index()))?;
            }
            team.sync()?;
            for &member in team.members() {
                for peer in world.ranks() {
                    let seen = world.get_value(window.at(peer, member.index()))?;
                    ensure(seen >= round, || format!("{seen} of {round} from {member} at {peer}"))?;
                }
            }
        }
        world.sync()?;
        window.own().write(0, &vec![0; n])?;
        world.sync()?;
    }
    alone.free()?;
    spread.free()?;
    window.free(world)
}

pub(crate) fn a_team_of_all_ranks_in_another_order_syncs(world: &World) -> Result<()> {
    let (me, n) = (world.rank(), world.size() as usize);
    let window = world.window::<u64>(n)?;
    // Both count what lands, each for itself.
    let team = world.split(Some(0), u64::from(1000 - me.0))?.expect("everybody has a colour");
    for round in 1..=20u64 {
        for peer in world.ranks() {
            world.put(&[round], window.at(peer, me.index()))?;
        }
        if round % 3 == 0 {
            world.sync()?
        } else {
            team.sync()?
        }
        ensure_eq(window.own().to_vec()?, vec![round; n], "puts of all ranks")?;
        team.barrier()?;
    }
    team.free()?;
    window.free(world)
}
