//! The lock that is nothing but a tree.

use std::time::Duration;

use farside_fabric::Result;
use farside_rma::Context;

use super::{Reached, RmaMcs, words};
use crate::lock::Kind;
use crate::lock::frame::{Algorithm, LockWords, TimeLimit};
use crate::lock::registry::{Entry as Row, Made, Maker};

pub(in crate::lock::algorithms) fn make(
    maker: &Maker<'_>,
    thresholds: &[u32],
) -> Result<Made<dyn Algorithm>> {
    let words = maker.words(words(maker.context(), maker.team.members()))?;
    let tree = RmaMcs::below(&words, maker.context(), None, thresholds);
    Ok(Made { words, algorithm: Box::new(tree) })
}

impl Algorithm for RmaMcs {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        Ok(self.climb(lock, context, TimeLimit::DoNotWait)? != Reached::GaveUp)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.climb(lock, context, TimeLimit::Unlimited).map(drop)
    }

    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        Ok(self.climb(lock, context, TimeLimit::AtMost(time))? != Reached::GaveUp)
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        self.descend(lock, context, &|| Ok(()))?;
        published
    }

    fn reset(&mut self, lock: &LockWords, context: &Context) -> Result<()> {
        self.arrange(lock, context);
        Ok(())
    }
}

pub(in crate::lock::algorithms) const ENTRIES: &[Row] = &[Row {
    name: "rma-mcs",
    about: "a queue for each element of the topology",
    kind: || Kind::RmaMcs { thresholds: Vec::new() },
    needs_agent: false,
}];
