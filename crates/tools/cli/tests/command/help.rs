//! What the command says about itself and about the machine.

use crate::support::{FARSIDE, farside, shells};

fn help(words: &[&str]) -> String {
    let finished = farside(words).run().ends_with(0);
    assert_eq!(finished.stderr(), "");
    finished.stdout()
}

fn mentions(help: &str, words: &[&str]) {
    for word in words {
        assert!(help.contains(word), "{word:?} is not in the help:\n{help}");
    }
}

#[test]
fn the_help_lists_every_command() {
    for words in [["--help"], ["-h"], ["help"]] {
        let help = help(&words);
        mentions(
            &help,
            &[
                "Usage: farside <COMMAND>",
                "run",
                "app",
                "bench",
                "figures",
                "check",
                "info",
                "--help",
                "--version",
            ],
        );
        assert!(!help.contains("__"), "commands that are none of the user's business: {help}");
    }
}

#[test]
fn the_command_alone_prints_its_help_and_fails() {
    let finished = farside([""; 0]).run().fails_with(&[
        "Usage: farside <COMMAND>",
        "run",
        "app",
        "bench",
        "check",
        "info",
    ]);
    assert_eq!(finished.stdout(), "");
}

/// The options of every job.
const JOB: [&str; 28] = [
    "-n, --ranks <N>",
    "--fabric <FABRIC>",
    "[default: shm",
    "--nodes <K>",
    "--hosts <HOST,…>",
    "--rsh <TEMPLATE>",
    "ControlMaster=no {host}\"]",
    "--remote-farside <PATH>",
    "--start-timeout <SECONDS>",
    "--env <NAME[=VALUE]>",
    "--server <SERVER>",
    "--peer-timeout <SECONDS>",
    "--directory <DIR>",
    "--timeout <SECONDS>",
    "--grace <SECONDS>",
    "[default: 5]",
    "--keep-going",
    "-l, --label",
    "--memory <BYTES>",
    "--topology <LEVELS>",
    "--sim <PROFILE>",
    "--seed <N>",
    "--threads",
    "--trace <FILE>",
    "--flight <SECONDS>",
    "--metrics <ADDRESS>",
    "-h, --help",
    "Example",
];

#[test]
fn the_help_of_run_lists_every_option() {
    let help = help(&["run", "--help"]);
    mentions(&help, &JOB);
    mentions(&help, &["PROGRAM"]);
}

#[test]
fn the_help_of_run_reads_as_it_should() {
    let help = help(&["run", "--help"]);
    mentions(&help, &["(Ctrl-\\)", "--np"]);
    assert!(!help.contains("Ctrl-\\\\"), "{help}");
    let (_, rest) = help.split_once("--peer-timeout").expect("there is such an option");
    assert!(rest.split("\n\n").next().is_some_and(|it| it.contains("[default: 10]")), "{rest}");
    let (_, kinds) = help.split_once("Kind of ranks:").expect("a heading");
    let (kinds, recording) = kinds.split_once("Recording:").expect("another heading");
    mentions(kinds, &["--sim", "--seed", "--threads"]);
    mentions(recording, &["--trace <FILE>", "--flight <SECONDS>"]);
}

#[test]
fn the_help_of_app_lists_every_option_and_program() {
    let help = help(&["app", "--help"]);
    mentions(&help, &JOB);
    mentions(&help, &["NAME", "hello", "wordcount"]);
}

#[test]
fn the_help_of_bench_lists_every_option_and_case() {
    mentions(&help(&["bench", "--help"]), &["ops", "sync", "start", "locks", "array", "dht"]);
    let help = help(&["bench", "ops", "--help"]);
    mentions(
        &help,
        &["--ranks", "--against", "--cases", "--sizes", "--time", "--rounds", "--json", "--plot"],
    );
    mentions(&help, &["mpich", "openmpi", "openshmem"]);
    mentions(
        &help,
        &["put", "get", "accumulate", "get_accumulate", "put_strided", "fetch_add", "swap"],
    );
    mentions(
        &help,
        &["signal", "rate", "barrier", "--sim <PROFILE>", "--seed <N>", "farside bench ops --sim"],
    );
}

#[test]
fn the_help_of_check_lists_every_option_with_examples() {
    let help = help(&["check", "--help"]);
    mentions(
        &help,
        &[
            "PROTOCOL",
            "--list",
            "--mutants",
            "--budget",
            "--ranks",
            "--rounds",
            "--topology",
            "--policy",
        ],
    );
    mentions(
        &help,
        &[
            "--fail-on-bounded",
            "--schedules",
            "--seed",
            "--deaths",
            "--slow-news",
            "--time-outs",
            "--replay",
            "--json",
            "exhaustive",
            "unreduced",
            "random",
            "pct:DEPTH",
        ],
    );
    mentions(&help, &["Examples:", "farside check lock/d-mcs"]);
}

/// The options of every bench.
const BENCH: [&str; 10] = [
    "--ranks",
    "--against",
    "--cases",
    "--time",
    "--rounds",
    "--json",
    "--plot",
    "--sim <PROFILE>",
    "--seed <N>",
    "--topology <LEVELS>",
];

#[test]
fn the_help_of_bench_sync_lists_every_option_and_algorithm() {
    let help = help(&["bench", "sync", "--help"]);
    mentions(&help, &BENCH);
    mentions(&help, &["--bytes", "allfence_barrier", "confirmed", "counted", "hierarchical"]);
    mentions(&help, &["Examples:", "farside bench sync"]);
}

#[test]
fn the_help_of_bench_locks_lists_every_option_case_and_lock() {
    let help = help(&["bench", "locks", "--help"]);
    mentions(&help, &BENCH);
    mentions(&help, &["--locks", "--writers", "--t-dc", "--t-l", "--t-r", "--operations"]);
    mentions(&help, &["lb", "ecsb", "sob", "wcsb", "warb", "request", "acquire", "release"]);
    for lock in farside_bench::locks::LockSpec::all() {
        mentions(&help, &[lock.name()]);
    }
    mentions(&help, &["Examples:", "farside bench locks"]);
}

#[test]
fn the_version_is_that_of_the_package() {
    for word in ["--version", "-V"] {
        assert_eq!(help(&[word]), format!("farside {}\n", env!("CARGO_PKG_VERSION")));
    }
}

/// The row of a section of `farside info --json` that begins with a word.
fn row(info: &str, section: &str, word: &str) -> serde_json::Value {
    let info: serde_json::Value = serde_json::from_str(info).expect("one JSON object");
    let rows = info[section].as_array().unwrap_or_else(|| panic!("no {section} in {info}"));
    let begins = |row: &&serde_json::Value| {
        row.as_object().is_some_and(|row| row.values().any(|value| value == word))
    };
    rows.iter().find(begins).unwrap_or_else(|| panic!("no {word} in {rows:?}")).clone()
}

#[test]
fn the_machine_is_described() {
    let info = help(&["info", "--json"]);
    let processors = std::thread::available_parallelism().expect("the system knows").get();
    assert_eq!(row(&info, "machine", "processors")["count"], processors);
    assert_eq!(row(&info, "machine", "node")["count"], 1);
    assert!(
        row(&info, "machine", "memory")["count"].as_u64().is_some_and(|mebibytes| mebibytes > 0),
        "{info}"
    );
    for fabric in ["shm", "nic", "sim"] {
        assert_eq!(row(&info, "fabrics", fabric)["here"], true, "{info}");
    }
    for limit in [
        "open files",
        "locked memory",
        "huge pages",
        "UDP buffer",
        "userfaultfd",
        "process handles",
    ] {
        assert!(!row(&info, "limits", limit)["value"].is_null(), "{info}");
    }
    assert!(
        row(&info, "launchers", "this process")["note"]
            .as_str()
            .is_some_and(|note| note.contains("was not started by a launcher"))
    );
    assert!(row(&info, "libfabric", "libfabric")["here"].is_boolean(), "{info}");
}

#[test]
fn the_tables_say_the_same() {
    let tables = help(&["info"]);
    mentions(
        &tables,
        &[
            "fabrics",
            "libfabric",
            "interfaces",
            "machine",
            "limits",
            "launchers",
            "profiles",
            "shm",
            "mpirun",
            "processors",
        ],
    );
}

#[test]
fn the_machine_is_described_inside_a_job_too() {
    let finished =
        shells(&["-n", "2"], &format!("'{FARSIDE}' info | grep processors")).run().ends_with(0);
    assert_eq!(finished.lines().len(), 2);
}

#[test]
fn a_low_limit_of_open_files_comes_with_advice() {
    let script = format!("ulimit -n 64 && exec '{FARSIDE}' info --json");
    let info = shells(&["-n", "1"], &script).run().ends_with(0).stdout();
    let files = row(&info, "limits", "open files");
    assert_eq!(
        (&files["value"], &files["enough"]),
        (&serde_json::json!(64), &serde_json::json!(false))
    );
    assert!(files["note"].as_str().is_some_and(|note| note.contains("ulimit -n")), "{info}");
    assert!(
        row(&info, "launchers", "this process")["note"]
            .as_str()
            .is_some_and(|note| note.contains("farside run"))
    );
}

#[test]
fn who_reads_no_further_hears_no_complaint() {
    let simulated = ["app", "hello", "-n", "64", "--sim", "aries-xc30"];
    for words in [
        &["info", "--json"][..],
        &["info"],
        &["check", "--list"],
        &["check", "lock/ticket", "--ranks", "2", "--rounds", "1"],
        &simulated,
        &["app", "hello", "-n", "4", "--threads"],
        &["app", "count", "-n", "2", "--threads", "--", "5", "d-mcs"],
        &["app", "count", "-n", "2", "--sim", "aries-xc30", "--", "5", "d-mcs"],
        &["app", "wordcount", "-n", "2", "--threads", "Cargo.toml"],
        &["app", "sor", "-n", "2", "--threads", "--", "--size", "20x20", "--access", "explicit"],
        &["app", "lu", "-n", "2", "--sim", "aries-xc30", "--size", "64", "--block", "16"],
        &["app", "sor", "-n", "2", "--", "--help"],
        &["bench", "sync", "--sim", "aries-xc30", "--ranks", "2", "--time", "1", "--rounds", "1"],
        &["run", "-n", "2", "yes"],
    ] {
        // Read by nobody from the start.
        let ended = farside(words).unread().run();
        assert_eq!(
            (ended.stderr().as_str(), ended.status.code()),
            ("", Some(128 + 13)),
            "{words:?}"
        );
    }
}

#[test]
fn a_complaint_that_nobody_hears_changes_no_status() {
    for words in [&["app", "goodbye", "-n", "2"][..], &["app", "hello", "-n", "2", "--sim", "cray"]]
    {
        farside(words).unheard().run().ends_with(2);
    }
}
