//! Programs that are made from seeds, over an MPI alone and with the library: all print the same.
//!
//! The MPI alone is MPICH. Open MPI 4.1 hangs in many of them by itself, or gets them wrong.

use std::sync::OnceLock;

use farside_testing::Program;

use super::{
    Mpi, Mpich, ONE_NODE, OpenMpi, Setting, TWO_NODES, WITH_SERVICE, compile, is_long, with_library,
};

/// So many programs run one after the other within a test's deadline, also where the machine is
/// loaded.
const AT_ONCE: usize = 20;

fn program(mpi: Mpi) -> &'static Program {
    static COMPILED: [OnceLock<Program>; 2] = [const { OnceLock::new() }; 2];
    COMPILED[mpi as usize].get_or_init(|| compile(mpi, "generated.c"))
}

/// Seeds of another day are so far away.
const SEEDS: u64 = 1_000_000;

/// Some seeds, and what their programs are to be.
struct Seeds {
    ranks: u32,
    first: u64,
    count: u64,
    has_threads: bool,
}

/// Returns what the programs print in a setting: a digest for each seed.
fn digests(setting: Setting, seeds: &Seeds) -> Vec<String> {
    let first = seeds.first + SEEDS * farside_testing::seed();
    let mut arguments = vec![first.to_string(), seeds.count.to_string()];
    if seeds.has_threads {
        arguments.push("threads".into());
    }
    let ran = setting.run(&program(setting.mpi).path, &arguments);
    let (mpi, variables) = (setting.mpi.name(), setting.variables);
    assert!(ran.status.success(), "{mpi}, {variables:?}, {arguments:?}: {}", ran.output);
    let digests: Vec<String> =
        ran.output.lines().filter(|line| line.starts_with("seed ")).map(str::to_owned).collect();
    assert_eq!(digests.len() as u64, seeds.count, "{mpi}, {variables:?}: {}", ran.output);
    digests
}

/// Compares settings whose nodes are the same: the communicators of nodes are part of a program.
/// Returns how many programs were compared with what MPICH alone makes of them, and in how many
/// runs; without it there is nothing to compare with.
fn all_agree(seeds: &Seeds) -> (u64, u64) {
    let mut runs = 0;
    if !Mpich.is_here() {
        return (0, 0);
    }
    for (with, variables) in
        [(&[ONE_NODE, WITH_SERVICE][..], ONE_NODE), (&[TWO_NODES][..], TWO_NODES)]
    {
        let alone = Setting { mpi: Mpich, ranks: seeds.ranks, with_library: false, variables };
        let mut expected: Option<Vec<String>> = None;
        let settings = with.iter().flat_map(|&variables| {
            [OpenMpi, Mpich].map(|mpi| with_library(mpi, seeds.ranks, variables))
        });
        for setting in [alone].into_iter().chain(settings) {
            if !setting.mpi.is_here() {
                continue;
            }
            let found = digests(setting, seeds);
            runs += seeds.count;
            let (mpi, variables) = (setting.mpi.name(), setting.variables);
            assert_eq!(
                expected.get_or_insert_with(|| found.clone()),
                &found,
                "{mpi} {variables:?}"
            );
        }
    }
    (seeds.count, runs)
}

/// Compares many programs, and says how many there were.
fn all_of_them_agree(name: &str, all: impl Iterator<Item = Seeds>) {
    let sum = |sum: (u64, u64), some: (u64, u64)| (sum.0 + some.0, sum.1 + some.1);
    let (programs, runs) = all.map(|seeds| all_agree(&seeds)).fold((0, 0), sum);
    println!("{name}: {programs} programs compared, in {runs} runs");
}

#[test]
fn generated_programs_agree() {
    let short = Seeds { ranks: 2, first: 0, count: 20, has_threads: false };
    let long = [(100_000, 2), (200_000, 3), (300_000, 4)].into_iter().flat_map(|(first, ranks)| {
        let seeds = if is_long() { first..first + 1000 } else { first..first };
        let count = AT_ONCE as u64;
        seeds.step_by(AT_ONCE).map(move |first| Seeds { ranks, first, count, has_threads: false })
    });
    all_of_them_agree("one thread", [short].into_iter().chain(long));
}

#[test]
fn generated_programs_of_threads_agree() {
    let short = Seeds { ranks: 2, first: 50_000, count: 6, has_threads: true };
    let seeds = if is_long() { 400_000..400_500 } else { 0..0 };
    let count = AT_ONCE as u64;
    let long =
        seeds.step_by(AT_ONCE).map(|first| Seeds { ranks: 3, first, count, has_threads: true });
    all_of_them_agree("threads", [short].into_iter().chain(long));
}
