//! The jobs that reader-writer locks are explored with, and their variants: those that are wrong on
//! purpose, and the right ones with fields so narrow that they run over in every run.

use farside::rw::{Kind, steps};

use crate::family::asking::Style;
use crate::family::trial::{self, Job, Trial};
use crate::property::Promise;

/// What each rank does in a round, one letter for each request: `r` and `w` as the style says; `t`
/// is a write that is only tried, `l` one with a time limit. Ranks beyond the roles start over with
/// them.
pub(in crate::family) type Roles = &'static [&'static str];

const READERS: Roles = &["w", "r", "r"];
const WRITERS: Roles = &["w", "w", "r"];
const PAIR: Roles = &["w", "r"];
/// A writer, and a reader that comes twice.
const READS_TWICE: Roles = &["w", "rr"];
/// A reader that comes more often than a narrow counter can count.
const MANY_READS: Roles = &["rrrrrr", "w"];

/// A lock, and the jobs that it is explored with.
pub(super) struct Explored {
    pub(super) lock: &'static str,
    pub(super) whole: &'static [Whole],
    /// The parameters with which a writer and a reader have time limits, or one of them dies. A
    /// lock without them is explored so under another name.
    pub(super) limited: Option<fn() -> Kind>,
    /// The parameters with which 8 and 16 ranks are explored.
    pub(super) many: Option<Many>,
}

/// A lock as 8 and 16 ranks use it.
pub(super) struct Many {
    pub(super) kind: fn() -> Kind,
    /// What must have happened, by the names of the statistics.
    pub(super) branches: &'static [&'static str],
}

/// A job of which all schedules are explored.
pub(super) struct Whole {
    /// Its name, behind that of the lock.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) kind: fn() -> Kind,
    /// What the ranks do; there is one for each role.
    pub(super) roles: Roles,
    pub(super) style: Style,
    pub(super) rounds: u32,
    /// Where they are; on one node if it is not said.
    pub(super) topology: Option<&'static str>,
    /// What must have happened, by the names of the statistics.
    pub(super) branches: &'static [&'static str],
}

/// A writer and a reader on one node, which wait.
const TWO: Whole = Whole {
    name: "",
    about: "a writer and a reader",
    kind: || Kind::Default,
    roles: PAIR,
    style: Style::Wait,
    rounds: 1,
    topology: None,
    branches: &[],
};
const ONE_WRITER: Whole =
    Whole { name: "readers", about: "one writer and two readers", roles: READERS, ..TWO };
const TWO_WRITERS: Whole =
    Whole { name: "writers", about: "two writers and a reader", roles: WRITERS, ..TWO };
/// Writers in a tree of two nodes, and a reader.
const TREE: Whole = Whole {
    about: "writers in a tree of two nodes, and a reader",
    roles: WRITERS,
    topology: Some("node:2"),
    ..TWO
};

/// Rows of one writer, and readers that insist at once.
const INSISTENT: fn() -> Kind = || Kind::Slots { t_dc: None, t_w: 1, yields: 0 };
/// Rows of two writers, and readers that withdraw once.
const PATIENT: fn() -> Kind = || Kind::Slots { t_dc: None, t_w: 2, yields: 1 };
/// The same with one counter for all.
const SHARED: fn() -> Kind = || Kind::Slots { t_dc: Some(4), t_w: 2, yields: 1 };
/// One counter for all, writers that do not follow each other, and readers that insist at once.
const SHARED_INSISTENT: fn() -> Kind = || Kind::Slots { t_dc: Some(4), t_w: 1, yields: 0 };

const PLAIN: fn() -> Kind = || Kind::FompiRw { backoff: false };
const BACKOFF: fn() -> Kind = || Kind::FompiRw { backoff: true };

/// One counter for a node, T_L = 2, T_R = 1.
const ONE: fn() -> Kind = || Kind::RmaRw { t_dc: None, t_l: vec![2], t_r: 1 };
const ONE_OF_TWO: fn() -> Kind = || Kind::RmaRw { t_dc: None, t_l: vec![2], t_r: 2 };
/// A counter for each rank, T_L = 1, T_R = 1.
const EACH: fn() -> Kind = || Kind::RmaRw { t_dc: Some(1), t_l: vec![1], t_r: 1 };
/// The same with at most two writers of an element in a row.
const EACH_OF_TWO: fn() -> Kind = || Kind::RmaRw { t_dc: Some(1), t_l: vec![1, 2], t_r: 1 };
const OUTER: fn() -> Kind = || Kind::RmaRw { t_dc: None, t_l: vec![2, 1], t_r: 2 };

pub(super) const EXPLORED: &[Explored] = &[
    Explored {
        lock: "default-rw",
        whole: &[
            Whole { kind: INSISTENT, branches: &["closed", "drained", "insisted"], ..ONE_WRITER },
            Whole { kind: INSISTENT, branches: &["closed", "drained", "yielded"], ..TWO_WRITERS },
            Whole {
                name: "pair",
                kind: PATIENT,
                branches: &["closed", "drained", "opened"],
                ..TWO
            },
            Whole {
                name: "insists",
                about: "a reader insists at once",
                kind: INSISTENT,
                branches: &["insisted"],
                ..TWO
            },
            Whole {
                name: "row",
                about: "two writers in a row",
                kind: PATIENT,
                roles: &["w", "w"],
                branches: &["passed_across", "lingered"],
                ..TWO
            },
            Whole {
                name: "reads-twice",
                about: "a reader comes again, and reads alone",
                kind: PATIENT,
                roles: READS_TWICE,
                branches: &["reads_alone", "lingered", "reads_queued"],
                ..TWO
            },
            Whole {
                name: "writes-twice",
                about: "a writer comes again",
                kind: PATIENT,
                roles: &["ww", "r"],
                branches: &["lingered"],
                ..TWO
            },
            Whole {
                name: "shared",
                about: "one counter for all",
                kind: SHARED,
                branches: &["closed", "drained", "opened"],
                ..TWO
            },
            Whole {
                name: "shared-twice",
                about: "one counter, a reader comes again",
                kind: SHARED,
                roles: READS_TWICE,
                branches: &["lingered"],
                ..TWO
            },
        ],
        limited: Some(PATIENT),
        many: Some(Many {
            kind: || Kind::Slots { t_dc: Some(3), t_w: 2, yields: 1 },
            branches: &[
                "closed",
                "drained",
                "opened",
                "yielded",
                "passed_across",
                "insisted",
                "lingered",
                "reads_alone",
                "reads_queued",
                "writes_queued",
                "given_up",
            ],
        }),
    },
    Explored {
        lock: "fompi-rw",
        whole: &[
            Whole { kind: PLAIN, branches: &["reads", "writes", "reads_queued"], ..ONE_WRITER },
            Whole { kind: PLAIN, branches: &["reads_queued", "writes_queued"], ..TWO_WRITERS },
            Whole {
                name: "twice",
                about: "a writer and a reader, twice",
                kind: PLAIN,
                rounds: 2,
                branches: &["reads_queued"],
                ..TWO
            },
        ],
        limited: Some(PLAIN),
        many: Some(Many { kind: PLAIN, branches: &["reads_queued", "writes_queued", "given_up"] }),
    },
    Explored {
        lock: "fompi-rw-backoff",
        whole: &[
            Whole { kind: BACKOFF, branches: &["reads_queued"], ..ONE_WRITER },
            Whole { kind: BACKOFF, branches: &["writes_queued"], ..TWO_WRITERS },
        ],
        limited: None,
        many: None,
    },
    Explored {
        lock: "rma-rw",
        whole: &[
            Whole {
                kind: ONE,
                branches: &[
                    "closed",
                    "drained",
                    "opened",
                    "reads_queued",
                    "limit_reached",
                    "limit_kept",
                    "limit_lifted",
                ],
                ..ONE_WRITER
            },
            Whole {
                kind: ONE,
                branches: &[
                    "closed",
                    "drained",
                    "opened",
                    "reads_queued",
                    "writes_queued",
                    "passed_across",
                ],
                ..TWO_WRITERS
            },
            Whole {
                name: "twice",
                about: "a writer and a reader, twice",
                kind: ONE,
                rounds: 2,
                branches: &["closed", "drained", "opened", "limit_lifted"],
                ..TWO
            },
            Whole {
                name: "each-readers",
                kind: EACH,
                branches: &["drained", "reads_queued"],
                ..ONE_WRITER
            },
            Whole {
                name: "each-writers",
                kind: EACH,
                branches: &["drained", "opened", "yielded"],
                ..TWO_WRITERS
            },
            Whole {
                name: "far-inner",
                kind: || Kind::RmaRw { t_dc: None, t_l: vec![1, 2], t_r: 2 },
                branches: &["passed_within", "passed_near", "left_for_another"],
                ..TREE
            },
            Whole {
                name: "far-outer",
                kind: OUTER,
                branches: &["closed", "drained", "opened"],
                ..TREE
            },
            Whole {
                name: "far-apart",
                kind: OUTER,
                roles: &["w", "r", "w"],
                branches: &["passed_across", "passed_far"],
                ..TREE
            },
            Whole {
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
    },
];

pub(super) type Variant = trial::Variant<Kind, Roles>;

const WITHOUT_FLUSH: &str = "passes the lock on before what was written under it has landed";
const WITHOUT_TELLING: &str = "departs without a word to the writer that waits for it";
/// What variants with narrow fields do, to reach the ends of the fields.
const TRIES: &str = "failed attempts to write, then a write, while others read";
const LIMITS: &str = "writes with time limits, then a write, while others read";
const READS: &str = "more reads than a counter can count";

const LOST: Trial<Roles> = Trial::caught(PAIR, Promise::Visibility, "was written");
const MEET: Trial<Roles> = Trial::caught(PAIR, Promise::Exclusion, "meets");

/// The trial of a variant that breaks nothing, with one rank for each role.
const fn passes(roles: Roles) -> Trial<Roles> {
    Trial::passes(roles, Job::new(roles.len() as u32))
}

/// The trial of a variant that leaves a rank waiting for one that is gone.
const fn left(roles: Roles) -> Trial<Roles> {
    Trial::caught(roles, Promise::Progress, "has already left")
}

/// The trial of a variant that leaves a writer waiting, as all others do.
const fn deadlock(roles: Roles) -> Trial<Roles> {
    Trial::caught(roles, Promise::Progress, "deadlock: rank 0 waits")
}

pub(super) const VARIANTS: &[Variant] = &[
    Variant::omitting(steps::FLUSH, "default-rw-without-flush", WITHOUT_FLUSH, PATIENT, LOST),
    Variant::omitting(
        steps::LINGER_AT_ONCE,
        "default-rw-in-two-steps",
        "begins to linger in two steps",
        PATIENT,
        left(PAIR),
    ),
    Variant::omitting(
        steps::TELL,
        "default-rw-without-waking",
        WITHOUT_TELLING,
        PATIENT,
        left(PAIR),
    ),
    Variant::omitting(
        steps::DRAIN,
        "default-rw-without-drain",
        "goes in with readers inside",
        PATIENT,
        MEET,
    ),
    Variant::narrow("default-rw-narrow-tries", TRIES, PATIENT, passes(&["ttw", "r"])),
    Variant::narrow("default-rw-narrow-insists", TRIES, SHARED_INSISTENT, passes(&["tw", "r"])),
    Variant::narrow("default-rw-narrow-limits", LIMITS, SHARED_INSISTENT, passes(&["lw", "r"])),
    Variant::narrow("default-rw-narrow-reads", READS, PATIENT, passes(MANY_READS)),
    Variant {
        is_narrow: true,
        ..Variant::omitting(
            steps::CLOSE_EMPTY,
            "default-rw-gives-up-on-readers",
            TRIES,
            SHARED_INSISTENT,
            deadlock(&["ttw", "r"]),
        )
    },
    Variant::omitting(
        steps::COUNT_ON_TOP,
        "default-rw-runs-over",
        READS,
        PATIENT,
        left(MANY_READS),
    ),
    Variant::omitting(steps::FLUSH, "fompi-rw-without-flush", WITHOUT_FLUSH, PLAIN, LOST),
    Variant::omitting(
        steps::TAKE_AT_ONCE,
        "fompi-rw-in-two-steps",
        "looks, and then writes",
        PLAIN,
        MEET,
    ),
    Variant::omitting(steps::FLUSH, "rma-rw-without-flush", WITHOUT_FLUSH, EACH_OF_TWO, LOST),
    Variant::omitting(
        steps::TELL,
        "rma-rw-without-waking",
        WITHOUT_TELLING,
        EACH_OF_TWO,
        left(PAIR),
    ),
    Variant::omitting(
        steps::DRAIN,
        "rma-rw-without-drain",
        "as printed in [RMALOCK16] listing 6: a reader and a writer are inside together",
        EACH_OF_TWO,
        MEET,
    ),
    Variant::omitting(
        steps::ASK_AGAIN,
        "rma-rw-without-asking-again",
        "as printed in [RMALOCK16] listing 9: after T_R readers, one waits for a writer that has \
         left",
        EACH_OF_TWO,
        left(READS_TWICE),
    ),
    Variant::omitting(
        steps::RESET_AT_ONCE,
        "rma-rw-resets-in-steps",
        "as printed in [RMALOCK16] listing 6: a reset takes a writer's mark away",
        EACH_OF_TWO,
        left(READS_TWICE),
    ),
    Variant::omitting(
        farside::lock::steps::CLIMB_LAST,
        "rma-rw-climbs-too-early",
        "lets the next of its element go up before the wider queue is left",
        EACH_OF_TWO,
        left(&["ww", "w", ""]).of(Job::new(3).on("node:2")),
    ),
    Variant::narrow("rma-rw-narrow-tries", TRIES, EACH_OF_TWO, passes(&["ttw", "r"])),
    Variant::narrow("rma-rw-narrow-tries-twice", TRIES, ONE_OF_TWO, passes(&["tt", "rr"])),
    Variant::narrow("rma-rw-narrow-readers", TRIES, ONE_OF_TWO, passes(&["tw", "r", "r"])),
    Variant::narrow("rma-rw-narrow-limits", LIMITS, ONE_OF_TWO, passes(&["llw", "r"])),
    Variant::narrow("rma-rw-narrow-reads", READS, ONE_OF_TWO, passes(MANY_READS)),
    Variant::narrow("rma-rw-narrow-many", READS, ONE_OF_TWO, passes(&["rrr", "rrr"])),
    Variant {
        is_narrow: true,
        ..Variant::omitting(
            steps::CLOSE_EMPTY,
            "rma-rw-gives-up-on-readers",
            TRIES,
            ONE_OF_TWO,
            deadlock(&["ttw", "r"]),
        )
    },
    Variant::omitting(
        steps::COUNT_ON_TOP,
        "rma-rw-runs-over",
        READS,
        ONE_OF_TWO,
        deadlock(&["rrr", "rrr"]),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_explored() {
        for entry in farside::rw::entries() {
            assert!(EXPLORED.iter().any(|row| row.lock == entry.name), "{}", entry.name);
        }
    }
}
