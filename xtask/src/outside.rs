//! A project of its own, outside of the tree, that uses the packaged crates as everybody would who
//! has them from a registry: built and run with all parts, and with none of the optional ones.
//!
//! The packages are unpacked beside the vendored sources of their dependencies, and the project is
//! told to take everything from there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::process::{Runner, Task};
use crate::steps::{Outcome, manifest_value, published};

const PROGRAM: &str = r#"use farside::{Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let mut sum = [u64::from(world.rank().0)];
    world.all_reduce(&mut sum, |a, b| a + b)?;
    let lock = farside::Lock::new(world, Rank(0))?;
    let words = world.words(1)?;
    {
        let _guard = lock.lock(world)?;
        let count = world.get_value(words.at(Rank(0), 0))?;
        world.put_value(count + 1, words.at(Rank(0), 0))?;
    }
    world.sync()?;
    if world.rank() == Rank(0) {
        let count = world.load(words.at(Rank(0), 0))?;
        println!("{} ranks, sum {}, count {}", world.size(), sum[0], count);
    }
    words.free(world)?;
    lock.free(world)
}
"#;

/// Packages all crates, and builds and runs the project.
pub(crate) fn run(root: &Path, runner: &Runner) -> Result<Outcome> {
    let place = target(root).join("outside");
    let go = |task: Task| runner.run(&task);
    let vendor = place.join("vendor");
    if vendor.exists() {
        fs::remove_dir_all(&vendor)
            .with_context(|| format!("cannot empty {}", vendor.display()))?;
    }
    fs::create_dir_all(&place)?;
    let packages = place.join("packages");
    let package = format!(
        "package --allow-dirty {} --no-verify --target-dir {}",
        published(),
        packages.display()
    );
    go(Task::new(root, "cargo", &package))?;
    // Only what the library and the command need: the tests' dependencies come along, unused.
    go(Task::new(root, "cargo", &format!("vendor --locked --quiet {}", vendor.display())))?;
    let mut ours = 0;
    for entry in fs::read_dir(packages.join("package"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "crate") {
            let line = format!("-xzf {} -C {}", path.display(), vendor.display());
            go(Task::new(root, "tar", &line))?;
            let directory = vendor.join(path.file_stem().unwrap_or_default());
            // A checksum of nothing: cargo wants the file, and the sources are our own.
            fs::write(directory.join(".cargo-checksum.json"), r#"{"files":{}}"#)?;
            ours += 1;
        }
    }
    if ours == 0 {
        bail!("no package was made in {}", packages.display());
    }
    println!("{ours} packages");
    let mut times = Vec::new();
    let version = manifest_value(root, "version").context("the workspace has no version")?;
    for (name, features) in [("with-all-parts", ""), ("with-none", ", default-features = false")] {
        let project = place.join(name);
        let dependency = format!("farside = {{ version = \"{version}\"{features} }}");
        write_project(&project, name, &dependency, &vendor)?;
        let started = Instant::now();
        go(Task::new(&project, "cargo", "build --release --offline"))?;
        times.push(format!("{name} {:.0} s", started.elapsed().as_secs_f64()));
        let farside = target(root).join("debug/farside");
        let program = project.join("target/release").join(name);
        let (farside, program) = (farside.display().to_string(), program.display().to_string());
        go(Task::new(&project, &program, ""))?;
        let mut ways = vec!["-n 4", "-n 4 --nodes 2", "-n 4 --threads"];
        if name == "with-all-parts" {
            ways.push("-n 4 --sim aries-xc30");
        }
        for way in ways {
            go(Task::new(&project, &farside, &format!("run --timeout 60 {way} {program}")))?;
        }
    }
    println!("release builds from nothing: {}", times.join(", "));
    Ok(Outcome::Passed)
}

/// Writes the project, without anything that an earlier one has built.
fn write_project(project: &Path, name: &str, dependency: &str, vendor: &Path) -> Result<()> {
    if project.exists() {
        fs::remove_dir_all(project)?;
    }
    fs::create_dir_all(project.join("src"))?;
    fs::create_dir_all(project.join(".cargo"))?;
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{dependency}\n\n[workspace]\n"
    );
    fs::write(project.join("Cargo.toml"), manifest)?;
    fs::write(project.join("src/main.rs"), PROGRAM)?;
    let config = format!(
        "[source.crates-io]\nreplace-with = \"vendored\"\n\n\
         [source.vendored]\ndirectory = {:?}\n\n[build]\ntarget-dir = \"target\"\n",
        vendor.display().to_string()
    );
    fs::write(project.join(".cargo/config.toml"), config).context("cannot write the project")
}

pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}
