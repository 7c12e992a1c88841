//! The entry of a program: `#[farside::main]`, and the function behind it.
//!
//! ```no_run
//! use farside::World;
//!
//! #[farside::main]
//! fn main(world: &World) -> farside::Result<()> {
//!     world.barrier()
//! }
//! ```
//!
//! Such a program is started in any of these ways, without being built anew:
//!
//! - `farside run -n 4 PROGRAM`, or by another launcher: each process is a rank;
//! - `farside run -n 4 --threads PROGRAM`: one process, whose threads are the ranks;
//! - `farside run -n 4 --sim aries-xc30 PROGRAM`: one process that simulates the ranks in virtual
//!   time (with the feature `sim`);
//! - `farside check PROGRAM --ranks 3`: one process that tries every schedule of the ranks (see
//!   `check`; with the feature `sim`);
//! - `PROGRAM` alone: a job of one rank.
//!
//! `--trace FILE` records the operations of all ranks in the first three. An error that the
//! function returns is printed on standard error, with the call that returned it, and the exit
//! status is 1.
//!
//! The process has joined the job before the function is called. One that then ends by
//! `std::process::exit`, as parsers of arguments do for `--help`, has not left the job, and
//! `farside run` counts that as a failure. A program that may end so calls [`run`] from an ordinary
//! `main`, when it has read its arguments:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     if std::env::args().any(|argument| argument == "--help") {
//!         println!("usage: PROGRAM [--help]");
//!         std::process::exit(0);
//!     }
//!     farside::entry::run(|world: &farside::World| world.barrier())
//! }
//! ```

use std::any::Any;
use std::error::Error as StdError;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use farside_fabric::text::say;
use farside_fabric::tracing::Trace;
use farside_fabric::{Connection, Error, Result, Topology};
use farside_job::{Entry, Options, Recording, RunAs};
use farside_rma::World;

use crate::Local;

/// What a program's main function may return: nothing, or a [`Result`] with any error that can be
/// shown.
pub trait MainResult {
    /// Returns the error, if it is one.
    fn into_result(self) -> Result<()>;
}

impl MainResult for () {
    fn into_result(self) -> Result<()> {
        Ok(())
    }
}

impl<E: Display + 'static> MainResult for std::result::Result<(), E> {
    fn into_result(self) -> Result<()> {
        self.map_err(|error| match of_farside(&error) {
            // It may say that another rank is lost, in which case that rank's error counts.
            Some(error) => error.clone(),
            None => Error::Program(with_sources(&error)),
        })
    }
}

/// The text of an error, with those that it comes from. An error that is no error of the standard
/// library shows them itself, if at all.
fn with_sources(error: &(impl Display + 'static)) -> String {
    let mut text = format!("{error:#}");
    let mut source = boxed(error).and_then(StdError::source);
    while let Some(error) = source {
        let said = error.to_string();
        // Many say already what they come from.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = error.source();
    }
    text
}

/// Returns what is boxed, if an error is a box.
fn boxed(error: &dyn Any) -> Option<&(dyn StdError + 'static)> {
    let plain = || error.downcast_ref::<Box<dyn StdError>>().map(|error| &**error);
    let sendable = error.downcast_ref::<Box<dyn StdError + Send + Sync>>();
    sendable.map(|error| &**error as &(dyn StdError + 'static)).or_else(plain)
}

/// Returns the error of farside that an error is, or that it boxes.
fn of_farside(error: &dyn Any) -> Option<&Error> {
    error.downcast_ref().or_else(|| boxed(error)?.downcast_ref())
}

/// Runs a program on the ranks that its launcher asked for, and returns the exit status. It is what
/// `#[farside::main]` expands to, for programs that have more to do before they have a world.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     let greeting = "I am"; // read from the command line, perhaps
///     farside::entry::run(move |world| println!("{greeting} {}", world.rank()))
/// }
/// ```
pub fn run<R: MainResult>(program: impl Fn(&World) -> R + Send + Sync + 'static) -> ExitCode {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let noted = failures.clone();
    let tried = try_run(move |world| {
        program(world).into_result().map_err(|error| {
            let whose =
                if world.size() > 1 { format!("{}: ", world.rank()) } else { String::new() };
            let call = world.failed_call(&error);
            // Also if the program's own error tells of it, the loss of another rank is one.
            let lost =
                call.as_ref().map(|call| call.error()).filter(|own| own.lost_rank().is_some());
            let error = lost.cloned().unwrap_or(error);
            let call = call.map_or(String::new(), |call| format!(" ({call})"));
            lock(&noted).push((error.clone(), whose, call));
            error
        })
    });
    match tried {
        Ok(status) => status,
        Err(error) => {
            let failures = lock(&failures);
            let failure = failures.iter().find(|(other, ..)| *other == error);
            let (whose, call) = failure.map_or(("", ""), |(_, whose, call)| (whose, call));
            say(format_args!("error: {whose}{error}{call}"));
            ExitCode::FAILURE
        }
    }
}

/// Takes a list of failures; a rank that panicked meanwhile has left it whole.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program as a rank. A rank whose program fails by itself does not leave in order.
pub(crate) fn run_rank<R>(world: &World, program: impl Fn(&World) -> Result<R>) -> Result<R> {
    program(world).inspect_err(|error| {
        if error.lost_rank().is_none() {
            world.note_failure();
        }
    })
}

/// Like [`run`], for programs that show errors themselves.
pub fn try_run(program: impl Fn(&World) -> Result<()> + Send + Sync + 'static) -> Result<ExitCode> {
    let Some(entry) = Entry::from_environment()? else {
        run_rank(&crate::join()?, program)?;
        return Ok(ExitCode::SUCCESS);
    };
    entry.take()?;
    match &entry.run_as {
        RunAs::Threads(options) => threads(&entry, options, program),
        #[cfg(feature = "sim")]
        RunAs::Simulated(job) => simulated::run(&entry, job, program),
        #[cfg(feature = "sim")]
        RunAs::Explored(explored) => crate::check::explore_entry(&entry, explored, program),
        #[cfg(not(feature = "sim"))]
        RunAs::Simulated(_) | RunAs::Explored(_) => Err(Error::InvalidSetting(
            "this program was built without the simulator: build it with the feature `sim` of \
             farside, or start it without --sim"
                .into(),
        )),
    }
}

fn threads(
    entry: &Entry,
    options: &Options,
    program: impl Fn(&World) -> Result<()> + Send + Sync,
) -> Result<ExitCode> {
    let recorder = Arc::new(Recorder::new(entry));
    let over = recorder.clone();
    Local::with_options(options.clone()).decorate(move |fabric| over.over(fabric)).run(
        |world| {
            recorder.notice(world);
            run_rank(world, &program)
        },
    )?;
    recorder.finish()
}

/// A recording, if one was asked for. It reaches the launcher even if the program fails or panics.
struct Recorder {
    entry: Entry,
    topology: OnceLock<Topology>,
    trace: Trace,
}

impl Recorder {
    fn new(entry: &Entry) -> Recorder {
        Recorder { entry: entry.clone(), topology: OnceLock::new(), trace: Trace::new(now_ns) }
    }

    fn over(&self, fabric: Box<dyn Connection>) -> Box<dyn Connection> {
        if self.entry.records { self.trace.over(fabric) } else { fabric }
    }

    fn notice(&self, world: &World) {
        self.topology.get_or_init(|| world.topology().clone());
    }

    fn finish(&self) -> Result<ExitCode> {
        if let Some(topology) = self.topology.get().filter(|_| self.entry.records) {
            let (topology, slices) = (topology.clone(), self.trace.take());
            self.entry.record(&Recording::new(topology, slices))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Only a program that fails has anything left here, and its error is the one to be told.
        let _ = self.finish();
    }
}

/// Returns the time of a clock that all processes of a machine share.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(feature = "sim")]
mod simulated {
    use std::panic::AssertUnwindSafe;
    use std::process::ExitCode;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use farside_fabric::Result;
    use farside_job::{Entry, Recording, Simulated};
    use farside_rma::World;

    use crate::sim::{Profile, Virtual};

    /// The exit status of a program that panics.
    const PANICKED: u8 = 101;

    pub(super) fn run(
        entry: &Entry,
        job: &Simulated,
        program: impl Fn(&World) -> Result<()> + 'static,
    ) -> Result<ExitCode> {
        let mut profile = Profile::load(&job.profile)?;
        if let Some(server) = &job.server {
            profile = profile.served_by(server)?;
        }
        let mut machine = Virtual::new(&profile, job.ranks)?.seed(job.seed);
        if let Some(topology) = &job.topology {
            machine = machine.topology(topology)?;
        }
        if entry.records {
            machine = machine.traced();
        }
        let panicked = Arc::new(AtomicBool::new(false));
        let noticed = panicked.clone();
        let outcome = machine.run(move |world| {
            let result = std::panic::catch_unwind(AssertUnwindSafe(|| program(world)));
            result.unwrap_or_else(|panic| {
                // The simulator unwinds the ranks that are left when one has failed, with a payload
                // of its own; a panic has a message.
                if panic.is::<String>() || panic.is::<&str>() {
                    noticed.store(true, Ordering::Relaxed);
                }
                std::panic::resume_unwind(panic)
            })
        });
        if panicked.load(Ordering::Relaxed) {
            // The message is on standard error, as that of any panic.
            return Ok(ExitCode::from(PANICKED));
        }
        let outcome = outcome?;
        entry.summarize(&machine.summary(&outcome.timing))?;
        if entry.records {
            let (topology, slices) = (outcome.topology, outcome.timing.slices);
            entry.record(&Recording::new(topology, slices))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_farside_are_found_in_their_boxes() {
        let lost = || Error::Join("no job".into());
        let plain: std::result::Result<(), Error> = Err(lost());
        let boxed: std::result::Result<(), Box<dyn StdError>> = Err(lost().into());
        let sendable: std::result::Result<(), Box<dyn StdError + Send + Sync>> = Err(lost().into());
        for result in [plain.into_result(), boxed.into_result(), sendable.into_result()] {
            assert_eq!(result, Err(lost()));
        }
        let text: std::result::Result<(), String> = Err("42 is odd".into());
        assert_eq!(text.into_result().unwrap_err().to_string(), "42 is odd");
        assert_eq!(().into_result(), Ok(()));
    }

    #[test]
    fn without_a_launcher_a_program_is_one_rank() {
        let status = try_run(|world| {
            assert_eq!(world.size(), 1);
            world.barrier()
        });
        assert_eq!(format!("{:?}", status.unwrap()), format!("{:?}", ExitCode::SUCCESS));
    }
}
