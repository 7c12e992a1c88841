//! Known-wrong variants, for the checker to find out: a checker that never fails proves nothing.

use farside_fabric::{Rank, Result};
use farside_rma::World;

use super::Lock;
use super::frame::{Algorithm, Site, Variant};
use super::kind::site;
use super::{bypass, hybrid, mcs, server, spin, ticket, token, tree};

farside_rma::wrong_variants! {
    /// Passes the lock on before what was written under it has landed.
    WithoutFlush: FLUSHES;
    /// Does not wait for a successor that is about to link itself.
    WithoutSecondLook: LOOKS_AGAIN;
    /// Reads, and then writes.
    InTwoSteps: TAKES_AT_ONCE;
    /// Looks whether it was granted the lock, and then gives up.
    GivesUpInTwoSteps: GIVES_UP_AT_ONCE;
    /// Passes the lock to a place that was given up.
    WithoutSkipping: SKIPS;
    /// Leaves the queue of its element before it has released the one around it.
    LeafFirst: CLIMBS_LAST;
    /// Uses the node again that it has just released the lock with.
    WithOneNode: ALTERNATES;
    /// Gives its places two numbers in turn.
    WithoutNumbers: NUMBERS_PLACES;
    /// Leaves the lock free without a word to the sleeping head of the queue.
    WithoutWaking: WAKES;
    /// Lets running ranks be ahead of the head of the queue for ever.
    WithoutBound: BOUNDS_BYPASS;
    /// Keeps the lock inside an element for as long as anybody there wants it.
    WithoutTL: KEEPS_T_L;
}

/// The algorithms that come in variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// `ticket`.
    Ticket,
    /// `d-mcs`.
    Mcs,
    /// `server`.
    Server,
    /// `hybrid`.
    Hybrid,
    /// `rma-mcs`, with a threshold of 2.
    Tree,
    /// `rma-mcs`, with these thresholds.
    TreeOf(&'static [u32]),
    /// `d-mcs-token`.
    Token,
    /// `fompi-spin`.
    Spin,
    /// `fompi-spin-backoff`.
    SpinBackoff,
    /// `default`, with a bound of 1 and a head that sleeps at once.
    Bypass,
}

/// Makes a lock of a variant.
pub fn lock<V: Variant>(world: &World, home: Rank, base: Base) -> Result<Lock> {
    let make = |words: usize| -> Result<Site> {
        site(&world.team(), home, words, &format!("a variant of {base:?}"))
    };
    let algorithm: Box<dyn Algorithm> = match base {
        Base::Ticket => Box::new(ticket::Ticket::<V>::new(make(ticket::WORDS)?)),
        Base::Mcs => Box::new(mcs::Mcs::<V>::new(make(mcs::WORDS)?)),
        Base::Bypass => {
            let bounds = bypass::Bounds { batch: Some(1), bound: 1, polls: 0 };
            Box::new(bypass::Bypass::<V>::new(make(bypass::WORDS)?, world, bounds)?)
        }
        Base::Server => {
            Box::new(server::Server::<V>::new(make(server::words(world.size()))?, world)?)
        }
        Base::Hybrid => {
            Box::new(hybrid::Hybrid::<V>::new(make(hybrid::words(world.size()))?, world)?)
        }
        Base::Tree => return lock::<V>(world, home, Base::TreeOf(&[2])),
        Base::TreeOf(thresholds) => {
            let words = tree::words(world, world.team().members());
            Box::new(tree::Tree::<V>::new(make(words)?, world, thresholds))
        }
        Base::Token => Box::new(token::Token::<V>::new(make(token::WORDS)?)),
        Base::Spin => Box::new(spin::Spin::<V>::new(make(spin::WORDS)?, false)),
        Base::SpinBackoff => Box::new(spin::Spin::<V>::new(make(spin::WORDS)?, true)),
    };
    Ok(Lock::with(algorithm, world.rank()))
}
