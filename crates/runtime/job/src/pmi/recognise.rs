//! The launcher of this process, read from the environment: an environment that is half set is an
//! error, and no reason to guess.

use std::rc::Rc;
use std::time::Duration;

use crate::pmi::channel::Channel;
use crate::pmi::pmi1::Pmi1;
use crate::pmi::pmi2::Pmi2;
use crate::pmi::pmix::Pmix;
use crate::pmi::siblings::JobProcesses;
use crate::pmi::{Error, PMIX_LIBRARY, PROTOCOL, Result, Session, StartDeadline};

/// Numbers of steps from here on stand for the batch script, for shells of `salloc` and the like.
const STEPS_MAX: u32 = 0xffff_fff0;

/// Looks a variable up; one that is empty is not set.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A launcher that has started this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Launcher {
    /// It speaks PMI-1 over an inherited socket.
    Pmi1 {
        /// The number of the socket.
        socket: i32,
        /// The rank of this process.
        rank: u32,
        /// Of how many.
        size: u32,
    },
    /// It speaks PMI-2 over an inherited socket.
    Pmi2 {
        /// The number of the socket.
        socket: i32,
        /// The launcher's name of the job.
        job: String,
        /// The rank of this process.
        rank: u32,
    },
    /// It has a PMIx server.
    Pmix {
        /// The path of the library, if the user has set it.
        library: Option<String>,
    },
}

/// The launcher that has started this process; none if it was started alone.
pub(crate) fn recognise(environment: Environment<'_>) -> Result<Option<Launcher>> {
    let wanted = environment(PROTOCOL);
    match wanted.as_deref() {
        None => {}
        Some("none") => return Ok(None),
        Some("pmix") => return pmix(environment).map(Some),
        Some("pmi1") => return pmi1(environment).map(Some),
        Some("pmi2") => return pmi2(environment).map(Some),
        Some(other) => {
            return Err(Error(format!("{PROTOCOL}={other:?}: expected pmi1, pmi2, pmix or none")));
        }
    }
    if ["PMIX_NAMESPACE", "PMIX_RANK"].iter().any(|name| environment(name).is_some()) {
        return pmix(environment).map(Some);
    }
    if environment("PMI_FD").is_some() {
        // Slurm's plugin is the one that gives a job a name.
        let of_slurm = environment("PMI_JOBID").is_some() && environment("SLURM_JOB_ID").is_some();
        return if of_slurm { pmi2(environment) } else { pmi1(environment) }.map(Some);
    }
    if environment("PMI_PORT").is_some() {
        return Err(Error(
            "PMI_PORT is set, but PMI_FD is not: this launcher was told to use a port instead of a \
             socket; start it without -pmi-port".into(),
        ));
    }
    if let Some(name) = ["PMI_RANK", "PMI_SIZE"].iter().find(|name| environment(name).is_some()) {
        return Err(Error(format!(
            "{name} is set, but PMI_FD is not: a launcher has started this program, but has not \
             given it a connection; to run it alone, unset {name} or set {PROTOCOL}=none"
        )));
    }
    refuse_bare_slurm(environment)?;
    Ok(None)
}

/// Refuses tasks of one step that know nothing of each other: hardly what the user wanted.
fn refuse_bare_slurm(environment: Environment<'_>) -> Result<()> {
    let number = |name: &str| environment(name).and_then(|text| text.parse::<u32>().ok());
    let task = number("SLURM_PROCID");
    // A batch script is task 0, and so is a shell of salloc; neither is in a step that has a number
    // of its own. A program that they start finds the number of tasks of the job, and is none of
    // them.
    let is_in_step = task.is_some_and(|task| task > 0)
        || number("SLURM_STEP_ID").is_some_and(|step| step < STEPS_MAX);
    let (name, tasks) = match number("SLURM_STEP_NUM_TASKS") {
        Some(tasks) => ("SLURM_STEP_NUM_TASKS", tasks),
        None => ("SLURM_NTASKS", number("SLURM_NTASKS").filter(|_| is_in_step).unwrap_or(1)),
    };
    match task {
        Some(task) if tasks > 1 => Err(Error(format!(
            "this is task {task} of {tasks} (SLURM_PROCID, {name}), but srun was not told how its \
             tasks meet: start \
             it with `srun --mpi=pmix` or `srun --mpi=pmi2`. To run each task alone, set \
             {PROTOCOL}=none"
        ))),
        _ => Ok(()),
    }
}

fn pmix(environment: Environment<'_>) -> Result<Launcher> {
    let set = |name: &str| environment(name).is_some();
    for (there, missing) in [("PMIX_RANK", "PMIX_NAMESPACE"), ("PMIX_NAMESPACE", "PMIX_RANK")] {
        if !set(missing) {
            let why = if set(there) { format!("{there} is set, but ") } else { String::new() };
            return Err(Error(format!(
                "{why}{missing} is not: a PMIx launcher (mpirun, prterun, srun --mpi=pmix) sets \
                 both. To run this program alone, unset them or set {PROTOCOL}=none"
            )));
        }
    }
    Ok(Launcher::Pmix { library: environment(PMIX_LIBRARY) })
}

fn pmi1(environment: Environment<'_>) -> Result<Launcher> {
    let (rank, size): (u32, u32) =
        (number(environment, "PMI_RANK")?, number(environment, "PMI_SIZE")?);
    if rank >= size {
        return Err(Error(format!("PMI_RANK={rank} is not below PMI_SIZE={size}")));
    }
    Ok(Launcher::Pmi1 { socket: number(environment, "PMI_FD")?, rank, size })
}

fn pmi2(environment: Environment<'_>) -> Result<Launcher> {
    let job = environment("PMI_JOBID").unwrap_or_default();
    Ok(Launcher::Pmi2 {
        socket: number(environment, "PMI_FD")?,
        job,
        rank: number(environment, "PMI_RANK")?,
    })
}

fn number<N: std::str::FromStr>(environment: Environment<'_>, name: &str) -> Result<N> {
    let text = environment(name).ok_or_else(|| {
        Error(format!(
            "PMI_FD, PMI_RANK and PMI_SIZE belong together, but {name} is not set; to run this \
             program alone, unset them or set {PROTOCOL}=none"
        ))
    })?;
    text.parse()
        .map_err(|_| Error(format!("{name}={text:?} is not a number; it is set by the launcher")))
}

impl std::fmt::Display for Launcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Launcher::Pmi1 { rank, size, .. } => {
                write!(f, "a launcher that speaks PMI-1, as rank {rank} of {size}")
            }
            Launcher::Pmi2 { rank, .. } => {
                write!(f, "a launcher that speaks PMI-2, as rank {rank}")
            }
            Launcher::Pmix { .. } => write!(f, "a launcher that speaks PMIx"),
        }
    }
}

impl Launcher {
    /// A start that begins now and may take this long, which users change with this variable.
    pub(crate) fn start_deadline(
        &self,
        limit: Duration,
        variable: &'static str,
        environment: Environment<'_>,
    ) -> Rc<StartDeadline> {
        let processes = match self {
            Launcher::Pmi1 { .. } | Launcher::Pmi2 { .. } => JobProcesses::of_pmi(environment),
            Launcher::Pmix { .. } => JobProcesses::of_pmix(environment),
        };
        StartDeadline::new(limit, variable, processes)
    }

    /// Begins to talk to it. All that is said to it together may take as long as the start may: a
    /// fence takes as long as the slowest process takes to come.
    pub(crate) fn open(&self, deadline: &Rc<StartDeadline>) -> Result<Box<dyn Session>> {
        let session: Box<dyn Session> = match self {
            Launcher::Pmi1 { socket, rank, size } => {
                Box::new(Pmi1::open(Channel::inherited(*socket, deadline)?, *rank, *size)?)
            }
            Launcher::Pmi2 { socket, job, rank } => {
                Box::new(Pmi2::open(Channel::inherited(*socket, deadline)?, job, *rank)?)
            }
            Launcher::Pmix { library } => Box::new(Pmix::open(library.as_deref(), deadline)?),
        };
        check(session.rank(), session.size())?;
        Ok(session)
    }
}

/// Whatever a launcher says: there is a rank, and it is one of the job's.
fn check(rank: u32, size: u32) -> Result<()> {
    if rank < size {
        return Ok(());
    }
    Err(Error(format!("the launcher says that this process is rank {rank} of {size}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn open_pmi2(answers: &[&str]) -> (Result<Box<dyn Session>>, UnixStream) {
        let (mut launcher, own) = UnixStream::pair().unwrap();
        launcher.write_all(b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n").unwrap();
        for answer in answers {
            launcher.write_all(format!("{:6}{answer}", answer.len()).as_bytes()).unwrap();
        }
        let deadline = StartDeadline::unseen(Duration::from_secs(30), "LIMIT", 0, 2);
        let found = Launcher::Pmi2 { socket: own.as_raw_fd(), job: "7.0".into(), rank: 0 };
        (found.open(&deadline), launcher)
    }

    #[test]
    fn a_rank_that_the_job_does_not_have_is_an_error() {
        let greeting = |rank: &str| format!("cmd=fullinit-response;rank={rank};size=2;rc=0;");
        let rank = |rank: &str| open_pmi2(&[&greeting(rank)]).0.map(|session| session.rank());
        assert_eq!(rank("1"), Ok(1));
        for (name, error) in ["2", "4294967295"].map(|name| (name, rank(name).unwrap_err())) {
            assert!(error.to_string().contains(&format!("rank {name} of 2")), "{error}");
        }
    }

    #[test]
    fn an_error_does_not_show_what_was_put() {
        let greeting = "cmd=fullinit-response;rank=0;size=2;rc=0;";
        let refusal = "cmd=kvs-put-response;rc=1;";
        let (session, _launcher) = open_pmi2(&[greeting, refusal]);
        let mut session = session.map_err(|error| error.0).expect("a session");
        let error = session.put("plan", "secret").unwrap_err().to_string();
        assert!(error.contains("plan") && !error.contains("secret"), "{error}");
    }

    fn found(variables: &[(&str, &str)]) -> Result<Option<Launcher>> {
        recognise(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn refused(variables: &[(&str, &str)]) -> String {
        found(variables).unwrap_err().to_string()
    }

    #[test]
    fn each_launcher_is_told_from_what_it_sets() {
        assert_eq!(found(&[]), Ok(None));
        let hydra = [("PMI_FD", "6"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        assert_eq!(found(&hydra), Ok(Some(Launcher::Pmi1 { socket: 6, rank: 1, size: 2 })));
        let slurm = [
            ("PMI_FD", "6"),
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
            ("PMI_JOBID", "7.0"),
            ("SLURM_JOB_ID", "7"),
        ];
        assert_eq!(
            found(&slurm),
            Ok(Some(Launcher::Pmi2 { socket: 6, job: "7.0".into(), rank: 1 }))
        );
        let open_mpi = [("PMIX_NAMESPACE", "1.0"), ("PMIX_RANK", "0")];
        assert_eq!(found(&open_mpi), Ok(Some(Launcher::Pmix { library: None })));
        assert_eq!(found(&[open_mpi[0], open_mpi[1], (PROTOCOL, "none")]), Ok(None));
        assert!(matches!(
            found(&[hydra[0], hydra[1], hydra[2], (PROTOCOL, "pmi2")]),
            Ok(Some(Launcher::Pmi2 { .. }))
        ));
    }

    #[test]
    fn what_is_half_set_is_named() {
        assert!(refused(&[("PMIX_RANK", "0")]).contains("PMIX_NAMESPACE is not"));
        assert!(refused(&[("PMIX_NAMESPACE", "x")]).contains("PMIX_RANK is not"));
        assert!(refused(&[("PMI_FD", "6"), ("PMI_RANK", "0")]).contains("PMI_SIZE is not set"));
        assert!(
            refused(&[("PMI_FD", "six"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")])
                .contains("PMI_FD=\"six\"")
        );
        assert!(
            refused(&[("PMI_FD", "6"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")])
                .contains("PMI_RANK=2")
        );
        assert!(refused(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]).contains("PMI_FD is not"));
        assert!(refused(&[("PMI_PORT", "h:1"), ("PMI_ID", "0")]).contains("-pmi-port"));
        assert!(refused(&[(PROTOCOL, "pmi3")]).contains("pmi3"));
        assert!(refused(&[(PROTOCOL, "pmix")]).contains("PMIX_NAMESPACE"));
    }

    #[test]
    fn tasks_that_could_not_meet_are_not_taken_for_jobs_of_one() {
        let step = [("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "8")];
        assert!(refused(&step).contains("srun --mpi=pmi2"));
        assert_eq!(found(&[step[0], ("SLURM_STEP_NUM_TASKS", "1")]), Ok(None));
        assert!(refused(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4")]).contains("task 1 of 4"));
        let first = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
        assert!(refused(&[first[0], first[1], ("SLURM_STEP_ID", "0")]).contains("task 0 of 4"));
        // The environment of a batch script or a shell of salloc, which start this program without
        // srun.
        assert_eq!(found(&first), Ok(None));
        assert_eq!(found(&[first[0], first[1], ("SLURM_STEP_ID", "4294967290")]), Ok(None));
        assert_eq!(found(&[first[1]]), Ok(None));
    }
}
