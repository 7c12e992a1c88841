//! The rivals: small C programs over MPI, OpenSHMEM, Global Arrays and OpenBLAS, compiled where the
//! command runs; and servers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cores::processors;
use crate::link::Link;
use crate::within::output_within;

/// A system that farside is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// MPICH.
    Mpich,
    /// Open MPI as it comes.
    OpenMpi,
    /// Open MPI with its one-sided component for shared memory.
    OpenMpiSm,
    /// MPICH, with its one-sided calls taken over by farside.
    MpichFarside,
    /// Open MPI, likewise.
    OpenMpiFarside,
    /// Open MPI's OpenSHMEM.
    OpenShmem,
    /// Global Arrays over ARMCI-MPI and Open MPI.
    Ga,
    /// OpenBLAS, in one process with as many threads as there are ranks and processors.
    OpenBlas,
    /// Redis, over a UNIX socket.
    Redis,
    /// memcached, over a UNIX socket.
    Memcached,
}

struct Recipe {
    compiler: &'static str,
    /// The end of the names of its programs.
    library: &'static str,
    /// The Debian packages that have what is needed.
    packages: &'static str,
}

impl Rival {
    /// The rivals that a word of `--against` stands for.
    pub fn parse(word: &str) -> Result<Vec<Rival>> {
        match word {
            "mpich" => Ok(vec![Rival::Mpich]),
            "openmpi" => Ok(vec![Rival::OpenMpi, Rival::OpenMpiSm]),
            "mpich+farside" => Ok(vec![Rival::MpichFarside]),
            "openmpi+farside" => Ok(vec![Rival::OpenMpiFarside]),
            "openshmem" => Ok(vec![Rival::OpenShmem]),
            "ga" => Ok(vec![Rival::Ga]),
            "openblas" => Ok(vec![Rival::OpenBlas]),
            "redis" => Ok(vec![Rival::Redis]),
            "memcached" => Ok(vec![Rival::Memcached]),
            other => {
                bail!(
                    "there is no rival {other:?}; there are: mpich, openmpi, mpich+farside, \
                     openmpi+farside, openshmem, ga, openblas, redis, memcached"
                )
            }
        }
    }

    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Rival::Mpich => "mpich",
            Rival::OpenMpi => "openmpi",
            Rival::OpenMpiSm => "openmpi-sm",
            Rival::MpichFarside => "mpich+farside",
            Rival::OpenMpiFarside => "openmpi+farside",
            Rival::OpenShmem => "openshmem",
            Rival::Ga => "ga",
            Rival::OpenBlas => "openblas",
            Rival::Redis => "redis",
            Rival::Memcached => "memcached",
        }
    }

    /// The MPI, by its name for `farside preload`, whose one-sided calls farside takes over in it.
    pub fn taken_over(self) -> Option<&'static str> {
        match self {
            Rival::MpichFarside => Some("mpich"),
            Rival::OpenMpiFarside => Some("openmpi"),
            _ => None,
        }
    }

    /// Whether it is a server with clients, and no program that is compiled here.
    pub fn is_server(self) -> bool {
        matches!(self, Rival::Redis | Rival::Memcached)
    }

    fn libraries(self) -> &'static [&'static str] {
        match self {
            Rival::Ga => &[
                "ga-openmpi",
                "armci-openmpi",
                "scalapack-openmpi",
                "lapack",
                "blas",
                "m",
                ":libgfortran.so.5",
            ],
            Rival::OpenBlas => &["openblas"],
            _ => &[],
        }
    }

    fn recipe(self) -> Recipe {
        let open_mpi = Recipe {
            compiler: "mpicc.openmpi",
            library: "mpi",
            packages: "openmpi-bin libopenmpi-dev",
        };
        // Nothing is compiled for servers.
        let server = |library, packages| Recipe { compiler: "true", library, packages };
        match self {
            Rival::Mpich | Rival::MpichFarside => {
                Recipe { compiler: "mpicc.mpich", library: "mpi", packages: "mpich libmpich-dev" }
            }
            Rival::OpenMpi | Rival::OpenMpiSm | Rival::OpenMpiFarside => open_mpi,
            Rival::OpenShmem => Recipe { compiler: "oshcc", library: "shmem", ..open_mpi },
            Rival::Ga => Recipe {
                library: "ga",
                packages: "libglobalarrays-dev libarmci-mpi-dev libscalapack-openmpi-dev \
                           liblapack-dev libblas-dev openmpi-bin libopenmpi-dev",
                ..open_mpi
            },
            Rival::OpenBlas => {
                Recipe { compiler: "cc", library: "blas", packages: "gcc libopenblas-dev" }
            }
            Rival::Redis => server("redis", "redis-server"),
            Rival::Memcached => server("memcached", "memcached"),
        }
    }

    /// Whether it is measured over TCP, as if every rank were on a node of its own.
    pub fn goes_far(self) -> bool {
        matches!(self, Rival::Mpich | Rival::OpenMpi) || self.taken_over().is_some()
    }

    /// The launcher and its flags for so many ranks, which reach each other over TCP only if they
    /// are `far`.
    fn launcher(self, ranks: u32, far: bool) -> (&'static str, Vec<String>) {
        // Without yielding, waiting ranks keep the others from running.
        let open_mpi =
            ["--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"];
        let tcp = ["osc", "pt2pt", "pml", "ob1", "btl", "tcp,self", "btl_tcp_if_include", "lo"];
        let tcp: Vec<&str> = tcp.chunks(2).flat_map(|pair| ["--mca", pair[0], pair[1]]).collect();
        let (launcher, flags): (&str, Vec<&str>) = match self {
            Rival::OpenMpi | Rival::OpenMpiFarside if far => {
                ("mpirun.openmpi", [&open_mpi[..], &tcp].concat())
            }
            Rival::Mpich | Rival::MpichFarside => ("mpirun.mpich", vec![]),
            Rival::OpenMpi | Rival::OpenMpiFarside | Rival::Ga => {
                ("mpirun.openmpi", open_mpi.to_vec())
            }
            Rival::Redis | Rival::Memcached => ("true", vec![]),
            Rival::OpenBlas => {
                let threads = processors().min(ranks as usize);
                return ("env", vec![format!("OPENBLAS_NUM_THREADS={threads}")]);
            }
            Rival::OpenMpiSm => {
                ("mpirun.openmpi", [&open_mpi[..], &["--mca", "osc", "sm"]].concat())
            }
            // The memory hooks crash when the program ends.
            Rival::OpenShmem => {
                let mca = [
                    "--mca",
                    "btl_vader_single_copy_mechanism",
                    "none",
                    "--mca",
                    "memory",
                    "^patcher",
                ];
                ("oshrun", [&open_mpi[..], &mca].concat())
            }
        };
        let count = ["-n".to_owned(), ranks.to_string()];
        (launcher, flags.into_iter().map(str::to_owned).chain(count).collect())
    }

    /// Runs a program of ours as ranks that its launcher starts on this machine, and returns what
    /// they printed.
    pub(crate) fn launch(
        self,
        ranks: u32,
        program: &Path,
        arguments: &[String],
        deadline: Duration,
    ) -> Result<String> {
        let (launcher, flags) = self.launcher(ranks, false);
        let mut command = Command::new(launcher);
        output_within(command.args(flags).arg(program).args(arguments), deadline)
    }

    /// What it must find in its environment so that each of so many ranks is a node of its own.
    fn far_environment(self, ranks: u32) -> Vec<(&'static str, String)> {
        let mpich =
            [("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lo")];
        let mut variables: Vec<(&str, String)> = match self {
            Rival::Mpich | Rival::MpichFarside => {
                mpich.map(|(name, value)| (name, value.to_owned())).to_vec()
            }
            _ => Vec::new(),
        };
        if self.taken_over().is_some() {
            variables.push(("FARSIDE_NODES", ranks.to_string()));
        }
        variables
    }

    /// Whether this rival is known to crash in a case: then the case is left out, and says so.
    pub fn crashes_in(self, case: &str, far: bool) -> bool {
        // Debian 12's Open MPI 4.1.4, osc/rdma over vader.
        self == Rival::OpenMpi && case == "compare_swap" && !far
    }
}

/// How the ranks of a rival reach each other.
#[derive(Debug, Clone, Copy)]
pub struct Reached<'a> {
    /// Whether over TCP only, as if every rank were on a node of its own.
    pub far: bool,
    /// The link between two nodes, if not over loopback.
    pub link: Option<&'a Link>,
}

/// A rival that was compiled.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// Which one.
    pub rival: Rival,
    program: PathBuf,
    /// The command `farside`, which preloads its library if that is asked for.
    farside: PathBuf,
}

const SOURCES: [(&str, &str); 29] = [
    ("array_blas.c", include_str!("../rivals/array_blas.c")),
    ("array_ga.c", include_str!("../rivals/array_ga.c")),
    ("rival.h", include_str!("../rivals/rival.h")),
    ("cases.h", include_str!("../rivals/cases.h")),
    ("ops.h", include_str!("../rivals/ops.h")),
    ("ops_mpi.c", include_str!("../rivals/ops_mpi.c")),
    ("ops_shmem.c", include_str!("../rivals/ops_shmem.c")),
    ("sync.h", include_str!("../rivals/sync.h")),
    ("sync_mpi.c", include_str!("../rivals/sync_mpi.c")),
    ("sync_shmem.c", include_str!("../rivals/sync_shmem.c")),
    ("collectives.h", include_str!("../rivals/collectives.h")),
    ("collectives_mpi.c", include_str!("../rivals/collectives_mpi.c")),
    ("collectives_shmem.c", include_str!("../rivals/collectives_shmem.c")),
    ("irregular_shmem.c", include_str!("../rivals/irregular_shmem.c")),
    ("start.h", include_str!("../rivals/start.h")),
    ("start_mpi.c", include_str!("../rivals/start_mpi.c")),
    ("start_shmem.c", include_str!("../rivals/start_shmem.c")),
    ("locks.h", include_str!("../rivals/locks.h")),
    ("locks_mpi.c", include_str!("../rivals/locks_mpi.c")),
    ("locks_shmem.c", include_str!("../rivals/locks_shmem.c")),
    ("mpi_bench.h", include_str!("../rivals/mpi_bench.h")),
    ("mpi_mpi.c", include_str!("../rivals/mpi_mpi.c")),
    ("overlap_mpi.c", include_str!("../rivals/overlap_mpi.c")),
    ("shmem_bench.h", include_str!("../rivals/shmem_bench.h")),
    ("shmem_gups.h", include_str!("../rivals/shmem_gups.h")),
    ("shmem_isx.h", include_str!("../rivals/shmem_isx.h")),
    ("shmem_micro.h", include_str!("../rivals/shmem_micro.h")),
    ("shmem_shmem.c", include_str!("../rivals/shmem_shmem.c")),
    ("shmem_stencil.h", include_str!("../rivals/shmem_stencil.h")),
];

impl Compiled {
    /// Compiles a rival of a bench in `directory`.
    pub(crate) fn new(
        rival: Rival,
        bench: &str,
        directory: &Path,
        farside: PathBuf,
    ) -> Result<Compiled> {
        let Recipe { compiler, library, packages } = rival.recipe();
        let program = directory.join(format!("{bench}-{}", rival.name()));
        let source = format!("{bench}_{library}.c");
        let missing = format!("{compiler} is not there; on Debian: apt-get install {packages}");
        compile(Path::new(compiler), &missing, &source, rival.libraries(), &program)?;
        Ok(Compiled { rival, program, farside })
    }

    /// Runs it, and returns what it printed.
    pub fn run(
        &self,
        ranks: u32,
        reached: &Reached<'_>,
        arguments: &[String],
        deadline: Duration,
    ) -> Result<String> {
        let (launcher, mut flags) = self.rival.launcher(ranks, reached.far);
        let mut command = match (reached.link, self.rival.taken_over()) {
            (None, Some(mpi)) => {
                let mut preload = Command::new(&self.farside);
                preload.args(["preload", "--mpi", mpi, launcher]);
                preload
            }
            (None, None) => Command::new(launcher),
            (Some(link), _) if self.rival == Rival::OpenMpi => {
                // The link's interface replaces loopback.
                if let Some(at) = flags.iter().position(|flag| flag == "btl_tcp_if_include") {
                    flags.drain(at - 1..at + 2);
                }
                flags.extend(link.open_mpi_flags(ranks));
                link.command(0, launcher)
            }
            (Some(_), _) => bail!("{} is not measured over a link", self.rival.name()),
        };
        command.args(flags).arg(&self.program).args(arguments);
        if reached.far {
            command.envs(self.rival.far_environment(ranks));
        }
        output_within(&mut command, deadline)
            .with_context(|| format!("{} at {ranks} ranks", self.rival.name()))
    }
}

/// Writes all sources beside `program`, and compiles one of them into it; `missing` is said if the
/// compiler cannot be started.
pub(crate) fn compile(
    compiler: &Path,
    missing: &str,
    source: &str,
    libraries: &[&str],
    program: &Path,
) -> Result<()> {
    let directory = program.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for (name, text) in SOURCES {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    // Another run may be using the program: its file is replaced, not written to.
    let fresh = program.with_extension(std::process::id().to_string());
    let compiled = Command::new(compiler)
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-o"])
        .arg(&fresh)
        .arg(directory.join(source))
        .args(libraries.iter().map(|library| format!("-l{library}")))
        .output()
        .with_context(|| missing.to_owned())?;
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr);
        bail!("{} failed:\n{said}", compiler.display());
    }
    std::fs::rename(&fresh, program).with_context(|| format!("cannot make {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_rivals_are_named() {
        assert!(Rival::parse("pvm").unwrap_err().to_string().contains("\"pvm\""));
        assert_eq!(Rival::parse("openmpi").unwrap().len(), 2);
    }
}
