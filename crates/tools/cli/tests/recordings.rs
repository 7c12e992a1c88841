//! `farside run --trace` and `--flight` where ranks are processes of several nodes or hosts: whose
//! tracks are there, and whether their times fit. The program is this very file.

mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, ExitCode};

use farside_testing::namespaces::Namespaces;
use serde_json::Value;
use support::{Scratch, program_or_tests, run_own as run, tests};

tests! {
    agents_have_tracks_of_what_they_execute processes_that_serve_have_tracks_too
    hosts_with_different_clocks_make_one_trace the_last_seconds_of_all_hosts_are_kept
    a_host_that_is_lost_is_missing
}

const ROUNDS: usize = 5;
/// Reaches a host without going anywhere.
const LOCAL: &str = "sh -c 'exec \"$@\"' {host}";

fn main() -> ExitCode {
    program_or_tests(program::start, TESTS)
}

mod program {
    use std::process::{Command, ExitCode};

    use farside::{Rank, World};

    pub(super) fn start() -> ExitCode {
        main()
    }

    #[farside::main]
    fn main(world: &World) -> Result<(), Box<dyn std::error::Error>> {
        let does = std::env::args().nth(2).unwrap_or_default();
        let echo = world.serve(|_, _, bytes| bytes.to_vec())?;
        let words = world.words(1)?;
        let me = world.rank();
        // On the other node of two.
        let far = Rank((me.0 + world.size() / 2) % world.size());
        for _ in 0..super::ROUNDS {
            world.fetch_add(words.at(far, 0), 1)?;
            world.call(world.topology().node_of(far), echo, b"echo")?;
            world.barrier()?;
        }
        let victim = match does.as_str() {
            "die" => std::process::id(),
            "kill-the-daemon" => std::os::unix::process::parent_id(),
            _ => return Ok(words.free(world)?),
        };
        if me.0 == world.size() - 1 {
            Command::new("kill").args(["-9", &victim.to_string()]).status()?;
        }
        Ok(world.barrier()?)
    }
}

/// A slice of a trace.
#[derive(Debug, Clone)]
struct Event {
    track: String,
    category: String,
    name: String,
    /// Microseconds.
    begin: f64,
    end: f64,
    args: Value,
}

impl Event {
    fn is(&self, category: &str, track: &str, name: &str) -> bool {
        (&*self.category, &*self.track, &*self.name) == (category, track, name)
    }
}

struct Trace {
    events: Vec<Event>,
    clock_error_us: f64,
}

impl Trace {
    fn read(path: &str) -> Trace {
        let text = std::fs::read_to_string(path).unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let names: BTreeMap<u64, String> = events
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| {
                let name = event["args"]["name"].as_str().unwrap();
                (event["tid"].as_u64().unwrap(), name.to_owned())
            })
            .collect();
        let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
        let slices = events.iter().filter(|event| event["ph"] == "X").map(|event| {
            let begin = event["ts"].as_f64().unwrap();
            Event {
                track: names[&event["tid"].as_u64().unwrap()].clone(),
                category: text(event, "cat"),
                name: text(event, "name"),
                begin,
                end: begin + event["dur"].as_f64().unwrap(),
                args: event["args"].clone(),
            }
        });
        let error_ns = trace["otherData"]["clock_error_ns"].as_f64().unwrap();
        Trace { events: slices.collect(), clock_error_us: error_ns / 1000.0 }
    }

    fn of(&self, category: &str, track: &str, name: &str) -> Vec<&Event> {
        self.events.iter().filter(|event| event.is(category, track, name)).collect()
    }

    fn for_rank(&self, track: &str, name: &str, rank: u32) -> Vec<&Event> {
        let mut events = self.of("service", track, name);
        events.retain(|event| event.args["from"] == rank);
        events
    }

    /// Asserts that each far atomic of a rank was executed, on the track `of(node)` of the other
    /// node, after it was called and before the rank went on.
    fn assert_atomics_fit(&self, of: impl Fn(u32, u32) -> String) {
        for rank in 0..4 {
            let (own, far) = (format!("rank {rank}"), (rank + 2) % 4);
            let called: Vec<&Event> =
                self.events.iter().filter(|event| event.track == own).collect();
            let mut atomics = self.of("operation", &own, "atomic");
            atomics.retain(|event| event.args["peer"] == far);
            let mut executed = self.for_rank(&of(far / 2, far), "atomic", rank);
            executed.retain(|event| event.args["target"] == far);
            assert_eq!((atomics.len(), executed.len()), (ROUNDS, ROUNDS), "of rank {rank}");
            for (atomic, service) in atomics.iter().zip(executed) {
                let error = self.clock_error_us + 0.002;
                assert_eq!(service.args["bytes"], 8);
                assert!(atomic.begin <= service.begin + error, "{atomic:?} after {service:?}");
                let next = called
                    .iter()
                    .filter(|event| event.category == "operation" && event.name != "wait")
                    .find(|event| event.begin > atomic.begin)
                    .unwrap();
                assert!(service.end <= next.begin + error, "{service:?} after {next:?}");
            }
        }
    }

    /// Asserts that the handlers of each node have answered every call of the other node's ranks.
    fn assert_calls_are_there(&self) {
        for rank in 0..4 {
            let node = 1 - rank / 2;
            let runs = self.for_rank(&format!("handlers of node {node}"), "call", rank);
            assert_eq!(runs.len(), ROUNDS, "calls of rank {rank}");
            assert!(runs.iter().all(|call| call.args["bytes"] == 4));
        }
    }
}

fn agent_of(node: u32, _rank: u32) -> String {
    format!("agent of node {node}")
}

fn agents_have_tracks_of_what_they_execute() {
    let scratch = Scratch::new();
    let path = scratch.file("nodes.json");
    let finished = run(&["-n", "4", "--nodes", "2", "--trace", &path], &[]).run().ends_with(0);
    finished.says(&["executed by agents"]);
    let trace = Trace::read(&path);
    assert_eq!(trace.clock_error_us, 0.0, "it is one clock");
    trace.assert_atomics_fit(agent_of);
    trace.assert_calls_are_there();
    // Nobody is asked for anything on one node, except for handlers.
    let path = scratch.file("node.json");
    run(&["-n", "4", "--trace", &path], &[]).run().ends_with(0);
    let trace = Trace::read(&path);
    let runs: usize =
        (0..4).map(|rank| trace.for_rank("handlers of node 0", "call", rank).len()).sum();
    assert_eq!(runs, 4 * ROUNDS);
    assert!(trace.events.iter().all(|event| !event.track.starts_with("agent")));
}

fn processes_that_serve_have_tracks_too() {
    let scratch = Scratch::new();
    let path = scratch.file("host.json");
    let options = ["-n", "4", "--nodes", "2", "--server", "host-block", "--trace", &path];
    run(&options, &[]).run().ends_with(0);
    let trace = Trace::read(&path);
    trace.assert_atomics_fit(|_, rank| format!("server of rank {rank}"));
    trace.assert_calls_are_there();
}

/// Returns whether a process can be given another clock; says so if not.
fn has_time_namespaces() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--time", "--fork", "--monotonic", "1", "true"]);
    let is_able = command.status().is_ok_and(|status| status.success());
    if !is_able {
        // Not every kernel has them: what the test needs besides is tried by the others.
        let _ =
            writeln!(std::io::stderr(), "\nSKIPPED: no time namespaces, hosts have one clock\n");
    }
    is_able
}

fn hosts_with_different_clocks_make_one_trace() {
    if !has_time_namespaces() {
        return;
    }
    let Some(hosts) = Namespaces::wanted(2) else { return };
    // The clock of the first is ahead by more than a day, that of the second by two.
    let names = hosts.names();
    let rsh = format!(
        "sh -c 'ahead=100000; [ $0 = {} ] && ahead=200000; exec ip netns exec $0 unshare --time \
         --fork --kill-child --monotonic $ahead \"$@\"' {{host}}",
        names[1]
    );
    let (scratch, list) = (Scratch::new(), hosts.list(2));
    for name in ["hosts.json", "hosts.html"] {
        let path = scratch.file(name);
        let options = ["--hosts", &list, "--rsh", &rsh, "--trace", &path];
        let finished = run(&options, &[]).run().ends_with(0);
        finished.says(&["executed by agents", "the clocks of different hosts agree within "]);
    }
    let trace = Trace::read(&scratch.file("hosts.json"));
    let error = trace.clock_error_us;
    assert!(error > 0.0 && error < 1e6, "{error} us");
    let last = trace.events.iter().map(|event| event.end).fold(0.0, f64::max);
    assert!(last < 60e6, "the trace takes {last} us");
    trace.assert_atomics_fit(agent_of);
    trace.assert_calls_are_there();
    let page = std::fs::read_to_string(scratch.file("hosts.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("\"agent of node 1\""));
    assert!(!page.contains("\"clockErrorNs\":0,"), "the page says how well the times fit");
}

fn the_last_seconds_of_all_hosts_are_kept() {
    let scratch = Scratch::new();
    let path = scratch.file("flight.json");
    let hosts = "a=127.0.0.1:2,b=127.0.0.2:2";
    let flight = ["--hosts", hosts, "--rsh", LOCAL, "--flight", "60", "--trace", &path];
    run(&flight, &[]).run().ends_with(0);
    assert!(!std::path::Path::new(&path).exists(), "the job did not fail");
    let options = [&flight[..], &["--grace", "1"]].concat();
    let finished = run(&options, &["die"]).run().ends_with(128 + 9);
    finished.says(&["last operation of each rank:", "rank 0: ", "rank 3: "]);
    let trace = Trace::read(&path);
    trace.assert_atomics_fit(agent_of);
    trace.assert_calls_are_there();
}

fn a_host_that_is_lost_is_missing() {
    let scratch = Scratch::new();
    let path = scratch.file("lost.json");
    let hosts = "a=127.0.0.1:2,b=127.0.0.2:2";
    let options = ["--hosts", hosts, "--rsh", LOCAL, "--trace", &path, "--grace", "1"];
    let finished = run(&options, &["kill-the-daemon"]).run();
    assert!(!finished.status.success());
    finished.says(&["host b is lost", "the recording of host b is missing"]);
    let trace = Trace::read(&path);
    assert!(!trace.of("operation", "rank 0", "atomic").is_empty());
    assert!(trace.of("operation", "rank 3", "atomic").is_empty());
}
