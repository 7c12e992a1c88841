//! What a program's entry tells its launcher: that it obeys, how far it is, a summary, and a
//! recording.
//!
//! The report is a file in memory that the launcher holds open and that the program reaches through
//! `/proc`. It has no name in any directory, so nothing is left of it when the launcher is killed.
//! Each write appends whole lines; those of several ranks may alternate.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use farside_fabric::{Error, Result};
use rustix::fs::MemfdFlags;

use crate::Recording;
use crate::entry::Entry;

/// The line by which a program's entry says that it obeys.
const TAKEN: &str = "taken";

/// The launcher's end of a report.
pub struct ReportFile {
    file: File,
}

/// What a program's entry has reported.
#[derive(Debug, Default)]
pub struct Report {
    /// Whether the program has an entry that obeyed.
    pub taken: bool,
    /// How far it was when it last said so.
    pub progress: Option<String>,
    /// What it says about the run, line by line.
    pub summary: Vec<String>,
    /// The operations of all ranks, if they were recorded.
    pub recording: Option<Recording>,
}

impl ReportFile {
    /// Makes an empty report.
    pub fn create() -> Result<ReportFile> {
        let file = rustix::fs::memfd_create("farside-report", MemfdFlags::CLOEXEC)
            .map_err(|errno| Error::System { call: "memfd_create", errno: errno.raw_os_error() })?;
        Ok(ReportFile { file: file.into() })
    }

    /// Returns the path by which processes of this machine and user reach it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Reads what was reported so far.
    pub fn read(&mut self) -> Result<Report> {
        let mut text = String::new();
        self.file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.read_to_string(&mut text))
            .map_err(system("reading the program's report"))?;
        let mut report = Report::default();
        let (mut topology, mut slices) = (None, Vec::new());
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("topology", rest)) => topology = Some(Recording::topology(rest)?),
                Some(("slice", rest)) => slices.push(Recording::slice(rest)?),
                Some(("progress", rest)) => report.progress = Some(rest.to_owned()),
                Some(("summary", rest)) => report.summary.push(rest.to_owned()),
                _ if line == TAKEN => report.taken = true,
                _ => return Err(Error::Join(format!("the program reports nonsense: {line:?}"))),
            }
        }
        report.recording = topology.map(|topology| Recording::new(topology, slices));
        Ok(report)
    }
}

impl Entry {
    /// Tells the launcher that the program obeys. Of processes that run all ranks themselves, only
    /// the first does: those that it starts inherit its environment, and are not meant.
    pub fn take(&self) -> Result<()> {
        let mut file = self.open()?;
        let bytes = file.metadata().map_err(system("reading the launcher's report"))?.len();
        if bytes > 0 {
            return Err(Error::Join(format!(
                "{} is set, but another process runs the ranks that it asks for; if a rank starts \
                 this program, unset the variable for it",
                crate::ENTRY
            )));
        }
        append(&mut file, &format!("{TAKEN}\n"))
    }

    /// Tells the launcher how far it is, in one line: in case that it is ended before it has a
    /// summary.
    pub fn progress(&self, text: &str) -> Result<()> {
        append(&mut self.open()?, &format!("progress {text}\n"))
    }

    /// Tells the launcher something about the run, for people.
    pub fn summarize(&self, text: &str) -> Result<()> {
        let lines: String = text.lines().map(|line| format!("summary {line}\n")).collect();
        append(&mut self.open()?, &lines)
    }

    /// Gives the launcher a recording.
    pub fn record(&self, recording: &Recording) -> Result<()> {
        append(&mut self.open()?, &recording.encode())
    }

    fn open(&self) -> Result<File> {
        OpenOptions::new().append(true).open(&self.report).map_err(|error| {
            Error::Join(format!(
                "cannot open {}, the file in which this program reports to `farside run` \
                 ({error}): has the launcher exited, or does the program run as another user or in \
                 another container?",
                self.report.display()
            ))
        })
    }
}

/// Appends whole lines, as many as fit, with each write.
fn append(file: &mut File, lines: &str) -> Result<()> {
    file.write_all(lines.as_bytes()).map_err(system("writing the launcher's report"))
}

fn system(call: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::System { call, errno: error.raw_os_error().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use farside_fabric::Topology;

    use super::*;
    use crate::{Options, RunAs};

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut file = ReportFile::create().unwrap();
        assert!(!file.read().unwrap().taken);
        let entry = Entry {
            run_as: RunAs::Threads(Options::new(2).unwrap()),
            records: true,
            report: file.path(),
        };
        entry.take().unwrap();
        entry.progress("begins").unwrap();
        entry.progress("goes on").unwrap();
        entry.summarize("one\ntwo").unwrap();
        let recording = Recording::new(Topology::flat(3), Vec::new());
        entry.record(&recording).unwrap();
        entry.record(&recording).unwrap();
        let report = file.read().unwrap();
        assert!(report.taken);
        assert_eq!(report.progress.as_deref(), Some("goes on"));
        assert_eq!(report.summary, ["one", "two"]);
        assert_eq!(report.recording.unwrap().topology.ranks(), 3);
    }

    #[test]
    fn all_ranks_are_run_by_one_process_only() {
        let mut file = ReportFile::create().unwrap();
        let options = Options::new(2).unwrap();
        let run_as = RunAs::Threads(options);
        let entry = Entry { run_as, records: false, report: file.path() };
        entry.take().unwrap();
        assert!(entry.take().unwrap_err().to_string().contains("another process"));
        assert!(file.read().unwrap().taken);
        drop(file);
        assert!(entry.take().unwrap_err().to_string().contains("has the launcher exited"));
    }
}
