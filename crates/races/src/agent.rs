//! An agent whose atomics order what its callers have done.

use farside_fabric::{Agent, Atomic, Node, Region, Result, Word};

use crate::Checker;
use crate::calls::{Call, clock_of};
use crate::told::clock_of_agent;

/// An agent whose atomics order what its callers have done.
pub(crate) struct SeenAgent<'a> {
    pub(crate) agent: &'a dyn Agent,
    pub(crate) checker: &'a Checker,
}

impl SeenAgent<'_> {
    fn changes(&self, at: Word) {
        let mine = clock_of_agent(self.checker, self.agent.node());
        let word = clock_of(self.checker.layout(), at.rank.index(), at.segment, at.offset);
        self.checker.run(&[Call::PassOn { from: mine, to: word }]);
    }
}

impl Agent for SeenAgent<'_> {
    fn node(&self) -> Node {
        self.agent.node()
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<u128> {
        self.changes(at);
        let held = self.agent.atomic(at, op)?;
        let mine = clock_of_agent(self.checker, self.agent.node());
        let word = clock_of(self.checker.layout(), at.rank.index(), at.segment, at.offset);
        self.checker.run(&[Call::PassOn { from: word, to: mine }]);
        Ok(held)
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        self.changes(at);
        self.agent.post(at, op)
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.agent.put(to, bytes)
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.changes(at);
        self.agent.put_signal(to, bytes, at, op)
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        self.agent.get(from, into)
    }
}
