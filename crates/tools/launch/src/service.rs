//! Requests of ranks to the launcher. Each daemon takes them at a local socket of its host, and
//! passes them on over the channel that it has: nothing else is opened between hosts.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::channel::Outbox;
use crate::frames::{ToLauncher, read_frame};

type Answer = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// Something that the launcher does for ranks that ask for it.
#[derive(Clone)]
pub struct Service {
    variable: OsString,
    answer: Arc<Answer>,
}

impl Service {
    /// Answers requests with `answer`. Ranks find the socket of their host in this variable, as
    /// `socket:NAME` with a name of Linux's abstract ones; what they write there is a request, and
    /// then comes its answer. Both are a length, four bytes, the least significant first, and so
    /// many bytes.
    pub fn new(
        variable: impl Into<OsString>,
        answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Service {
        Service { variable: variable.into(), answer: Arc::new(answer) }
    }

    pub(crate) fn variable(&self) -> OsString {
        self.variable.clone()
    }

    pub(crate) fn answer(&self, request: &[u8]) -> Vec<u8> {
        (self.answer)(request)
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("variable", &self.variable).finish_non_exhaustive()
    }
}

/// The connections of a host's ranks that ask the launcher, at its daemon.
#[derive(Clone, Default)]
pub(crate) struct Connections {
    streams: Arc<Mutex<HashMap<u32, UnixStream>>>,
}

impl Connections {
    /// Listens for ranks, and returns what their variable is to say.
    pub(crate) fn listen(&self, outbox: Outbox) -> std::io::Result<String> {
        let mut random = [0; 16];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("farside-{:032x}", u128::from_le_bytes(random));
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let own = self.clone();
        std::thread::Builder::new()
            .name("farside-requests".into())
            .spawn(move || own.accept(&listener, &outbox))?;
        Ok(format!("socket:{name}"))
    }

    /// Brings an answer to its rank. If that has ended, nobody waits for it.
    pub(crate) fn answer(&self, connection: u32, bytes: &[u8]) {
        if let Some(mut stream) = self.lock().get(&connection) {
            let framed = [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
            let _ = stream.write_all(&framed);
        }
    }

    fn accept(&self, listener: &UnixListener, outbox: &Outbox) {
        // If no more can be accepted, the socket goes, and ranks that come are told so.
        for (connection, stream) in (0..).zip(listener.incoming().map_while(Result::ok)) {
            let is_own = rustix::net::sockopt::socket_peercred(&stream)
                .is_ok_and(|peer| peer.uid == rustix::process::geteuid());
            // Strangers are sent away.
            let Some(kept) = stream.try_clone().ok().filter(|_| is_own) else { continue };
            self.lock().insert(connection, kept);
            let (own, outbox) = (self.clone(), outbox.clone());
            let spawned = std::thread::Builder::new()
                .name("farside-request".into())
                .spawn(move || own.pass_on(connection, stream, &outbox));
            if spawned.is_err() {
                self.lock().remove(&connection);
            }
        }
    }

    /// Passes on what a rank asks, until it ends.
    fn pass_on(&self, connection: u32, mut stream: UnixStream, outbox: &Outbox) {
        while let Ok(Some(request)) = read_frame(&mut stream) {
            if outbox.push_patiently(&ToLauncher::Asked { connection, request }).is_err() {
                break;
            }
        }
        self.lock().remove(&connection);
    }

    /// No holder of the lock can panic in the middle of a change.
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, UnixStream>> {
        self.streams.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::frames::decode;

    fn ask(address: &SocketAddr, request: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect_addr(address).unwrap();
        // Whoever is sent away may be so before this arrives.
        let framed = [&(request.len() as u32).to_le_bytes()[..], request].concat();
        let _ = stream.write_all(&framed);
        stream
    }

    #[test]
    fn another_user_asks_in_vain() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (to_launcher, mut launcher) = UnixStream::pair().unwrap();
        let outbox = Outbox::start(to_launcher).unwrap();
        let name = Connections::default().listen(outbox).unwrap();
        let name = name.strip_prefix("socket:").unwrap();
        let address = SocketAddr::from_abstract_name(name).unwrap();
        // A user is a thread's own, as the kernel sees it.
        let mut stranger = std::thread::scope(|threads| {
            let of_other = threads.spawn(|| {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(12345)).unwrap();
                ask(&address, b"strange")
            });
            of_other.join().unwrap()
        });
        // It is sent away, and nothing of it comes to the launcher.
        assert!(!matches!(stranger.read(&mut [0; 1]), Ok(1..)));
        let _own = ask(&address, b"own");
        let passed_on = decode::<ToLauncher>(&mut launcher).unwrap();
        assert!(matches!(passed_on, Some(ToLauncher::Asked { request, .. }) if request == b"own"));
    }
}
