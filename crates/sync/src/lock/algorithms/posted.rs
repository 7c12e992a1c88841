//! The entry of a lock whose release is posted, which differs from the next by its names.
//!
//! Cost:      a call to take the lock and a call to release it, which nobody waits for.
//! Checked:   as its lock is; the variant without a flush must be caught.

use super::{Kind, QUICK, Variant};
use crate::lock::frame::Algorithm;
use crate::lock::registry::{
    Build, Case, Cost, Entry, Explored, Job, Operations, Promise, Style, Trial, without_flush,
};

const COSTS: &[Cost] = &[Cost::of("node:2", Case::AloneAway, Operations::CALL, Operations::CALL)];

/// What tells one such lock from another.
pub(super) trait Posted: 'static {
    const NAME: &'static str;
    const ABOUT: &'static str;
    const KIND: fn() -> Kind;
    /// The variant that releases before its operations are complete.
    const WITHOUT_FLUSH: Build<dyn Algorithm>;

    const EXPLORED: &'static [Explored] =
        &[Explored { name: Self::NAME, kind: Self::KIND, is_fifo: true, ..QUICK }];
    const VARIANTS: &'static [Variant] = &[Variant {
        trial: Some(Trial {
            job: Job::new(2).on("node:2"),
            ..Trial::caught(Style::Wait, Promise::Visibility, "was lost")
        }),
        ..without_flush(Self::WITHOUT_FLUSH)
    }];
}

/// Returns the entry of such a lock.
pub(super) const fn entry<P: Posted>() -> Entry {
    Entry {
        name: P::NAME,
        about: P::ABOUT,
        kind: P::KIND,
        needs_agent: true,
        explored: P::EXPLORED,
        costs: COSTS,
        variants: P::VARIANTS,
    }
}
