//! The Python package: a wheel with the module and the command, installed in an environment of its
//! own under `target/`, and its tests run by pytest there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::outside::target;
use crate::process::{Runner, Task, works};
use crate::steps::Outcome;

/// The packages that the build and the tests need.
const PACKAGES: &str =
    "maturin numpy pytest hypothesis cloudpickle mypy nbclient nbformat ipykernel";

/// Builds the wheel, installs it and runs its tests. The profile is that of the other tests, which
/// have built most of it already.
pub(crate) fn run(root: &Path, runner: &Runner, long: bool) -> Result<Outcome> {
    let place = target(root).join("python");
    let (environment, wheels) = (place.join("environment"), place.join("wheels"));
    let python = environment.join("bin/python").display().to_string();
    fs::create_dir_all(&place)?;
    if !works(&python, &["-c", "import numpy, maturin, pytest, hypothesis, cloudpickle, mypy"]) {
        let base = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        if !works(&base, &["-c", "import sys, venv; assert sys.version_info >= (3, 9)"]) {
            return Ok(skipped("no Python 3.9 or later with venv: set PYTHON to one".to_owned()));
        }
        let made = runner
            .run(&Task::new(root, &base, &format!("-m venv {}", environment.display())))
            .and_then(|()| {
                runner.run(&Task::new(root, &python, &format!("-m pip install -q {PACKAGES}")))
            });
        if let Err(error) = made {
            return Ok(skipped(format!("pip cannot install {PACKAGES}: {error:#}")));
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
    runner.run(&Task::new(root, &python, &build).variable("PATH", &path_with(&environment)))?;
    let wheel = one_wheel(&wheels)?;
    let install = format!("-m pip install -q --no-deps --force-reinstall {}", wheel.display());
    runner.run(&Task::new(root, &python, &install))?;
    let tests = format!("-m pytest -q -p no:cacheprovider {}", package.join("tests").display());
    let task = Task::new(&place, &python, &tests).variable("PATH", &path_with(&environment));
    runner.run(&if long { task.variable("FARSIDE_LONG", "1") } else { task })?;
    Ok(Outcome::Passed)
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
