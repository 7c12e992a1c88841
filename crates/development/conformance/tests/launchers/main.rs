//! Jobs that somebody else's launcher has started: Open MPI's, MPICH's and Slurm's. They run what
//! they start unchanged, and nobody hangs when a rank dies.

mod culprits;
mod hosts;
mod slurm;
mod starting;
mod support;

use farside_conformance::churn::{DELAY, VICTIM};
use farside_conformance::for_each_test;
use support::{Launcher, PROGRAM, Ran, command, run, shared_files, wanted};

/// What the quick run tries under every launcher; the long one tries all.
const FEW: [&str; 5] = [
    "tickets_are_unique",
    "sync_completes_puts",
    "calls_are_answered",
    "who_left_early_is_missed",
    "who_left_in_order_is_not_missed",
];

pub(crate) fn names() -> Vec<&'static str> {
    if std::env::var_os("FARSIDE_LONG").is_none() {
        return FEW.to_vec();
    }
    macro_rules! cases {
        ($($name:ident)*) => { vec![$(stringify!($name)),*] };
    }
    for_each_test!(cases)
}

fn suite(launcher: Launcher, variables: &[(&str, &str)]) {
    if !wanted(launcher.programs()) {
        return;
    }
    let mut failed = Vec::new();
    for name in names() {
        let ran = run(launcher.command(4, &[PROGRAM, name]).envs(variables.iter().copied()));
        if !ran.status.success() {
            failed.push(format!("{name}: {ran:?}"));
        }
    }
    assert_eq!(failed, [] as [&str; 0]);
}

#[test]
fn the_suite_passes_under_hydra() {
    suite(Launcher::Hydra, &[]);
}

#[test]
fn the_suite_passes_under_hydra_in_pmi_2() {
    suite(Launcher::Hydra, &[("FARSIDE_PMI", "pmi2")]);
}

#[test]
fn the_suite_passes_under_open_mpi() {
    suite(Launcher::OpenMpi, &[]);
}

#[test]
fn the_suite_passes_under_hydra_on_four_nodes() {
    suite(Launcher::Hydra, &[("FARSIDE_NODES", "4")]);
}

#[test]
fn the_suite_passes_under_open_mpi_on_two_nodes() {
    suite(Launcher::OpenMpi, &[("FARSIDE_NODES", "2")]);
}

/// Every rank runs `churn-KIND`; how each of them ends is written down, which a launcher that ends
/// the others would not wait for.
fn survivors(launcher: Launcher, (kind, victim): (&str, u32), variables: &[(&str, &str)]) {
    let before = shared_files();
    let script = format!("{PROGRAM} churn-{kind}; echo rank $PMI_RANK$PMIX_RANK ended with $?");
    let ran = run(launcher
        .command(4, &["sh", "-c", &script])
        .env(VICTIM, victim.to_string())
        .env(DELAY, "3000")
        .envs(variables.iter().copied()));
    for rank in 0..4 {
        let status = if rank == victim { 137 } else { 0 };
        let line = format!("rank {rank} ended with {status}\n");
        assert!(
            ran.output.contains(&line),
            "{kind}, {victim} dies, {variables:?}: no {line:?} in {ran:?}"
        );
    }
    assert_eq!(shared_files(), before, "files are left");
}

#[test]
fn survivors_hear_of_a_death() {
    for launcher in [Launcher::Hydra, Launcher::OpenMpi] {
        if wanted(launcher.programs()) {
            for death in [("put", 0), ("barrier", 3), ("nothing", 0), ("nothing", 2)] {
                survivors(launcher, death, &[]);
            }
        }
    }
}

#[test]
fn survivors_of_other_nodes_hear_of_a_death() {
    if wanted(Launcher::Hydra.programs()) {
        // Of two nodes, a rank that serves nobody; and the first of each, which takes its node's
        // interface with it.
        for death in [("put", 1), ("nothing", 3), ("nothing", 0), ("barrier", 2)] {
            survivors(
                Launcher::Hydra,
                death,
                &[("FARSIDE_NODES", "2"), ("FARSIDE_PEER_TIMEOUT", "1")],
            );
        }
    }
}

#[test]
fn a_launcher_that_ends_the_others_leaves_nothing() {
    let before = shared_files();
    for launcher in [Launcher::Hydra, Launcher::OpenMpi]
        .into_iter()
        .filter(|launcher| wanted(launcher.programs()))
    {
        for nodes in ["1", "2"] {
            let mut job = launcher.command(4, &[PROGRAM, "churn-put"]);
            let ran = run(job.env(VICTIM, "2").env(DELAY, "3000").env("FARSIDE_NODES", nodes));
            assert!(
                !ran.status.success(),
                "{launcher:?}: a rank was killed, and nobody says so: {ran:?}"
            );
        }
    }
    assert_eq!(shared_files(), before, "files are left");
}

/// The program started with these variables, and nothing else that a launcher could have set.
fn alone(variables: &[(&str, &str)]) -> Ran {
    let ran = run(command(PROGRAM).arg("tickets_are_unique").envs(variables.iter().copied()));
    assert_ne!(ran.status.code(), Some(101), "it panicked: {ran:?}");
    ran
}

#[test]
fn surroundings_that_are_half_there_are_named() {
    let refused = |variables: &[(&str, &str)], words: &[&str]| {
        let ran = alone(variables);
        assert!(!ran.status.success(), "{variables:?}: {ran:?}");
        for word in words {
            assert!(ran.output.contains(word), "{variables:?}: no {word:?} in {ran:?}");
        }
    };
    refused(
        &[("PMI_FD", "99"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")],
        &["PMI_FD=99", "not open", "FARSIDE_PMI=none"],
    );
    // Standard input, of which there is none.
    refused(&[("PMI_FD", "0"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")], &["PMI_FD=0"]);
    refused(&[("PMI_FD", "3"), ("PMI_RANK", "0")], &["PMI_SIZE is not set"]);
    refused(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")], &["PMI_FD is not"]);
    refused(&[("PMIX_RANK", "0")], &["PMIX_NAMESPACE is not"]);
    refused(
        &[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "job")],
        &["PMIX_NAMESPACE", "FARSIDE_PMI=none"],
    );
    let nowhere = ("FARSIDE_PMIX_LIBRARY", "/nowhere/libpmix.so");
    refused(
        &[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "job"), nowhere],
        &["/nowhere/libpmix.so", "libpmix2"],
    );
    refused(&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")], &["srun --mpi=pmix"]);
    refused(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4")], &["task 1 of 4", "srun --mpi=pmix"]);
    refused(&[("FARSIDE_PMI", "smoke-signals")], &["smoke-signals", "pmi1, pmi2, pmix or none"]);
}

#[test]
fn without_a_launcher_there_is_one_rank() {
    assert!(alone(&[]).status.success());
    assert!(
        alone(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("FARSIDE_PMI", "none")]).status.success()
    );
    // What a batch script finds, which starts this program without srun.
    assert!(
        alone(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7")])
            .status
            .success()
    );
}

#[test]
fn without_a_launcher_there_is_one_rank_whatever_the_fabric() {
    for fabric in ["shm", "nic", "ofi", ""] {
        let ran = alone(&[("FARSIDE_FABRIC", fabric)]);
        assert!(ran.status.success(), "{fabric}: {ran:?}");
    }
    let ran = alone(&[("FARSIDE_FABRIC", "carrier-pigeon")]);
    assert!(!ran.status.success() && ran.output.contains("\"carrier-pigeon\""), "{ran:?}");
    let ran = alone(&[("FARSIDE_RANK", "0")]);
    assert!(!ran.status.success() && ran.output.contains("FARSIDE_JOB_FD"), "{ran:?}");
}

#[test]
fn a_variable_that_is_misspelt_is_named_once() {
    let (name, meant) = ("FARSIDE_PEER_TIMOUT", "FARSIDE_PEER_TIMEOUT");
    let mut jobs = vec![alone(&[(name, "3")])];
    for launcher in [Launcher::Hydra, Launcher::OpenMpi]
        .into_iter()
        .filter(|launcher| wanted(launcher.programs()))
    {
        jobs.push(run(launcher.command(2, &[PROGRAM, "tickets_are_unique"]).env(name, "3")));
    }
    for ran in jobs {
        assert!(ran.status.success() && ran.output.matches(name).count() == 1, "{ran:?}");
        assert!(ran.output.contains(meant), "{ran:?}");
    }
}

#[test]
fn wishes_that_cannot_be_met_are_every_ranks_error() {
    if wanted(Launcher::Hydra.programs()) {
        let ran = run(Launcher::Hydra
            .command(2, &[PROGRAM, "tickets_are_unique"])
            .env("FARSIDE_NODES", "3"));
        assert!(!ran.status.success() && ran.output.contains("FARSIDE_NODES=\"3\""), "{ran:?}");
    }
}
