//! Labelled OpenSHMEM programs: the checker of races finds every race, and reports none where
//! there is none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use farside_launch::Launch;
use farside_races::{Checker, Report, VARIABLE};
use farside_testing::{DEADLINE, Program, blocks, compile, libraries, wanted};

const RANKS: u32 = 3;
const INSTRUMENTED: &str = "-fsanitize=thread";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

struct Case<'s> {
    is_racy: bool,
    name: &'s str,
}

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

/// Compiles a set, with the names of its programs in a header.
fn compiled(prefix: &Path, cases: &[Case<'_>], corpus: &Corpus) -> Program {
    let list: String = cases.iter().map(|case| format!("{{\"{0}\", {0}}},\n", case.name)).collect();
    std::fs::write(prefix.join("include/shmem_programs.h"), list).expect("the scratch is ours");
    let mut command = Command::new(prefix.join("bin/farside-oshcc"));
    command.env("CC", corpus.compiler).args(["-g", "-O1", "-Wall"]).args(corpus.flags);
    let command = command.arg("-I").arg(prefix.join("include")).arg(here(corpus.file));
    compile(command, Path::new(env!("CARGO_TARGET_TMPDIR")))
}

fn judge(program: &Path, case: &Case<'_>) -> Report {
    let checker = Checker::create(RANKS, false).expect("there is memory");
    let path = checker.path().expect("it has a file");
    let launch = Launch::new(program, RANKS).expect("the environment is in order");
    let launch = launch.argument(case.name).variable(VARIABLE, path).timeout(DEADLINE);
    let ended = launch.run().expect("the job starts");
    assert_eq!(ended.status, 0, "{}: {:?}", case.name, ended.failures);
    checker.report()
}

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
    let program = compiled(&prefix, &cases, corpus);
    let mut wrong = Vec::new();
    for case in &cases {
        let mut report = judge(&program.path, case);
        // Where a rank is late to look, a later barrier can hide a race, in 1 of some 430 runs.
        for _ in 0..2 {
            if case.is_racy && report.races.is_empty() {
                report = judge(&program.path, case);
            }
        }
        if report.races.is_empty() == case.is_racy || !report.unseen.is_empty() {
            wrong.push(format!("{}: {report}", case.name));
        }
    }
    let _ = std::fs::remove_dir_all(&prefix);
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len());
}

#[test]
fn every_labelled_program_is_judged_rightly() {
    let (file, compiler) = ("../../tools/races/tests/corpus/shmem.c", "gcc");
    judge_all(&Corpus { file, programs: 80, compiler, flags: &[INSTRUMENTED] });
}

/// What was not compiled for it is said not to be seen.
#[test]
fn loads_and_stores_that_are_not_instrumented_are_said_to_be_unseen() {
    let corpus = Corpus {
        file: "../../tools/races/tests/corpus/shmem.c",
        programs: 80,
        compiler: "gcc",
        flags: &[],
    };
    if !wanted(corpus.compiler) {
        return;
    }
    let prefix = installed("plain");
    let source = std::fs::read_to_string(here(corpus.file)).expect("the corpus is there");
    let cases = cases(&source);
    let program = compiled(&prefix, &cases, &corpus);
    let said = judge(&program.path, &Case { is_racy: true, name: "put_load" }).to_string();
    let _ = std::fs::remove_dir_all(&prefix);
    let unseen = "races: not seen: loads and stores of the program itself: compile it with \
                  -fsanitize=thread";
    assert!(said.contains(unseen), "{said}");
    assert!(said.contains("no race found in "), "the load is not seen: {said}");
}

const THREADS: &str = "../../tools/races/tests/corpus/threads.c";

#[test]
fn every_labelled_program_with_threads_is_judged_rightly() {
    let flags = &[INSTRUMENTED, "-fopenmp"];
    judge_all(&Corpus { file: THREADS, programs: 40, compiler: "gcc", flags });
}

/// What the page shows is one of them, but for its indentation.
#[test]
fn the_page_shows_a_labelled_program() {
    let flat = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let corpus = std::fs::read_to_string(here(THREADS)).expect("the corpus is there");
    let blocks = blocks("docs/races.md", "c");
    assert!(!blocks.is_empty());
    blocks.iter().for_each(|block| assert!(flat(&corpus).contains(&flat(block)), "{block}"));
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
    let flags = &[INSTRUMENTED, "-fopenmp"];
    judge_all(&Corpus { file: THREADS, programs: 40, compiler: "clang", flags });
}
