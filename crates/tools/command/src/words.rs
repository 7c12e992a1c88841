//! The words with which the programs of the command start themselves and each other.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Error, Result};

use crate::manual;

/// Describes the command line of a program, for completions.
pub const DESCRIBE: &str = "__describe";
/// Writes the manual pages of a program into a directory.
pub const PAGES: &str = "__pages";

/// Answers a word that stands for no command of the user's: a launcher's reaper, the daemon of a
/// host, a program's description and its manual pages. `None` for all others.
pub fn answer(
    words: &[OsString],
    definition: impl FnOnce() -> clap::Command,
) -> Option<Result<ExitCode>> {
    let word = words.get(1).and_then(|word| word.to_str())?;
    match word {
        "__keep" => Some(farside_launch::reap().map(|()| ExitCode::SUCCESS).map_err(Error::msg)),
        "__node" => Some(farside_launch::node().map(ExitCode::from).map_err(Error::msg)),
        DESCRIBE => Some(describe(&definition())),
        PAGES => {
            let directory = Path::new(words.get(2).map_or(OsStr::new("."), OsString::as_os_str));
            Some(manual::write_pages(definition(), directory).map(|()| ExitCode::SUCCESS))
        }
        _ => None,
    }
}

fn describe(definition: &clap::Command) -> Result<ExitCode> {
    let described = serde_json::to_string(&manual::Described::of(definition))?;
    writeln!(std::io::stdout(), "{described}")?;
    Ok(ExitCode::SUCCESS)
}
