use std::collections::BTreeSet;
use std::path::PathBuf;

use farside_inspect::Snapshot;
use farside_inspect::snapshot::RankView;
use farside_job::Address;

use super::looks::Reply;
use super::partition::cut_off;
use super::*;
use crate::Failure;
use crate::clocks::RoundTrip;
use crate::frames::{GREETING, VERSION, encode};

/// Returns who is cut off where all that do not hear another one have given it up.
fn cut_off_by(pairs: &[(usize, usize)], answered: &[usize]) -> Vec<usize> {
    cut_off(pairs.to_vec(), pairs.to_vec(), &answered.iter().copied().collect())
}

#[test]
fn whom_nobody_hears_is_cut_off() {
    let cut_off = |pairs: &[(usize, usize)]| cut_off_by(pairs, &[0, 1, 2, 3]);
    // Node 2 of four; it complains about the others first.
    assert_eq!(cut_off(&[(2, 0), (2, 1), (2, 3), (0, 2), (1, 2)]), [2]);
    assert_eq!(cut_off(&[(0, 1), (2, 1)]), [1]);
    assert_eq!(cut_off(&[(0, 1), (1, 0)]), [1]);
    assert_eq!(cut_off(&[(1, 0), (3, 0), (2, 0), (1, 3), (2, 3)]), [0, 3]);
    assert_eq!(cut_off(&[]), [] as [usize; 0]);
}

#[test]
fn of_two_that_do_not_hear_each_other_the_one_that_does_not_answer_is_cut_off() {
    assert_eq!(cut_off_by(&[(1, 0), (0, 1)], &[1, 2]), [0]);
    assert_eq!(cut_off_by(&[(1, 0), (0, 1)], &[0, 2]), [1]);
    // Not if others say more.
    assert_eq!(cut_off_by(&[(1, 0), (2, 0), (0, 1)], &[0, 2]), [0]);
}

#[test]
fn a_host_that_is_silent_and_not_given_up_makes_nobody_else_guilty_and_is_not_lost() {
    // Node 0 is gone, and node 2 stands still for a while: node 1 alone answers.
    let (complaints, pairs) = (vec![(1, 0)], vec![(1, 0), (1, 2)]);
    assert_eq!(cut_off(complaints, pairs, &BTreeSet::from([1])), [0]);
}

/// Daemons that say what a test wants: a shell that reads the launcher's messages and knows some of
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
            2) cat "$1/when-started-$2" 2>/dev/null;;
            6) cat "$1/when-lost-$2" 2>/dev/null; rm -f "$1/when-lost-$2"; echo "$2" >>"$1/told";;
            7) cat "$1/last"; exit;;
            12) cat "$1/when-asked-$2" 2>/dev/null; echo "$2" >>"$1/asked";;
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

    fn unheard(&self, host: &str, nodes: &[u32]) {
        let bytes = encode(&ToLauncher::Unheard(nodes.to_vec()));
        self.write(&format!("when-asked-{host}"), &bytes);
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
    puppets.unheard("c", &[0, 1]);
    for (host, rank) in [("a", 0), ("b", 1)] {
        puppets.unheard(host, &[2]);
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

/// One host complains before the others notice anything. Host `cut` is the one that is cut off; it
/// answers if it has only lost its interface, and not if it has no power.
fn lose_one_of_three(cut: u32, first: u32, answers: bool) -> Report {
    let puppets = Puppets::new();
    for (node, host) in (0..).zip(["a", "b", "c"]) {
        let complaint = ToLauncher::NodeLost(if node == cut { first } else { cut });
        let is_first = node == first || (answers && node == cut);
        puppets.first(host, if is_first { std::slice::from_ref(&complaint) } else { &[] });
        let others: Vec<u32> = (0..3).filter(|&other| other != cut).collect();
        if node != cut {
            puppets.unheard(host, &[cut]);
        } else if answers {
            puppets.unheard(host, &others);
        }
        let how = ExitCause::Status(3);
        let end = ToLauncher::Ended { rank: node, how, peer_state: PeerState::Alive, cause: None };
        puppets.when_lost(host, &[end]);
    }
    puppets.run("a,b,c")
}

#[test]
fn the_first_complaint_does_not_decide_which_host_is_lost() {
    for cut in 0..3 {
        for first in (0..3).filter(|&first| first != cut) {
            for answers in [true, false] {
                let name = format!("cut-{cut}-{first}-{answers}");
                let report = lose_one_of_three(cut, first, answers);
                let expected = ["a", "b", "c"][cut as usize];
                assert_eq!(report.hosts_lost, [expected], "{name}: {report:?}");
            }
        }
    }
}

#[test]
fn a_complaint_about_a_host_that_is_gone_is_answered() {
    let puppets = Puppets::new();
    let end = ToLauncher::Ended {
        rank: 1,
        how: ExitCause::Status(0),
        peer_state: PeerState::Left,
        cause: None,
    };
    puppets.first("a", &[]);
    puppets.first("b", &[]);
    let failed = encode(&ToLauncher::Failed("it has had enough".into()));
    puppets.write("when-started-a", &failed);
    puppets.when_lost("b", &[ToLauncher::NodeLost(0)]);
    puppets.write("when-asked-b", &encode(&end));
    let report = puppets.run("a,b");
    assert_eq!((report.timed_out, &report.hosts_lost[..]), (false, &["a".to_owned()][..]));
    let asked = std::fs::read_to_string(puppets.directory.join("asked")).unwrap();
    assert_eq!(asked, "b\n");
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
    for (host, nodes) in [("a", &[2][..]), ("b", &[2]), ("c", &[0, 1])] {
        puppets.unheard(host, nodes);
    }
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

#[test]
fn a_pause_of_the_launcher_costs_no_host_its_time() {
    let launch = Launch::new("true", 1).unwrap();
    let (hosts, console) = (Hosts::parse("a,b", None).unwrap(), Console::open().unwrap());
    let mut cluster = Cluster::new(&launch, &hosts, &console, None).unwrap();
    let (now, pause) = (Instant::now(), Duration::from_secs(100));
    cluster.add_time(pause);
    assert_eq!((cluster.killed, cluster.partition.judgement_time()), (None, None));
    (cluster.killed, cluster.start_deadline) = (Some(now), Some(now));
    cluster.partition.open(now);
    cluster.looks.begin();
    let answers_due = cluster.looks.next().unwrap();
    cluster.add_time(pause);
    assert_eq!(cluster.looks.next(), Some(answers_due + pause));
    let later = Some(now + pause);
    assert_eq!((cluster.killed, cluster.start_deadline), (later, later));
    assert_eq!(cluster.partition.judgement_time(), later);
}

/// The end of a rank that was asked to end.
fn ended(rank: u32) -> ToLauncher {
    let (how, peer_state) = (ExitCause::Signal(15), PeerState::Alive);
    ToLauncher::Ended { rank, how, peer_state, cause: None }
}

#[test]
fn the_ranks_of_a_lost_host_are_lost_once_and_told_of_together() {
    let puppets = Puppets::new();
    puppets.first("a", &[]);
    puppets.first("b", &[]);
    let gives_up = [ToLauncher::Failed("it has had enough".into()), ended(0), ended(1), ended(2)];
    puppets.write("when-started-a", &gives_up.iter().flat_map(encode).collect::<Vec<u8>>());
    puppets.when_lost("b", &[ended(3)]);
    let report = puppets.run("a:3,b");
    assert_eq!((report.timed_out, &report.hosts_lost[..]), (false, &["a".to_owned()][..]));
    let lost = [0, 1, 2].map(|rank| failed(rank, ExitCause::Silent));
    assert_eq!(report.failures[..3], lost, "{report:?}");
    assert_eq!(report.failures[3..], [failed(3, ExitCause::Signal(15))], "{report:?}");
    assert_eq!(std::fs::read_to_string(puppets.directory.join("told")).unwrap(), "b\n");
}

/// A launcher that has reached its hosts by this command, and has heard nothing from them.
fn reached<'a>(launch: &'a Launch, hosts: &'a Hosts, console: &'a Console) -> Cluster<'a> {
    let mut cluster = Cluster::new(launch, hosts, console, None).unwrap();
    cluster.start(FileLimit::default()).unwrap();
    cluster
}

#[test]
fn only_hosts_whose_clock_is_not_known_are_late_for_a_recording() {
    let launch = Launch::new("true", 3).unwrap().options(|options| options.is_recorded = true);
    let hosts = Hosts::parse("a,b,c", None).unwrap().rsh("sh -c 'cat >/dev/null' {host}").unwrap();
    let console = Console::open().unwrap();
    let launch = launch.hosts(hosts.clone());
    let mut cluster = reached(&launch, &hosts, &console);
    (0..3).for_each(|node| cluster.handle_message(node, ToLauncher::Met));
    while !cluster.is_clock_compared(0) {
        cluster.note_time(0, RoundTrip { sent_ns: 1, there_ns: 2, here_ns: 3 });
    }
    let late = cluster.late_hosts().to_string();
    cluster.finish(false);
    assert!(late.starts_with("host b, c: did not say what its clock shows within "), "{late}");
}

#[test]
fn hosts_that_close_their_output_together_are_waited_for_together() {
    let launch = Launch::new("true", 2).unwrap();
    let hosts =
        Hosts::parse("a,b", None).unwrap().rsh("sh -c 'exec cat >/dev/null 2>&1' {host}").unwrap();
    let console = Console::open().unwrap();
    let launch = launch.hosts(hosts.clone());
    let mut cluster = reached(&launch, &hosts, &console);
    let [first, second] = [0, 1].map(|node| {
        let before = Instant::now();
        let why = cluster.explain_end(node, None);
        assert!(why.ends_with(" has closed its output"), "{why}");
        before.elapsed()
    });
    cluster.finish(false);
    assert!(second < first / 2, "{first:?}, and then {second:?}");
}

/// What a host with one rank has seen, which has joined or not.
fn seen(is_read: bool) -> Snapshot {
    let rank = RankView { is_read, ..RankView::default() };
    Snapshot { ranks: vec![rank], ..Snapshot::default() }
}

#[test]
fn who_asks_what_ranks_do_that_never_joined_signals_them_once() {
    let mut looks = Looks::new(None);
    assert!(looks.ask());
    assert_eq!(looks.reply(&seen(false)), Some(Reply::PassOn));
    // Looks for other reasons are no requests.
    assert_eq!((looks.reply(&seen(false)), looks.reply(&seen(true))), (None, None));
    assert_eq!(looks.next(), None);
}

#[test]
fn hosts_that_answer_late_make_no_signal_of_a_question() {
    let mut looks = Looks::new(None);
    looks.note_joined();
    assert!(looks.ask());
    let nobody = Snapshot::default();
    let Some(Reply::Say(said)) = looks.reply(&nobody) else { panic!("the ranks are signalled") };
    assert_eq!(said, "no host has said within 2 s what its ranks do");
    assert_eq!((looks.reply(&nobody), looks.next()), (None, None));
    // The second look finds nobody, either.
    let mut looks = Looks::new(None);
    assert!(looks.ask());
    assert_eq!(looks.reply(&seen(true)), None);
    assert!(looks.next().is_some());
    assert_eq!(looks.reply(&nobody), Some(Reply::Say(said)));
}

#[test]
fn an_answer_to_an_earlier_look_is_none_to_this_one() {
    let mut looks = Looks::new(None);
    let mut number = || match looks.begin() {
        ToNode::Look(number) => number,
        other => panic!("{other:?}"),
    };
    let (first, second) = (number(), number());
    looks.answer(0, first, seen(true));
    looks.answer(1, second, seen(false));
    assert_eq!(looks.take(1), Some(seen(false)));
}
