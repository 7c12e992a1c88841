//! A program with `#[farside::main]`, started in every way: as processes, as threads, on simulated
//! ranks, recorded. It is this very file, started again with the name of a program.

mod support;

use std::process::ExitCode;

use support::{Scratch, farside, own, run_own as run, shells, tests};

/// The ways to start four ranks.
const WAYS: [&[&str]; 6] = [
    &["-n", "4"],
    &["-n", "4", "--nodes", "2"],
    &["-n", "4", "--threads"],
    &["-n", "4", "--threads", "--nodes", "2", "--server", "nic-block"],
    &["-n", "4", "--sim", "aries-xc30"],
    &["-n", "4", "--sim", "ibm-sp", "--nodes", "2", "--seed", "7"],
];

tests! {
    every_way_gives_the_same_output arguments_and_input_arrive the_exit_status_is_the_programs
    an_error_says_whose_it_is_and_its_rank_is_lost an_error_names_the_line_of_the_call
    every_way_can_be_recorded a_job_that_fails_leaves_its_last_operations
    what_does_not_obey_is_an_error what_makes_no_sense_is_refused a_job_inside_is_a_job_of_its_own
    its_schedules_are_explored only_the_schedule_that_fails_is_heard
    a_limit_or_an_interruption_is_not_a_pass a_race_is_explained_and_cured
    several_programs_are_chosen_by_name a_death_behind_a_wrapper_is_heard_of
}

fn main() -> ExitCode {
    let words = support::words();
    match words.first().map(String::as_str) {
        Some("program") => return program::start(),
        Some("programs") => return several::start(),
        Some("mistakes") => return mistakes::start(),
        Some("joins") => {
            return match farside::join() {
                Ok(world) if world.size() == 1 => ExitCode::SUCCESS,
                Ok(_) => ExitCode::from(4),
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::from(3)
                }
            };
        }
        _ => {}
    }
    support::run_tests(TESTS, &words)
}

#[allow(clippy::too_many_lines, reason = "the program is a list of small ones")]
mod program {
    use std::io::Read as _;
    use std::process::ExitCode;
    use std::sync::atomic::{AtomicU32, Ordering};

    use farside::{Error, Rank, World};

    pub(super) fn start() -> ExitCode {
        main()
    }

    #[farside::main]
    fn main(world: &World) -> Result<(), Box<dyn std::error::Error>> {
        let words: Vec<String> = std::env::args().skip(2).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let me = world.rank();
        match words[..] {
            ["sum"] => {
                let mut sum = [u64::from(me.0)];
                world.all_reduce(&mut sum, |a, b| a + b)?;
                if me == Rank(0) {
                    println!("{} ranks: {}", world.size(), sum[0]);
                }
            }
            ["echo", ref rest @ ..] if me == Rank(0) => {
                let mut input = String::new();
                std::io::stdin().read_to_string(&mut input)?;
                println!("{rest:?} {input:?}");
            }
            ["exit", status] if me == Rank(0) => std::process::exit(status.parse()?),
            ["fail"] if me == Rank(1) => {
                return Err(Error::Program("rank 1 has had enough".into()).into());
            }
            ["die"] => {
                let window = world.window::<u64>(1)?;
                if me == Rank(1) {
                    (0..7).try_for_each(|_| world.get_value(window.at(Rank(0), 0)).map(drop))?;
                    std::process::Command::new("kill")
                        .args(["-9", &std::process::id().to_string()])
                        .status()?;
                }
                world.barrier()?;
            }
            ["panic"] if me == Rank(1) => panic!("rank 1 is done for"),
            ["exit" | "fail", ..] => world.barrier()?,
            ["count"] => {
                let words = world.words(1)?;
                farside::check::begin(world);
                world.fetch_add(words.at(Rank(0), 0), 1)?;
            }
            ["data-then-flag", ref order @ ..] => {
                let (data, flag) = (world.window::<u64>(1)?, world.words(1)?);
                farside::check::begin(world);
                if me == Rank(0) {
                    world.put_value(7, data.at(Rank(1), 0))?;
                    if *order == ["fenced"] {
                        world.fence()?;
                    }
                    world.signal(flag.at(Rank(1), 0), 1)?;
                } else {
                    world.wait(flag.at(Rank(1), 0), |flag| flag == 1)?;
                    data.own().get(0)?;
                }
            }
            ["map"] => {
                let map = farside::HashMap::<u64, u64>::new(world)?;
                farside::check::begin(world);
                map.insert(world, 1, 2)?;
            }
            ["talks", ref whether @ ..] => {
                let words = world.words(1)?;
                println!("rank {} speaks", me.0);
                let before = world.fetch_add(words.at(Rank(0), 0), 1)?;
                let is_second = me == Rank(0) && before == 1;
                assert!(*whether != ["fails"] || !is_second, "rank 0 came second");
            }
            ["interrupts"] => {
                let words = world.words(1)?;
                farside::check::begin(world);
                static RUNS: AtomicU32 = AtomicU32::new(0);
                if me == Rank(0) && RUNS.fetch_add(1, Ordering::Relaxed) == 500 {
                    let parent = rustix::process::getppid().expect("the command runs this");
                    rustix::process::kill_process(parent, rustix::process::Signal::INT)?;
                }
                for _ in 0..5 {
                    world.fetch_add(words.at(Rank(0), 0), 1)?;
                }
            }
            ["start", ref command @ ..] => {
                let status = std::process::Command::new(command[0]).args(&command[1..]).status()?;
                if !status.success() {
                    return Err(format!("it ended with {status}").into());
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A program that makes a mistake, each in a line that ends with its name.
mod mistakes {
    use std::process::ExitCode;
    use std::time::Duration;

    use anyhow::Context as _;
    use farside::dsm::{Config, Dsm};
    use farside::{GlobalArray, Locks as _, Rank, World, epoch};

    pub(super) fn start() -> ExitCode {
        main()
    }

    #[farside::main]
    fn main(world: &World) -> anyhow::Result<()> {
        let mistake = std::env::args().nth(2).unwrap_or_default();
        match mistake.as_str() {
            "anyhow" => make("put", world).context("while it says hello"),
            mistake => Ok(make(mistake, world)?),
        }
    }

    fn make(mistake: &str, world: &World) -> farside::Result<()> {
        let window = world.window::<u64>(10)?.named(world, "data");
        let (me, last) = (world.rank(), Rank(world.size() - 1));
        let place = window.at(last, 8);
        match mistake {
            "put" => world.put(&[1, 2, 3], place)?, // line of put
            "nb" => drop(world.get_nb(place, 3)?),  // line of nb
            "own" => window.own().set(10, 1)?,      // line of own
            "rank" => world.put_value(1, window.at(Rank(99), 0))?, // line of rank
            "atomic" => drop(world.fetch_add(window.at(Rank(99), 0), 1)?), // line of atomic
            "flush" => world.flush(Rank(99))?,      // line of flush
            "wait" => drop(world.wait(window.at(Rank(99), 0), |_| true)?), // line of wait
            "late" => {
                let limit = Duration::from_millis(1);
                let _ = world.wait_timeout(window.at(me, 0), |_| false, limit)?; // line of late
            }
            "lock" => {
                let lock = world.lock(Rank(0))?;
                let _guard = lock.lock(world)?;
                let _again = lock.lock(world)?; // line of lock
            }
            "epoch" => {
                let window = epoch::Window::allocate(world, 64, epoch::Options::new().unit(8))?;
                let window = window.named("sums");
                window.lock_all()?;
                window.put(&[1u64, 2], last, 7)?; // line of epoch
            }
            "array" => {
                let array = GlobalArray::<f64>::new(world, &[4, 5])?;
                let _ = array.get([0..4, 2..6])?; // line of array
            }
            "map" => {
                let map = farside::HashMap::<u64, u64>::new(world)?;
                map.for_each_of(world, Rank(99), |_, _| {})?; // line of map
            }
            "dsm" => {
                let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
                let shared = dsm.alloc::<u32>(10)?;
                dsm.set(shared, 10, 1)?; // line of dsm
            }
            "left" if me == Rank(0) => {}
            "left" => world.barrier()?, // line of left
            other => panic!("there is no mistake {other:?}"),
        }
        Ok(())
    }
}

/// A program that lists others.
mod several {
    use std::process::ExitCode;

    use farside::{Error, Result, World};

    pub(super) fn start() -> ExitCode {
        main()
    }

    fn meets(world: &World) -> Result<()> {
        farside::check::begin(world);
        world.barrier()
    }

    fn fails(world: &World) -> Result<()> {
        Err(Error::Program(format!("of {} ranks", world.size())))
    }

    farside::check::main! { meets: 2, fails: 3 }
}

fn a_death_behind_a_wrapper_is_heard_of() {
    let hosts = ["--hosts", "a=127.0.0.1:1,b=127.0.0.2:1", "--rsh", "env HOST={host}"];
    for options in [&["-n", "2"][..], &["-n", "2", "--nodes", "2"], &hosts] {
        // The wrapper of the one that dies goes on for long.
        let script =
            format!("{} program die; status=$?; [ $status = 137 ] && sleep 1000; exit 1", own());
        let options = [options, &["--grace", "0.2"]].concat();
        let lost = "rank 0: rank 1 is lost: it ended without leaving the job";
        shells(&options, &script).run().fails_with(&[lost]);
    }
}

fn every_way_gives_the_same_output() {
    for way in WAYS {
        let finished = run(way, &["sum"]).run().ends_with(0);
        assert_eq!(finished.stdout(), "4 ranks: 6\n", "{way:?}");
        let is_simulated = way.contains(&"--sim");
        let stderr = finished.stderr();
        assert_eq!(stderr.contains("us of virtual time"), is_simulated, "{way:?}: {stderr}");
        assert_eq!(stderr.is_empty(), !is_simulated, "{way:?}: {stderr}");
    }
}

fn arguments_and_input_arrive() {
    for way in WAYS {
        let command = run(way, &["echo", "--sim", "a b", "-n"]);
        let finished = command.run_with_input(b"some\ninput".to_vec()).ends_with(0);
        let expected = "[\"--sim\", \"a b\", \"-n\"] \"some\\ninput\"\n";
        assert_eq!(finished.stdout(), expected, "{way:?}");
    }
}

fn the_exit_status_is_the_programs() {
    for way in WAYS {
        run(way, &["exit", "7"]).run().ends_with(7);
        run(way, &["fail"]).run().ends_with(1).says(&["rank 1 has had enough"]);
        run(way, &["panic"]).run().ends_with(101).says(&["rank 1 is done for"]);
    }
}

fn an_error_names_the_line_of_the_call() {
    let text = include_str!("entry.rs");
    let said = [
        ("put", "index 8..11 is outside the 10 elements (u64) of rank 1's part of window \"data\""),
        ("nb", "index 8..11 is outside"),
        ("own", "part of window \"data\""),
        ("rank", "rank 99 does not exist: the job has 2 ranks, 0 to 1"),
        ("atomic", "rank 99 does not exist"),
        ("flush", "rank 99 does not exist"),
        ("wait", "a rank waits on its own memory only (in wait at "),
        ("late", "timed out after 1 ms (in wait at "),
        ("lock", "requests a lock it already holds (in lock at "),
        (
            "epoch",
            "index 7..9 is outside the 8 elements (displacement unit) of rank 1's part of window \
             \"sums\" (at ",
        ),
        ("array", "the range 2..6 of dimension 1 is not within the array, which ends at 5 (at "),
        ("map", "rank 99 is not a member of this map (at "),
        ("dsm", "elements 10 to 11 are outside the 10 elements of this shared slice (at "),
        ("anyhow", "while it says hello: index 8..11 is outside"),
        ("left", "rank 0 has already left the job: its main function returned (in barrier at "),
    ];
    for (mistake, words) in said {
        let mark = if mistake == "anyhow" { "put" } else { mistake };
        let mark = format!("// line of {mark}");
        let line = 1 + text.lines().position(|line| line.ends_with(&mark)).expect(&mark);
        let place = format!("crates/tools/cli/tests/entry.rs:{line}:");
        let command = ["run", "-n", "2", &own(), "mistakes", mistake].map(str::to_owned);
        farside(command).run().says(&[words, &place]);
    }
}

fn an_error_says_whose_it_is_and_its_rank_is_lost() {
    for way in WAYS {
        let finished = run(way, &["fail"]).run().ends_with(1);
        let stderr = finished.stderr();
        assert!(stderr.contains("error: rank 1: rank 1 has had enough\n"), "{way:?}: {stderr}");
        // Nobody takes a rank whose program has failed for one that left in order.
        assert!(!stderr.contains("left the job"), "{way:?}: {stderr}");
        if !way.iter().any(|word| matches!(*word, "--threads" | "--sim")) {
            // It returned an error, or has exited since.
            assert_eq!(stderr.matches("rank 1 is lost: it ").count(), 3, "{way:?}: {stderr}");
        }
    }
}

fn every_way_can_be_recorded() {
    let scratch = Scratch::new();
    for (number, way) in WAYS.into_iter().enumerate() {
        let (page, json) = (format!("{number}.html"), format!("{number}.json"));
        for (name, begins) in [(page, "<!doctype html>"), (json, "{")] {
            let path = scratch.file(&name);
            run(&[way, &["--trace", &path]].concat(), &["sum"]).run().ends_with(0);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(begins), "{way:?} {name}: {}", &text[..text.len().min(60)]);
            if name.ends_with(".json") {
                let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
                let events = trace["traceEvents"].as_array().unwrap();
                let threads: std::collections::BTreeSet<u64> = events
                    .iter()
                    .filter(|event| event["cat"] == "operation")
                    .map(|event| event["tid"].as_u64().unwrap() % 4)
                    .collect();
                assert_eq!(threads.len(), 4, "{way:?}: operations of every rank");
            }
        }
    }
    // A program that fails is recorded up to there.
    let path = scratch.file("failed.html");
    run(&["-n", "2", "--threads", "--trace", &path], &["fail"]).run().ends_with(1);
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("<!doctype html>"));
}

fn a_job_that_fails_leaves_its_last_operations() {
    let scratch = Scratch::new();
    let path = scratch.file("flight.json");
    let flight = |words: &[&str]| {
        run(&["-n", "3", "--flight", "60", "--trace", &path, "--grace", "1"], words).run()
    };
    flight(&["sum"]).ends_with(0);
    assert!(!std::path::Path::new(&path).exists(), "the job did not fail");
    // Killed in the middle of it, while the others wait for it.
    let finished = flight(&["die"]).ends_with(128 + 9);
    finished.says(&["last operation of each rank:", "rank 1: get of 8 bytes with rank 0"]);
    let text = std::fs::read_to_string(&path).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    // Tracks are numbered from one.
    let of = |rank: u64, name: &str| {
        let is = |event: &&serde_json::Value| {
            event["cat"] == "operation" && event["name"] == name && event["tid"] == rank + 1
        };
        events.iter().filter(is).count()
    };
    assert!(of(1, "get") >= 7 && of(0, "wait") > 0, "{text}");
}

fn what_does_not_obey_is_an_error() {
    let scratch = Scratch::new();
    let path = scratch.file("none.html");
    let own = own();
    for (options, option) in [
        (&["--threads"][..], "--threads"),
        (&["--sim", "aries-xc30"], "--sim"),
        (&["--threads", "--trace", &path], "--threads and --trace"),
    ] {
        let command = ["run", "-n", "2"].iter().chain(options);
        let finished = shells(&[&["-n", "2"], options].concat(), "exit 0").run();
        finished.ends_with(1).says(&[&format!("ignores {option}"), "#[farside::main]"]);
        // The program's own failure keeps its status.
        shells(&[&["-n", "2"], options].concat(), "exit 5").run().ends_with(5);
        // Who cannot be started has said why.
        for (status, script) in [(127, "exec ./there-is-none"), (126, "exec /")] {
            let finished = shells(&[&["-n", "2"], options].concat(), script).run();
            let said = finished.ends_with(status).stderr();
            assert!(!said.contains("ignores"), "{script}: {said}");
        }
        // One that joins is told at once.
        let joins = farside(command.chain(&[own.as_str(), "joins"])).run();
        joins.ends_with(3).says(&["farside::join", option.split(' ').next().unwrap()]);
    }
    // Processes are recorded whatever they are, and there is nothing of those that do not join.
    let traced = ["-n", "2", "--trace", &path];
    shells(&traced, "exit 0").run().ends_with(0).says(&["no rank", "has joined"]);
    shells(&traced, "exit 5").run().ends_with(5);
    assert!(!std::path::Path::new(&path).exists(), "nothing was recorded");
}

fn what_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    let (path, nowhere) = (scratch.file("x.html"), scratch.file("nowhere/x.html"));
    for (options, words) in [
        (&["--threads", "--sim", "aries-xc30"][..], &["--threads", "--sim"][..]),
        (&["--seed", "3"], &["--sim"]),
        (&["--sim", "cray"], &["cray", "aries-xc30", ".toml"]),
        (&["--sim", "aries-xc30", "--memory", "1G"], &["--memory", "--sim"]),
        (&["--sim", "aries-xc30", "--server", "butler"], &["butler"]),
        (&["--threads", "--fabric", "nic"], &["--nodes"]),
        (&["--threads", "--label"], &["--label"]),
        (&["--trace", &nowhere], &["cannot write", &nowhere]),
        (&["--flight", "3", "--threads"], &["--flight", "--threads"]),
        (&["--flight", "0"], &["more than 0"]),
    ] {
        let finished = run(&[&["-n", "2"], options].concat(), &["sum"]).run().fails_with(words);
        assert_eq!(finished.stdout(), "", "nothing runs");
    }
    for option in [&["--threads"][..], &["--trace", &path]] {
        let words = ["bench", "ops", "--ranks", "2"].iter().chain(option);
        farside(words).run().fails_with(&[option[0]]);
    }
}

fn a_job_inside_is_a_job_of_its_own() {
    let own = own();
    let inner = ["start", support::FARSIDE, "run", "-n", "3", &own, "program", "sum"];
    let finished = run(&["-n", "1", "--threads"], &inner).run().ends_with(0);
    assert_eq!(finished.stdout(), "3 ranks: 3\n");
    // A program that a rank starts is no rank, and does not run all of them once more.
    let again = ["start", &own, "program", "sum"];
    run(&["-n", "1", "--threads"], &again).run().ends_with(1).says(&["FARSIDE_ENTRY"]);
}

/// The command `farside check THIS OPTIONS -- WORDS`.
fn check(options: &[&str], words: &[&str]) -> support::Start {
    let own = own();
    let command = ["check", own.as_str()].into_iter().chain(options.iter().copied());
    farside(command.chain(["--"]).chain(words.iter().copied()))
}

fn its_schedules_are_explored() {
    let words = ["program", "data-then-flag", "fenced"];
    let finished = check(&["--ranks", "2"], &words).run().ends_with(0);
    assert!(finished.stdout().contains("exhaustive: nothing was found"), "{}", finished.stdout());
    let sampled = check(&["--ranks", "2", "--policy", "pct:2", "--schedules", "50"], &words).run();
    assert!(sampled.ends_with(0).stdout().contains("sampled: nothing was found"));
    let bounded = ["--ranks", "2", "--schedules", "1", "--fail-on-bounded"];
    let bounded = check(&bounded, &["program", "count"]).run().ends_with(1);
    assert!(bounded.stdout().contains("not all schedules were tried"), "{}", bounded.stdout());
    // Of a program that cannot be looked into for races it says so, by its status, too.
    let sample = ["--ranks", "2", "--policy", "random", "--schedules", "3"];
    let unseen = check(&sample, &["program", "map"]).run().ends_with(67);
    assert!(unseen.stdout().contains("nothing was checked: accesses inside maps"));
    check(&[&sample[..], &["--no-races"]].concat(), &["program", "map"]).run().ends_with(0);
    // What is no such program is told so, and what is no file is a check that is not known.
    farside(["check", "/bin/true"]).run().fails_with(&["/bin/true", "#[farside::main]"]);
    farside(["check", "./nowhere"]).run().fails_with(&["./nowhere"]);
    farside(["check", "litmus/tickets", "--torn"]).run().fails_with(&["--torn"]);
    check(&["--mutants"], &words).run().fails_with(&["--mutants"]);
}

fn only_the_schedule_that_fails_is_heard() {
    let finished = check(&["--ranks", "2"], &["program", "talks"]).run().ends_with(0);
    let text = finished.stdout();
    assert!(!text.contains("speaks"), "{text}");
    for part in ["passed in all schedules", ", after 100 random ones"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let failed = check(&["--ranks", "2"], &["program", "talks", "fails"]).run().ends_with(1);
    let (text, errors) = (failed.stdout(), failed.stderr());
    assert_eq!(text.matches("rank 0 speaks").count(), 1, "{text}");
    assert_eq!(errors.matches("panicked at").count(), 1, "{errors}");
    // The allocation is explored, and not shown.
    for part in
        ["rank 0 came second", "before the program's first operation", "at word 0 of window "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(" 1  0 .  "), "{text}");
}

fn a_limit_or_an_interruption_is_not_a_pass() {
    let options = ["--ranks", "3", "--budget", "0"];
    let bounded = check(&options, &["program", "count"]).run().ends_with(0);
    assert!(bounded.stdout().contains("NOT PASSED (bounded)"), "{}", bounded.stdout());
    let stopped = check(&["--ranks", "3"], &["program", "interrupts"]).run().ends_with(130);
    let text = stopped.stdout();
    assert!(text.contains("main: ") && text.contains("the rest is unknown"), "{text}");
}

fn a_race_is_explained_and_cured() {
    let scratch = Scratch::new();
    let (json, words) = (scratch.file("found.json"), ["program", "data-then-flag"]);
    let finished = check(&["--ranks", "2", "--json", &json], &words).run().ends_with(1);
    let text = finished.stdout();
    for part in ["RACE on", "entry.rs", "fix       a put_signal instead", "schedule", "again "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let found = std::fs::read_to_string(&json).unwrap();
    let found: serde_json::Value = serde_json::from_str(found.trim()).unwrap();
    assert_eq!((&found["race"], &found["good"]), (&true.into(), &false.into()));
    let schedule = found["schedule"].as_str().unwrap();
    let replayed = check(&["--ranks", "2", "--replay", schedule], &words).run().ends_with(1);
    assert!(replayed.stdout().contains("RACE on"), "{}", replayed.stdout());
    check(&["--ranks", "2", "--no-races"], &words).run().ends_with(0);
}

fn several_programs_are_chosen_by_name() {
    let all = check(&[], &["programs"]).run().ends_with(1);
    assert!(all.stdout().contains("meets: passed in all schedules"), "{}", all.stdout());
    assert!(all.stdout().contains("of 3 ranks"), "{}", all.stdout());
    check(&["meets"], &["programs"]).run().ends_with(0);
    check(&["metes"], &["programs"]).run().fails_with(&["metes", "meets, fails"]);
    check(&["--replay", "0"], &["programs"]).run().fails_with(&["2 were chosen"]);
}
