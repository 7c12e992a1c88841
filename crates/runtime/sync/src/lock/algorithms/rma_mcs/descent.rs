//! What became of a release of the tree, for statistics.

use farside_fabric::{Rank, Result};
use farside_rma::Context;

use super::{GiveBack, RmaMcs};
use crate::lock::frame::LockWords;

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Descent {
    /// The level inside whose element the lock was passed, the narrowest being 0.
    pub(crate) passed_at: Option<usize>,
    /// Whether a rank waited in the widest queue when what lies above was given back.
    pub(crate) yielded: bool,
    /// Whether a queue was left that another rank had entered.
    pub(crate) for_another: bool,
    /// The rank to which the lock was passed.
    pub(crate) next: Option<Rank>,
}

/// A queue that was left.
pub(super) struct Left {
    /// The number of its level.
    pub(super) i: usize,
    /// The rank whose node stood in it.
    pub(super) owner: Rank,
    pub(super) succ: Option<Rank>,
    /// Whether the lock has left the element.
    pub(super) has_left: bool,
}

impl RmaMcs {
    /// Passes the lock on; gives back what lies above if it goes no further in the tree.
    pub(crate) fn descend(
        &self,
        lock: &LockWords,
        context: &Context,
        give_back: GiveBack<'_>,
    ) -> Result<Descent> {
        self.descent.set(Descent::default());
        self.writer_release(lock, context, 0, self.levels[0].queue.link(), give_back)?;
        Ok(self.descent.get())
    }

    pub(super) fn note_left(&self, lock: &LockWords, context: &Context, left: Left) {
        let Left { i, owner, succ, has_left } = left;
        let mut descent = self.descent.get();
        descent.for_another |= owner != context.rank();
        match succ {
            Some(next) if !has_left => {
                lock.statistics.passed(context, next);
                (descent.passed_at, descent.next) = (Some(i), Some(next));
            }
            Some(_) => descent.yielded |= self.is_widest(i),
            None => {}
        }
        self.descent.set(descent);
    }
}
