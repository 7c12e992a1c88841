//! Commands that are programs of their own, beside `farside`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail};

use crate::manual::defined;
use crate::words::{DESCRIBE, PAGES};

/// A command of `farside` that another program carries out.
pub struct Beside {
    command: &'static str,
}

impl Beside {
    /// The program of this command: `farside-check` for `check`.
    pub const fn of(command: &'static str) -> Beside {
        Beside { command }
    }

    /// Becomes that program, with these arguments; returns only why it cannot.
    pub fn run(&self, arguments: &[OsString]) -> anyhow::Error {
        match self.path() {
            Ok(path) => {
                let error = Command::new(&path).args(arguments).exec();
                anyhow::Error::from(error).context(format!("cannot start {}", path.display()))
            }
            Err(error) => error,
        }
    }

    /// Returns the definition of its command line, as far as completions need it.
    pub fn definition(&self) -> Result<clap::Command> {
        let described = self.ask(&[DESCRIBE.into()])?;
        defined(described.as_bytes(), self.command)
            .with_context(|| format!("{} is unclear", self.name()))
    }

    /// Lets it write its manual pages into a directory.
    pub fn write_pages(&self, directory: &Path) -> Result<()> {
        self.ask(&[PAGES.into(), directory.into()]).map(drop)
    }

    /// Returns what it prints when it is started with these words.
    pub fn ask(&self, words: &[OsString]) -> Result<String> {
        let output = self.output(words)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("cannot ask {}: {}", self.path()?.display(), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it with these words, and returns how it ended and what it printed.
    pub fn output(&self, words: &[OsString]) -> Result<Output> {
        let path = self.path()?;
        let output = Command::new(&path).args(words).output();
        output.with_context(|| format!("cannot start {}", path.display()))
    }

    fn name(&self) -> String {
        format!("farside-{}", self.command)
    }

    /// Returns where the program is, or says how it gets there.
    pub fn path(&self) -> Result<PathBuf> {
        let own = std::env::current_exe().context("cannot find the running program")?;
        let path = own.with_file_name(self.name());
        if !path.is_file() {
            bail!(
                "{} is a program of its own, and {} does not exist: {}",
                self.name(),
                path.display(),
                remedy(&own, self.command)
            );
        }
        Ok(path)
    }
}

/// How a program gets beside one that was built or installed here.
fn remedy(own: &Path, command: &str) -> String {
    let parents = own.ancestors().skip(1).filter_map(Path::file_name);
    let parents: Vec<_> = parents.take(2).filter_map(|name| name.to_str()).collect();
    match parents[..] {
        ["debug", ..] => format!("build it with `cargo build -p farside-{command}`"),
        ["release", ..] => format!("build it with `cargo build --release -p farside-{command}`"),
        ["bin", ".cargo"] => {
            let folder = if command == "check" { "verification" } else { "laboratory" };
            let path = format!("crates/{folder}/{command}");
            format!("in a clone of farside, `cargo install --path {path}` installs it")
        }
        _ => "`cargo xtask install --prefix DIR` installs all programs of farside".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_says_how_it_is_made() {
        let remedy = |own: &str| super::remedy(Path::new(own), "check");
        assert!(remedy("/w/target/release/farside").contains("--release -p farside-check"));
        assert!(remedy("/w/target/debug/farside").contains("build -p farside-check"));
        assert!(remedy("/root/.cargo/bin/farside").contains("--path crates/verification/check"));
        assert!(remedy("/usr/bin/farside").contains("xtask install"));
        let error = Beside::of("nothing").path().unwrap_err().to_string();
        assert!(error.contains("farside-nothing does not exist"), "{error}");
    }
}
