//! The mark that the processes of a job bear in their environment. They are found by it wherever
//! they move in the tree of processes: in sessions of their own, and after their parents are gone.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use farside_job::MARK;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The separator between the marks of nested jobs.
const BETWEEN: u8 = b'/';

/// The name of one job.
pub(crate) struct Mark {
    pub(crate) name: String,
}

impl Mark {
    /// A name that no other job has.
    pub(crate) fn new() -> Mark {
        let mut random = [0; 8];
        // Where there is no random number, the number of the launcher has to do.
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        Mark { name: format!("{}-{:016x}", std::process::id(), u64::from_le_bytes(random)) }
    }

    /// Returns the value that the processes of the job bear: this mark behind that of the enclosing
    /// job, if there is one.
    pub(crate) fn value(&self) -> OsString {
        let mut value = std::env::var_os(MARK).unwrap_or_default();
        if !value.is_empty() {
            value.push("/");
        }
        value.push(&self.name);
        value
    }
}

pub(crate) fn end_marked(name: &str) {
    // They may start others until they are gone: look again until there are none. A process that
    // does not go is in an uninterruptible call, and not worth waiting for.
    for _ in 0..1000 {
        let marked: Vec<Pid> = processes().filter(|&pid| end_if_marked(pid, name)).collect();
        if marked.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
}

/// Ends a process if it bears a name; whether it does.
fn end_if_marked(pid: Pid, name: &str) -> bool {
    // With the handle, the process is the same when it is read and when it is ended.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let environment =
        std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables.find_map(|one| one.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
    let bears = value.is_some_and(|value| {
        value.split(|&byte| byte == BETWEEN).any(|one| one == name.as_bytes())
    });
    bears && pidfd_send_signal(&handle, Signal::KILL).is_ok()
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        Pid::from_raw(std::str::from_utf8(entry.file_name().as_bytes()).ok()?.parse().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn who_bears_the_name_is_ended_and_nobody_else() {
        let sleeper =
            |value: &str| Command::new("sleep").arg("1000").env(MARK, value).spawn().unwrap();
        let (own, inner) = (Mark::new(), Mark::new());
        let mut others =
            [format!("{}0", own.name), inner.name.clone()].map(|value| sleeper(&value));
        let mut children =
            [own.name.clone(), format!("{}/{}", own.name, inner.name)].map(|value| sleeper(&value));
        end_marked(&own.name);
        for child in &mut children {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        for other in &mut others {
            assert!(other.try_wait().unwrap().is_none(), "another job was ended");
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
