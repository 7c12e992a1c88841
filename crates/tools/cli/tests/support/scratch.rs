//! Directories for the files of a test.

use std::path::{Path, PathBuf};

use super::unique;

/// A directory of a test's own that goes when the test does.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// One that other users can reach: the clone may be in a directory that only its owner enters.
    pub(crate) fn for_other_users() -> Scratch {
        Scratch::below(Path::new("/tmp"))
    }

    fn below(directory: &Path) -> Scratch {
        let path = directory.join(format!("farside-scratch-{}", unique()));
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Scratch { path }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("the path is text").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies where cargo keeps its own files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
