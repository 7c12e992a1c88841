//! `farside bench shmem`: figures of a program in C as a table, as JSON and as plots, and what is
//! wrong with bad options.
//!
//! The library is not installed here: a compiler of the tests makes programs that print canned
//! samples. The real ones run in the tests of the library.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::measured::records;
use crate::support::{Scratch, farside};

/// What the compiler of the tests is: its programs print a sample of every case asked for.
const COMPILER: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" = -o ] && program=$2
    shift
done
cat >"$program" <<'END'
#!/bin/sh
[ "$FARSIDE_RANK" = 0 ] || exit 0
for case in $(echo "$2" | tr , ' '); do
    echo "sample $case 8 $1 -"
done
END
chmod +x "$program"
"#;

/// A directory for PATH with the compiler of the tests.
fn compiler(scratch: &Scratch) -> String {
    let path = scratch.file("farside-oshcc");
    std::fs::write(&path, COMPILER).expect("the directory is there");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("it is our file");
    let directory = Path::new(&path).parent().expect("it is in a directory").display();
    format!("{directory}:/usr/bin:/bin")
}

#[test]
fn programs_in_c_are_measured_job_by_job() {
    let scratch = Scratch::new();
    let (json, plots) = (scratch.file("shmem.json"), scratch.file("plots"));
    let words = ["bench", "shmem", "--alone", "--ranks", "2,3", "--cases", "put,isx,reduce"];
    let further = ["--time", "7", "--rounds", "2", "--json", &json, "--plot", &plots];
    let command = farside(words.into_iter().chain(further)).variable("PATH", compiler(&scratch));
    let finished = command.run().ends_with(0);
    let stdout = finished.stdout();
    for word in ["processors", "put", "isx", "reduce, 8", "7 ns", "index.html"] {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
    assert!(!stdout.contains("openshmem"), "{stdout}");
    let records = records(&json);
    let found: Vec<(u64, &str)> = records
        .iter()
        .map(|record| {
            assert_eq!((&record["bench"], &record["system"]), (&"shmem".into(), &"farside".into()));
            assert_eq!((&record["rounds"], &record["words"]), (&2.into(), &8.into()));
            let (ranks, case) = (record["ranks"].as_u64(), record["case"].as_str());
            (ranks.expect("a number"), case.expect("a text"))
        })
        .collect();
    let cases = ["put", "reduce", "isx"];
    let expected: Vec<(u64, &str)> =
        [2, 3].into_iter().flat_map(|ranks| cases.map(|case| (ranks, case))).collect();
    assert_eq!(found, expected);
    for plot in ["shmem-put.svg", "shmem-isx.svg", "index.html"] {
        assert!(Path::new(&plots).join(plot).exists(), "{plot}");
    }
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let scratch = Scratch::new();
    let empty = scratch.file("nothing");
    farside(["bench", "shmem", "--cases", "put"])
        .variable("PATH", &empty)
        .run()
        .fails_with(&["farside-oshcc", "cargo xtask install --prefix DIR"]);
    let path = compiler(&scratch);
    for (options, wrong) in [
        (&["--cases", "putt"][..], "\"putt\""),
        (&["--ranks", "1"], "1 ranks are too few"),
        (&["--sim", "aries-xc30"], "--sim"),
        (&["--against", "mpich"], "mpich is not a rival"),
        (&["--nodes", "2", "--against", "openshmem"], "not measured between nodes"),
        (&["--alone", "--against", "openshmem"], "--alone"),
    ] {
        let words = ["bench", "shmem"].iter().chain(options);
        farside(words).variable("PATH", &path).run().fails_with(&[wrong]);
    }
}
