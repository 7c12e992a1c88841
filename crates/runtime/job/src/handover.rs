//! Handing the memory of a node from the rank that has made it to its neighbours, which are
//! not its children.
//!
//! The maker listens at a local socket whose name only the job knows; a process that connects must
//! belong to the same user. The same way the neighbours learn of each other's processes, to hear
//! when they end.

use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use crate::pmi::StartDeadline;
use farside_fabric::{Error, Rank, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::Pid;

use crate::lines::hex;

/// The time that a neighbour may take to name its rank after it has connected.
const GREETING: Duration = Duration::from_secs(5);

/// The processes of a node, in the order of their ranks.
pub(crate) type Processes = Vec<(Rank, Pid)>;

#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) rank: Rank,
    pub(crate) error: Error,
}

/// The maker's end.
pub(crate) struct Offer {
    pub(crate) listener: UnixListener,
    pub(crate) name: String,
}

impl Offer {
    pub(crate) fn new() -> Result<Offer> {
        let mut random = [0; 16];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::System { call: "getrandom", errno: errno.raw_os_error() })?;
        let name = format!("farside-{}", hex(&random));
        let refused = system("opening the socket that passes on this node's memory");
        let address = SocketAddr::from_abstract_name(&name).map_err(&refused)?;
        let listener = UnixListener::bind_addr(&address).map_err(&refused)?;
        listener.set_nonblocking(true).map_err(&refused)?;
        Ok(Offer { listener, name })
    }

    /// Waits until all neighbours have come, and gives each of them the file. The first of
    /// `neighbours` is this process.
    pub(crate) fn hand_out(
        &self,
        neighbours: &[Rank],
        file: BorrowedFd<'_>,
        deadline: &StartDeadline,
    ) -> Result<Processes, Missing> {
        let mut come: Vec<Option<(UnixStream, Pid)>> =
            neighbours.iter().skip(1).map(|_| None).collect();
        while let Some(missing) = come.iter().position(Option::is_none) {
            let rank = neighbours[missing + 1];
            let pause = deadline.pause("passing this node's memory to its ranks");
            let pause = pause.map_err(|error| {
                let error = Error::Join(format!(
                    "{rank} has not asked for this node's memory; has its process ended, or does \
                     its program not join? {error}"
                ));
                Missing { rank, error }
            })?;
            let timeout =
                Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
            let _ = rustix::event::poll(
                &mut [PollFd::new(&self.listener, PollFlags::IN)],
                Some(&timeout),
            );
            let Ok((stream, _)) = self.listener.accept() else { continue };
            // Strangers are sent away; a rank that is missing is named in the end.
            if let Some((rank, pid)) = greet(&stream)
                && let Some(at) = neighbours.iter().skip(1).position(|&neighbour| neighbour == rank)
            {
                come[at] = Some((stream, pid));
            }
        }
        let come: Vec<(UnixStream, Pid)> = come.into_iter().flatten().collect();
        let pids =
            std::iter::once(rustix::process::getpid()).chain(come.iter().map(|(_, pid)| *pid));
        let processes: Processes = neighbours.iter().copied().zip(pids).collect();
        let list: Vec<u8> = processes
            .iter()
            .flat_map(|(_, pid)| pid.as_raw_nonzero().get().to_le_bytes())
            .collect();
        for (stream, _) in come {
            // The end of one that has gone by now is noticed by its watchers.
            let _ = give(&stream, file, &list);
        }
        Ok(processes)
    }
}

/// Returns the rank and the process of a neighbour, if it belongs to the same user.
pub(crate) fn greet(mut stream: &UnixStream) -> Option<(Rank, Pid)> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    if peer.uid != rustix::process::geteuid() {
        return None;
    }
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(GREETING)).ok()?;
    let mut rank = [0; 4];
    stream.read_exact(&mut rank).ok()?;
    Some((Rank(u32::from_le_bytes(rank)), peer.pid))
}

fn give(mut stream: &UnixStream, file: BorrowedFd<'_>, list: &[u8]) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(std::io::Error::other("there is no room for a file"));
    }
    rustix::net::sendmsg(stream, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(list)
}

/// A neighbour's end: fetches the file from the rank that offers it.
pub(crate) fn fetch(
    name: &str,
    me: Rank,
    neighbours: &[Rank],
    deadline: &StartDeadline,
) -> Result<(OwnedFd, Processes)> {
    let maker = neighbours[0];
    let gone = |error: std::io::Error| {
        Error::Join(format!(
            "cannot get this node's memory from {maker}, which allocates it: {error}; has its \
             process ended?"
        ))
    };
    let address = SocketAddr::from_abstract_name(name).map_err(gone)?;
    let mut stream = UnixStream::connect_addr(&address).map_err(gone)?;
    let owner =
        rustix::net::sockopt::socket_peercred(&stream).map_err(|errno| gone(errno.into()))?;
    if owner.uid != rustix::process::geteuid() {
        return Err(gone(std::io::Error::other("another user listens there")));
    }
    stream.write_all(&me.0.to_le_bytes()).map_err(gone)?;
    // When the maker has the last of its neighbours, all is said at once.
    loop {
        let pause = deadline
            .pause("the hand-over of this node's memory")
            .map_err(|error| gone(std::io::Error::other(error.to_string())))?;
        let timeout =
            Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        if let Ok(1..) =
            rustix::event::poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&timeout))
        {
            break;
        }
    }
    stream.set_read_timeout(Some(GREETING)).map_err(gone)?;
    let file = take(&stream).map_err(gone)?;
    let mut processes = Processes::new();
    for &neighbour in neighbours {
        let mut pid = [0; 4];
        stream.read_exact(&mut pid).map_err(gone)?;
        let pid = Pid::from_raw(i32::from_le_bytes(pid));
        processes.push((
            neighbour,
            pid.ok_or_else(|| gone(std::io::Error::other("a process without number")))?,
        ));
    }
    Ok((file, processes))
}

fn take(stream: &UnixStream) -> std::io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = rustix::net::recvmsg(
        stream.as_fd(),
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if received.bytes == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let files = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.ok_or_else(|| std::io::Error::other("no file came"))
}

fn system(call: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::System { call, errno: error.raw_os_error().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use crate::pmi::Launcher;

    use super::*;

    fn for_ms(ms: u64) -> Rc<StartDeadline> {
        let launcher = Launcher::Pmi1 { socket: -1, rank: 0, size: 2 };
        launcher.start_deadline(Duration::from_millis(ms), "A_VARIABLE", &|_| None)
    }

    fn soon() -> Rc<StartDeadline> {
        for_ms(10_000)
    }

    #[test]
    fn a_file_and_all_processes_come_over() {
        let offer = Offer::new().unwrap();
        let (name, neighbours) = (offer.name.clone(), [Rank(2), Rank(5), Rank(7)]);
        let file =
            rustix::fs::memfd_create(c"handed over", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let which = |file: BorrowedFd<'_>| {
            rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).unwrap()
        };
        let (own, expected) = (rustix::process::getpid(), which(file.as_fd()));
        std::thread::scope(|threads| {
            for me in [Rank(7), Rank(5)] {
                let name = &name;
                threads.spawn(move || {
                    let (file, processes) = fetch(name, me, &neighbours, &soon()).unwrap();
                    assert_eq!(which(file.as_fd()), expected);
                    assert_eq!(processes, neighbours.map(|rank| (rank, own)));
                });
            }
            let processes = offer.hand_out(&neighbours, file.as_fd(), &soon()).unwrap();
            assert_eq!(processes.len(), 3);
        });
    }

    #[test]
    fn who_does_not_come_is_named() {
        let offer = Offer::new().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        // A connection that names no rank does not count.
        let stranger =
            UnixStream::connect_addr(&SocketAddr::from_abstract_name(&offer.name).unwrap())
                .unwrap();
        (&stranger).write_all(&99u32.to_le_bytes()).unwrap();
        let error =
            offer.hand_out(&[Rank(0), Rank(3)], file.as_fd(), &for_ms(50)).unwrap_err().error;
        assert!(error.to_string().contains("rank 3"), "{error}");
    }

    #[test]
    fn another_user_gets_nothing() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let offer = Offer::new().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let address = SocketAddr::from_abstract_name(&offer.name).unwrap();
        // A user is a thread's own, as the kernel sees it.
        let of_other = std::thread::spawn(move || {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(12345)).unwrap();
            UnixStream::connect_addr(&address).unwrap()
        });
        let mut stranger = of_other.join().unwrap();
        // It names the rank that is missing.
        stranger.write_all(&3u32.to_le_bytes()).unwrap();
        let missing = offer.hand_out(&[Rank(0), Rank(3)], file.as_fd(), &for_ms(50)).unwrap_err();
        assert_eq!(missing.rank, Rank(3), "{missing:?}");
        assert!(take(&stranger).is_err());
    }

    #[test]
    fn a_maker_that_is_gone_is_named() {
        let offer = Offer::new().unwrap();
        let name = offer.name.clone();
        drop(offer);
        let error = fetch(&name, Rank(1), &[Rank(0), Rank(1)], &soon()).unwrap_err();
        assert!(error.to_string().contains("rank 0"), "{error}");
    }
}
