//! The keeper: a small process that outlives a launcher that was killed, and ends what is left of its job.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// The word that starts a keeper.
pub(crate) const KEEP: &str = "__keep";

/// The launcher's end of its keeper.
pub(crate) struct Keeper {
    child: Child,
}

impl Keeper {
    /// Starts a keeper for a process group. It is in a group of its own, so that what ends the job does not end it.
    pub(crate) fn start(program: &Path, group: Pid) -> std::io::Result<Keeper> {
        let child = Command::new(program)
            .args([KEEP, &group.as_raw_nonzero().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Keeper { child })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Tells the keeper that everything is in order.
    pub(crate) fn dismiss(mut self) {
        if let Some(mut stdin) = self.child.stdin.take() {
            // A keeper that is gone already needs no telling.
            let _ = stdin.write_all(b"done");
        }
        let _ = self.child.wait();
    }
}

/// What a keeper does: waits until its launcher says that it is done, or dies; then ends the group.
pub fn keep(group: &str) -> Result<(), String> {
    let group = group.parse().ok().and_then(Pid::from_raw).ok_or_else(|| format!("{group:?} is no process group"))?;
    let mut said = Vec::new();
    // An error here means that the launcher's end is gone, as the end of the file does.
    let _ = std::io::stdin().read_to_end(&mut said);
    if said != b"done" {
        // If the group is gone, that is what was wanted.
        let _ = kill_process_group(group, Signal::KILL);
    }
    Ok(())
}
