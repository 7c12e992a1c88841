//! The way to a checker on another host: through the launcher, whose daemon is on this one.
//!
//! The daemon listens at a local socket, passes each request on over its channel to the launcher,
//! and brings the answer back. A request is one transaction. It is its length, four bytes, the
//! least significant first, and [calls](crate::wire); so is an answer.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use farside_fabric::{Error, Result};

use crate::calls::Call;
use crate::layout::Layout;
use crate::state::{State, locked};
use crate::wire;

/// What the variable that names the checker begins with, if a daemon passes calls on to it; the
/// name of the daemon's socket follows.
const PREFIX: &str = "socket:";
/// The request of a rank that does not know the checker yet.
const HELLO: &[u8] = b"farside-races 2";
/// An answer is a number; longer ones are none of ours.
const ANSWER_MAX: usize = 64;
/// A rank looks so often whether it waits for an answer in vain. A rank that was stopped for a
/// while has not waited meanwhile.
const LOOK: Duration = Duration::from_millis(200);
/// How many looks without an answer are in vain: those of a minute.
const LOOKS_MAX: u32 = 300;

/// A rank's connection to the checker.
pub(crate) struct Remote {
    stream: Mutex<UnixStream>,
    is_lost: AtomicBool,
    why: OnceLock<String>,
}

impl Remote {
    /// Connects to the checker that the variable names, if it names one that is reached this way.
    pub(crate) fn open(name: &str) -> Option<Result<(Remote, Layout)>> {
        name.strip_prefix(PREFIX).map(Remote::connect)
    }

    fn connect(name: &str) -> Result<(Remote, Layout)> {
        let cannot = |why: &dyn std::fmt::Display| {
            Error::Join(format!(
                "the race checker, which the launcher's daemon passes calls on to, cannot be \
                 asked: {why}"
            ))
        };
        let address = SocketAddr::from_abstract_name(name).map_err(|error| cannot(&error))?;
        let stream = UnixStream::connect_addr(&address).map_err(|error| cannot(&error))?;
        let owner =
            rustix::net::sockopt::socket_peercred(&stream).map_err(|error| cannot(&error))?;
        if owner.uid != rustix::process::geteuid() {
            return Err(cannot(&"another user listens at its socket"));
        }
        stream.set_read_timeout(Some(LOOK)).map_err(|error| cannot(&error))?;
        let answer = exchange(&stream, HELLO).map_err(|error| cannot(&error))?;
        let [ranks, page_bits] =
            numbers(&answer).ok_or_else(|| cannot(&"it runs another version of farside"))?;
        let layout = Layout::new(ranks, page_bits)?;
        let (is_lost, why) = (AtomicBool::new(false), OnceLock::new());
        Ok((Remote { stream: Mutex::new(stream), is_lost, why }, layout))
    }

    /// Has calls done; `None` if the checker cannot be reached, or has given up.
    pub(crate) fn run(&self, calls: &[Call<'_>]) -> Option<u32> {
        if self.is_lost.load(Ordering::Relaxed) {
            return None;
        }
        let request = wire::encode(calls);
        let answer = exchange(&locked(&self.stream), &request);
        let answer = answer.map_err(|error| error.to_string()).and_then(|answer| {
            numbers(&answer).ok_or_else(|| "the checker does not understand it".to_owned())
        });
        match answer {
            Ok([is_done, number]) => (is_done != 0).then_some(number),
            Err(why) => {
                let _ = self.why.set(why);
                self.is_lost.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Fails if the checker is out of reach.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        let why = self.why.get().map_or("", String::as_str);
        Err(Error::Network(format!(
            "lost the connection to the race checker at the launcher: {why}"
        )))
    }
}

/// Answers a rank's request: the other end of [`Remote`].
pub(crate) fn answer(
    request: &[u8],
    layout: &Layout,
    with: impl FnOnce(&dyn Fn(&mut State<'_>) -> u32) -> Option<u32>,
) -> Vec<u8> {
    let both = |two: [u32; 2]| two.iter().flat_map(|number| number.to_le_bytes()).collect();
    if request == HELLO {
        return both([layout.ranks, layout.page_bits]);
    }
    let done = wire::decode(request, layout, |calls| with(&|state| state.run(calls)));
    match done {
        Some(Some(number)) => both([1, number]),
        Some(None) => both([0, 0]),
        None => Vec::new(),
    }
}

fn numbers(answer: &[u8]) -> Option<[u32; 2]> {
    let (first, second) = answer.split_first_chunk::<4>()?;
    let second = second.try_into().ok()?;
    Some([u32::from_le_bytes(*first), u32::from_le_bytes(second)])
}

fn exchange(mut stream: &UnixStream, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let framed = [&(request.len() as u32).to_le_bytes()[..], request].concat();
    stream.write_all(&framed)?;
    let mut length = [0; 4];
    read_patiently(stream, &mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > ANSWER_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut answer = vec![0; length];
    read_patiently(stream, &mut answer)?;
    Ok(answer)
}

fn read_patiently(mut stream: &UnixStream, mut into: &mut [u8]) -> std::io::Result<()> {
    let mut looks = 0;
    while !into.is_empty() {
        match stream.read(into) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => into = &mut into[bytes..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && looks < LOOKS_MAX => looks += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::Checker;

    /// Listens as a daemon does, and passes the first requests on to a checker.
    fn serve(ranks: u32, name: &str, requests: usize) -> std::thread::JoinHandle<()> {
        let listener =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        std::thread::spawn(move || {
            let checker = Checker::new(ranks).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..requests {
                let mut length = [0; 4];
                stream.read_exact(&mut length).unwrap();
                let mut request = vec![0; u32::from_le_bytes(length) as usize];
                stream.read_exact(&mut request).unwrap();
                let answer = checker.answer(&request);
                stream.write_all(&(answer.len() as u32).to_le_bytes()).unwrap();
                stream.write_all(&answer).unwrap();
            }
        })
    }

    #[test]
    fn calls_are_answered_until_the_connection_ends() {
        let name = format!("farside-races-test-{}", std::process::id());
        let served = serve(3, &name, 3);
        let (remote, layout) = Remote::open(&format!("{PREFIX}{name}")).unwrap().unwrap();
        assert_eq!((layout.ranks, layout.words), (3, 1 << 16));
        assert_eq!(remote.run(&[Call::NamePlace { name: "a.rs:1" }]), Some(0));
        assert_eq!(remote.run(&[Call::NamePlace { name: "a.rs:2" }]), Some(1));
        assert!(remote.check().is_ok());
        served.join().unwrap();
        assert_eq!(remote.run(&[Call::Fails]), None);
        let error = remote.check().unwrap_err();
        assert!(matches!(&error, Error::Network(why) if why.contains("launcher")), "{error}");
        assert!(Remote::open("/proc/1/fd/3").is_none(), "a path is none of its names");
        assert!(Remote::open("socket:nobody-listens").unwrap().is_err());
    }

    #[test]
    fn a_request_that_makes_no_sense_has_no_answer() {
        let checker = Checker::new(2).unwrap();
        assert_eq!(checker.answer(b"farside-races 0"), b"");
        assert_eq!(checker.answer(&wire::encode(&[Call::Fails])), [1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
