//! `farside preload`: runs a command with the library that intercepts MPI's one-sided calls.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};

pub(crate) const ABOUT: &str = "\
Run a command with the library that intercepts MPI's one-sided calls

The library is loaded before MPI's into every program that the command starts, and does nothing in
those that do not use MPI. Which MPI a program uses is determined from the libraries that it is
linked with, or else from the launcher. docs/mpi.md, which is installed under share/doc/farside,
says what is intercepted.";

const EXAMPLES: &str = "\
Examples:
  farside preload mpirun -np 4 ./a.out
  farside preload mpiexec.hydra -n 2 nwchem.mpich water.nw
  farside preload --mpi openmpi mpirun -np 4 python3 program.py";

/// The arguments of `farside preload`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The MPI that the program uses, if the wrong one is taken
    #[arg(long, value_name = "MPI")]
    mpi: Option<Mpi>,
    /// The command, with its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// An MPI, by its binary interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mpi {
    /// Open MPI 4
    Openmpi,
    /// MPICH, and those that share its binary interface: Intel MPI, MVAPICH
    Mpich,
}

impl Mpi {
    const ALL: [Mpi; 2] = [Mpi::Openmpi, Mpi::Mpich];

    fn library(self) -> &'static str {
        match self {
            Mpi::Openmpi => "libfarside-mpi-openmpi.so",
            Mpi::Mpich => "libfarside-mpi-mpich.so",
        }
    }

    /// The libraries that a program of this MPI is linked with.
    fn is_named_by(self, libraries: &str) -> bool {
        let names: &[&str] = match self {
            Mpi::Openmpi => &["libmpi.so.40", "libmpi_mpifh.so.40"],
            Mpi::Mpich => &["libmpich.so.12", "libmpi.so.12", "libmpichfort.so.12"],
        };
        names.iter().any(|name| libraries.contains(name))
    }

    /// The words by which a launcher of this MPI says what it is.
    fn is_told_by(self, version: &str) -> bool {
        let words: &[&str] = match self {
            Mpi::Openmpi => &["Open MPI", "OpenRTE", "PRRTE"],
            Mpi::Mpich => &["HYDRA", "Intel(R) MPI", "mpich"],
        };
        words.iter().any(|word| version.contains(word))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mpi = match arguments.mpi {
        Some(mpi) => mpi,
        None => find_mpi(&arguments.command)?,
    };
    let library = find_library(mpi)?;
    let (program, words) = arguments.command.split_first().context("no command")?;
    let preloaded = behind_others(std::env::var_os("LD_PRELOAD"), library);
    let error = Command::new(program).args(words).env("LD_PRELOAD", preloaded).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// Returns what is preloaded: the library comes last. A tool that takes over MPI's calls, too, sees
/// all of them first, and the library gets what the tool hands on to `PMPI_` names.
fn behind_others(others: Option<OsString>, library: PathBuf) -> OsString {
    let Some(mut preloaded) = others.filter(|others| !others.is_empty()) else {
        return library.into_os_string();
    };
    preloaded.push(":");
    preloaded.push(library);
    preloaded
}

/// Finds out which MPI a command uses: from the first of its words that is a program linked with
/// one, else from what its launcher says of itself.
fn find_mpi(command: &[OsString]) -> Result<Mpi> {
    if in_path(&command[0]).is_none() {
        let is_path = command[0].as_encoded_bytes().contains(&b'/');
        let program = command[0].display();
        match is_path {
            true => bail!("cannot start `{program}`: no such file"),
            false => bail!(
                "cannot start `{program}`: there is no such program on PATH (one of this directory \
                 is called ./NAME)"
            ),
        }
    }
    let of =
        |text: &str, says: fn(Mpi, &str) -> bool| Mpi::ALL.into_iter().find(|&mpi| says(mpi, text));
    // The launcher is looked at last: that of Open MPI is linked with parts of it.
    let programs = command.iter().skip(1).chain(&command[..1]).filter_map(|word| in_path(word));
    for program in programs {
        if let Some(mpi) = of(&libraries_of(&program), Mpi::is_named_by) {
            return Ok(mpi);
        }
    }
    let launcher = Command::new(&command[0]).arg("--version").stdin(Stdio::null()).output();
    let version = launcher.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    match version.ok().and_then(|version| of(&version, Mpi::is_told_by)) {
        Some(mpi) => Ok(mpi),
        None => bail!(
            "cannot find out which MPI `{}` uses: give it with --mpi openmpi or --mpi mpich",
            command.join(OsStr::new(" ")).display()
        ),
    }
}

/// Returns the program that a word means, if it is one.
fn in_path(word: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &Path| path.is_file();
    let direct = PathBuf::from(word);
    if direct.components().count() > 1 {
        return Some(direct).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(word)).find(|path| is_program(path))
}

/// Returns what the loader says of the libraries of a program, without running it.
fn libraries_of(program: &Path) -> String {
    let said = Command::new("ldd").arg(program).stdin(Stdio::null()).stderr(Stdio::null()).output();
    said.map_or(String::new(), |said| String::from_utf8_lossy(&said.stdout).into_owned())
}

/// Returns the library for an MPI: beside the command, as it was installed.
fn find_library(mpi: Mpi) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find out where this command is")?;
    let prefix = own.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let name = mpi.library();
    let mut places = vec![prefix.join("lib")];
    places.extend(std::fs::read_dir(prefix.join("lib")).into_iter().flatten().filter_map(
        |entry| {
            let path = entry.ok()?.path();
            path.is_dir().then_some(path)
        },
    ));
    // In a source tree, where `cargo xtask mpi` leaves it.
    places.push(prefix.join("mpi/lib"));
    places.iter().map(|place| place.join(name)).find(|path| path.is_file()).with_context(|| {
        format!(
            "{name} is not under {}: `cargo xtask mpi` builds it where the headers of the MPI are",
            prefix.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_versions_tell_which_mpi_it_is() {
        let ldd = "\tlibmpi.so.40 => /usr/lib/libmpi.so.40 (0x00007f0000000000)\n";
        assert!(Mpi::Openmpi.is_named_by(ldd) && !Mpi::Mpich.is_named_by(ldd));
        let ldd = "\tlibmpich.so.12 => /usr/lib/libmpich.so.12 (0x00007f0000000000)\n";
        assert!(Mpi::Mpich.is_named_by(ldd) && !Mpi::Openmpi.is_named_by(ldd));
        assert!(Mpi::Openmpi.is_told_by("mpirun (Open MPI) 4.1.4"));
        assert!(Mpi::Mpich.is_told_by("HYDRA build details:\n    Version: 4.0.2"));
    }

    #[test]
    fn tools_that_are_preloaded_come_first() {
        let library = || PathBuf::from("/lib/ours.so");
        assert_eq!(behind_others(None, library()), "/lib/ours.so");
        assert_eq!(behind_others(Some("".into()), library()), "/lib/ours.so");
        let both = behind_others(Some("libtool.so".into()), library());
        assert_eq!(both, "libtool.so:/lib/ours.so");
    }

    #[test]
    fn what_uses_no_mpi_is_named_with_the_way_out() {
        let error = find_mpi(&["true".into(), "no such thing".into()]).unwrap_err().to_string();
        assert!(error.contains("true no such thing") && error.contains("--mpi"), "{error}");
    }
}
