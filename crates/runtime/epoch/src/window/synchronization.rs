//! Synchronization: the calls that begin, complete and end epochs.

use std::cell::Cell;
use std::panic::Location;
use std::time::Duration;

use farside_fabric::record::{ActivityKind, target_lock};
use farside_fabric::{Error, Rank, Result};
use farside_rma::{Place, Purpose, WaitOptions};

use super::{Passive, Window};
use crate::fault::Fault;
use crate::mode::Mode;
use crate::steps;
use crate::two_sided::{Queued, TwoSided};

/// The time for which a rank waits for another in an active epoch before it looks whether that one
/// can still come.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// The other side of an active epoch, for which this rank waits.
struct Partner {
    member: usize,
    /// The call that this rank has made, as an error says it.
    did: &'static str,
    instead: &'static str,
}

impl<'t> Window<'t> {
    /// Begins a passive access epoch to one target, in the given mode.
    ///
    /// In a direct design it returns when this rank has the lock. In the two-sided design nothing
    /// is sent yet.
    #[inline]
    #[track_caller]
    pub fn lock(&self, target: Rank, mode: Mode) -> Result<()> {
        let member = self.named_member(target)?;
        self.context.noted(self.state.check_lock(member, target, "lock"))?;
        self.take_lock(member, target, mode)
    }

    /// Begins an operation on a target whose bytes the caller moves itself: checks that an epoch
    /// allows it, and locks the target in an epoch of [`Window::lock_all`].
    #[inline]
    #[track_caller]
    pub fn enter_target(&self, target: Rank) -> Result<()> {
        let member = self.named_member(target)?;
        self.context.noted(self.state.check_open(member, target))?;
        if self.state.all_locked.get() && self.state.lock_of(member).is_none() {
            self.take_lock(member, target, Mode::Shared)?;
        }
        Ok(())
    }

    /// Returns whether an operation on a target may begin at once, without a lock to be taken
    /// first; if so, it has begun. [`Window::enter_target`] does the rest, or says what is wrong.
    #[inline]
    pub fn is_entered(&self, target: Rank) -> bool {
        self.member(target).is_ok_and(|member| self.state.is_entered(member))
    }

    /// Returns the flags of a target, which are not zero while operations on it may begin at once,
    /// as [`Window::is_entered`] says but for fence epochs: [`LOCKED`](crate::LOCKED),
    /// [`STARTED`](crate::STARTED). For interfaces that look by themselves.
    pub fn flags(&self, target: Rank) -> Result<&Cell<u8>> {
        Ok(self.state.open(self.member(target)?))
    }

    /// Checks that a passive epoch is open, as `call` needs it.
    pub fn check_locked(&self, call: &'static str) -> Result<()> {
        match self.state.all_locked.get() || self.state.has_locks() {
            true => Ok(()),
            false => Err(Fault::NotOpen { call, begin: "lock" }.into()),
        }
    }

    /// Checks that the program has ended all epochs of this member, as `call` needs it.
    pub fn check_over(&self, call: &'static str) -> Result<()> {
        self.state.check_unlocked(call)?;
        if self.state.posted.borrow().is_some() {
            return Err(Fault::StillOpen { call, open: "an exposure epoch is open" }.into());
        }
        Ok(())
    }

    /// Meets the other members in `call`, which ends the epochs of all. A member one of whose
    /// epochs has failed half-way cannot wait for them, since they may wait for that epoch: it
    /// tells those who come that it does not.
    #[track_caller]
    pub fn meet_at_end(&self, call: &'static str) -> Result<()> {
        self.tell_if_broken(call)?;
        self.barrier()
    }

    /// Ends a passive access epoch: all its operations are complete, here and at the target.
    #[inline]
    #[track_caller]
    pub fn unlock(&self, target: Rank) -> Result<()> {
        let member = self.named_member(target)?;
        let mode = self.state.lock_of(member).filter(|_| !self.state.all_locked.get());
        let mode = self.context.noted(mode.ok_or(Fault::NotLocked { target }))?;
        self.release_lock(member, target, mode)
    }

    /// Begins a passive access epoch to all members, in shared mode. Not collective. This rank's
    /// own part is locked at once, since loads and stores of it make no call; another target is
    /// locked when it is first used.
    #[track_caller]
    pub fn lock_all(&self) -> Result<()> {
        self.context.noted(self.state.check_whole("lock_all"))?;
        self.context.noted(self.state.check_unlocked("lock_all"))?;
        self.state.end_idle_fence();
        if self.state.fenced.get() {
            let open = "a fence epoch is open";
            return Err(self.context.failed(Fault::StillOpen { call: "lock_all", open }.into()));
        }
        let me = self.context.rank();
        self.take_lock(self.member(me)?, me, Mode::Shared)?;
        self.state.all_locked.set(true);
        Ok(())
    }

    /// Ends an epoch of [`Window::lock_all`].
    #[track_caller]
    pub fn unlock_all(&self) -> Result<()> {
        if !self.state.all_locked.replace(false) {
            let fault = Fault::NotOpen { call: "unlock_all", begin: "lock_all" };
            return Err(self.context.failed(fault.into()));
        }
        // Every one is released, also after one has failed.
        let release =
            |member: usize| self.release_lock(member, self.members()[member], Mode::Shared);
        self.state.locked().into_iter().map(release).fold(Ok(()), Result::and)
    }

    /// Within a passive epoch: all operations on a target are complete, here and there.
    #[inline]
    #[track_caller]
    pub fn flush(&self, target: Rank) -> Result<()> {
        let member = self.check_passive(target, "flush")?;
        self.escalate(member)?;
        self.finish(Some(target))?;
        self.context.flush(target)?;
        self.state.forget(member);
        Ok(())
    }

    /// Within a passive epoch: the answers of all operations on a target are there, and buffers may
    /// be used again.
    #[track_caller]
    pub fn flush_local(&self, target: Rank) -> Result<()> {
        let member = self.check_passive(target, "flush_local")?;
        self.escalate(member)?;
        self.finish(Some(target))
    }

    /// [`Window::flush`] of all targets that are locked.
    #[track_caller]
    pub fn flush_all(&self) -> Result<()> {
        self.state.locked().into_iter().try_for_each(|member| self.flush(self.members()[member]))
    }

    /// [`Window::flush_local`] of all targets that are locked.
    pub fn flush_local_all(&self) -> Result<()> {
        self.state
            .locked()
            .into_iter()
            .try_for_each(|member| self.flush_local(self.members()[member]))
    }

    /// Makes what this rank has written to its own part visible, and what others have written
    /// visible to it (`MPI_Win_sync`).
    pub fn sync(&self) -> Result<()> {
        self.progress()?;
        self.context.note_stores();
        self.context.flush(self.context.rank())
    }

    /// Serves requests of others, in the two-sided design; otherwise does nothing, because no other
    /// rank needs it.
    pub fn progress(&self) -> Result<()> {
        match &self.passive {
            Passive::TwoSided(two_sided) => two_sided.serve(&self.team, &self.memory),
            _ => Ok(()),
        }
    }

    /// Returns when every member has called it. Serves requests meanwhile, where the design needs
    /// it.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        match &self.passive {
            Passive::TwoSided(two_sided) => two_sided.barrier(&self.team, &self.memory),
            _ => self.team.barrier(),
        }
    }

    /// Ends the fence epoch before it, if there is one, and begins another. Collective: whatever
    /// any member did in the epoch before is complete everywhere.
    ///
    /// # Errors
    ///
    /// If an operation of the epoch has failed, the members have met all the same, and the next
    /// fence may follow. If a rule of epochs was broken, or a member could not come, they have not,
    /// and the rank should end.
    ///
    /// ```
    /// use farside::epoch::{Options, Window};
    /// use farside::Rank;
    ///
    /// farside::local(4, |world| {
    ///     let window = Window::allocate(world, 32, Options::new().unit(8))?;
    ///     window.fence()?;
    ///     for peer in world.ranks() {
    ///         window.put(&[world.rank().0 as u64], peer, world.rank().0.into())?;
    ///     }
    ///     window.last_fence()?;
    ///     let mut all = [0u64; 4];
    ///     window.read_own(0, &mut all)?;
    ///     assert_eq!(all, [0, 1, 2, 3]);
    ///     window.free()
    /// })
    /// .unwrap();
    /// ```
    #[track_caller]
    pub fn fence(&self) -> Result<()> {
        self.complete_and_meet("fence", true)
    }

    /// Ends the fence epoch before it, and begins none (`MPI_MODE_NOSUCCEED`). Collective.
    #[track_caller]
    pub fn last_fence(&self) -> Result<()> {
        self.complete_and_meet("last_fence", false)
    }

    /// Begins an exposure epoch of this rank's own part for these origins.
    ///
    /// ```
    /// use farside::epoch::{Options, Window};
    /// use farside::Rank;
    ///
    /// farside::local(3, |world| {
    ///     let window = Window::allocate(world, 32, Options::new().unit(8))?;
    ///     if world.rank() == Rank(0) {
    ///         window.post(&[Rank(1), Rank(2)])?;
    ///         window.wait()?;
    ///         let mut both = [0u64; 2];
    ///         window.read_own(1, &mut both)?;
    ///         assert_eq!(both, [1, 2]);
    ///     } else {
    ///         window.start(&[Rank(0)])?;
    ///         window.put(&[u64::from(world.rank().0)], Rank(0), world.rank().0.into())?;
    ///         window.complete()?;
    ///     }
    ///     window.free()
    /// })
    /// .unwrap();
    /// ```
    #[track_caller]
    pub fn post(&self, origins: &[Rank]) -> Result<()> {
        if self.state.posted.borrow().is_some() {
            let fault = Fault::StillOpen { call: "post", open: "an exposure epoch is open" };
            return Err(self.context.failed(fault.into()));
        }
        self.state.end_idle_fence();
        let origins = self.context.noted(self.group(origins))?;
        self.noting(self.active.post(self.context, &origins))?;
        *self.state.posted.borrow_mut() = Some(origins);
        Ok(())
    }

    /// Begins an access epoch to these targets; returns when they have posted theirs.
    #[track_caller]
    pub fn start(&self, targets: &[Rank]) -> Result<()> {
        let purpose = Purpose::new(ActivityKind::Epoch, "start");
        let _doing = self.context.begin(purpose.of(self.memory.segment(), 0));
        self.context.noted(self.state.check_whole("start"))?;
        self.context.noted(self.state.check_unlocked("start"))?;
        self.state.end_idle_fence();
        let targets = self.context.noted(self.group(targets))?;
        let awaited =
            self.noting(self.active.start(self.context, &targets, self.state.checks()))?;
        if !self.context.omits(steps::AWAIT_POSTS) {
            for ((word, number), &member) in awaited.into_iter().zip(&targets) {
                let did = "started an access epoch to";
                let instead = "posting one for it";
                self.noting(self.await_number(word, number, Partner { member, did, instead }))?;
            }
        }
        self.state.set_started(Some(targets));
        Ok(())
    }

    /// Ends the access epoch of [`Window::start`]. Answers are there; what was put lands before the
    /// targets return from [`Window::wait`].
    #[track_caller]
    pub fn complete(&self) -> Result<()> {
        let targets = self.state.set_started(None);
        let fault = Fault::NotOpen { call: "complete", begin: "start" };
        let targets = self.context.noted(targets.ok_or(fault))?;
        // The targets wait for this rank also if an answer of it is an error.
        let finished = self.finish(None);
        self.noting(self.active.complete(self.context, &targets)).and(finished)
    }

    /// Ends the exposure epoch of [`Window::post`]: returns when its origins have completed.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        let purpose = Purpose::new(ActivityKind::Epoch, "wait");
        let _doing = self.context.begin(purpose.of(self.memory.segment(), 0));
        let origins = self.state.posted.borrow_mut().take();
        let fault = Fault::NotOpen { call: "wait", begin: "post" };
        let origins = self.context.noted(origins.ok_or(fault))?;
        if !self.context.omits(steps::AWAIT_ORIGINS) {
            let awaited = self.active.completions(self.context, &origins);
            for ((word, number), &member) in awaited.into_iter().zip(&origins) {
                let did = "posted an exposure epoch for";
                let instead = "starting one to it";
                self.await_number(word, number, Partner { member, did, instead })?;
            }
        }
        Ok(())
    }

    /// Returns whether [`Window::wait`] would return at once; if so, the exposure epoch is over.
    #[track_caller]
    pub fn test(&self) -> Result<bool> {
        self.progress()?;
        let is_over = match &*self.state.posted.borrow() {
            None => {
                let fault = Fault::NotOpen { call: "test", begin: "post" };
                return Err(self.context.failed(fault.into()));
            }
            Some(origins) => {
                let awaited = self.active.completions(self.context, origins);
                let looks = awaited
                    .into_iter()
                    .map(|(word, number)| Ok(self.context.load(word)? >= number));
                looks.collect::<Result<Vec<bool>>>()?.into_iter().all(|is_there| is_there)
            }
        };
        if is_over {
            self.state.posted.borrow_mut().take();
        }
        Ok(is_over)
    }

    /// Checks that this member may meet the others in `call`. If an epoch of it has failed
    /// half-way, they are told that it does not come.
    pub(super) fn check_idle(&self, call: &'static str) -> Result<()> {
        self.check_over(call)?;
        self.tell_if_broken(call)
    }

    fn tell_if_broken(&self, call: &'static str) -> Result<()> {
        let Err(broken) = self.state.check_whole(call) else { return Ok(()) };
        // Of a loss the others hear by themselves.
        match self.context.loss_among(self.members().iter().copied()) {
            Some(loss) => Err(loss.error()),
            None => self.team.tell(Err(broken.into())),
        }
    }

    #[inline]
    #[track_caller]
    pub(super) fn take_lock(&self, member: usize, target: Rank, mode: Mode) -> Result<()> {
        let (segment, lock) = (self.memory.segment(), target_lock(target));
        let purpose = Purpose::new(ActivityKind::Lock, "epoch").of(segment, lock);
        match &self.passive {
            Passive::Direct(direct) => {
                self.noting(direct.lock(self.context, target, mode, purpose))?;
            }
            other => {
                let _doing = self.context.begin(purpose);
                return self.take_other_lock(other, member, target, mode);
            }
        }
        self.context.note_held(segment, lock, Location::caller());
        self.state.set_lock(member, Some(mode));
        Ok(())
    }

    #[inline(never)]
    #[track_caller]
    fn take_other_lock(
        &self,
        passive: &Passive<'t>,
        member: usize,
        target: Rank,
        mode: Mode,
    ) -> Result<()> {
        match passive {
            Passive::Backoff(backoff) => {
                self.noting(backoff.lock(self.context, target, mode))?;
            }
            Passive::Published(published) => {
                self.noting(published.lock(self.context, target, mode))?;
            }
            Passive::TwoSided(two_sided) => two_sided.open(member, mode),
            Passive::Direct(_) => {}
        }
        if let Passive::Backoff(_) | Passive::Published(_) = passive {
            let (segment, lock) = (self.memory.segment(), target_lock(target));
            self.context.note_held(segment, lock, Location::caller());
        }
        self.state.set_lock(member, Some(mode));
        // Local accesses under this rank's own lock cannot be queued.
        if target == self.context.rank() { self.escalate(member) } else { Ok(()) }
    }

    #[inline]
    #[track_caller]
    fn release_lock(&self, member: usize, target: Rank, mode: Mode) -> Result<()> {
        self.context.note_released(self.memory.segment(), target_lock(target));
        match &self.passive {
            // Near, where nothing is under way, the release itself makes everything visible.
            Passive::Direct(direct)
                if !self.has_answers.get() && self.context.flushes_by_atomic(target) =>
            {
                self.state.set_lock(member, None);
                self.noting(direct.unlock(self.context, target, mode))
            }
            Passive::TwoSided(two_sided) => self.close_two_sided(two_sided, member, target),
            _ => self.complete_and_release(member, target, mode),
        }
    }

    /// Completes the operations on a target and releases its lock. Reads must be complete before
    /// others may write. Writes need not have landed: in the direct design the release goes to the
    /// target right behind them, and when that is answered, all is there.
    #[inline(never)]
    #[track_caller]
    fn complete_and_release(&self, member: usize, target: Rank, mode: Mode) -> Result<()> {
        let flushes = !self.context.omits(steps::FLUSH);
        let completed = match &self.passive {
            _ if !flushes => Ok(()),
            Passive::Direct(_) => self.finish_reads(target).and(self.own_fence()),
            _ => self.finish(Some(target)).and(self.context.flush(target)),
        };
        self.state.set_lock(member, None);
        // The lock is released even if something was lost, so that others find out, too.
        match &self.passive {
            Passive::Direct(direct) => self.noting(direct.unlock(self.context, target, mode)),
            Passive::Backoff(backoff) => self.noting(backoff.unlock(self.context, target, mode)),
            Passive::Published(published) => {
                self.noting(published.unlock(self.context, target, mode))
            }
            Passive::TwoSided(_) => Ok(()),
        }?;
        completed?;
        if flushes { self.finish(Some(target)).and(self.context.flush(target)) } else { Ok(()) }
    }

    /// A fence of the window's own, not of the program's, whose place it does not bear: a checker
    /// of races takes it for one that words of protocols tell of.
    fn own_fence(&self) -> Result<()> {
        self.context.fence()
    }

    #[inline(never)]
    fn close_two_sided(&self, two_sided: &TwoSided<'t>, member: usize, target: Rank) -> Result<()> {
        let escalated = if two_sided.fits(member) { Ok(()) } else { self.escalate(member) };
        let completed = match two_sided.queues(member) || self.context.omits(steps::FLUSH) {
            true => Ok(()),
            false => self.finish(Some(target)).and(self.context.flush(target)),
        };
        self.state.set_lock(member, None);
        // The lock is released even if something was lost, so that others find out, too.
        let closed = two_sided.close(&self.team, &self.memory, member);
        escalated.and(completed).and(closed)
    }

    /// Notes that an epoch could not be begun or ended as it should, for any reason but a loss, of
    /// which those who wait hear by themselves. In the two-sided design all members are told: they
    /// meet in no other way than by waiting for each other.
    #[inline(always)]
    fn noting<R>(&self, done: Result<R>) -> Result<R> {
        done.or_else(|error| self.note(error))
    }

    #[cold]
    fn note<R>(&self, error: Error) -> Result<R> {
        if let Passive::TwoSided(_) = &self.passive {
            return self.team.tell(Err(error));
        }
        if error.lost_rank().is_none() {
            self.state.is_broken.set(true);
        }
        Err(error)
    }

    /// In the two-sided design: takes the lock now, and issues what is queued directly.
    #[cold]
    #[inline]
    pub(super) fn escalate(&self, member: usize) -> Result<()> {
        let Passive::TwoSided(two_sided) = &self.passive else {
            return Ok(());
        };
        if !two_sided.queues(member) {
            return Ok(());
        }
        let target = self.members()[member];
        let queued = two_sided.escalate(&self.team, &self.memory, member)?;
        let issue =
            |queued: Queued<'t>| self.issue(target, &queued.operation, queued.answer.as_ref());
        // Every one is issued, also after one has failed.
        queued.into_iter().map(issue).fold(Ok(()), Result::and)
    }

    #[inline]
    #[track_caller]
    fn check_passive(&self, target: Rank, call: &'static str) -> Result<usize> {
        let member = self.named_member(target)?;
        match self.state.lock_of(member).is_some() || self.state.all_locked.get() {
            true => Ok(member),
            false => Err(self.context.failed(Fault::NotOpen { call, begin: "lock" }.into())),
        }
    }

    /// Completes all that was done, and waits for all members. Then an epoch begins, or none.
    #[track_caller]
    fn complete_and_meet(&self, call: &'static str, begins: bool) -> Result<()> {
        self.context.noted(self.check_idle(call))?;
        // Also if a put has failed, because its target is lost, the others wait for this member,
        // and what they begin, or end, it does with them.
        let finished = self.finish(None);
        let flushed =
            if self.context.omits(steps::FLUSH) { Ok(()) } else { self.context.flush_all() };
        let checked = match self.state.checks() {
            true => self
                .active
                .announce_fence(self.context)
                .and_then(|()| self.active.check_groups(self.context)),
            false => Ok(()),
        };
        if checked.as_ref().is_err_and(|error| error.fault::<Fault>().is_some()) {
            // The member that does not match has an error, too, or waits until this one has ended.
            return checked;
        }
        if !self.context.omits(steps::MEET) {
            self.barrier()?;
        }
        self.state.set_fenced(begins);
        finished.and(flushed).and(checked)
    }

    /// Waits until one of this rank's own words has reached a number; serves others meanwhile,
    /// where the design needs it. After a while it checks whether the partner can still do what it
    /// is awaited for.
    fn await_number(&self, word: Place<'_, u64>, number: u64, partner: Partner) -> Result<()> {
        let Partner { member, did, instead } = partner;
        let until = |seen: u64| seen >= number;
        if let Passive::TwoSided(two_sided) = &self.passive {
            return two_sided.wait(&self.team, &self.memory, member, word, until).map(drop);
        }
        let timeout = self.state.checks().then_some(LOOK_AFTER);
        loop {
            match self.context.wait_among(
                self.members(),
                word,
                until,
                WaitOptions { timeout, soon: true },
            ) {
                Err(Error::TimedOut { .. }) if self.active.has_passed(self.context, member)? => {
                    // What the partner did before it went on counts.
                    if until(self.context.load(word)?) {
                        return Ok(());
                    }
                    let (me, other) = (self.context.rank(), self.members()[member]);
                    return Err(Fault::Groups { me, did, other, instead }.into());
                }
                Err(Error::TimedOut { .. }) => {}
                other => return other.map(drop),
            }
        }
    }

    fn group(&self, ranks: &[Rank]) -> Result<Vec<usize>> {
        let mut members: Vec<usize> = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            let member = self.member(rank).map_err(|_| Fault::BadGroup { rank, twice: false })?;
            if members.contains(&member) {
                return Err(Fault::BadGroup { rank, twice: true }.into());
            }
            members.push(member);
        }
        Ok(members)
    }
}
