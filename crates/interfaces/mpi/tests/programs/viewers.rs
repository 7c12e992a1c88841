//! What viewers see of MPI programs.

use std::time::Instant;

use farside_testing::DEADLINE;

use crate::{Mpich, ONE_NODE, OpenMpi, compile, scratch, with_library};

#[test]
fn viewers_count_near_operations() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let (program, start) = (compile(mpi, "counted.c"), Instant::now());
        let path = program.path.display().to_string();
        let is_over = scratch().join(format!("counted-{}-{}", mpi.name(), std::process::id()));
        // The operations of each rank on the other, and their bytes.
        let look = || -> Option<Vec<(u64, u64)>> {
            let job =
                farside_inspect::jobs().into_iter().find(|job| job.command.contains(&path))?;
            let seen = job.open().ok()?.read();
            let of = |rank: &farside_inspect::snapshot::RankView| {
                let peers = rank.contexts.iter().flat_map(|context| &context.peers);
                peers
                    .filter(|peer| peer.rank != rank.rank)
                    .fold((0, 0), |all, peer| (all.0 + peer.operations, all.1 + peer.bytes))
            };
            Some(seen.ranks.iter().map(of).collect())
        };
        let seen = std::thread::scope(|threads| {
            let arguments = [is_over.display().to_string()];
            let setting = with_library(mpi, 2, ONE_NODE);
            let ends = threads.spawn(move || setting.run(&program.path, &arguments));
            let mut seen = Vec::new();
            while start.elapsed() < DEADLINE / 2
                && !(seen.len() == 2 && seen.iter().all(|&(operations, _)| operations >= 6000))
            {
                seen = look().unwrap_or(seen);
            }
            std::fs::write(&is_over, "").expect("the directory is there");
            let ran = ends.join().expect("the job is over");
            assert!(ran.status.success(), "{ran:?}");
            seen
        });
        std::fs::remove_file(&is_over).expect("it was written");
        for (operations, bytes) in seen {
            // Six thousand, and a few to start and to meet.
            assert!((6000..6500).contains(&operations), "{}: {operations}", mpi.name());
            let expected = 1000 * (8 + 8 + 80 + 80 + 8 + 8);
            assert!((expected..expected + 10_000).contains(&bytes), "{}: {bytes}", mpi.name());
        }
    }
}
