//! The Debian package: the tree that `cargo xtask install` makes, with what Debian wants to know of
//! it; and a test that installs it in a root of its own and uses it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::install::{self, Destination};
use crate::outside::target;
use crate::process::{Runner, Task, output, works};
use crate::setup::on_path;
use crate::steps::{Outcome, manifest_value};

/// What the package is made with; Debian's dpkg-dev, binutils and gzip bring it.
const TOOLS: [&str; 6] =
    ["dpkg-deb", "dpkg-shlibdeps", "dpkg-architecture", "strip", "gzip", "md5sum"];

/// What the test compiles with, in a root of its own.
const COMPILERS: &str = "cmake,gcc,libc6-dev,make,pkg-config";

const DESCRIPTION: &str = "\
one-sided remote memory for parallel programs
 Ranks of a parallel program put, get and atomically update each other's
 memory, on one machine or on several, and synchronize by signals, locks and
 collectives. The package has the command farside, which starts programs, the
 library libfarside with its C interface, and libfarside-shmem, an OpenSHMEM
 1.5 library with compiler wrappers.";

/// Builds everything and makes the package; returns where it is.
pub(crate) fn make(root: &Path, debug: bool, runner: &Runner) -> Result<PathBuf> {
    let absent: Vec<&str> = TOOLS.into_iter().filter(|tool| !on_path(tool)).collect();
    ensure!(
        absent.is_empty(),
        "no {}: sudo apt-get install dpkg-dev binutils gzip",
        absent.join(", no ")
    );
    let line = |command: &mut Command| -> Result<String> {
        Ok(String::from_utf8_lossy(&output(command)?).trim().to_owned())
    };
    let package = Package {
        version: manifest_value(root, "version").context("the workspace has no version")?,
        architecture: line(Command::new("dpkg").arg("--print-architecture"))?,
        libdir: format!(
            "lib/{}",
            line(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?
        ),
        repository: manifest_value(root, "repository").unwrap_or_default(),
        place: place(root, debug),
    };
    let tree = package.tree();
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("cannot empty {}", tree.display()))?;
    }
    fs::create_dir_all(&tree)?;
    let destination = Destination {
        staging: Some(&tree),
        prefix: Path::new("/usr"),
        libdir: &package.libdir,
        keeps_symbols: false,
    };
    install::run(root, &destination, debug, runner)?;
    // The installation strips what is not for the test alone.
    if debug {
        install::strip(&package.usr(""), &package.libdir, &package.version, false)?;
    }
    package.arrange()?;
    package.document(root)?;
    package.describe()?;
    let file =
        package.place.join(format!("farside_{}_{}.deb", package.version, package.architecture));
    output(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&tree).arg(&file))?;
    println!("made {}", file.display());
    Ok(file)
}

/// The directory of packages; those that are built for the test alone are apart.
fn place(root: &Path, debug: bool) -> PathBuf {
    let place = target(root).join("debian");
    if debug { place.join("debug") } else { place }
}

struct Package {
    version: String,
    architecture: String,
    /// Where the libraries are, below the prefix.
    libdir: String,
    repository: String,
    place: PathBuf,
}

impl Package {
    /// The directory that stands for `/`.
    fn tree(&self) -> PathBuf {
        self.place.join("tree")
    }

    fn usr(&self, path: &str) -> PathBuf {
        self.tree().join("usr").join(path)
    }

    /// The files in which there is code that is loaded.
    fn binaries(&self) -> Vec<PathBuf> {
        let library =
            |name: &str| self.usr(&self.libdir).join(format!("{name}.so.{}", self.version));
        let programs = install::PROGRAMS.iter().map(|name| self.usr("bin").join(name));
        programs.chain(["libfarside", "libfarside-shmem"].map(library)).collect()
    }

    /// Moves and compresses what Debian has elsewhere, or otherwise.
    fn arrange(&self) -> Result<()> {
        // The other directory is for what administrators install.
        let zsh = self.usr("share/zsh");
        fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))
            .context("cannot move the completions of zsh")?;
        let mut pages = Vec::new();
        for entry in fs::read_dir(self.usr("share/man/man1"))? {
            pages.push(entry?.path());
        }
        ensure!(!pages.is_empty(), "there are no manual pages");
        output(Command::new("gzip").arg("-9n").args(pages))?;
        Ok(())
    }

    /// Writes who has the rights, and what has changed.
    fn document(&self, root: &Path) -> Result<()> {
        let doc = self.usr("share/doc/farside");
        fs::create_dir_all(&doc)?;
        let crates = Command::new("cargo")
            .current_dir(root)
            .args(["tree", "--locked", "--prefix", "none", "--edges", "normal"])
            .args(["-p", "farside-cli", "-p", "farside-apps", "-p", "farside-check"])
            .args(["-p", "farside-figures"])
            .args(["-p", "farside-capi", "-p", "farside-shmem"])
            .args(["--format", "{p}: {l}"])
            .output()
            .context("cannot start cargo")?;
        let mit = fs::read_to_string(root.join("LICENSE-MIT"))?;
        let text = copyright(&mit, &self.repository, &String::from_utf8_lossy(&crates.stdout));
        fs::write(doc.join("copyright"), text)?;
        fs::copy(root.join("CHANGELOG.md"), doc.join("changelog"))?;
        output(Command::new("gzip").arg("-9n").arg(doc.join("changelog")))?;
        Ok(())
    }

    /// Writes what dpkg reads.
    fn describe(&self) -> Result<()> {
        let depends = self.depends()?;
        let tree = self.tree();
        let debian = tree.join("DEBIAN");
        fs::create_dir_all(&debian)?;
        let size = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(&tree))?;
        let size = String::from_utf8_lossy(&size);
        let size = size.split_whitespace().next().unwrap_or("0").to_owned();
        let Package { version, architecture, repository, .. } = self;
        // Recommended and suggested is what is opened or started at run time: libfabric for the ofi
        // fabric, PMIx under other launchers, ssh for `--hosts`, a compiler for the wrappers.
        let control = format!(
            "Package: farside\nVersion: {version}\nArchitecture: {architecture}\n\
             Maintainer: The farside developers <farside@localhost>\nInstalled-Size: {size}\n\
             Section: net\nPriority: optional\nHomepage: {repository}\nDepends: {depends}\n\
             Recommends: libfabric1\n\
             Suggests: gcc | c-compiler, pkg-config, libpmix2, openssh-client\n\
             Description: {DESCRIPTION}\n"
        );
        fs::write(debian.join("control"), control)?;
        let shlibs = format!(
            "libfarside 0 farside (>= {version})\nlibfarside-shmem 0 farside (>= {version})\n"
        );
        fs::write(debian.join("shlibs"), shlibs)?;
        fs::write(debian.join("triggers"), "activate-noawait ldconfig\n")?;
        let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums";
        output(Command::new("sh").current_dir(&tree).args(["-c", sums]))?;
        Ok(())
    }

    /// Returns the packages without which the binaries do not load.
    fn depends(&self) -> Result<String> {
        // The tool wants to stand in a source package.
        let source = self.place.join("source");
        fs::create_dir_all(source.join("debian"))?;
        let control = "Source: farside\n\nPackage: farside\nArchitecture: any\n";
        fs::write(source.join("debian/control"), control)?;
        let mut command = Command::new("dpkg-shlibdeps");
        let said = output(command.current_dir(&source).arg("-O").args(self.binaries()))?;
        let said = String::from_utf8_lossy(&said);
        let depends = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
        depends.map(str::to_owned).with_context(|| format!("dpkg-shlibdeps says {said:?}"))
    }
}

/// The text of the file `copyright`: ours, and a list of the crates that the binaries contain.
fn copyright(mit: &str, repository: &str, tree: &str) -> String {
    let holder = mit.lines().find_map(|line| line.strip_prefix("Copyright (c) ")).unwrap_or("");
    let indent = |text: &str| {
        let line = |line: &str| if line.is_empty() { " .\n".into() } else { format!(" {line}\n") };
        text.trim().lines().map(line).collect::<String>()
    };
    // A crate of the workspace is named with its directory.
    let mut crates: Vec<&str> = tree
        .lines()
        .filter(|line| !line.is_empty() && !line.contains("(/") && !line.contains("(*)"))
        .collect();
    crates.sort_unstable();
    crates.dedup();
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: farside\nSource: {repository}\nComment:\n The binaries contain these \
         crates, under the licenses that are named:\n .\n{}\nFiles: *\nCopyright: {holder}\n\
         License: MIT or Apache-2.0\n\nLicense: MIT\n{}\nLicense: Apache-2.0\n On Debian systems \
         the text is in /usr/share/common-licenses/Apache-2.0.\n",
        indent(&crates.join("\n")),
        indent(mit),
    )
}

/// Makes the package, installs it in a root of its own, and uses it there.
pub(crate) fn test(root: &Path, runner: &Runner) -> Result<Outcome> {
    if !works("unshare", &["--mount", "--pid", "--fork", "true"]) {
        let reason = "no namespaces of its own, which root has outside of containers";
        return Ok(Outcome::Skipped(reason.to_owned()));
    }
    if !on_path("dpkg-shlibdeps") {
        return Ok(Outcome::Skipped("no dpkg-dev: sudo apt-get install dpkg-dev".to_owned()));
    }
    let package = make(root, true, runner)?;
    let (lower, outcome) = match base(root, runner) {
        Ok(base) => (base, Outcome::Passed),
        Err(error) => {
            println!("{error:#}; the root is a copy of this machine's instead");
            (PathBuf::from("/"), Outcome::Warned("not in a clean root: no debootstrap".to_owned()))
        }
    };
    let line = format!(
        "--mount --pid --fork --kill-child sh {} {} {} {} {}",
        root.join("xtask/debian/test.sh").display(),
        package.display(),
        lower.display(),
        place(root, true).join("root").display(),
        root.display()
    );
    runner.run(&Task::new(root, "unshare", &line))?;
    Ok(outcome)
}

/// Returns a clean root of this machine's release with compilers; it is made once.
fn base(root: &Path, runner: &Runner) -> Result<PathBuf> {
    let base = target(root).join("debian/base");
    if base.exists() {
        return Ok(base);
    }
    if !on_path("debootstrap") && !Path::new("/usr/sbin/debootstrap").exists() {
        bail!("no debootstrap: sudo apt-get install debootstrap");
    }
    let release = fs::read_to_string("/etc/os-release")?;
    let suite = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release has no VERSION_CODENAME")?;
    let new = base.with_extension("new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir_all(&new)?;
    // In a namespace of its own, so that no mount is left should it be killed.
    let line = format!(
        "--mount debootstrap --variant=minbase --include={COMPILERS} {suite} {}",
        new.display()
    );
    runner.run(&Task::new(root, "unshare", &line))?;
    fs::rename(&new, &base)?;
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copyright_names_holder_and_crates_once() {
        let tree = "farside v0.1.0 (/home/crates/farside): MIT\n\n\
                    rustix v1.1.0: MIT OR Apache-2.0\n\
                    rustix v1.1.0: MIT OR Apache-2.0\nrustix v1.1.0: MIT OR Apache-2.0 (*)\n";
        let mit = "MIT License\n\nCopyright (c) 2026 Those\n\nPermission\n";
        let text = copyright(mit, "https://example.org", tree);
        assert!(text.contains("\nCopyright: 2026 Those\n"), "{text}");
        assert_eq!(text.matches("rustix v1.1.0").count(), 1, "{text}");
        assert!(!text.contains("farside v0.1.0"), "{text}");
        assert!(text.contains(" MIT License\n .\n"), "{text}");
        assert!(!text.contains("\n\n\n"), "{text}");
    }
}
