//! A cluster of Slurm on this machine alone: its daemons listen on the loopback interface, at ports
//! and in a directory of the test's own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use farside_conformance::churn::{DELAY, VICTIM};

use crate::names;
use crate::support::{Marked, PROGRAM, Ran, command, run, shared_files, skip, wanted};

/// How long the daemons may take until they take jobs.
const START: Duration = Duration::from_secs(30);
/// Daemons are where users do not look.
const DAEMONS: &str = "/usr/sbin";

struct Cluster {
    directory: PathBuf,
    daemons: Vec<Child>,
    /// The daemons and what they start.
    _marked: Marked,
}

impl Cluster {
    fn new() -> Result<Cluster, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?.keep();
        for part in ["state", "spool"] {
            std::fs::create_dir_all(directory.join(part)).map_err(|error| error.to_string())?;
        }
        let marked = Marked::new();
        write(
            &directory.join("munge.key"),
            &"a key that protects nothing, and lasts for one test ".repeat(3),
            0o400,
        )?;
        write(&directory.join("slurm.conf"), &configuration(&directory), 0o644)?;
        write(&directory.join("cgroup.conf"), "CgroupAutomount=no\n", 0o644)?;
        let mut cluster = Cluster { directory, daemons: Vec::new(), _marked: marked };
        let file = |name: &str| cluster.file(name);
        let munge: Vec<String> = [
            "--force".to_owned(),
            "--foreground".into(),
            format!("--socket={}", file("munge.socket")),
            format!("--key-file={}", file("munge.key")),
            format!("--pid-file={}", file("munge.pid")),
            format!("--log-file={}", file("munge.log")),
            format!("--seed-file={}", file("munge.seed")),
        ]
        .into();
        cluster.start("munged", &munge)?;
        cluster.start("slurmctld", &["-D".into()])?;
        cluster.start("slurmd", &["-D".into(), "-N".into(), host()])?;
        let start = Instant::now();
        while !cluster.takes_jobs() {
            if let Some(died) =
                cluster.daemons.iter_mut().position(|daemon| !matches!(daemon.try_wait(), Ok(None)))
            {
                return Err(format!(
                    "a daemon has ended: {}",
                    cluster.log(["munged", "slurmctld", "slurmd"][died])
                ));
            }
            if start.elapsed() > START {
                return Err(format!(
                    "no jobs are taken: {} {}",
                    cluster.log("slurmctld"),
                    cluster.log("slurmd")
                ));
            }
            // sleep: only asking tells whether it takes jobs.
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(cluster)
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    fn log(&self, daemon: &str) -> String {
        let text = std::fs::read_to_string(self.directory.join(format!("{daemon}.out")))
            .unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }

    fn start(&mut self, daemon: &str, arguments: &[String]) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{daemon} does not start: {error}");
        let log =
            std::fs::File::create(self.directory.join(format!("{daemon}.out"))).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let mut command = command(&format!("{DAEMONS}/{daemon}"));
        self._marked.put_on(&mut command);
        command
            .args(arguments)
            .env("SLURM_CONF", self.file("slurm.conf"))
            .current_dir(&self.directory);
        self.daemons
            .push(command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().map_err(failed)?);
        Ok(())
    }

    fn takes_jobs(&self) -> bool {
        let asked = command("sinfo")
            .args(["-h", "-o", "%T"])
            .env("SLURM_CONF", self.file("slurm.conf"))
            .output();
        asked.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).trim() == "idle")
    }

    fn srun(&self, mpi: &str, tasks: u32) -> Command {
        let mut command = command("srun");
        command.env("SLURM_CONF", self.file("slurm.conf")).args([
            "--mpi",
            mpi,
            "-n",
            &tasks.to_string(),
        ]);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::write(path, text)
        .and_then(|()| std::fs::set_permissions(path, permissions))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// What Slurm calls this machine.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or("localhost").to_owned()
}

fn configuration(directory: &Path) -> String {
    let free = || {
        TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| Ok(listener.local_addr()?.port()))
            .unwrap_or(0)
    };
    let user =
        String::from_utf8_lossy(&Command::new("id").arg("-un").output().expect("id runs").stdout)
            .into_owned();
    let (host, user, directory) = (host(), user.trim(), directory.display());
    let (controller, node) = (free(), free());
    format!(
        "ClusterName=farside\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\n\
         SlurmdPort={node}\n\
         SlurmUser={user}\nSlurmdUser={user}\nAuthType=auth/munge\n\
         AuthInfo=socket={directory}/munge.socket\nCredType=cred/munge\n\
         StateSaveLocation={directory}/state\nSlurmdSpoolDir={directory}/spool\n\
         SlurmctldPidFile={directory}/slurmctld.pid\nSlurmdPidFile={directory}/slurmd.pid\n\
         ProctrackType=proctrack/pgid\nTaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\n\
         SchedulerType=sched/builtin\nReturnToService=2\nSwitchType=switch/none\n\
         SlurmdParameters=config_overrides\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=100\n\
         PartitionName=all Nodes={host} Default=YES MaxTime=10 State=UP\n"
    )
}

#[test]
fn slurm_starts_jobs_and_survivors_hear_of_deaths() {
    if !wanted(&["srun", "slurmctld", "slurmd", "munged"]) {
        return;
    }
    let cluster = match Cluster::new() {
        Ok(cluster) => cluster,
        Err(why) => {
            skip(&format!("Slurm's daemons do not run here: {why}"));
            return;
        }
    };
    for mpi in ["pmi2", "pmix"] {
        for name in names() {
            let ran = run(cluster.srun(mpi, 4).args([PROGRAM, name]));
            assert!(ran.status.success(), "{mpi}, {name}: {ran:?}");
        }
        let ran = run(cluster
            .srun(mpi, 4)
            .args([PROGRAM, "sync_completes_puts"])
            .env("FARSIDE_NODES", "2"));
        assert!(ran.status.success(), "{mpi}, two nodes: {ran:?}");
        let before = shared_files();
        let script = format!("{PROGRAM} churn-nothing; echo task $SLURM_PROCID ended with $?");
        let ran = run(cluster
            .srun(mpi, 4)
            .args(["sh", "-c", &script])
            .env(VICTIM, "0")
            .env(DELAY, "3000"));
        heard(&ran, mpi);
        assert_eq!(shared_files(), before, "files are left");
    }
    let ran = run(cluster.srun("none", 2).args([PROGRAM, "tickets_are_unique"]));
    assert!(!ran.status.success() && ran.output.contains("srun --mpi=pmix"), "{ran:?}");
    let ran = run(cluster.srun("none", 1).args([PROGRAM, "tickets_are_unique"]));
    assert!(ran.status.success(), "a task of its own is a job of one rank: {ran:?}");
}

fn heard(ran: &Ran, mpi: &str) {
    for task in 0..4 {
        let line = format!("task {task} ended with {}\n", if task == 0 { 137 } else { 0 });
        assert!(ran.output.contains(&line), "{mpi}: no {line:?} in {ran:?}");
    }
}
