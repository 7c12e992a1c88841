//! Processes that die, and those that go on without them.

use super::*;

#[test]
fn death_of_a_rank_is_an_error_for_those_who_need_it() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let program = compile(mpi, "death.c");
        let ranks = if mpi == OpenMpi { 3 } else { 2 };
        for variables in [ONE_NODE, TWO_NODES] {
            // Each takes seconds: between nodes one collective place and one that asks a peer.
            let all = &["fence", "get", "lock", "post", "free"][..];
            let places = if variables == ONE_NODE || is_long() { all } else { &all[..2] };
            for &place in places {
                let named = format!("{}, {place}, {variables:?}", mpi.name());
                let dead = format!("rank {}", ranks - 1);
                for (rank, said) in survivors_say(mpi, ranks, variables, &program, place) {
                    let is_told = said.starts_with("returned: ") && said.contains(&dead);
                    // Hydra may end the others all the same, if it is faster than they are.
                    let is_ended = mpi == Mpich && said.is_empty();
                    assert!(is_told || is_ended, "{named}: rank {rank}: {said:?}");
                }
            }
        }
        // The handler that every window has at first, and a launcher as it comes.
        let said = scratch().join("death-fatal");
        let arguments = ["fence".into(), said.display().to_string(), "fatal".into()];
        let ran = with_library(mpi, ranks, ONE_NODE).run(&program.path, &arguments);
        assert!(!ran.status.success() && !ran.output.contains("hangs"), "{ran:?}");
    }
}

/// A put to a rank that has died fails, and keeps nobody from freeing a window of other ranks.
#[test]
fn a_window_without_the_dead_rank_is_freed_by_all() {
    if OpenMpi.is_here() {
        let program = compile(OpenMpi, "death.c");
        // The node of the dead rank is found to be silent.
        let variables = ["FARSIDE_NODES=2", "FARSIDE_PEER_TIMEOUT=2"];
        let said = survivors_say(OpenMpi, 3, &variables, &program, "other");
        let is_told = said[0].1.starts_with("returned: ") && said[0].1.contains("rank 2");
        assert!(is_told && said[1].1 == "no error\n", "{said:?}");
    }
}

/// A thread of a rank goes on to serve its memory when another rank has died.
#[test]
fn memory_is_served_after_a_death() {
    if OpenMpi.is_here() {
        let program = compile(OpenMpi, "death.c");
        for (rank, said) in survivors_say(OpenMpi, 3, WITH_SERVICE, &program, "served") {
            assert_eq!(said, "no error\n", "rank {rank}");
        }
    }
}

/// Runs a program whose last rank dies, and returns what each of the others has written.
fn survivors_say(
    mpi: Mpi,
    ranks: u32,
    variables: &[&str],
    program: &Program,
    place: &str,
) -> Vec<(u32, String)> {
    let said = scratch().join(format!("death-{}-{place}", mpi.name()));
    let file = |rank: u32| said.with_extension(rank.to_string());
    for rank in 0..ranks {
        let _ = std::fs::remove_file(file(rank));
    }
    let mut launcher = mpi.patient_launcher(ranks);
    launcher.arg("env").args(variables);
    launcher.arg(format!("LD_PRELOAD={}", mpi.library().display()));
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let ran = run(launcher.arg(&program.path).arg(place).arg(&said));
    assert!(!ran.output.contains("hangs"), "{ran:?}");
    let read = |rank: u32| (rank, std::fs::read_to_string(file(rank)).unwrap_or_default());
    (0..ranks - 1).map(read).collect()
}
