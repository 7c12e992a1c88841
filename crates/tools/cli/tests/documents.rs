//! Every complete program of the documents, as the documents show it: run by several numbers of
//! ranks, on one node and on two, under the checker of races, and in the simulator with operations
//! in any order that the memory model allows.
//!
//! A program is a file of `docs/programs` and stands in a page, word for word.

mod support;

use std::process::ExitCode;

use support::{Scratch, Start, farside, own, run_own, tests};

/// The programs into whose memory the checker of races does not look: its page says so.
const UNSEEN: &[&str] = &[
    "aggregator",
    "array",
    "map",
    "semaphore",
    "shared_grid",
    "shared_list",
    "shared_sor",
    "shared_threads",
    "table",
];
/// The programs that cannot be explored: they start threads of their own.
const UNEXPLORED: &[&str] = &["shared_threads"];
/// The programs of which a single schedule without the reduction may take a minute: ranks that take
/// tasks from each other go on for as long as the others do nothing.
const LONG: &[&str] = &["stealing"];
/// The programs that use memory in a way that the exploration cannot follow.
const PARTIAL: &[&str] = &["shared_grid", "shared_list", "shared_sor"];

/// The programs, by name; each is started again as the ranks of a job.
macro_rules! programs {
    ($($name:ident)*) => {
        $(mod $name {
            include!(concat!("../../../../docs/programs/", stringify!($name), ".rs"));

            pub(super) fn entry() -> std::process::ExitCode {
                main()
            }
        })*
        const PROGRAMS: &[Program] = &[$(Program {
            name: stringify!($name),
            text: include_str!(concat!("../../../../docs/programs/", stringify!($name), ".rs")),
            entry: $name::entry,
        }),*];
    };
}

struct Program {
    name: &'static str,
    text: &'static str,
    entry: fn() -> ExitCode,
}

programs! {
    account aggregator array counter epochs halo histogram histogram_vector map neighbours pipeline
    ring scope semaphore shared_grid shared_list shared_sor shared_threads stealing table waiting
    window
}

const PAGES: &[&str] = &[
    "README.md",
    "docs/containers.md",
    "docs/dsm.md",
    "docs/epochs.md",
    "docs/recipes/halo.md",
    "docs/recipes/histogram.md",
    "docs/recipes/pipeline.md",
    "docs/recipes/table.md",
    "docs/recipes/task-queue.md",
    "docs/semaphore.md",
    "docs/tutorial.md",
];

tests! {
    pages_show_the_programs_word_for_word programs_run_with_any_number_of_ranks
    programs_run_on_two_nodes programs_have_no_race programs_survive_other_schedules
    programs_come_to_the_same_without_the_reduction
}

fn main() -> ExitCode {
    let words = support::words();
    match &words[..] {
        [word, name] if word == "program" => {
            let program = PROGRAMS.iter().find(|program| program.name == name);
            (program.expect("the tests start programs that are there").entry)()
        }
        _ => support::run_tests(TESTS, &words),
    }
}

/// Returns the blocks of a page that are complete programs.
fn shown(page: &str) -> Vec<String> {
    let blocks = farside_testing::blocks(page, "rust").into_iter();
    blocks.filter(|block| block.contains("#[farside::main]")).collect()
}

fn pages_show_the_programs_word_for_word() {
    let shown: Vec<(&str, String)> = PAGES
        .iter()
        .flat_map(|page| shown(page).into_iter().map(move |block| (*page, block)))
        .collect();
    for (page, block) in &shown {
        let is_known = PROGRAMS.iter().any(|program| program.text == block);
        assert!(is_known, "a program of {page} differs from those in docs/programs:\n{block}");
    }
    for program in PROGRAMS {
        let is_shown = shown.iter().any(|(_, block)| program.text == block);
        assert!(is_shown, "no page shows docs/programs/{}.rs as it is", program.name);
    }
}

fn all_end_well(without: &[&str], start: impl Fn(&str) -> Start) {
    for program in PROGRAMS.iter().filter(|program| !without.contains(&program.name)) {
        start(program.name).run().ends_with(0);
    }
}

fn programs_run_with_any_number_of_ranks() {
    for ranks in ["1", "2", "3", "4"] {
        all_end_well(&[], |name| run_own(&["-n", ranks], &[name]));
    }
}

fn programs_run_on_two_nodes() {
    all_end_well(&[], |name| run_own(&["-n", "3", "--nodes", "2"], &[name]));
}

fn programs_have_no_race() {
    all_end_well(UNSEEN, |name| run_own(&["-n", "3", "--races"], &[name]));
}

fn programs_survive_other_schedules() {
    let (own, how) = (own(), ["--ranks", "3", "--policy", "random", "--schedules", "20"]);
    all_end_well(UNEXPLORED, |name| {
        // What cannot be looked into for races would be said, by the exit status, too.
        let races = UNSEEN.contains(&name).then_some("--no-races");
        let words = ["check", own.as_str()].into_iter().chain(how).chain(races);
        farside(words.chain(["--", "program", name]))
    });
}

/// Of some the whole search is too long: then what the reduction has found so far is compared.
fn programs_come_to_the_same_without_the_reduction() {
    let (own, scratch) = (own(), Scratch::new());
    let mut partial = Vec::new();
    let is_meant =
        |program: &&Program| !UNEXPLORED.iter().chain(LONG).any(|it| *it == program.name);
    for program in PROGRAMS.iter().filter(is_meant) {
        let verdict = |policy: &str| {
            let json = scratch.file(&format!("{}-{policy}.json", program.name));
            let how = ["--ranks", "2", "--no-races", "--schedules", "50", "--policy", policy];
            let words = ["check", own.as_str(), "--json", &json].into_iter().chain(how);
            farside(words.chain(["--", "program", program.name])).run();
            let text = std::fs::read_to_string(&json).expect("a verdict was written");
            let outcome =
                text.split("\"outcome\":\"").nth(1).and_then(|rest| rest.split('"').next());
            outcome.expect("it has an outcome").to_owned()
        };
        let [found, all] = ["exhaustive", "unreduced"].map(verdict);
        assert!(found != "failed" && all != "failed", "{}: {found}, {all}", program.name);
        if found == "partial" || all == "partial" {
            partial.push(program.name);
        }
        println!("{}: {found}, without the reduction {all}", program.name);
    }
    assert_eq!(partial, PARTIAL);
}
