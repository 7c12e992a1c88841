//! The ranks' output, line by line.

use std::io::Write;
use std::os::fd::OwnedFd;

use farside::Rank;

/// One stream of one rank.
pub(crate) struct Stream {
    pub(crate) pipe: OwnedFd,
    pub(crate) rank: Rank,
    pub(crate) is_error: bool,
    line: Vec<u8>,
}

/// A line longer than this is passed on in pieces, so that a rank cannot fill the launcher's memory.
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

    fn pass_on(&mut self, sink: &mut Sink) -> std::io::Result<()> {
        let line = std::mem::take(&mut self.line);
        sink.line(self.rank, self.is_error, &line)
    }
}

/// Where lines go.
pub(crate) struct Sink {
    /// Standard output, if it is kept.
    pub(crate) captured: Option<Vec<u8>>,
    pub(crate) labels: bool,
}

impl Sink {
    fn line(&mut self, rank: Rank, is_error: bool, line: &[u8]) -> std::io::Result<()> {
        let label = if self.labels { format!("[{}] ", rank.0) } else { String::new() };
        match (&mut self.captured, is_error) {
            (Some(captured), false) => {
                captured.extend_from_slice(line);
                Ok(())
            }
            (None, false) => write_line(&mut std::io::stdout().lock(), &label, line),
            (_, true) => write_line(&mut std::io::stderr().lock(), &label, line),
        }
    }

    /// With labels, or when lines of many ranks are kept, a line that lacks its end would swallow the next one.
    fn mends_lines(&self) -> bool {
        self.labels || self.captured.is_some()
    }
}

fn write_line(to: &mut dyn Write, label: &str, line: &[u8]) -> std::io::Result<()> {
    to.write_all(label.as_bytes())?;
    to.write_all(line)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_whole_however_they_come() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        let mut stream = Stream::new(pipe, Rank(3), false);
        let mut sink = Sink { captured: Some(Vec::new()), labels: false };
        for part in ["he", "llo\nwor", "ld\n", "end"] {
            stream.take(part.as_bytes(), &mut sink).unwrap();
        }
        assert_eq!(sink.captured.as_deref(), Some(&b"hello\nworld\n"[..]));
        stream.finish(&mut sink).unwrap();
        assert_eq!(sink.captured.as_deref(), Some(&b"hello\nworld\nend\n"[..]));
    }

    #[test]
    fn an_endless_line_does_not_stay_in_memory() {
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        let mut stream = Stream::new(pipe, Rank(3), false);
        let mut sink = Sink { captured: Some(Vec::new()), labels: false };
        stream.take(&vec![b'x'; LINE_MAX + 1], &mut sink).unwrap();
        assert!(stream.line.is_empty());
    }
}
