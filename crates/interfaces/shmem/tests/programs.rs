//! Programs in C and C++, compiled with all warnings and run over every fabric and launcher.

#[path = "programs/faults.rs"]
mod faults;
#[path = "programs/viewers.rs"]
mod viewers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use farside_job::Options;
use farside_launch::Launch;
use farside_testing::{
    DEADLINE, Program, SANITIZERS, blocks, command, libraries, one_node, run, succeed,
    succeed_sanitized, succeed_under_valgrind, two_nodes, two_nodes_apart, two_nodes_over_ofi,
    wanted,
};

/// The programs of the tests. Each says at its end how many checks it has made.
const PROGRAMS: [&str; 35] = [
    "amo_deprecated.c",
    "amo_fetching.c",
    "amo_nonblocking.c",
    "amo_posted.c",
    "collectives_set.c",
    "collectives_team.c",
    "contexts.c",
    "cpp.cc",
    "cpp_types.cc",
    "exits.c",
    "forked.c",
    "generated.c",
    "generic.c",
    "global_exit.c",
    "later.c",
    "levels.c",
    "locks.c",
    "memory.c",
    "ordering.c",
    "profiling.c",
    "progress.c",
    "reductions.c",
    "reductions_set.c",
    "rma_nonblocking.c",
    "rma_sized.c",
    "rma_typed.c",
    "sets_unprepared.c",
    "setup_query.c",
    "signal.c",
    "static_data.c",
    "strided.c",
    "teams.c",
    "threads.c",
    "wait.c",
    "wait_many.c",
];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The library as it is installed, under a prefix that the tests share.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch().join(format!("shmem-{}", std::process::id()));
        let archive = libraries().join("libfarside_shmem.a");
        let installed = Command::new("sh")
            .arg(here("install.sh"))
            .arg(archive)
            .arg(env!("CARGO_PKG_VERSION"))
            .arg(&prefix)
            .output()
            .expect("there is a shell");
        assert!(installed.status.success(), "{installed:?}");
        let library = Command::new("gcc")
            .args(["-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror"])
            .arg(format!("-I{}", here("include").display()))
            .arg(here("tests/programs/static_library.c"))
            .arg("-o")
            .arg(prefix.join("lib/libstatic_library.so"))
            .output()
            .expect("there is a compiler");
        assert!(library.status.success(), "{library:?}");
        prefix
    })
}

/// Compiles a program by the compiler wrapper, over a compiler.
fn compile_by(compiler: &str, source: &str) -> Program {
    compile_with(compiler, source, &[])
}

fn compile_with(compiler: &str, source: &str, more: &[&str]) -> Program {
    let is_cpp = source.ends_with(".cc");
    let wrapper = if is_cpp { "farside-oshc++" } else { "farside-oshcc" };
    let mut command = Command::new(prefix().join("bin").join(wrapper));
    command
        .env(if is_cpp { "CXX" } else { "CC" }, compiler)
        .arg(if is_cpp { "-std=c++11" } else { "-std=c11" })
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-g", "-pthread"])
        .args(more)
        .arg(here("tests/programs").join(source));
    if source == "static_data.c" {
        command.arg(format!("-L{0}/lib", prefix().display())).arg("-lstatic_library");
    }
    command.arg("-lm");
    farside_testing::compile(&mut command, scratch())
}

/// A program of the tests, compiled once.
fn program(source: &'static str) -> &'static Program {
    static COMPILED: [OnceLock<Program>; PROGRAMS.len()] =
        [const { OnceLock::new() }; PROGRAMS.len()];
    let at = PROGRAMS.iter().position(|&name| name == source).expect("it is in the list");
    COMPILED[at]
        .get_or_init(|| compile_by(if source.ends_with(".cc") { "g++" } else { "gcc" }, source))
}

fn is_well(source: &'static str, pes: u32, change: fn(&mut Options)) {
    let said = succeed(program(source), pes, change);
    let name = source.split('.').next().unwrap_or(source);
    let is_verdict =
        |line: &str| line.starts_with(&format!("{name}: ")) && line.ends_with("checks, OK");
    assert!(said.lines().any(is_verdict), "{source}: {said}");
}

#[test]
fn programs_run_on_one_node() {
    PROGRAMS.iter().for_each(|source| is_well(source, 4, one_node));
}

#[test]
fn programs_run_on_two_nodes() {
    PROGRAMS.iter().for_each(|source| is_well(source, 4, two_nodes));
}

/// As it stands there.
#[test]
fn the_program_of_the_page_runs() {
    let blocks = blocks("docs/openshmem.md", "c");
    let [first] = &blocks[..] else { panic!("other blocks: {blocks:#?}") };
    let source = scratch().join("first.c");
    std::fs::write(&source, first).expect("there is room");
    let said = succeed(&compile_by("gcc", &source.to_string_lossy()), 4, one_node);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let expected = [4, 1, 2, 3].into_iter().enumerate();
    let expected = expected.map(|(pe, given)| format!("PE {pe} of 4 was given {given}"));
    assert_eq!(lines, expected.collect::<Vec<_>>());
}

/// Where somebody sees all operations, no memory is near.
#[test]
fn programs_run_in_recorded_jobs() {
    for source in ["ordering.c", "reductions.c", "signal.c", "strided.c"] {
        is_well(source, 2, |options| options.is_recorded = true);
    }
}

#[test]
fn pes_that_poll_on_one_processor_let_others_run() {
    let program = compile_by("gcc", "polling.c");
    for change in [one_node, two_nodes] {
        for argument in ["", "threads"] {
            let launch = Launch::new(&program.path, 4).expect("the environment is in order");
            // The program stays on one processor.
            let launch = launch.options(change).options(|options| options.cores = Some(1));
            let report = launch.argument(argument).timeout(DEADLINE).run().expect("it starts");
            let said = String::from_utf8_lossy(&report.stdout).into_owned();
            assert!(report.status == 0, "{argument:?}: {}: {said}", report.failure());
            print!("{argument} {said}");
        }
    }
}

#[test]
fn atomics_of_near_and_far_pes_are_one_kind() {
    for source in ["amo_fetching.c", "amo_posted.c", "signal.c"] {
        is_well(source, 4, two_nodes_apart);
    }
}

#[test]
fn programs_run_over_ofi() {
    if wanted("fi_info") {
        PROGRAMS.iter().for_each(|source| is_well(source, 4, two_nodes_over_ofi));
    }
}

#[test]
fn programs_run_with_any_number_of_pes() {
    for pes in [1, 3] {
        PROGRAMS.iter().for_each(|source| is_well(source, pes, one_node));
    }
    for source in
        ["collectives_team.c", "locks.c", "collectives_set.c", "sets_unprepared.c", "wait.c"]
    {
        is_well(source, 16, one_node);
    }
}

#[test]
fn the_library_does_what_the_environment_says() {
    let program = compile_by("gcc", "heap_size.c");
    let text = std::fs::read_to_string(here("tests/programs/heap_size.c")).expect("it is there");
    let variable = text.lines().find_map(|line| line.strip_prefix("/* environment: "));
    let (name, rest) = variable.and_then(|line| line.split_once('=')).expect("it names one");
    let value = rest.strip_suffix(" */").expect("the comment ends");
    let launch = Launch::new(&program.path, 3).expect("the environment is in order");
    let launch = launch.variable(name, value).variable("SHMEM_VERSION", "1");
    let launch = launch.variable("SHMEM_INFO", "1").timeout(DEADLINE);
    let report = launch.run().expect("the job starts");
    let said = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.status == 0 && said.contains("OK"), "{report:?}: {said}");
    assert!(said.contains("OpenSHMEM 1.5") && said.contains(name), "{said}");
}

/// Seeds of `generated.c`, of which `FARSIDE_LONG` asks for thousands; it looks at its own result.
#[test]
fn generated_programs_do_what_their_model_says() {
    let is_long = std::env::var_os("FARSIDE_LONG").is_some();
    let count = if is_long { 500 } else { 8 };
    let shapes = [
        (1, one_node as fn(&mut Options)),
        (2, one_node),
        (5, one_node),
        (8, one_node),
        (4, two_nodes),
        (5, two_nodes),
    ];
    for (at, (pes, change)) in shapes.into_iter().enumerate() {
        let first = 100 + 10_000 * at as u64 + 1_000_000 * farside_testing::seed();
        let launch = Launch::new(&program("generated.c").path, pes).expect("it can be started");
        let launch = launch.arguments([first.to_string(), count.to_string()]).options(change);
        let report = launch.timeout(DEADLINE * 4).run().expect("the job starts");
        let said = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(report.status == 0 && said.contains("checks, OK"), "{pes} PEs: {report:?}: {said}");
    }
}

/// That the model of `generated.c` is the standard's and not ours: Open MPI agrees with it.
#[test]
fn generated_programs_are_the_same_to_open_mpi() {
    if std::env::var_os("FARSIDE_LONG").is_none() || !wanted("oshcc") {
        return;
    }
    let mut compiler = Command::new("oshcc");
    compiler.args(["-std=c11", "-O1", "-g", "-DFOR_OPEN_MPI=1", "-Wno-deprecated-declarations"]);
    compiler.arg(here("tests/programs/generated.c"));
    let program = farside_testing::compile(&mut compiler, scratch());
    for pes in ["1", "2", "3"] {
        // The memory hooks crash when the program ends, and waiting PEs must let others run.
        let mut launcher = command("oshrun");
        launcher.args(["--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle"]);
        launcher.args(["1", "--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "memory"]);
        launcher.args(["^patcher", "-n", pes]).arg(&program.path).args(["1", "100"]);
        let ran = run(&mut launcher);
        assert!(ran.status.success() && ran.output.contains("checks, OK"), "{pes} PEs: {ran:?}");
    }
}

/// The cases of `farside bench shmem`, each of which looks at its own result.
#[test]
fn the_programs_of_the_benchmark_are_right() {
    let program = compile_by("gcc", "../../../../laboratory/bench/rivals/shmem_shmem.c");
    let operations = "put,p,get,g,fetch_add,fetch_add_static,compare_swap,add,put_nbi,put_signal,\
                      wait_until,barrier_all,lock,reduce,alltoall,broadcast,fcollect";
    let cases = format!("{operations},gups,gups_getput,isx,stencil");
    for (pes, change, cases) in [
        (2, one_node as fn(&mut Options), &*cases),
        (5, one_node, &cases),
        (3, two_nodes, operations),
    ] {
        let launch = Launch::new(&program.path, pes).expect("the environment is in order");
        let launch = launch.arguments(["1", cases, "128"]).options(change).timeout(DEADLINE);
        let report = launch.run().expect("the job starts");
        let said = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(report.status == 0, "{pes} PEs: {}: {said}", report.failure());
        // The reduction is measured with two lengths.
        assert_eq!(said.matches("sample ").count(), cases.split(',').count() + 1, "{said}");
    }
}

#[test]
fn programs_run_under_other_launchers() {
    for (launcher, arguments) in
        [("mpirun", &["--oversubscribe", "-np", "3"][..]), ("mpiexec.hydra", &["-n", "3"])]
    {
        if !wanted(launcher) {
            continue;
        }
        for source in ["static_data.c", "collectives_team.c", "exits.c", "forked.c"] {
            let ran = run(command(launcher).args(arguments).arg(&program(source).path));
            assert!(ran.status.success() && ran.output.contains("OK"), "{launcher}: {ran:?}");
        }
    }
}

#[test]
fn a_program_that_no_launcher_started_is_one_pe() {
    for source in ["static_data.c", "setup_query.c", "collectives_team.c"] {
        let ran = run(&mut command(&program(source).path));
        assert!(ran.status.success() && ran.output.contains("OK"), "{source}: {ran:?}");
    }
}

#[test]
fn clang_compiles_what_gcc_does() {
    if wanted("clang") && wanted("clang++") {
        for source in ["rma_typed.c", "generic.c", "static_data.c"] {
            let said = succeed(&compile_by("clang", source), 2, one_node);
            assert!(said.contains("OK"), "{source}: {said}");
        }
        for source in ["cpp.cc", "cpp_types.cc"] {
            let said = succeed(&compile_by("clang++", source), 2, one_node);
            assert!(said.contains("OK"), "{source}: {said}");
        }
    }
}

#[test]
fn a_compiler_that_is_the_wrapper_itself_is_none() {
    for (wrapper, variable, compiler) in
        [("farside-oshcc", "CC", "cc"), ("farside-oshc++", "CXX", "c++")]
    {
        let path = prefix().join("bin").join(wrapper);
        let shown = |named: &Path| {
            let mut shown = Command::new(&path);
            let shown = shown.args(["--showme", "x"]).env(variable, named).output().unwrap();
            String::from_utf8(shown.stdout).unwrap()
        };
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        assert_eq!(first(&shown(&path)), compiler);
        assert_eq!(first(&shown(Path::new("other"))), "other");
    }
}

#[test]
fn an_executable_need_not_be_position_independent() {
    let mut command = Command::new(prefix().join("bin/farside-oshcc"));
    command.args(["-std=c11", "-no-pie", "-fno-pie", "-O1", "-g"]);
    command.arg(here("tests/programs/static_data.c"));
    command.arg(format!("-L{0}/lib", prefix().display())).arg("-lstatic_library");
    let program = farside_testing::compile(&mut command, scratch());
    for change in [one_node, two_nodes] {
        let said = succeed(&program, 3, change);
        assert!(said.contains("OK"), "{said}");
    }
}

#[test]
fn sanitizers_find_nothing() {
    for source in ["collectives_set.c", "locks.c", "rma_sized.c", "static_data.c", "threads.c"] {
        let said = succeed_sanitized(&compile_with("gcc", source, &SANITIZERS), 2);
        assert!(said.contains("checks, OK"), "{source}: {said}");
    }
}

#[test]
fn valgrind_finds_nothing() {
    if wanted("valgrind") {
        for source in ["locks.c", "rma_sized.c", "strided.c"] {
            let said = succeed_under_valgrind(program(source), 2);
            assert!(said.contains("checks, OK"), "{source}: {said}");
        }
    }
}

/// Returns the names that `nm` prints with these options.
fn names(options: &[&str], path: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(options).arg(path).output().expect("there is nm");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .collect()
}

/// The functions that the header declares, with their parameters.
fn declarations() -> Vec<(String, String)> {
    let mut command = Command::new("gcc");
    command.args(["-E", "-P", "-std=c99", "-DFARSIDE_SHMEM_NO_GENERIC"]);
    let output = command.arg(here("include/shmem.h")).output().expect("there is a compiler");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_ours = |name: &str| {
        ["shmem", "sh", "start_pes", "_my_pe", "_num_pes"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    text.split(';')
        .filter_map(|declaration| declaration.split_once('('))
        .filter_map(|(head, rest)| Some((head.rsplit([' ', '*', '\n']).next()?, rest)))
        .filter(|(name, _)| is_ours(name))
        .map(|(name, rest)| (name.to_owned(), rest.split(')').next().unwrap_or("").to_owned()))
        .collect()
}

fn declared() -> BTreeSet<String> {
    declarations().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn every_function_is_called_by_a_program() {
    let declared = declared();
    assert!(declared.len() > 1600, "{}", declared.len());
    let called: BTreeSet<String> = PROGRAMS
        .iter()
        .flat_map(|source| names(&["-D", "--undefined-only"], &program(source).path))
        .collect();
    let missing: Vec<&String> = declared.difference(&called).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_library_shows_nothing_but_the_interface() {
    let shown = names(&["-D", "--defined-only"], &prefix().join("lib/libfarside-shmem.so"));
    let declared = declared();
    let missing: Vec<&String> = declared.difference(&shown).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let is_interface = |name: &&String| {
        let plain = name.strip_prefix('p').unwrap_or(name);
        declared.contains(*name)
            || declared.contains(plain)
            || ["shmem_", "pshmem_", "shmemx_", "pshmemx_", "oshmem_", "FARSIDE_SHMEM_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
            || ["my_pe", "num_pes", "globalexit"].contains(&name.as_str())
    };
    let others: Vec<&String> = shown.iter().filter(|name| !is_interface(name)).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// Types other than `long`, of which the functions are not tried one by one.
const OTHER_TYPES: &str = "short int longlong ushort uint ulong ulonglong char schar uchar int8 \
                           int16 int32 int64 uint8 uint16 uint32 uint64 size ptrdiff float double \
                           longdouble complexf complexd";

/// An argument for a parameter: memory that is not symmetric, the first PE, one element.
fn argument(parameter: &str) -> &'static str {
    let name = parameter.rsplit([' ', '*']).next().unwrap_or("");
    match parameter {
        _ if parameter.contains('*') || parameter.contains('[') => "memory",
        _ if parameter.starts_with("shmem_ctx_t") => "SHMEM_CTX_DEFAULT",
        _ if parameter.starts_with("shmem_team_t") => "SHMEM_TEAM_WORLD",
        _ if ["pe", "cmp", "PE_start", "logPE_stride", "PE_root", "options"].contains(&name) => "0",
        _ => "1",
    }
}

struct WrongCall {
    name: String,
    line: usize,
}

/// One function of each family, with its arguments: those that can be called wrongly only before
/// `shmem_init`, and those that can be given wrong memory or a wrong PE.
fn families() -> [Vec<(String, String)>; 2] {
    let is_of_other_type =
        |name: &str| name.split('_').any(|part| OTHER_TYPES.split(' ').any(|other| other == part));
    let is_of_other_size = |name: &str| {
        let name = name.trim_end_matches("_nbi").trim_end_matches("_signal");
        ["8", "16", "32", "128"].iter().any(|size| name.ends_with(size))
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (name, parameters) in declarations() {
        if is_of_other_type(&name) || is_of_other_size(&name) {
            continue;
        }
        let parameters = parameters.split(',').map(str::trim);
        let arguments: Vec<&str> =
            parameters.filter(|it| !["void", "...", ""].contains(it)).map(argument).collect();
        let family = if arguments.contains(&"memory") { &mut after } else { &mut before };
        family.push((name, arguments.join(", ")));
    }
    [before, after]
}

/// A program that makes some wrong calls, each in a child; and the line of each.
fn wrong_calls() -> (String, Vec<WrongCall>) {
    let mut text = include_str!("programs/wrong_calls.c").to_owned();
    let [before, after] = families();
    text += &format!("enum {{ BEFORE = {} }};\nstatic void call_shmem(int n) {{\n", before.len());
    text += "    long zeros[4096] = {0};\n    void *memory = zeros;\n    switch (n) {\n";
    let mut calls = Vec::new();
    for (name, arguments) in before.into_iter().chain(after) {
        let line = text.lines().count() + 1;
        text += &format!("    case {}: {name}({arguments}); break;\n", calls.len());
        calls.push(WrongCall { name, line });
    }
    text += "    }\n    (void)memory;\n}\n";
    text += "int main(int count, char **arguments) { return try_all(count, arguments); }\n";
    (text, calls)
}

#[test]
fn every_error_names_the_line_of_the_call() {
    let (text, calls) = wrong_calls();
    let source = scratch().join(format!("wrong-calls-{}.c", std::process::id()));
    std::fs::write(&source, text).expect("the scratch can be written");
    let mut compiler = Command::new(prefix().join("bin/farside-oshcc"));
    compiler.args(["-std=c11", "-O1", "-g", "-Wno-deprecated-declarations"]);
    compiler.arg("-DFARSIDE_SHMEM_NO_GENERIC").arg(&source);
    let program = farside_testing::compile(&mut compiler, scratch());
    let file = source.file_name().expect("it has a name").to_string_lossy().into_owned();
    let _ = std::fs::remove_file(&source);
    let mut errors = 0;
    // A child that fails reads all debug information: some at a time.
    for (at, some) in calls.chunks(30).enumerate() {
        let (from, to) = ((at * 30).to_string(), (at * 30 + some.len()).to_string());
        let ran = run(command(&program.path).args([from, to]));
        assert!(ran.status.success(), "{ran:?}");
        let said: Vec<&str> = ran.output.split("next\n").skip(1).collect();
        assert_eq!(said.len(), some.len(), "{ran:?}");
        for (said, WrongCall { name, line }) in said.into_iter().zip(some) {
            let is_error = said.contains("farside: ");
            let place = format!("{file}:{line}:");
            assert!(!is_error || said.contains(&place), "{name}: no {place:?} in {said}");
            errors += usize::from(is_error);
        }
    }
    assert!(errors > 120, "{errors} of {} calls are errors", calls.len());
}

struct Wrong {
    name: String,
    /// Words that the message must have.
    expected: Vec<String>,
    /// A variable that makes it wrong.
    variable: Option<(String, String)>,
}

/// The programs with one mistake each, which say in their first lines what is to be seen.
fn wrong_programs() -> Vec<Wrong> {
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(here("tests/programs/wrong")).expect("the programs are there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "c") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a program is text");
        let value = |key: &str| {
            let key = format!("/* {key}: ");
            text.lines().find_map(|line| line.strip_prefix(&key)?.strip_suffix(" */"))
        };
        let expected = value("expect").unwrap_or_else(|| panic!("{path:?} expects nothing"));
        let variable = value("environment").and_then(|pair| pair.split_once('='));
        programs.push(Wrong {
            name: path.file_name().expect("a name").to_string_lossy().into_owned(),
            expected: expected.split(' ').map(str::to_owned).collect(),
            variable: variable.map(|(name, value)| (name.to_owned(), value.to_owned())),
        });
    }
    assert!(programs.len() > 20, "{}", programs.len());
    programs
}

#[test]
fn mistakes_end_the_job_with_a_message() {
    for Wrong { name, expected, variable } in wrong_programs() {
        let program = compile_by("gcc", &format!("wrong/{name}"));
        for change in [one_node as fn(&mut Options), two_nodes] {
            // What the PEs say on standard error is captured, too.
            let launch = Launch::new("sh", 2).expect("the environment is in order");
            let launch = launch.arguments(["-c", "exec \"$0\" 2>&1"]).argument(&program.path);
            let launch = match &variable {
                Some((name, value)) => launch.variable(name, value),
                None => launch,
            };
            let report = launch.options(change).timeout(DEADLINE).run().expect("the job starts");
            let said = String::from_utf8_lossy(&report.stdout).into_owned();
            assert!(!report.timed_out && report.status != 0, "{name}: {said}");
            for word in &expected {
                assert!(said.contains(word.as_str()), "{name}: no {word:?} in {said}");
            }
        }
    }
}
