//! `farside bench`: figures as a table, as JSON and as plots, and what is wrong with bad options.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::{Farside, Scratch, farside};
use serde_json::Value;

/// All cases that are measured if none is named.
const CASES: [&str; 12] = [
    "put",
    "get",
    "accumulate",
    "get_accumulate",
    "put_strided",
    "fetch_add",
    "swap",
    "compare_swap",
    "compare_swap_miss",
    "signal",
    "rate",
    "barrier",
];

fn quick(options: &[&str]) -> Farside {
    farside(
        ["bench", "ops", "--ranks", "2", "--sizes", "8", "--rounds", "1", "--time", "1"]
            .iter()
            .chain(options),
    )
}

fn records(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the file is there");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn figures_come_as_table_as_json_and_as_plots() {
    let scratch = Scratch::new();
    let (json, plots) = (scratch.file("ops.json"), scratch.file("deep/plots"));
    let stdout = quick(&["--json", &json, "--plot", &plots]).run().ends_with(0).stdout();
    for word in ["ranks", "case", "bytes", "target", "farside", "limit", "idle", "computing"]
        .iter()
        .chain(&CASES)
    {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
    let records = records(&json);
    for record in &records {
        let text =
            |key: &str| record[key].as_str().unwrap_or_else(|| panic!("no {key} in {record}"));
        assert_eq!((text("bench"), text("fabric")), ("ops", "shm"), "{record}");
        assert_eq!(
            (record["ranks"].as_u64(), record["nodes"].as_u64()),
            (Some(2), Some(1)),
            "{record}"
        );
        assert!(record["median_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{record}");
        assert!(CASES.contains(&text("case")), "{record}");
    }
    let of = |system: &str| -> BTreeSet<&str> {
        let own = records.iter().filter(|record| record["system"] == system);
        own.map(|record| record["case"].as_str().expect("a case is text")).collect()
    };
    assert_eq!(of("farside"), BTreeSet::from(CASES));
    assert!(
        of("limit").is_superset(&BTreeSet::from(["put", "get", "fetch_add", "barrier"])),
        "{:?}",
        of("limit")
    );
    check_plots(&plots, &stdout);
}

/// Keeps all processors busy, at the lowest priority, until it is dropped.
struct Busy(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Busy {
    fn start() -> Busy {
        let is_over = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, |it| it.get());
        let spin = |_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                rustix::process::nice(19).expect("a thread may give way");
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        // So many that the average load of a minute shows them after some seconds.
        let spinning = (0..8 * processors).map(spin).collect();
        let busy = Busy(is_over, spinning);
        let begin = Instant::now();
        while load() < processors as f64 && begin.elapsed() < Duration::from_secs(40) {
            // sleep: the load is an average, which nothing but time changes.
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(load() >= processors as f64, "the load of {processors} processors is {}", load());
        busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| thread.join().expect("it spins, and nothing else"));
    }
}

/// The average load of the last minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").expect("the system says");
    let first = text.split_whitespace().next().expect("it says something");
    first.parse().expect("a number")
}

#[test]
fn what_was_measured_on_a_busy_machine_says_so() {
    let scratch = Scratch::new();
    let busy = Busy::start();
    let ops = scratch.file("ops.json");
    let said = quick(&["--json", &ops]).run().ends_with(0).stderr();
    for words in ["the machine is busy", "the machine was busy, these figures mean little"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    for record in records(&ops) {
        let used = record["processors_used_by_others"].as_f64();
        assert!(used.is_some_and(|used| used > 0.0), "{record}");
    }
    // The benches of several numbers of nodes say it once.
    let short = ["--cases", "sor", "--iterations", "1", "--rounds", "1", "--time", "1"];
    let dsm = ["bench", "dsm", "--nodes", "1,2", "--ranks", "2"].into_iter().chain(short);
    let said = farside(dsm).longer(Duration::from_secs(60)).run().ends_with(0).stderr();
    assert_eq!(said.matches("the machine is busy").count(), 1, "{said}");
    drop(busy);
}

fn check_plots(directory: &str, stdout: &str) {
    assert!(stdout.contains(&format!("{directory}/index.html")), "{stdout}");
    let page =
        std::fs::read_to_string(format!("{directory}/index.html")).expect("the page is there");
    let names = std::fs::read_dir(directory).expect("the directory is there").flatten();
    let names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let plots: Vec<&String> = names.iter().filter(|name| name.ends_with(".svg")).collect();
    assert!(plots.len() >= 6, "{plots:?}");
    for plot in plots {
        let svg =
            std::fs::read_to_string(format!("{directory}/{plot}")).expect("the plot is there");
        assert!(svg.contains("<svg") && svg.trim_end().ends_with("</svg>"), "{plot}: {svg}");
        assert!(page.contains(plot.as_str()), "{plot} is not on the page");
    }
}

#[test]
fn only_the_cases_and_ranks_asked_for_are_measured() {
    let scratch = Scratch::new();
    let json = scratch.file("ops.json");
    let words =
        ["bench", "ops", "--ranks", "2,3", "--cases", "barrier", "--rounds", "2", "--time", "1"];
    farside(words.into_iter().chain(["--json", &json])).run().ends_with(0);
    let own = records(&json).into_iter().filter(|record| record["system"] == "farside");
    let own: Vec<(Value, Value)> =
        own.map(|record| (record["case"].clone(), record["ranks"].clone())).collect();
    assert_eq!(own, [("barrier".into(), 2.into()), ("barrier".into(), 3.into())]);
}

#[test]
fn sizes_have_units() {
    let scratch = Scratch::new();
    let json = scratch.file("ops.json");
    let words =
        ["bench", "ops", "--cases", "put", "--sizes", "16,1K", "--rounds", "1", "--time", "1"];
    farside(words.into_iter().chain(["--json", &json])).run().ends_with(0);
    let sizes: BTreeSet<u64> =
        records(&json).iter().map(|record| record["bytes"].as_u64().expect("a size")).collect();
    assert_eq!(sizes, BTreeSet::from([16, 1024]));
}

#[test]
fn bad_values_of_options_are_named() {
    for (option, value) in [
        ("--ranks", "1"),
        ("--ranks", "many"),
        ("--ranks", "2,0"),
        ("--sizes", "7"),
        ("--sizes", "65"),
        ("--sizes", "1G"),
        ("--sizes", "8,large"),
        ("--cases", "put,fly"),
        ("--against", "pvm"),
        ("--rounds", "0"),
        ("--rounds", "x"),
        ("--time", "0"),
        ("--time", "-1"),
    ] {
        // Of a list, the part that is wrong; of a number with a unit, what it stands for.
        let wrong = if value == "1G" {
            "1073741824"
        } else {
            value.rsplit(',').next().expect("it has a part")
        };
        let finished = farside(["bench", "ops", option, value]).run();
        assert_eq!(finished.stdout(), "", "{option} {value}: nothing is measured");
        finished.fails_with(&[wrong]);
    }
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let scratch = Scratch::new();
    let json = scratch.file("nowhere/ops.json");
    quick(&["--cases", "put", "--json", &json]).run().fails_with(&[&json, "cannot write"]);
    let file = scratch.file("file");
    std::fs::write(&file, "").expect("a file can be written");
    let below = format!("{file}/plots");
    quick(&["--cases", "put", "--plot", &below]).run().fails_with(&[&below]);
}

#[test]
fn where_results_cannot_be_written_nothing_is_lost() {
    let scratch = Scratch::new();
    let (json, plots) = (scratch.file("ops.json"), scratch.file("plots"));
    std::fs::write(&json, "older figures\n").expect("a file can be written");
    std::fs::create_dir_all(format!("{plots}/index.html")).expect("a directory can be made");
    let finished = quick(&["--cases", "put", "--json", &json, "--plot", &plots]).run();
    assert_eq!(finished.stdout(), "", "nothing is measured");
    finished.fails_with(&[&format!("{plots}/index.html"), "cannot write"]);
    assert_eq!(std::fs::read_to_string(&json).expect("it is there"), "older figures\n");
}

#[test]
fn what_is_not_measured_is_said() {
    let processors = std::thread::available_parallelism().expect("the system knows").get();
    let many = (processors.max(2) + 1).to_string();
    let short = |words: &[&str]| {
        let words = ["bench"].iter().chain(words).chain(&["--time", "1", "--rounds", "1"]).copied();
        farside(words.map(str::to_owned).collect::<Vec<String>>()).run()
    };
    let nothing = "nothing of what was asked for is measured";
    let pairs = format!("put at {many} ranks: where ranks outnumber processors");
    for (words, why) in [
        (&["ops", "--ranks", &many, "--cases", "put", "--sizes", "8"][..], pairs.as_str()),
        (&["ops", "--ranks", "5000", "--cases", "put", "--sizes", "8"], "put at 5000 ranks"),
        (
            &["overlap", "--ranks", "3", "--cases", "latency"],
            "latency at 3 ranks: a pair is measured at 2",
        ),
        (
            &["locks", "--locks", "ticket", "--writers", "5"],
            "ticket: locks that readers cannot share",
        ),
        (
            &["interference", "--sim", "myrinet-2000", "--ranks", "2", "--cases", "bandwidth"],
            "bandwidth at 2 ranks",
        ),
    ] {
        let finished = short(words);
        assert_eq!(finished.stdout(), "", "{words:?}");
        finished.fails_with(&[nothing, why]);
    }
    for (words, why) in [
        (&["ops", "--ranks", &many, "--cases", "put,barrier", "--sizes", "8"][..], pairs.as_str()),
        (
            &[
                "overlap",
                "--sim",
                "aries-xc30",
                "--ranks",
                "3",
                "--sizes",
                "8",
                "--operations",
                "2",
            ],
            "latency, sender at 3",
        ),
        (
            &[
                "locks",
                "--sim",
                "aries-xc30",
                "--locks",
                "ticket,rma-rw",
                "--writers",
                "5",
                "--ranks",
                "2",
            ],
            "ticket: ",
        ),
    ] {
        let finished = short(words).ends_with(0).says(&["not measured: ", why]);
        assert_ne!(finished.stdout(), "", "{words:?}");
    }
}

/// What a bench with options that make it short has written to a file.
fn measured(words: &[&str]) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let json = scratch.file("figures.json");
    let quick = ["--rounds", "1", "--time", "1", "--json", &json];
    let stdout = farside(["bench"].iter().chain(words).chain(&quick)).run().ends_with(0).stdout();
    (records(&json), stdout)
}

#[test]
fn fences_and_barriers_are_measured_on_real_ranks() {
    let (records, stdout) = measured(&["sync", "--ranks", "2,3"]);
    let algorithms = |case: &str, ranks: u64| -> Vec<&str> {
        let of = records.iter().filter(|record| record["case"] == case && record["ranks"] == ranks);
        of.map(|record| record["algorithm"].as_str().expect("an algorithm is text")).collect()
    };
    for ranks in [2, 3] {
        assert_eq!(algorithms("allfence_barrier", ranks), ["acknowledged", "confirmed"]);
        assert_eq!(algorithms("sync", ranks), ["world", "auto", "direct", "counted"]);
        let barriers = ["world", "central", "dissemination", "binomial", "hierarchical"];
        assert_eq!(algorithms("barrier", ranks), barriers);
    }
    for record in &records {
        assert_eq!(
            (&record["bench"], &record["system"]),
            (&"sync".into(), &"farside".into()),
            "{record}"
        );
        assert!(record["median_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{record}");
        assert!(record["messages"].as_f64().is_some(), "{record}");
    }
    for word in ["allfence_barrier", "confirmed", "counted", "dissemination", "messages"] {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
}

#[test]
fn fences_and_barriers_are_measured_in_virtual_time_and_drawn() {
    let scratch = Scratch::new();
    let plots = scratch.file("plots");
    let words =
        ["sync", "--sim", "myrinet-2000", "--ranks", "4,8", "--bytes", "64", "--plot", &plots];
    let (records, _) = measured(&words);
    let counted =
        records.iter().find(|record| record["algorithm"] == "counted" && record["ranks"] == 8);
    let counted = counted.expect("it was measured");
    assert_eq!((&counted["messages"], &counted["bytes"]), (&6.0.into(), &64.into()));
    assert_eq!((&counted["fabric"], &counted["nodes"]), (&"sim".into(), &8.into()));
    for plot in ["sync-time.svg", "sync-speedup.svg", "sync-barrier.svg", "index.html"] {
        assert!(std::path::Path::new(&plots).join(plot).exists(), "{plot}");
    }
}

#[test]
fn starts_are_measured_beside_a_rival_and_drawn() {
    let scratch = Scratch::new();
    let plots = scratch.file("plots");
    let words = ["start", "--ranks", "1,3", "--against", "openmpi", "--plot", &plots];
    let (records, stdout) = measured(&words);
    for (system, case, ranks) in [
        ("farside", "job", 1),
        ("farside", "join", 3),
        ("farside", "window", 3),
        ("openmpi", "job", 3),
        ("openmpi", "join", 3),
        ("openmpi", "window", 3),
    ] {
        let is = |record: &&Value| {
            record["system"] == system && record["case"] == case && record["ranks"] == ranks
        };
        let record = records.iter().find(is).unwrap_or_else(|| panic!("{system} {case}: {stdout}"));
        assert!(record["median_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{record}");
    }
    for plot in ["start-job.svg", "start-window.svg", "index.html"] {
        assert!(std::path::Path::new(&plots).join(plot).exists(), "{plot}");
    }
    farside(["bench", "start", "--sim", "myrinet-2000"]).run().fails_with(&["--sim"]);
    let words = ["bench", "start", "--ranks", "2", "--nodes", "2", "--cases", "join"];
    farside(words).run().fails_with(&["--nodes", "join"]);
}

#[test]
fn bad_options_of_sync_are_named() {
    for (option, value) in
        [("--ranks", "1"), ("--bytes", "7"), ("--bytes", "2M"), ("--cases", "put")]
    {
        let wrong = if value == "2M" { "2097152" } else { value };
        farside(["bench", "sync", option, value]).run().fails_with(&[wrong]);
    }
    farside(["bench", "sync", "--sim", "myrinet-2000", "--against", "mpich"])
        .run()
        .fails_with(&["--against"]);
}

#[test]
fn locks_are_measured_on_real_ranks() {
    let (records, stdout) =
        measured(&["locks", "--ranks", "2,3", "--writers", "5,100", "--cases", "lb,release,wcsb"]);
    let count = |lock: &str, case: &str| {
        records.iter().filter(|record| record["lock"] == lock && record["case"] == case).count()
    };
    for case in ["lb", "release", "wcsb"] {
        // A lock that readers can share is measured with readers, too; both at two numbers of
        // ranks.
        assert_eq!((count("d-mcs", case), count("rma-rw", case)), (2, 4), "{case}");
    }
    for record in &records {
        let figure =
            |name: &str| record[name].as_f64().unwrap_or_else(|| panic!("no {name} in {record}"));
        assert!(
            figure("median_ns") > 0.0 && figure("per_s") > 0.0 && figure("wait_max_ns") > 0.0,
            "{record}"
        );
        assert!(
            figure("share_min") <= 1.0 && figure("share_max") >= 1.0 && figure("fairness") <= 1.0,
            "{record}"
        );
        // Of few operations there are no percentiles.
        if let Some(p99_ns) = record["p99_ns"].as_f64() {
            assert!(p99_ns >= figure("p50_ns"), "{record}");
        }
        // One at a time, each for a microsecond at least.
        if record["case"] == "wcsb" && record["writers_pct"] == 100 {
            assert!(figure("per_s") <= 1e6, "{record}");
        }
    }
    for word in ["2 ranks", "3 ranks", "longest wait", "by ranks", "default", "5 %"] {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
}

#[test]
fn thresholds_of_locks_are_swept_in_virtual_time() {
    let scratch = Scratch::new();
    let plots = scratch.file("plots");
    let words = [
        "locks",
        "--sim",
        "aries-xc30",
        "--ranks",
        "32",
        "--locks",
        "rma-rw,fompi-rw",
        "--writers",
        "25",
    ];
    let sweep = [
        "--cases",
        "ecsb",
        "--t-r",
        "10,1000",
        "--t-l",
        "20-50,10-100",
        "--operations",
        "10",
        "--plot",
        &plots,
    ];
    let (records, _) = measured(&[&words[..], &sweep].concat());
    let of = |t_l: &str, t_r: u64| {
        let is = |record: &&Value| record["t_l"] == t_l && record["t_r"] == t_r;
        records.iter().filter(is).count()
    };
    assert_eq!([of("20-50", 10), of("20-50", 1000), of("10-100", 10), of("10-100", 1000)], [1; 4]);
    assert_eq!(records.len(), 5, "a lock without thresholds is measured once");
    assert!(std::path::Path::new(&plots).join("locks-ecsb-25.svg").exists());
}

#[test]
fn bad_options_of_locks_are_named() {
    for (option, value) in [
        ("--ranks", "0"),
        ("--locks", "bakery"),
        ("--writers", "101"),
        ("--writers", "few"),
        ("--t-l", "20-x"),
        ("--cases", "put"),
        ("--operations", "0"),
    ] {
        farside(["bench", "locks", option, value]).run().fails_with(&[value]);
    }
    let readers_only = ["bench", "locks", "--locks", "ticket", "--writers", "5"];
    farside(readers_only).run().fails_with(&["100 % writers"]);
}
