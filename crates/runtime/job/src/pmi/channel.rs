//! The inherited socket to the launcher, read until the deadline: a launcher that does not answer
//! is an error and no hang.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::pmi::{Error, Result, StartDeadline};

/// A longer message is none.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

pub(crate) struct Channel {
    socket: File,
    buffered: Vec<u8>,
    deadline: Rc<StartDeadline>,
    /// The name of the socket in errors.
    name: String,
}

impl Channel {
    /// The socket with this number, which the launcher has left open for this process.
    pub(crate) fn inherited(number: RawFd, deadline: &Rc<StartDeadline>) -> Result<Channel> {
        let name = format!("the launcher's socket (PMI_FD={number})");
        let closed = |error: std::io::Error| {
            Error(format!(
                "{name} is not open here: {error}; does a wrapper close inherited files, or was \
                 this program started by one that had spoken to the \
                 launcher already? To run it alone, unset PMI_FD or set {}=none",
                crate::pmi::PROTOCOL
            ))
        };
        if number < 0 {
            return Err(closed(std::io::Error::from_raw_os_error(libc::EBADF)));
        }
        // SAFETY: the number is borrowed just long enough to be duplicated; if it is not open, that
        // fails.
        let inherited = unsafe { BorrowedFd::borrow_raw(number) };
        let socket = inherited.try_clone_to_owned().map_err(closed)?;
        // Programs that this one starts are no ranks.
        rustix::io::fcntl_setfd(inherited, rustix::io::FdFlags::CLOEXEC)
            .map_err(|errno| closed(errno.into()))?;
        Ok(Channel {
            socket: File::from(socket),
            buffered: Vec::new(),
            deadline: Rc::clone(deadline),
            name,
        })
    }

    pub(crate) fn write(&mut self, message: &str) -> Result<()> {
        self.socket.write_all(message.as_bytes()).map_err(|error| {
            Error(format!("{} accepts no messages: {error}; is the launcher gone?", self.name))
        })
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> Result<String> {
        loop {
            if let Some(end) = self.buffered.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffered.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.read_some()?;
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<String> {
        if count > MESSAGE_BYTES_MAX {
            return Err(Error(format!("{} announces a message of {count} bytes", self.name)));
        }
        while self.buffered.len() < count {
            self.read_some()?;
        }
        let bytes: Vec<u8> = self.buffered.drain(..count).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read_some(&mut self) -> Result<()> {
        let pause = self.deadline.pause(&format!("an answer of {}", self.name))?;
        let timeout =
            Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        match rustix::event::poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(errno) => return Err(Error(format!("{}: poll: {errno}", self.name))),
        }
        let mut buffer = [0; 4096];
        match self.socket.read(&mut buffer) {
            Ok(0) => Err(Error(format!(
                "{} was closed: the launcher is gone, or has ended the job",
                self.name
            ))),
            Ok(read) if self.buffered.len() + read > MESSAGE_BYTES_MAX => {
                Err(Error(format!("{} sent an overlong message", self.name)))
            }
            Ok(read) => {
                self.buffered.extend_from_slice(&buffer[..read]);
                Ok(())
            }
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(Error(format!("{} cannot be read: {error}", self.name))),
        }
    }
}

/// The fields `name=value` of a line.
pub(crate) fn fields(line: &str) -> Vec<(String, String)> {
    let split =
        |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    line.split_whitespace().filter_map(split).collect()
}

/// The first of the fields `name=value` with this name.
pub(crate) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Returns a question as it may be printed: a value may be a secret.
pub(crate) fn without_value(question: &str) -> String {
    match question.split_once("value=") {
        Some((before, _)) => format!("{before}value=…"),
        None => question.to_owned(),
    }
}

/// The versions that the launcher offers, once it was asked for one: both protocols begin alike.
pub(crate) fn negotiate(channel: &mut Channel, version: u32, subversion: u32) -> Result<()> {
    channel.write(&format!("cmd=init pmi_version={version} pmi_subversion={subversion}\n"))?;
    let answer = channel.line()?;
    let fields = fields(&answer);
    if field(&fields, "cmd") != Some("response_to_init") {
        return Err(Error(format!(
            "the launcher answers {answer:?} to a greeting in PMI-{version}"
        )));
    }
    let agreed = field(&fields, "rc").unwrap_or("0") == "0"
        && field(&fields, "pmi_version").is_none_or(|theirs| theirs == version.to_string());
    if !agreed {
        return Err(Error(format!(
            "the launcher does not speak PMI-{version} (it says {answer:?}); choose another \
             protocol with {}=pmi1 or pmi2",
            crate::pmi::PROTOCOL
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_into_fields() {
        let fields = fields("cmd=get_result rc=0 msg=success value=a.b-1=2\n");
        assert_eq!(field(&fields, "cmd"), Some("get_result"));
        assert_eq!(field(&fields, "value"), Some("a.b-1=2"));
        assert_eq!(field(&fields, "nothing"), None);
    }
}
