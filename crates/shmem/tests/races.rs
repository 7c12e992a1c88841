//! Labelled OpenSHMEM programs: the checker of races finds every race, and reports none where
//! there is none.

use std::path::{Path, PathBuf};
use std::process::Command;

use farside_launch::Launch;
use farside_races::{Checker, VARIABLE};
use farside_testing::{DEADLINE, compile, libraries, wanted};

const RANKS: u32 = 3;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A label and a name.
struct Case<'s> {
    is_racy: bool,
    name: &'s str,
}

/// Reads the labels of the corpus.
fn cases(source: &str) -> Vec<Case<'_>> {
    let case = |line: &'_ str, label: &str, is_racy: bool| -> Option<(bool, usize)> {
        let rest = line.strip_prefix(label)?.strip_prefix('(')?;
        Some((is_racy, rest.find(')')?))
    };
    source
        .lines()
        .filter_map(|line| {
            let (is_racy, length) =
                case(line, "RACY", true).or_else(|| case(line, "RIGHT", false))?;
            let start = line.find('(')? + 1;
            Some(Case { is_racy, name: &line[start..start + length] })
        })
        .collect()
}

#[test]
fn every_labelled_program_is_judged_rightly() {
    if !wanted("gcc") || !wanted("ar") {
        return;
    }
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let prefix = scratch.join(format!("races-{}", std::process::id()));
    let installed = Command::new("sh")
        .arg(here("install.sh"))
        .arg(libraries().join("libfarside_shmem.a"))
        .arg(env!("CARGO_PKG_VERSION"))
        .arg(&prefix)
        .output()
        .expect("there is a shell");
    assert!(installed.status.success(), "{installed:?}");
    let file = here("../races/tests/corpus/shmem.c");
    let source = std::fs::read_to_string(&file).expect("the corpus is there");
    let cases = cases(&source);
    assert!(cases.len() >= 80, "only {} programs were found", cases.len());
    let list: String = cases.iter().map(|case| format!("{{\"{0}\", {0}}},\n", case.name)).collect();
    std::fs::write(prefix.join("include/shmem_programs.h"), list).expect("the scratch is ours");
    let mut compiler = Command::new(prefix.join("bin/farside-oshcc"));
    compiler.env("CC", "gcc").args(["-g", "-O1", "-Wall", "-fsanitize=thread"]);
    let program = compile(compiler.arg("-I").arg(prefix.join("include")).arg(&file), scratch);
    let mut wrong = Vec::new();
    let judge = |case: &Case<'_>| {
        let checker = Checker::create(RANKS, false).expect("there is memory");
        let path = checker.path().expect("it has a file");
        let launch = Launch::new(&program.path, RANKS).expect("the environment is in order");
        let launch = launch.argument(case.name).variable(VARIABLE, path).timeout(DEADLINE);
        let ended = launch.run().expect("the job starts");
        assert_eq!(ended.status, 0, "{}: {:?}", case.name, ended.failures);
        checker.report()
    };
    for case in &cases {
        let mut report = judge(case);
        // Where a rank is late to look, a later barrier can hide a race, in 1 of some 430 runs.
        for _ in 0..2 {
            if case.is_racy && report.races.is_empty() {
                report = judge(case);
            }
        }
        if report.races.is_empty() == case.is_racy {
            wrong.push(format!("{}: {report}", case.name));
        }
    }
    let _ = std::fs::remove_dir_all(&prefix);
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len());
}
