//! What a lock's file says of its lock, for all that goes through every lock: benchmarks, programs,
//! the explorer and the tests of costs and of wrong variants.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team, World};

use super::Kind;
use super::frame::{Algorithm, LockWords, Observer};

/// An exclusive lock.
pub struct Entry {
    /// Its name, as benchmarks and tables spell it.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Returns the kind with its usual parameters.
    pub kind: fn() -> Kind,
    /// Whether its handlers run on the home's node, which must outlive the ranks that call them.
    pub needs_agent: bool,
    /// The jobs that it is explored with.
    pub explored: &'static [Explored],
    /// What an operation costs, as the file's header says.
    pub costs: &'static [Cost],
    /// Wrong variants, and the right one with narrow fields.
    pub variants: &'static [Variant<dyn Algorithm, Style>],
}

/// A lock with parameters, and the jobs that it is explored with.
pub struct Explored {
    /// The name of the first check; those of the others begin with it.
    pub name: &'static str,
    /// Returns the kind.
    pub kind: fn() -> Kind,
    /// Ranks of one node.
    pub near: Job,
    /// Ranks of several nodes.
    pub far: Job,
    /// Ranks of which one may die.
    pub deaths: Job,
    /// Ranks of which some have time limits.
    pub limits: Job,
    /// How many ranks may have it at a time.
    pub holders: u32,
    /// Whether ranks get it in the order in which they took their places.
    pub is_fifo: bool,
    /// Whether it is also run by 64 and 256 ranks.
    pub large: Large,
}

/// Whether a lock is run by many ranks, and with which parameters.
#[derive(Clone, Copy)]
pub enum Large {
    /// It is not.
    No,
    /// Ranks of one node.
    Near(fn() -> Kind),
    /// Ranks of racks, nodes and sockets.
    Deep(fn() -> Kind),
}

/// What one rank does to a lock.
pub struct Cost {
    /// The lock; the entry's if it is not said.
    pub kind: Option<fn() -> Kind>,
    /// Where the two ranks of the job are.
    pub topology: &'static str,
    /// In which situation.
    pub case: Case,
    /// What a request costs.
    pub acquire: Operations,
    /// What a release costs.
    pub release: Operations,
}

impl Cost {
    /// What the entry's lock costs.
    pub(crate) const fn of(
        topology: &'static str,
        case: Case,
        acquire: Operations,
        release: Operations,
    ) -> Cost {
        Cost { kind: None, topology, case, acquire, release }
    }
}

/// The situation in which costs are counted. The home is rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Either rank takes the lock alone.
    Alone,
    /// The home takes it alone.
    AloneAtHome,
    /// The other rank takes it alone.
    AloneAway,
    /// The other rank waits for it, and the home passes it on.
    Passed,
}

/// Operations that a rank has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// Atomics, loads and stores among them.
    pub atomics: u64,
    /// Signals.
    pub signals: u64,
    /// Calls to an agent.
    pub calls: u64,
}

impl Operations {
    /// Only atomics.
    pub const fn atomics(atomics: u64) -> Operations {
        Operations { atomics, signals: 0, calls: 0 }
    }

    /// Atomics and one signal.
    pub const fn and_signal(atomics: u64) -> Operations {
        Operations { atomics, signals: 1, calls: 0 }
    }

    /// One call.
    pub const CALL: Operations = Operations { atomics: 0, signals: 0, calls: 1 };
}

/// A variant of an algorithm that is made for the explorer.
pub struct Variant<A: ?Sized + 'static, How: 'static> {
    /// Its name, behind that of the lock.
    pub name: &'static str,
    /// What it does wrong, in a line.
    pub about: &'static str,
    /// Makes the lock.
    pub build: Build<A>,
    /// How it is explored; a variant without a trial has a check of its own.
    pub trial: Option<Trial<How>>,
}

/// How a variant is explored.
#[derive(Clone, Copy)]
pub struct Trial<How> {
    /// The job.
    pub job: Job,
    /// What the ranks do.
    pub how: How,
    /// Tries so many random schedules instead of all.
    pub random: Option<u64>,
    /// What a wrong variant breaks, and a part of what the failure says. A variant that breaks
    /// nothing passes.
    pub breaks: Option<(Promise, &'static str)>,
}

impl<How> Trial<How> {
    /// All schedules of two ranks, of a variant that breaks a promise.
    pub const fn caught(how: How, promise: Promise, saying: &'static str) -> Trial<How> {
        Trial { job: Job::new(2), how, random: None, breaks: Some((promise, saying)) }
    }
}

impl<How> Trial<How> {
    /// All schedules of a job, of a variant that breaks nothing.
    pub const fn passes(how: How, job: Job) -> Trial<How> {
        Trial { job, how, random: None, breaks: None }
    }
}

/// What wrong variants forget most often.
pub(crate) const WITHOUT_FLUSH: &str =
    "passes the lock on before what was written under it has landed";
/// The variant that forgets it.
pub(crate) const fn without_flush(build: Build<dyn Algorithm>) -> Variant<dyn Algorithm, Style> {
    let trial = Some(Trial::caught(Style::Wait, Promise::Visibility, "was lost"));
    Variant { name: "without-flush", about: WITHOUT_FLUSH, build, trial }
}

/// What wrong variants forget next.
pub(crate) const IN_TWO_STEPS: &str = "looks, and then writes";
/// The variant that forgets it.
pub(crate) const fn in_two_steps(build: Build<dyn Algorithm>) -> Variant<dyn Algorithm, Style> {
    let trial = Some(Trial::caught(Style::Wait, Promise::Exclusion, "are inside at the same time"));
    Variant { name: "in-two-steps", about: IN_TWO_STEPS, build, trial }
}

/// What a lock promises, and a wrong variant breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Ranks that exclude each other are never inside together.
    Exclusion,
    /// What was written before is seen by the next holder.
    Visibility,
    /// No rank waits for ever.
    Progress,
    /// Ranks get the lock in the order in which they took their places.
    Fairness,
}

/// A job for the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// How many ranks.
    pub ranks: u32,
    /// How often each of them asks.
    pub rounds: u32,
    /// Where they are; on one node if it is not said.
    pub topology: Option<&'static str>,
}

impl Job {
    /// So many ranks of one node, which ask once.
    pub const fn new(ranks: u32) -> Job {
        Job { ranks, rounds: 1, topology: None }
    }

    /// They ask so often.
    pub const fn rounds(self, rounds: u32) -> Job {
        Job { rounds, ..self }
    }

    /// They are placed like this.
    pub const fn on(self, topology: &'static str) -> Job {
        Job { topology: Some(topology), ..self }
    }
}

/// How a rank asks for a lock. Rank 0 always waits until it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// All wait until they have it.
    Wait,
    /// All but rank 0 take their place, and give it up again unless they have the lock at once;
    /// then they wait.
    GiveUp,
    /// All but rank 0 take their place, and go away unless they have the lock at once.
    WalkAway,
    /// All but rank 0 ask once without waiting; then they wait.
    Try,
    /// All but rank 0 wait as long as anything else happens; then they wait without a limit.
    Patient,
    /// Each rank in one of these ways.
    Mixed,
}

/// Makes the algorithm of a lock, and its words.
pub type Build<A> = fn(&Maker<'_>) -> Result<Made<A>>;

/// A new lock.
pub struct Made<A: ?Sized> {
    /// Its words.
    pub words: LockWords,
    /// Its algorithm.
    pub algorithm: Box<A>,
}

/// What a new lock is made of.
pub struct Maker<'a> {
    /// Its members.
    pub team: &'a Team<'a>,
    /// The world, to reach agents; a lock of a team has none.
    pub world: Option<&'a World>,
    /// The rank in whose memory it lies.
    pub home: Rank,
    /// Which lock it is. All members must say the same.
    pub what: String,
    /// A checker that wants to know of requests that wait.
    pub observer: Option<Observer>,
}

impl<'a> Maker<'a> {
    /// Returns this rank's context.
    pub fn context(&self) -> &'a Context {
        self.team.context()
    }

    /// Returns the world; a lock of a team is refused.
    pub(crate) fn world(&self) -> Result<&'a World> {
        self.world.ok_or_else(|| Error::Unsupported {
            what: format!(
                "a lock of kind {} for a team: its agent may not be a member's",
                self.what
            ),
        })
    }

    /// Allocates the words of the lock, on which all members agree.
    pub(crate) fn words(&self, count: usize) -> Result<LockWords> {
        let (team, home) = (self.team, self.home);
        team.context().topology().check(home)?;
        if !team.members().contains(&home) {
            return Err(Error::NotAMember { rank: home, of: "team that makes the lock" });
        }
        let digest = farside_fabric::digest::of(self.what.as_bytes());
        let says = team.all_gather(&[u64::from(home.0), digest])?;
        for (theirs, &rank) in says.chunks_exact(2).zip(team.members()) {
            if theirs != [u64::from(home.0), digest] {
                return Err(Error::Disagreement {
                    what: "the ranks disagree on a lock".into(),
                    mine: format!("{} at {home}", self.what),
                    rank,
                    theirs: format!("another kind, at rank {}", theirs[0]),
                });
            }
        }
        let words = team.protocol_words(count)?;
        Ok(LockWords::new(words, home, team.members()).observed(self.observer))
    }
}

/// Declares the kinds of a family of locks. A row for each lock has its kind, its parameters, and
/// its file. The file has `make`, which is given the parameters, and `ENTRIES`, one for each name
/// that the lock has in tables; the file of the default has `usual`, too.
macro_rules! registry {
    (
        $(#[$about:meta])*
        enum Kind;
        $(#[$default_doc:meta])*
        Default => $default:ident;
        $($(#[$doc:meta])*
          $kind:ident $({
              $($(#[$field_doc:meta])* $field:ident: $type:ty),+ $(,)?
          })? => $file:ident;)+
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub enum Kind {
            $(#[$default_doc])*
            #[default]
            Default,
            $($(#[$doc])* $kind $({ $($(#[$field_doc])* $field: $type),+ })?,)+
        }

        const FILES: &[&[Entry]] = &[$($file::ENTRIES),+];

        /// Returns the rows of all locks.
        pub fn entries() -> impl Iterator<Item = &'static Entry> {
            FILES.iter().copied().flatten()
        }

        impl Kind {
            /// Returns every kind, each once, with its usual parameters.
            pub fn all() -> Vec<Kind> {
                entries().map(|entry| (entry.kind)()).collect()
            }

            /// Returns its name, as benchmarks and tables spell it.
            pub fn name(&self) -> &'static str {
                self.entry().name
            }

            /// Returns what it is, in a line.
            pub fn about(&self) -> &'static str {
                self.entry().about
            }

            /// Returns the kind of that name, with its usual parameters.
            pub fn named(name: &str) -> Option<Kind> {
                Kind::all().into_iter().find(|kind| kind.name() == name)
            }

            /// Returns its row of the registry.
            pub(super) fn entry(&self) -> &'static Entry {
                let file = match self {
                    Kind::Default => $default::ENTRIES,
                    $(Kind::$kind { .. } => $file::ENTRIES,)+
                };
                file.iter().find(|entry| (entry.kind)() == *self).unwrap_or(&file[0])
            }

            fn make(&self, maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
                match self {
                    Kind::Default => $default::usual(maker),
                    $(Kind::$kind $({ $($field),+ })? => $file::make(maker $($(, $field)+)?),)+
                }
            }
        }
    };
}
pub(crate) use registry;
