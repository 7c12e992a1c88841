//! Installing everything under a prefix, and writing the C header.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::fs::Mode;

use crate::outside::target;
use crate::process::{Runner, Task, output};
use crate::setup::on_path;
use crate::steps::manifest_value;

/// Writes the header of the C interface from its sources.
pub(crate) fn write_header(root: &Path, runner: &Runner) -> Result<()> {
    let line = "test --quiet -p farside-capi --test header the_header_is_what_the_sources_say";
    runner.run(&Task::new(root, "cargo", line).variable("FARSIDE_TEST_WRITE_HEADER", "1"))
}

pub(crate) const PROGRAMS: [&str; 5] =
    ["farside", "farside-apps", "farside-bench", "farside-check", "farside-figures"];

/// The profile that is built, and the name of its directory.
fn profile(debug: bool) -> (&'static str, &'static str) {
    if debug { ("dev", "debug") } else { ("installed", "installed") }
}

pub(crate) struct Destination<'a> {
    /// A directory that stands for `/` while files are written; `None` if that is `/` itself.
    pub(crate) staging: Option<&'a Path>,
    /// Where the files are when they are used.
    pub(crate) prefix: &'a Path,
    /// Where the libraries are, below the prefix.
    pub(crate) libdir: &'a str,
    /// Whether what only debuggers read is put beside what is installed: packages have none of it.
    pub(crate) keeps_symbols: bool,
}

/// Returns the directory that `DESTDIR` says stands for `/`.
pub(crate) fn staging(destdir: Option<OsString>) -> Result<Option<PathBuf>> {
    let named = destdir.filter(|destdir| !destdir.is_empty());
    named.map(|destdir| Ok(std::path::absolute(destdir)?)).transpose()
}

impl Destination<'_> {
    /// Makes the directory that stands for the prefix; returns where it is.
    fn make(&self) -> Result<PathBuf> {
        let path = match self.staging {
            None => self.prefix.to_owned(),
            Some(staging) => staging.join(self.prefix.strip_prefix("/").unwrap_or(self.prefix)),
        };
        fs::create_dir_all(path.join("bin"))
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path.canonicalize()?)
    }

    /// Runs a script that installs here, the last argument of which is the prefix.
    fn install(&self, script: &mut Command, made: &Path) -> Result<Vec<u8>> {
        script.env("LIBDIR", self.libdir);
        output(match self.staging {
            None => script.env_remove("DESTDIR").arg(made),
            Some(staging) => script.env("DESTDIR", staging).arg(self.prefix),
        })
    }
}

/// Builds and installs the command with its manual pages, completions and documents, the C
/// interface, and OpenSHMEM.
pub(crate) fn run(
    root: &Path,
    destination: &Destination<'_>,
    debug: bool,
    runner: &Runner,
) -> Result<()> {
    // What is installed is for everybody, whoever installs it.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let (profile, built) = profile(debug);
    // One after the other: together, the libraries would have the features of the command, and the
    // command those of what explores. And of the libraries only the kind that the others are made
    // of: beside an `rlib`, cargo does not optimize across crates, and an operation takes three
    // times as long.
    let library = |package: &str| {
        format!("rustc --locked --profile {profile} -p {package} --lib --crate-type staticlib")
    };
    for line in [
        format!(
            "build --locked --profile {profile} -p farside-cli -p farside-apps -p farside-bench \
             -p farside-figures"
        ),
        format!("build --locked --profile {profile} -p farside-check"),
        library("farside-capi"),
        library("farside-shmem"),
    ] {
        runner.run(&Task::new(root, "cargo", &line))?;
    }
    let built = target(root).join(built);
    let prefix = destination.make()?;
    copy_programs(&built, &prefix.join("bin"))?;
    let farside = prefix.join("bin/farside");
    output(Command::new(&farside).arg("man").arg(prefix.join("share/man/man1")))?;
    write_completions(&farside, &prefix)?;
    copy_documents(root, &prefix.join("share/doc/farside"))?;
    let version = manifest_value(root, "version").context("the workspace has no version")?;
    for (package, archive) in [("capi", "libfarside_c.a"), ("shmem", "libfarside_shmem.a")] {
        let script = root.join("crates/interfaces").join(package).join("install.sh");
        let mut command = Command::new("sh");
        command.arg(script).arg(built.join(archive)).arg(&version);
        destination.install(&mut command, &prefix)?;
    }
    if !debug {
        strip(&prefix, destination.libdir, &version, destination.keeps_symbols)?;
    }
    println!("installed farside {version} under {}", prefix.display());
    if destination.staging.is_none() {
        say_what_to_set(&prefix, destination.libdir);
    }
    // Where no MPI is, there are no programs of it either.
    if on_path("mpicc.openmpi") || on_path("mpicc.mpich") {
        mpi(root, destination, debug, runner)?;
    }
    Ok(())
}

fn copy_programs(built: &Path, to: &Path) -> Result<()> {
    for name in PROGRAMS {
        let program = to.join(name);
        // One that runs is not written to, but replaced.
        if program.exists() {
            fs::remove_file(&program)?;
        }
        fs::copy(built.join(name), &program)
            .with_context(|| format!("cannot write {}", program.display()))?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn write_completions(farside: &Path, prefix: &Path) -> Result<()> {
    for (shell, path) in [
        ("bash", "share/bash-completion/completions/farside"),
        ("zsh", "share/zsh/site-functions/_farside"),
        ("fish", "share/fish/vendor_completions.d/farside.fish"),
    ] {
        let path = prefix.join(path);
        fs::create_dir_all(path.parent().unwrap_or(prefix))?;
        fs::write(&path, output(Command::new(farside).args(["completions", shell]))?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Takes away what only debuggers read from what was installed under a prefix. Kept, it is in
/// directories called `.debug` beside the files, where debuggers look for it.
pub(crate) fn strip(prefix: &Path, libdir: &str, version: &str, keeps: bool) -> Result<()> {
    let libraries = prefix.join(libdir);
    let library = |name: &str| libraries.join(format!("{name}.so.{version}"));
    let archives = ["libfarside.a", "libfarside-shmem.a"].map(|name| libraries.join(name));
    // OpenSHMEM keeps its symbols: by their names, its messages tell the program's frames from its
    // own.
    let programs = PROGRAMS.map(|name| (prefix.join("bin").join(name), "--strip-unneeded"));
    let shared = [
        (library("libfarside"), "--strip-unneeded"),
        (library("libfarside-shmem"), "--strip-debug"),
    ];
    for (file, how) in programs.into_iter().chain(shared) {
        let name = file.file_name().context("a file has a name")?.to_string_lossy();
        let apart = file.with_file_name(".debug").join(format!("{name}.debug"));
        if keeps {
            fs::create_dir_all(apart.parent().unwrap_or(prefix))?;
            output(Command::new("objcopy").arg("--only-keep-debug").arg(&file).arg(&apart))?;
        }
        output(Command::new("strip").arg(how).arg(&file))?;
        if keeps {
            let link = format!("--add-gnu-debuglink={}", apart.display());
            output(Command::new("objcopy").arg(link).arg(&file))?;
        }
    }
    let how = ["--strip-debug", "--enable-deterministic-archives"];
    output(Command::new("strip").args(how).args(archives)).map(drop)
}

/// Copies the documents to a directory, in which each has the path that it has in the sources: by
/// that, help and messages name them.
fn copy_documents(root: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    copy_document(&root.join("README.md"), &to.join("README.md"))?;
    copy_directory(&root.join("docs"), &to.join("docs"))
}

/// Copies a document that everybody may read.
fn copy_document(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(fs::set_permissions(to, Permissions::from_mode(0o644))?)
}

fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy_directory(&path, &to)?,
            false => copy_document(&path, &to)?,
        }
    }
    Ok(())
}

/// Says which variables build tools need to find what is under a prefix of the user's own.
fn say_what_to_set(prefix: &Path, libdir: &str) {
    let bin = prefix.join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|entry| entry == bin) {
        println!("for the command, farside-cc and CMake: export PATH={}:$PATH", bin.display());
    }
    if prefix != Path::new("/usr") && prefix != Path::new("/usr/local") {
        let pkgconfig = prefix.join(libdir).join("pkgconfig");
        println!("for pkg-config: export PKG_CONFIG_PATH={}", pkgconfig.display());
    }
}

/// Builds and installs the libraries that take over the one-sided calls of MPI programs.
pub(crate) fn mpi(
    root: &Path,
    destination: &Destination<'_>,
    debug: bool,
    runner: &Runner,
) -> Result<()> {
    let (profile, built) = profile(debug);
    let line =
        format!("rustc --locked --profile {profile} -p farside-mpi --lib --crate-type staticlib");
    runner.run(&Task::new(root, "cargo", &line))?;
    let prefix = destination.make()?;
    let mut command = Command::new("sh");
    command.arg(root.join("crates/interfaces/mpi/install.sh"));
    command.arg(target(root).join(built).join("libfarside_mpi.a"));
    let said = destination.install(&mut command, &prefix)?;
    print!("{}", String::from_utf8_lossy(&said));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_below_the_directory_that_stands_for_the_root() {
        let scratch = tempfile::tempdir().unwrap();
        let staging = staging(Some(scratch.path().into())).unwrap();
        let prefix = Path::new("/usr");
        let staging = staging.as_deref();
        let destination = Destination { staging, prefix, libdir: "lib", keeps_symbols: true };
        let made = destination.make().unwrap();
        assert_eq!(made, scratch.path().canonicalize().unwrap().join("usr"));
        assert_eq!(super::staging(Some(OsString::new())).unwrap(), None);
        assert_eq!(super::staging(None).unwrap(), None);
    }

    #[test]
    fn documents_are_where_the_help_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let scratch = tempfile::tempdir().unwrap();
        let to = scratch.path();
        copy_documents(&root, to).unwrap();
        let is_there = ["README.md", "docs/races.md", "docs/mpi.md", "docs/recipes/README.md"]
            .map(|path| to.join(path).is_file());
        assert_eq!(is_there, [true; 4]);
    }
}
