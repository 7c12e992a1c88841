//! The ranks' output, line by line, on a thread of its own: its reader may be slow, and the
//! launcher must not be.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use farside_fabric::Rank;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::Output;
use crate::channel::Outbox;
use crate::frames::ToLauncher;

/// The number of bytes of a stream that are still read after the job is over: the contents of a
/// pipe, and not the output of a process that got away.
const REST_MAX: usize = 1 << 20;

/// The thread that passes output on.
pub(crate) struct Forwarder {
    thread: JoinHandle<Vec<u8>>,
    /// Requests to the thread.
    orders: UnixStream,
    /// Becomes readable when the thread has something to say, or is done.
    pub(crate) news: UnixStream,
}

/// A report of the forwarder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The reader of our output is gone.
    Broken,
    /// The output of this rank up to the request was passed on.
    Drained(Rank),
    /// All was passed on.
    Done,
}

impl Forwarder {
    pub(crate) fn start(streams: Vec<Stream>, sink: Sink) -> std::io::Result<Forwarder> {
        let (orders, taken) = UnixStream::pair()?;
        let (news, tell) = UnixStream::pair()?;
        let run = move || forward(streams, sink, &taken, tell);
        let thread = std::thread::Builder::new().name("farside-output".into()).spawn(run)?;
        Ok(Forwarder { thread, orders, news })
    }

    /// Reads what the thread has said; to be called when `news` is readable.
    pub(crate) fn hear(&mut self) -> News {
        match receive(&self.news) {
            Some((BROKEN, _)) => News::Broken,
            Some((_, rank)) => News::Drained(rank),
            None => News::Done,
        }
    }

    /// Asks the thread to pass on what a rank has written so far, and to say so.
    pub(crate) fn drain(&mut self, rank: Rank) {
        send(&self.orders, DRAIN, rank);
    }

    /// Asks the thread to end with what is there now.
    pub(crate) fn stop(&mut self) {
        send(&self.orders, STOP, Rank(0));
    }

    /// Returns the captured output. Only after [`News::Done`], or this may take long.
    pub(crate) fn finish(self) -> Vec<u8> {
        // The thread does nothing that panics; should it, what it had captured is gone.
        self.thread.join().unwrap_or_default()
    }
}

/// The words of the launcher and of the thread to each other, each with a rank.
const STOP: u8 = b'x';
const DRAIN: u8 = b'd';
const BROKEN: u8 = b'b';

fn send(mut to: &UnixStream, word: u8, rank: Rank) {
    let [a, b, c, d] = rank.0.to_le_bytes();
    // If the other end is gone, there is no reader to tell.
    let _ = to.write_all(&[word, a, b, c, d]);
}

fn receive(mut from: &UnixStream) -> Option<(u8, Rank)> {
    let mut words = [0; 5];
    from.read_exact(&mut words).ok()?;
    let [word, rank @ ..] = words;
    Some((word, Rank(u32::from_le_bytes(rank))))
}

fn forward(
    mut streams: Vec<Stream>,
    mut sink: Sink,
    orders: &UnixStream,
    tell: UnixStream,
) -> Vec<u8> {
    let mut buffer = vec![0; 64 * 1024];
    let mut broken = false;
    let mut note = |passed_on: std::io::Result<()>| {
        // Go on reading all the same: a rank that cannot write hangs.
        if passed_on.is_err() && !std::mem::replace(&mut broken, true) {
            send(&tell, BROKEN, Rank(0));
        }
    };
    while !streams.is_empty() {
        let mut polled: Vec<PollFd<'_>> = vec![PollFd::new(orders, PollFlags::IN)];
        polled.extend(streams.iter().map(|stream| PollFd::new(&stream.pipe, PollFlags::IN)));
        if !matches!(rustix::event::poll(&mut polled, None), Ok(_) | Err(rustix::io::Errno::INTR)) {
            break;
        }
        let happened: Vec<bool> =
            polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        if happened[0] {
            let Some((DRAIN, rank)) = receive(orders) else { break };
            streams.retain_mut(|stream| {
                let drained = if stream.rank == rank {
                    stream.drain(&mut buffer, &mut sink)
                } else {
                    Forwarded::NOTHING
                };
                note(drained.passed_on);
                drained.is_open
            });
            send(&tell, DRAIN, rank);
            continue;
        }
        let mut readable = happened[1..].iter();
        streams.retain_mut(|stream| {
            if readable.next() != Some(&true) {
                return true;
            }
            let read = stream.read(&mut buffer, &mut sink);
            note(read.passed_on);
            read.is_open
        });
    }
    for mut stream in streams {
        // Output that cannot be written any more is lost; the job is over all the same.
        let _ = stream.drain(&mut buffer, &mut sink);
        let _ = stream.finish(&mut sink);
    }
    sink.kept()
}

/// What was read of a stream.
struct Forwarded {
    /// Whether it could be passed on.
    passed_on: std::io::Result<()>,
    /// Whether more can come.
    is_open: bool,
    bytes: usize,
}

impl Forwarded {
    const NOTHING: Forwarded = Forwarded { passed_on: Ok(()), is_open: true, bytes: 0 };
}

/// One stream of one rank.
pub(crate) struct Stream {
    pub(crate) pipe: OwnedFd,
    pub(crate) rank: Rank,
    pub(crate) is_error: bool,
    line: Vec<u8>,
}

/// A line longer than this is passed on in pieces, so that a rank cannot fill the launcher's
/// memory.
const LINE_MAX: usize = 64 * 1024;

impl Stream {
    pub(crate) fn new(pipe: OwnedFd, rank: Rank, is_error: bool) -> Stream {
        Stream { pipe, rank, is_error, line: Vec::new() }
    }

    /// Takes what has come, and passes on the lines that are whole.
    pub(crate) fn take(&mut self, bytes: &[u8], sink: &mut Sink) -> std::io::Result<()> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.line.extend_from_slice(&rest[..=end]);
            self.pass_on(sink)?;
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
        if self.line.len() >= LINE_MAX { self.pass_on(sink) } else { Ok(()) }
    }

    /// Passes on the last line, if it lacks its end.
    pub(crate) fn finish(&mut self, sink: &mut Sink) -> std::io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        if sink.mends_lines() {
            self.line.push(b'\n');
        }
        self.pass_on(sink)
    }

    /// Reads once, and passes on what came.
    fn read(&mut self, buffer: &mut [u8], sink: &mut Sink) -> Forwarded {
        match rustix::io::read(&self.pipe, &mut *buffer) {
            Ok(0) => Forwarded { passed_on: self.finish(sink), is_open: false, bytes: 0 },
            Ok(bytes) => {
                Forwarded { passed_on: self.take(&buffer[..bytes], sink), is_open: true, bytes }
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Forwarded::NOTHING,
            Err(_) => Forwarded { passed_on: self.finish(sink), is_open: false, bytes: 0 },
        }
    }

    /// Passes on what is there, and no more.
    fn drain(&mut self, buffer: &mut [u8], sink: &mut Sink) -> Forwarded {
        let mut all = Forwarded::NOTHING;
        while all.is_open && all.bytes < REST_MAX {
            let mut polled = [PollFd::new(&self.pipe, PollFlags::IN)];
            if !matches!(
                rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })),
                Ok(1..)
            ) {
                break;
            }
            let Forwarded { passed_on, is_open, bytes } = self.read(buffer, sink);
            all.passed_on = all.passed_on.and(passed_on);
            all.is_open = is_open;
            all.bytes += bytes;
        }
        all
    }

    fn pass_on(&mut self, sink: &mut Sink) -> std::io::Result<()> {
        let line = std::mem::take(&mut self.line);
        sink.line(self.rank, self.is_error, &line)
    }
}

/// The destination of lines.
pub(crate) enum Sink {
    /// To our own output, each with the number of its rank if `labels` are wanted.
    Terminal { labels: bool },
    /// Standard output is kept; standard error goes to ours.
    Kept(Vec<u8>),
    /// To the launcher of a job that spans hosts. `mends_lines`: see [`Sink::mends_lines`].
    Channel { outbox: Outbox, mends_lines: bool },
}

impl Sink {
    pub(crate) fn new(output: Output) -> Sink {
        match output {
            Output::Capture => Sink::Kept(Vec::new()),
            Output::Forward { labels } => Sink::Terminal { labels },
        }
    }

    /// Passes a line on. Only a reader that is slow can make this last.
    pub(crate) fn line(&mut self, rank: Rank, is_error: bool, line: &[u8]) -> std::io::Result<()> {
        let label = if matches!(self, Sink::Terminal { labels: true }) {
            format!("[{}] ", rank.0)
        } else {
            String::new()
        };
        match self {
            Sink::Kept(kept) if !is_error => {
                kept.extend_from_slice(line);
                Ok(())
            }
            Sink::Channel { outbox, .. } => outbox.push_patiently(&ToLauncher::Output {
                rank: rank.0,
                is_error,
                line: line.to_vec(),
            }),
            Sink::Terminal { .. } if !is_error => {
                write_line(&mut std::io::stdout().lock(), &label, line)
            }
            Sink::Terminal { .. } | Sink::Kept(_) => {
                write_line(&mut std::io::stderr().lock(), &label, line)
            }
        }
    }

    /// Returns whether a last line that lacks its end gets one: with labels, or when lines of many
    /// ranks are kept, it would swallow the next one.
    pub(crate) fn mends_lines(&self) -> bool {
        match self {
            Sink::Terminal { labels } => *labels,
            Sink::Kept(_) => true,
            Sink::Channel { mends_lines, .. } => *mends_lines,
        }
    }

    /// Returns the lines that were kept.
    pub(crate) fn kept(self) -> Vec<u8> {
        match self {
            Sink::Kept(kept) => kept,
            _ => Vec::new(),
        }
    }
}

pub(crate) fn write_line(
    to: &mut (impl Write + AsFd),
    label: &str,
    line: &[u8],
) -> std::io::Result<()> {
    write_patiently(to, label.as_bytes())?;
    write_patiently(to, line)
}

/// Writes all bytes, also to a file that was set not to block.
fn write_patiently(to: &mut (impl Write + AsFd), mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to.as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut polled = [PollFd::new(to, PollFlags::OUT)];
                rustix::event::poll(&mut polled, None)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_whole_however_they_come() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        let mut stream = Stream::new(pipe, Rank(3), false);
        let mut sink = Sink::Kept(Vec::new());
        for part in ["he", "llo\nwor", "ld\n", "end"] {
            stream.take(part.as_bytes(), &mut sink).unwrap();
        }
        assert!(matches!(&sink, Sink::Kept(kept) if kept == b"hello\nworld\n"));
        stream.finish(&mut sink).unwrap();
        assert_eq!(sink.kept(), b"hello\nworld\nend\n");
    }

    #[test]
    fn an_endless_line_does_not_stay_in_memory() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        let mut stream = Stream::new(pipe, Rank(3), false);
        let mut sink = Sink::Kept(Vec::new());
        stream.take(&vec![b'x'; LINE_MAX + 1], &mut sink).unwrap();
        assert!(stream.line.is_empty());
    }
}
