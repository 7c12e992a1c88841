//! What is left of a command that has ended, and what tests want of it.

use std::process::ExitStatus;

pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// The processes that were there at the moment of its end.
    pub(super) left: Vec<String>,
}

impl Finished {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("standard output is text")
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.stderr.clone()).expect("standard error is text")
    }

    /// The lines of standard output.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.stdout().lines().map(str::to_owned).collect()
    }

    /// Asserts that it ended with this status, and that nothing is left of it.
    pub(crate) fn ends_with(self, status: i32) -> Finished {
        let (stdout, stderr) = (excerpt(&self.stdout), excerpt(&self.stderr));
        assert_eq!(
            self.status.code(),
            Some(status),
            "{}\nstdout: {stdout}\nstderr: {stderr}",
            self.status
        );
        self.leaves_nothing()
    }

    /// Asserts that no process of it is left.
    pub(crate) fn leaves_nothing(self) -> Finished {
        assert_eq!(self.left, [] as [&str; 0], "processes are left");
        self
    }

    /// Asserts that it failed, that standard error says all of this, and that nothing is left.
    pub(crate) fn fails_with(self, words: &[&str]) -> Finished {
        assert!(!self.status.success(), "it did not fail; stdout: {}", excerpt(&self.stdout));
        assert_ne!(self.status.code(), Some(101), "it panicked: {}", excerpt(&self.stderr));
        self.says(words).leaves_nothing()
    }

    /// Asserts that standard error says all of this.
    pub(crate) fn says(self, words: &[&str]) -> Finished {
        let stderr = self.stderr();
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in {stderr:?}");
        }
        self
    }
}

pub(super) fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned()
}
