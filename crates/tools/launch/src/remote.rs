//! One host, as the launcher sees it: the program that reaches it, and the channel through that
//! program to the daemon.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use farside_fabric::Rank;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};

use crate::channel::{Outbox, Slot};
use crate::clocks::RoundTrip;
use crate::console::Console;
use crate::frames::{GREETING, ToLauncher, ToNode, VERSION, decode};
use crate::output::Sink;
use crate::policy::until;
use crate::processes::FileLimit;
use crate::{Error, Launch, Service};

/// The number of bytes that a host may print before its daemon does.
const PREAMBLE_MAX: u64 = 1 << 20;
/// A line of a host that is longer is passed on in pieces.
const LINE_MAX: u64 = 64 * 1024;

pub(crate) struct Remote {
    pub(crate) label: String,
    command: Vec<OsString>,
    child: Child,
    /// Becomes readable when the program that reaches the host ends.
    handle: OwnedFd,
    pub(crate) outbox: Outbox,
    pub(crate) state: State,
    pub(crate) address: Option<crate::frames::Interface>,
    pub(crate) running: Vec<Rank>,
    /// Its streams that are open.
    pub(crate) streams: u32,
}

/// A host that is to be reached.
pub(crate) struct Goal {
    pub(crate) node: usize,
    pub(crate) label: String,
    pub(crate) command: Vec<OsString>,
    pub(crate) ranks: Vec<Rank>,
    pub(crate) service: Option<Service>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Asked,
    Ready,
    Met,
    Started,
    Done,
    Lost,
}

/// Something that happened at a host.
pub(crate) struct News {
    pub(crate) node: usize,
    pub(crate) what: What,
}

pub(crate) enum What {
    /// Its daemon says this; output does not come this way.
    Message(ToLauncher),
    Time(RoundTrip),
    /// Its output could not be written.
    Broken,
    /// Its channel has ended before it said that it was done, perhaps because it made no sense.
    Gone(Option<String>),
    /// Its channel has ended, and its output was passed on.
    Ended,
    /// Its standard error has ended.
    Quiet,
}

/// The destination of the output of all hosts.
pub(crate) struct Printer {
    sink: Mutex<Sink>,
    console: Console,
    /// The number of lines that are still to be printed.
    busy: AtomicUsize,
}

impl Printer {
    pub(crate) fn new(launch: &Launch, console: &Console) -> Printer {
        let sink = Mutex::new(Sink::new(launch, console));
        Printer { sink, console: console.clone(), busy: AtomicUsize::new(0) }
    }

    /// A line has come that is to be printed.
    fn expect(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
    }

    /// Prints a line that was expected.
    fn print(&self, rank: Rank, is_error: bool, line: &[u8]) -> std::io::Result<()> {
        let printed = self
            .sink
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .line(rank, is_error, line);
        self.busy.fetch_sub(1, Ordering::SeqCst);
        printed
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) > 0
    }

    /// Returns the lines that were kept. A sink that is being written to a stalled reader keeps
    /// nothing.
    pub(crate) fn kept(&self) -> Vec<u8> {
        self.sink.try_lock().map(|mut sink| sink.take_kept()).unwrap_or_default()
    }
}

impl Remote {
    /// Reaches for a host, in the process group `group` if there is one already. Its events are put
    /// into `slot`.
    pub(crate) fn start(
        goal: Goal,
        group: Option<Pid>,
        files: FileLimit,
        slot: &Slot<News>,
        printer: &Arc<Printer>,
    ) -> Result<Remote, Error> {
        let Goal { node, label, command, ranks, service } = goal;
        let failed = |error: std::io::Error| Error::Host {
            host: label.clone(),
            why: format!("cannot start {:?}, which should reach it: {error}", command[0]),
        };
        let mut start = Command::new(&command[0]);
        files.hand_on(&mut start);
        let mut child = start
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The signals of a terminal to its foreground must not end it: the ranks have to be
            // asked first.
            .process_group(group.map_or(0, |group| group.as_raw_nonzero().get()))
            .spawn()
            .map_err(&failed)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let handle = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let prepare = || -> std::io::Result<(OwnedFd, Outbox)> {
            let no_pipe = || std::io::Error::other("a pipe is missing");
            let (stdin, stdout, stderr) = (
                stdin.ok_or_else(no_pipe)?,
                stdout.ok_or_else(no_pipe)?,
                stderr.ok_or_else(no_pipe)?,
            );
            let outbox = Outbox::start(stdin)?;
            let host = Reader {
                node,
                label: label.clone(),
                slot: slot.clone(),
                printer: Arc::clone(printer),
                outbox: outbox.clone(),
                service,
            };
            let (first, second) = (host.clone(), host);
            let thread = || std::thread::Builder::new().name("farside-host".into());
            thread().spawn(move || first.listen(stdout))?;
            thread().spawn(move || second.pass_on(stderr))?;
            Ok((handle?, outbox))
        };
        match prepare() {
            Ok((handle, outbox)) => Ok(Remote {
                label,
                command,
                child,
                handle,
                outbox,
                state: State::Asked,
                address: None,
                running: ranks,
                streams: 2,
            }),
            Err(error) => {
                let error = failed(error);
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the exit status of the program that reaches the host, if it ends before this time.
    pub(crate) fn wait(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => {}
                Ok(status) => return status,
                // Somebody else has waited for it.
                Err(_) => return None,
            }
            let mut polled = [PollFd::new(&self.handle, PollFlags::IN)];
            match rustix::event::poll(&mut polled, until(Some(deadline)).as_ref()) {
                Ok(1..) | Err(rustix::io::Errno::INTR) => {}
                _ => return None,
            }
        }
    }

    /// Ends the program that reaches the host.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The command that reaches the host, for messages.
    pub(crate) fn words(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_else(|_| words.join(" "))
    }
}

#[derive(Clone)]
struct Reader {
    node: usize,
    label: String,
    slot: Slot<News>,
    printer: Arc<Printer>,
    /// To its daemon.
    outbox: Outbox,
    service: Option<Service>,
}

impl Reader {
    fn tell(&self, what: What) -> bool {
        self.slot.put(News { node: self.node, what })
    }

    /// Reads what the daemon says until it ends. Another thread passes output on, and what comes
    /// after it: its reader may be slow, and everything else is heard all the same.
    fn listen(self, stdout: ChildStdout) {
        let mut from = BufReader::with_capacity(64 * 1024, stdout);
        let (to_print, printed) = channel();
        let printing = self.clone();
        let print = move || printing.print(&printed);
        let thread = std::thread::Builder::new().name("farside-print".into()).spawn(print);
        let (is_done, why) = match (self.greet(&mut from), &thread) {
            (_, Err(error)) => (false, Some(error.to_string())),
            (Ok(()), _) => match self.hear(&mut from, &to_print) {
                Ok(is_done) => (is_done, None),
                Err(error) => (false, Some(error.to_string())),
            },
            (Err(why), _) => (false, why),
        };
        if !is_done {
            self.tell(What::Gone(why));
        }
        drop(to_print);
        // A thread that was not started, or has panicked, prints no more.
        let _ = thread.map(JoinHandle::join);
        self.tell(What::Ended);
    }

    /// Passes on what comes in order: output, and what tells of it.
    fn print(&self, messages: &Receiver<ToLauncher>) {
        let mut broken = false;
        for message in messages {
            let ToLauncher::Output { rank, is_error, line } = message else {
                self.tell(What::Message(message));
                continue;
            };
            // Go on all the same: a rank that cannot write hangs.
            let printed = self.printer.print(Rank(rank), is_error, &line);
            if printed.is_err() && !std::mem::replace(&mut broken, true) {
                self.tell(What::Broken);
            }
            self.outbox.push(&ToNode::Printed(line.len() as u64));
        }
    }

    /// Reads up to the daemon's first line. Lines before it are passed on: start-up files of shells
    /// are talkative.
    fn greet(&self, from: &mut impl BufRead) -> Result<(), Option<String>> {
        let mut from = from.take(PREAMBLE_MAX);
        loop {
            let mut line = Vec::new();
            match from.read_until(b'\n', &mut line) {
                Ok(0) if from.limit() == 0 => {
                    return Err(Some(
                        "it prints text, but not the greeting of farside: does another program \
                         answer, or does a login script not end?"
                            .into(),
                    ));
                }
                Ok(0) | Err(_) => return Err(None),
                Ok(_) => {}
            }
            match line.strip_prefix(GREETING.as_bytes()) {
                None => self.say(&line),
                Some(version) if version.trim_ascii_end() == VERSION.as_bytes() => return Ok(()),
                Some(version) => {
                    let theirs = String::from_utf8_lossy(version.trim_ascii_end()).into_owned();
                    let why = format!(
                        "it runs farside {theirs}, and the launcher is {VERSION}; give the path of \
                         farside {VERSION} there with --remote-farside"
                    );
                    return Err(Some(why));
                }
            }
        }
    }

    /// Returns whether the daemon has said that it is done.
    fn hear(&self, from: &mut impl Read, to_print: &Sender<ToLauncher>) -> std::io::Result<bool> {
        let mut is_done = false;
        while let Some(message) = decode(from)? {
            match message {
                ToLauncher::Output { .. } | ToLauncher::Drained { .. } | ToLauncher::Done => {
                    is_done |= matches!(message, ToLauncher::Done);
                    if matches!(message, ToLauncher::Output { .. }) {
                        self.printer.expect();
                    }
                    // The thread takes all there is, as long as there is this end.
                    let _ = to_print.send(message);
                }
                // Before anything else is done: whatever comes between makes it less exact.
                ToLauncher::Clock { sent_ns, there_ns } => {
                    let here_ns = farside_job::now_ns();
                    self.tell(What::Time(RoundTrip { sent_ns, there_ns, here_ns }));
                }
                // Here, too: its rank does nothing until it is answered.
                ToLauncher::Asked { connection, request } => {
                    if let Some(service) = &self.service {
                        let answer = service.answer(&request);
                        self.outbox.push(&ToNode::Answer { connection, answer });
                    }
                }
                message => {
                    self.tell(What::Message(message));
                }
            }
        }
        Ok(is_done)
    }

    fn pass_on(self, stderr: ChildStderr) {
        let mut from = BufReader::new(stderr);
        loop {
            let mut line = Vec::new();
            match (&mut from).take(LINE_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => self.say(&line),
            }
        }
        self.tell(What::Quiet);
    }

    fn say(&self, line: &[u8]) {
        let end: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n" };
        let label = format!("{}: ", self.label);
        self.printer.console.pass_on(&[label.as_bytes(), line, end].concat());
    }
}
