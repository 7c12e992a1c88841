//! Ranks behind a wrapper, as in `farside run sh -c 'program; clean-up'`.
//!
//! The launcher watches the processes that it has started. A process that joins and is not one of
//! them says so, and is watched besides: the wrapper may live on when it is gone.

use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use farside_fabric::{Rank, Result};
use rustix::process::{Pid, getpid, getppid};

use crate::handover::{Offer, greet};
use crate::{LAUNCHER, variable};

/// The launcher's end.
pub struct Joiners {
    offer: Offer,
}

impl Joiners {
    /// Listens for processes that join.
    pub fn listen() -> Result<Joiners> {
        Ok(Joiners { offer: Offer::new()? })
    }

    /// Returns the value of [`LAUNCHER`] for the ranks that this process starts.
    pub fn variable(&self) -> String {
        format!("{} {}", getpid().as_raw_nonzero(), self.offer.name)
    }

    /// Takes those that have come, each with its rank.
    pub fn take(&self) -> Vec<(Rank, Pid)> {
        let streams = std::iter::from_fn(|| self.offer.listener.accept().ok());
        streams.filter_map(|(stream, _)| greet(&stream)).collect()
    }
}

impl AsFd for Joiners {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.offer.listener.as_fd()
    }
}

/// Tells the launcher that this process is about to join as `rank`, unless the launcher itself has
/// started it.
pub(crate) fn tell_launcher(rank: Rank) {
    let Some(launcher) = variable(LAUNCHER) else { return };
    let Some((pid, name)) = launcher.split_once(' ') else { return };
    if getppid().is_some_and(|parent| parent.as_raw_nonzero().to_string() == pid) {
        return;
    }
    let tell = || -> std::io::Result<()> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?
            .write_all(&rank.0.to_le_bytes())
    };
    // A launcher that cannot be reached, as from a network namespace of its own, watches the
    // wrapper alone.
    let _ = tell();
}
