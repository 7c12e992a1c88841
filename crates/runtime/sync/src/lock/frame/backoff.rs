//! Polling of one word, with pauses that grow.

use farside_fabric::Result;
use farside_rma::Context;

use super::{LockWords, TimeLimit};

/// The longest pause between two attempts, in turns at the processor.
const PAUSE_MAX: u32 = 256;

/// How a request polls a word of the home.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordPoll {
    pub(crate) index: usize,
    pub(crate) limit: TimeLimit,
    /// Whether each look or attempt that fails doubles the pause before the next look.
    pub(crate) backoff: bool,
}

impl LockWords {
    /// Reads a word until its value promises success, and then attempts to change it, until an
    /// attempt succeeds or the limit is over.
    pub(crate) fn poll_word(
        &self,
        context: &Context,
        poll: WordPoll,
        is_free: impl Fn(u64) -> bool,
        attempt: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        let mut pause = 1;
        self.poll(context, poll.limit, || {
            let is_taken = is_free(context.load(self.shared(poll.index))?) && attempt()?;
            if poll.backoff && !is_taken {
                // A departure does not matter before the next look.
                (0..pause).try_for_each(|_| self.relax(context)).unwrap_or_default();
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Ok(is_taken)
        })
    }
}
