//! Calls of handlers that the agent of a node runs: with a reply, or posted.

use std::panic::Location;

use farside_fabric::record::ActivityKind;
use farside_fabric::{Error, HandlerId, Node, Reply, Result, Started, Ticket};

use crate::activity::Purpose;
use crate::context::Context;
use crate::doing::FailureScope;

/// How many posted calls of a context may be unanswered: an agent has room for some calls only.
const UNANSWERED_MAX: usize = 4;

impl Context {
    /// Asks the agent of a node to run a handler, and waits for its reply. See
    /// [`World::serve`](crate::World::serve).
    ///
    /// The call is executed exactly once, if any rank of the node is there to run it.
    /// [`Error::RankLost`] names the rank whose process was killed while it ran this call, or says
    /// that no rank of the node is left; the call may then have been executed, in part, or not at
    /// all.
    #[track_caller]
    pub fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Vec<u8>> {
        match self.start_call(node, handler, bytes)? {
            Started::Done(reply) => bytes_of(reply),
            Started::Pending(ticket) => self.finish_call(node, ticket),
        }
    }

    /// Asks the agents of several nodes, or one of them several times, to run a handler, and waits
    /// for all replies, which have the order of the requests. Some of the calls are under way at
    /// the same time, and are not ordered with each other.
    ///
    /// Fails like [`Context::call`]; when one of the calls has failed, others may have been
    /// executed.
    ///
    /// ```
    /// # use farside::Node;
    /// # farside::local(2, |world| {
    /// let handler = world.serve(|_, _, asked| vec![asked[0] + 1])?;
    /// let replies = world.call_all(handler, &[(Node(0), vec![1]), (Node(0), vec![5])])?;
    /// assert_eq!(replies, [[2], [6]]);
    /// # world.barrier() }).unwrap();
    /// ```
    #[track_caller]
    pub fn call_all(
        &self,
        handler: HandlerId,
        requests: &[(Node, Vec<u8>)],
    ) -> Result<Vec<Vec<u8>>> {
        let mut replies = Vec::with_capacity(requests.len());
        for requests in requests.chunks(UNANSWERED_MAX) {
            let started: Vec<Result<Started>> = requests
                .iter()
                .map(|(node, bytes)| self.start_call(*node, handler, bytes))
                .collect();
            // All are waited for, also after one has failed: their slots are used again.
            let done: Vec<Result<Vec<u8>>> = requests
                .iter()
                .zip(started)
                .map(|(&(node, _), started)| match started? {
                    Started::Done(reply) => bytes_of(reply),
                    Started::Pending(ticket) => self.finish_call(node, ticket),
                })
                .collect();
            for reply in done {
                replies.push(reply?);
            }
        }
        Ok(replies)
    }

    /// Asks the agent of a node to run a handler, and does not wait until it has: its reply is
    /// dropped. The call is executed like one that waits, and not ordered with other calls.
    ///
    /// A context that ends does not wait for it: [`Context::finish_calls`] does, and so does
    /// another posted call when several are unanswered. What has gone wrong with a posted call is
    /// told there.
    ///
    /// ```
    /// # use farside::fabric::Atomic;
    /// # use farside::{Node, Rank};
    /// # farside::local(2, |world| {
    /// let sum = world.words(1)?;
    /// let at = sum.at(Rank(0), 0).word();
    /// let handler = world.serve(move |agent, _, _| {
    ///     let _ = agent.atomic(at, Atomic::Add(1));
    ///     Vec::new()
    /// })?;
    /// world.post_call(Node(0), handler, &[])?;
    /// world.finish_calls()?;
    /// world.barrier()?;
    /// assert_eq!(world.load(sum.at(Rank(0), 0))?, 2);
    /// # sum.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn post_call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<()> {
        self.finish_oldest_calls(UNANSWERED_MAX - 1)?;
        if let Started::Pending(ticket) = self.start_call(node, handler, bytes)? {
            self.posted_calls().borrow_mut().push((node, ticket));
        }
        Ok(())
    }

    /// Returns when all posted calls of this context have been executed.
    #[track_caller]
    pub fn finish_calls(&self) -> Result<()> {
        self.finish_oldest_calls(0)
    }

    /// Gives up on the answers of posted calls, so that others can have their slots.
    pub(crate) fn abandon_calls(&self) {
        for (_, ticket) in self.posted_calls().take() {
            self.fabric().cancel(ticket);
        }
    }

    #[track_caller]
    fn finish_oldest_calls(&self, rest: usize) -> Result<()> {
        while self.posted_calls().borrow().len() > rest {
            let (node, ticket) = self.posted_calls().borrow_mut().remove(0);
            self.finish_call(node, ticket)?;
        }
        Ok(())
    }

    fn start_call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        let leader = self.topology().leader_of(node)?;
        self.tally().call(leader);
        self.fabric()
            .call(node, handler, bytes)
            .map_err(|error| self.cause_of_failed_call(error, leader))
    }

    #[track_caller]
    fn finish_call(&self, node: Node, ticket: Ticket) -> Result<Vec<u8>> {
        let leader = self.topology().leader_of(node)?;
        let place = Location::caller();
        let purpose = || Purpose::at(ActivityKind::Call, "call", place);
        self.complete_as(ticket, &FailureScope::Agent(node), &purpose)
            .map_err(|error| self.cause_of_failed_call(error, leader))
            .and_then(bytes_of)
    }
}

fn bytes_of(reply: Reply) -> Result<Vec<u8>> {
    match reply {
        Reply::Bytes(bytes) => Ok(bytes),
        other => Err(Error::Internal(format!("a call brought back {other:?} instead of bytes"))),
    }
}
