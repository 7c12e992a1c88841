//! The operations of an epoch.

use std::rc::Rc;

use farside_fabric::{Accumulate, Atomic, Error, OldValue, Op, Rank, Result, Width, Word};
use farside_rma::{AtomicWord, Integer, Place, Plain, Summand, raw};
use zerocopy::IntoBytes;

use super::{Fetched, Get, Passive, Put, Window};
use crate::epoch_state::Effect;
use crate::message::{Accumulation, Operation};
use crate::mode::Mode;
use crate::two_sided::{Queued, TwoSided};
use crate::window::Answer;

fn atomic_of(op: Op, bits: u128) -> Result<Atomic> {
    Ok(match op {
        Op::Sum => Atomic::Add(bits),
        Op::Replace => Atomic::Swap(bits),
        Op::NoOp => Atomic::Load,
        Op::And => Atomic::And(bits),
        Op::Or => Atomic::Or(bits),
        Op::Xor => Atomic::Xor(bits),
        other => {
            return Err(Error::Unsupported {
                what: format!(
                    "fetch_op with {}: an atomic word has sum, replace, no-op, and, or, xor; \
                     get_accumulate has every operation",
                    other.name()
                ),
            });
        }
    })
}

/// An accumulate as a request of its own (`MPI_Raccumulate`).
#[derive(Debug)]
#[must_use = "a request is waited for"]
pub struct Request {
    target: Rank,
}

impl Request {
    /// Returns the target.
    pub fn target(&self) -> Rank {
        self.target
    }

    /// Returns when its buffer may be used again, which is always: operations copy what they have
    /// not sent.
    pub fn wait(self) -> Result<()> {
        Ok(())
    }
}

impl<'t> Window<'t> {
    /// Writes `data` to a target, from displacement `at` on. `data` may be reused at once; it has
    /// landed when the epoch ends, or after a flush.
    #[inline]
    #[track_caller]
    pub fn put<T: Plain>(&self, data: &[T], target: Rank, at: u64) -> Result<()> {
        let bytes = data.as_bytes();
        let (member, offset) = self.enter(target, at, bytes.len() as u64, Effect::Put)?;
        if let Some(two_sided) = self.queuing(member) {
            let operation = Operation::Put { at: offset, bytes: bytes.to_vec() };
            return two_sided.queue(member, Queued { operation, answer: None });
        }
        self.context.put(bytes, self.memory.at(target, offset as usize))
    }

    /// Reads `len` elements of a target, from displacement `at` on. The data is there when the
    /// epoch ends, after a flush, or after [`Window::wait_get`].
    #[track_caller]
    pub fn get<T: Plain>(&self, target: Rank, at: u64, len: usize) -> Result<Get<'t, T>> {
        let (member, bytes) =
            (self.named_member(target)?, (len as u64).saturating_mul(size_of::<T>() as u64));
        // Before memory is set aside for it: a length may be nonsense.
        self.context.noted(self.offset(target, member, at, bytes))?;
        self.get_request(vec![T::new_zeroed(); len], target, at)
    }

    /// [`Window::get`] into memory that is there already, all of it: it belongs to the operation
    /// until it is complete.
    #[track_caller]
    pub fn get_request<T: Plain>(
        &self,
        mut into: Vec<T>,
        target: Rank,
        at: u64,
    ) -> Result<Get<'t, T>> {
        let bytes = size_of_val(&into[..]) as u64;
        let (member, offset) = self.enter(target, at, bytes, Effect::Get)?;
        if self.queuing(member).is_none()
            && self.context.topology().same_node(target, self.context.rank())
        {
            self.context.get(self.memory.at(target, offset as usize).cast(), &mut into)?;
            return Ok(Get::done(target, into));
        }
        let get = Get::queued(target, into);
        self.ask(member, target, Operation::Get { at: offset, bytes }, get.ticket.clone())?;
        Ok(get)
    }

    /// Reads from a target into `into`, and returns when it is there: a get and a local flush of it
    /// alone.
    #[inline]
    #[track_caller]
    pub fn get_into<T: Plain>(&self, into: &mut [T], target: Rank, at: u64) -> Result<()> {
        let bytes = size_of_val(into) as u64;
        let (member, offset) = self.enter(target, at, bytes, Effect::Get)?;
        if self.queuing(member).is_some() {
            self.escalate(member)?;
        }
        self.context.get(self.memory.at(target, offset as usize).cast(), into)
    }

    /// Adds `scale` times `data` to a target's elements, from displacement `at` on. Accumulates do
    /// not disturb each other.
    #[track_caller]
    pub fn accumulate<T: Summand>(
        &self,
        scale: T,
        data: &[T],
        target: Rank,
        at: u64,
    ) -> Result<()> {
        self.accumulate_by(&self.context.noted(scale.sum())?, data.as_bytes(), target, at)
    }

    /// Combines `data` with a target's elements by any operation that they have, from displacement
    /// `at` on. Within an epoch, accumulates of one kind of elements may overlap if they have the
    /// same operation, or if one is a no-op.
    #[track_caller]
    pub fn accumulate_with<T: Summand>(
        &self,
        op: Op,
        data: &[T],
        target: Rank,
        at: u64,
    ) -> Result<()> {
        let accumulate = self.context.noted(Accumulate::new(T::NUMBER, op))?;
        self.accumulate_by(&accumulate, data.as_bytes(), target, at)
    }

    /// [`Window::accumulate_with`] for elements as bytes, of a kind that is known only now.
    #[track_caller]
    pub fn accumulate_by(
        &self,
        accumulate: &Accumulate,
        data: &[u8],
        target: Rank,
        at: u64,
    ) -> Result<()> {
        let bytes = data.len() as u64;
        let (member, offset) = self.enter_accumulate(accumulate, target, at, bytes)?;
        let message = if accumulate.writes() { data } else { &[] };
        if let Some(two_sided) = self.queuing(member) {
            let (accumulate, message) = (*accumulate, message.to_vec());
            let (at, old) = (offset, OldValue::Ignored);
            let operation =
                Operation::Accumulate(Accumulation { at, accumulate, bytes, message, old });
            return two_sided.queue(member, Queued { operation, answer: None });
        }
        let to = self.memory.at(target, offset as usize);
        raw::accumulate(self.context, accumulate, message, to)
    }

    /// Combines `data` with a target's elements, from displacement `at` on, and fetches what they
    /// held before: each is read and changed in one step. For [`Op::NoOp`] only the length of
    /// `data` counts.
    ///
    /// ```
    /// use farside::epoch::{Mode, Op, Options, Window};
    /// use farside::Rank;
    ///
    /// farside::local(3, |world| {
    ///     let window = Window::allocate(world, 64, Options::new().unit(8))?;
    ///     window.lock(Rank(0), Mode::Shared)?;
    ///     let old = window.get_accumulate(Op::Sum, &[1.0, 0.5], Rank(0), 2)?;
    ///     let old = window.wait_get(old)?;
    ///     assert!(old[0] < 3.0 && old[1] == old[0] / 2.0);
    ///     window.unlock(Rank(0))?;
    ///     window.free()
    /// })
    /// .unwrap();
    /// ```
    #[track_caller]
    pub fn get_accumulate<T: Summand>(
        &self,
        op: Op,
        data: &[T],
        target: Rank,
        at: u64,
    ) -> Result<Get<'t, T>> {
        let accumulate = self.context.noted(Accumulate::new(T::NUMBER, op))?;
        let bytes = size_of_val(data) as u64;
        let (member, offset) = self.enter_accumulate(&accumulate, target, at, bytes)?;
        if self.queuing(member).is_none()
            && self.context.topology().same_node(target, self.context.rank())
        {
            let (to, mut old) = (self.memory.at(target, offset as usize), data.to_vec());
            self.context.get_accumulate(op, data, to.cast(), &mut old)?;
            return Ok(Get::done(target, old));
        }
        let message = if accumulate.writes() { data.as_bytes().to_vec() } else { Vec::new() };
        let (at, old) = (offset, OldValue::Wanted);
        let operation = Operation::Accumulate(Accumulation { at, accumulate, bytes, message, old });
        let get = Get::accumulating(target, op, data.to_vec());
        self.ask(member, target, operation, get.ticket.clone())?;
        Ok(get)
    }

    /// [`Window::get_accumulate`] for elements as bytes, of a kind that is known only now, which
    /// waits until what they held before is in `old`. The data of a no-op may be empty.
    #[track_caller]
    pub fn get_accumulate_by(
        &self,
        accumulate: &Accumulate,
        data: &[u8],
        target: Rank,
        at: u64,
        old: &mut [u8],
    ) -> Result<()> {
        let bytes = old.len() as u64;
        let (member, offset) = self.enter_accumulate(accumulate, target, at, bytes)?;
        if self.queuing(member).is_some() {
            self.escalate(member)?;
        }
        let to = self.memory.at(target, offset as usize);
        raw::get_accumulate(self.context, accumulate, data, to, old)
    }

    /// Checks that an accumulate is allowed now; returns the member and the first byte.
    #[track_caller]
    fn enter_accumulate(
        &self,
        accumulate: &Accumulate,
        target: Rank,
        at: u64,
        bytes: u64,
    ) -> Result<(usize, u64)> {
        let number = accumulate.number();
        let effect = Effect::Accumulate(number, accumulate.op());
        let (member, offset) = self.enter(target, at, bytes, effect)?;
        let align = number.align();
        if offset.is_multiple_of(align) {
            Ok((member, offset))
        } else {
            Err(self.context.failed(Error::Misaligned { offset, align }))
        }
    }

    /// Changes one word of a target by sum, replace, no-op, and, or, xor, and fetches what it held
    /// before. It is atomic with other atomics, and [`Window::get_accumulate`] with accumulates.
    ///
    /// ```
    /// use farside::epoch::{Mode, Op, Options, Window};
    /// use farside::Rank;
    ///
    /// farside::local(3, |world| {
    ///     let window = Window::allocate(world, 64, Options::new().unit(8))?;
    ///     window.lock(Rank(0), Mode::Shared)?;
    ///     let mine = window.fetch_op(Op::Sum, 1u64, Rank(0), 2)?;
    ///     assert!(window.wait_fetched(mine)? < 3);
    ///     window.unlock(Rank(0))?;
    ///     window.free()
    /// })
    /// .unwrap();
    /// ```
    #[track_caller]
    pub fn fetch_op<I: Integer>(
        &self,
        op: Op,
        value: I,
        target: Rank,
        at: u64,
    ) -> Result<Fetched<'t, I>> {
        self.atomic(self.context.noted(atomic_of(op, value.to_bits()))?, target, at)
    }

    /// Writes `desired` to a word of a target if it holds `expected`, and fetches what it held
    /// before.
    #[track_caller]
    pub fn compare_swap<C: AtomicWord>(
        &self,
        expected: C,
        desired: C,
        target: Rank,
        at: u64,
    ) -> Result<Fetched<'t, C>> {
        let op = Atomic::CompareSwap { expected: expected.to_bits(), desired: desired.to_bits() };
        self.atomic(op, target, at)
    }

    /// [`Window::put`] from memory that belongs to the operation until it is complete: nothing is
    /// copied, and the caller can compute while it is sent.
    ///
    /// ```
    /// use farside::epoch::{Mode, Options, Window};
    /// use farside::Rank;
    ///
    /// farside::local(2, |world| {
    ///     let window = Window::allocate(world, 80_000, Options::new())?;
    ///     window.lock(Rank(1), Mode::Shared)?;
    ///     let at = 40_000 * u64::from(world.rank().0);
    ///     let put = window.put_request(vec![1.5; 5_000], Rank(1), at)?;
    ///     let computed = 6 * 7; // … while the data is on its way
    ///     window.unlock(Rank(1))?;
    ///     assert_eq!(put.take()?.len() + computed, 5_042);
    ///     window.free()
    /// })
    /// .unwrap();
    /// ```
    #[track_caller]
    pub fn put_request<T: Plain>(&self, data: Vec<T>, target: Rank, at: u64) -> Result<Put<'t, T>> {
        let bytes = data.as_bytes();
        let (member, offset) = self.enter(target, at, bytes.len() as u64, Effect::Put)?;
        if let Some(two_sided) = self.queuing(member) {
            let operation = Operation::Put { at: offset, bytes: bytes.to_vec() };
            two_sided.queue(member, Queued { operation, answer: None })?;
        } else if self.context.topology().same_node(target, self.context.rank()) {
            self.context.put(bytes, self.memory.at(target, offset as usize))?;
        } else {
            let put = Put::queued(target, data);
            self.begin(target, offset, put.ticket.clone())?;
            return Ok(put);
        }
        Ok(Put::done(target, data))
    }

    /// Waits until the data of one put may be reused, within its epoch.
    #[track_caller]
    pub fn wait_put<T: Plain>(&self, put: Put<'t, T>) -> Result<Vec<T>> {
        let waited = self.await_answer(put.target(), &(put.ticket.clone() as Answer<'t>));
        self.context.noted(waited.and_then(|()| put.take()))
    }

    /// [`Window::accumulate`] with a request of its own.
    #[track_caller]
    pub fn accumulate_request<T: Summand>(
        &self,
        scale: T,
        data: &[T],
        target: Rank,
        at: u64,
    ) -> Result<Request> {
        self.accumulate(scale, data, target, at).map(|()| Request { target })
    }

    /// Waits for the data of one get, within its epoch.
    #[track_caller]
    pub fn wait_get<T: Plain>(&self, get: Get<'t, T>) -> Result<Vec<T>> {
        let waited = self.await_answer(get.target(), &(get.ticket.clone() as Answer<'t>));
        self.context.noted(waited.and_then(|()| get.take()))
    }

    /// Waits for the old value of one atomic, within its epoch.
    #[track_caller]
    pub fn wait_fetched<C: AtomicWord>(&self, fetched: Fetched<'t, C>) -> Result<C> {
        let waited = self.await_answer(fetched.target(), &(fetched.ticket.clone() as Answer<'t>));
        self.context.noted(waited.and_then(|()| fetched.take()))
    }

    /// Reads this rank's own part by itself, from displacement `at` on.
    #[track_caller]
    pub fn read_own<T: Plain>(&self, at: u64, into: &mut [T]) -> Result<()> {
        let place = self.own_place(at, size_of_val(into) as u64, false)?;
        self.context.get(place, into)
    }

    /// Writes this rank's own part by itself, from displacement `at` on.
    #[track_caller]
    pub fn write_own<T: Plain>(&self, data: &[T], at: u64) -> Result<()> {
        let place = self.own_place(at, size_of_val(data) as u64, true)?;
        self.context.put(data, place)?;
        self.context.flush(self.context.rank())
    }

    #[track_caller]
    fn own_place<T>(&self, at: u64, bytes: u64, writes: bool) -> Result<Place<'_, T>> {
        let me = self.context.rank();
        let member = self.named_member(me)?;
        let offset = self.context.noted(self.offset(me, member, at, bytes))?;
        let entered = self.state.enter_own(member, &(offset..offset + bytes), writes);
        self.context.noted(entered)?;
        Ok(self.memory.at(me, offset as usize).cast())
    }

    #[track_caller]
    fn atomic<C: AtomicWord>(&self, op: Atomic, target: Rank, at: u64) -> Result<Fetched<'t, C>> {
        let (member, offset) = self.enter(target, at, C::WIDTH.bytes(), Effect::Atomic)?;
        self.context.noted(self.check_word(target, offset, C::WIDTH, op))?;
        // Near, it is done before its handle exists.
        if self.queuing(member).is_none()
            && self.context.topology().same_node(target, self.context.rank())
        {
            let held = self.context.atomic(self.memory.at(target, offset as usize).cast(), op)?;
            return Ok(Fetched::done(target, held));
        }
        let fetched = Fetched::queued(target, op);
        let operation = Operation::Atomic { at: offset, width: C::WIDTH, op };
        self.ask(member, target, operation, fetched.ticket.clone())?;
        Ok(fetched)
    }

    fn check_word(&self, target: Rank, offset: u64, width: Width, op: Atomic) -> Result<()> {
        op.check(width)?;
        Word { rank: target, segment: self.memory.segment(), offset, width }.check(u64::MAX)
    }

    /// Queues an operation with an answer where that is the design, otherwise starts it.
    #[track_caller]
    fn ask(
        &self,
        member: usize,
        target: Rank,
        operation: Operation,
        answer: Answer<'t>,
    ) -> Result<()> {
        match self.queuing(member) {
            Some(two_sided) => two_sided.queue(member, Queued { operation, answer: Some(answer) }),
            None => self.issue(target, &operation, Some(&answer)),
        }
    }

    /// Waits for one answer. Queued operations are sent for that.
    fn await_answer(&self, target: Rank, answer: &Answer<'t>) -> Result<()> {
        let member = self.member(target)?;
        if self.queuing(member).is_some() {
            self.escalate(member)?;
        }
        while self.queue.borrow().iter().any(|(_, _, queued)| Rc::ptr_eq(queued, answer)) {
            let oldest = self.underway.borrow_mut().pop_front();
            oldest.map_or(Ok(()), |(_, answer)| answer.finish())?;
            self.start_next()?;
        }
        answer.finish()?;
        self.underway.borrow_mut().retain(|(_, other)| !Rc::ptr_eq(other, answer));
        self.start_queued()
    }

    /// Checks that an operation is allowed now; returns the member and the first byte.
    #[inline]
    #[track_caller]
    fn enter(&self, target: Rank, at: u64, bytes: u64, effect: Effect) -> Result<(usize, u64)> {
        let member = self.named_member(target)?;
        let offset = self.context.noted(self.offset(target, member, at, bytes))?;
        let entered = self.state.enter(member, target, offset..offset + bytes, effect);
        self.context.noted(entered)?;
        if self.state.all_locked.get() && self.state.lock_of(member).is_none() {
            self.take_lock(member, target, Mode::Shared)?;
        }
        Ok((member, offset))
    }

    /// The byte at a displacement from which on there are so many.
    #[inline]
    fn offset(&self, target: Rank, member: usize, at: u64, bytes: u64) -> Result<u64> {
        let part = &self.parts[member];
        let offset = at.saturating_mul(part.unit);
        if offset.checked_add(bytes).is_none_or(|end| end > part.bytes) {
            let units = bytes.div_ceil(part.unit);
            return Err(Error::OutOfBounds {
                rank: target,
                first: at,
                end: at.saturating_add(units),
                elements: part.bytes / part.unit,
                element: if part.unit == 1 { "byte" } else { "displacement unit" },
                of: self.name.get().map_or("this window".into(), |name| format!("window {name:?}")),
            });
        }
        Ok(offset)
    }

    /// Returns the queue of a member's operations, if they are queued at the moment.
    #[inline]
    fn queuing(&self, member: usize) -> Option<&TwoSided<'t>> {
        match &self.passive {
            Passive::TwoSided(two_sided) if two_sided.queues(member) => Some(two_sided),
            _ => None,
        }
    }
}
