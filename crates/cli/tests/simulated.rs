//! Commands that run in virtual time.

mod support;

use support::farside;

#[test]
fn an_app_runs_on_a_simulated_machine() {
    let run = |seed: &str| {
        let finished = farside(["app", "hello", "-n", "40", "--sim", "aries-xc30", "--seed", seed]).run().ends_with(0);
        let text = finished.stdout();
        let last = text.lines().last().unwrap_or_default().to_owned();
        assert!(last.contains("40 ranks on aries-xc30: ") && last.contains(" us of virtual time"), "{text}");
        last
    };
    assert_eq!(run("1"), run("1"), "one seed, one run");
    assert_ne!(run("1"), run("2"), "another seed, another run");
}

#[test]
fn a_trace_is_written_for_people_and_for_programs() {
    let directory = std::env::temp_dir().join(format!("farside-simulated-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for (name, begins) in [("hello.html", "<!doctype html>"), ("hello.json", "{")] {
        let path = directory.join(name);
        let path = path.to_str().unwrap();
        farside(["app", "hello", "-n", "16", "--sim", "infiniband-ndr", "--trace", path]).run().ends_with(0);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.trim_start().starts_with(begins), "{name} begins with {:?}", &text[..40]);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_bench_runs_on_a_simulated_machine() {
    let words = ["bench", "ops", "--sim", "myrinet-lanai4", "--ranks", "4", "--cases", "fetch_add,barrier"];
    let finished = farside(words.into_iter().chain(["--time", "5", "--rounds", "1"])).run().ends_with(0);
    assert!(finished.stdout().contains("fetch_add") && finished.stdout().contains("barrier"), "{}", finished.stdout());
}

#[test]
fn what_makes_no_sense_is_refused() {
    farside(["app", "hello", "-n", "4", "--sim", "cray"]).run().fails_with(&["cray", "aries-xc30", ".toml"]);
    farside(["app", "hello", "-n", "4", "--seed", "3"]).run().fails_with(&["--sim"]);
    farside(["app", "hello", "-n", "4", "--trace", "x.html"]).run().fails_with(&["--sim"]);
    farside(["bench", "ops", "--sim", "ibm-sp", "--against", "mpich"]).run().fails_with(&["--against", "--sim"]);
}
