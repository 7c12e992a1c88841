//! Many faults with little storage: what is kept stays within its limit, and nothing is lost.

use farside::Local;
use farside::dsm::{Config, Copies, Diffs, Dsm};

const RANKS: u32 = 4;
const PAGES: usize = 48;
const LIMIT: u64 = 128 << 10;

/// Ranks write random pages of each other until there were so many faults, all in all.
fn soak(faults_wanted: u64, config: Config) {
    let peaks = Local::new(RANKS).unwrap().topology("node:2").run(|world| {
        let mut dsm = Dsm::new(world, config)?;
        let words = dsm.alloc::<u32>(PAGES * 1024)?;
        let me = world.rank().0;
        let mut expected = vec![0u32; PAGES * 1024];
        let (mut round, mut highest) = (0u32, 0);
        loop {
            round += 1;
            // Every rank can compute the writers: a page belongs to another rank in each round, and
            // two ranks share every third.
            for page in 0..PAGES as u32 {
                let writer = (page.wrapping_mul(7) + round) % RANKS;
                for (rank, offset) in [(writer, 0), ((writer + 1) % RANKS, 512)] {
                    if offset == 512 && page % 3 != 0 {
                        continue;
                    }
                    let start = page as usize * 1024 + offset as usize;
                    let range = start..start + 64 + (round % 400) as usize;
                    if rank == me {
                        let view = dsm.view_mut(words, range.clone())?;
                        (0..range.len()).for_each(|at| view.set(at, view.get(at) + round));
                    }
                    expected[range].iter_mut().for_each(|word| *word += round);
                }
            }
            dsm.barrier()?;
            highest = highest.max(dsm.storage());
            let page = (round as usize * 5 + me as usize) % PAGES;
            let view = dsm.view(words, page * 1024..(page + 1) * 1024)?;
            let seen =
                view.iter().zip(&expected[page * 1024..]).all(|(seen, &expected)| seen == expected);
            assert!(seen, "page {page} in round {round}");
            dsm.barrier()?;
            let done = dsm.statistics();
            let mut faults = [done.read_faults + done.write_faults];
            world.all_reduce(&mut faults, |a, b| a + b)?;
            if faults[0] >= faults_wanted {
                assert_eq!(dsm.view(words, 0..words.len())?.to_vec(), expected);
                dsm.barrier()?;
                dsm.close()?;
                return Ok((faults[0], done, highest));
            }
        }
    });
    for (faults, done, highest) in peaks.unwrap() {
        // Between two barriers a rank adds its own pages, and the notices of all others.
        let added = (PAGES * 4096) as u64;
        assert!(done.storage_peak <= LIMIT + added, "{done:?}");
        assert!(highest <= LIMIT + added && done.reclaims > 10, "{done:?}");
        println!(
            "{faults} faults, {} bytes of storage at most, reclaimed {} times",
            done.storage_peak, done.reclaims
        );
    }
}

#[test]
fn storage_stays_within_its_limit() {
    let faults = if std::env::var_os("FARSIDE_LONG").is_some() { 1_000_000 } else { 50_000 };
    // Not more room than what may be kept, and what one interval may add.
    let storage_max = LIMIT + 2 * (PAGES * 4096) as u64;
    for (copies, diffs) in [(Copies::Rank, Diffs::Eager), (Copies::Node, Diffs::OnDemand)] {
        let usual = Config::new((PAGES * 4096) as u64);
        soak(faults / 2, Config { storage_limit: LIMIT, storage_max, copies, diffs, ..usual });
    }
}
