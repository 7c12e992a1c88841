//! Transfers that overlap with computation: the buffer stays borrowed until they are complete.

use std::cell::RefCell;
use std::marker::PhantomData;

use farside_fabric::{Rank, Region, Result, Started, Ticket};
use zerocopy::IntoBytes;

use crate::context::Context;
use crate::place::Place;
use crate::plain::Plain;

impl Context {
    /// Runs `body`, which may start transfers with [`Scope::get_nb`] and [`Scope::put_nb`]; all of them are complete when this returns.
    ///
    /// A buffer must live longer than the scope, and stays borrowed until its transfer was waited for or the scope is over:
    /// there is no way to touch it, free it, or forget the transfer in between.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// let window = world.window::<u32>(1000)?;
    /// let mut here = vec![0; 1000];
    /// let sum: u32 = world.scope(|scope| {
    ///     let pending = scope.get_nb(window.at(Rank(1), 0), &mut here)?;
    ///     let computed = 41 + 1; // … while the data is on its way
    ///     Ok(computed + pending.wait()?.iter().sum::<u32>())
    /// })?;
    /// assert_eq!(sum, 42);
    /// # window.free(&world) }).unwrap();
    /// ```
    ///
    /// ```compile_fail,E0499
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// # let window = world.window::<u32>(1000)?;
    /// let mut here = vec![0; 1000];
    /// world.scope(|scope| {
    ///     let pending = scope.get_nb(window.at(Rank(1), 0), &mut here)?;
    ///     here[0] = 7; // error: `here` is borrowed
    ///     pending.wait()
    /// })?;
    /// # window.free(&world) }).unwrap();
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        // Should `body` panic, dropping this completes what is under way.
        let outstanding = Outstanding { context: self, tickets: RefCell::default() };
        let scope = Scope { outstanding: &outstanding, scope: PhantomData, env: PhantomData };
        let result = body(&scope);
        let completed = outstanding.complete_all();
        result.and_then(|result| completed.map(|()| result))
    }
}

/// Where transfers that overlap are started. See [`Context::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    outstanding: &'scope Outstanding<'env>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The transfers of a scope that nobody has waited for yet.
struct Outstanding<'env> {
    context: &'env Context,
    tickets: RefCell<Vec<(Ticket, Rank)>>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a read from a place into `into`.
    pub fn get_nb<'a, T: Plain>(
        &'scope self,
        from: Place<'_, T>,
        into: &'a mut [T],
    ) -> Result<Pending<'scope, 'env, &'a mut [T]>>
    where
        'a: 'scope,
    {
        let bytes = size_of_val(into) as u64;
        from.check(bytes)?;
        if from.segment.part(from.rank)?.near.is_some() {
            self.outstanding.context.get(from, into)?;
            return Ok(Pending { scope: self, ticket: None, buffer: into });
        }
        self.outstanding.context.tally().get(from.rank, bytes);
        let region = Region::block(from.rank, from.segment.id, from.offset, bytes);
        // SAFETY: `into` is borrowed for longer than the scope, which does not end before the operation is over; until
        // then the borrow is inside `Pending`, which gives it back only after completion.
        let started = unsafe { self.outstanding.context.fabric().get(&region, into.as_mut_bytes().as_mut_ptr())? };
        Ok(Pending { scope: self, ticket: self.enter(started, from.rank), buffer: into })
    }

    /// Starts a write of `data` to a place; when it is waited for, `data` may be reused. It has landed after a flush.
    pub fn put_nb<'a, T: Plain>(&'scope self, data: &'a [T], to: Place<'_, T>) -> Result<Pending<'scope, 'env, &'a [T]>>
    where
        'a: 'scope,
    {
        let bytes = data.as_bytes();
        to.check(bytes.len() as u64)?;
        let part = to.segment.part(to.rank)?;
        if part.near.is_some() {
            self.outstanding.context.put(data, to)?;
            return Ok(Pending { scope: self, ticket: None, buffer: data });
        }
        let region = Region::block(to.rank, to.segment.id, to.offset, bytes.len() as u64);
        region.check(part.bytes)?;
        self.outstanding.context.tally().put(to.rank, bytes.len() as u64);
        self.outstanding.context.post_to(to.rank);
        // SAFETY: as in `get_nb`; the borrow is shared, so nobody can write.
        let started = unsafe { self.outstanding.context.fabric().put_nb(&region, bytes.as_ptr())? };
        self.outstanding.context.landings().issue(self.outstanding.context, to.rank, to.segment.id, 1);
        Ok(Pending { scope: self, ticket: self.enter(started, to.rank), buffer: data })
    }

    fn enter(&self, started: Started, peer: Rank) -> Option<(Ticket, Rank)> {
        match started {
            Started::Done(_) => None,
            Started::Pending(ticket) => {
                self.outstanding.tickets.borrow_mut().push((ticket, peer));
                Some((ticket, peer))
            }
        }
    }
}

impl Outstanding<'_> {
    fn complete_all(&self) -> Result<()> {
        let pending = std::mem::take(&mut *self.tickets.borrow_mut());
        // Every one is waited for, also after one has failed: their buffers are about to be given back.
        let mut first_error = Ok(());
        for (ticket, peer) in pending {
            let completed = self.context.complete(ticket, peer);
            first_error = first_error.and(completed.map(|_| ()));
        }
        first_error
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        // Empty unless the body panicked; then its panic is what is reported.
        let _ = self.complete_all();
    }
}

/// A transfer under way, with its buffer.
#[must_use = "the buffer comes back from `wait`"]
pub struct Pending<'scope, 'env, B> {
    scope: &'scope Scope<'scope, 'env>,
    ticket: Option<(Ticket, Rank)>,
    buffer: B,
}

impl<B> Pending<'_, '_, B> {
    /// Waits until it is complete, and gives the buffer back.
    pub fn wait(self) -> Result<B> {
        if let Some((ticket, peer)) = self.ticket {
            let outstanding = self.scope.outstanding;
            outstanding.tickets.borrow_mut().retain(|&(other, _)| other != ticket);
            outstanding.context.complete(ticket, peer)?;
        }
        Ok(self.buffer)
    }
}
