//! The deadline of a start: the messages while it lasts, and the conditions on which it is given
//! up.
//!
//! A start ends well when all ranks have come. It is given up when its time is over, and before
//! that as soon as it is known that a rank of this machine will not come, because its process is
//! gone. Long before either, one of the waiting ranks of each machine says what it waits for.

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::pmi::siblings::{Census, JobProcesses};
use crate::pmi::{Error, Result};

/// After how long a start that has not come to an end is looked into, and spoken of.
const LONG: Duration = Duration::from_secs(5);
/// The interval of looks from then on. A rank that two looks do not find is gone.
const LOOK: Duration = Duration::from_secs(2);

/// The time that one start may take, and what is done while it lasts.
pub(crate) struct StartDeadline {
    began: Instant,
    limit: Duration,
    /// The variable with which users change the limit.
    variable: &'static str,
    processes: JobProcesses,
    /// The time of the next look, after the start has begun.
    next_look: Cell<Duration>,
    last: RefCell<Option<Census>>,
    /// Held by the one process of a machine that has spoken, so that no other does.
    speaker: RefCell<Option<UnixDatagram>>,
}

impl StartDeadline {
    /// Begins a start now, of which `processes` finds the other ranks of this machine.
    pub(crate) fn new(
        limit: Duration,
        variable: &'static str,
        processes: JobProcesses,
    ) -> Rc<StartDeadline> {
        Rc::new(StartDeadline {
            began: Instant::now(),
            limit,
            variable,
            processes,
            next_look: Cell::new(LONG),
            last: RefCell::new(None),
            speaker: RefCell::new(None),
        })
    }

    /// Begins a start now, as one of the processes of a runtime that is no launcher.
    pub(crate) fn unseen(
        limit: Duration,
        variable: &'static str,
        rank: u32,
        size: u32,
    ) -> Rc<StartDeadline> {
        StartDeadline::new(limit, variable, JobProcesses::unseen(rank, size))
    }

    /// Returns the time to wait before asking again; an error when there is nothing left to wait
    /// for. `what` names what is waited for, as the subject of a sentence.
    pub(crate) fn pause(&self, what: &str) -> Result<Duration> {
        let waited = self.began.elapsed();
        if waited >= self.limit {
            let last = self.last.borrow();
            let found =
                last.as_ref().map(|census| format!("; {}", self.processes.describe(census)));
            return Err(Error(format!(
                "{what} took longer than the {} s that a start may take; has one of the job's \
                 processes ended before it joined{}? {} changes the limit",
                self.limit.as_secs(),
                found.unwrap_or_default(),
                self.variable
            )));
        }
        if waited >= self.next_look.get() {
            self.look(waited)?;
            self.next_look.set(self.began.elapsed() + LOOK);
        }
        Ok((self.limit - waited)
            .min(self.next_look.get().saturating_sub(waited))
            .max(Duration::from_millis(1)))
    }

    pub(crate) fn seconds_left(&self) -> u64 {
        self.limit.saturating_sub(self.began.elapsed()).as_secs().max(1)
    }

    /// Looks for the job's ranks on this machine.
    fn look(&self, waited: Duration) -> Result<()> {
        let census = self.processes.census();
        let before = self.last.replace(census.clone());
        if let (Some(census), Some(before)) = (&census, &before)
            && let Some(gone) = self.processes.gone_for_good(before, census)
        {
            return Err(Error(format!(
                "{gone}; the job cannot start, and the ranks that have joined give up"
            )));
        }
        if self.speaker.borrow().is_none() && self.is_speaker() {
            let found = census
                .map_or(String::new(), |census| format!("; {}", self.processes.describe(&census)));
            // If standard error has no reader, there is nothing else to try.
            let _ = writeln!(
                std::io::stderr(),
                "farside: {} has waited {} s for {} to join{found}. The start is given up after {} \
                 s ({})",
                self.processes.me(),
                waited.as_secs(),
                self.processes.everybody(),
                self.limit.as_secs(),
                self.variable
            );
        }
        Ok(())
    }

    /// Returns whether no other process of this job and machine has spoken yet: a name can be taken
    /// once.
    fn is_speaker(&self) -> bool {
        let address = SocketAddr::from_abstract_name(self.processes.name());
        let taken = address.and_then(|address| UnixDatagram::bind_addr(&address));
        let is_free = taken.is_ok();
        *self.speaker.borrow_mut() = taken.ok();
        is_free
    }
}
