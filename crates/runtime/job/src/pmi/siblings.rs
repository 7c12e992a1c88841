//! The processes of a job on this machine, found in the system's list.
//!
//! No protocol names the ranks that are missing at a fence. But a launcher's daemon is the parent
//! of all ranks of its machine, and tells each its rank in its environment, and the number of
//! ranks. So a rank that a daemon has started and that is none of its children any more is gone. If
//! that cannot be seen (a launcher that says less, ranks in PID namespaces of their own) nothing is
//! concluded.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::pmi::Environment;

/// The processes that a launcher has started for a job, as each of them can tell them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobProcesses {
    rank_variable: &'static str,
    rank: String,
    /// A variable that all ranks of the job have alike, and no others.
    job: (&'static str, Option<String>),
    size: Option<u32>,
    /// The number of ranks that the daemon of this machine has started.
    here: Option<u32>,
    /// The process that has started them.
    daemon: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Census {
    present: BTreeSet<u32>,
    /// True if the daemon has children that are about to become ranks.
    is_growing: bool,
}

impl JobProcesses {
    pub(crate) fn of_pmix(environment: Environment<'_>) -> JobProcesses {
        let job = ("PMIX_NAMESPACE", environment("PMIX_NAMESPACE"));
        let (size, here) = match environment("OMPI_COMM_WORLD_LOCAL_SIZE") {
            Some(here) => (number(environment("OMPI_COMM_WORLD_SIZE")), here.parse().ok()),
            None => of_slurm(environment),
        };
        JobProcesses::new("PMIX_RANK", environment("PMIX_RANK"), job, size, here)
    }

    /// The ranks of a launcher that speaks PMI-1 or PMI-2.
    pub(crate) fn of_pmi(environment: Environment<'_>) -> JobProcesses {
        let job = ("PMI_JOBID", environment("PMI_JOBID"));
        let (size, here) = match environment("MPI_LOCALNRANKS") {
            Some(here) => (number(environment("PMI_SIZE")), here.parse().ok()),
            None => of_slurm(environment),
        };
        JobProcesses::new("PMI_RANK", environment("PMI_RANK"), job, size, here)
    }

    /// The ranks of a runtime that says nothing of its processes: none of them is looked for.
    pub(crate) fn unseen(rank: u32, size: u32) -> JobProcesses {
        JobProcesses {
            rank_variable: "",
            rank: rank.to_string(),
            job: ("", None),
            size: Some(size),
            here: None,
            daemon: None,
        }
    }

    fn new(
        rank_variable: &'static str,
        rank: Option<String>,
        job: (&'static str, Option<String>),
        size: Option<u32>,
        here: Option<u32>,
    ) -> JobProcesses {
        let rank = rank.unwrap_or_default();
        let mut processes = JobProcesses { rank_variable, rank, job, size, here, daemon: None };
        processes.daemon = processes.daemon();
        processes
    }

    /// Returns the name of this process in messages.
    pub(crate) fn me(&self) -> String {
        format!("rank {}", self.rank)
    }

    /// Returns the name of all ranks in messages.
    pub(crate) fn everybody(&self) -> String {
        self.size.map_or("all ranks".to_owned(), |size| format!("all {size} ranks"))
    }

    /// Returns a name on which the processes of this job and machine agree, and no others.
    pub(crate) fn name(&self) -> String {
        let job = self.job.1.as_deref().unwrap_or_default();
        format!("farside-start-{job}-{}", self.daemon.unwrap_or_else(std::process::id))
    }

    /// Looks for the ranks of this machine, as far as they can be seen.
    pub(crate) fn census(&self) -> Option<Census> {
        let daemon = self.daemon?;
        let mut census = Census { present: BTreeSet::new(), is_growing: false };
        let program = program(daemon);
        for process in
            processes().into_iter().filter(|process| process.parent == daemon && !process.is_dead)
        {
            match self.rank_of(process.pid) {
                Some(rank) => _ = census.present.insert(rank),
                // A copy of the daemon that has not become a rank yet, or a process that may not be
                // looked at, or has written over what could be seen.
                None => {
                    census.is_growing |= self::program(process.pid)
                        .is_none_or(|own| Some(own) == program)
                        || environment(process.pid).is_none_or(|bytes| is_overwritten(&bytes))
                }
            }
        }
        Some(census)
    }

    /// Describes the ranks that were gone at an earlier look and are gone still. Ranks that have
    /// ended since then may have given up for the same reason, and are not named.
    pub(crate) fn gone_for_good(&self, before: &Census, now: &Census) -> Option<String> {
        let has_come = !now.present.is_subset(&before.present);
        if has_come || now.is_growing { None } else { self.gone(before) }
    }

    /// Describes the ranks that were started here and are gone.
    pub(crate) fn gone(&self, census: &Census) -> Option<String> {
        let missing = self.missing(census)?;
        match (&missing[..], self.size) {
            _ if census.is_growing => None,
            ([], _) => None,
            (_, Some(size)) if self.here == Some(size) => {
                let missing = missing.into_iter().collect();
                Some(format!(
                    "{} gone: the launcher has no such process on this machine any more",
                    ranks_are(&missing)
                ))
            }
            _ => Some(format!(
                "of the {} ranks of this machine, {} are gone",
                self.here?,
                missing.len()
            )),
        }
    }

    pub(crate) fn describe(&self, census: &Census) -> String {
        match self.gone(census) {
            Some(gone) => gone,
            None => match census.present.len() {
                1 => "1 rank of it runs on this machine".to_owned(),
                ranks => format!("{ranks} ranks of it run on this machine"),
            },
        }
    }

    /// The ranks of this machine that are not there; their numbers mean nothing unless all ranks
    /// are here.
    fn missing(&self, census: &Census) -> Option<Vec<u32>> {
        let (here, present) = (self.here?, &census.present);
        if self.size == Some(here) {
            return Some((0..here).filter(|rank| !present.contains(rank)).collect());
        }
        Some((present.len() as u32..here).collect())
    }

    /// The nearest ancestor of this process that is not the same rank: wrappers and shells are.
    fn daemon(&self) -> Option<u32> {
        let mut pid = std::process::id();
        for _ in 0..100 {
            let parent = process(pid)?.parent;
            // The first process of all adopts, and starts no ranks.
            if parent <= 1 {
                return None;
            }
            if self.variable(parent, self.rank_variable).as_ref() != Some(&self.rank)
                || !self.is_of_job(parent)
            {
                return Some(parent);
            }
            pid = parent;
        }
        None
    }

    fn rank_of(&self, pid: u32) -> Option<u32> {
        let rank = number(self.variable(pid, self.rank_variable));
        rank.filter(|_| self.is_of_job(pid))
    }

    fn is_of_job(&self, pid: u32) -> bool {
        self.variable(pid, self.job.0) == self.job.1
    }

    /// A variable of another process, as it was started.
    fn variable(&self, pid: u32, name: &str) -> Option<String> {
        let environment = environment(pid)?;
        let mut variables = environment.split(|&byte| byte == 0);
        let value =
            variables.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        Some(String::from_utf8_lossy(value).into_owned()).filter(|value| !value.is_empty())
    }
}

/// Reads the description of a Slurm step: its tasks, and those of this node if it is the only one.
fn of_slurm(environment: Environment<'_>) -> (Option<u32>, Option<u32>) {
    let tasks = number(environment("SLURM_STEP_NUM_TASKS"));
    (tasks, tasks.filter(|_| number(environment("SLURM_STEP_NUM_NODES")) == Some(1)))
}

fn number(text: Option<String>) -> Option<u32> {
    text?.parse().ok()
}

struct Process {
    pid: u32,
    parent: u32,
    is_dead: bool,
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, in which anything may stand: the state, and the parent.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    Some(Process { pid, parent: fields.next()?.parse().ok()?, is_dead: matches!(state, "Z" | "X") })
}

fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Returns whether a process has put something else where its environment was, as `setproctitle`
/// does with a title: it begins with no variable then.
fn is_overwritten(environment: &[u8]) -> bool {
    !environment.split(|&byte| byte == 0).next().is_some_and(|first| first.contains(&b'='))
}

fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// A list of ranks as a sentence has it, with its verb: `rank 1 is`, `ranks 1, 3 are`.
pub(crate) fn ranks_are(ranks: &BTreeSet<u32>) -> String {
    let words: Vec<String> = ranks.iter().map(u32::to_string).collect();
    match words.as_slice() {
        [one] => format!("rank {one} is"),
        several => format!("ranks {} are", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(size: Option<u32>, here: Option<u32>) -> JobProcesses {
        JobProcesses::new("NO_SUCH_RANK", Some("0".into()), ("NO_SUCH_JOB", None), size, here)
    }

    fn census(present: &[u32]) -> Census {
        Census { present: present.iter().copied().collect(), is_growing: false }
    }

    #[test]
    fn who_is_missing_is_named_where_all_ranks_are_here() {
        let processes = processes(Some(4), Some(4));
        assert_eq!(processes.gone(&census(&[0, 1, 2, 3])), None);
        assert!(processes.gone(&census(&[0, 2, 3])).unwrap().starts_with("rank 1 is gone"));
        assert!(processes.gone(&census(&[2])).unwrap().starts_with("ranks 0, 1, 3 are gone"));
        assert_eq!(processes.gone(&Census { is_growing: true, ..census(&[0]) }), None);
    }

    #[test]
    fn who_is_missing_is_counted_where_some_ranks_are_elsewhere() {
        let processes = processes(Some(8), Some(4));
        assert_eq!(processes.gone(&census(&[4, 5, 6, 7])), None);
        assert_eq!(
            processes.gone(&census(&[4, 7])).unwrap(),
            "of the 4 ranks of this machine, 2 are gone"
        );
    }

    #[test]
    fn who_gives_up_because_of_another_is_not_named() {
        let processes = processes(Some(4), Some(4));
        let gone =
            |before: &[u32], now: &[u32]| processes.gone_for_good(&census(before), &census(now));
        assert!(gone(&[0, 2, 3], &[2, 3]).unwrap().starts_with("rank 1 is gone"));
        assert_eq!(gone(&[0, 1, 2, 3], &[2, 3]), None);
        // The launcher has not started all of them yet.
        assert_eq!(gone(&[0, 1], &[0, 1, 2]), None);
    }

    #[test]
    fn nothing_is_concluded_from_an_environment_that_is_overwritten() {
        assert!(!is_overwritten(b"PATH=/bin\0PMI_RANK=3\0"));
        // What a title has left of it, and a title that was shorter.
        assert!(is_overwritten(b"step 17\0\0\0PMI_RANK=3\0"));
        assert!(is_overwritten(b"\0\0\0\0"));
        assert!(is_overwritten(b""));
    }

    #[test]
    fn nothing_is_concluded_from_nothing() {
        assert_eq!(processes(Some(4), None).gone(&census(&[0])), None);
        assert_eq!(processes(None, None).gone(&census(&[])), None);
    }

    #[test]
    fn the_parent_is_who_has_started_this_process() {
        let parent = process(std::process::id()).map(|process| process.parent);
        assert_eq!(processes(None, None).daemon, parent.filter(|&parent| parent > 1));
    }
}
