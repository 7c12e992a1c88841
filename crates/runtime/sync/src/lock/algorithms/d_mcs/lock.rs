//! The lock that is nothing but a queue, with its statistics.

use std::time::Duration;

use farside_fabric::Result;
use farside_rma::Context;

use super::{Entry, Queue, WORDS};
use crate::lock::Kind;
use crate::lock::frame::{Algorithm, LockWords, TimeLimit};
use crate::lock::registry::{Entry as Row, Made, Maker};

struct DMcs {
    queue: Queue,
}

pub(in crate::lock::algorithms) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    let algorithm = Box::new(DMcs { queue: Queue::new(0, maker.home) });
    Ok(Made { words: maker.words(WORDS)?, algorithm })
}

impl DMcs {
    fn request_within(
        &self,
        lock: &LockWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<bool> {
        let entry = self.queue.acquire(lock, context, limit)?;
        if matches!(entry, Entry::Passed(_)) {
            lock.statistics.queued(1);
        }
        Ok(entry != Entry::GaveUp)
    }
}

impl Algorithm for DMcs {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        self.request_within(lock, context, TimeLimit::DoNotWait)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.request_within(lock, context, TimeLimit::Unlimited).map(drop)
    }

    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        self.request_within(lock, context, TimeLimit::AtMost(time))
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        if let Some(next) = self.queue.release(lock, context, 0)? {
            lock.statistics.passed(context, next);
        }
        published
    }

    fn reset(&mut self, lock: &LockWords, _context: &Context) -> Result<()> {
        self.queue = Queue::new(0, lock.home());
        Ok(())
    }
}

pub(in crate::lock::algorithms) const ENTRIES: &[Row] = &[Row {
    name: "d-mcs",
    about: "a queue in which each waiter waits on its own word",
    kind: || Kind::Mcs,
    needs_agent: false,
}];
