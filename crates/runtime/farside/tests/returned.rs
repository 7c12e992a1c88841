//! What a program prints whose `main` returns an error, as all examples' do.

use std::process::{Command, Stdio, Termination};
use std::sync::mpsc;
use std::time::Duration;

/// Set for the process that is the program.
const PROGRAM: &str = "FARSIDE_TEST_RETURNS";

fn program() -> farside::Result<()> {
    let world = farside::join()?;
    let window = world.window::<u64>(1 << 30)?;
    window.free(&world)
}

#[test]
fn an_error_that_main_returns_is_printed_with_the_way_out() {
    if std::env::var_os(PROGRAM).is_some() {
        // What the runtime does with what `main` returns.
        program().report();
        return;
    }
    let name = "an_error_that_main_returns_is_printed_with_the_way_out";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(PROGRAM, "1")
        .env("FARSIDE_MEMORY", "16M")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output()));
    let output = receive
        .recv_timeout(Duration::from_secs(60))
        .expect("a program of one rank ends by itself")
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    for part in
        ["Error: cannot allocate 8589934592 bytes", "`farside run --memory`", "FARSIDE_MEMORY"]
    {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    assert!(!said.contains("OutOfMemory {"), "{said:?}");
}
