//! The *Cost* lines of the collectives, counted.

use farside::fabric::counting::Counts;
use farside::fabric::observed::Kind;
use farside::{BarrierKind, Local, Patch, Rank, Result, SyncKind, World};

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
    let each = |world: &World| {
        world.barrier()?;
        let before = count(world.rank());
        run(world)?;
        let counted = count(world.rank()) - before;
        // Those who still wait would ask a rank that has left what it has done.
        world.barrier()?;
        Ok(counted)
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
fn a_binomial_barrier_sends_one_signal_up_and_one_down() {
    for ranks in [2, 3, 5, 8] {
        let signals = counted(ranks, local(ranks, 64), Kind::Post, |world| {
            world.barrier_by(BarrierKind::Binomial)
        });
        assert_eq!(signals.iter().sum::<u64>(), 2 * u64::from(ranks - 1), "{ranks} ranks");
    }
}

#[test]
fn a_hierarchical_barrier_sends_log_of_the_nodes_signals_from_each_root() {
    // Three nodes of three, three and two ranks.
    let signals = counted(8, local(8, 64).topology("node:3"), Kind::Post, |world| {
        world.barrier_by(BarrierKind::Hierarchical)
    });
    assert_eq!(signals.iter().sum::<u64>(), 2 * (8 - 3) + 3 * rounds(3));
}

#[test]
fn a_counted_sync_sends_log_n_messages_and_signals_from_each_node() {
    for ranks in [2, 4, 8] {
        let sync = |kind| {
            counted(ranks, local(ranks, 64).nodes(ranks), kind, |world| {
                world.sync_by(SyncKind::Counted)
            })
        };
        // The first sync allocates its memory; the one that is counted comes after it.
        let of_second = |kind| {
            let twice = counted(ranks, local(ranks, 64).nodes(ranks), kind, |world| {
                world.sync_by(SyncKind::Counted)?;
                world.sync_by(SyncKind::Counted)
            });
            twice.into_iter().zip(sync(kind)).map(|(two, one)| two - one).collect::<Vec<_>>()
        };
        assert_eq!(of_second(Kind::PutSignal), vec![rounds(ranks); ranks as usize]);
        assert_eq!(of_second(Kind::Post), vec![rounds(ranks); ranks as usize]);
    }
}

#[test]
fn a_started_reduction_costs_each_one_atomic_and_the_last_the_rest() {
    let ranks = 5;
    let run = |kind| {
        let counts = counted(ranks, local(ranks, 64), kind, |world| {
            world.all_reduce_nb(&[1u64], |a, b| a + b)?.wait().map(drop)
        });
        counts.iter().sum::<u64>()
    };
    // One arrival for each member, and one store that resets the counter.
    assert_eq!(run(Kind::Atomic), u64::from(ranks) + 1);
    assert_eq!(run(Kind::Get), u64::from(ranks) - 1);
    assert_eq!(run(Kind::PutSignal), u64::from(ranks) - 1);
}

#[test]
fn a_tree_scan_sends_log_n_messages() {
    let ranks = 8u32;
    let run = |is_exclusive: bool| {
        let tree = local(ranks, 64).topology("node:2");
        let messages = counted(ranks, tree, Kind::PutSignal, move |world| {
            if is_exclusive {
                world.exclusive_scan(&mut [1u64], 0, |a, b| a + b)
            } else {
                world.scan(&mut [1u64], |a, b| a + b)
            }
        });
        messages.iter().sum::<u64>()
    };
    // In round k, all but the last 2^k.
    let scan = u64::from((ranks - 1) + (ranks - 2) + (ranks - 4));
    assert_eq!(run(false), scan);
    assert_eq!(run(true), scan + u64::from(ranks) - 1);
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
