//! The configuration of shared memory.

use farside_fabric::{Error, Result};

/// The configuration of shared memory. The same on every rank.
///
/// ```
/// use farside::dsm::{Access, BarrierKind, Config, Start};
///
/// let (barrier, start) = (BarrierKind::Central, Start::Original);
/// let config = Config { barrier, start, ..Config::new(1 << 20) };
/// assert_eq!(config.access, Access::Pager);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The number of bytes of shared memory, for all allocations together. Untouched pages cost
    /// nothing.
    pub bytes: u64,
    /// The algorithm of barriers.
    pub barrier: BarrierKind,
    /// The initial contents of pages, and their place.
    pub start: Start,
    /// The way in which accesses are noticed.
    pub access: Access,
    /// The ranks that share one copy of a page.
    pub copies: Copies,
    /// The moment at which diffs are made.
    pub diffs: Diffs,
    /// The way in which diffs come from the rank that made them, where each rank has a copy and
    /// diffs are made eagerly.
    pub fetch: Fetch,
    /// The size of a page where accesses are explicit; the pager takes the machine's.
    pub page_bytes: usize,
    /// The number of locks.
    pub locks: u32,
    /// When a rank keeps more than so many bytes of diffs and notices at a barrier of all ranks,
    /// every rank throws away what is not needed any more.
    pub storage_limit: u64,
    /// The number of bytes of diffs that a rank can keep, between two barriers of all ranks.
    pub storage_max: u64,
    /// Look, at each barrier of all ranks, for words that two ranks have written without being
    /// ordered. That needs a copy for each rank and eager diffs, which are then used.
    pub check_races: bool,
    /// Look, at the same time, for words that one rank has written and another one has loaded
    /// without being ordered. Each load through a view is noted, which takes far longer than the
    /// load.
    pub check_loads: bool,
    /// Remember when each barrier of all ranks was entered and left.
    pub time_barriers: bool,
}

/// The algorithm of barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierKind {
    /// One rank gathers all write notices, and sends each of the others what it lacks.
    Central,
    /// Along a binomial spanning tree.
    Tree,
}

/// The initial contents of pages, and their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Rank 0 has all pages; the others fetch a page when they touch it first.
    Original,
    /// Every rank begins with zeroed pages.
    Zero,
    /// Every rank begins with zeroed pages, of which only those of rank 0 are valid, as in
    /// \[BST97\]: a first touch fetches the diffs that are known of, or asks rank 0 in vain. That
    /// needs a copy for each rank and eager diffs, which are then used.
    ZeroInvalid,
}

/// The way in which accesses are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By page faults: userfaultfd where the system allows it, otherwise protections and signals.
    /// Views are ordinary memory.
    Pager,
    /// By page faults, with protections and signals.
    Protect,
    /// By page faults, with userfaultfd.
    Userfault,
    /// When a view is made: each of its pages is looked at then. The simulator uses this way.
    Explicit,
}

/// The ranks that share one copy of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// The ranks of a node share their pages physically: among them no page faults, twins or
    /// notices are needed. Where a rank does not reach its neighbours' memory by loads and stores,
    /// each rank has a copy.
    Node,
    /// Each rank has a copy, as in \[BST97\].
    Rank,
}

/// The moment at which diffs are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Diffs {
    /// When they are asked for, by the agent of the node: a page that only its writer uses costs
    /// one fault and one twin.
    OnDemand,
    /// When an interval ends, for each page that was written.
    Eager,
}

/// The way in which diffs come from the rank that made them. Neither needs the help of that rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// They are read from its memory.
    Get,
    /// The agent of its node reads them and sends them.
    Call,
}

impl Config {
    /// The usual choices: one copy for each node, diffs on demand, pages noticed by faults, zero at
    /// the start, the tree as barrier.
    pub fn new(bytes: u64) -> Config {
        Config {
            bytes,
            barrier: BarrierKind::Tree,
            start: Start::Zero,
            access: Access::Pager,
            copies: Copies::Node,
            diffs: Diffs::OnDemand,
            fetch: Fetch::Get,
            page_bytes: 4096,
            locks: 64,
            storage_limit: 16 << 20,
            storage_max: 256 << 20,
            check_races: false,
            check_loads: false,
            time_barriers: false,
        }
    }

    /// Returns whether each rank has a copy and diffs are made eagerly.
    pub(crate) fn is_eager(&self) -> bool {
        (self.copies, self.diffs) == (Copies::Rank, Diffs::Eager)
    }
}

macro_rules! named {
    ($type:ident, $what:literal: $($name:literal => $variant:ident),*) => {
        impl $type {
            /// All of them.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];

            /// Its name, as the command line spells it.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),* }
            }
        }

        impl std::str::FromStr for $type {
            type Err = Error;

            fn from_str(name: &str) -> Result<$type> {
                $type::ALL.iter().copied().find(|one| one.name() == name).ok_or_else(|| {
                    let names = [$($name),*].join(", ");
                    let what = format!("there is no {} {name:?}; there are: {names}", $what);
                    Error::InvalidArgument(what)
                })
            }
        }
    };
}

named!(BarrierKind, "barrier": "central" => Central, "tree" => Tree);
named!(
    Start, "start":
    "original" => Original, "zero" => Zero, "zero-invalid" => ZeroInvalid
);
named!(
    Access, "access":
    "pager" => Pager, "protect" => Protect, "userfault" => Userfault, "explicit" => Explicit
);
named!(Copies, "kind of copies": "node" => Node, "rank" => Rank);
named!(Diffs, "kind of diffs": "on-demand" => OnDemand, "eager" => Eager);
named!(Fetch, "fetch": "get" => Get, "call" => Call);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        assert_eq!(
            BarrierKind::ALL
                .iter()
                .map(|one| one.name().parse::<BarrierKind>())
                .collect::<Result<Vec<_>>>()
                .unwrap(),
            BarrierKind::ALL
        );
        let error = "ring".parse::<BarrierKind>().unwrap_err().to_string();
        assert!(error.contains("\"ring\"") && error.contains("central, tree"), "{error}");
    }
}
