//! Generated litmus tests: the simulator against the axioms of the memory model.

use farside::sim::Reduction;
use farside_check::generated::Litmus;
use farside_check::generated::axioms::Axioms;
use farside_fabric::random::SplitMix;

/// How many programs are tried of each size; more where there is time.
fn count(usual: usize) -> usize {
    if std::env::var_os("FARSIDE_LONG").is_some() { 50 * usual } else { usual }
}

/// Returns other programs with each `FARSIDE_TEST_SEED`.
fn of_today(seed: u64) -> u64 {
    farside_testing::seed().wrapping_mul(1000) + seed
}

fn compare(seed: u64, programs: usize, generate: impl Fn(&mut SplitMix) -> Litmus) {
    let seed = of_today(seed);
    let mut random = SplitMix::new(seed);
    for _ in 0..programs {
        let litmus = generate(&mut random);
        match litmus.compare(&Axioms::default()) {
            Ok(None) => {}
            Ok(Some(difference)) => panic!("seed {seed}:\n{difference}"),
            Err(problem) => panic!("seed {seed}: {problem}\n{litmus}"),
        }
    }
}

#[test]
fn the_simulator_shows_what_the_axioms_allow_and_nothing_else() {
    compare(1, count(1000), |random| Litmus::random(random, 2, 3));
    compare(2, count(500), |random| Litmus::random(random, 3, 2));
    compare(3, count(500), Litmus::random_passing);
}

/// With reduction and without, programs that use their own memory directly have the same outcomes.
/// Those with too many schedules do not count.
fn compare_reductions(seed: u64, programs: usize, ranks: u32, operations: usize) {
    const RUNS_MAX: u64 = 5_000;
    let seed = of_today(seed);
    let (mut random, mut compared) = (SplitMix::new(seed), 0);
    while compared < programs {
        let litmus = Litmus::random_direct(&mut random, ranks, operations);
        let explored = |reduction, runs_max| {
            let all = litmus.explored_by(reduction, runs_max);
            all.unwrap_or_else(|problem| panic!("seed {seed}: {problem}\n{litmus}"))
        };
        let Some(all) = explored(Reduction::None, RUNS_MAX) else { continue };
        let reduced = explored(Reduction::Sources, u64::MAX);
        assert_eq!(
            reduced.as_ref(),
            Some(&all),
            "seed {seed}, with and without reduction:\n{litmus}"
        );
        compared += 1;
    }
    println!(
        "seed {seed}: {compared} programs of {ranks} ranks with up to {operations} operations each"
    );
}

#[test]
fn reduction_loses_no_outcome_of_direct_accesses() {
    let count = |usual: usize| match std::env::var_os("FARSIDE_LONG") {
        Some(_) => 25 * usual,
        None => usual,
    };
    compare_reductions(11, count(200), 2, 3);
    compare_reductions(12, count(100), 2, 4);
    compare_reductions(13, count(100), 3, 2);
}

#[test]
fn two_ranks_with_one_operation_each() {
    let all = Litmus::all(2, 1);
    assert!(all.len() > 100, "{}", all.len());
    for litmus in all {
        assert_eq!(litmus.compare(&Axioms::default()), Ok(None), "{litmus}");
    }
}

#[test]
fn wrong_axioms_are_refuted() {
    let right = Axioms::default();
    for wrong in [
        Axioms { fence_orders_gets: true, ..right },
        Axioms { fence_orders_all_ranks: true, ..right },
        Axioms { posts_stay_in_order: true, ..right },
        Axioms { barrier_completes: true, ..right },
        Axioms { signal_overtakes: true, ..right },
    ] {
        let mut random = SplitMix::new(1);
        let differs = |litmus: Litmus| litmus.compare(&wrong).is_ok_and(|found| found.is_some());
        let found = (0..20_000).any(|_| {
            differs(Litmus::random_passing(&mut random))
                || differs(Litmus::random(&mut random, 2, 3))
        });
        assert!(found, "{wrong:?}");
    }
}
