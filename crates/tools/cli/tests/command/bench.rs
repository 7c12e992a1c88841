//! `farside bench`: figures as a table, as JSON and as plots, and what is wrong with bad options.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::measured::{figure, measured, records, refused};
use crate::support::{Scratch, Start, farside};
use serde_json::Value;

/// All cases that are measured if none is named.
const CASES: &str = "put get accumulate get_accumulate put_strided fetch_add swap compare_swap \
                     compare_swap_miss signal rate barrier";

fn quick(options: &[&str]) -> Start {
    let line = "bench ops --ranks 2 --sizes 8 --rounds 1 --time 1";
    farside(line.split(' ').chain(options.iter().copied()))
}

#[test]
fn figures_come_as_table_as_json_and_as_plots() {
    let scratch = Scratch::new();
    let (json, plots) = (scratch.file("ops.json"), scratch.file("deep/plots"));
    let stdout = quick(&["--json", &json, "--plot", &plots]).run().ends_with(0).stdout();
    let columns = "ranks case bytes target farside limit idle computing";
    for word in columns.split(' ').chain(CASES.split(' ')) {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
    let records = records(&json);
    for record in &records {
        let text =
            |key: &str| record[key].as_str().unwrap_or_else(|| panic!("no {key} in {record}"));
        assert_eq!((text("bench"), text("fabric")), ("ops", "shm"), "{record}");
        assert_eq!((&record["ranks"], &record["nodes"]), (&2.into(), &1.into()), "{record}");
        assert!(figure(record, "median_ns") > 0.0, "{record}");
    }
    let of = |system: &str| -> BTreeSet<&str> {
        let own = records.iter().filter(|record| record["system"] == system);
        own.map(|record| record["case"].as_str().expect("a case is text")).collect()
    };
    assert_eq!(of("farside"), CASES.split(' ').collect());
    let (limits, some) = (of("limit"), BTreeSet::from(["put", "get", "fetch_add", "barrier"]));
    assert!(limits.is_superset(&some), "{limits:?}");
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
        assert!(figure(&record, "processors_used_by_others") > 0.0, "{record}");
    }
    // The benches of several numbers of nodes say it once.
    let dsm = "bench dsm --nodes 1,2 --ranks 2 --cases sor --iterations 1 --rounds 1 --time 1";
    let said = farside(dsm.split(' ')).longer(Duration::from_secs(60)).run().ends_with(0).stderr();
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
fn only_what_was_asked_for_is_measured() {
    let (figures, _) = measured("ops --ranks 2,3 --cases barrier --time 1", &[]);
    let own = figures.into_iter().filter(|record| record["system"] == "farside");
    let own: Vec<(Value, Value)> =
        own.map(|record| (record["case"].clone(), record["ranks"].clone())).collect();
    assert_eq!(own, [("barrier".into(), 2.into()), ("barrier".into(), 3.into())]);
    // Sizes have units.
    let (figures, _) = measured("ops --cases put --sizes 16,1K --time 1", &[]);
    let sizes: BTreeSet<u64> =
        figures.iter().map(|record| record["bytes"].as_u64().expect("a size")).collect();
    assert_eq!(sizes, BTreeSet::from([16, 1024]));
}

/// Of a list, the part that is wrong is named; of a number with a unit, what it stands for.
#[test]
fn bad_values_of_options_are_named() {
    refused(&[
        ("bench ops --ranks 1", "1"),
        ("bench ops --ranks many", "many"),
        ("bench ops --ranks 2,0", "0"),
        ("bench ops --sizes 7", "7"),
        ("bench ops --sizes 65", "65"),
        ("bench ops --sizes 1G", "1073741824"),
        ("bench ops --sizes 8,large", "large"),
        ("bench ops --cases put,fly", "fly"),
        ("bench ops --against pvm", "pvm"),
        ("bench ops --rounds 0", "0"),
        ("bench ops --rounds x", "x"),
        ("bench ops --time 0", "0"),
        ("bench ops --time -1", "-1"),
        ("bench sync --ranks 1", "1"),
        ("bench sync --bytes 7", "7"),
        ("bench sync --bytes 2M", "2097152"),
        ("bench sync --cases put", "put"),
        ("bench sync --sim myrinet-2000 --against mpich", "--against"),
        ("bench locks --ranks 0", "0"),
        ("bench locks --locks bakery", "bakery"),
        ("bench locks --writers 101", "101"),
        ("bench locks --writers few", "few"),
        ("bench locks --t-l 20-x", "20-x"),
        ("bench locks --cases put", "put"),
        ("bench locks --operations 0", "0"),
        ("bench locks --locks ticket --writers 5", "100 % writers"),
        ("bench start --sim myrinet-2000", "--sim"),
        ("bench start --ranks 2 --nodes 2 --cases join", "--nodes"),
        ("bench start --ranks 2 --nodes 2 --cases join", "join"),
    ]);
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
    let short = |line: &str| {
        let quick = ["--time", "1", "--rounds", "1"];
        farside(["bench"].into_iter().chain(line.split(' ')).chain(quick)).run()
    };
    let nothing = "nothing of what was asked for is measured";
    let pairs = format!("put at {many} ranks: where ranks outnumber processors");
    for (line, why) in [
        (&*format!("ops --ranks {many} --cases put --sizes 8"), &*pairs),
        ("ops --ranks 5000 --cases put --sizes 8", "put at 5000 ranks"),
        ("overlap --ranks 3 --cases latency", "latency at 3 ranks: a pair is measured at 2"),
        ("locks --locks ticket --writers 5", "ticket: locks that readers cannot share"),
        ("interference --sim myrinet-2000 --ranks 2 --cases bandwidth", "bandwidth at 2 ranks"),
    ] {
        let finished = short(line);
        assert_eq!(finished.stdout(), "", "{line}");
        finished.fails_with(&[nothing, why]);
    }
    for (line, why) in [
        (&*format!("ops --ranks {many} --cases put,barrier --sizes 8"), &*pairs),
        ("overlap --sim aries-xc30 --ranks 3 --sizes 8 --operations 2", "latency, sender at 3"),
        ("locks --sim aries-xc30 --locks ticket,rma-rw --writers 5 --ranks 2", "ticket: "),
    ] {
        let finished = short(line).ends_with(0).says(&["not measured: ", why]);
        assert_ne!(finished.stdout(), "", "{line}");
    }
}

#[test]
fn fences_and_barriers_are_measured_on_real_ranks() {
    let (records, stdout) = measured("sync --ranks 2,3 --time 1", &[]);
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
        assert_eq!((&record["bench"], &record["system"]), (&"sync".into(), &"farside".into()));
        assert!(figure(record, "median_ns") > 0.0 && figure(record, "messages") >= 0.0, "{record}");
    }
    for word in ["allfence_barrier", "confirmed", "counted", "dissemination", "messages"] {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
}

#[test]
fn starts_are_measured_beside_a_rival_and_drawn() {
    let scratch = Scratch::new();
    let plots = scratch.file("plots");
    let line = "start --ranks 1,3 --against openmpi --time 1";
    let (records, stdout) = measured(line, &["--plot", &plots]);
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
        assert!(figure(record, "median_ns") > 0.0, "{record}");
    }
    for plot in ["start-job.svg", "start-window.svg", "index.html"] {
        assert!(std::path::Path::new(&plots).join(plot).exists(), "{plot}");
    }
}

#[test]
fn locks_are_measured_on_real_ranks() {
    let line = "locks --ranks 2,3 --writers 5,100 --cases lb,release,wcsb --time 1";
    let (records, stdout) = measured(line, &[]);
    let count = |lock: &str, case: &str| {
        records.iter().filter(|record| record["lock"] == lock && record["case"] == case).count()
    };
    for case in ["lb", "release", "wcsb"] {
        // A lock that readers can share is measured with readers, too; both at two numbers of
        // ranks.
        assert_eq!((count("d-mcs", case), count("rma-rw", case)), (2, 4), "{case}");
    }
    for record in &records {
        let figure = |name: &str| figure(record, name);
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
    let line = "locks --sim aries-xc30 --ranks 32 --locks rma-rw,fompi-rw --writers 25 \
                --cases ecsb --t-r 10,1000 --t-l 20-50,10-100 --operations 10 --time 1";
    let (records, _) = measured(line, &["--plot", &plots]);
    let of = |t_l: &str, t_r: u64| {
        let is = |record: &&Value| record["t_l"] == t_l && record["t_r"] == t_r;
        records.iter().filter(is).count()
    };
    assert_eq!([of("20-50", 10), of("20-50", 1000), of("10-100", 10), of("10-100", 1000)], [1; 4]);
    assert_eq!(records.len(), 5, "a lock without thresholds is measured once");
    assert!(std::path::Path::new(&plots).join("locks-ecsb-25.svg").exists());
}
