//! T_DC says where readers count themselves: as many neighbours as it says share a counter, at the
//! first of them.

use farside::rw::Kind;
use farside::sim::{Policy, What, explore, program, replay, simulation};
use farside::{Rank, RwLock};

/// Returns the rank whose memory each rank goes to when it reads, alone, under a lock with this
/// T_DC.
fn counters(ranks: u32, topology: &str, t_dc: Option<u32>) -> Vec<u32> {
    let kind = Kind::RmaRw { t_dc, t_l: vec![4], t_r: 1000 };
    let reads = program(
        move |world| RwLock::of_kind(world, Rank(0), &kind),
        |world, lock| lock.read(world)?.unlock(),
    );
    let simulation = simulation(ranks, Some(topology)).expect("a topology");
    let one: Policy = "random".parse().expect("a policy");
    assert!(explore(&simulation, &reads, one, 0, &mut |_| false).failure.is_none());
    let run = replay(&simulation, &reads, "0").expect("a schedule");
    let target = |rank: u32| {
        let own = run.steps.iter().filter(|step| step.event.id.rank == Rank(rank));
        let targets: Vec<u32> = own
            .filter_map(|step| match step.event.what {
                What::Atomic(_, word) => Some(word.rank.0),
                _ => None,
            })
            .collect();
        assert!(
            targets.windows(2).all(|pair| pair[0] == pair[1]),
            "rank {rank} goes to {targets:?}"
        );
        targets[0]
    };
    (0..ranks).map(target).collect()
}

#[test]
fn readers_count_themselves_where_t_dc_says() {
    assert_eq!(counters(8, "node:2", None), [0, 0, 0, 0, 4, 4, 4, 4]);
    assert_eq!(counters(8, "node:2", Some(1)), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(counters(8, "node:2", Some(2)), [0, 0, 2, 2, 4, 4, 6, 6]);
    // Neighbours of a node: three and one. Whole nodes, if there is room.
    assert_eq!(counters(8, "node:2", Some(3)), [0, 0, 0, 3, 4, 4, 4, 7]);
    assert_eq!(counters(8, "node:2", Some(8)), [0; 8]);
    assert_eq!(counters(8, "rack:2,node:2,socket:2", Some(4)), [0, 0, 0, 0, 4, 4, 4, 4]);
}
