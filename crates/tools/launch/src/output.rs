//! The ranks' output, line by line, on a thread of its own: its reader may be slow, and the
//! launcher must not be.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use farside_fabric::Rank;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::channel::{Mailbox, Outbox, Slot, mailbox};
use crate::console::Console;
use crate::frames::ToLauncher;
use crate::lines::{Lines, OpenLines};
use crate::policy::until;
use crate::{Launch, Output};

/// The number of bytes of a stream that are still read after the job is over: the contents of a
/// pipe, and not the output of a process that got away.
const REST_MAX: usize = 1 << 20;

/// The thread that passes output on. Neither it nor the launcher waits for the other: a batch of
/// requests is as large as the job, and sockets are not.
pub(crate) struct Forwarder {
    thread: JoinHandle<Vec<u8>>,
    orders: Slot<Order>,
    news: Mailbox<News>,
}

enum Order {
    /// Pass on what a rank has written so far, and say so.
    Drain(Rank),
    /// End with what is there now.
    Stop,
}

impl Order {
    fn drained(&self) -> Option<Rank> {
        match self {
            Order::Drain(rank) => Some(*rank),
            Order::Stop => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The reader of our output is gone.
    Broken,
    /// The output of this rank up to the request was passed on.
    Drained(Rank),
    Done,
}

impl Forwarder {
    pub(crate) fn start(streams: Vec<Stream>, sink: Sink) -> std::io::Result<Forwarder> {
        let (orders, taken) = mailbox()?;
        let (tell, news) = mailbox()?;
        let run = move || {
            let tell = Teller(tell);
            forward(streams, sink, taken, &tell.0)
        };
        let thread = std::thread::Builder::new().name("farside-output".into()).spawn(run)?;
        Ok(Forwarder { thread, orders, news })
    }

    /// Returns what becomes ready when the thread has something to say.
    pub(crate) fn polled(&self) -> PollFd<'_> {
        PollFd::new(&self.news.bell, PollFlags::IN)
    }

    pub(crate) fn hear(&mut self) -> Vec<News> {
        self.news.take()
    }

    pub(crate) fn drain(&self, rank: Rank) {
        self.orders.put(Order::Drain(rank));
    }

    pub(crate) fn stop(&self) {
        self.orders.put(Order::Stop);
    }

    /// Returns the captured output. Only after [`News::Done`], or this may take long.
    pub(crate) fn finish(self) -> Vec<u8> {
        // The thread does nothing that panics; should it, what it had captured is gone.
        self.thread.join().unwrap_or_default()
    }
}

/// Says that the thread is done, however it ends.
struct Teller(Slot<News>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.put(News::Done);
    }
}

fn forward(
    mut streams: Vec<Stream>,
    mut sink: Sink,
    mut orders: Mailbox<Order>,
    tell: &Slot<News>,
) -> Vec<u8> {
    let mut buffer = vec![0; 64 * 1024];
    let mut broken = false;
    let mut note = |passed_on: std::io::Result<()>| {
        // Go on reading all the same: a rank that cannot write hangs.
        if passed_on.is_err() && !std::mem::replace(&mut broken, true) {
            tell.put(News::Broken);
        }
    };
    while !streams.is_empty() {
        let due = streams.iter().filter_map(|stream| stream.due(&sink)).min();
        let mut polled: Vec<PollFd<'_>> = vec![PollFd::new(&orders.bell, PollFlags::IN)];
        polled.extend(streams.iter().map(|stream| PollFd::new(&stream.pipe, PollFlags::IN)));
        let wait = rustix::event::poll(&mut polled, until(due).as_ref());
        if !matches!(wait, Ok(_) | Err(rustix::io::Errno::INTR)) {
            break;
        }
        let happened: Vec<bool> =
            polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        if happened[0] {
            let orders = orders.take();
            let ranks: BTreeSet<Rank> = orders.iter().filter_map(Order::drained).collect();
            streams.retain_mut(|stream| {
                if !ranks.contains(&stream.rank) {
                    return true;
                }
                let drained = stream.drain(&mut buffer, &mut sink);
                note(drained.passed_on);
                drained.is_open
            });
            ranks.into_iter().for_each(|rank| _ = tell.put(News::Drained(rank)));
            if orders.iter().any(|order| matches!(order, Order::Stop)) {
                break;
            }
            continue;
        }
        let (mut readable, now) = (happened[1..].iter(), Instant::now());
        streams.retain_mut(|stream| {
            let read = if readable.next() == Some(&true) {
                stream.read(&mut buffer, &mut sink)
            } else {
                Forwarded::NOTHING
            };
            note(read.passed_on);
            if read.is_open && stream.due(&sink).is_some_and(|due| due <= now) {
                note(stream.pass_on(&mut sink));
            }
            read.is_open
        });
    }
    for mut stream in streams {
        // Output that cannot be written any more is lost; the job is over all the same.
        let _ = stream.drain(&mut buffer, &mut sink);
        let _ = stream.finish(&mut sink);
    }
    note(sink.flush());
    sink.take_kept()
}

/// What was read of a stream.
struct Forwarded {
    passed_on: std::io::Result<()>,
    is_open: bool,
    bytes: usize,
}

impl Forwarded {
    const NOTHING: Forwarded = Forwarded { passed_on: Ok(()), is_open: true, bytes: 0 };
}

pub(crate) struct Stream {
    pub(crate) pipe: OwnedFd,
    pub(crate) rank: Rank,
    pub(crate) is_error: bool,
    line: Vec<u8>,
    /// The time at which the line began, if it has no end yet.
    since: Option<Instant>,
    /// True if a part of the line was passed on.
    is_parted: bool,
}

/// The time after which a line that has no end yet is passed on, where that is done.
const PART: Duration = Duration::from_millis(200);
/// A line longer than this is passed on in pieces, so that a rank cannot fill the launcher's
/// memory.
const LINE_MAX: usize = 64 * 1024;

impl Stream {
    pub(crate) fn new(pipe: OwnedFd, rank: Rank, is_error: bool) -> Stream {
        Stream { pipe, rank, is_error, line: Vec::new(), since: None, is_parted: false }
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
        if self.line.len() >= LINE_MAX {
            return self.pass_on(sink);
        }
        if !self.line.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Returns when a line that has no end yet is to be passed on, if it is.
    fn due(&self, sink: &Sink) -> Option<Instant> {
        self.since.filter(|_| sink.lines().is_parted(self.is_error)).map(|since| since + PART)
    }

    /// Passes on the last line, if it lacks its end.
    pub(crate) fn finish(&mut self, sink: &mut Sink) -> std::io::Result<()> {
        let is_mended = sink.lines().mended;
        if self.line.is_empty() && !(self.is_parted && is_mended) {
            return Ok(());
        }
        if is_mended {
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
        self.since = None;
        self.is_parted = !line.ends_with(b"\n");
        sink.line(self.rank, self.is_error, &line)
    }
}

pub(crate) struct Sink {
    lines: Lines,
    to: To,
}

enum To {
    Own {
        console: Console,
        open: OpenLines,
    },
    /// Standard output is kept; standard error goes to ours.
    Kept {
        kept: Vec<u8>,
        console: Console,
    },
    /// The launcher of a job that spans hosts.
    Channel(Outbox),
}

impl Sink {
    pub(crate) fn new(launch: &Launch, console: &Console) -> Sink {
        let console = console.clone();
        let to = match launch.output {
            Output::Capture => To::Kept { kept: Vec::new(), console },
            Output::Forward { .. } => To::Own { console, open: OpenLines::default() },
        };
        Sink { lines: Lines::of(launch), to }
    }

    pub(crate) fn channel(outbox: Outbox, lines: Lines) -> Sink {
        Sink { lines, to: To::Channel(outbox) }
    }

    fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Passes a line on, or a part of one. Only a reader that is slow can make this last.
    pub(crate) fn line(&mut self, rank: Rank, is_error: bool, line: &[u8]) -> std::io::Result<()> {
        match &mut self.to {
            To::Kept { kept, .. } if !is_error => {
                kept.extend_from_slice(line);
                Ok(())
            }
            To::Kept { console, .. } => console.print_error(line),
            To::Channel(outbox) => {
                let output = ToLauncher::Output { rank: rank.0, is_error, line: line.to_vec() };
                outbox.push_output(&output, line.len())
            }
            To::Own { console, open } => {
                // One write: nothing comes between a label and its line.
                let bytes = open.bytes(&self.lines, rank, is_error, line);
                if is_error { console.print_error(&bytes) } else { console.print(&bytes) }
            }
        }
    }

    fn flush(&self) -> std::io::Result<()> {
        match &self.to {
            To::Own { console, .. } | To::Kept { console, .. } => console.flush(),
            // The launcher tells when it is.
            To::Channel(_) => Ok(()),
        }
    }

    pub(crate) fn take_kept(&mut self) -> Vec<u8> {
        match &mut self.to {
            To::Kept { kept, .. } => std::mem::take(kept),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping() -> Sink {
        Sink::new(&Launch::new("program", 4).unwrap(), &Console::open().unwrap())
    }

    #[test]
    fn lines_stay_whole_however_they_come() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        let mut stream = Stream::new(pipe, Rank(3), false);
        let mut sink = keeping();
        for part in ["he", "llo\nwor", "ld\n", "end"] {
            stream.take(part.as_bytes(), &mut sink).unwrap();
        }
        assert!(matches!(&sink.to, To::Kept { kept, .. } if kept == b"hello\nworld\n"));
        stream.finish(&mut sink).unwrap();
        assert_eq!(sink.take_kept(), b"hello\nworld\nend\n");
    }

    #[test]
    fn an_endless_line_does_not_stay_in_memory() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        let mut stream = Stream::new(pipe, Rank(3), false);
        let mut sink = keeping();
        stream.take(&vec![b'x'; LINE_MAX + 1], &mut sink).unwrap();
        assert!(stream.line.is_empty());
    }

    #[test]
    fn requests_for_many_ranks_wait_for_no_answer() {
        // The pipe stays open, so that the thread does not end.
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        let streams = vec![Stream::new(pipe, Rank(0), false)];
        let mut forwarder = Forwarder::start(streams, keeping()).unwrap();
        let (done, ends) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            (0..4096).for_each(|rank| forwarder.drain(Rank(rank)));
            forwarder.stop();
            let mut heard = Vec::new();
            while heard.last() != Some(&News::Done) {
                rustix::event::poll(&mut [forwarder.polled()], None).unwrap();
                heard.extend(forwarder.hear());
            }
            done.send(heard).unwrap();
        });
        let heard = ends.recv_timeout(Duration::from_secs(60)).expect("nobody waits for ever");
        let answers = (0..4096).map(|rank| News::Drained(Rank(rank))).chain([News::Done]);
        assert!(heard.into_iter().eq(answers));
    }
}
