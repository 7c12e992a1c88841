//! Programs on shared pages: `farside app fft3d | barnes | sor | jacobi | tsp` as processes,
//! threads and simulated ranks, and `farside bench dsm`.

use super::measured::{figure, measured, refused};
use crate::support::{Finished, Scratch, farside};
use serde_json::Value;

/// The programs, each with a size at which ranks share pages and which takes but a moment.
const PROGRAMS: [(&str, &str); 5] =
    [("fft3d", "8x16x8"), ("barnes", "150"), ("sor", "50x70"), ("jacobi", "40x90"), ("tsp", "9")];

fn app(program: &str, job: &[&str], options: &[&str]) -> Finished {
    farside(["app", program].iter().chain(job).chain(&["--"]).chain(options)).run()
}

/// Asserts that a program gave the sequential answer, and returns what it said.
fn agrees(finished: Finished, ranks: u32) -> String {
    let stdout = finished.ends_with(0).stdout();
    assert!(stdout.contains("the same as that of the sequential run"), "{stdout}");
    assert!(stdout.contains(&format!(", {ranks} ranks, ")), "{stdout}");
    stdout
}

fn number_after(text: &str, word: &str) -> u64 {
    let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("no {word:?} in {text}"));
    rest.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{rest}"))
}

#[test]
fn processes_on_one_node_and_on_several_give_the_sequential_answer() {
    for (program, size) in PROGRAMS {
        let small = ["--size", size, "--iterations", "2"];
        let paper = ["--copies", "rank", "--diffs", "eager"];
        let original = ["--barrier", "central", "--start", "original"];
        let original = [&small[..], &original, &paper].concat();
        let stdout = agrees(app(program, &["-n", "3"], &original), 3);
        assert!(number_after(&stdout, "cold misses") > 0, "{stdout}");
        let stdout = agrees(app(program, &["-n", "5", "--nodes", "2"], &small), 5);
        assert!(stdout.contains("barrier tree, start zero"), "{stdout}");
        assert_eq!(number_after(&stdout, "cold misses"), 0, "{stdout}");
        // Ranks of one node share their pages.
        let stdout = agrees(app(program, &["-n", "3"], &small), 3);
        assert!(
            stdout.contains("the iterations alone as well; medians of 3, in turns"),
            "{stdout}"
        );
        assert!(stdout.contains("access plain, copies node, diffs on-demand"), "{stdout}");
        for none in ["faults ", "reads, ", "twins ", "diffs "] {
            let after = stdout.rsplit("time  ").next().unwrap_or(&stdout);
            assert_eq!(number_after(after, none), 0, "{none}: {stdout}");
        }
    }
}

#[test]
fn threads_and_simulated_ranks_give_the_sequential_answer() {
    for (program, size) in PROGRAMS {
        let small = ["--size", size, "--iterations", "2"];
        let protected = [&small[..], &["--access", "protect", "--check-races"]].concat();
        agrees(app(program, &["-n", "4", "--threads"], &protected), 4);
        let stdout = agrees(app(program, &["-n", "8", "--sim", "ibm-sp"], &small), 8);
        assert!(
            stdout.contains("access explicit") && stdout.contains("8 ranks on ibm-sp"),
            "{stdout}"
        );
        // Computing takes no virtual time, so there is nothing to compare with.
        assert!(!stdout.contains("speed-up"), "{stdout}");
    }
}

#[test]
fn each_array_is_told_of() {
    let small = ["--size", "200x400", "--iterations", "4", "--stats", "--diffs"];
    let unwanted = |diffs: &str| {
        let options = [&small[..], &[diffs]].concat();
        let stdout = agrees(app("sor", &["-n", "2", "--nodes", "2"], &options), 2);
        let arrays: Vec<&str> =
            stdout.lines().filter(|line| line.contains("diffs wanted and")).collect();
        assert_eq!(arrays.len(), 2, "{stdout}");
        for array in &arrays {
            assert!(number_after(&format!("is {array}"), "is") > 0, "{stdout}");
            assert!(number_after(array, "unwanted,") > 0, "{stdout}");
        }
        arrays.iter().map(|array| number_after(array, "wanted and")).sum::<u64>()
    };
    let (on_demand, eager) = (unwanted("on-demand"), unwanted("eager"));
    assert!(eager > 10 * on_demand && eager > 100, "{eager} {on_demand}");
}

#[test]
fn what_has_come_out_is_drawn() {
    let scratch = Scratch::new();
    for (program, size) in PROGRAMS {
        let picture = scratch.file(&format!("{program}.svg"));
        let small = ["--size", size, "--iterations", "4", "--plot", &picture];
        let said = agrees(app(program, &["-n", "2"], &small), 2);
        assert!(said.contains(&format!("  picture      {picture}\n")), "{said}");
        let svg = std::fs::read_to_string(&picture).expect("the picture is there");
        assert!(svg.contains("<svg") && svg.trim_end().ends_with("</svg>"), "{program}: {svg}");
    }
    let nowhere = scratch.file("nowhere/sor.svg");
    app("sor", &["-n", "2"], &["--size", "50x70", "--plot", &nowhere])
        .fails_with(&[&nowhere, "cannot be written"]);
}

#[test]
fn what_a_program_does_not_take_is_named() {
    for (program, options, problems) in [
        ("jacobi", &["--start", "late"][..], ["\"late\"", "original, zero"]),
        ("barnes", &["--access", "magic"], ["\"magic\"", "explicit"]),
        ("fft3d", &["--fetch", "carrier"], ["\"carrier\"", "get, call"]),
        ("sor", &["--copies", "none"], ["\"none\"", "node, rank"]),
        ("sor", &["--diffs", "late"], ["\"late\"", "on-demand, eager"]),
        ("fft3d", &["--size", "8x16x9"], ["9", "powers of two"]),
        ("fft3d", &["--size", "64"], ["[64]", "3 numbers"]),
        ("sor", &["--size", "2x2"], ["[2, 2]", "at least 4"]),
        ("barnes", &["--size", "0"], ["[0]", "at least 1"]),
        ("tsp", &["--size", "40"], ["40", "24"]),
        ("jacobi", &["--iterations", "some"], ["some", "a number"]),
        ("sor", &["--iterations", "0"], ["0", "at least 1"]),
        ("sor", &["--turns", "often"], ["often", "a number"]),
        ("jacobi", &["--storage-limit", "-1"], ["-1", "a number"]),
        ("barnes", &["--colour", "red"], ["--colour", "--iterations"]),
    ] {
        app(program, &["-n", "2"], options).fails_with(&problems);
    }
}

#[test]
fn programs_are_measured_on_one_node_and_on_several() {
    for (nodes, fabric, sizes) in [
        ("--ranks 2,3", "shm", [(2, 1), (3, 1)]),
        ("--nodes 3,2", "nic", [(2, 2), (3, 3)]),
        ("--nodes 2,4 --ranks 4", "nic", [(4, 2), (4, 4)]),
    ] {
        let scratch = Scratch::new();
        let plots = scratch.file("plots");
        let tiny = "dsm --cases jacobi --size 40x90 --iterations 2 --copies rank --diffs eager";
        let (records, stdout) = measured(&format!("{tiny} {nodes}"), &["--plot", &plots]);
        for (ranks, nodes) in sizes {
            for (start, barrier) in ["original", "zero"]
                .into_iter()
                .flat_map(|start| ["central", "tree"].map(|barrier| (start, barrier)))
            {
                let is = |record: &&Value| {
                    (&record["ranks"], &record["nodes"]) == (&ranks.into(), &nodes.into())
                        && (&record["start"], &record["barrier"])
                            == (&start.into(), &barrier.into())
                };
                let found = records.iter().filter(is).count();
                assert_eq!(found, 1, "{ranks} {nodes} {start} {barrier}: {records:?}");
            }
        }
        assert_eq!(records.len(), 8, "{records:?}");
        for record in &records {
            assert_eq!((&record["fabric"], &record["case"]), (&fabric.into(), &"jacobi".into()));
            for name in ["median_ns", "barrier_ns", "messages"] {
                assert!(figure(record, name) > 0.0, "{name}: {record}");
            }
            let is_cold = figure(record, "cold_misses") > 0.0;
            assert_eq!(is_cold, record["start"] == "original", "{record}");
        }
        for word in ["nodes", "check-in again", "cold misses", "bytes saved", "central", "original"]
        {
            assert!(stdout.contains(word), "{word} is not in {stdout}");
        }
        for plot in ["index.html", "dsm-jacobi-barrier.svg", "dsm-jacobi-time.svg"] {
            assert!(std::path::Path::new(&plots).join(plot).exists(), "{plot}");
        }
    }
}

#[test]
fn a_work_queue_is_measured() {
    let (records, stdout) = measured("dsm --ranks 2 --cases tsp --size 8 --iterations 2", &[]);
    assert_eq!(records.len(), 4, "{records:?}");
    for record in &records {
        assert_eq!((&record["case"], &record["copies"]), (&"tsp".into(), &"node".into()));
        assert!(figure(record, "speedup") > 0.0 && figure(record, "messages") > 0.0, "{record}");
        assert!(figure(record, "base_ns") > 0.0, "{record}");
    }
    assert!(stdout.contains("tsp") && stdout.contains("the iterations alone"), "{stdout}");
}

#[test]
fn bad_options_of_the_bench_are_named() {
    refused(&[
        ("bench dsm --ranks 0", "0 ranks"),
        ("bench dsm --nodes 0", "--nodes"),
        ("bench dsm --nodes 4 --ranks 2", "4 nodes"),
        ("bench dsm --nodes 2,many", "many"),
        ("bench dsm --nodes 2 --sim ibm-sp", "--sim"),
        ("bench dsm --nodes 2 --servers nic,nic-poll", "nic, nic-poll"),
        ("bench dsm --cases lu", "\"lu\""),
        ("bench dsm --barrier ring", "no barrier \"ring\""),
        ("bench dsm --start late", "no start \"late\""),
        ("bench dsm --access magic", "\"magic\""),
        ("bench dsm --fetch carrier", "\"carrier\""),
        ("bench dsm --copies none", "\"none\""),
        ("bench dsm --diffs late", "\"late\""),
        ("bench dsm --size 40x90", "--cases"),
        ("bench dsm --size 40 --cases sor", "[40]"),
        ("bench dsm --iterations some", "some"),
        ("bench dsm --against mpich", "--against"),
        ("bench dsm --sim abacus", "abacus"),
        // What one number of nodes is for.
        ("bench ops --nodes 2,4 --ranks 4", "one number of nodes"),
    ]);
}
