//! `farside bench` between nodes: who serves far memory, and what that costs its host.

use crate::support::{Scratch, farside};
use serde_json::Value;

/// What a bench with options that make it short has written to a file, and its table.
fn measured(words: &[&str]) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let json = scratch.file("figures.json");
    let quick = ["--rounds", "1", "--json", &json];
    let stdout = farside(["bench"].iter().chain(words).chain(&quick)).run().ends_with(0).stdout();
    let text = std::fs::read_to_string(&json).expect("the file is there");
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (text.lines().map(read).collect(), stdout)
}

fn figure(record: &Value, name: &str) -> f64 {
    record[name].as_f64().unwrap_or_else(|| panic!("no {name} in {record}"))
}

fn only<'a>(records: &'a [Value], values: &[(&str, Value)]) -> &'a Value {
    let found: Vec<&Value> = records
        .iter()
        .filter(|record| values.iter().all(|(key, value)| record[*key] == *value))
        .collect();
    assert_eq!(found.len(), 1, "{values:?}: {found:?}");
    found[0]
}

#[test]
fn operations_between_nodes_are_measured_for_each_server_and_beside_bare_datagrams() {
    let cases = ["put", "get", "fetch_add", "compare_swap", "compare_swap_miss", "rate"];
    let servers = ["nic", "nic-block", "host-poll", "host-spin-block", "host-block"];
    let (list, who) = (cases.join(","), servers.join(","));
    let words =
        ["ops", "--nodes", "2", "--time", "2", "--sizes", "8", "--cases", &list, "--servers", &who];
    let (records, stdout) = measured(&words);
    for record in &records {
        assert_eq!((&record["fabric"], &record["nodes"]), (&"nic".into(), &2.into()), "{record}");
        assert!(figure(record, "median_ns") > 0.0, "{record}");
    }
    for case in cases {
        for server in servers {
            for target in ["idle", "computing"] {
                let keys =
                    [("case", case), ("server", server), ("target", target), ("system", "farside")];
                only(&records, &keys.map(|(key, value)| (key, value.into())));
            }
            only(
                &records,
                &[("case", case), ("server", server), ("system", "limit")]
                    .map(|(k, v)| (k, v.into())),
            );
        }
        only(&records, &[("case", case), ("system", "limit-asleep")].map(|(k, v)| (k, v.into())));
    }
    for word in ["farside nic", "farside host-block", "limit nic", "limit-asleep"] {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
}

#[test]
fn locks_and_barriers_are_measured_between_nodes() {
    let (records, _) =
        measured(&["sync", "--nodes", "2", "--ranks", "3", "--time", "1", "--cases", "sync"]);
    assert!(
        records.iter().all(|record| record["fabric"] == "nic" && record["server"] == "nic"),
        "{records:?}"
    );
    let locks = [
        "locks",
        "--nodes",
        "2",
        "--ranks",
        "2",
        "--time",
        "1",
        "--cases",
        "wcsb",
        "--writers",
        "100",
    ];
    let (records, _) =
        measured(&[&locks[..], &["--locks", "d-mcs", "--server", "host-block"]].concat());
    assert_eq!((&records[0]["server"], &records[0]["nodes"]), (&"host-block".into(), &2.into()));
}

#[test]
fn interference_is_measured_on_real_ranks() {
    let scratch = Scratch::new();
    let plots = scratch.file("plots");
    let words = [
        "interference",
        "--ranks",
        "3",
        "--time",
        "5",
        "--loads",
        "1000",
        "--servers",
        "nic,host-block",
    ];
    let (records, stdout) = measured(&[&words[..], &["--plot", &plots]].concat());
    // Where there is one processor only, there is no choice.
    let cores = |name: &str| records.iter().any(|record| record["cores"] == name);
    assert!(cores("apart") && cores("shared"), "{stdout}");
    for record in &records {
        assert_eq!((&record["fabric"], &record["nodes"]), (&"nic".into(), &3.into()), "{record}");
        assert!(record["home_core"].is_number() && !record["server_core"].is_null(), "{record}");
        match record["case"].as_str() {
            Some("lock") => {
                assert!(figure(record, "median_ns") > 0.0 && record["contenders"] == 2, "{record}")
            }
            // A home whose processor others take for a few milliseconds keeps nothing.
            _ => assert!(figure(record, "kept_pct") >= 0.0, "{record}"),
        }
    }
    for case in ["cpu", "bandwidth"] {
        let keys = [("case", case.into()), ("server", "nic".into()), ("cores", "apart".into())];
        for load in [0, 1000] {
            only(&records, &[&keys[..], &[("load_per_s", load.into())]].concat());
        }
    }
    for plot in [
        "interference-cpu-apart.svg",
        "interference-bandwidth-shared.svg",
        "interference-lock-apart.svg",
    ] {
        assert!(std::path::Path::new(&plots).join(plot).exists(), "{plot}");
    }
}

#[test]
fn the_times_of_figure_4_come_out_of_the_profiles_that_were_set_by_them() {
    for (profile, points) in [
        (
            "myrinet-lanai4",
            [
                ("nic", 42_100.0),
                ("host-poll", 49_900.0),
                ("host-spin-block", 50_200.0),
                ("host-block", 94_300.0),
            ],
        ),
        (
            "myrinet-lanai7",
            [
                ("nic", 29_700.0),
                ("host-poll", 32_200.0),
                ("host-spin-block", 32_400.0),
                ("host-block", 45_400.0),
            ],
        ),
    ] {
        let servers = "nic,host-poll,host-spin-block,host-block";
        let words = [
            "ops",
            "--sim",
            profile,
            "--cases",
            "compare_swap",
            "--servers",
            servers,
            "--time",
            "20",
        ];
        let (records, _) = measured(&words);
        for (server, published_ns) in points {
            let record = only(&records, &[("server", server.into()), ("target", "idle".into())]);
            let ratio = figure(record, "median_ns") / published_ns;
            assert!((0.98..1.02).contains(&ratio), "{profile}, {server}: {ratio}");
        }
    }
}

#[test]
fn in_virtual_time_the_interface_does_not_disturb_its_host_and_runs_repeat() {
    let servers = [
        "--servers",
        "nic,host-poll,host-block",
        "--cases",
        "cpu,lock",
        "--loads",
        "5000",
        "--time",
        "20",
    ];
    let words =
        [&["interference", "--sim", "myrinet-lanai4", "--ranks", "3"][..], &servers].concat();
    let (records, stdout) = measured(&words);
    let kept = |server: &str| {
        let keys = [("case", "cpu".into()), ("server", server.into()), ("load_per_s", 5000.into())];
        figure(only(&records, &keys), "kept_pct")
    };
    assert_eq!((kept("nic"), kept("host-poll")), (100.0, 100.0));
    assert!(kept("host-block") < 90.0, "{}", kept("host-block"));
    let lock = |server: &str| {
        figure(only(&records, &[("case", "lock".into()), ("server", server.into())]), "median_ns")
    };
    assert!(lock("nic") < lock("host-poll") && lock("host-poll") < lock("host-block"));
    assert_eq!(measured(&words).1, stdout, "one seed, one run");
}

#[test]
fn what_makes_no_sense_between_nodes_is_refused() {
    for (words, problem) in [
        (vec!["ops", "--nodes", "3", "--ranks", "2"], "3 nodes"),
        (vec!["ops", "--nodes", "0"], "'0' for '--nodes"),
        (vec!["ops", "--nodes", "2", "--servers", "butler"], "butler"),
        (vec!["ops", "--servers", "nic"], "--nodes"),
        (vec!["ops", "--nodes", "2", "--sim", "ibm-sp"], "--sim"),
        (vec!["ops", "--nodes", "2", "--against", "openshmem"], "openshmem"),
        (vec!["ops", "--sim", "myrinet-lanai4", "--servers", "nic-poll"], "nic-poll"),
        (vec!["sync", "--nodes", "2", "--servers", "nic,host-block"], "nic, host-block"),
        (vec!["interference", "--cores", "beside"], "beside"),
        (vec!["interference", "--loads", "99999999"], "10000000"),
        (vec!["interference", "--cases", "put"], "put"),
        (vec!["interference", "--ranks", "1"], "1"),
        (vec!["interference", "--against", "mpich"], "--against"),
        (vec!["interference", "--sim", "myrinet-lanai4", "--cores", "apart"], "--cores"),
    ] {
        farside(["bench"].iter().chain(&words)).run().fails_with(&[problem]);
    }
}
