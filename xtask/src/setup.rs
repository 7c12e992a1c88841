//! What the tests need from outside of Rust, and how to get it.
//!
//! Nothing is skipped silently: what is missing is installed if that is possible and either asked
//! for or in CI, else it is an error where nobody reads warnings (in CI) and a warning with the
//! command to run everywhere else. Services that come with it are not started.

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::process::{Runner, Task};
use crate::steps::Outcome;

struct Need {
    /// The Debian packages that bring it.
    packages: &'static str,
    /// The steps that use it.
    what_for: &'static str,
    /// What does not run without it.
    lost: &'static str,
    /// How to see that it is there: programs, and `COMPILER:HEADER` for a compiler that finds a
    /// header. On Debian the compilers of MPI come without the headers that they compile against,
    /// so that the program alone says too little.
    probes: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        packages: "gcc libc6-dev",
        what_for: "compiling the programs of the rivals",
        lost: "every test of `farside bench --against`",
        probes: "gcc:stdio.h",
    },
    Need {
        packages: "g++ clang pkg-config cmake binutils",
        what_for: "compiling the programs of the C interface, and finding it installed",
        lost: "the tests of the C interface with these compilers and tools",
        probes: "g++ clang clang++ pkg-config cmake nm",
    },
    Need {
        packages: "libomp-dev",
        what_for: "the OpenMP of clang, whose threads the checker of races follows",
        lost: "the test of races between threads with clang",
        probes: "clang:omp.h",
    },
    Need {
        packages: "valgrind",
        what_for: "finding faults in memory of C programs and in what they call",
        lost: "the tests of the C interface and of OpenSHMEM under valgrind",
        probes: "valgrind",
    },
    Need {
        packages: "dpkg-dev debootstrap",
        what_for: "the Debian package, and a clean root to install it in",
        lost: "the test of the Debian package, or its clean root",
        probes: "dpkg-shlibdeps debootstrap",
    },
    Need {
        packages: "mpich libmpich-dev",
        what_for: "the rival of `farside bench --against mpich`, and MPI programs",
        lost: "the tests of `farside bench --against mpich` and of MPI programs with MPICH",
        probes: "mpicc.mpich:mpi.h mpiexec.mpich gfortran",
    },
    Need {
        packages: "openmpi-bin libopenmpi-dev",
        what_for: "the rivals of `farside bench --against openmpi,openshmem`, and MPI programs",
        lost: "the tests of `farside bench --against openmpi`, `openshmem`, and of MPI programs",
        probes: "mpicc.openmpi:mpi.h oshcc:shmem.h mpirun.openmpi",
    },
    Need {
        packages: "libfabric1 libfabric-bin libfabric-dev",
        what_for: "the ofi fabric, its declarations, and what it is measured against",
        lost: "the tests over libfabric: declarations, conformance, deaths and hosts over ofi",
        probes: "fi_info fi_pingpong cc:rdma/fabric.h",
    },
    Need {
        packages: "libpmix2 mpich openmpi-bin",
        what_for: "launchers that start ranks: Open MPI's over PMIx, MPICH's over PMI-1 and PMI-2",
        lost: "the tests of jobs under `mpirun` and `mpiexec.hydra`",
        probes: "mpirun.openmpi mpiexec.hydra",
    },
    Need {
        packages: "slurm-wlm munge",
        what_for: "a cluster of Slurm on this machine alone",
        lost: "the test of jobs under `srun`",
        probes: "srun slurmctld slurmd munged",
    },
    Need {
        packages: "iproute2",
        what_for: "network namespaces, the hosts of tests",
        lost: "the tests of jobs that span hosts with addresses of their own",
        probes: "ip",
    },
    Need {
        packages: "libglobalarrays-dev libarmci-mpi-dev libscalapack-openmpi-dev liblapack-dev \
                   libblas-dev",
        what_for: "the rival of `farside bench array --against ga`",
        lost: "the tests of `farside bench array --against ga`",
        probes: "mpicc.openmpi:ga.h mpicc.openmpi:mpi.h",
    },
    Need {
        packages: "libopenblas-dev",
        what_for: "the rival of `farside bench array --against openblas`",
        lost: "the tests of `farside bench array --against openblas`",
        probes: "cc:openblas_config.h",
    },
    Need {
        packages: "redis-server memcached",
        what_for: "the rivals of `farside bench dht --against redis,memcached`",
        lost: "the tests of `farside bench dht --against redis,memcached`",
        probes: "redis-server memcached",
    },
    Need {
        packages: "chromium",
        what_for: "opening the page that shows a trace",
        lost: "the tests that open the page of a trace in a browser",
        probes: "chromium",
    },
];

/// Whether what is missing is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Install {
    Asked,
    /// Only in CI, whose machines are there for that.
    InCi,
}

impl Install {
    /// Whether this is the place to install something: a machine is its owner's, also for root.
    fn is_wanted(self, in_ci: bool) -> bool {
        self == Install::Asked || in_ci
    }
}

/// Looks for everything that the tests need and installs what is missing, if that is possible and
/// wanted.
pub(crate) fn run(root: &Path, runner: &Runner, install_when: Install) -> Result<Outcome> {
    let mut missing = look(NEEDS);
    let is_root = rustix::process::geteuid().is_root();
    let is_wanted = install_when.is_wanted(in_ci());
    if !missing.is_empty() && is_wanted && is_root && on_path("apt-get") {
        let _no_services = NoServices::begin(Path::new("/usr/sbin/policy-rc.d"));
        install(&missing, root, runner);
        missing = look(NEEDS);
    }
    judge(&missing, in_ci())
}

pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// The needs that are not met; every need is printed with what was found.
fn look(needs: &'static [Need]) -> Vec<&'static Need> {
    let mut missing = Vec::new();
    for need in needs {
        let absent: Vec<String> = need.probes.split(' ').filter_map(absent).collect();
        let packages = need.packages;
        if absent.is_empty() {
            println!("found    {packages}: {}", need.what_for);
        } else {
            println!("missing  {packages}: {} ({})", need.what_for, absent.join(", "));
            missing.push(need);
        }
    }
    missing
}

/// Installs the packages of the missing needs. A failure is only printed: looking again tells what
/// it cost, and that is what counts.
fn install(missing: &[&Need], root: &Path, runner: &Runner) {
    let update = Task::new(root, "apt-get", "update");
    let install = Task::new(root, "apt-get", &install_arguments(missing))
        .variable("DEBIAN_FRONTEND", "noninteractive");
    for task in [update, install] {
        if let Err(error) = runner.run(&task) {
            return println!("{error:#}");
        }
    }
}

/// While it is there, packages start no services: those of rivals and launchers, which the tests
/// start by themselves.
struct NoServices<'a> {
    policy: &'a Path,
    is_own: bool,
}

impl NoServices<'_> {
    fn begin(policy: &Path) -> NoServices<'_> {
        // If there is a policy already, or none can be made, it is the machine's own that holds.
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(policy);
        let is_own = made.and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 101\n")).is_ok();
        NoServices { policy, is_own }
    }
}

impl Drop for NoServices<'_> {
    fn drop(&mut self) {
        if self.is_own {
            // Whoever reads the output of apt-get sees what it did.
            let _ = fs::remove_file(self.policy);
        }
    }
}

fn install_arguments(missing: &[&Need]) -> String {
    format!("install -y --no-install-recommends {}", packages(missing))
}

fn packages(missing: &[&Need]) -> String {
    missing.iter().map(|need| need.packages).collect::<Vec<&str>>().join(" ")
}

/// What it means that `missing` is not there and could not be installed.
fn judge(missing: &[&Need], in_ci: bool) -> Result<Outcome> {
    if missing.is_empty() {
        return Ok(Outcome::Passed);
    }
    let command = format!("sudo apt-get update && sudo apt-get {}", install_arguments(missing));
    if in_ci {
        bail!("in CI nothing may be missing\n    to install it: {command}");
    }
    for need in missing {
        println!("warning: {} will be skipped", need.lost);
    }
    println!("to install what is missing: {command}");
    Ok(Outcome::Warned(format!("missing: {}", packages(missing))))
}

/// What is missing of a probe, if something is.
fn absent(probe: &str) -> Option<String> {
    let (program, header) = probe.split_once(':').map_or((probe, None), |(it, at)| (it, Some(at)));
    // Daemons are where users do not look.
    if !on_path(program) && !Path::new("/usr/sbin").join(program).exists() {
        return Some(format!("no {program}"));
    }
    let header = header.filter(|header| !finds_header(program, header))?;
    Some(format!("{program} finds no {header}"))
}

pub(crate) fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| {
        fs::metadata(directory.join(program))
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

fn finds_header(compiler: &str, header: &str) -> bool {
    let child = Command::new(compiler)
        .args(["-E", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let written = match child.stdin.take() {
        Some(mut input) => writeln!(input, "#include <{header}>").is_ok(),
        None => false,
    };
    child.wait().is_ok_and(|status| written && status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    static ABSENT: &[Need] = &[Need {
        packages: "left right",
        what_for: "a test",
        lost: "the tests of nothing",
        probes: "sh a-program-nobody-has",
    }];

    #[test]
    fn programs_and_headers_are_found_or_not() {
        // Rust itself needs a C compiler to link on the machines that these tests run on.
        assert_eq!(["sh", "cc:stddef.h"].map(absent), [None, None]);
        let missing = ["a-compiler-nobody-has:stdio.h", "cc:a_header_nobody_has.h"].map(absent);
        let said = ["no a-compiler-nobody-has", "cc finds no a_header_nobody_has.h"];
        assert_eq!(missing, said.map(|said| Some(said.to_owned())));
        assert_eq!(look(ABSENT).len(), 1, "one failing probe makes a need missing");
    }

    #[test]
    fn nothing_is_installed_unless_asked_for_or_in_ci() {
        assert!(Install::Asked.is_wanted(false) && Install::InCi.is_wanted(true));
        assert!(!Install::InCi.is_wanted(false));
    }

    #[test]
    fn services_are_kept_from_starting_while_packages_are_installed() {
        let scratch = tempfile::tempdir().unwrap();
        let policy = scratch.path().join("policy-rc.d");
        let no_services = NoServices::begin(&policy);
        assert_eq!(Command::new("sh").arg(&policy).status().unwrap().code(), Some(101));
        drop(NoServices::begin(&policy));
        assert!(policy.exists(), "it is not that one's");
        drop(no_services);
        assert!(!policy.exists());
    }

    #[test]
    fn what_is_missing_is_an_error_in_ci_and_a_warning_elsewhere() {
        assert_eq!(judge(&[], true).unwrap(), Outcome::Passed);
        let error = judge(&look(ABSENT), true).unwrap_err().to_string();
        let command = "sudo apt-get install -y --no-install-recommends left right";
        assert!(error.contains(command), "{error}");
        let warned = Outcome::Warned("missing: left right".to_owned());
        assert_eq!(judge(&look(ABSENT), false).unwrap(), warned);
    }
}
