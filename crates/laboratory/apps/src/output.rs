//! What programs print and write: errors that a caller can tell apart, where `println!` would
//! panic.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use farside::{Error, Result};

const PRINTING: &str = "printing to standard output";

/// The exit status of a program that prints where nobody reads any more: that of a broken pipe.
pub const CLOSED: u8 = 128 + 13;

/// Prints a line.
pub fn say(line: fmt::Arguments<'_>) -> Result<()> {
    writeln!(io::stdout(), "{line}").map_err(|error| unprinted(&error))
}

/// The error of something that could not be printed.
pub fn unprinted(error: &io::Error) -> Error {
    const EIO: i32 = 5;
    Error::System { call: PRINTING, errno: error.raw_os_error().unwrap_or(EIO) }
}

/// Whether an error says that the reader of the output is gone.
pub fn is_closed(error: &Error) -> bool {
    let is_broken =
        |errno: i32| io::Error::from_raw_os_error(errno).kind() == io::ErrorKind::BrokenPipe;
    matches!(error, Error::System { call: PRINTING, errno } if is_broken(*errno))
}

/// Refuses a file that cannot be written, ahead of the work whose result it is for. What it holds
/// stays, and one that does not exist is not left behind.
pub fn check_target(path: &Path) -> io::Result<()> {
    let before = path.metadata();
    // To open a pipe would be to take part in it.
    if before.as_ref().is_ok_and(|is| !is.is_file() && !is.is_dir()) {
        return Ok(());
    }
    OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    if before.is_err() { std::fs::remove_file(path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_tried_and_nothing_is_changed() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path();
        let file = directory.join("file");
        check_target(&file).unwrap();
        assert!(!file.exists(), "it is not left behind");
        std::fs::write(&file, "kept").unwrap();
        check_target(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
        assert!(check_target(&directory.join("nowhere/file")).is_err());
        assert!(check_target(directory).is_err(), "a directory is no file");
        check_target(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn only_a_closed_output_is_closed() {
        assert!(is_closed(&unprinted(&io::Error::from_raw_os_error(32))));
        assert!(!is_closed(&unprinted(&io::Error::from_raw_os_error(28))));
        assert!(!is_closed(&Error::System { call: "writing elsewhere", errno: 32 }));
    }
}
