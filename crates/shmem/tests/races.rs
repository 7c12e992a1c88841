//! Labelled OpenSHMEM programs: the checker of races finds every race, and reports none where
//! there is none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use farside_launch::Launch;
use farside_races::{Checker, Report, VARIABLE};
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

/// A set of labelled programs.
struct Corpus {
    file: &'static str,
    /// How many programs it has at least.
    programs: usize,
    compiler: &'static str,
    flags: &'static [&'static str],
}

/// Installs the library below a directory of the scratch.
fn installed(name: &str) -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let prefix = scratch.join(format!("races-{name}-{}", std::process::id()));
    let installed = Command::new("sh")
        .arg(here("install.sh"))
        .arg(libraries().join("libfarside_shmem.a"))
        .arg(env!("CARGO_PKG_VERSION"))
        .arg(&prefix)
        .output()
        .expect("there is a shell");
    assert!(installed.status.success(), "{installed:?}");
    prefix
}

/// Runs one program under a checker.
fn judge(program: &Path, case: &Case<'_>) -> Report {
    let checker = Checker::create(RANKS, false).expect("there is memory");
    let path = checker.path().expect("it has a file");
    let launch = Launch::new(program, RANKS).expect("the environment is in order");
    let launch = launch.argument(case.name).variable(VARIABLE, path).timeout(DEADLINE);
    let ended = launch.run().expect("the job starts");
    assert_eq!(ended.status, 0, "{}: {:?}", case.name, ended.failures);
    checker.report()
}

/// Checks that every program of a set is judged rightly.
fn judge_all(corpus: &Corpus) {
    if !wanted(corpus.compiler) || !wanted("ar") {
        return;
    }
    let file = here(corpus.file);
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let prefix = installed(&format!("{name}-{}", corpus.compiler));
    let source = std::fs::read_to_string(&file).expect("the corpus is there");
    let cases = cases(&source);
    assert!(cases.len() >= corpus.programs, "only {} programs were found", cases.len());
    let list: String = cases.iter().map(|case| format!("{{\"{0}\", {0}}},\n", case.name)).collect();
    std::fs::write(prefix.join("include/shmem_programs.h"), list).expect("the scratch is ours");
    let mut compiler = Command::new(prefix.join("bin/farside-oshcc"));
    compiler.env("CC", corpus.compiler).args(["-g", "-O1", "-Wall", "-fsanitize=thread"]);
    let compiler = compiler.args(corpus.flags).arg("-I").arg(prefix.join("include"));
    let program = compile(compiler.arg(&file), Path::new(env!("CARGO_TARGET_TMPDIR")));
    let mut wrong = Vec::new();
    for case in &cases {
        let mut report = judge(&program.path, case);
        // Where a rank is late to look, a later barrier can hide a race, in 1 of some 430 runs.
        for _ in 0..2 {
            if case.is_racy && report.races.is_empty() {
                report = judge(&program.path, case);
            }
        }
        if report.races.is_empty() == case.is_racy {
            wrong.push(format!("{}: {report}", case.name));
        }
    }
    let _ = std::fs::remove_dir_all(&prefix);
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len());
}

#[test]
fn every_labelled_program_is_judged_rightly() {
    let (file, compiler) = ("../races/tests/corpus/shmem.c", "gcc");
    judge_all(&Corpus { file, programs: 80, compiler, flags: &[] });
}

const THREADS: &str = "../races/tests/corpus/threads.c";

#[test]
fn every_labelled_program_with_threads_is_judged_rightly() {
    let flags = &["-fopenmp"];
    judge_all(&Corpus { file: THREADS, programs: 40, compiler: "gcc", flags });
}

/// The OpenMP of clang is another one, which not every machine with clang has.
#[test]
fn every_labelled_program_with_threads_of_clang_is_judged_rightly() {
    let resources = Command::new("clang").arg("-print-resource-dir").output();
    let library = |output: Output| {
        let directory = String::from_utf8_lossy(&output.stdout).trim().to_string();
        Path::new(&directory).join("../../libomp.so")
    };
    if !resources.is_ok_and(|output| library(output).exists()) {
        eprintln!("SKIPPED: there is no libomp; the package libomp-dev has it");
        return;
    }
    let flags = &["-fopenmp"];
    judge_all(&Corpus { file: THREADS, programs: 40, compiler: "clang", flags });
}
