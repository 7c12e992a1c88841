//! The atomics of a context.

use farside_fabric::{Atomic, Error, Rank, Reply, Result, Started, Ticket};

use crate::context::Context;
use crate::place::Place;
use crate::plain::{AtomicWord, Integer};
use crate::target::{Target, old_value};

impl Context {
    /// Adds to a word, wrapping, and returns what it held before.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(3, |world| {
    /// let tickets = world.window::<u64>(1)?;
    /// let mine = world.fetch_add(tickets.at(Rank(0), 0), 1)?;
    /// assert!(mine < 3);
    /// # tickets.free(world) }).unwrap();
    /// ```
    #[inline]
    #[track_caller]
    pub fn fetch_add<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<I> {
        self.atomic(at, Atomic::Add(value.to_bits()))
    }

    /// Keeps the bits of a word that `value` has too, and returns what it held before.
    #[inline]
    #[track_caller]
    pub fn fetch_and<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<I> {
        self.atomic(at, Atomic::And(value.to_bits()))
    }

    /// Sets the bits of `value` in a word, and returns what it held before.
    #[inline]
    #[track_caller]
    pub fn fetch_or<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<I> {
        self.atomic(at, Atomic::Or(value.to_bits()))
    }

    /// Flips the bits of `value` in a word, and returns what it held before.
    #[inline]
    #[track_caller]
    pub fn fetch_xor<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<I> {
        self.atomic(at, Atomic::Xor(value.to_bits()))
    }

    /// Writes a word, and returns what it held before.
    #[inline]
    #[track_caller]
    pub fn swap<C: AtomicWord>(&self, at: Place<'_, C>, value: C) -> Result<C> {
        self.atomic(at, Atomic::Swap(value.to_bits()))
    }

    /// Writes `desired` if the word holds `expected`; returns what it held before, which is
    /// `expected` if it was written.
    ///
    /// ```
    /// # use farside::{Pair, Rank};
    /// # farside::local(2, |world| {
    /// let heads = world.window::<Pair>(1)?;
    /// let head = heads.at(Rank(1), 0);
    /// let mine = Pair(1, world.rank().0.into());
    /// let winner = world.compare_swap(head, Pair(0, 0), mine)? == Pair(0, 0);
    /// assert_eq!(world.load(head)?.0, 1);
    /// # let _ = winner;
    /// # heads.free(world) }).unwrap();
    /// ```
    #[inline]
    #[track_caller]
    pub fn compare_swap<C: AtomicWord>(
        &self,
        at: Place<'_, C>,
        expected: C,
        desired: C,
    ) -> Result<C> {
        let op = Atomic::CompareSwap { expected: expected.to_bits(), desired: desired.to_bits() };
        self.atomic(at, op)
    }

    /// Reads a word atomically.
    #[inline]
    #[track_caller]
    pub fn load<C: AtomicWord>(&self, at: Place<'_, C>) -> Result<C> {
        self.atomic(at, Atomic::Load)
    }

    /// Adds to a word, wrapping, and returns nothing. The addition is posted, as a put is: it has
    /// landed after a flush or a sync. It wakes a rank that waits for the word.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(3, |world| {
    /// let counts = world.window::<u64>(10)?;
    /// for sample in [3, 1, 4, 1, 5] {
    ///     world.add(counts.at(Rank(0), sample), 1)?;
    /// }
    /// world.sync()?;
    /// assert_eq!(world.load(counts.at(Rank(0), 1))?, 2 * 3);
    /// # counts.free(world) }).unwrap();
    /// ```
    #[inline]
    #[track_caller]
    pub fn add<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<()> {
        self.post(at, Atomic::Add(value.to_bits()))
    }

    /// Keeps the bits of a word that `value` has too. Posted, as [`Context::add`] is.
    #[inline]
    #[track_caller]
    pub fn and<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<()> {
        self.post(at, Atomic::And(value.to_bits()))
    }

    /// Sets the bits of `value` in a word. Posted, as [`Context::add`] is.
    #[inline]
    #[track_caller]
    pub fn or<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<()> {
        self.post(at, Atomic::Or(value.to_bits()))
    }

    /// Flips the bits of `value` in a word. Posted, as [`Context::add`] is.
    #[inline]
    #[track_caller]
    pub fn xor<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<()> {
        self.post(at, Atomic::Xor(value.to_bits()))
    }

    /// Writes a word atomically and wakes its owner if it waits. Returns when it has landed.
    #[inline]
    #[track_caller]
    pub fn store<C: AtomicWord>(&self, at: Place<'_, C>, value: C) -> Result<()> {
        self.atomic(at, Atomic::Store(value.to_bits())).map(|_| ())
    }

    /// Writes a word atomically and wakes its owner if it waits. Returns at once: the word lands
    /// later, in order with what was put before only if a fence stands between.
    #[inline]
    #[track_caller]
    pub fn signal<C: AtomicWord>(&self, at: Place<'_, C>, value: C) -> Result<()> {
        self.post(at, Atomic::Store(value.to_bits()))
    }

    /// Any atomic whose old value is not wanted.
    #[inline(always)]
    #[track_caller]
    fn post<C: AtomicWord>(&self, at: Place<'_, C>, op: Atomic) -> Result<()> {
        at.check(C::WIDTH.bytes())?;
        match self.atomic_direct(at.segment, at.rank, at.offset, C::WIDTH, op) {
            Some(_) => Ok(()),
            None => at.said(self.post_anywhere(at.segment, at.rank, at.offset, C::WIDTH, op)),
        }
    }

    /// Any atomic, as data; returns what the word held before.
    #[inline(always)]
    #[track_caller]
    pub fn atomic<C: AtomicWord>(&self, at: Place<'_, C>, op: Atomic) -> Result<C> {
        at.check(C::WIDTH.bytes())?;
        match self.fetch_direct(at.segment, at.rank, at.offset, C::WIDTH, op) {
            Some(held) => Ok(C::from_bits(held)),
            None => self.atomic_slow(at, op),
        }
    }

    /// An atomic that is not near, or on which something is wrong.
    #[inline(never)]
    #[track_caller]
    fn atomic_slow<C: AtomicWord>(&self, at: Place<'_, C>, op: Atomic) -> Result<C> {
        let held = self.atomic_anywhere(at.segment, at.rank, at.offset, C::WIDTH, op);
        at.said(held).map(C::from_bits)
    }

    /// Starts a [`Context::fetch_add`].
    #[track_caller]
    pub fn fetch_add_nb<I: Integer>(&self, at: Place<'_, I>, value: I) -> Result<Fetch<'_, I>> {
        self.atomic_nb(at, Atomic::Add(value.to_bits()))
    }

    /// Starts a [`Context::swap`].
    #[track_caller]
    pub fn swap_nb<C: AtomicWord>(&self, at: Place<'_, C>, value: C) -> Result<Fetch<'_, C>> {
        self.atomic_nb(at, Atomic::Swap(value.to_bits()))
    }

    /// Starts a [`Context::compare_swap`].
    #[track_caller]
    pub fn compare_swap_nb<C: AtomicWord>(
        &self,
        at: Place<'_, C>,
        expected: C,
        desired: C,
    ) -> Result<Fetch<'_, C>> {
        self.atomic_nb(
            at,
            Atomic::CompareSwap { expected: expected.to_bits(), desired: desired.to_bits() },
        )
    }

    /// Starts a [`Context::atomic`].
    #[track_caller]
    pub fn atomic_nb<C: AtomicWord>(&self, at: Place<'_, C>, op: Atomic) -> Result<Fetch<'_, C>> {
        at.check(C::WIDTH.bytes())?;
        let Target::Far(far) = at.said(self.atomic_target(at.segment, at.rank))? else {
            // Near, it is done before its handle exists.
            let state = State::Done(self.atomic(at, op)?);
            return Ok(Fetch { context: self, peer: at.rank, state });
        };
        let started = at.said(far.start_word(self, at.word(), op))?;
        self.tally().atomic(at.rank);
        let state = match started {
            Started::Done(reply) => State::Done(value(reply)?),
            Started::Pending(ticket) => State::Pending(ticket),
        };
        Ok(Fetch { context: self, peer: at.rank, state })
    }
}

/// An atomic that was started.
#[must_use = "the old value is lost, and the operation given up, unless `wait` is called"]
pub struct Fetch<'c, C: AtomicWord> {
    context: &'c Context,
    peer: Rank,
    state: State<C>,
}

enum State<C> {
    Done(C),
    Pending(Ticket),
    Taken,
}

impl<C: AtomicWord> Fetch<'_, C> {
    /// Whether it is done, so that `wait` would not have to wait.
    pub fn is_done(&mut self) -> Result<bool> {
        if let State::Pending(ticket) = self.state {
            let Some(reply) =
                self.context.look(ticket).inspect_err(|_| self.state = State::Taken)?
            else {
                return Ok(false);
            };
            self.state = State::Done(value(reply)?);
        }
        Ok(true)
    }

    /// Waits until it is done, and returns what the word held before.
    #[track_caller]
    pub fn wait(mut self) -> Result<C> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Done(held) => Ok(held),
            State::Pending(ticket) => value(self.context.complete(ticket, self.peer)?),
            State::Taken => Err(Error::InvalidState("this operation was already awaited".into())),
        }
    }
}

impl<C: AtomicWord> Drop for Fetch<'_, C> {
    fn drop(&mut self) {
        if let State::Pending(ticket) = self.state {
            self.context.fabric().cancel(ticket);
        }
    }
}

fn value<C: AtomicWord>(reply: Reply) -> Result<C> {
    old_value(reply).map(C::from_bits)
}
