//! The command at a terminal: prompts and progress are seen, a job that comes to the foreground
//! reads, and a screen is left as it was.

use crate::support::{FARSIDE, Scratch, Start, launcher};
use rustix::process::{Signal, kill_process};

/// Runs a shell with job control at a terminal of its own: what appears there is standard output,
/// and what comes on standard input is typed.
const PTY: &str = "import os, pty, sys
status = pty.spawn(['bash', '--norc', '-m', '-c', sys.argv[1]])
sys.exit(os.waitstatus_to_exitcode(status))";

fn at_terminal(script: &str, scratch: &Scratch) -> Option<Start> {
    let job = || launcher("python3", ["-c", PTY, script]).directory(&scratch.path);
    farside_testing::wanted("python3").then(job)
}

#[test]
fn a_prompt_of_one_of_many_ranks_is_seen() {
    let scratch = Scratch::new();
    let rank = "if [ $FARSIDE_RANK = 0 ]; then printf \"size? \"; read size; echo got $size; : >end
        else until [ -e end ]; do sleep 0.05; done; fi";
    let script = format!("'{FARSIDE}' run -n 2 sh -c '{rank}'");
    let Some(job) = at_terminal(&script, &scratch) else { return };
    let (mut running, mut input) = job.start_with_input();
    running.wait_until_prints("size? ");
    std::io::Write::write_all(&mut input, b"7\n").unwrap();
    running.wait_until_prints("got 7");
    running.wait().ends_with(0);
}

#[test]
fn a_job_that_comes_to_the_foreground_reads() {
    let scratch = Scratch::new();
    // sleep: by then the launcher waits for something to happen.
    let script = format!(
        "'{FARSIDE}' run -n 1 sh -c ': >up; exec cat' & \
         until [ -e up ]; do sleep 0.05; done; sleep 0.5; fg"
    );
    let Some(job) = at_terminal(&script, &scratch) else { return };
    let (mut running, mut input) = job.start_with_input();
    running.wait_until_prints("run -n 1");
    std::io::Write::write_all(&mut input, b"hello\n").unwrap();
    // The terminal shows it as well.
    running.wait_until_prints_times("hello", 2);
    std::io::Write::write_all(&mut input, b"\x04").unwrap();
    running.wait().ends_with(0);
}

#[test]
fn a_screen_that_is_ended_by_a_signal_leaves_the_terminal_as_it_was() {
    let scratch = Scratch::new();
    let script = format!(
        "'{FARSIDE}' run -n 2 sh -c ': >up; exec sleep 1000' & \
         until [ -e up ]; do sleep 0.05; done; '{FARSIDE}' top $!; echo status $?; kill $!; wait"
    );
    for (signal, number) in [(Signal::TERM, 15), (Signal::HUP, 1)] {
        let _ = std::fs::remove_file(scratch.file("up"));
        let Some(job) = at_terminal(&script, &scratch) else { return };
        let mut running = job.start();
        running.wait_until_prints("\x1b[?1049h");
        let is_top = |pid: &rustix::process::Pid| {
            let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
            let line = std::fs::read(path).unwrap_or_default();
            line.split(|&byte| byte == 0).nth(1) == Some(b"top")
        };
        let top = running.processes().into_iter().find(is_top).expect("it shows its screen");
        kill_process(top, signal).unwrap();
        running.wait_until_prints(&format!("status {}", 128 + number));
        running.wait_until_prints("\x1b[?1049l");
        running.wait();
    }
}
