//! The built-in programs have no races, at small sizes.

#[path = "../../../tools/races/tests/support/mod.rs"]
mod support;

use farside_apps::APPS;
use support::checked;

const RANKS: u32 = 4;

/// The arguments of a program that is to be done soon.
fn arguments(name: &str) -> Vec<String> {
    let words: &[&str] = match name {
        "hello" => &[],
        "fft3d" => &["--size", "8x16x8", "--iterations", "2"],
        "barnes" | "barnes-zones" => &["--size", "150", "--iterations", "2"],
        "sor" => &["--size", "50x70", "--iterations", "3"],
        "jacobi" => &["--size", "40x90", "--iterations", "3"],
        "tsp" => &["--size", "8", "--iterations", "2"],
        "count" => &["20"],
        "wordcount" => &[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")],
        "irregular" => &["64"],
        "lu" => &["--size", "64", "--block", "16", "--design", "direct,two-sided"],
        other => panic!("{other} has no small size here yet"),
    };
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn the_built_in_programs_have_no_races() {
    for app in APPS {
        let arguments = arguments(app.name);
        let report = checked(RANKS, |world| (app.run)(world, &arguments));
        assert!(report.races.is_empty(), "{}: {report}", app.name);
        println!("{}: {} accesses", app.name, report.accesses);
    }
}
