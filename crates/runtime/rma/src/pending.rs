//! Transfers that overlap with computation: their memory belongs to them, or stays borrowed in a
//! scope, until they are complete.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::marker::PhantomData;

use farside_fabric::{Hint, Rank, Reply, Result, Started, Ticket};
use zerocopy::IntoBytes;

use crate::context::Context;
use crate::place::Place;
use crate::plain::Plain;
use crate::target::{Target, old_elements};

impl Context {
    /// Runs `body`, which may start transfers with [`Scope::get_nb`] and [`Scope::put_nb`]; all of
    /// them are complete when this returns.
    ///
    /// A buffer must live longer than the scope, and stays borrowed until its transfer was waited
    /// for or the scope is over: there is no way to touch it, free it, or forget the transfer in
    /// between.
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
    /// # window.free(world) }).unwrap();
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
    /// # window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        // Should `body` or a wait panic, dropping this gives up what is under way.
        let outstanding = Outstanding { context: self, tickets: RefCell::default() };
        let scope = Scope { outstanding: &outstanding, scope: PhantomData, env: PhantomData };
        let result = body(&scope);
        let completed = outstanding.complete_all();
        result.and_then(|result| completed.map(|()| result))
    }
}

impl Context {
    /// Starts a [`Context::get`] of `len` elements, into memory that belongs to the transfer until
    /// it is complete. [`Scope::get_nb`] borrows a buffer instead.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// let window = world.window::<u32>(1000)?;
    /// let pending = world.get_nb(window.at(Rank(1), 0), 1000)?;
    /// let computed = 41 + 1; // … while the data is on its way
    /// assert_eq!(computed + pending.wait()?.iter().sum::<u32>(), 42);
    /// # window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn get_nb<T: Plain>(&self, from: Place<'_, T>, len: usize) -> Result<Transfer<'_, T>> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        from.check(bytes)?;
        // Before memory is set aside for it: a length may be nonsense.
        if from.offset.saturating_add(bytes) > from.said(from.segment.part(from.rank))?.bytes {
            return Err(from.out_of_range(bytes));
        }
        self.get_nb_into(from, vec![T::new_zeroed(); len])
    }

    /// Starts a [`Context::get`] into all of `buffer`, which belongs to the transfer until it is
    /// complete.
    #[track_caller]
    pub fn get_nb_into<T: Plain>(
        &self,
        from: Place<'_, T>,
        mut buffer: Vec<T>,
    ) -> Result<Transfer<'_, T>> {
        // SAFETY: the buffer is on the heap. It belongs to the `Transfer`, which neither touches it
        // nor gives it back before the operation is over; if the `Transfer` is dropped, the
        // operation is given up first, and if it is forgotten, so is the buffer.
        let ticket = unsafe { self.get_lent(from, &mut buffer)? };
        Ok(Transfer { context: self, peer: from.rank, ticket, buffer })
    }

    /// Starts a [`Context::put`] of `data` from where it is: it belongs to the transfer until it
    /// may be reused. It has landed after a flush. [`Scope::put_nb`] borrows its data instead.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// let window = world.window::<u32>(1000)?;
    /// let pending = world.put_nb(vec![7; 1000], window.at(Rank(1), 0))?;
    /// let computed = 41 + 1; // … while the data is on its way
    /// let mut data = pending.wait()?;
    /// data[0] = computed;
    /// # window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn put_nb<T: Plain>(&self, data: Vec<T>, to: Place<'_, T>) -> Result<Transfer<'_, T>> {
        // SAFETY: the data is on the heap, and belongs to the `Transfer`, which neither touches it
        // nor gives it back before the operation is over; if the `Transfer` is dropped, the
        // operation is given up first, and if it is forgotten, so is the data.
        let ticket = unsafe { self.put_lent(&data, to)? };
        Ok(Transfer { context: self, peer: to.rank, ticket, buffer: data })
    }

    /// Starts a put that borrows its bytes; without a ticket, it does not need them any more.
    ///
    /// # Safety
    ///
    /// `data` must stay where and as it is until the ticket's operation is over.
    #[track_caller]
    pub(crate) unsafe fn put_lent<T: Plain>(
        &self,
        data: &[T],
        to: Place<'_, T>,
    ) -> Result<Option<Ticket>> {
        let bytes = data.as_bytes();
        to.check(bytes.len() as u64)?;
        let Target::Far(far) = to.said(self.target(to.segment, to.rank))? else {
            self.put(data, to)?;
            return Ok(None);
        };
        let region = far.block(to.offset, bytes.len() as u64);
        let started = far.post(self, &region, |fabric| {
            // SAFETY: by the caller's promise.
            unsafe { fabric.put_nb(&region, bytes.as_ptr(), Hint::Overlapped) }
        });
        let started = to.said(started)?;
        self.tally().put(to.rank, bytes.len() as u64);
        Ok(pending(started))
    }

    /// Starts a get that borrows its buffer; without a ticket, it is complete.
    ///
    /// # Safety
    ///
    /// `into` must stay where it is, and nothing may touch it, until the ticket's operation is
    /// over.
    #[track_caller]
    pub(crate) unsafe fn get_lent<T: Plain>(
        &self,
        from: Place<'_, T>,
        into: &mut [T],
    ) -> Result<Option<Ticket>> {
        let bytes = size_of_val(into) as u64;
        from.check(bytes)?;
        let Target::Far(far) = from.said(self.target(from.segment, from.rank))? else {
            self.get(from, into)?;
            return Ok(None);
        };
        let (region, into) = (far.block(from.offset, bytes), into.as_mut_bytes().as_mut_ptr());
        // SAFETY: as long as the region, and by the caller's promise.
        let started = unsafe { far.start_get(self, &region, into, Hint::Overlapped) };
        let started = from.said(started)?;
        self.tally().get(from.rank, bytes);
        Ok(pending(started))
    }
}

fn pending(started: Started) -> Option<Ticket> {
    match started {
        Started::Done(_) => None,
        Started::Pending(ticket) => Some(ticket),
    }
}

/// A transfer under way that owns its memory. See [`Context::get_nb`], [`Context::put_nb`] and
/// [`Context::get_accumulate_nb`].
#[must_use = "the data comes from `wait`"]
pub struct Transfer<'c, T> {
    context: &'c Context,
    peer: Rank,
    ticket: Option<Ticket>,
    buffer: Vec<T>,
}

impl<'c, T: Plain> Transfer<'c, T> {
    #[track_caller]
    pub(crate) fn of(
        context: &'c Context,
        peer: Rank,
        started: Started,
        buffer: Vec<T>,
    ) -> Transfer<'c, T> {
        Transfer { context, peer, ticket: pending(started), buffer }
    }

    /// Whether it is complete, so that `wait` would not have to wait.
    pub fn is_done(&mut self) -> Result<bool> {
        let Some(ticket) = self.ticket else {
            return Ok(true);
        };
        let reply = self.context.look(ticket).inspect_err(|_| self.ticket = None)?;
        let Some(reply) = reply else { return Ok(false) };
        self.ticket = None;
        self.take_in(reply)?;
        Ok(true)
    }

    /// Waits until it is complete, and gives the data.
    #[track_caller]
    pub fn wait(mut self) -> Result<Vec<T>> {
        if let Some(ticket) = self.ticket.take() {
            let reply = self.context.complete(ticket, self.peer)?;
            self.take_in(reply)?;
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Takes in what came with the reply: the fabric has filled the buffer of a get itself.
    #[track_caller]
    fn take_in(&mut self, reply: Reply) -> Result<()> {
        match reply {
            Reply::Bytes(_) => old_elements(reply, self.buffer.as_mut_bytes()),
            _ => Ok(()),
        }
    }
}

impl<T> Drop for Transfer<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.context.fabric().cancel(ticket);
        }
    }
}

/// Starts transfers that overlap. See [`Context::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    outstanding: &'scope Outstanding<'env>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The transfers of a scope that were not waited for yet.
struct Outstanding<'env> {
    context: &'env Context,
    tickets: RefCell<VecDeque<(Ticket, Rank)>>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a [`Context::get`] into `into`.
    #[track_caller]
    pub fn get_nb<'a, T: Plain>(
        &'scope self,
        from: Place<'_, T>,
        into: &'a mut [T],
    ) -> Result<Pending<'scope, 'env, &'a mut [T]>>
    where
        'a: 'scope,
    {
        // SAFETY: `into` is borrowed for longer than the scope, which does not end before the
        // operation is over; until then the borrow is inside `Pending`, which gives it back only
        // after completion.
        let ticket = unsafe { self.outstanding.context.get_lent(from, into)? };
        Ok(Pending { scope: self, ticket: self.enter(ticket, from.rank), buffer: into })
    }

    /// Starts a [`Context::put`] of `data`, which may be reused when it was waited for. It has
    /// landed after a flush.
    #[track_caller]
    pub fn put_nb<'a, T: Plain>(
        &'scope self,
        data: &'a [T],
        to: Place<'_, T>,
    ) -> Result<Pending<'scope, 'env, &'a [T]>>
    where
        'a: 'scope,
    {
        // SAFETY: as in `get_nb`; the borrow is shared, so nothing can write.
        let ticket = unsafe { self.outstanding.context.put_lent(data, to)? };
        Ok(Pending { scope: self, ticket: self.enter(ticket, to.rank), buffer: data })
    }

    #[track_caller]
    fn enter(&self, ticket: Option<Ticket>, peer: Rank) -> Option<(Ticket, Rank)> {
        let entry = (ticket?, peer);
        self.outstanding.tickets.borrow_mut().push_back(entry);
        Some(entry)
    }
}

impl Outstanding<'_> {
    #[track_caller]
    fn complete_all(&self) -> Result<()> {
        // Every one is waited for, also after one has failed: their buffers are about to be given
        // back.
        let mut first_error = Ok(());
        while let Some((ticket, peer)) = self.take_first() {
            let completed = self.context.complete(ticket, peer);
            first_error = first_error.and(completed.map(|_| ()));
        }
        first_error
    }

    /// Removes a transfer. Mostly they are waited for in their order, so that it is the first.
    fn forget(&self, ticket: Ticket) {
        let mut tickets = self.tickets.borrow_mut();
        if let Some(at) = tickets.iter().position(|&(other, _)| other == ticket) {
            tickets.remove(at);
        }
    }

    fn take_first(&self) -> Option<(Ticket, Rank)> {
        self.tickets.borrow_mut().pop_front()
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        // Empty unless something has panicked. Waiting could panic again.
        while let Some((ticket, _)) = self.take_first() {
            self.context.fabric().cancel(ticket);
        }
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
    #[track_caller]
    pub fn wait(self) -> Result<B> {
        if let Some((ticket, peer)) = self.ticket {
            let outstanding = self.scope.outstanding;
            outstanding.forget(ticket);
            outstanding.context.complete(ticket, peer)?;
        }
        Ok(self.buffer)
    }
}
