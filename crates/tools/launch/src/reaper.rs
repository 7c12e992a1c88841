//! The reaper: a small process that outlives a launcher that was killed, and ends what is left of
//! its job.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::mark::{Mark, end_marked};
use crate::policy::until;

/// The word that starts a reaper.
pub(crate) const KEEP: &str = "__keep";

/// The time that processes may take to end by themselves when the launcher was killed.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The last word of a launcher whose job has ended in order.
const DONE: &str = "done";

/// The beginning of the line that names the mark of the job's processes.
const MARKED: &str = "mark ";

/// The launcher's end of its reaper.
pub(crate) struct Reaper {
    child: Child,
}

impl Reaper {
    /// Starts a reaper, before there is anything to reap: a launcher may be killed at any moment.
    /// It is in a group of its own, so that what ends the job does not end it. With a `mark`, it
    /// ends all processes that bear it.
    pub(crate) fn start(program: &Path, mark: Option<&Mark>) -> std::io::Result<Reaper> {
        let child = Command::new(program)
            .arg(KEEP)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut reaper = Reaper { child };
        mark.inspect(|mark| reaper.say(&format!("{MARKED}{}\n", mark.name)));
        Ok(reaper)
    }

    /// Tells the reaper the process group of the job. The time before is short: a rank that has
    /// just been started dies with its launcher.
    pub(crate) fn watch_over(&mut self, group: Pid) {
        self.say(&format!("{}\n", group.as_raw_nonzero()));
    }

    /// Tells the reaper that this process of the group may take a while to end by itself: it
    /// reaches another host, and has to pass on that it is over.
    pub(crate) fn wait_for_process(&mut self, process: Pid) {
        self.say(&format!("{}\n", process.as_raw_nonzero()));
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Tells the reaper that everything is in order.
    pub(crate) fn dismiss(mut self) {
        self.say(DONE);
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }

    fn say(&mut self, words: &str) {
        if let Some(stdin) = &mut self.child.stdin {
            // A reaper that is gone already needs no telling.
            let _ = stdin.write_all(words.as_bytes());
        }
    }
}

/// Runs a reaper: waits until its launcher says that it is done, or dies; then ends the group, and
/// all other processes that bear the mark.
pub fn reap() -> Result<(), String> {
    let mut said = String::new();
    // An error here means that the launcher's end is gone, as the end of the file does.
    let _ = std::io::stdin().read_to_string(&mut said);
    let mut lines: Vec<&str> = said.lines().collect();
    if lines.pop_if(|last| *last == DONE).is_some() {
        return Ok(());
    }
    let mark = lines.first().and_then(|line| line.strip_prefix(MARKED));
    lines.drain(..usize::from(mark.is_some()));
    let number = |word: &str| {
        word.parse()
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| format!("{word:?} is not a process"))
    };
    let numbers: Vec<Pid> = lines.into_iter().map(number).collect::<Result<_, _>>()?;
    if let Some((&group, waited_for)) = numbers.split_first() {
        wait_for(waited_for);
        // If the group is gone, that is what was wanted.
        let _ = kill_process_group(group, Signal::KILL);
    }
    mark.inspect(|mark| end_marked(mark));
    Ok(())
}

/// Waits until these processes have ended, but not for long.
fn wait_for(processes: &[Pid]) {
    let deadline = Instant::now() + WAIT_MAX;
    for handle in processes.iter().filter_map(|&pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
        // They have had their time, whatever this returns.
        let _ = rustix::event::poll(
            &mut [PollFd::new(&handle, PollFlags::IN)],
            until(Some(deadline)).as_ref(),
        );
    }
}
