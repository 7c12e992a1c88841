//! Jobs that are stopped for longer than `--peer-timeout` and go on, as by Ctrl-Z, a debugger, a
//! freezer or a paused virtual machine: nobody is lost. The ranks run this very file, started
//! again.
//!
//! With `FARSIDE_LONG=1` everything is stopped for three times the default limit, whatever the
//! ranks do meanwhile.

mod support;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{Running, Scratch, Start, is_long, launcher, own, program_or_tests, run_own, tests};

tests! {
    nodes_go_on_after_a_pause nodes_over_libfabric_go_on_after_a_pause hosts_go_on_after_a_pause
    ranks_of_hydra_go_on_after_a_pause ranks_of_open_mpi_go_on_after_a_pause
}

fn main() -> ExitCode {
    program_or_tests(program::start, TESTS)
}

const RANKS: usize = 4;

const HOSTS: &str = "a=127.0.0.1:2,b=127.0.0.2,c=127.0.0.3";

/// How a job is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Nodes,
    Libfabric,
    Hosts,
    Hydra,
    OpenMpi,
}

#[derive(Debug, Clone, Copy)]
enum Stopped {
    /// The launcher, by the signal that Ctrl-Z sends: it takes the ranks along.
    Terminal,
    Launcher,
    /// All processes, as by a freezer.
    Everything,
    /// All but the ranks.
    Agents,
    Ranks,
    /// A rank in whose process no agent is.
    Rank,
}

fn peer_timeout() -> Duration {
    Duration::from_secs(if is_long() { 10 } else { 1 })
}

fn job(way: Way, work: &str, directory: &Path) -> Start {
    let (timeout, ranks) = (peer_timeout().as_secs().to_string(), RANKS.to_string());
    let (program, path) = (own(), directory.to_str().expect("the path is text"));
    let farside = |options: &[&str]| {
        run_own(&[options, &["--peer-timeout", &timeout]].concat(), &[work, path])
    };
    let words = [program.as_str(), "program", work, path];
    let other = |name: &str, options: &[&str]| {
        launcher(name, options.iter().chain(&[ranks.as_str()]).chain(&words))
            .variable("FARSIDE_NODES", "2")
            .variable("FARSIDE_PEER_TIMEOUT", &timeout)
    };
    let job = match way {
        Way::Nodes => farside(&["-n", &ranks, "--nodes", "2"]),
        Way::Libfabric => farside(&["-n", &ranks, "--nodes", "2", "--fabric", "ofi"]),
        Way::Hosts => farside(&["--hosts", HOSTS, "--rsh", "sh -c 'exec \"$@\"' {host}"]),
        Way::Hydra => other("mpiexec.hydra", &["-n"]),
        // Of two that share a directory, one may find it half made, or removed by the other.
        Way::OpenMpi => other("mpirun.openmpi", &["--oversubscribe", "-np"])
            .variable("OMPI_MCA_orte_tmpdir_base", directory),
    };
    job.longer(10 * peer_timeout())
}

fn chosen(stopped: Stopped, running: &Running, directory: &Path) -> Vec<Pid> {
    let rank = |rank: usize| {
        let pid = std::fs::read_to_string(directory.join(format!("rank-{rank}")));
        let pid = pid.expect("every rank has written its number").parse();
        Pid::from_raw(pid.expect("it is a number")).expect("no process has the number 0")
    };
    let ranks = || (0..RANKS).map(rank);
    let all = running.processes();
    match stopped {
        Stopped::Terminal | Stopped::Launcher => vec![running.pid],
        Stopped::Everything => all,
        Stopped::Agents => all.into_iter().filter(|&pid| ranks().all(|rank| rank != pid)).collect(),
        Stopped::Ranks => ranks().collect(),
        Stopped::Rank => vec![rank(RANKS - 1)],
    }
}

/// Stops a job and lets it go on; then it must work on and end well.
fn pause(way: Way, work: &str, stopped: Stopped) -> Result<(), String> {
    let scratch = Scratch::new();
    let mut running = job(way, work, &scratch.path).start();
    running.wait_for_lines("ready", RANKS);
    let pids = chosen(stopped, &running, &scratch.path);
    let send = |signal: Signal| {
        // One that has ended by itself is missed later.
        pids.iter().for_each(|&pid| _ = kill_process(pid, signal));
    };
    send(if matches!(stopped, Stopped::Terminal) { Signal::TSTP } else { Signal::STOP });
    // sleep: so long is the pause.
    std::thread::sleep(3 * peer_timeout());
    send(Signal::CONT);
    // sleep: a verdict about a node takes so long.
    std::thread::sleep(peer_timeout() * 3 / 2);
    std::fs::write(scratch.path.join("end"), "").expect("a file can be written");
    let finished = running.wait();
    let is_well = finished.status.success() && finished.stdout().matches("done\n").count() == RANKS;
    let said =
        || format!("{way:?}, {work}, {stopped:?}: {}\n{}", finished.status, finished.stderr());
    if is_well { Ok(()) } else { Err(said()) }
}

/// Runs all of these pauses, at most so many at once that the machine is not what is slow.
fn pause_all(way: Way, few: &[(&str, Stopped)], stopped: &[Stopped]) {
    let works = ["sleeping", "computing", "communicating"];
    let all = works.iter().flat_map(|&work| stopped.iter().map(move |&stopped| (work, stopped)));
    let cells = if is_long() { all.collect() } else { few.to_vec() };
    let at_once = if is_long() { 2 } else { few.len() };
    let mut wrong = Vec::new();
    for group in cells.chunks(at_once) {
        std::thread::scope(|scope| {
            let start = |&(work, stopped)| scope.spawn(move || pause(way, work, stopped));
            let started: Vec<_> = group.iter().map(start).collect();
            wrong.extend(started.into_iter().filter_map(|one| one.join().expect("no panic").err()));
        });
    }
    if is_long() {
        println!("{way:?}: {} pauses, {} wrong", cells.len(), wrong.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn nodes_go_on_after_a_pause() {
    use Stopped::{Everything, Launcher, Rank, Ranks, Terminal};
    let few = [
        ("sleeping", Terminal),
        ("sleeping", Launcher),
        ("sleeping", Rank),
        ("sleeping", Everything),
    ];
    pause_all(Way::Nodes, &few, &[Terminal, Launcher, Everything, Ranks, Rank]);
}

fn nodes_over_libfabric_go_on_after_a_pause() {
    use Stopped::{Everything, Launcher, Rank, Ranks, Terminal};
    let few = [("sleeping", Terminal), ("communicating", Everything)];
    pause_all(Way::Libfabric, &few, &[Terminal, Launcher, Everything, Ranks, Rank]);
}

fn hosts_go_on_after_a_pause() {
    use Stopped::{Agents, Everything, Launcher, Rank, Ranks, Terminal};
    let few = [("sleeping", Terminal), ("sleeping", Agents), ("communicating", Everything)];
    pause_all(Way::Hosts, &few, &[Terminal, Launcher, Everything, Agents, Ranks, Rank]);
}

fn ranks_of_hydra_go_on_after_a_pause() {
    use Stopped::{Everything, Launcher, Rank, Ranks};
    if farside_testing::wanted("mpiexec.hydra") {
        let few = [("sleeping", Everything), ("communicating", Ranks)];
        pause_all(Way::Hydra, &few, &[Launcher, Everything, Ranks, Rank]);
    }
}

fn ranks_of_open_mpi_go_on_after_a_pause() {
    use Stopped::{Everything, Launcher, Rank, Ranks, Terminal};
    if farside_testing::wanted("mpirun.openmpi") {
        let few = [("sleeping", Terminal), ("communicating", Everything)];
        pause_all(Way::OpenMpi, &few, &[Terminal, Launcher, Everything, Ranks, Rank]);
    }
}

mod program {
    use std::path::Path;
    use std::process::ExitCode;
    use std::time::Duration;

    use farside::{Rank, World};

    pub(super) fn start() -> ExitCode {
        main()
    }

    #[farside::main]
    fn main(world: &World) -> Result<(), Box<dyn std::error::Error>> {
        let words: Vec<String> = std::env::args().skip(2).collect();
        let [work, directory] = &words[..] else { return Err("work and a directory".into()) };
        let directory = Path::new(directory);
        let own = directory.join(format!("rank-{}", world.rank().0));
        std::fs::write(own, std::process::id().to_string())?;
        world.barrier()?;
        println!("ready");
        let end = directory.join("end");
        match work.as_str() {
            "computing" => {
                while !end.exists() {
                    std::hint::black_box((0..1_000_000u64).map(std::hint::black_box).sum::<u64>());
                }
            }
            _ => circulate(world, &end, work == "sleeping")?,
        }
        world.barrier()?;
        println!("done");
        Ok(())
    }

    /// Passes a number from rank to rank: again and again, or once at the end.
    fn circulate(world: &World, end: &Path, once: bool) -> farside::Result<()> {
        let words = world.words(1)?;
        let (me, next) = (world.rank(), Rank((world.rank().0 + 1) % world.size()));
        for round in 1.. {
            if me == Rank(0) {
                while once && !end.exists() {
                    // sleep: the test makes the file at its end, and nobody is told.
                    std::thread::sleep(Duration::from_millis(10));
                }
                let number = if end.exists() { u64::MAX } else { round };
                world.signal(words.at(next, 0), number)?;
            }
            let number = world.wait(words.at(me, 0), |number| number >= round)?;
            if me != Rank(0) {
                world.signal(words.at(next, 0), number)?;
            }
            if number == u64::MAX {
                break;
            }
        }
        Ok(())
    }
}
