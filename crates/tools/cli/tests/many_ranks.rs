//! As many ranks as a job may have: they start and meet, all fail, all are killed, and all end when
//! Ctrl-C says so.
//!
//! `FARSIDE_LONG=1 cargo test -p farside-cli --test many_ranks -- --nocapture` starts 4,096 and
//! says how long each job has taken, and then a thousand jobs whose ranks end together, of which
//! each 20th has 700 to 1,000 ranks whose children keep their output open; otherwise there are few
//! of both. `FARSIDE_TEST_RANKS` and `FARSIDE_TEST_JOBS` are other numbers.

mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{Start, ended, is_long, run_own, shells, tests};

tests! {
    all_start_and_meet all_fail all_are_killed all_end_when_asked
    jobs_whose_ranks_end_together_end_well
}

fn main() -> ExitCode {
    let words = support::words();
    match words.first().map(String::as_str) {
        Some("program") => program::start(),
        // One after the other: each of them fills the machine.
        _ if is_long() => {
            let run = |&test| support::run_tests(&[test], &words) == ExitCode::SUCCESS;
            let codes: Vec<bool> = TESTS.iter().map(run).collect();
            u8::from(codes.contains(&false)).into()
        }
        _ => support::run_tests(TESTS, &words),
    }
}

/// A number that the environment may change.
fn number(name: &str, long: u32, short: u32) -> u32 {
    let asked = std::env::var(name).ok().and_then(|number| number.parse().ok());
    asked.unwrap_or(if is_long() { long } else { short })
}

fn ranks() -> u32 {
    number("FARSIDE_TEST_RANKS", 4096, 64)
}

fn job(then: &str) -> Start {
    let ranks = ranks().to_string();
    let job = run_own(&["-n", &ranks, "--memory", "64K", "--grace", "600"], &[then]);
    job.longer(Duration::from_secs(if is_long() { 1200 } else { 0 }))
}

fn took(what: &str, since: Instant) {
    println!("{} ranks: {what}: {:.1} s", ranks(), since.elapsed().as_secs_f64());
}

/// All ranks, as the launcher calls them.
fn everybody() -> String {
    format!("ranks 0-{}", ranks() - 1)
}

fn all_start_and_meet() {
    let begin = Instant::now();
    let finished = job("end").run().ends_with(0);
    took("start, a barrier and an end in order", begin);
    assert_eq!(finished.lines().len(), ranks() as usize, "each says that it has met the others");
    assert_eq!(finished.stderr(), "");
}

fn all_fail() {
    let begin = Instant::now();
    let finished = job("fail").run().ends_with(7);
    took("start, a barrier and an error of all", begin);
    let said = finished.stderr();
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("farside: ")).collect();
    // A rank may hear of the first one's end before its own, and end because of that.
    assert!(lines.len() <= 4, "the first, the others and where they were: {lines:?}");
}

fn all_are_killed() {
    let begin = Instant::now();
    let finished = job("die").run().ends_with(128 + 9);
    took("start, a barrier and a kill of all", begin);
    assert!(finished.stderr().contains(" by signal 9"), "{}", finished.stderr());
}

fn all_end_when_asked() {
    let begin = Instant::now();
    let mut running = job("wait").start();
    running.wait_for_lines("met", ranks() as usize);
    took("start and a barrier", begin);
    let asked = Instant::now();
    running.signal(Signal::INT);
    let finished = running.wait().ends_with(128 + 2);
    took("an end by Ctrl-C", asked);
    assert!(finished.stderr().contains(&ended(&everybody(), 2)), "{}", finished.stderr());
}

/// The ranks leave their output open, so that nothing but their ends tells of them. Every 20th job
/// has many more: a launcher that waits for who passes their output on hangs in some of those.
fn jobs_whose_ranks_end_together_end_well() {
    let (jobs, begin) = (number("FARSIDE_TEST_JOBS", 1000, 3), Instant::now());
    for job in 0..jobs {
        let is_large = is_long() && job % 20 == 2;
        let ranks = if is_large { 700 + job % 301 } else { 50 + job % 51 }.to_string();
        let (status, script) = match job % 4 {
            0 => (0, "exit 0"),
            1 => (0, "sleep 1000 & exit 0"),
            2 => (3, "sleep 1000 & exit 3"),
            _ => (128 + 9, "kill -9 $$"),
        };
        shells(&["-n", &ranks], script).run().ends_with(status);
    }
    println!("{jobs} jobs whose ranks end together: {:.1} s", begin.elapsed().as_secs_f64());
}

mod program {
    use std::process::ExitCode;

    use farside::World;
    use rustix::process::{Signal, getpid, kill_process};

    pub(super) fn start() -> ExitCode {
        main()
    }

    #[farside::main]
    fn main(world: &World) -> Result<(), Box<dyn std::error::Error>> {
        world.barrier()?;
        println!("met");
        match std::env::args().nth(2).as_deref() {
            Some("fail") => std::process::exit(7),
            Some("die") => kill_process(getpid(), Signal::KILL)?,
            Some("wait") => loop {
                std::thread::park();
            },
            _ => {}
        }
        Ok(())
    }
}
