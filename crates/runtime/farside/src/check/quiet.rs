//! Silence: what a program writes in thousands of schedules is not shown.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};

use farside_fabric::{Error, Result};
use rustix::stdio::{dup2_stderr, dup2_stdout};

/// While it lives, standard output and standard error lead nowhere.
pub(super) struct Quiet {
    out: OwnedFd,
    err: OwnedFd,
}

impl Quiet {
    pub(super) fn new() -> Result<Quiet> {
        let quiet = Quiet { out: copy(std::io::stdout())?, err: copy(std::io::stderr())? };
        let nowhere = File::options().write(true).open("/dev/null").map_err(|error| {
            Error::System { call: "open", errno: error.raw_os_error().unwrap_or(0) }
        })?;
        let _ = std::io::stdout().flush();
        dup2_stdout(&nowhere).and_then(|()| dup2_stderr(&nowhere)).map_err(refused)?;
        Ok(quiet)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // What is still in the buffer belongs to the silence.
        let _ = std::io::stdout().flush();
        let _ = dup2_stdout(&self.out);
        let _ = dup2_stderr(&self.err);
    }
}

/// Makes another descriptor of the same file, which programs that are started do not get.
pub(super) fn copy(of: impl AsFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(of, 3).map_err(refused)
}

fn refused(errno: rustix::io::Errno) -> Error {
    Error::System { call: "dup", errno: errno.raw_os_error() }
}
