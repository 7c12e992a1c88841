//! The processes of a test, wherever they are in the tree.

use rustix::process::Pid;

use super::MARK;

/// What a process is called, and the letter for its state.
pub(super) fn name_and_state(pid: Pid) -> Option<(String, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((name.to_owned(), rest.trim_start().chars().next()?))
}

pub(super) fn marked_pids(mark: &str) -> Vec<Pid> {
    farside_testing::pids_with(MARK, mark)
}

/// The command lines of the processes that bear a mark.
pub(super) fn marked(mark: &str) -> Vec<String> {
    let line = |pid: Pid| {
        let line =
            std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        format!(
            "{}: {}",
            pid.as_raw_nonzero(),
            String::from_utf8_lossy(&line).replace('\0', " ").trim_end()
        )
    };
    marked_pids(mark).into_iter().map(line).collect()
}
