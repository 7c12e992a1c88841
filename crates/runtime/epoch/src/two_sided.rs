//! Two-sided passive locks: lock, transfers and unlock wait at the origin and go to the target in
//! one message; the target serves it when it calls the library.
//!
//! Paper:     [PASSIVE08] sections 3 and 4, the existing design that direct passive is compared
//!            with.
//! Differs:   an epoch that does not fit into one message asks for the lock first, as in MPICH2,
//!            and then transfers directly. A flush inside an epoch does the same.
//! State:     a slot for a message and one for a reply for each pair of ranks, with a number each;
//!            the holders and the queue of a target in that rank's own variables.
//! Invariant: one message of a pair is under way at a time; a target grants in the order of
//!            arrival, an exclusive lock to one origin alone.
//! Ordering:  `an_epoch_without_flush_is_caught`, `a_target_that_grants_everything_is_caught`,
//!            `a_target_that_is_deaf_is_caught`, `a_barrier_that_writes_its_number_is_caught`.
//! Cost:      an epoch in one message: 1 put with a signal each way, and the target once. Otherwise
//!            1 put with a signal and 1 signal for the lock, the transfers, and again for unlock.
//! Checked:   `farside check 'epoch/two-sided*'`: 3 ranks x 1 round exhaustively; with large
//!            transfers; a death; 8 ranks, PCT depth 3.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use farside_fabric::{Error, Rank, Result};
use farside_rma::group::{dissemination, rounds};
use farside_rma::{AwaitedWord, Context, Place, Processing, Team, Window, or_free};

use crate::answer::AnswerSlot;
use crate::fault::Fault;
use crate::message::Operation;
use crate::mode::Mode;
use crate::steps;

const HEADER_BYTES: usize = 16;

/// The kinds of messages.
const EPOCH: u8 = 1;
const LOCK: u8 = 2;
const UNLOCK: u8 = 3;

/// Messages, replies and their numbers, as one rank uses them.
pub(crate) struct TwoSided<'t> {
    mail: Window<u8>,
    /// The number of the last request of each member, then that of its last reply, then the rounds
    /// of the barrier.
    numbers: Window<u64>,
    members: Box<[Rank]>,
    me: usize,
    /// The number of my last request to each member, and of the last one of its that was taken in.
    sent: Box<[Cell<u64>]>,
    taken: Box<[Cell<u64>]>,
    barriers: Cell<u64>,
    lock_queue: RefCell<LockQueue>,
    epochs: RefCell<Box<[Option<Epoch<'t>>]>>,
    /// The size of a slot for a message or a reply, with its header.
    slot_bytes: usize,
}

/// The origins that have this rank's own part, and those that wait for it.
#[derive(Default)]
struct LockQueue {
    holders: usize,
    is_exclusive: bool,
    /// The waiting members, with the headers of their messages.
    waiting: VecDeque<(usize, [u8; HEADER_BYTES])>,
}

/// The operations that this rank has queued for a target.
struct Epoch<'t> {
    mode: Mode,
    /// The lock was asked for by itself, and granted: operations go directly.
    is_granted: bool,
    operations: Vec<Queued<'t>>,
}

pub(crate) struct Queued<'t> {
    pub(crate) operation: Operation,
    pub(crate) answer: Option<Rc<dyn AnswerSlot<'t> + 't>>,
}

impl<'t> TwoSided<'t> {
    pub(crate) fn new(team: &Team<'_>, message_bytes: usize) -> Result<TwoSided<'t>> {
        let (count, slot_bytes) = (team.size(), HEADER_BYTES + message_bytes.next_multiple_of(8));
        let (mail, numbers) = or_free(
            team.uncounted_window(2 * count * slot_bytes)?,
            |mail| mail.free(team),
            |_| team.uncounted_window(2 * count + rounds(count) as usize),
        )?;
        Ok(TwoSided {
            mail,
            numbers,
            members: team.members().into(),
            me: team.index(),
            sent: (0..count).map(|_| Cell::new(0)).collect(),
            taken: (0..count).map(|_| Cell::new(0)).collect(),
            barriers: Cell::new(0),
            lock_queue: RefCell::default(),
            epochs: RefCell::new((0..count).map(|_| None).collect()),
            slot_bytes,
        })
    }

    pub(crate) fn free(self, team: &Team<'_>) -> Result<()> {
        self.mail.free(team).and(self.numbers.free(team))
    }

    /// Begins to queue for a member.
    pub(crate) fn open(&self, member: usize, mode: Mode) {
        self.epochs.borrow_mut()[member] =
            Some(Epoch { mode, is_granted: false, operations: Vec::new() });
    }

    pub(crate) fn queues(&self, member: usize) -> bool {
        self.epochs.borrow()[member].as_ref().is_some_and(|epoch| !epoch.is_granted)
    }

    /// Queues an operation. Nothing is sent before the epoch ends.
    pub(crate) fn queue(&self, member: usize, queued: Queued<'t>) -> Result<()> {
        let mut epochs = self.epochs.borrow_mut();
        let epoch = epochs[member].as_mut().ok_or_else(|| closed(self.members[member]))?;
        epoch.operations.push(queued);
        Ok(())
    }

    /// Asks for the lock by itself, and waits for it; returns what was queued, to be issued
    /// directly.
    pub(crate) fn escalate(
        &self,
        team: &Team<'_>,
        memory: &Window<u8>,
        member: usize,
    ) -> Result<Vec<Queued<'t>>> {
        let mode = match &self.epochs.borrow()[member] {
            Some(epoch) if !epoch.is_granted => epoch.mode,
            Some(_) => return Ok(Vec::new()),
            None => return Err(closed(self.members[member])),
        };
        self.send(team, memory, member, LOCK, mode, &[])?;
        self.await_reply(team, memory, member)?;
        let mut epochs = self.epochs.borrow_mut();
        let epoch = epochs[member].as_mut().ok_or_else(|| closed(self.members[member]))?;
        epoch.is_granted = true;
        Ok(std::mem::take(&mut epoch.operations))
    }

    /// Returns whether the operations queued for a member fit into one message, and their answers
    /// into one reply.
    pub(crate) fn fits(&self, member: usize) -> bool {
        let epochs = self.epochs.borrow();
        let Some(epoch) = &epochs[member] else {
            return true;
        };
        let room = self.slot_bytes - HEADER_BYTES;
        let sum = |bytes: fn(&Operation) -> usize| {
            epoch.operations.iter().map(|queued| bytes(&queued.operation)).sum::<usize>()
        };
        sum(Operation::message_bytes) <= room && sum(Operation::reply_bytes) <= room
    }

    /// Ends the epoch: sends all that is queued in one message and waits for its answer, or
    /// releases a lock that was granted before.
    pub(crate) fn close(&self, team: &Team<'_>, memory: &Window<u8>, member: usize) -> Result<()> {
        let context = team.context();
        let Some(epoch) = self.epochs.borrow_mut()[member].take() else {
            return Err(closed(self.members[member]));
        };
        if epoch.is_granted {
            self.send(team, memory, member, UNLOCK, epoch.mode, &[])?;
            return self.await_reply(team, memory, member);
        }
        if epoch.operations.is_empty() {
            return Ok(());
        }
        self.send(team, memory, member, EPOCH, epoch.mode, &epoch.operations)?;
        self.await_reply(team, memory, member)?;
        let bytes: usize =
            epoch.operations.iter().map(|queued| queued.operation.reply_bytes()).sum();
        let mut reply = vec![0; bytes];
        if bytes > 0 {
            context.get(self.reply_slot(context.rank(), member), &mut reply)?;
        }
        let mut rest = reply.as_slice();
        for queued in &epoch.operations {
            let (answer, tail) = rest.split_at(queued.operation.reply_bytes());
            rest = tail;
            if let Some(slot) = &queued.answer {
                slot.fill(answer)?;
            }
        }
        Ok(())
    }

    /// Waits until a word of this rank's own, which the member `from` writes, satisfies `until`.
    /// Serves the requests that come meanwhile.
    pub(crate) fn wait(
        &self,
        team: &Team<'_>,
        memory: &Window<u8>,
        from: usize,
        word: Place<'_, u64>,
        until: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        let context = team.context();
        let served = if context.omits(steps::SERVE) { 0 } else { self.members.len() };
        let news: Vec<_> = self.taken[..served]
            .iter()
            .map(|taken| move |number: u64| number != taken.get())
            .collect();
        let mut words: Vec<AwaitedWord<'_>> = vec![(word, &until)];
        for (member, news) in news.iter().enumerate() {
            words.push((self.request(context.rank(), member), news));
        }
        loop {
            match team.wait_any(from, &words)? {
                (0, value) => return Ok(value),
                (which, number) => self.take(team, memory, which - 1, number)?,
            }
        }
    }

    pub(crate) fn serve(&self, team: &Team<'_>, memory: &Window<u8>) -> Result<()> {
        let context = team.context();
        for member in 0..self.members.len() {
            let number = context.load(self.request(context.rank(), member))?;
            if number != self.taken[member].get() {
                self.take(team, memory, member, number)?;
            }
        }
        Ok(())
    }

    fn take(&self, team: &Team<'_>, memory: &Window<u8>, member: usize, number: u64) -> Result<()> {
        self.taken[member].set(number);
        // The origin waits for the reply, wherever this rank is.
        team.tell(self.answer(team.context(), memory, member))
    }

    /// Serves the request that was taken in from a member, and those that may be served now.
    fn answer(&self, context: &Context, memory: &Window<u8>, member: usize) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        context.get(self.slot(context.rank(), member), &mut header)?;
        if header[0] == UNLOCK {
            self.lock_queue.borrow_mut().release();
            self.reply(context, member, &[])?;
        } else {
            self.lock_queue.borrow_mut().waiting.push_back((member, header));
        }
        self.grant(context, memory)
    }

    /// A barrier of all members that serves meanwhile: dissemination, with a count for each round.
    pub(crate) fn barrier(&self, team: &Team<'_>, memory: &Window<u8>) -> Result<()> {
        let number = self.barriers.get() + 1;
        self.barriers.set(number);
        // The members' other meetings would come to no end either.
        team.tell(self.meet(team, memory, number))
    }

    fn meet(&self, team: &Team<'_>, memory: &Window<u8>, number: u64) -> Result<()> {
        let context = team.context();
        for exchange in dissemination(self.me, self.members.len()) {
            let to = self.members[exchange.to];
            match context.omits(steps::ADD_BARRIERS) {
                false => context.add(self.round(to, exchange.round), 1)?,
                true => context.signal(self.round(to, exchange.round), number)?,
            }
            let own = self.round(context.rank(), exchange.round);
            self.wait(team, memory, exchange.from, own, |seen| seen >= number)?;
        }
        Ok(())
    }

    fn round(&self, rank: Rank, round: u32) -> Place<'_, u64> {
        self.numbers.at(rank, 2 * self.members.len() + round as usize)
    }

    /// Grants the lock to the members at the front of the queue that may have it now.
    fn grant(&self, context: &Context, memory: &Window<u8>) -> Result<()> {
        loop {
            let Some(&(member, header)) = self.lock_queue.borrow().waiting.front() else {
                return Ok(());
            };
            let is_exclusive = header[1] != 0;
            let admits = self.lock_queue.borrow().admits(is_exclusive);
            if !admits && !context.omits(steps::EXCLUDE) {
                return Ok(());
            }
            self.lock_queue.borrow_mut().waiting.pop_front();
            context.charge(Processing::Message);
            if header[0] == LOCK {
                self.lock_queue.borrow_mut().hold(is_exclusive);
                self.reply(context, member, &[])?;
                continue;
            }
            let answer = self.carry_out(context, memory, member, &header)?;
            if !context.omits(steps::FLUSH) {
                context.flush(context.rank())?;
            }
            self.reply(context, member, &answer)?;
        }
    }

    /// Does all that a message asks for to this rank's own part.
    fn carry_out(
        &self,
        context: &Context,
        memory: &Window<u8>,
        member: usize,
        header: &[u8; HEADER_BYTES],
    ) -> Result<Vec<u8>> {
        let bytes = u64::from_le_bytes(std::array::from_fn(|at| header[8 + at])) as usize;
        let mut message = vec![0; bytes.min(self.slot_bytes - HEADER_BYTES)];
        context.get(self.slot(context.rank(), member).skip(HEADER_BYTES), &mut message)?;
        let (mut rest, mut answer) = (message.as_slice(), Vec::new());
        while !rest.is_empty() {
            let operation = Operation::decode(&mut rest).ok_or_else(|| {
                Error::Internal(format!(
                    "{} has sent an epoch that cannot be decoded",
                    self.members[member]
                ))
            })?;
            answer.extend(operation.execute(context, memory, context.rank())?);
        }
        Ok(answer)
    }

    fn send(
        &self,
        team: &Team<'_>,
        memory: &Window<u8>,
        member: usize,
        what: u8,
        mode: Mode,
        operations: &[Queued<'t>],
    ) -> Result<()> {
        let context = team.context();
        // The place of the message is free again when the one before was answered.
        self.await_reply(team, memory, member)?;
        let mut message = vec![0; HEADER_BYTES];
        operations.iter().for_each(|queued| queued.operation.encode(&mut message));
        let bytes = (message.len() - HEADER_BYTES) as u64;
        (message[0], message[1]) = (what, u8::from(mode == Mode::Exclusive));
        message[8..HEADER_BYTES].copy_from_slice(&bytes.to_le_bytes());
        let (target, number) = (self.members[member], self.sent[member].get() + 1);
        self.sent[member].set(number);
        // Nobody knows whether it has come: this rank would wait for its answer, and others for the
        // lock that it may have got.
        team.tell(context.put_signal(
            &message,
            self.slot(target, self.me),
            number,
            self.request(target, self.me),
        ))
    }

    fn await_reply(&self, team: &Team<'_>, memory: &Window<u8>, member: usize) -> Result<()> {
        let context = team.context();
        let number = self.sent[member].get();
        if number == 0 {
            return Ok(());
        }
        let word = self.numbers.at(context.rank(), self.members.len() + member);
        self.wait(team, memory, member, word, |seen| seen == number).map(drop)
    }

    fn reply(&self, context: &Context, member: usize, answer: &[u8]) -> Result<()> {
        let (origin, number) = (self.members[member], self.taken[member].get());
        let word = self.numbers.at(origin, self.members.len() + self.me);
        if answer.is_empty() {
            return context.signal(word, number);
        }
        context.put_signal(answer, self.reply_slot(origin, self.me), number, word)
    }

    fn request(&self, rank: Rank, member: usize) -> Place<'_, u64> {
        self.numbers.at(rank, member)
    }

    fn slot(&self, rank: Rank, member: usize) -> Place<'_, u8> {
        self.mail.at(rank, member * self.slot_bytes)
    }

    fn reply_slot(&self, rank: Rank, member: usize) -> Place<'_, u8> {
        self.mail.at(rank, (self.members.len() + member) * self.slot_bytes)
    }
}

impl LockQueue {
    fn admits(&self, is_exclusive: bool) -> bool {
        self.holders == 0 || !(self.is_exclusive || is_exclusive)
    }

    fn hold(&mut self, is_exclusive: bool) {
        self.holders += 1;
        self.is_exclusive = is_exclusive;
    }

    fn release(&mut self) {
        self.holders = self.holders.saturating_sub(1);
    }
}

#[cold]
fn closed(target: Rank) -> Error {
    Fault::OutsideEpoch { target }.into()
}
