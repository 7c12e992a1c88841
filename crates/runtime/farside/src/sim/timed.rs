//! Programs in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use farside_fabric::text::counted;
use farside_fabric::{Error, Result, Topology};
use farside_rma::{World, root_bytes};
use farside_sim::{Profile, Program, Timed, Timing};

/// Runs `program` on `ranks` simulated ranks, on a machine as `profile` describes it, and returns
/// what each rank returned and how long it would have taken there. The same seed gives the same
/// run.
///
/// ```
/// use farside::sim::{Profile, run};
///
/// let profile = Profile::load("infiniband-ndr")?;
/// let outcome = run(&profile, 64, 1, |world| {
///     let begin = world.now_ns();
///     world.barrier()?;
///     Ok(world.now_ns() - begin)
/// })?;
/// let slowest_ns = outcome.results.iter().max().unwrap();
/// assert!((1_000..1_000_000).contains(slowest_ns), "{slowest_ns}");
/// # Ok::<(), farside::Error>(())
/// ```
pub fn run<T: 'static>(
    profile: &Profile,
    ranks: u32,
    seed: u64,
    program: impl Fn(&World) -> Result<T> + 'static,
) -> Result<Outcome<T>> {
    Virtual::new(profile, ranks)?.seed(seed).run(program)
}

/// Like [`run`], with more to choose.
pub struct Virtual {
    profile: Profile,
    ranks: u32,
    topology: Topology,
    seed: u64,
    traced: bool,
}

/// What a run in virtual time came to.
#[derive(Debug)]
pub struct Outcome<T> {
    /// What each rank returned, in order.
    pub results: Vec<T>,
    /// How long it took, and how much was done.
    pub timing: Timing,
    /// How the ranks were arranged.
    pub topology: Topology,
}

impl Virtual {
    /// A job of so many ranks, arranged as is usual on that machine.
    pub fn new(profile: &Profile, ranks: u32) -> Result<Virtual> {
        if ranks == 0 {
            return Err(Error::InvalidArgument("a job has at least one rank".into()));
        }
        Ok(Virtual {
            topology: profile.topology(ranks)?,
            profile: profile.clone(),
            ranks,
            seed: 1,
            traced: false,
        })
    }

    /// Another seed: other delays.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Virtual {
        self.seed = seed;
        self
    }

    /// Arranges the ranks differently: `node:2,socket:2`. What a level costs is what the profile
    /// says of that name.
    pub fn topology(mut self, description: &str) -> Result<Virtual> {
        self.topology = Topology::parse(description, self.ranks)?;
        Ok(self)
    }

    /// How the ranks are arranged.
    pub fn arrangement(&self) -> &Topology {
        &self.topology
    }

    /// Writes down every operation: see [`Timing::slices`].
    #[must_use]
    pub fn traced(mut self) -> Virtual {
        self.traced = true;
        self
    }

    /// Returns what came of a run, for people: a line, and another one if messages were lost.
    pub fn summary(&self, timing: &Timing) -> String {
        let mut text = format!(
            "{} on {}: {:.3} us of virtual time, {}, {} (seed {}, hash {:016x})",
            counted(self.ranks, "rank"),
            self.profile.name,
            timing.virtual_ns as f64 / 1e3,
            counted(timing.operations, "operation"),
            counted(timing.bytes, "byte"),
            self.seed,
            timing.hash
        );
        let resent: u64 = timing.resent.iter().map(|resent| resent.count).sum();
        if resent > 0 {
            text.push_str(&format!("\n{resent} messages were lost and sent again"));
        }
        text
    }

    /// Runs a program all of which counts.
    pub fn run<T: 'static>(
        &self,
        program: impl Fn(&World) -> Result<T> + 'static,
    ) -> Result<Outcome<T>> {
        let gathered = Gathered::new(self.ranks);
        let into = gathered.clone();
        self.execute(
            gathered,
            Rc::new(move |fabric, start| {
                let rank = fabric.job().rank.index();
                start.prepared();
                into.keep(rank, World::new(fabric).and_then(|world| program(&world)))
            }),
        )
    }

    /// Runs a program: `prepare` does not count, `body` does. Ranks begin the body together.
    pub fn run_prepared<S: 'static, T: 'static>(
        &self,
        prepare: impl Fn(&World) -> Result<S> + 'static,
        body: impl Fn(&World, S) -> Result<T> + 'static,
    ) -> Result<Outcome<T>> {
        let gathered = Gathered::new(self.ranks);
        let into = gathered.clone();
        self.execute(
            gathered,
            Rc::new(move |fabric, start| {
                let rank = fabric.job().rank.index();
                let run = || {
                    let world = World::new(fabric)?;
                    let state = prepare(&world)?;
                    start.prepared();
                    body(&world, state)
                };
                into.keep(rank, run())
            }),
        )
    }

    fn execute<T>(&self, gathered: Gathered<T>, program: Program) -> Result<Outcome<T>> {
        let mut timed =
            Timed::new(&self.profile, self.topology.clone(), root_bytes(self.ranks), self.seed);
        if self.traced {
            timed = timed.traced();
        }
        let timing = timed.run(&program)?.map_err(|problem| gathered.error(problem))?;
        let results = gathered.results.take().into_iter().flatten().collect();
        Ok(Outcome { results, timing, topology: self.topology.clone() })
    }
}

/// What the ranks returned. Clones share it.
struct Gathered<T> {
    results: Rc<RefCell<Vec<Option<T>>>>,
    error: Rc<RefCell<Option<Error>>>,
}

impl<T> Clone for Gathered<T> {
    fn clone(&self) -> Gathered<T> {
        Gathered { results: self.results.clone(), error: self.error.clone() }
    }
}

impl<T> Gathered<T> {
    fn new(ranks: u32) -> Gathered<T> {
        let results = (0..ranks).map(|_| None).collect();
        Gathered { results: Rc::new(RefCell::new(results)), error: Rc::default() }
    }

    fn keep(&self, rank: usize, result: Result<T>) -> std::result::Result<(), String> {
        match result {
            Ok(value) => {
                self.results.borrow_mut()[rank] = Some(value);
                Ok(())
            }
            Err(error) => {
                let problem = error.to_string();
                self.error.borrow_mut().get_or_insert(error);
                Err(problem)
            }
        }
    }

    /// The error of the first rank that returned one; otherwise nobody did, and the machine says
    /// what is wrong.
    fn error(&self, problem: String) -> Error {
        self.error.borrow_mut().take().unwrap_or(Error::Program(problem))
    }
}
