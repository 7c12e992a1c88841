//! Jobs on hosts with addresses of their own: network namespaces.

use crate::support::{Scratch, Start, farside, farside_after, sorted};
use farside_testing::namespaces::{Namespaces, RSH};
use rustix::process::Signal;

/// A job with two ranks on each of these hosts, each of them a shell that runs `script`.
fn shells(hosts: &Namespaces, options: &[&str], script: &str) -> Start {
    let list = hosts.list(2);
    farside(
        ["run", "--hosts", &list, "--rsh", RSH].iter().chain(options).chain(&["sh", "-c", script]),
    )
}

const ADDRESS: &str = "ip -4 -o address show dev eth0 | sed 's/.* inet //; s,/.*,,'";

#[test]
fn every_rank_is_on_its_host() {
    let Some(hosts) = Namespaces::wanted(3) else { return };
    let finished = shells(&hosts, &["-l"], ADDRESS).run().ends_with(0);
    let expected = [
        "[0] 10.77.0.1",
        "[1] 10.77.0.1",
        "[2] 10.77.0.2",
        "[3] 10.77.0.2",
        "[4] 10.77.0.3",
        "[5] 10.77.0.3",
    ];
    assert_eq!(sorted(&finished.stdout()), expected);
}

#[test]
fn a_host_finds_its_only_address() {
    let Some(hosts) = Namespaces::wanted(2) else { return };
    let list = hosts.names().join(",");
    let finished = farside(["run", "-n", "3", "--hosts", &list, "--rsh", RSH, "sh", "-c", ADDRESS])
        .run()
        .ends_with(0);
    assert_eq!(sorted(&finished.stdout()), ["10.77.0.1", "10.77.0.1", "10.77.0.2"]);
}

#[test]
fn addresses_that_others_cannot_reach_are_named() {
    let Some(hosts) = Namespaces::wanted(2) else { return };
    let names = hosts.names();
    let run = |list: &str| farside(["run", "--hosts", list, "--rsh", RSH, "echo", "started"]).run();
    // The address of the other one.
    let swapped = format!("{}=10.77.0.2,{}", names[0], names[1]);
    run(&swapped).fails_with(&[&format!("host {}: this host has no address 10.77.0.2", names[0])]);
    let near = format!("{}=127.0.0.1,{}", names[0], names[1]);
    run(&near)
        .fails_with(&[&format!("host {}: its address is 127.0.0.1", names[0]), "cannot reach"]);
}

#[test]
fn a_host_that_does_not_exist_is_named() {
    let Some(hosts) = Namespaces::wanted(1) else { return };
    let list = format!("{},no-such-namespace", hosts.names()[0]);
    let finished = farside(["run", "--hosts", &list, "--rsh", RSH, "echo", "started"]).run();
    finished.fails_with(&[
        "no-such-namespace: ",
        "host no-such-namespace: `ip netns exec no-such-namespace ",
    ]);
}

#[test]
fn hosts_that_never_hear_each_other_are_named_with_their_addresses() {
    let Some(hosts) = Namespaces::wanted(2) else { return };
    hosts.cut(1).expect("it was connected");
    let list = hosts.list(1);
    let words = ["app", "hello", "--hosts", &list, "--rsh", RSH, "--peer-timeout", "2"];
    let lost = format!(
        "host {} is lost: its interface (10.77.0.2) and that of host {} (10.77.0.1) have never \
         heard each other (is UDP blocked between them?)",
        hosts.names()[1],
        hosts.names()[0]
    );
    farside(words).run().fails_with(&[&lost]);
}

#[test]
fn nothing_is_left_on_any_host() {
    let Some(hosts) = Namespaces::wanted(3) else { return };
    let script = "sleep 1000 & setsid sleep 1000 & echo ready; wait";
    let mut running = shells(&hosts, &[], script).start();
    running.wait_for_lines("ready", 6);
    running.signal(Signal::KILL);
    running.wait_until_nothing_is_left();
    let killed = "[ $FARSIDE_RANK = 4 ] && kill -9 $PPID; sleep 1000 & wait";
    let finished = shells(&hosts, &["--grace", "0.2"], killed).run().ends_with(1);
    finished.says(&[&format!("host {} is lost: ", hosts.names()[2]), "with it ranks 4 and 5\n"]);
    for index in 0..3 {
        assert_eq!(hosts.processes(index), Ok(vec![]));
    }
}

#[test]
fn ranks_of_several_hosts_exchange_memory() {
    let Some(hosts) = Namespaces::wanted(3) else { return };
    let list = hosts.list(2);
    let finished = farside(["app", "hello", "--hosts", &list, "--rsh", RSH]).run().ends_with(0);
    assert!(finished.stdout().starts_with("6 ranks on nic: "), "{}", finished.stdout());
    assert!(
        finished.stdout().contains("in the memory of rank 5: \"hello, rank 5, this is rank 4"),
        "{}",
        finished.stdout()
    );
    assert_eq!(finished.stderr(), "");
}

#[test]
fn a_loopback_that_is_down_is_named_before_any_rank_starts() {
    let Some(hosts) = Namespaces::wanted(1) else { return };
    hosts.run(0, &["ip", "link", "set", "lo", "down"]).expect("the loopback can be taken down");
    let inside = format!("exec ip netns exec {} \"$0\" \"$@\"", hosts.names()[0]);
    let finished =
        farside_after(&inside, ["run", "-n", "2", "--nodes", "2", "echo", "started"]).run();
    assert_eq!(finished.stdout(), "");
    finished.fails_with(&["loopback", "127.0.0.1", "ip link set lo up"]);
    // Ranks of one node need no network at all.
    farside_after(&inside, ["app", "hello", "-n", "2"]).run().ends_with(0);
}

#[test]
fn transfers_by_a_relay_that_loses_packets_are_measured() {
    // Whether there can be namespaces.
    let Some(_hosts) = Namespaces::wanted(1) else { return };
    let (scratch, options) = (Scratch::new(), ["--nodes", "2", "--mtu", "1500", "--relay"]);
    let json = scratch.file("relay.json");
    let quick = ["--time", "1", "--rounds", "1", "--cases", "put_relayed,get_lossy"];
    farside(["bench", "sharing", "--json", &json].iter().chain(&options).chain(&quick))
        .run()
        .ends_with(0);
    let text = std::fs::read_to_string(&json).expect("the file is there");
    let measured = |case: &str| {
        let is_one = |line: &&str| line.contains(case) && line.contains("bytes_per_s");
        text.lines().filter(is_one).count()
    };
    assert_eq!((measured("put_relayed"), measured("get_lossy")), (2, 2), "{text}");
    farside(["bench", "sharing", "--nodes", "2", "--cases", "put_lossy"])
        .run()
        .fails_with(&["put_lossy: needs a relay between the nodes: add --mtu 1500 --relay"]);
}
