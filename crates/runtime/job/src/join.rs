//! Joining a job: how a process becomes a rank.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Once};

use farside_fabric::{Connection, Error, PeerState, Rank, Result};
use farside_rma::World;

use crate::enter::enter;
use crate::entry::Entry;
use crate::exchange::Exchange;
use crate::wrapped::tell_launcher;
use crate::{
    FABRIC, FILE, Host, Kind, Options, RANK, assembly, environment, is_of_farside, variable,
};

/// Joins the job that this process was started for, or, if it was started without a launcher, a job
/// of one rank.
///
/// Launchers are `farside run`, and those of clusters that speak PMIx, PMI-2 or PMI-1: `mpirun`,
/// `mpiexec`, `srun --mpi=pmix`. Under the latter the end of the world of a node's first rank waits
/// for the others where there are several nodes, as the end of an MPI program does.
///
/// ```
/// let world = farside_job::join()?;
/// assert_eq!(world.size(), 1);
/// # Ok::<(), farside_fabric::Error>(())
/// ```
pub fn join() -> Result<World> {
    World::new(connect()?)
}

/// Joins a job whose processes another runtime has started, which exchanges bytes among them: for
/// programs that are started by neither `farside run` nor a launcher that [`join`] knows. All
/// processes call it, each as its rank.
pub fn join_with(exchange: Box<dyn Exchange>) -> Result<World> {
    Entry::check_joining()?;
    World::new(checked(faulty(assembly::join_with(exchange)?)?)?)
}

/// The connection under [`join`], for programs that decorate it before they build a [`World`] over
/// it.
pub fn connect() -> Result<Box<dyn Connection>> {
    checked(faulty(connect_unchecked()?)?)
}

/// Lets the call fail that a test names, where the library was built for tests.
fn faulty(connection: Box<dyn Connection>) -> Result<Box<dyn Connection>> {
    #[cfg(feature = "faults")]
    if let Some(faults) = crate::faults::Faults::from_environment()? {
        return Ok(faults.over(connection));
    }
    Ok(connection)
}

/// Puts the checker of races, if the launcher has made one, in front of a connection.
#[cfg(feature = "races")]
pub fn checked(connection: Box<dyn Connection>) -> Result<Box<dyn Connection>> {
    match farside_races::Checker::from_environment()? {
        Some(checker) => checker.over(connection),
        None => Ok(connection),
    }
}

/// Fails if the launcher has made a checker of races: this program has no code for it.
#[cfg(not(feature = "races"))]
pub fn checked(connection: Box<dyn Connection>) -> Result<Box<dyn Connection>> {
    match variable(crate::RACES) {
        Some(_) => Err(Error::Join(
            "`--races` cannot check this program: it was built without the feature `races` of the \
             crate `farside`. Build it with that feature, or run it without `--races`"
                .to_owned(),
        )),
        None => Ok(connection),
    }
}

fn connect_unchecked() -> Result<Box<dyn Connection>> {
    Entry::check_joining()?;
    if !is_of_farside()
        && let Some(launcher) =
            crate::pmi::recognise(&variable).map_err(|error| Error::Join(error.to_string()))?
    {
        return assembly::join(&launcher);
    }
    if !is_of_farside() {
        environment::warn_of_own();
        // A job of one rank uses no fabric; an unknown name is refused all the same.
        Kind::from_environment()?;
        return Host::create(&Options::new(1)?)?.connect(Rank(0));
    }
    let kind = value(FABRIC)?.parse()?;
    let (rank, file) = (Rank(number(RANK)?), number(FILE)?);
    tell_launcher(rank);
    enter(kind, farside_shm::Job::attach(inherited(file)?)?, rank, None)
}

/// Says on standard error, once for a job, that the program makes a job of its own instead of
/// joining the one that `farside run` has started it for.
pub fn warn_of_own_job() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        if let Some(job) = not_joined() {
            eprintln!(
                "farside: no rank has joined the job: the program makes one of its own with \
                 `farside::local`, and runs {} times by itself. Start it without `farside run`, or \
                 have it join, by `#[farside::main]` or `farside::join`",
                job.ranks()
            );
        }
    });
}

/// Returns the job that this process was started for as its first rank, unless it has joined.
fn not_joined() -> Option<Arc<farside_shm::Job>> {
    let number = |name| variable(name).and_then(|text| text.parse::<u32>().ok());
    let (rank, file) = (Rank(number(RANK)?), number(FILE)?);
    // SAFETY: the number is borrowed just long enough to be duplicated; if it is not open, that
    // fails.
    let file = unsafe { BorrowedFd::borrow_raw(file as RawFd) };
    let job = farside_shm::Job::watch(file.try_clone_to_owned().ok()?).ok()?;
    (rank == Rank(0) && job.peer_state(rank) == PeerState::Starting).then_some(job)
}

/// Reads a variable that `farside run` sets for each of its ranks.
fn value(name: &str) -> Result<String> {
    variable(name).ok_or_else(|| {
        Error::Join(format!(
            "{name} is not set, but {} is: `farside run` sets {FABRIC}, {RANK} and {FILE}. To run \
             this program alone, unset all of them",
            [RANK, FILE].iter().find(|other| variable(other).is_some()).unwrap_or(&RANK)
        ))
    })
}

fn number(name: &str) -> Result<u32> {
    let text = value(name)?;
    text.parse().map_err(|_| {
        Error::Join(format!("{name}={text:?} is not a number; it is set by `farside run`"))
    })
}

/// A copy of the file that the launcher handed over. The number itself stays open, and so a second
/// attempt to join is told that the rank has joined, instead of meeting whatever file has that
/// number by then.
fn inherited(number: u32) -> Result<OwnedFd> {
    let bad = |error: std::io::Error| {
        Error::Join(format!(
            "the job's file, number {number}, is not open here ({error}); does a wrapper close \
             inherited files?"
        ))
    };
    // SAFETY: the number is borrowed just long enough to be duplicated; if it is not open, that
    // fails.
    let file = unsafe { BorrowedFd::borrow_raw(number as RawFd) };
    let copy = file.try_clone_to_owned().map_err(bad)?;
    // Programs that this one starts are no ranks.
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC)
        .map_err(|errno| bad(errno.into()))?;
    Ok(copy)
}
