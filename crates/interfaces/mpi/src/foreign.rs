//! Memory of another process that the job has not given out, by the kernel's calls for that
//! (`process_vm_readv`, `process_vm_writev`), which need the right to trace the process.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use farside::fabric::Loss;
use farside::{Error, ExitCause, Rank, Result};

/// The pieces of one call.
const PIECES: usize = 512;

/// A piece of another process's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// What is done with the pieces.
pub(crate) enum Way<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

/// Allows the other processes of this user to reach the memory of this one, where the system asks
/// for that (Yama): from now on any of them may trace it, so it is done for a window that needs it.
pub(crate) fn allow_others() {
    // SAFETY: a call without pointers. Where it does not exist, nothing forbids the access either.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Returns whether this process may reach the memory of another, of which any readable byte is
/// tried.
pub(crate) fn is_allowed(process: i32, address: usize) -> bool {
    let mut byte = [0];
    let piece = Piece { address, bytes: 1 };
    copy(process, &[piece], Way::Read(&mut byte)).is_ok()
}

/// The time in which the news of a rank come whose process is gone.
const NEWS: Duration = Duration::from_secs(1);

/// Returns the error of a transfer whose other process is gone: how that has ended, and because of
/// whom, the news of its loss say, which may still be on their way. `loss` returns what is known.
pub(crate) fn explain(error: Error, loss: impl Fn(Rank) -> Option<Loss>) -> Error {
    let Error::RankLost { rank, how: ExitCause::Vanished } = error else { return error };
    let begun = Instant::now();
    loop {
        if let Some(loss) = loss(rank) {
            return loss.error();
        }
        if begun.elapsed() > NEWS {
            return error;
        }
        std::thread::yield_now();
    }
}

/// Reads or writes pieces of the memory of a process, whose bytes are packed on this side.
pub(crate) fn transfer(rank: Rank, process: i32, pieces: &[Piece], way: Way<'_>) -> Result<()> {
    let result = match way {
        Way::Read(mut into) => pieces.chunks(PIECES).try_for_each(|some| {
            let bytes = some.iter().map(|piece| piece.bytes).sum();
            let (now, rest) = std::mem::take(&mut into).split_at_mut(bytes);
            into = rest;
            copy(process, some, Way::Read(now))
        }),
        Way::Write(mut from) => pieces.chunks(PIECES).try_for_each(|some| {
            let bytes = some.iter().map(|piece| piece.bytes).sum();
            let (now, rest) = from.split_at(bytes);
            from = rest;
            copy(process, some, Way::Write(now))
        }),
    };
    result.map_err(|error| refused(rank, pieces, &error))
}

/// At most [`PIECES`] pieces. What the kernel leaves undone is asked for again.
fn copy(process: i32, pieces: &[Piece], mut way: Way<'_>) -> io::Result<()> {
    let mut remote: Vec<libc::iovec> = pieces
        .iter()
        .filter(|piece| piece.bytes > 0)
        .map(|piece| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(piece.address),
            iov_len: piece.bytes,
        })
        .collect();
    let mut first = 0;
    let mut done = 0;
    while first < remote.len() {
        let there = &remote[first..];
        // SAFETY: the local piece is memory of this process, the remote ones are the kernel's to
        // check.
        let count = unsafe {
            match &mut way {
                Way::Read(into) => {
                    let here = iovec(into[done..].as_mut_ptr(), into.len() - done);
                    libc::process_vm_readv(process, &here, 1, there.as_ptr(), there.len() as _, 0)
                }
                Way::Write(from) => {
                    let here = iovec(from[done..].as_ptr().cast_mut(), from.len() - done);
                    libc::process_vm_writev(process, &here, 1, there.as_ptr(), there.len() as _, 0)
                }
            }
        };
        let mut count = match count {
            0 => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            1.. => count as usize,
            _ => match io::Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => continue,
                error => return Err(error),
            },
        };
        done += count;
        while count > 0 {
            let piece = &mut remote[first];
            let some = count.min(piece.iov_len);
            piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(some).cast();
            piece.iov_len -= some;
            count -= some;
            if piece.iov_len == 0 {
                first += 1;
            }
        }
    }
    Ok(())
}

fn iovec(base: *mut u8, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast(), iov_len: bytes }
}

#[cold]
fn refused(rank: Rank, pieces: &[Piece], error: &io::Error) -> Error {
    let first = pieces.first().map_or(0, |piece| piece.address);
    let bytes: usize = pieces.iter().map(|piece| piece.bytes).sum();
    match error.raw_os_error() {
        Some(libc::EFAULT) => Unreachable { rank, first, bytes }.into(),
        Some(libc::ESRCH) => Error::RankLost { rank, how: ExitCause::Vanished },
        _ => Error::Unsupported {
            what: format!("access to the memory of {rank} at {first:#x}: the system says {error}"),
        },
    }
}

/// Memory of another process that is not there, or is protected.
#[derive(Debug)]
pub(crate) struct Unreachable {
    pub(crate) rank: Rank,
    pub(crate) first: usize,
    pub(crate) bytes: usize,
}

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Unreachable { rank, first, bytes } = self;
        write!(
            f,
            "not all of the {bytes} bytes at {first:#x} of {rank} are attached memory: check the \
             displacement, and that the memory was not freed"
        )
    }
}

impl std::error::Error for Unreachable {}

impl farside::fabric::Fault for Unreachable {
    fn class(&self) -> farside::ErrorClass {
        farside::ErrorClass::Bounds
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_process_that_is_gone_is_explained_by_the_news_of_its_loss() {
        let gone = || Error::RankLost { rank: Rank(2), how: ExitCause::Vanished };
        let cause = Loss { rank: Rank(1), how: ExitCause::Signal(9) };
        // The news come at the third look.
        let looks = Cell::new(0);
        let look = |rank: Rank| {
            assert_eq!(rank, Rank(2));
            looks.set(looks.get() + 1);
            (looks.get() == 3).then_some(cause)
        };
        assert_eq!(explain(gone(), look), cause.error());
        assert_eq!(explain(gone(), |_| None), gone(), "without news");
        let other = Error::Unsupported { what: "it".into() };
        assert_eq!(explain(other.clone(), |_| Some(cause)), other);
        // No process has this number.
        let piece = Piece { address: 8, bytes: 1 };
        let result = transfer(Rank(2), i32::MAX, &[piece], Way::Read(&mut [0]));
        assert_eq!(result, Err(gone()));
    }
}
