//! What the command says about itself and about the machine.

use crate::support::{FARSIDE, farside, shells};

fn help(words: &[&str]) -> String {
    let finished = farside(words).run().ends_with(0);
    assert_eq!(finished.stderr(), "");
    finished.stdout()
}

/// Asserts that a help has all of these, which are separated by bars.
fn mentions(help: &str, words: &str) {
    for word in words.split(" | ") {
        assert!(help.contains(word), "{word:?} is not in the help:\n{help}");
    }
}

const COMMANDS: &str = "Usage: farside <COMMAND> | run | app | bench | check | info";

#[test]
fn the_help_lists_every_command() {
    for words in ["--help", "-h", "help"] {
        let help = help(&[words]);
        mentions(&help, COMMANDS);
        mentions(&help, "figures | --help | --version");
        assert!(!help.contains("__"), "commands that are none of the user's business: {help}");
    }
    // The command alone fails.
    let finished = farside([""; 0]).run().fails_with(&[]);
    mentions(&finished.stderr(), COMMANDS);
    assert_eq!(finished.stdout(), "");
}

/// The options of every job.
const JOB: &str = "-n, --ranks <N> | --fabric <FABRIC> | [default: shm | --nodes <K> | \
    --hosts <HOST,…> | --rsh <TEMPLATE> | ControlMaster=no {host}\"] | --remote-farside <PATH> | \
    --start-timeout <SECONDS> | --env <NAME[=VALUE]> | --server <SERVER> | \
    --peer-timeout <SECONDS> | --directory <DIR> | --timeout <SECONDS> | --grace <SECONDS> | \
    [default: 5] | --keep-going | -l, --label | --memory <BYTES> | --topology <LEVELS> | \
    --sim <PROFILE> | --seed <N> | --threads | --trace <FILE> | --flight <SECONDS> | \
    --metrics <ADDRESS> | -h, --help | Example";

/// The options of every bench.
const BENCH: &str = "--ranks | --against | --cases | --time | --rounds | --json | --plot | \
    --sim <PROFILE> | --seed <N> | --topology <LEVELS>";

#[test]
fn the_help_of_each_command_lists_its_options() {
    let locks: Vec<&str> =
        farside_bench::locks::LockSpec::all().iter().map(|lock| lock.name()).collect();
    let shmem = farside_bench::shmem::CASES.join(" | ");
    for (command, common, words) in [
        ("run", JOB, "PROGRAM | (Ctrl-\\) | --np"),
        ("app", JOB, "NAME | hello | wordcount"),
        ("bench", "ops", "sync | start | locks | array | dht"),
        (
            "bench ops",
            BENCH,
            "--sizes | mpich | openmpi | openshmem | put | get | accumulate | get_accumulate | \
             put_strided | fetch_add | swap | signal | rate | barrier | farside bench ops --sim",
        ),
        (
            "bench sync",
            BENCH,
            "--bytes | allfence_barrier | confirmed | counted | hierarchical | Examples: | \
             farside bench sync",
        ),
        (
            "bench locks",
            BENCH,
            "--locks | --writers | --t-dc | --t-l | --t-r | --operations | lb | ecsb | sob | \
             wcsb | warb | request | acquire | release | Examples: | farside bench locks",
        ),
        ("bench locks", "lb", &locks.join(" | ")),
        (
            "bench shmem",
            &shmem,
            "--ranks | --cases | --alone | --against | --time | --rounds | --json | Examples: | \
             farside-oshcc",
        ),
        (
            "check",
            "PROTOCOL",
            "--list | --mutants | --budget | --ranks | --rounds | --topology | --policy | \
             --fail-on-bounded | --schedules | --seed | --deaths | --slow-news | --time-outs | \
             --replay | --json | exhaustive | unreduced | random | pct:DEPTH | Examples: | \
             farside check lock/d-mcs",
        ),
    ] {
        let help = help(&command.split(' ').chain(["--help"]).collect::<Vec<&str>>());
        mentions(&help, common);
        mentions(&help, words);
    }
}

#[test]
fn the_help_of_run_reads_as_it_should() {
    let help = help(&["run", "--help"]);
    assert!(!help.contains("Ctrl-\\\\"), "{help}");
    let (_, rest) = help.split_once("--peer-timeout").expect("there is such an option");
    assert!(rest.split("\n\n").next().is_some_and(|it| it.contains("[default: 10]")), "{rest}");
    let (_, kinds) = help.split_once("Kind of ranks:").expect("a heading");
    let (kinds, recording) = kinds.split_once("Recording:").expect("another heading");
    mentions(kinds, "--sim | --seed | --threads");
    mentions(recording, "--trace <FILE> | --flight <SECONDS>");
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
    for limit in
        "open files,locked memory,huge pages,UDP buffer,userfaultfd,process handles".split(',')
    {
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
    let sections = "fabrics | libfabric | interfaces | machine | limits | launchers | profiles";
    let tables = help(&["info"]);
    mentions(&tables, sections);
    mentions(&tables, "shm | mpirun | processors");
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
    for words in [
        "info --json",
        "info",
        "check --list",
        "check lock/ticket --ranks 2 --rounds 1",
        "app hello -n 64 --sim aries-xc30",
        "app hello -n 4 --threads",
        "app count -n 2 --threads -- 5 d-mcs",
        "app count -n 2 --sim aries-xc30 -- 5 d-mcs",
        "app wordcount -n 2 --threads Cargo.toml",
        "app sor -n 2 --threads -- --size 20x20 --access explicit",
        "app lu -n 2 --sim aries-xc30 --size 64 --block 16",
        "app sor -n 2 -- --help",
        "bench sync --sim aries-xc30 --ranks 2 --time 1 --rounds 1",
        "run -n 2 yes",
    ] {
        // Read by nobody from the start.
        let ended = farside(words.split(' ')).unread().run();
        assert_eq!(
            (ended.stderr().as_str(), ended.status.code()),
            ("", Some(128 + 13)),
            "{words:?}"
        );
    }
}

#[test]
fn a_complaint_that_nobody_hears_changes_no_status() {
    for words in ["app goodbye -n 2", "app hello -n 2 --sim cray"] {
        farside(words.split(' ')).unheard().run().ends_with(2);
    }
}
