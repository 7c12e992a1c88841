//! How a context waits, and whose end makes waiting vain.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use farside_fabric::record::{ActivityKind, Lasting};
use farside_fabric::{
    Atomic, Condition, Error, Event, ExitCause, Loss, PeerState, Rank, Result, SegmentId, Wait,
    Wake, Width, Word,
};

use crate::activity::Purpose;
use crate::context::Context;
use crate::doing::{FailureScope, Waiting};
use crate::group::area as at;
use crate::place::Place;
use crate::plain::Integer;

/// A reason that is no loss: this rank has gone on after all that it knew of.
const GONE_ON: u64 = 1;

/// A word of this rank's own memory, and what it must satisfy. See [`Context::wait_any_among`].
pub type AwaitedWord<'a> = (Place<'a, u64>, &'a dyn Fn(u64) -> bool);

/// What a waiter expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitOptions {
    /// For how long it waits; then [`Error::TimedOut`].
    pub timeout: Option<Duration>,
    /// Whether it expects its event soon. A rank that knows that others come first parks at once
    /// where ranks outnumber processors.
    pub soon: bool,
}

/// Soon, and without a limit.
impl Default for WaitOptions {
    fn default() -> WaitOptions {
        WaitOptions { timeout: None, soon: true }
    }
}

impl Context {
    /// Waits until a word of this rank's own memory satisfies `until`, and returns the value that
    /// did.
    ///
    /// Only atomics and signals wake the waiter; a plain put to the word need not be noticed. Fails
    /// if a rank was lost, since it might have been the one to signal.
    #[track_caller]
    pub fn wait<I: Integer>(&self, at: Place<'_, I>, until: impl Fn(I) -> bool) -> Result<I> {
        self.wait_for(at, until, &FailureScope::Everyone, WaitOptions::default())
    }

    /// Like [`Context::wait`], for at most `timeout`; then [`Error::TimedOut`].
    #[track_caller]
    pub fn wait_timeout<I: Integer>(
        &self,
        at: Place<'_, I>,
        until: impl Fn(I) -> bool,
        timeout: Duration,
    ) -> Result<I> {
        self.wait_for(
            at,
            until,
            &FailureScope::Everyone,
            WaitOptions { timeout: Some(timeout), soon: true },
        )
    }

    /// Like [`Context::wait`], for a protocol among `members`: fails if one of them was lost, or
    /// all others of them have left, and takes no notice of anybody else's end.
    ///
    /// ```
    /// # use farside::{WaitOptions, Rank};
    /// # farside::local(3, |world| {
    /// let flag = world.words(1)?;
    /// let pair = [Rank(0), Rank(1)];
    /// match world.rank().0 {
    ///     0 => world.signal(flag.at(Rank(1), 0), 1)?,
    ///     1 => {
    ///         let (flag, options) = (flag.at(Rank(1), 0), WaitOptions::default());
    ///         assert_eq!(world.wait_among(&pair, flag, |flag| flag != 0, options)?, 1);
    ///     }
    ///     _ => {}
    /// }
    /// # flag.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn wait_among<I: Integer>(
        &self,
        members: &[Rank],
        at: Place<'_, I>,
        until: impl Fn(I) -> bool,
        options: WaitOptions,
    ) -> Result<I> {
        self.wait_for(at, until, &FailureScope::Among(members), options)
    }

    /// Waits until one of several words of this rank's own memory satisfies its condition, and
    /// returns which and the value that did: for a protocol among `members`, as
    /// [`Context::wait_among`].
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// let flags = world.words(2)?;
    /// let (me, other) = (world.rank(), Rank(1 - world.rank().0));
    /// world.signal(flags.at(other, 1), 7)?;
    /// let is_set = |flag: u64| flag != 0;
    /// let mine = [(flags.at(me, 0), &is_set as _), (flags.at(me, 1), &is_set as _)];
    /// assert_eq!(world.wait_any_among(&[me, other], &mine)?, (1, 7));
    /// # flags.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn wait_any_among(
        &self,
        members: &[Rank],
        words: &[AwaitedWord<'_>],
    ) -> Result<(usize, u64)> {
        self.wait_for_any(words, &FailureScope::Among(members), WaitOptions::default())
    }

    /// Like [`Context::wait_any_among`] among all ranks, with options: fails if a rank was lost,
    /// or all others have left.
    #[track_caller]
    pub fn wait_any(
        &self,
        words: &[AwaitedWord<'_>],
        options: WaitOptions,
    ) -> Result<(usize, u64)> {
        self.wait_for_any(words, &FailureScope::Everyone, options)
    }

    #[track_caller]
    pub(crate) fn wait_for_any(
        &self,
        words: &[AwaitedWord<'_>],
        scope: &FailureScope<'_>,
        options: WaitOptions,
    ) -> Result<(usize, u64)> {
        let mut conditions: Vec<Condition<'_>> = Vec::with_capacity(words.len());
        for &(at, until) in words {
            at.check(8)?;
            conditions.push(Condition { at: at.word(), memory: &at.segment.own, until });
        }
        let place = Location::caller();
        self.note_place();
        let purpose = || word_purpose(options, place);
        self.wait_as(&Waiting::new(self, &purpose, Event::Words(&conditions), scope), options)
    }

    /// Like [`Context::wait_among`], for a protocol in which every member has a part: also fails if
    /// one of them has left and, as `has_done` says, not done its part before.
    #[track_caller]
    pub fn wait_for_all<I: Integer>(
        &self,
        members: &[Rank],
        has_done: &dyn Fn(Rank) -> Result<bool>,
        at: Place<'_, I>,
        until: impl Fn(I) -> bool,
    ) -> Result<I> {
        self.wait_for(
            at,
            until,
            &FailureScope::Members { members, awaited: members, has_done },
            WaitOptions::default(),
        )
    }

    #[track_caller]
    fn wait_for<I: Integer>(
        &self,
        at: Place<'_, I>,
        until: impl Fn(I) -> bool,
        scope: &FailureScope<'_>,
        options: WaitOptions,
    ) -> Result<I> {
        at.check(size_of::<I>() as u64)?;
        let until = |bits: u64| until(I::from_bits(bits.into()));
        let condition = [Condition { at: at.word(), memory: &at.segment.own, until: &until }];
        let event = Event::Words(&condition);
        let place = Location::caller();
        self.note_place();
        let purpose = || word_purpose(options, place);
        let waiting = Waiting::new(self, &purpose, event, scope);
        let (_, value) = self.wait_as(&waiting, options)?;
        Ok(I::from_bits(value.into()))
    }

    /// Pauses for `time`: lets others run, and fails once a rank was lost, or all others have left.
    ///
    /// ```
    /// # farside::local(1, |world| world.pause(std::time::Duration::from_micros(50))).unwrap();
    /// ```
    #[track_caller]
    pub fn pause(&self, time: Duration) -> Result<()> {
        self.pause_unless(&FailureScope::Everyone, time)
    }

    /// Like [`Context::pause`], for a protocol among `members`: no other rank's end is an error.
    #[track_caller]
    pub fn pause_among(&self, members: &[Rank], time: Duration) -> Result<()> {
        self.pause_unless(&FailureScope::Among(members), time)
    }

    #[track_caller]
    fn pause_unless(&self, scope: &FailureScope<'_>, time: Duration) -> Result<()> {
        let options = WaitOptions { timeout: Some(time), soon: false };
        let place = Location::caller();
        let purpose = || Purpose::at(ActivityKind::Pause, "pause", place).limited(true);
        let waiting = Waiting::new(self, &purpose, Event::Words(&[]), scope);
        match self.wait_as(&waiting, options) {
            Err(Error::TimedOut { .. }) => Ok(()),
            paused => paused.map(drop),
        }
    }

    /// Stands in a loop that polls memory of *another* rank: lets others run, and fails once a rank
    /// was lost, or all others have left.
    #[track_caller]
    pub fn relax(&self) -> Result<()> {
        self.relax_unless(&FailureScope::Everyone)
    }

    /// Like [`Context::relax`], for a protocol among `members`: only the end of a member is an
    /// error.
    #[inline]
    #[track_caller]
    pub fn relax_among(&self, members: &[Rank]) -> Result<()> {
        self.relax_unless(&FailureScope::Among(members))
    }

    #[inline]
    #[track_caller]
    pub(crate) fn relax_unless(&self, scope: &FailureScope<'_>) -> Result<()> {
        self.fabric().relax();
        if self.meanwhile().look(|| self.has_purpose().then(|| self.now_ns())) {
            self.note_poll(scope);
        }
        let departures = self.failures().departures();
        // A departing rank may have written what is polled for after the last look: the caller
        // looks once more before that is an error.
        if departures == self.departures_polled().replace(departures) && departures != 0 {
            return self.judge(scope);
        }
        Ok(())
    }

    /// Sets what this context calls now and then while it waits, or nothing: for a program with
    /// another runtime, such as MPI, that makes progress only when it is called. Whatever is called
    /// must not use this context.
    ///
    /// ```
    /// # use std::{sync::Arc, sync::atomic::{AtomicU32, Ordering}, time::Duration};
    /// # farside::local(1, |world| {
    /// let calls = Arc::new(AtomicU32::new(0));
    /// let count = calls.clone();
    /// world.call_while_waiting(Some(Arc::new(move || {
    ///     count.fetch_add(1, Ordering::Relaxed);
    /// })));
    /// world.pause(Duration::from_millis(5))?;
    /// assert!(calls.load(Ordering::Relaxed) > 0);
    /// # Ok(()) }).unwrap();
    /// ```
    pub fn call_while_waiting(&self, call: Option<Arc<dyn Fn() + Send + Sync>>) {
        self.meanwhile().set(call);
    }

    /// Waits for an event, for at most `timeout` after the last departure. Returns which condition
    /// was satisfied, and by which value.
    pub(crate) fn wait_event(
        &self,
        waiting: &Waiting<'_>,
        timeout: Option<Duration>,
    ) -> Result<(usize, u64)> {
        self.wait_until(waiting, true, || timeout)
    }

    /// Likewise, with a timeout that departures do not prolong.
    fn wait_as(&self, waiting: &Waiting<'_>, options: WaitOptions) -> Result<(usize, u64)> {
        let Some(timeout) = options.timeout else {
            return self.wait_until(waiting, options.soon, || None);
        };
        let begin_ns = self.now_ns();
        let left = || {
            let waited = Duration::from_nanos(self.now_ns().saturating_sub(begin_ns));
            Some(timeout.saturating_sub(waited))
        };
        let done = self.wait_until(waiting, options.soon, left);
        done.map_err(|error| match error {
            Error::TimedOut { .. } => {
                waiting.failed(Error::TimedOut { after_ms: whole_ms(timeout) })
            }
            other => other,
        })
    }

    /// The one place where this crate waits. `left` says how long it may, and is asked again after
    /// each departure.
    fn wait_until(
        &self,
        waiting: &Waiting<'_>,
        soon: bool,
        left: impl Fn() -> Option<Duration>,
    ) -> Result<(usize, u64)> {
        let mut known_departures = 0;
        let mut slices = self.meanwhile().slices();
        loop {
            let left = left();
            let timeout = slices.as_ref().map_or(left, |slices| slices.timeout(left));
            let (event, lasting) = (waiting.event, Some(waiting as &dyn Lasting));
            let wait = Wait { event, known_departures, timeout, soon, lasting };
            match self.fabric().block(&wait).map_err(|error| waiting.failed(error))? {
                Wake::Ready { which, value } => return Ok((which, value)),
                Wake::TimedOut if slices.as_mut().is_some_and(|slices| slices.go_on(left)) => {}
                Wake::TimedOut => {
                    return Err(Error::TimedOut { after_ms: timeout.map_or(0, whole_ms) });
                }
                Wake::Departure => {
                    // Read first, judged second: a departure in between changes the counters again.
                    known_departures = self.failures().departures();
                    self.judge(waiting.scope).map_err(|error| waiting.failed(error))?;
                }
            }
        }
    }

    /// Whether the departures so far are an error for a wait.
    pub(crate) fn judge(&self, scope: &FailureScope<'_>) -> Result<()> {
        let verdict = self.look_for_departures(scope);
        if let Some(loss) = verdict.as_ref().err().and_then(Loss::of) {
            self.note_reason(loss);
        }
        verdict
    }

    fn look_for_departures(&self, scope: &FailureScope<'_>) -> Result<()> {
        let job = self.job();
        let any_lost = |ranks: &mut dyn Iterator<Item = Rank>| {
            // Most departures are no losses, and then no rank has to be looked at.
            let first = if self.losses() == 0 { None } else { job.first_loss(ranks) };
            first.map_or(Ok(()), |loss| Err(loss.error()))
        };
        let left = |rank: Rank| job.peer_state(rank) == PeerState::Left;
        let all_others_left = |ranks: &mut dyn Iterator<Item = Rank>| {
            let others: Vec<Rank> = ranks.filter(|&rank| rank != self.rank()).collect();
            if others.is_empty() || !others.iter().copied().all(left) {
                return Ok(());
            }
            let mut causes = others.iter().map(|&rank| self.why_left(rank));
            let loss =
                causes.clone().find(|cause| cause.how != ExitCause::Left).or_else(|| causes.next());
            loss.map_or(Ok(()), |loss| Err(loss.error()))
        };
        match scope {
            FailureScope::Everyone => {
                any_lost(&mut self.ranks())?;
                all_others_left(&mut self.ranks())
            }
            FailureScope::Among(members) => {
                any_lost(&mut members.iter().copied())?;
                all_others_left(&mut members.iter().copied())
            }
            FailureScope::Peer(rank) => any_lost(&mut std::iter::once(*rank)),
            FailureScope::Agent(node) => job.check_agent(*node),
            FailureScope::Members { members, awaited, has_done } => {
                // Losses come first: others may have left because of them.
                any_lost(&mut members.iter().copied())?;
                awaited.iter().copied().filter(|&rank| left(rank)).try_for_each(|rank| {
                    if has_done(rank)? {
                        return Ok(());
                    }
                    // A loss may have reached this rank since.
                    any_lost(&mut members.iter().copied())?;
                    Err(self.why_left(rank).error())
                })
            }
        }
    }

    /// That a rank has left in order, or the loss because of which it has.
    fn why_left(&self, rank: Rank) -> Loss {
        let left = Loss { rank, how: ExitCause::Left };
        self.job().first_cause(left)
    }

    /// Returns the error of a call that failed: all ranks of a node may have left because another
    /// rank was lost.
    #[cold]
    pub(crate) fn cause_of_failed_call(&self, error: Error, leader: Rank) -> Error {
        let loss = match error {
            // Its handlers end before the news of its departure go out, which say why.
            Error::RankLost { how: ExitCause::Left, .. } => self
                .known_loss()
                .or_else(|| self.reason_of(leader))
                .or_else(|| Some(self.why_left(leader))),
            // The one whose process ran the handlers may have ended because of another loss.
            Error::RankLost { rank, how } => Some(self.job().first_cause(Loss { rank, how })),
            // An agent ends before its rank has left.
            Error::NoHandler { .. } => self.reason_of(leader),
            _ => None,
        };
        let Some(loss) = loss else { return error };
        self.note_reason(loss);
        loss.error()
    }

    /// The first loss that this rank knows of.
    fn known_loss(&self) -> Option<Loss> {
        if self.losses() == 0 { None } else { self.job().first_loss(self.ranks()) }
    }

    fn losses(&self) -> u32 {
        self.failures().losses.load(Ordering::SeqCst)
    }

    /// Leaves a loss behind as the cause, in case this rank ends now: in the news of its departure,
    /// and in a word that other ranks can read before that.
    pub(crate) fn note_reason(&self, loss: Loss) {
        self.job().state.note_cause(Some(loss));
        if loss.how != ExitCause::Left {
            self.write_reason(loss.to_bits());
        }
    }

    /// Notes that the program of this rank has failed by itself: should the rank end now, it has
    /// not left in order, but is lost.
    #[doc(hidden)]
    pub fn note_failure(&self) {
        if !self.is_own_process() {
            return;
        }
        self.note_reason(Loss { rank: self.rank(), how: ExitCause::Failed });
    }

    /// Goes on after a loss: should this rank end later, that is not because of a loss that it
    /// knows of now.
    ///
    /// A rank that ends after a loss, other than by a signal, otherwise counts as a consequence of
    /// it, and ranks that miss it are told of the loss. Locks and maps do this when they recover.
    pub fn go_on(&self) {
        self.job().state.note_cause(None);
        self.write_reason(GONE_ON);
    }

    fn write_reason(&self, word: u64) {
        let written = self.root().atomic(at::REASON, Width::W64, Atomic::Store(word.into()));
        debug_assert!(written.is_some());
    }

    /// What a rank that is about to leave has written down, unless that is the loss of this rank
    /// itself.
    #[cold]
    fn reason_of(&self, rank: Rank) -> Option<Loss> {
        let at = Word { rank, segment: SegmentId::ROOT, offset: at::REASON, width: Width::W64 };
        // A rank that cannot be asked any more has given no reason.
        let word = self.atomic_far(at, Atomic::Load).ok()? as u64;
        Loss::from_bits(word).filter(|loss| loss.rank != self.rank())
    }
}

fn word_purpose(options: WaitOptions, place: &'static Location<'static>) -> Purpose {
    Purpose::at(ActivityKind::Word, "wait", place).limited(options.timeout.is_some())
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// It may be the rank's last, and then the rank leaves.
impl Drop for Context {
    fn drop(&mut self) {
        if !self.is_own_process() {
            return;
        }
        self.abandon_calls();
        // A loss that ended a wait was written down then.
        let is_noted = self.root().atomic(at::REASON, Width::W64, Atomic::Load) != Some(0);
        if let Some(loss) = self.known_loss().filter(|_| !is_noted) {
            self.write_reason(loss.to_bits());
        }
    }
}
