//! The jobs that locks are explored with, and their variants: those that are wrong on purpose, and
//! the right ones with fields so narrow that they run over in every run.

use farside::lock::{Kind, steps};

use crate::family::asking::Style;
use crate::family::trial::{self, Job, Trial};
use crate::property::Promise;

/// A lock with parameters, and the jobs that it is explored with.
pub(in crate::family) struct Explored {
    /// The name of the first check; those of the others begin with it.
    pub(in crate::family) name: &'static str,
    pub(in crate::family) kind: fn() -> Kind,
    /// Ranks of one node.
    pub(super) near: Job,
    /// Ranks of several nodes.
    pub(super) far: Job,
    /// Ranks of which one may die.
    pub(super) deaths: Job,
    pub(super) limits: Job,
    pub(in crate::family) holders: u32,
    /// Whether ranks get it in the order in which they took their places.
    pub(super) is_fifo: bool,
    /// Whether it is also run by 64 and 256 ranks.
    pub(super) large: Large,
}

#[derive(Clone, Copy)]
pub(super) enum Large {
    No,
    /// Ranks of one node.
    Near(fn() -> Kind),
    /// Ranks of racks, nodes and sockets.
    Deep(fn() -> Kind),
}

/// The jobs of which all schedules can be tried in seconds, for most locks.
const QUICK: Explored = Explored {
    name: "",
    kind: DEFAULT,
    near: Job::new(3),
    far: Job::new(3).on("node:3"),
    deaths: Job::new(2),
    limits: Job::new(2),
    holders: 1,
    is_fifo: false,
    large: Large::No,
};

const DEFAULT: fn() -> Kind = || Kind::Default;
const ASLEEP: fn() -> Kind = || Kind::Bypass { batch: 1, bound: 1, polls: 0 };
const TICKET: fn() -> Kind = || Kind::Ticket;
const SERVER: fn() -> Kind = || Kind::Server;
const HYBRID: fn() -> Kind = || Kind::Hybrid;
const SERVER_POSTED: fn() -> Kind = || Kind::ServerPosted;
const HYBRID_POSTED: fn() -> Kind = || Kind::HybridPosted;
const MCS: fn() -> Kind = || Kind::Mcs;
const TOKEN: fn() -> Kind = || Kind::Token;
const PACKED: fn() -> Kind = || Kind::Packed;
const RMA_MCS: fn() -> Kind = || Kind::RmaMcs { thresholds: vec![2] };
const SPIN: fn() -> Kind = || Kind::Spin { backoff: false };
const ONE_PERMIT: fn() -> Kind = || Kind::Semaphore { permits: 1 };

pub(in crate::family) const EXPLORED: &[Explored] = &[
    Explored { name: "default", large: Large::Near(DEFAULT), ..QUICK },
    Explored {
        name: "default-asleep",
        kind: ASLEEP,
        deaths: Job::new(3),
        limits: Job::new(2).rounds(2),
        ..QUICK
    },
    Explored {
        name: "default-one-look",
        kind: || Kind::Bypass { batch: 1, bound: 1, polls: 1 },
        ..QUICK
    },
    Explored {
        name: "default-turns",
        kind: || Kind::Bypass { batch: 1, bound: 2, polls: 1 },
        ..QUICK
    },
    Explored {
        name: "ticket",
        kind: TICKET,
        is_fifo: true,
        deaths: Job::new(3),
        limits: Job::new(3),
        ..QUICK
    },
    Explored { name: "server", kind: SERVER, is_fifo: true, ..QUICK },
    Explored { name: "hybrid", kind: HYBRID, is_fifo: true, ..QUICK },
    Explored { name: "server-posted", kind: SERVER_POSTED, is_fifo: true, ..QUICK },
    Explored { name: "hybrid-posted", kind: HYBRID_POSTED, is_fifo: true, ..QUICK },
    Explored {
        name: "d-mcs",
        kind: MCS,
        is_fifo: true,
        near: Job::new(3).rounds(2),
        deaths: Job::new(3),
        limits: Job::new(3),
        large: Large::Deep(MCS),
        ..QUICK
    },
    Explored {
        name: "d-mcs-token",
        kind: TOKEN,
        is_fifo: true,
        near: Job::new(3).rounds(2),
        deaths: Job::new(3),
        limits: Job::new(2).rounds(3),
        ..QUICK
    },
    Explored { name: "d-mcs-packed", kind: PACKED, is_fifo: true, ..QUICK },
    Explored {
        name: "rma-mcs",
        kind: RMA_MCS,
        near: Job::new(3).rounds(2),
        far: Job::new(3).on("node:2"),
        deaths: Job::new(3).on("node:2"),
        limits: Job::new(3).on("node:2"),
        large: Large::Deep(|| Kind::RmaMcs { thresholds: vec![4, 2, 2] }),
        ..QUICK
    },
    Explored { name: "fompi-spin", kind: SPIN, limits: Job::new(2).rounds(2), ..QUICK },
    Explored {
        name: "fompi-spin-backoff",
        kind: || Kind::Spin { backoff: true },
        limits: Job::new(2).rounds(2),
        ..QUICK
    },
    Explored { name: "semaphore", kind: ONE_PERMIT, is_fifo: true, ..QUICK },
    Explored {
        name: "semaphore-2",
        kind: || Kind::Semaphore { permits: 2 },
        limits: Job::new(3),
        holders: 2,
        ..QUICK
    },
];

pub(super) type Variant = trial::Variant<Kind, Style>;

const WITHOUT_FLUSH: &str = "passes the lock on before what was written under it has landed";
const IN_TWO_STEPS: &str = "looks, and then writes";
const WITHOUT_SECOND_LOOK: &str = "does not wait for a successor that is about to link itself";
const REQUESTS: &str = "requests to an agent are numbered with two bits";

const LOST: Trial<Style> = Trial::caught(Style::Wait, Promise::Visibility, "was lost");
const LOST_FAR: Trial<Style> = LOST.of(Job::new(2).on("node:2"));
const MEET: Trial<Style> =
    Trial::caught(Style::Wait, Promise::Exclusion, "are inside at the same time");
/// A rank waits for one that is gone.
const LEFT: Trial<Style> = Trial::caught(Style::Wait, Promise::Progress, "has already left");
const DEADLOCK: Trial<Style> = Trial::caught(Style::Wait, Promise::Progress, "deadlock");

pub(super) const VARIANTS: &[Variant] = &[
    Variant::omitting(steps::FLUSH, "default-without-flush", WITHOUT_FLUSH, ASLEEP, LOST),
    Variant::omitting(
        steps::WAKE,
        "default-without-waking",
        "leaves the lock free without a word to the parked head of the queue",
        ASLEEP,
        LEFT,
    ),
    Variant::omitting(steps::FLUSH, "ticket-without-flush", WITHOUT_FLUSH, TICKET, LOST),
    Variant::omitting(steps::TAKE_AT_ONCE, "ticket-in-two-steps", IN_TWO_STEPS, TICKET, MEET),
    Variant::omitting(steps::FLUSH, "server-without-flush", WITHOUT_FLUSH, SERVER, LOST),
    Variant::omitting(steps::FLUSH, "hybrid-without-flush", WITHOUT_FLUSH, HYBRID, LOST_FAR),
    Variant::omitting(steps::TAKE_AT_ONCE, "hybrid-in-two-steps", IN_TWO_STEPS, HYBRID, MEET),
    Variant::narrow(
        "hybrid-narrow",
        REQUESTS,
        HYBRID,
        Trial::passes(Style::Wait, Job::new(2).on("node:1").rounds(3)),
    ),
    Variant::narrow(
        "hybrid-narrow-gives-up",
        REQUESTS,
        HYBRID,
        Trial::passes(Style::GiveUp, Job::new(2).on("node:1").rounds(2)),
    ),
    Variant::omitting(
        steps::FLUSH,
        "server-posted-without-flush",
        WITHOUT_FLUSH,
        SERVER_POSTED,
        LOST_FAR,
    ),
    Variant::omitting(
        steps::FLUSH,
        "hybrid-posted-without-flush",
        WITHOUT_FLUSH,
        HYBRID_POSTED,
        LOST_FAR,
    ),
    Variant::omitting(steps::FLUSH, "d-mcs-without-flush", WITHOUT_FLUSH, MCS, LOST),
    Variant::omitting(
        steps::LOOK_AGAIN,
        "d-mcs-without-second-look",
        WITHOUT_SECOND_LOOK,
        MCS,
        LEFT,
    ),
    Variant::omitting(
        steps::GIVE_UP_AT_ONCE,
        "d-mcs-gives-up-in-two-steps",
        "looks whether it was granted the lock, and then gives up",
        MCS,
        Trial::caught(Style::GiveUp, Promise::Progress, "has already left"),
    ),
    Variant::omitting(
        steps::SKIP,
        "d-mcs-without-skipping",
        "passes the lock to a place that was given up",
        MCS,
        Trial::caught(Style::WalkAway, Promise::Progress, "has already left")
            .of(Job::new(2).rounds(2)),
    ),
    Variant::omitting(steps::FLUSH, "d-mcs-token-without-flush", WITHOUT_FLUSH, TOKEN, LOST),
    Variant::omitting(
        steps::ALTERNATE,
        "d-mcs-token-with-one-node",
        "uses the node again that it has just released the lock with",
        TOKEN,
        DEADLOCK.of(Job::new(2).rounds(2)),
    ),
    Variant::omitting(
        steps::NUMBER_PLACES,
        "d-mcs-token-without-numbers",
        "takes a tail that is as it was for one that did not change",
        TOKEN,
        Trial::caught(Style::Try, Promise::Visibility, "was lost").of(Job::new(2).rounds(3)),
    ),
    Variant::narrow(
        "d-mcs-token-narrow",
        "places in the queue are numbered with two bits",
        TOKEN,
        Trial::passes(Style::Wait, Job::new(2).rounds(5)),
    ),
    Variant::omitting(steps::FLUSH, "d-mcs-packed-without-flush", WITHOUT_FLUSH, PACKED, LOST),
    Variant::omitting(
        steps::LOOK_AGAIN,
        "d-mcs-packed-without-second-look",
        WITHOUT_SECOND_LOOK,
        PACKED,
        LEFT,
    ),
    Variant::omitting(
        steps::KEEP_LINK,
        "d-mcs-packed-by-store",
        "takes a grant by a store, over a link that comes at the same time",
        PACKED,
        DEADLOCK.of(Job::new(3)),
    ),
    Variant::omitting(
        steps::FLUSH,
        "rma-mcs-without-flush",
        WITHOUT_FLUSH,
        RMA_MCS,
        LOST.of(Job::new(3).on("node:2")),
    ),
    Variant::omitting(
        steps::CLIMB_LAST,
        "rma-mcs-leaf-first",
        "leaves the queue of its element before it has released the one around it",
        RMA_MCS,
        DEADLOCK.of(Job::new(3).rounds(3).on("node:2")).random(20_000),
    ),
    Variant::omitting(steps::FLUSH, "fompi-spin-without-flush", WITHOUT_FLUSH, SPIN, LOST),
    Variant::omitting(steps::TAKE_AT_ONCE, "fompi-spin-in-two-steps", IN_TWO_STEPS, SPIN, MEET),
    Variant::omitting(steps::FLUSH, "semaphore-without-flush", WITHOUT_FLUSH, ONE_PERMIT, LOST),
    Variant::omitting(
        steps::TAKE_AT_ONCE,
        "semaphore-in-two-steps",
        IN_TWO_STEPS,
        ONE_PERMIT,
        MEET,
    ),
    Variant::omitting(
        steps::AWAIT_PERMIT,
        "semaphore-without-permits",
        "enters when its ticket is the next, whoever is inside",
        ONE_PERMIT,
        LOST,
    ),
    Variant::omitting(
        steps::AWAIT_TURN,
        "semaphore-without-turns",
        "enters when a permit is left, whoever has waited longer",
        ONE_PERMIT,
        Trial::caught(Style::Wait, Promise::Fairness, "was overtaken").of(Job::new(2).rounds(3)),
    ),
    Variant::narrow(
        "semaphore-narrow",
        "tickets are numbered with two bits",
        ONE_PERMIT,
        Trial::passes(Style::Wait, Job::new(2).rounds(5)).random(2000),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_explored() {
        for entry in farside::lock::entries() {
            assert!(EXPLORED.iter().any(|row| row.name == entry.name), "{}", entry.name);
        }
    }
}
