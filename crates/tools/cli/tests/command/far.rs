//! `farside bench` between nodes: who serves far memory, and what that costs its host.

use super::measured::{figure, measured, refused};
use crate::support::Scratch;
use serde_json::Value;

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
    let others = ["--cases", list.as_str(), "--servers", &who];
    let (records, stdout) = measured("ops --nodes 2 --time 2 --sizes 8", &others);
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
            let keys = [("case", case), ("server", server), ("system", "limit")];
            only(&records, &keys.map(|(key, value)| (key, value.into())));
        }
        only(&records, &[("case", case), ("system", "limit-asleep")].map(|(k, v)| (k, v.into())));
    }
    for word in ["farside nic", "farside host-block", "limit nic", "limit-asleep"] {
        assert!(stdout.contains(word), "{word} is not in {stdout}");
    }
}

#[test]
fn locks_and_barriers_are_measured_between_nodes() {
    let (records, _) = measured("sync --nodes 2 --ranks 3 --time 1 --cases sync", &[]);
    assert!(
        records.iter().all(|record| record["fabric"] == "nic" && record["server"] == "nic"),
        "{records:?}"
    );
    let line = "locks --nodes 2 --ranks 2 --time 1 --cases wcsb --writers 100 --locks d-mcs \
                --server host-block";
    let (records, _) = measured(line, &[]);
    assert_eq!((&records[0]["server"], &records[0]["nodes"]), (&"host-block".into(), &2.into()));
}

#[test]
fn interference_is_measured_on_real_ranks() {
    let scratch = Scratch::new();
    let plots = scratch.file("plots");
    let line = "interference --ranks 3 --time 5 --loads 1000 --servers nic,host-block";
    let (records, stdout) = measured(line, &["--plot", &plots]);
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
            // A home whose processor others take for a few milliseconds keeps nothing; if that was
            // without load, there is nothing to compare with.
            _ => {
                let taken = ["processors_used_by_others", "processors_stolen"];
                let is_busy = taken.iter().any(|name| record[*name].as_f64() > Some(0.0));
                let is_right = record["kept_pct"].as_f64().map_or(is_busy, |kept| kept >= 0.0);
                assert!(is_right, "{record}");
            }
        }
    }
    for case in ["cpu", "bandwidth"] {
        let keys = [("case", case.into()), ("server", "nic".into()), ("cores", "apart".into())];
        for load in [0, 1000] {
            only(&records, &[&keys[..], &[("load_per_s", load.into())]].concat());
        }
    }
    for plot in ["cpu-apart", "bandwidth-shared", "lock-apart"] {
        let path = std::path::Path::new(&plots).join(format!("interference-{plot}.svg"));
        assert!(path.exists(), "{plot}");
    }
}

#[test]
fn the_times_of_figure_4_come_out_of_the_profiles_that_were_set_by_them() {
    let servers = ["nic", "host-poll", "host-spin-block", "host-block"];
    for (profile, points) in [
        ("myrinet-lanai4", [42_100.0, 49_900.0, 50_200.0, 94_300.0]),
        ("myrinet-lanai7", [29_700.0, 32_200.0, 32_400.0, 45_400.0]),
    ] {
        let others = ["--sim", profile, "--servers", &servers.join(",")];
        let (records, _) = measured("ops --cases compare_swap --time 20", &others);
        for (server, published_ns) in servers.into_iter().zip(points) {
            let record = only(&records, &[("server", server.into()), ("target", "idle".into())]);
            let ratio = figure(record, "median_ns") / published_ns;
            assert!((0.98..1.02).contains(&ratio), "{profile}, {server}: {ratio}");
        }
    }
}

#[test]
fn in_virtual_time_the_interface_does_not_disturb_its_host_and_runs_repeat() {
    let line = "interference --sim myrinet-lanai4 --ranks 3 --servers nic,host-poll,host-block \
                --cases cpu,lock --loads 5000 --time 20";
    let (records, stdout) = measured(line, &[]);
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
    assert_eq!(measured(line, &[]).1, stdout, "one seed, one run");
}

#[test]
fn what_makes_no_sense_between_nodes_is_refused() {
    refused(&[
        ("bench ops --nodes 0", "'0' for '--nodes"),
        ("bench ops --nodes 2 --sim ibm-sp", "--sim"),
        ("bench ops --sim myrinet-lanai4 --servers nic-poll", "nic-poll"),
        ("bench sync --nodes 2 --servers nic,host-block", "nic, host-block"),
        ("bench interference --cores beside", "beside"),
        ("bench interference --loads 99999999", "10000000"),
        ("bench interference --cases put", "put"),
        ("bench interference --ranks 1", "1"),
        ("bench interference --against mpich", "--against"),
        ("bench interference --sim myrinet-lanai4 --cores apart", "--cores"),
    ]);
}
