//! The jobs on this machine, found by the memory that their processes have open.
//!
//! A job leaves no file anywhere: it is found in `/proc`, where the memory of each process that
//! takes part, and of the launcher, is among its open files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use farside_shm::Job;

use crate::process;
use crate::read::Reader;

/// How the memory of a job appears among the open files of a process.
const MEMORY: &str = "/memfd:farside (deleted)";
/// The variable of the environment that names the job of a process, if a launcher of ours started
/// it.
const MARK: &str = "FARSIDE_JOB";

/// Why a job could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no job of this user.
    #[error("no job of this user runs on this machine; `farside run` starts one")]
    NoJob,
    /// The process belongs to no job.
    #[error("process {process} belongs to no running job{}", known(.jobs))]
    NotAJob {
        /// The process.
        process: u32,
        /// The jobs that there are.
        jobs: Vec<FoundJob>,
    },
    /// There are several jobs.
    #[error("there are several jobs; name one{}", known(.0))]
    Several(Vec<FoundJob>),
    /// The process belongs to another user.
    #[error(
        "process {process} may not be read: {error}; it belongs to user {owner}, and only that \
         user or root may look at its job"
    )]
    NotAllowed {
        /// The process.
        process: u32,
        /// The number of its user.
        owner: u32,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The job's memory could not be read.
    #[error("the memory of job {job} cannot be read: {why}")]
    Memory {
        /// The job.
        job: u32,
        /// The reason.
        why: String,
    },
}

fn known(jobs: &[FoundJob]) -> String {
    let line = |job: &FoundJob| format!("\n  {}  {}", job.id, job.command);
    let lines: String = jobs.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!(":{lines}") }
}

/// A running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundJob {
    /// The process of its launcher, or the first of its own if no launcher of ours started it.
    pub id: u32,
    /// The command of its first process.
    pub command: String,
    /// The number of the user whose job it is.
    pub owner: u32,
    /// Its processes, and its launcher.
    pub processes: BTreeSet<u32>,
    /// The memories of its nodes on this machine, by their number in the system: a process and the
    /// number that the open memory has there.
    memories: BTreeMap<u64, (u32, u32)>,
}

impl FoundJob {
    /// Returns whether a process of it is still there.
    pub fn is_there(&self) -> bool {
        let state = |process: &u32| process::view(*process).map(|view| view.state);
        self.processes.iter().any(|process| state(process).is_some_and(|state| state != 'Z'))
    }

    /// Returns whether it is a job of this user.
    fn is_own(&self) -> bool {
        self.owner == rustix::process::geteuid().as_raw()
    }

    /// Opens its memory, to be read.
    pub fn open(&self) -> Result<Reader, Error> {
        let mut memories = Vec::new();
        for (process, file) in self.memories.values() {
            let failed = |why: String| Error::Memory { job: self.id, why };
            let file = File::open(format!("/proc/{process}/fd/{file}"))
                .map_err(|error| failed(error.to_string()))?;
            memories.push(Job::watch(file.into()).map_err(|error| failed(error.to_string()))?);
        }
        Ok(Reader::new(memories))
    }
}

/// A process that has the memory of a job open.
struct Holder {
    process: u32,
    owner: u32,
    file: u32,
    memory: u64,
}

/// Returns all jobs of this machine that this user may read, by their numbers.
pub fn jobs() -> Vec<FoundJob> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // What may not be read belongs to others.
    let holders = processes.flat_map(|process| held_by(process).unwrap_or_default()).collect();
    group(holders)
}

/// Finds a job by any of its processes, or the only one of this user that there is: root may look
/// at the jobs of others, but has to say at which.
pub fn find(process: Option<u32>) -> Result<FoundJob, Error> {
    let mut jobs = jobs();
    let Some(process) = process else {
        jobs.retain(FoundJob::is_own);
        return match jobs.len() {
            0 => Err(Error::NoJob),
            1 => Ok(jobs.remove(0)),
            _ => Err(Error::Several(jobs)),
        };
    };
    let is_it = |job: &FoundJob| job.id == process || job.processes.contains(&process);
    if let Some(at) = jobs.iter().position(is_it) {
        return Ok(jobs.remove(at));
    }
    match held_by(process) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let owner = fs::metadata(format!("/proc/{process}")).map_or(0, |meta| meta.uid());
            Err(Error::NotAllowed { process, owner, error })
        }
        _ => Err(Error::NotAJob { process, jobs }),
    }
}

fn held_by(process: u32) -> std::io::Result<Vec<Holder>> {
    let mut holders: Vec<Holder> = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd"))?.flatten() {
        let is_memory = fs::read_link(entry.path())
            .is_ok_and(|link| link.as_os_str().as_encoded_bytes() == MEMORY.as_bytes());
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let (true, Some(file)) = (is_memory, number)
            && let Ok(meta) = fs::metadata(entry.path())
            && holders.iter().all(|known| known.memory != meta.ino())
        {
            holders.push(Holder { process, owner: meta.uid(), file, memory: meta.ino() });
        }
    }
    Ok(holders)
}

/// The job that a process was started for: the innermost, if jobs are nested.
fn mark(process: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let prefix = format!("{MARK}=");
    let value =
        environment.split(|&byte| byte == 0).find_map(|one| one.strip_prefix(prefix.as_bytes()))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn group(holders: Vec<Holder>) -> Vec<FoundJob> {
    let mut by_memory: BTreeMap<u64, Vec<Holder>> = BTreeMap::new();
    for holder in holders {
        by_memory.entry(holder.memory).or_default().push(holder);
    }
    let mut jobs: BTreeMap<String, FoundJob> = BTreeMap::new();
    for (memory, holders) in by_memory {
        // A launcher bears the mark of the job that it runs in itself, which is shorter.
        let marks = holders.iter().filter_map(|holder| mark(holder.process));
        let mark = marks.max_by_key(String::len);
        let launcher = mark.as_deref().and_then(launcher_of);
        let key = mark.unwrap_or_else(|| memory.to_string());
        let first = |launcher: Option<u32>| {
            let ranks = holders.iter().map(|holder| holder.process);
            ranks.filter(|&process| Some(process) != launcher).min()
        };
        let Some(rank) = first(launcher).or_else(|| first(None)) else { continue };
        let job = jobs.entry(key).or_insert_with(|| FoundJob {
            id: launcher.unwrap_or(rank),
            command: process::command(rank).unwrap_or_default(),
            owner: holders[0].owner,
            processes: BTreeSet::new(),
            memories: BTreeMap::new(),
        });
        job.processes.extend(holders.iter().map(|holder| holder.process));
        job.memories.insert(memory, (holders[0].process, holders[0].file));
    }
    let mut jobs: Vec<FoundJob> = jobs.into_values().collect();
    jobs.sort_by_key(|job| job.id);
    jobs
}

fn launcher_of(mark: &str) -> Option<u32> {
    mark.rsplit('/').next()?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use farside_fabric::Topology;
    use farside_shm::Config;

    use super::*;

    #[test]
    fn a_job_of_this_process_is_found_and_gone_when_it_is() {
        let mut config = Config::new(Topology::flat(3), 4096);
        config.arena_bytes = 1 << 20;
        let job = Job::create(&config).unwrap();
        let own = std::process::id();
        let found = find(Some(own)).unwrap();
        assert!(found.processes.contains(&own));
        let snapshot = found.open().unwrap().read();
        assert!(snapshot.ranks.len() >= 3 || found.memories.len() > 1);
        assert!(found.is_own());
        a_job_of_another_user_has_to_be_asked_for(&job);
        drop(job);
    }

    /// Part of the test that has a job: another one in this process would be found, too.
    fn a_job_of_another_user_has_to_be_asked_for(job: &Job) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let other = rustix::fs::Uid::from_raw(12345);
        rustix::fs::fchown(job.file(), Some(other), None).unwrap();
        let found = find(Some(std::process::id())).unwrap();
        assert_eq!((found.owner, found.is_own()), (12345, false), "root sees it, and is not it");
    }

    #[test]
    fn the_launcher_is_that_of_the_innermost_job() {
        assert_eq!(launcher_of("12-abc/34-def"), Some(34));
        assert_eq!(launcher_of("12-abc"), Some(12));
        assert_eq!(launcher_of("x"), None);
    }

    #[test]
    fn a_process_without_a_job_is_named() {
        let message = find(Some(1)).unwrap_err().to_string();
        assert!(message.contains("process 1 "), "{message}");
    }
}
