//! Under another launcher: a process beside the ranks of a node says who is stuck, if the user
//! wants that.
//!
//! The process is `farside why`, so that a program needs no doctor inside. It ends when the ranks
//! of its node have.

use std::process::{Command, Stdio};

use farside_fabric::text::say;

use crate::{STUCK_AFTER, variable};

/// Starts the process that watches this rank's node, if the user has asked for it.
pub(crate) fn watch_this_node() {
    let Some(seconds) = variable(STUCK_AFTER) else { return };
    let own = std::process::id().to_string();
    let mut command = Command::new("farside");
    command.args(["why", &own, "--stuck-after", &seconds]);
    // It speaks on standard error: standard output is the program's.
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let watched = started.and_then(|mut watcher| {
        // Somebody has to take its status when it ends, lest it stay as a zombie.
        let reap = move || drop(watcher.wait());
        std::thread::Builder::new().name("farside-why".into()).spawn(reap)
    });
    if let Err(error) = watched {
        say(format_args!(
            "farside: warning: {STUCK_AFTER}={seconds} has no effect: cannot start `farside`, \
             which looks at the ranks: {error}; put it on PATH"
        ));
    }
}
