//! RMA-RW: readers count themselves in counters that are spread over the topology, writers queue in
//! a tree that follows it.
//!
//! Paper:     [RMALOCK16] section 3, listings 4 to 10.
//! Differs:   as printed it is not correct: `counters` and `lock::rma_mcs` say what was changed.
//!            The count at the widest level is compared with T_L,1, so that T_W is the product of
//!            all T_L,i. A writer whose time is over opens the counters again.
//! State:     for each level of the topology the 4 words of the tree, and 2 words for the counters,
//!            on every rank.
//! Invariant: a writer is inside only if it holds the widest queue, by itself or for its element,
//!            and all counters are closed and drained. T_W and T_R are kept
//!            (rw/rma-rw-without-t-w, rw/rma-rw-without-t-r); `README.md` has the bounds.
//! Ordering:  release flushes first (rw/rma-rw-without-flush); the wider queue is left before the
//!            own (rw/rma-rw-climbs-too-early); see also `counters`.
//! Cost:      read 1 atomic, end of read 1 atomic, +1 if a writer waits. Write alone, with N levels
//!            and C counters: N + C atomics and N - 1 stores to itself; its end 3 N - 1 loads and N
//!            + C atomics. Passed on inside an element: that of a queue, and 2 loads.
//! Checked:   `farside check 'rw/rma-rw*'`: all schedules of the jobs in `ENTRIES`, with narrow
//!            fields too; T_W and T_R; every branch is reached; 8 to 256 ranks, PCT depth 3.

use farside_fabric::Result;
use farside_rma::Context;

use super::counters::{self, Arrival, Counters, Limits, Writers};
use super::{Kind, slots};
use crate::lock::frame::{Crowding, LockWords, Right, TimeLimit, variants};
use crate::lock::queue;
use crate::lock::registry::{Job, Made, Maker, Promise, Style, Trial};
use crate::lock::rma_mcs::{self, Reached, RmaMcs};
use crate::rw::frame::{Algorithm, RwWords};
use crate::rw::registry::{
    Entry, Explored, Many, PAIR, READERS, READS_TWICE, TWO, WRITERS, passes, stuck, without_flush,
};

/// The steps of the lock are those of its parts.
trait Variant: counters::Variant + rma_mcs::Variant {}

impl Variant for Right {}

variants! {
    WithoutFlush {
        queue::Variant { FLUSHES: bool = false }, rma_mcs::Variant, counters::Variant, Variant
    }
    WithoutWaking {
        queue::Variant, rma_mcs::Variant, counters::Variant { TELLS: bool = false }, Variant
    }
    WithoutDrain {
        queue::Variant, rma_mcs::Variant, counters::Variant { DRAINS: bool = false }, Variant
    }
    WithoutAskingAgain {
        queue::Variant, rma_mcs::Variant, counters::Variant { ASKS_AGAIN: bool = false }, Variant
    }
    ResetsInSteps {
        queue::Variant, rma_mcs::Variant,
        counters::Variant { RESETS_AT_ONCE: bool = false }, Variant
    }
    ClimbsTooEarly {
        queue::Variant, rma_mcs::Variant { CLIMBS_LAST: bool = false }, counters::Variant, Variant
    }
    WithoutTW {
        queue::Variant, rma_mcs::Variant { KEEPS_T_W: bool = false }, counters::Variant, Variant
    }
    WithoutTR {
        queue::Variant, rma_mcs::Variant, counters::Variant { KEEPS_T_R: bool = false }, Variant
    }
    GivesUpOnReaders {
        queue::Variant, rma_mcs::Variant,
        counters::Variant { CLOSES_EMPTY: bool = false, TURN_BITS: u32 = 1 }, Variant
    }
    RunsOver {
        queue::Variant, rma_mcs::Variant,
        counters::Variant { ARRIVALS_ON_TOP: bool = false, ARRIVAL_BITS: u32 = 2 }, Variant
    }
    Narrow {
        queue::Variant, rma_mcs::Variant,
        counters::Variant { TURN_BITS: u32 = 1, ARRIVAL_BITS: u32 = 2 }, Variant
    }
}

/// The usual thresholds: 1000 writers or readers in a row.
const USUAL_T_L: [u32; 3] = [20, 50, 1];
const USUAL_T_R: u32 = 1000;

/// The thresholds of readers.
#[derive(Debug, Clone, Copy)]
struct Thresholds {
    t_dc: Option<u32>,
    t_r: u32,
}

struct RmaRw<V> {
    thresholds: Thresholds,
    counters: Counters,
    tree: RmaMcs<V>,
}

/// Returns the kind with its usual parameters.
pub(super) fn usual() -> Kind {
    Kind::RmaRw { t_dc: None, t_l: USUAL_T_L.to_vec(), t_r: USUAL_T_R }
}

pub(super) fn make(
    maker: &Maker<'_>,
    &t_dc: &Option<u32>,
    t_l: &[u32],
    &t_r: &u32,
) -> Result<Made<dyn Algorithm>> {
    build::<Right>(maker, t_dc, t_l, t_r)
}

fn build<V: Variant>(
    maker: &Maker<'_>,
    t_dc: Option<u32>,
    t_l: &[u32],
    t_r: u32,
) -> Result<Made<dyn Algorithm>> {
    Limits::check_t_r(t_r)?;
    let (context, members) = (maker.context(), maker.team.members());
    counters::check_ranks(context)?;
    let words = maker.words(rma_mcs::words(context, members) + counters::WORDS)?;
    let thresholds = Thresholds { t_dc, t_r };
    let counters = counters(&words, context, thresholds)?;
    let (widest, narrower) = match t_l {
        [] => (1, &[][..]),
        [widest] => (*widest, t_l),
        [widest, narrower @ ..] => (*widest, narrower),
    };
    let tree = RmaMcs::<V>::below(&words, context, Some(widest), narrower);
    Ok(Made { words, algorithm: Box::new(RmaRw { thresholds, counters, tree }) })
}

impl<V: Variant> Algorithm for RmaRw<V> {
    fn attempt_read(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        self.read(lock, context, TimeLimit::DoNotWait)
    }

    /// [RMALOCK16 listing 9]
    fn read(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let writers = Root { tree: &self.tree, lock, context };
        let arrival = self.counters.arrive::<V>(lock, context, limit, &writers)?;
        Ok(arrival == Arrival::Inside)
    }

    /// [RMALOCK16 listing 10]
    fn end_read(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let published = lock.publish(context, V::FLUSHES);
        self.counters.depart::<V>(lock, context)?;
        published
    }

    fn attempt_write(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        self.write(lock, context, TimeLimit::DoNotWait)
    }

    /// [RMALOCK16 listings 4 and 7]
    fn write(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let before = lock.queued();
        let reached = self.tree.climb(lock, context, limit)?;
        if lock.queued() != before {
            lock.statistics.note(|counts| &counts.writes_queued);
        }
        match reached {
            Reached::GaveUp => Ok(false),
            Reached::All => Ok(true),
            Reached::Root => {
                let is_closed = self.counters.close::<V>(lock, context, limit)?;
                if !is_closed {
                    self.tree.turn_back(lock, context)?;
                }
                Ok(is_closed)
            }
        }
    }

    /// [RMALOCK16 listings 5 and 8]
    fn end_write(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let published = lock.publish(context, V::FLUSHES);
        let open = || self.counters.open::<V>(lock, context);
        let descent = self.tree.descend(lock, context, &open)?;
        self.counters.pass_on();
        let statistics = &lock.statistics;
        if let Some(next) = descent.next {
            statistics.passed(context, next);
        }
        match descent.passed_at {
            Some(level) if self.tree.is_widest(level) => {
                statistics.note(|counts| &counts.passed_across)
            }
            Some(_) => statistics.note(|counts| &counts.passed_within),
            None => {}
        }
        if descent.yielded {
            statistics.note(|counts| &counts.yielded);
        }
        if descent.for_another {
            statistics.note(|counts| &counts.left_for_another);
        }
        published
    }

    fn reset(&mut self, lock: &RwWords, context: &Context) -> Result<()> {
        self.tree.arrange(lock, context);
        self.counters = counters(lock, context, self.thresholds)?;
        Ok(())
    }
}

/// Makes the counters, which lie behind the tree: after losses that may need fewer words and never
/// more. Readers let writers pass for a while on a crowded node.
fn counters(lock: &LockWords, context: &Context, thresholds: Thresholds) -> Result<Counters> {
    let is_crowded = lock.crowding(context) == Crowding::Crowded;
    let yields = if is_crowded { slots::YIELDS } else { 0 };
    let base = lock.len() - counters::WORDS;
    let limits = Limits { t_dc: thresholds.t_dc, t_r: Some(thresholds.t_r), yields };
    Counters::new(base, context, lock.members(), limits)
}

/// The widest queue, as readers see it.
struct Root<'a, V> {
    tree: &'a RmaMcs<V>,
    lock: &'a RwWords,
    context: &'a Context,
}

impl<V: Variant> Writers for Root<'_, V> {
    fn are_there(&self) -> Result<bool> {
        self.tree.is_idle(self.lock, self.context).map(|is_idle| !is_idle)
    }
}

/// One counter for a node, T_L = 2, T_R = 1.
const ONE: fn() -> Kind = || Kind::RmaRw { t_dc: None, t_l: vec![2], t_r: 1 };
/// A counter for each rank, T_L = 1, T_R = 1.
const EACH: fn() -> Kind = || Kind::RmaRw { t_dc: Some(1), t_l: vec![1], t_r: 1 };
/// Writers in a tree of two nodes, and a reader.
const TREE: Explored = Explored {
    about: "writers in a tree of two nodes, and a reader",
    roles: WRITERS,
    topology: Some("node:2"),
    ..TWO
};
const OUTER: fn() -> Kind = || Kind::RmaRw { t_dc: None, t_l: vec![2, 1], t_r: 2 };

/// A wrong variant with a counter for each rank, T_R = 1, and at most two writers of an element in
/// a row.
fn each<V: Variant>(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build::<V>(maker, Some(1), &[1, 2], 1)
}

/// A variant with one counter for all ranks of a node, two writers in a row, T_R = 2.
fn shared<V: Variant>(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build::<V>(maker, None, &[2], 2)
}

const DEADLOCK: &str = "deadlock: rank 0 waits";

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "rma-rw",
    about: "counters of readers spread over the topology, a tree of queues for writers",
    kind: usual,
    explored: &[
        Explored {
            name: "readers",
            about: "one writer and two readers",
            kind: ONE,
            roles: READERS,
            branches: &[
                "closed",
                "drained",
                "opened",
                "reads_queued",
                "limit_reached",
                "limit_kept",
                "limit_lifted",
            ],
            ..TWO
        },
        Explored {
            name: "writers",
            about: "two writers and a reader",
            kind: ONE,
            roles: WRITERS,
            branches: &[
                "closed",
                "drained",
                "opened",
                "reads_queued",
                "writes_queued",
                "passed_across",
            ],
            ..TWO
        },
        Explored {
            name: "twice",
            about: "a writer and a reader, twice",
            kind: ONE,
            rounds: 2,
            branches: &["closed", "drained", "opened", "limit_lifted"],
            ..TWO
        },
        Explored {
            name: "each-readers",
            about: "one writer and two readers",
            kind: EACH,
            roles: READERS,
            branches: &["drained", "reads_queued"],
            ..TWO
        },
        Explored {
            name: "each-writers",
            about: "two writers and a reader",
            kind: EACH,
            roles: WRITERS,
            branches: &["drained", "opened", "yielded"],
            ..TWO
        },
        Explored {
            name: "far-inner",
            kind: || Kind::RmaRw { t_dc: None, t_l: vec![1, 2], t_r: 2 },
            branches: &["passed_within", "passed_near", "left_for_another"],
            ..TREE
        },
        Explored {
            name: "far-outer",
            kind: OUTER,
            branches: &["closed", "drained", "opened"],
            ..TREE
        },
        Explored {
            name: "far-apart",
            kind: OUTER,
            roles: &["w", "r", "w"],
            branches: &["passed_across", "passed_far"],
            ..TREE
        },
        Explored {
            name: "far-walks-away",
            about: "who waits gives up its place, and goes away",
            kind: || Kind::RmaRw { t_dc: None, t_l: vec![2, 2], t_r: 1 },
            style: Style::WalkAway,
            branches: &["given_up"],
            ..TREE
        },
    ],
    limited: Some(ONE),
    many: Some(Many {
        kind: || Kind::RmaRw { t_dc: Some(3), t_l: vec![1, 2], t_r: 1 },
        branches: &[
            "closed",
            "drained",
            "opened",
            "yielded",
            "passed_within",
            "left_for_another",
            "limit_reached",
            "limit_kept",
            "limit_lifted",
            "reads_queued",
            "writes_queued",
            "given_up",
        ],
    }),
    variants: &[
        without_flush(each::<WithoutFlush>),
        counters::without_waking(each::<WithoutWaking>),
        super::Variant {
            name: "without-drain",
            about: "as printed in [RMALOCK16] listing 6: a reader and a writer are inside together",
            build: each::<WithoutDrain>,
            trial: Some(Trial::caught(PAIR, Promise::Exclusion, "meets")),
        },
        super::Variant {
            name: "without-asking-again",
            about: "as printed in [RMALOCK16] listing 9: after T_R readers, one waits for a writer \
                    that has left",
            build: each::<WithoutAskingAgain>,
            trial: stuck(READS_TWICE, "has already left"),
        },
        super::Variant {
            name: "resets-in-steps",
            about: "as printed in [RMALOCK16] listing 6: a reset takes a writer's mark away",
            build: each::<ResetsInSteps>,
            trial: stuck(READS_TWICE, "has already left"),
        },
        super::Variant {
            name: "climbs-too-early",
            about: "lets the next of its element go up before the wider queue is left",
            build: each::<ClimbsTooEarly>,
            trial: Some(Trial {
                job: Job::new(3).on("node:2"),
                ..Trial::caught(&["ww", "w", ""], Promise::Progress, "has already left")
            }),
        },
        super::Variant {
            name: "without-t-w",
            about: "passes the lock from writer to writer for as long as there are any",
            build: |maker| build::<WithoutTW>(maker, None, &[1], 1),
            trial: None,
        },
        super::Variant {
            name: "without-t-r",
            about: "lets readers in for as long as they come",
            build: |maker| build::<WithoutTR>(maker, Some(1), &[1], 1),
            trial: None,
        },
        super::Variant {
            name: "narrow-tries",
            about: counters::TRIES,
            build: each::<Narrow>,
            trial: passes(&["ttw", "r"]),
        },
        super::Variant {
            name: "narrow-tries-twice",
            about: counters::TRIES,
            build: shared::<Narrow>,
            trial: passes(&["tt", "rr"]),
        },
        super::Variant {
            name: "narrow-readers",
            about: counters::TRIES,
            build: shared::<Narrow>,
            trial: passes(&["tw", "r", "r"]),
        },
        super::Variant {
            name: "narrow-limits",
            about: counters::LIMITS,
            build: shared::<Narrow>,
            trial: passes(&["llw", "r"]),
        },
        super::Variant {
            name: "narrow-reads",
            about: counters::READS,
            build: shared::<Narrow>,
            trial: passes(&["rrrrrr", "w"]),
        },
        super::Variant {
            name: "narrow-many",
            about: counters::READS,
            build: shared::<Narrow>,
            trial: passes(&["rrr", "rrr"]),
        },
        super::Variant {
            name: "gives-up-on-readers",
            about: counters::TRIES,
            build: shared::<GivesUpOnReaders>,
            trial: stuck(&["ttw", "r"], DEADLOCK),
        },
        super::Variant {
            name: "runs-over",
            about: counters::READS,
            build: shared::<RunsOver>,
            trial: stuck(&["rrr", "rrr"], DEADLOCK),
        },
    ],
}];
