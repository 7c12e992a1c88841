//! Hearing of the ends of other processes without being their parent.

use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use farside_fabric::{Error, Rank, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use crate::handover::Processes;

/// A thread that sleeps until one of the processes ends. It is stopped when this is dropped.
pub(crate) struct Watch {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Calls `ended` for each of these ranks when its process has ended.
    pub(crate) fn start(
        processes: &Processes,
        mut ended: impl FnMut(Rank) + Send + 'static,
    ) -> Result<Watch> {
        let system = |call: &'static str| {
            move |errno: Errno| Error::System { call, errno: errno.raw_os_error() }
        };
        let mut handles: Vec<(Rank, OwnedFd)> = Vec::new();
        let mut gone: Vec<Rank> = Vec::new();
        for &(rank, pid) in processes {
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(handle) => handles.push((rank, handle)),
                Err(Errno::SRCH) => gone.push(rank),
                Err(errno) => {
                    return Err(system(
                        "pidfd_open, by which a rank hears that another one has ended",
                    )(errno));
                }
            }
        }
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(system("eventfd"))?;
        let told = stop.try_clone().map_err(|error| Error::System {
            call: "duplicating a file",
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        let run = move || {
            gone.into_iter().for_each(&mut ended);
            while let Some(ranks) = wait(&mut handles, &told) {
                ranks.into_iter().for_each(&mut ended);
            }
        };
        let thread = std::thread::Builder::new().name("farside-watch".into()).spawn(run).map_err(
            |error| Error::System {
                call: "starting the thread that watches",
                errno: error.raw_os_error().unwrap_or(0),
            },
        )?;
        Ok(Watch { stop, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The counter of an event takes more than one.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// Waits until some have ended, and forgets them; nothing if it was told to stop.
fn wait(handles: &mut Vec<(Rank, OwnedFd)>, stop: &OwnedFd) -> Option<Vec<Rank>> {
    let mut polled: Vec<PollFd<'_>> = vec![PollFd::new(stop, PollFlags::IN)];
    polled.extend(handles.iter().map(|(_, handle)| PollFd::new(handle, PollFlags::IN)));
    match rustix::event::poll(&mut polled, None) {
        Ok(_) => {}
        Err(Errno::INTR) => return Some(Vec::new()),
        // There is nothing to wait with.
        Err(_) => return None,
    }
    let happened: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
    drop(polled);
    if happened[0] {
        return None;
    }
    let mut happened = happened[1..].iter();
    let ended = |_: &mut (Rank, OwnedFd)| happened.next() == Some(&true);
    Some(handles.extract_if(.., ended).map(|(rank, _)| rank).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rustix::process::Pid;

    use super::*;

    #[test]
    fn ends_are_heard_of_in_their_order() {
        let mut children: Vec<_> =
            (0..3).map(|_| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()).collect();
        let processes: Processes = children
            .iter()
            .enumerate()
            .map(|(rank, child)| (Rank(rank as u32), Pid::from_child(child)))
            .collect();
        let (sender, ends) = channel();
        let watch = Watch::start(&processes, move |rank| sender.send(rank).unwrap()).unwrap();
        for rank in [1, 0, 2] {
            children[rank].kill().unwrap();
            assert_eq!(ends.recv_timeout(Duration::from_secs(10)), Ok(Rank(rank as u32)));
            children[rank].wait().unwrap();
        }
        drop(watch);
        // A process that had ended before it was watched has ended, too.
        let (sender, ends) = channel();
        let _watch =
            Watch::start(&vec![processes[0]], move |rank| sender.send(rank).unwrap()).unwrap();
        assert_eq!(ends.recv_timeout(Duration::from_secs(10)), Ok(Rank(0)));
    }
}
