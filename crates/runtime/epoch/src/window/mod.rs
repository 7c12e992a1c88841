//! Windows: their members, the length of each part, and the design of their passive epochs.

mod operations;
mod request;
mod synchronization;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::panic::Location;
use std::rc::Rc;

use farside_fabric::{Error, ProbeEvent, Rank, Result};
use farside_rma::{Context, Plain, Team, Window as Memory, or_free};

use crate::active::Active;
use crate::answer::AnswerSlot;
use crate::backoff::Backoff;
use crate::direct::{self, Direct};
use crate::epoch_state::EpochState;
use crate::lock_agent::{self, LockAgent};
use crate::message::{Accumulation, Operation};
use crate::published::Published;
use crate::two_sided::TwoSided;

pub use farside_fabric::Op;
pub use operations::Request;
pub use request::{Fetched, Get, Put};

/// The design of passive epochs.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub enum Design {
    /// The origins lock a target by themselves, and operations are issued at once; origins that
    /// have to wait queue.
    #[default]
    Direct,
    /// Exclusive mode polls with growing pauses, shared mode asks an agent, which refuses while the
    /// target is taken. For windows of all ranks.
    Backoff(LockAgent),
    /// The design that \[PASSIVE08\] publishes: exclusive mode tries again and again, shared mode
    /// asks an agent, which queues requests. For windows of all ranks.
    Published(LockAgent),
    /// Lock, operations and unlock go to the target in one message, which it serves when it calls
    /// this window: the design that \[PASSIVE08\] compares with.
    TwoSided {
        /// The size of one message. An epoch that does not fit asks for the lock first.
        message_bytes: usize,
    },
}

/// The default message size of a two-sided window: as much as MPI libraries send without asking
/// first.
pub const MESSAGE_BYTES: usize = 16 << 10;

impl Design {
    /// The two-sided design as it runs on real machines.
    pub const TWO_SIDED: Design = Design::TwoSided { message_bytes: MESSAGE_BYTES };

    /// Its name in records and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Design::Direct => "direct",
            Design::Backoff(_) => "backoff",
            Design::Published(_) => "published",
            Design::TwoSided { .. } => "two-sided",
        }
    }
}

/// The options of a window. Every member passes the same, except for the displacement unit.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Options {
    /// The design of passive epochs.
    pub design: Design,
    /// The number of bytes that a displacement of this member's part counts.
    pub unit: u64,
    /// True if the rules of epochs are checked.
    pub checking: bool,
    /// The number of operations with an answer that may be under way, if fewer than the fabric
    /// allows; further ones are queued, and issued as soon as possible.
    pub outstanding: Option<u32>,
    #[doc(hidden)]
    pub polls: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options { design: Design::Direct, unit: 1, checking: true, outstanding: None, polls: None }
    }
}

impl Options {
    /// The usual ones: direct passive epochs, displacements in bytes, checked.
    pub fn new() -> Options {
        Options::default()
    }

    /// Another design of passive epochs.
    #[must_use]
    pub fn design(self, design: Design) -> Options {
        Options { design, ..self }
    }

    /// Displacements that count so many bytes.
    #[must_use]
    pub fn unit(self, bytes: u64) -> Options {
        Options { unit: bytes, ..self }
    }

    /// Sets whether the rules of epochs are checked.
    #[must_use]
    pub fn checking(self, checking: bool) -> Options {
        Options { checking, ..self }
    }

    /// So many operations with an answer under way at most.
    #[must_use]
    pub fn outstanding(self, operations: u32) -> Options {
        Options { outstanding: Some(operations), ..self }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn polls(self, polls: u32) -> Options {
        Options { polls: Some(polls), ..self }
    }
}

/// Memory with a part on every member of a team, reached in epochs.
///
/// See the [crate's page](crate) for how to use one. It belongs to the thread that made it.
#[must_use = "a window that is dropped without `free` stays allocated until the job ends"]
pub struct Window<'t> {
    team: Team<'t>,
    context: &'t Context,
    memory: Memory<u8>,
    parts: Box<[Part]>,
    /// The member number of each rank.
    members: Box<[u32]>,
    passive: Passive<'t>,
    active: Active,
    state: EpochState,
    outstanding: usize,
    /// True if there may be operations with an answer that was not waited for.
    has_answers: Cell<bool>,
    /// Operations with an answer: those under way, and those that wait until there are fewer.
    underway: RefCell<VecDeque<(Rank, Answer<'t>)>>,
    name: OnceCell<String>,
    queue: RefCell<VecDeque<(Rank, u64, Answer<'t>)>>,
}

/// A member's part: how many bytes a displacement counts, and how many bytes there are.
struct Part {
    unit: u64,
    bytes: u64,
}

type Answer<'t> = Rc<dyn AnswerSlot<'t> + 't>;

const NOT_A_MEMBER: u32 = u32::MAX;

enum Passive<'t> {
    Direct(Direct),
    Backoff(Backoff),
    Published(Published),
    TwoSided(Box<TwoSided<'t>>),
}

/// What a window has beside its memory.
struct Parts<'t> {
    parts: Box<[Part]>,
    members: Box<[u32]>,
    passive: Passive<'t>,
    active: Active,
}

impl<'t> Parts<'t> {
    /// Makes the parts of a window over `memory`, all of them or none. Collective.
    fn new(team: &Team<'t>, memory: &Memory<u8>, options: &Options) -> Result<Parts<'t>> {
        let context = team.context();
        let says = team.all_gather(&[options.unit, design_number(&options.design)])?;
        check_alike(team, options, &says)?;
        let part = |(says, &rank): (&[u64], &Rank)| {
            Ok(Part { unit: says[0], bytes: memory.len(rank)? as u64 })
        };
        let parts: Box<[Part]> =
            says.chunks_exact(2).zip(team.members()).map(part).collect::<Result<_>>()?;
        let mut members: Box<[u32]> = vec![NOT_A_MEMBER; context.size() as usize].into();
        for (index, rank) in team.members().iter().enumerate() {
            members[rank.index()] = index as u32;
        }
        let (passive, active) = or_free(
            Passive::new(team, options)?,
            |passive| passive.free(team),
            |_| Active::new(team),
        )?;
        Ok(Parts { parts, members, passive, active })
    }
}

impl<'t> Passive<'t> {
    fn new(team: &Team<'t>, options: &Options) -> Result<Passive<'t>> {
        let context = team.context();
        Ok(match options.design {
            Design::Direct => Passive::Direct(Direct::new(
                team.protocol_words(direct::WORDS)?,
                context,
                team.members(),
                options.polls,
            )),
            Design::Backoff(agent) => {
                Passive::Backoff(Backoff::new(team, lock_agent::WORDS, agent)?)
            }
            Design::Published(agent) => {
                let words = lock_agent::queue_words(context.size());
                Passive::Published(Published::new(Backoff::new(team, words, agent)?))
            }
            Design::TwoSided { message_bytes } => {
                Passive::TwoSided(Box::new(TwoSided::new(team, message_bytes)?))
            }
        })
    }

    /// Gives its memory back. Collective.
    fn free(self, team: &Team<'_>) -> Result<()> {
        match self {
            Passive::Direct(direct) => direct.into_words().free(team),
            Passive::Backoff(backoff) => backoff.into_words().free(team),
            Passive::Published(published) => published.into_words().free(team),
            Passive::TwoSided(two_sided) => two_sided.free(team),
        }
    }
}

impl<'t> Window<'t> {
    /// A window of fresh memory, all zero: so many bytes on this member. Collective over the team.
    ///
    /// ```
    /// use farside::epoch::{Mode, Options, Window};
    /// use farside::Rank;
    ///
    /// farside::local(3, |world| {
    ///     let window = Window::allocate(world, 800, Options::new().unit(8))?;
    ///     window.lock(Rank(1), Mode::Exclusive)?;
    ///     window.put(&[1.5, 2.5], Rank(1), 10 * u64::from(world.rank().0))?;
    ///     window.unlock(Rank(1))?;
    ///     window.barrier()?;
    ///     window.lock(Rank(1), Mode::Shared)?;
    ///     let pair = window.get::<f64>(Rank(1), 20, 2)?;
    ///     window.unlock(Rank(1))?;
    ///     assert_eq!(pair.take()?, [1.5, 2.5]);
    ///     window.free()
    /// })
    /// .unwrap();
    /// ```
    #[track_caller]
    pub fn allocate(
        team: impl Into<Team<'t>>,
        bytes: usize,
        options: Options,
    ) -> Result<Window<'t>> {
        let team = team.into();
        let (memory, parts) = or_free(
            team.window::<u8>(bytes)?,
            |memory| memory.free(&team),
            |memory| Parts::new(&team, memory, &options),
        )?;
        Ok(Window::of(team, memory, parts, &options))
    }

    /// A window over memory that is there already. Collective over the team that allocated it.
    ///
    /// ```
    /// use farside::epoch::{Options, Window};
    /// use farside::Rank;
    ///
    /// farside::local(2, |world| {
    ///     let memory = world.window::<f64>(10)?;
    ///     memory.own().set(3, 1.5)?;
    ///     let window = Window::attach(world, memory, Options::new().unit(8))?;
    ///     window.fence()?;
    ///     let third = window.get::<f64>(Rank(1), 3, 1)?;
    ///     window.fence()?;
    ///     assert_eq!(third.take()?, [1.5]);
    ///     let (memory, ended) = window.detach()?;
    ///     let freed = memory.free(world);
    ///     ended.and(freed)
    /// })
    /// .unwrap();
    /// ```
    pub fn attach<T: Plain>(
        team: impl Into<Team<'t>>,
        memory: Memory<T>,
        options: Options,
    ) -> Result<Window<'t>> {
        Window::over(team.into(), memory.cast()?, options)
    }

    fn over(team: Team<'t>, memory: Memory<u8>, options: Options) -> Result<Window<'t>> {
        if memory.members() != team.members() {
            return Err(Error::InvalidState(
                "only the team that allocated memory can attach it".into(),
            ));
        }
        let parts = Parts::new(&team, &memory, &options)?;
        Ok(Window::of(team, memory, parts, &options))
    }

    fn of(team: Team<'t>, memory: Memory<u8>, parts: Parts<'t>, options: &Options) -> Window<'t> {
        let Parts { parts, members, passive, active } = parts;
        let context = team.context();
        let allowed = context.job().caps.outstanding_max.max(1);
        Window {
            context,
            memory,
            parts,
            members,
            passive,
            active,
            state: EpochState::new(team.size(), options.checking),
            outstanding: options.outstanding.unwrap_or(allowed).clamp(1, allowed) as usize,
            has_answers: Cell::new(false),
            underway: RefCell::default(),
            queue: RefCell::default(),
            name: OnceCell::new(),
            team,
        }
    }

    /// Gives the window a name that viewers show.
    pub fn named(self, name: &str) -> Window<'t> {
        self.context.note_name(self.memory.segment(), 0, name);
        // The first name stays, as with viewers.
        let _ = self.name.set(name.to_owned());
        self
    }

    /// The members, in the order of their team.
    pub fn members(&self) -> &[Rank] {
        self.team.members()
    }

    /// Returns the number of bytes of a member's part.
    pub fn bytes(&self, rank: Rank) -> Result<usize> {
        self.memory.len(rank)
    }

    /// Returns the number of bytes that a displacement of a member's part counts.
    pub fn unit(&self, rank: Rank) -> Result<u64> {
        Ok(self.parts[self.member(rank)?].unit)
    }

    /// The design of its passive epochs.
    pub fn design(&self) -> &'static str {
        match &self.passive {
            Passive::Direct(_) => "direct",
            Passive::Backoff(_) => "backoff",
            Passive::Published(_) => "published",
            Passive::TwoSided(_) => "two-sided",
        }
    }

    /// Ends the window, and gives its memory back. Collective. All epochs must be over.
    ///
    /// # Errors
    ///
    /// Fails without meeting the others if an epoch of this rank is open, or has failed half-way
    /// for another reason than a loss. In the second case those who come to a fence, or to the end
    /// of the window, have an error, too; but somebody may wait for that epoch, so the rank should
    /// end, and with it their wait. Other epochs are refused then, too.
    pub fn free(self) -> Result<()> {
        let (memory, team, ended) = self.dismantle()?;
        // The others meet this member there, whatever has come of its part so far; and why it
        // failed first is what the caller must know.
        let freed = memory.free(&team);
        ended.and(freed)
    }

    /// Ends the window, and returns the memory that it was over, and what became of this member's
    /// part: an error of one member, such as that of a put to a lost rank, is no reason to keep the
    /// memory. Collective. All epochs must be over.
    pub fn detach(self) -> Result<(Memory<u8>, Result<()>)> {
        let (memory, _, ended) = self.dismantle()?;
        Ok((memory, ended))
    }

    /// Returns the memory, the team, and what became of this member's part: the others wait for it
    /// although a put to a lost rank, say, has failed.
    fn dismantle(self) -> Result<(Memory<u8>, Team<'t>, Result<()>)> {
        self.check_idle("the end of the window")?;
        let finished = self.finish(None);
        let (flushed, checks) = (self.context.flush_all(), self.state.checks());
        let announced = if checks { self.active.announce_fence(self.context) } else { Ok(()) };
        // Whatever comes of the meeting, the members meet again where each memory is freed.
        let met = self.barrier();
        let is_to_check = checks && announced.is_ok() && met.is_ok();
        let checked = if is_to_check { self.active.check_groups(self.context) } else { Ok(()) };
        let freed = self.passive.free(&self.team).and(self.active.free(&self.team));
        let ended = met.and(finished).and(flushed).and(announced).and(checked).and(freed);
        Ok((self.memory, self.team, ended))
    }

    /// Returns the member number of a rank.
    #[inline]
    fn member(&self, rank: Rank) -> Result<usize> {
        match self.members.get(rank.index()) {
            Some(&NOT_A_MEMBER) => Err(Error::NotAMember { rank, of: "window" }),
            Some(&member) => Ok(member as usize),
            None => Err(Error::UnknownRank { rank, ranks: self.context.size() }),
        }
    }

    /// Likewise, of a rank that the program has named.
    #[inline]
    #[track_caller]
    fn named_member(&self, rank: Rank) -> Result<usize> {
        self.context.noted(self.member(rank))
    }

    #[track_caller]
    fn issue(
        &self,
        target: Rank,
        operation: &Operation,
        answer: Option<&Answer<'t>>,
    ) -> Result<()> {
        match (operation, answer) {
            (
                Operation::Get { at, .. }
                | Operation::Atomic { at, .. }
                | Operation::Accumulate(Accumulation { at, .. }),
                Some(answer),
            ) => self.begin(target, *at, answer.clone()),
            _ => operation.execute(self.context, &self.memory, target).map(drop),
        }
    }

    /// Starts an operation with an answer, unless too many are under way: then it is queued.
    #[track_caller]
    fn begin(&self, target: Rank, at: u64, answer: Answer<'t>) -> Result<()> {
        self.start_queued()?;
        let place = Location::caller();
        self.context.tell(|| ProbeEvent::At(place));
        self.has_answers.set(true);
        if self.underway.borrow().len() >= self.outstanding {
            self.queue.borrow_mut().push_back((target, at, answer));
            return Ok(());
        }
        answer.start(self.context, self.memory.at(target, at as usize))?;
        if !answer.is_done()? {
            self.underway.borrow_mut().push_back((target, answer));
        }
        Ok(())
    }

    /// Starts what is queued, as far as operations that were under way have become complete.
    fn start_queued(&self) -> Result<()> {
        while !self.queue.borrow().is_empty() {
            let oldest = self.underway.borrow().front().map(|(_, answer)| answer.clone());
            if let Some(oldest) = oldest {
                if !oldest.is_done()? {
                    return Ok(());
                }
                self.underway.borrow_mut().pop_front();
            }
            self.start_next()?;
        }
        Ok(())
    }

    fn start_next(&self) -> Result<()> {
        let next = self.queue.borrow_mut().pop_front();
        let Some((target, at, answer)) = next else {
            return Ok(());
        };
        answer.start(self.context, self.memory.at(target, at as usize))?;
        self.underway.borrow_mut().push_back((target, answer));
        Ok(())
    }

    /// Waits for all answers of a target, or of all.
    #[inline]
    fn finish(&self, target: Option<Rank>) -> Result<()> {
        self.finish_those(target, |_| true)
    }

    /// Waits for all answers of a target that tell of its memory: not for those of puts.
    fn finish_reads(&self, target: Rank) -> Result<()> {
        self.finish_those(Some(target), |answer| answer.reads())
    }

    #[inline]
    fn finish_those(
        &self,
        target: Option<Rank>,
        which: impl Fn(&Answer<'t>) -> bool,
    ) -> Result<()> {
        if self.has_answers.get() { self.await_answers(target, which) } else { Ok(()) }
    }

    #[inline(never)]
    fn await_answers(
        &self,
        target: Option<Rank>,
        which: impl Fn(&Answer<'t>) -> bool,
    ) -> Result<()> {
        let concerns = |rank: Rank| target.is_none_or(|target| target == rank);
        // Every one is started and waited for, also after one has failed: it would be done in a
        // later epoch.
        let mut done = Ok(());
        while self.queue.borrow().iter().any(|&(rank, ..)| concerns(rank)) {
            // In the order in which they came, so that room is made for the next.
            let oldest = self.underway.borrow_mut().pop_front();
            done = done.and(oldest.map_or(Ok(()), |(_, answer)| answer.finish()));
            done = done.and(self.start_next());
        }
        let (mine, others): (VecDeque<_>, VecDeque<_>) = self
            .underway
            .borrow_mut()
            .drain(..)
            .partition(|(rank, answer)| concerns(*rank) && which(answer));
        self.has_answers.set(!others.is_empty() || !self.queue.borrow().is_empty());
        *self.underway.borrow_mut() = others;
        mine.into_iter().map(|(_, answer)| answer.finish()).fold(done, Result::and)
    }
}

fn design_number(design: &Design) -> u64 {
    match design {
        Design::Direct => 0,
        Design::Backoff(_) => 1,
        Design::TwoSided { .. } => 2,
        Design::Published(_) => 3,
    }
}

/// All members must want the same design, and a unit that counts something.
fn check_alike(team: &Team<'_>, options: &Options, says: &[u64]) -> Result<()> {
    if options.unit == 0 {
        return Err(Error::InvalidArgument(
            "a displacement unit of 0 bytes is invalid: to count in bytes, use 1".into(),
        ));
    }
    for (says, &rank) in says.chunks_exact(2).zip(team.members()) {
        if says[1] != design_number(&options.design) {
            let names = ["direct", "backoff", "two-sided", "published"];
            return Err(Error::Disagreement {
                what: "the ranks disagree on the design of a window".into(),
                mine: options.design.name().into(),
                rank,
                theirs: names.get(says[1] as usize).copied().unwrap_or("another").into(),
            });
        }
    }
    let asks_agents = matches!(options.design, Design::Backoff(_) | Design::Published(_));
    if asks_agents && team.size() != team.context().size() as usize {
        return Err(Error::Unsupported {
            what: format!("design {} on a team that lacks some ranks", options.design.name()),
        });
    }
    Ok(())
}
