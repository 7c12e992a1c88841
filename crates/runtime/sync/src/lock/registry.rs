//! What a lock's file says of its lock, for all that goes through every lock; and what a lock is
//! made of.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team, World};

use super::Kind;
use super::frame::{LockWords, Observer};

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
}

pub(crate) struct Made<A: ?Sized> {
    pub(crate) words: LockWords,
    pub(crate) algorithm: Box<A>,
}

/// How wide the numbers are that a lock packs into its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widths {
    Usual,
    /// One bit or two, so that they wrap in every run.
    Narrow,
}

pub(crate) struct Maker<'a> {
    pub(crate) team: &'a Team<'a>,
    /// The world, to reach agents; a lock of a team has none.
    pub(crate) world: Option<&'a World>,
    pub(crate) home: Rank,
    /// Which lock it is. All members must say the same.
    pub(crate) what: String,
    /// A checker that wants to know of requests that wait.
    pub(crate) observer: Option<Observer>,
    pub(crate) widths: Widths,
}

impl<'a> Maker<'a> {
    /// Makes a lock for a team, which nobody observes.
    pub(crate) fn new(team: &'a Team<'a>, home: Rank) -> Maker<'a> {
        let (what, widths) = (String::new(), Widths::Usual);
        Maker { team, world: None, home, what, observer: None, widths }
    }

    pub(crate) fn context(&self) -> &'a Context {
        self.team.context()
    }

    pub(crate) fn bits(&self, usual: u32, narrow: u32) -> u32 {
        match self.widths {
            Widths::Usual => usual,
            Widths::Narrow => narrow,
        }
    }

    /// Returns the world; a lock of a team is refused.
    pub(crate) fn world(&self) -> Result<&'a World> {
        self.world.ok_or_else(|| Error::Unsupported {
            what: format!(
                "a lock of kind {} on a team, because its agent may be outside the team",
                self.what
            ),
        })
    }

    /// Allocates the words of the lock, on which all members agree.
    pub(crate) fn words(&self, count: usize) -> Result<LockWords> {
        let (team, home) = (self.team, self.home);
        team.context().topology().check(home)?;
        if !team.members().contains(&home) {
            return Err(Error::NotAMember { rank: home, of: "team: the lock's home must be one" });
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
