use farside_job::Address;
use std::path::PathBuf;

use super::*;
use crate::Failure;
use crate::frames::{GREETING, VERSION, encode};

#[test]
fn who_hears_nobody_is_cut_off() {
    // Node 2 of four; it complains about the others first.
    assert_eq!(cut_off(vec![(2, 0), (2, 1), (2, 3), (0, 2), (1, 2)]), [2]);
    assert_eq!(cut_off(vec![(0, 1), (2, 1)]), [1]);
    assert_eq!(cut_off(vec![(0, 1), (1, 0)]), [1]);
    assert_eq!(cut_off(vec![(1, 0), (3, 0), (2, 0), (1, 3), (2, 3)]), [3, 0]);
    assert_eq!(cut_off(vec![]), [] as [usize; 0]);
}

/// Daemons that say what a test wants: a shell that reads the launcher's messages and knows two of
/// them by the number they begin with.
struct Puppets {
    directory: PathBuf,
}

const PUPPET: &str = r#"
    cat "$1/first-$2"
    while length=$(dd bs=1 count=4 2>/dev/null | od -An -tu4 | tr -d ' ') && [ -n "$length" ]; do
        bytes=$(dd bs=1 count="$length" 2>/dev/null | od -An -v -tu1 | tr -s ' \n' ' ')
        kind=$(echo "$bytes" | cut -d' ' -f2)
        case $kind in
            6) cat "$1/when-lost-$2" 2>/dev/null; rm -f "$1/when-lost-$2";;
            7) cat "$1/last"; exit;;
        esac
    done
"#;

impl Puppets {
    fn new() -> Puppets {
        let puppets = Puppets { directory: tempfile::tempdir().unwrap().keep() };
        puppets.write("puppet", PUPPET.as_bytes());
        puppets.write("last", &encode(&ToLauncher::Done));
        puppets
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.directory.join(name), bytes).unwrap();
    }

    /// Sets the messages of a host as soon as it is reached, after it has started its ranks.
    fn first(&self, host: &str, messages: &[ToLauncher]) {
        let address = Address::from("127.0.0.1:9".parse::<std::net::SocketAddr>().unwrap()).into();
        let mut bytes = format!("{GREETING}{VERSION}\n").into_bytes();
        let start = [ToLauncher::Ready(address), ToLauncher::Met, ToLauncher::Started];
        bytes.extend(start.iter().chain(messages).flat_map(encode));
        self.write(&format!("first-{host}"), &bytes);
    }

    /// Sets the messages of a host when it hears that a rank is lost.
    fn when_lost(&self, host: &str, messages: &[ToLauncher]) {
        let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        self.write(&format!("when-lost-{host}"), &bytes);
    }

    fn run(&self, hosts: &str) -> Report {
        let template = format!("sh {0}/puppet {0} {{host}}", self.directory.display());
        let hosts = Hosts::parse(hosts, None).unwrap().rsh(&template).unwrap();
        let deadline = Duration::from_secs(60);
        Launch::new("true", 1)
            .unwrap()
            .hosts(hosts)
            .timeout(deadline)
            .grace(deadline)
            .run()
            .unwrap()
    }
}

impl Drop for Puppets {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn failed(rank: u32, how: ExitCause) -> Failure {
    Failure { rank: Rank(rank), how }
}

#[test]
fn a_host_that_the_others_do_not_hear_is_lost() {
    let puppets = Puppets::new();
    // The one that is cut off does not hear the others either, and can say so.
    puppets.first("c", &[ToLauncher::NodeLost(0), ToLauncher::NodeLost(1)]);
    for (host, rank) in [("a", 0), ("b", 1)] {
        puppets.first(host, &[ToLauncher::NodeLost(2)]);
        let end = ToLauncher::Ended {
            rank,
            how: ExitCause::Status(3),
            peer_state: PeerState::Alive,
            cause: None,
        };
        puppets.when_lost(host, &[end]);
    }
    let mut report = puppets.run("a,b,c");
    assert_eq!((report.status, report.timed_out), (1, false), "{report:?}");
    assert_eq!(report.failures.remove(0), failed(2, ExitCause::Silent));
    report.failures.sort_by_key(|failure| failure.rank);
    assert_eq!(report.failures, [failed(0, ExitCause::Status(3)), failed(1, ExitCause::Status(3))]);
    assert_eq!(report.hosts_lost, ["c"]);
}

#[test]
fn a_lost_host_is_named_although_all_ranks_have_ended() {
    let puppets = Puppets::new();
    let end = |rank| ToLauncher::Ended {
        rank,
        how: ExitCause::Status(3),
        peer_state: PeerState::Alive,
        cause: None,
    };
    puppets.first("a", &[ToLauncher::NodeLost(2), end(0)]);
    puppets.first("b", &[ToLauncher::NodeLost(2), end(1)]);
    puppets.first("c", &[ToLauncher::NodeLost(0), ToLauncher::NodeLost(1), end(2)]);
    let report = puppets.run("a,b,c");
    assert_eq!((report.status, report.timed_out), (3, false), "{report:?}");
    assert_eq!(report.hosts_lost, ["c"]);
}

#[test]
fn the_ranks_of_all_hosts_hear_of_a_death() {
    let puppets = Puppets::new();
    puppets.first(
        "a",
        &[ToLauncher::Ended {
            rank: 0,
            how: ExitCause::Signal(9),
            peer_state: PeerState::Alive,
            cause: None,
        }],
    );
    puppets.first("b", &[]);
    puppets.when_lost(
        "b",
        &[ToLauncher::Ended {
            rank: 1,
            how: ExitCause::Status(4),
            peer_state: PeerState::Alive,
            cause: None,
        }],
    );
    let report = puppets.run("a,b");
    assert_eq!((report.status, report.timed_out), (128 + 9, false), "{report:?}");
    assert_eq!(report.failures, [failed(0, ExitCause::Signal(9)), failed(1, ExitCause::Status(4))]);
}

#[test]
fn output_is_kept_if_asked_for() {
    let puppets = Puppets::new();
    let line = |text: &str| ToLauncher::Output {
        rank: 0,
        is_error: false,
        line: text.as_bytes().to_vec(),
    };
    let end = ToLauncher::Ended {
        rank: 0,
        how: ExitCause::Status(0),
        peer_state: PeerState::Left,
        cause: None,
    };
    puppets.first("a", &[line("one\n"), line("two\n"), end]);
    let report = puppets.run("a");
    assert_eq!((report.status, report.stdout.as_slice()), (0, &b"one\ntwo\n"[..]));
}
