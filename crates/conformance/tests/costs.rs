//! The *Cost* lines of the collectives, counted.

use farside::counting::Counts;
use farside::observed::Kind;
use farside::{Local, Patch, Rank, Result, World};

/// How many operations of a kind each rank has done to others in `run`. A rank's own counts change
/// through nobody else.
fn counted(
    ranks: u32,
    local: Local,
    kind: Kind,
    run: impl Fn(&World) -> Result<()> + Sync,
) -> Vec<u64> {
    let counts = Counts::new(ranks);
    let over = counts.clone();
    let count = |me: Rank| -> u64 {
        let all = (0..ranks).map(Rank).filter(|&to| kind == Kind::Atomic || to != me);
        all.map(|to| counts.operations(me, kind, to)).sum()
    };
    let each = |world: World| {
        world.barrier()?;
        let before = count(world.rank());
        run(&world)?;
        Ok(count(world.rank()) - before)
    };
    local.decorate(move |fabric| over.over(fabric)).run(each).expect("the job ends well")
}

fn local(ranks: u32, cores: u32) -> Local {
    Local::new(ranks).expect("the environment is in order").cores(cores)
}

fn rounds(ranks: u32) -> u64 {
    ranks.next_power_of_two().ilog2().into()
}

#[test]
fn a_dissemination_barrier_sends_log_n_signals() {
    for ranks in [2, 3, 4, 5, 8, 9] {
        let signals = counted(ranks, local(ranks, 64), Kind::Post, World::barrier);
        assert_eq!(signals, vec![rounds(ranks); ranks as usize], "{ranks} ranks");
    }
}

#[test]
fn a_central_barrier_counts_once_and_releases_each() {
    let ranks = 6;
    // One arrival for each member, and one store that resets the counter.
    let atomics: u64 = counted(ranks, local(ranks, 1), Kind::Atomic, World::barrier).iter().sum();
    assert_eq!(atomics, u64::from(ranks) + 1);
    let releases: u64 = counted(ranks, local(ranks, 1), Kind::Post, World::barrier).iter().sum();
    assert_eq!(releases, u64::from(ranks) - 1);
}

#[test]
fn a_tree_broadcast_sends_n_minus_one_messages() {
    for ranks in [2, 3, 5, 8] {
        let tree = local(ranks, 64).topology("node:2");
        let messages = counted(ranks, tree, Kind::PutSignal, |world| {
            world.broadcast(Rank(1), &mut [1u64; 100])
        });
        assert_eq!(messages.iter().sum::<u64>(), u64::from(ranks) - 1, "{ranks} ranks");
    }
}

#[test]
fn a_tree_all_gather_sends_log_n_messages_from_each() {
    for ranks in [2, 3, 5, 8] {
        let tree = local(ranks, 64).topology("node:2");
        let messages =
            counted(ranks, tree, Kind::PutSignal, |world| world.all_gather(&[1u64; 10]).map(drop));
        assert_eq!(messages, vec![rounds(ranks); ranks as usize], "{ranks} ranks");
    }
}

#[test]
fn a_strided_put_is_one_request() {
    let puts = counted(2, local(2, 64), Kind::Put, |world| {
        let window = world.window::<u64>(1000)?;
        let patch = Patch { counts: &[10, 10], near: &[10, 1], far: &[100, 1] };
        if world.rank() == Rank(0) {
            world.put_strided(&[7; 100], window.at(Rank(1), 0), &patch)?;
        }
        world.sync()?;
        window.free(world)
    });
    assert_eq!(puts, [1, 0]);
}
