//! Commands that must end within a time.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// The standard output of a command that must end within a time; if it does not, its whole process
/// group is ended.
pub(crate) fn output_within(command: &mut Command, deadline: Duration) -> Result<String> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let child = child.with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let group = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        // Nobody listens any more only if the deadline has passed.
        let _ = sender.send(child.wait_with_output());
    });
    let end = |signal| {
        // If the group is gone, that is what was wanted.
        let _ = kill_process_group(group, signal);
    };
    let result = match receiver.recv_timeout(deadline) {
        Ok(output) => output,
        Err(_) => {
            // A launcher that is asked ends its ranks, wherever they are.
            end(Signal::TERM);
            let late = receiver.recv_timeout(Duration::from_secs(5));
            end(Signal::KILL);
            drop(late);
            bail!("no end after {} s", deadline.as_secs());
        }
    };
    end(Signal::KILL);
    waiter.join().ok().context("the thread that waits for the command panicked")?;
    let output = result.context("waiting for the command")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended() {
        let started = std::time::Instant::now();
        let result = output_within(Command::new("sleep").arg("1000"), Duration::from_millis(100));
        assert!(result.unwrap_err().to_string().contains("no end"));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let result = output_within(
            Command::new("sh").args(["-c", "echo because >&2; exit 3"]),
            Duration::from_secs(30),
        );
        assert!(result.unwrap_err().to_string().contains("because"));
    }
}
