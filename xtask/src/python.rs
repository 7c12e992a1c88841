//! The Python package: a wheel with the module and the command, installed in an environment of its
//! own under `target/`, and its tests run by pytest there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::outside::target;
use crate::process::{Runner, Task, output, works};
use crate::steps::{HOST, Outcome};

/// The packages that the build and the tests need.
const PACKAGES: &str =
    "maturin numpy pytest hypothesis cloudpickle mypy nbclient nbformat ipykernel";

/// An environment that has the wheel.
struct Installed {
    /// Where it is, and what else is made.
    place: PathBuf,
    python: String,
    /// The search path of programs.
    path: String,
    /// The tests.
    tests: PathBuf,
}

impl Installed {
    /// Tests, which are these files or folders.
    fn pytest(&self, tests: &str) -> Task {
        let line = format!("-m pytest -q -p no:cacheprovider {tests}");
        Task::new(&self.place, &self.python, &line).variable("PATH", &self.path)
    }
}

/// Builds the wheel, installs it and runs its tests.
pub(crate) fn run(root: &Path, runner: &Runner, long: bool) -> Result<Outcome> {
    let installed = match install(root, runner)? {
        Ok(installed) => installed,
        Err(outcome) => return Ok(outcome),
    };
    let task = installed.pytest(&installed.tests.display().to_string());
    runner.run(&if long { task.variable("FARSIDE_LONG", "1") } else { task })?;
    Ok(Outcome::Passed)
}

/// Runs the tests of windows and teams with the module compiled for the address sanitizer, given
/// how it is built into a directory, and the options of the sanitizer.
pub(crate) fn sanitized(
    root: &Path,
    runner: &Runner,
    build: &Task,
    options: &str,
) -> Result<Outcome> {
    let installed = match install(root, runner)? {
        Ok(installed) => installed,
        Err(outcome) => return Ok(outcome),
    };
    runner.run(build)?;
    // The package, with that module in front of the one of the wheel.
    let package = installed.place.join("sanitized");
    if package.exists() {
        fs::remove_dir_all(&package)?;
    }
    fs::create_dir_all(&package)?;
    let sources = root.join("crates/interfaces/python/python/farside");
    let line = format!("-r {} {}", sources.display(), package.display());
    runner.run(&Task::new(root, "cp", &line))?;
    let module = target(root).join("asan").join(HOST).join("debug/libfarside_python.so");
    fs::copy(&module, package.join("farside/_core.abi3.so"))
        .with_context(|| format!("cannot copy {}", module.display()))?;
    // The module of Rust brings no sanitizer's library: the one of the C compiler serves it.
    let found = output(Command::new("cc").arg("-print-file-name=libasan.so"))?;
    let library = String::from_utf8(found)?;
    let tests = ["test_window.py", "test_team.py"];
    let tests = tests.map(|test| installed.tests.join(test).display().to_string());
    let task = installed
        .pytest(&tests.join(" "))
        .variable("PYTHONPATH", &package.display().to_string())
        // Otherwise most objects lie in blocks of the interpreter, which are not looked into.
        .variable("PYTHONMALLOC", "malloc")
        .variable("ASAN_OPTIONS", options)
        .variable("LD_PRELOAD", library.trim());
    runner.run(&task)?;
    Ok(Outcome::Passed)
}

/// Builds the wheel and installs it, or says why not. The profile is that of the other tests, which
/// have built most of it already.
fn install(root: &Path, runner: &Runner) -> Result<std::result::Result<Installed, Outcome>> {
    let place = target(root).join("python");
    let (environment, wheels) = (place.join("environment"), place.join("wheels"));
    let python = environment.join("bin/python").display().to_string();
    fs::create_dir_all(&place)?;
    if !works(&python, &["-c", "import numpy, maturin, pytest, hypothesis, cloudpickle, mypy"]) {
        let base = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        if !works(&base, &["-c", "import sys, venv; assert sys.version_info >= (3, 9)"]) {
            return Ok(Err(skipped(
                "no Python 3.9 or later with venv: set PYTHON to one".to_owned(),
            )));
        }
        let made = runner
            .run(&Task::new(root, &base, &format!("-m venv {}", environment.display())))
            .and_then(|()| {
                runner.run(&Task::new(root, &python, &format!("-m pip install -q {PACKAGES}")))
            });
        if let Err(error) = made {
            return Ok(Err(skipped(format!("pip cannot install {PACKAGES}: {error:#}"))));
        }
    }
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let package = root.join("crates/interfaces/python");
    let build = format!(
        "-m pip wheel -q --no-deps --no-build-isolation --config-settings profile=dev \
         --wheel-dir {} {}",
        wheels.display(),
        package.display()
    );
    let path = path_with(&environment);
    runner.run(&Task::new(root, &python, &build).variable("PATH", &path))?;
    let wheel = one_wheel(&wheels)?;
    let install = format!("-m pip install -q --no-deps --force-reinstall {}", wheel.display());
    runner.run(&Task::new(root, &python, &install))?;
    Ok(Ok(Installed { tests: package.join("tests"), place, python, path }))
}

fn skipped(reason: String) -> Outcome {
    println!("not run: {reason}");
    Outcome::Skipped(reason)
}

/// Returns the search path of programs with those of the environment first: maturin is one.
fn path_with(environment: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", environment.join("bin").display())
}

fn one_wheel(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut wheels = files.into_iter().map(|file| file.path());
    let wheel = wheels.find(|path| path.extension() == Some(OsStr::new("whl")));
    wheel.with_context(|| format!("there is no wheel in {}", folder.display()))
}
