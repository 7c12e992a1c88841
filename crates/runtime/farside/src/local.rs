//! Ranks as threads of this process.

use std::panic::AssertUnwindSafe;

use farside_fabric::{Connection, Error, ExitCause, Rank, Result};
use farside_job::{Host, Kind, Options};
use farside_rma::World;

use crate::entry::run_rank;

/// Runs `program` on `ranks` ranks that are threads of this process, and returns what each of them
/// returned, in order.
///
/// A rank that returns an error, or panics, is lost for the others: whatever they wait for returns
/// an error. The error of the first rank that failed by itself is returned; a panic is passed on.
///
/// ```
/// let squares = farside::local(4, |world| Ok(world.rank().0.pow(2)))?;
/// assert_eq!(squares, [0, 1, 4, 9]);
/// # Ok::<(), farside::Error>(())
/// ```
pub fn local<R: Send>(ranks: u32, program: impl Fn(&World) -> Result<R> + Sync) -> Result<Vec<R>> {
    Local::new(ranks)?.run(program)
}

/// Like [`local`], with more to choose.
pub struct Local {
    options: Options,
    decorate: Option<Box<Decorate>>,
    /// Whether the job is the launcher's own, whose checker of races, if there is one, sees it.
    is_launchers: bool,
}

type Decorate = dyn Fn(Box<dyn Connection>) -> Box<dyn Connection> + Send + Sync;

impl Local {
    /// A job of so many threads.
    pub fn new(ranks: u32) -> Result<Local> {
        Ok(Local { options: Options::new(ranks)?, decorate: None, is_launchers: false })
    }

    pub(crate) fn with_options(options: Options) -> Local {
        Local { options, decorate: None, is_launchers: true }
    }

    /// Pretends that the ranks are arranged like this: `node:2,socket:2`.
    #[must_use]
    pub fn topology(mut self, description: &str) -> Local {
        self.options.topology = Some(description.to_owned());
        self
    }

    /// Divides the ranks into so many nodes that reach each other over a network only: UDP, or what
    /// [`BETWEEN_NODES`](farside_job::BETWEEN_NODES) names.
    ///
    /// ```
    /// let sums = farside::Local::new(4)?.nodes(2).run(|world| {
    ///     let mut sum = [1u64];
    ///     world.all_reduce(&mut sum, |a, b| a + b)?;
    ///     Ok(sum[0])
    /// })?;
    /// assert_eq!(sums, [4; 4]);
    /// # Ok::<(), farside::Error>(())
    /// ```
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Local {
        if !self.options.fabric.spans_nodes() {
            // A value that says nothing is told when the job starts over nic: it is not the fault
            // of whoever calls this.
            self.options.fabric = Kind::between_nodes().unwrap_or(Kind::Nic);
        }
        self.options.nodes = Some(nodes);
        self
    }

    /// Lets the nodes reach each other over libfabric instead, by this provider or, if the name is
    /// empty, the best there is.
    #[must_use]
    pub fn ofi(mut self, provider: &str) -> Local {
        self.options.fabric = Kind::Ofi;
        if !provider.is_empty() {
            self.options.provider = Some(provider.to_owned());
        }
        self
    }

    /// Lets far operations be executed by another server of the nic fabric, as `--server` names it.
    #[must_use]
    pub fn server(mut self, name: &str) -> Local {
        self.options.server = Some(name.to_owned());
        self
    }

    /// Pretends that there are so many processors, which changes how ranks wait and meet.
    #[must_use]
    pub fn cores(mut self, cores: u32) -> Local {
        self.options.cores = Some(cores);
        self
    }

    /// Limits the memory that each rank may share.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Local {
        self.options.memory = Some(bytes);
        self
    }

    /// Puts a decorator, such as [`Counts`](farside_fabric::counting::Counts), around every rank's
    /// fabric.
    ///
    /// ```
    /// # use farside::fabric::{counting::Counts, observed::Kind};
    /// # use farside::{Local, Rank};
    /// let counts = Counts::new(2);
    /// let seen = counts.clone();
    /// Local::new(2)?.decorate(move |fabric| counts.over(fabric)).run(|world| {
    ///     let words = world.words(1)?;
    ///     world.fetch_add(words.at(Rank(1), 0), 1)?;
    ///     words.free(world)
    /// })?;
    /// assert_eq!(seen.bytes(Rank(0), Kind::Atomic, Rank(1)) % 8, 0);
    /// # Ok::<(), farside::Error>(())
    /// ```
    #[must_use]
    pub fn decorate(
        mut self,
        decorate: impl Fn(Box<dyn Connection>) -> Box<dyn Connection> + Send + Sync + 'static,
    ) -> Local {
        self.decorate = Some(Box::new(decorate));
        self
    }

    /// Runs a program on these ranks. See [`local`].
    pub fn run<R: Send>(self, program: impl Fn(&World) -> Result<R> + Sync) -> Result<Vec<R>> {
        if !self.is_launchers {
            farside_job::warn_of_own_job();
        }
        let host = Host::create(&self.options)?;
        let rank = |rank: Rank| -> std::thread::Result<Result<R>> {
            let run = || {
                let fabric = host.connect(rank)?;
                let fabric = match &self.decorate {
                    Some(decorate) => decorate(fabric),
                    None => fabric,
                };
                let fabric = if self.is_launchers { farside_job::checked(fabric)? } else { fabric };
                run_rank(&World::new(fabric)?, &program)
            };
            let result = std::panic::catch_unwind(AssertUnwindSafe(run));
            match &result {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => host.declare_lost(rank, ExitCause::Failed),
                Err(_) => host.declare_lost(rank, ExitCause::Panicked),
            }
            result
        };
        let results: Vec<std::thread::Result<Result<R>>> = std::thread::scope(|threads| {
            let handles: Vec<_> = (0..self.options.ranks)
                .map(|number| {
                    let rank = &rank;
                    let name = format!("rank {number}");
                    std::thread::Builder::new()
                        .name(name)
                        .spawn_scoped(threads, move || rank(Rank(number)))
                })
                .collect();
            let failed = |error: std::io::Error| {
                Ok(Err(Error::System {
                    call: "starting a rank's thread",
                    errno: error.raw_os_error().unwrap_or(0),
                }))
            };
            // A rank whose thread could not be started is lost for those that were.
            for (number, handle) in handles.iter().enumerate() {
                if handle.is_err() {
                    host.declare_lost(Rank(number as u32), ExitCause::Failed);
                }
            }
            let join = |handle: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match handle
            {
                Ok(handle) => handle.join().and_then(|result| result),
                Err(error) => failed(error),
            };
            handles.into_iter().map(join).collect()
        });
        collect(results)
    }
}

/// What all ranks returned, or the failure that was a cause rather than a consequence.
fn collect<R>(results: Vec<std::thread::Result<Result<R>>>) -> Result<Vec<R>> {
    let mut values = Vec::with_capacity(results.len());
    let mut failure: Option<Error> = None;
    for result in results {
        match result {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(Ok(value)) => values.push(value),
            Ok(Err(error)) => {
                let is_consequence = |error: &Error| error.lost_rank().is_some();
                if failure
                    .as_ref()
                    .is_none_or(|known| is_consequence(known) && !is_consequence(&error))
                {
                    failure = Some(error);
                }
            }
        }
    }
    match failure {
        None => Ok(values),
        Some(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_reported_rather_than_its_consequences() {
        let result = local(3, |world| {
            if world.rank() == Rank(1) {
                return Err(Error::Program("the cause".into()));
            }
            world.barrier()
        });
        assert_eq!(result.unwrap_err(), Error::Program("the cause".into()));
    }

    #[test]
    fn a_panic_is_passed_on_and_hangs_nobody() {
        let result = std::panic::catch_unwind(|| {
            local(3, |world| {
                assert_ne!(world.rank(), Rank(2), "on purpose");
                world.barrier()
            })
        });
        assert!(result.is_err());
    }

    #[test]
    fn no_ranks_are_refused() {
        assert!(local(0, |_| Ok(())).unwrap_err().to_string().contains("not 0"));
    }
}
