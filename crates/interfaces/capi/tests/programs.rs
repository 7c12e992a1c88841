//! Programs in C and C++: compiled with all warnings, and run over every fabric and launcher.

#[path = "programs/faults.rs"]
mod faults;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use farside_job::Options;
use farside_launch::Launch;
use farside_races::{Checker, VARIABLE};
use farside_testing::{
    Program, SANITIZERS, blocks, command, launch, libraries, one_node, run, succeed,
    succeed_sanitized, succeed_under_valgrind, two_nodes, two_nodes_over_ofi, wanted,
};

/// The examples, with what rank 0 says in the end; `failure` is for itself.
const EXAMPLES: [(&str, &str); 8] = [
    ("hello.c", "hello: all 4 ranks have put their numbers"),
    ("halo.c", "halo: after 200 steps the rod still has all its heat"),
    ("histogram.c", "histogram: 16000 samples in 1024 bins"),
    ("task_queue.c", "task_queue: 300 tasks, each done once"),
    ("ring.c", "ring: 20 rounds of 4 hops"),
    ("transpose.c", "transpose: a matrix of 32 x 32"),
    ("table.c", "table: 4 ranks, no half update seen"),
    ("threads.cpp", "threads: 3 threads of 4 ranks"),
];

const DEADLINE: Duration = Duration::from_secs(120);

const TESTS: [&str; 4] = ["one_sided", "together", "refused", "forked"];

/// The compiler of a source, of the two families.
fn compilers(source: &str) -> [&'static str; 2] {
    if source.ends_with(".cpp") { ["g++", "clang++"] } else { ["gcc", "clang"] }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Library {
    Shared,
    Static,
}

/// Compiles a program of this crate, with all warnings as errors.
fn compile(compiler: &str, source: &str, library: Library) -> Program {
    compile_with(compiler, source, library, &[])
}

fn compile_with(compiler: &str, source: &str, library: Library, more: &[&str]) -> Program {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let standard = if source.ends_with(".cpp") { "-std=c++11" } else { "-std=c99" };
    let mut command = Command::new(compiler);
    command
        .args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-pthread"])
        .args(more)
        .arg("-I")
        .arg(here.join("include"))
        .arg("-I")
        .arg(here.join("examples"))
        .arg(here.join(source));
    match library {
        Library::Shared => command
            .arg("-L")
            .arg(libraries())
            .arg("-lfarside_c")
            // Ahead of LD_LIBRARY_PATH, where cargo may have an older one.
            .arg(format!("-Wl,--disable-new-dtags,-rpath,{}", libraries().display())),
        Library::Static => {
            command.arg(libraries().join("libfarside_c.a")).args(["-lm", "-ldl", "-lrt"])
        }
    };
    farside_testing::compile(&mut command, Path::new(env!("CARGO_TARGET_TMPDIR")))
}

fn example(source: &str) -> Program {
    compile(compilers(source)[0], &format!("examples/{source}"), Library::Shared)
}

fn test(name: &str, library: Library) -> Program {
    compile("gcc", &format!("tests/programs/{name}.c"), library)
}

fn examples(change: fn(&mut Options)) {
    for (source, says) in EXAMPLES {
        let said = succeed(&example(source), 4, change);
        assert!(said.lines().any(|line| line == says), "{source}: {said}");
    }
}

fn to_the_end(name: &str, library: Library, change: fn(&mut Options)) {
    let said = succeed(&test(name, library), 4, change);
    let done = format!("{name}: done");
    assert_eq!(said.lines().filter(|line| **line == done).count(), 4, "{name}: {said}");
}

#[test]
fn examples_run_on_one_node() {
    examples(one_node);
}

#[test]
fn examples_have_no_races() {
    for (source, _) in EXAMPLES {
        let program = example(source);
        let checker = Checker::create(4, false).expect("there is memory");
        let memory = checker.path().expect("it has a file");
        let launch = Launch::new(&program.path, 4).expect("the environment is in order");
        let ended = launch.variable(VARIABLE, memory).timeout(DEADLINE).run();
        let ended = ended.expect("the job starts");
        assert_eq!(ended.status, 0, "{source}: {:?}", ended.failures);
        let report = checker.report();
        assert!(report.races.is_empty(), "{source}: {report}");
        assert!(report.accesses > 0, "{source}: nothing was looked at");
    }
}

#[test]
fn examples_run_on_two_nodes() {
    examples(two_nodes);
}

#[test]
fn examples_run_over_ofi() {
    if wanted("fi_info") {
        // A process takes a third of a second to load libfabric: some will do.
        for (source, says) in EXAMPLES.into_iter().filter(|(source, _)| *source != "halo.c") {
            let said = succeed(&example(source), 4, two_nodes_over_ofi);
            assert!(said.lines().any(|line| line == says), "{source}: {said}");
        }
    }
}

#[test]
fn every_function_works_on_one_node() {
    TESTS.iter().for_each(|name| to_the_end(name, Library::Shared, one_node));
}

#[test]
fn every_function_works_on_two_nodes() {
    TESTS.iter().for_each(|name| to_the_end(name, Library::Shared, two_nodes));
}

#[test]
fn every_function_works_over_ofi() {
    if wanted("fi_info") {
        TESTS.iter().for_each(|name| to_the_end(name, Library::Shared, two_nodes_over_ofi));
    }
}

#[test]
fn ranks_that_poll_on_one_processor_let_others_run() {
    // The program stays on one processor.
    let said = succeed(&test("polling", Library::Shared), 4, |options| options.cores = Some(1));
    assert_eq!(said.lines().filter(|line| *line == "polling: done").count(), 4, "{said}");
    print!("{said}");
}

#[test]
fn a_program_links_the_static_library() {
    to_the_end("one_sided", Library::Static, one_node);
}

#[test]
fn a_program_that_no_launcher_started_is_a_job_of_one_rank() {
    for name in TESTS {
        let program = test(name, Library::Shared);
        let ran = run(&mut command(&program.path));
        assert!(ran.status.success(), "{name}: {ran:?}");
    }
}

#[test]
fn clang_compiles_what_gcc_does() {
    if wanted("clang") && wanted("clang++") {
        for (source, says) in EXAMPLES {
            let path = format!("examples/{source}");
            let program = compile(compilers(source)[1], &path, Library::Shared);
            let said = succeed(&program, 4, one_node);
            assert!(said.contains(says), "{source}: {said}");
        }
        for name in TESTS {
            compile("clang", &format!("tests/programs/{name}.c"), Library::Shared);
        }
    }
}

/// An error of a collective names the line of the program, whichever library is linked.
#[test]
fn ranks_that_disagree_are_told_the_line() {
    for (library, options) in [
        (Library::Shared, ["-g", "-O2"]),
        (Library::Shared, ["-g", "-O0"]),
        (Library::Static, ["-g", "-O0"]),
    ] {
        let program = compile_with("gcc", "tests/programs/disagree.c", library, &options);
        let report = launch(&program, 2, true, one_node);
        let said = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(said.contains("FARSIDE_ERROR_DISAGREEMENT"), "{said}");
        let source = include_str!("programs/disagree.c");
        let line = |call: &str| source.lines().position(|line| line.contains(call)).unwrap() + 1;
        let places = ["farside_barrier(", "farside_all_reduce("].map(line);
        let is_named = |line: usize| said.contains(&format!("disagree.c:{line})"));
        assert!(places.into_iter().any(is_named) && !said.contains(".rs:"), "{library:?}: {said}");
    }
}

/// The ranks that are left get an error that names the one that is lost, wherever it was.
#[test]
fn the_loss_of_a_rank_is_an_error_with_its_number() {
    let program = example("failure.c");
    for change in [one_node, two_nodes] {
        let report = launch(&program, 4, true, change);
        let said = String::from_utf8_lossy(&report.stdout).into_owned();
        for rank in 0..3 {
            let line = format!("failure: rank {rank} goes on without rank 3");
            assert!(said.lines().any(|said| said == line), "no {line:?} in {said}");
        }
        assert_eq!(report.status, 3, "the status of the rank that is lost");
        assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    }
}

/// A lock that a lost rank poisons is recovered by those who are left, on a team made before.
#[test]
fn survivors_recover_their_locks() {
    let program = test("survivors", Library::Shared);
    for change in [one_node, two_nodes] {
        let report = launch(&program, 4, true, change);
        let said = String::from_utf8_lossy(&report.stdout).into_owned();
        let done = said.lines().filter(|line| *line == "survivors: done").count();
        assert_eq!((done, report.failures.len()), (3, 1), "{:?}: {said}", report.failures);
    }
}

#[test]
fn processes_of_another_runtime_join_by_an_exchange_of_their_own() {
    let program = test("join_with", Library::Shared);
    for (count, nodes) in [("1", "1"), ("4", "1"), ("4", "2")] {
        let ran = run(command(&program.path).arg(count).env("FARSIDE_NODES", nodes));
        let line = format!("join_with: {count} processes\n");
        assert!(ran.status.success() && ran.output.contains(&line), "{count}: {ran:?}");
    }
}

/// The blocks of the page, as they stand there: a program, and a function of one of the tests.
#[test]
fn programs_of_the_page_run() {
    let blocks = blocks("docs/c.md", "c");
    let [first, gather] = &blocks[..] else { panic!("other blocks: {blocks:#?}") };
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first.c");
    std::fs::write(&source, first).expect("there is room");
    let program = compile("gcc", &source.to_string_lossy(), Library::Shared);
    assert_eq!(succeed(&program, 4, one_node), "the ranks 0 to 3 sum up to 6\n");
    assert!(include_str!("programs/gather.c").contains(gather.as_str()), "{gather}");
    if wanted("mpicc.openmpi") {
        let program = compile("mpicc.openmpi", "tests/programs/gather.c", Library::Shared);
        let mut launcher = command("mpirun.openmpi");
        let ran = run(launcher.args(["--oversubscribe", "-np", "2"]).arg(&program.path));
        let done = ran.output.lines().filter(|line| *line == "gather: done").count();
        assert!(ran.status.success() && done == 2, "{ran:?}");
    }
}

#[test]
fn examples_run_under_launchers_of_others() {
    for (launcher, arguments) in [
        ("mpiexec.hydra", &["-n", "4"][..]),
        ("mpirun.openmpi", &["--oversubscribe", "-np", "4"][..]),
    ] {
        if wanted(launcher) {
            for (source, says) in EXAMPLES {
                let program = example(source);
                let ran = run(command(launcher).args(arguments).arg(&program.path));
                let succeeded = ran.status.success() && ran.output.contains(says);
                assert!(succeeded, "{launcher} {source}: {ran:?}");
            }
        }
    }
}

#[test]
fn sanitizers_find_nothing_in_the_examples() {
    for (source, _) in EXAMPLES {
        let path = format!("examples/{source}");
        let program = compile_with(compilers(source)[0], &path, Library::Shared, &SANITIZERS);
        let said = succeed_sanitized(&program, 2);
        let name = source.split('.').next().unwrap_or(source);
        assert!(said.contains(&format!("{name}: ")), "{source}: {said}");
    }
}

#[test]
fn valgrind_finds_nothing_in_the_examples() {
    if wanted("valgrind") {
        for source in ["hello.c", "table.c", "threads.cpp"] {
            let said = succeed_under_valgrind(&example(source), 2);
            let name = source.split('.').next().unwrap_or(source);
            assert!(said.contains(&format!("{name}: ")), "{source}: {said}");
        }
    }
}
