//! How a context waits, and whose end makes waiting vain.

use std::sync::atomic::Ordering;
use std::time::Duration;

use farside_fabric::{
    Atomic, Condition, Ended, Error, Event, Fate, Node, Rank, Result, SegmentId, Wait, Wake, Width, Word,
};

use crate::collective::at;
use crate::context::Context;
use crate::place::Place;
use crate::plain::Integer;
use crate::poison::Poison;

/// Whose end concerns a wait.
pub(crate) enum Concern<'a> {
    /// Anybody's loss, and that all others have left.
    Everyone,
    /// The loss of one of these, and that all others of them have left.
    Among(&'a [Rank]),
    /// The loss of one rank. Its memory can be used after it has left.
    Peer(Rank),
    /// That nobody is left who could run the handlers of a node.
    Agent(Node),
    /// The loss of a member, or the leave of one that is waited for, unless it has done its part.
    Members { members: &'a [Rank], awaited: &'a [Rank], has_done: &'a dyn Fn(Rank) -> Result<bool> },
}

/// A word of this rank's own memory, and what it must satisfy. See [`Context::wait_any_among`].
pub type AwaitedWord<'a> = (Place<'a, u64>, &'a dyn Fn(u64) -> bool);

/// What a waiter expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlook {
    /// For how long it waits; then [`Error::TimedOut`].
    pub timeout: Option<Duration>,
    /// Whether it expects its event soon. Who knows that others come first sleeps at once where ranks outnumber processors.
    pub soon: bool,
}

/// Soon, and without a limit.
impl Default for Outlook {
    fn default() -> Outlook {
        Outlook { timeout: None, soon: true }
    }
}

impl Context {
    /// Waits until a word of this rank's own memory satisfies `until`, and returns the value that did.
    ///
    /// Only atomics and signals wake the waiter; a plain put to the word need not be noticed. Fails if a rank
    /// was lost, since it might have been the one to signal.
    pub fn wait<I: Integer>(&self, at: Place<'_, I>, until: impl Fn(I) -> bool) -> Result<I> {
        self.wait_for(at, until, &Concern::Everyone, Outlook::default())
    }

    /// Like [`Context::wait`], for at most `timeout`; then [`Error::TimedOut`].
    pub fn wait_timeout<I: Integer>(
        &self,
        at: Place<'_, I>,
        until: impl Fn(I) -> bool,
        timeout: Duration,
    ) -> Result<I> {
        self.wait_for(at, until, &Concern::Everyone, Outlook { timeout: Some(timeout), soon: true })
    }

    /// Like [`Context::wait`], for a protocol among `members`: fails if one of them was lost, or all others of them have left, and
    /// takes no notice of anybody else's end.
    ///
    /// ```
    /// # use farside::{Outlook, Rank};
    /// # farside::local(3, |world| {
    /// let flag = world.words(1)?;
    /// let pair = [Rank(0), Rank(1)];
    /// match world.rank().0 {
    ///     0 => world.signal(flag.at(Rank(1), 0), 1)?,
    ///     1 => assert_eq!(world.wait_among(&pair, flag.at(Rank(1), 0), |flag| flag != 0, Outlook::default())?, 1),
    ///     _ => {}
    /// }
    /// # flag.free(&world) }).unwrap();
    /// ```
    pub fn wait_among<I: Integer>(
        &self,
        members: &[Rank],
        at: Place<'_, I>,
        until: impl Fn(I) -> bool,
        outlook: Outlook,
    ) -> Result<I> {
        self.wait_for(at, until, &Concern::Among(members), outlook)
    }

    /// Waits until one of several words of this rank's own memory satisfies its condition, and returns which and the value that did: for a
    /// protocol among `members`, as [`Context::wait_among`].
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
    /// # flags.free(&world) }).unwrap();
    /// ```
    pub fn wait_any_among(&self, members: &[Rank], words: &[AwaitedWord<'_>]) -> Result<(usize, u64)> {
        let mut conditions: Vec<Condition<'_>> = Vec::with_capacity(words.len());
        for &(at, until) in words {
            at.check(8)?;
            conditions.push(Condition { at: at.word(), memory: &at.segment.own, until });
        }
        self.wait_outlook(Event::Words(&conditions), &Concern::Among(members), Outlook::default())
    }

    /// Like [`Context::wait_among`], for a protocol in which every member has a part: also fails if one of them has left and, as `has_done`
    /// says, not done its part before.
    pub fn wait_for_all<I: Integer>(
        &self,
        members: &[Rank],
        has_done: &dyn Fn(Rank) -> Result<bool>,
        at: Place<'_, I>,
        until: impl Fn(I) -> bool,
    ) -> Result<I> {
        self.wait_for(at, until, &Concern::Members { members, awaited: members, has_done }, Outlook::default())
    }

    fn wait_for<I: Integer>(
        &self,
        at: Place<'_, I>,
        until: impl Fn(I) -> bool,
        concern: &Concern<'_>,
        outlook: Outlook,
    ) -> Result<I> {
        at.check(size_of::<I>() as u64)?;
        let until = |bits: u64| until(I::from_bits(bits.into()));
        let condition = [Condition { at: at.word(), memory: &at.segment.own, until: &until }];
        let (_, value) = self.wait_outlook(Event::Words(&condition), concern, outlook)?;
        Ok(I::from_bits(value.into()))
    }

    /// Stands in a loop that polls memory of *another* rank: lets others run, and fails once a rank was lost, or all others have left.
    pub fn relax(&self) -> Result<()> {
        self.relax_unless(&Concern::Everyone)
    }

    /// Like [`Context::relax`], for a protocol among `members`: nobody else's end is an error.
    #[inline]
    pub fn relax_among(&self, members: &[Rank]) -> Result<()> {
        self.relax_unless(&Concern::Among(members))
    }

    #[inline]
    fn relax_unless(&self, concern: &Concern<'_>) -> Result<()> {
        self.fabric().relax();
        let departures = self.fabric().alarm().departures.load(Ordering::SeqCst);
        // Who departs may have written what is polled for after the last look at it: the caller looks once more before that is an error.
        if departures == self.departures_polled().replace(departures) && departures != 0 {
            return self.judge(concern);
        }
        Ok(())
    }

    /// The one place where this crate waits. Returns which condition was satisfied, and by which value.
    pub(crate) fn wait_event(
        &self,
        event: Event<'_>,
        concern: &Concern<'_>,
        timeout: Option<Duration>,
    ) -> Result<(usize, u64)> {
        self.wait_outlook(event, concern, Outlook { timeout, soon: true })
    }

    fn wait_outlook(
        &self,
        event: Event<'_>,
        concern: &Concern<'_>,
        Outlook { timeout, soon }: Outlook,
    ) -> Result<(usize, u64)> {
        let mut known_departures = 0;
        loop {
            match self.fabric().block(&Wait { event, known_departures, timeout, soon })? {
                Wake::Ready { which, value } => return Ok((which, value)),
                Wake::TimedOut => {
                    let after_ms = timeout.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
                    return Err(Error::TimedOut { after_ms });
                }
                Wake::Alarm => {
                    // Read first, judged second: who departs in between raises the alarm again.
                    known_departures = self.fabric().alarm().departures.load(Ordering::SeqCst);
                    self.judge(concern)?;
                }
            }
        }
    }

    /// Whether the departures so far are an error for a wait.
    pub(crate) fn judge(&self, concern: &Concern<'_>) -> Result<()> {
        let verdict = self.look_for_the_gone(concern);
        if let Err(Error::RankLost { rank, how }) = verdict
            && how != Ended::Left
        {
            self.note_reason(rank, how);
        }
        verdict
    }

    fn look_for_the_gone(&self, concern: &Concern<'_>) -> Result<()> {
        let lost = |rank: Rank| match self.fabric().fate(rank) {
            Fate::Lost(how) => Err(Error::RankLost { rank, how }),
            _ => Ok(()),
        };
        let any_lost = |mut ranks: &mut dyn Iterator<Item = Rank>| {
            // Most departures are no losses, and then nobody has to be looked for.
            let losses = self.fabric().alarm().losses.load(Ordering::SeqCst);
            if losses == 0 { Ok(()) } else { Iterator::try_for_each(&mut ranks, lost) }
        };
        let left = |rank: Rank| self.fabric().fate(rank) == Fate::Left;
        let all_others_left = |ranks: &mut dyn Iterator<Item = Rank>| {
            let mut others = ranks.filter(|&rank| rank != self.rank());
            match others.next() {
                Some(first) if left(first) && others.all(left) => {
                    Err(Error::RankLost { rank: first, how: Ended::Left })
                }
                _ => Ok(()),
            }
        };
        match concern {
            Concern::Everyone => {
                any_lost(&mut self.ranks())?;
                all_others_left(&mut self.ranks())
            }
            Concern::Among(members) => {
                any_lost(&mut members.iter().copied())?;
                all_others_left(&mut members.iter().copied())
            }
            Concern::Peer(rank) => lost(*rank),
            Concern::Agent(node) => self.fabric().check_agent(*node),
            Concern::Members { members, awaited, has_done } => {
                // Who was lost comes first: others may have left because of that.
                any_lost(&mut members.iter().copied())?;
                awaited.iter().copied().filter(|&rank| left(rank)).try_for_each(|rank| {
                    if has_done(rank)? {
                        return Ok(());
                    }
                    // It may have left because of a loss that has not reached this rank yet, or has since.
                    let reason = self.reason_of(rank).filter(|(lost, _)| members.contains(lost));
                    any_lost(&mut members.iter().copied())?;
                    let (rank, how) = reason.unwrap_or((rank, Ended::Left));
                    Err(Error::RankLost { rank, how })
                })
            }
        }
    }

    /// What is worth knowing of a call that failed: all of a node may have left because another rank was lost.
    #[cold]
    pub(crate) fn cause_of_failed_call(&self, error: Error, leader: Rank) -> Error {
        let loss = match error {
            Error::RankLost { how: Ended::Left, .. } => self.known_loss().or_else(|| self.reason_of(leader)),
            // An agent ends before its rank has left.
            Error::NoHandler { .. } => self.reason_of(leader),
            _ => None,
        };
        let Some((rank, how)) = loss else { return error };
        self.note_reason(rank, how);
        Error::RankLost { rank, how }
    }

    /// A rank that this one knows to be lost.
    fn known_loss(&self) -> Option<(Rank, Ended)> {
        let lost = |rank| match self.fabric().fate(rank) {
            Fate::Lost(how) => Some((rank, how)),
            _ => None,
        };
        let losses = self.fabric().alarm().losses.load(Ordering::SeqCst);
        if losses == 0 { None } else { self.ranks().find_map(lost) }
    }

    /// Writes down a loss, for those who will miss this rank if it leaves now. News of a loss and of a leave come by different ways, and silence is each
    /// node's own finding: others may hear of the leave first.
    pub(crate) fn note_reason(&self, rank: Rank, how: Ended) {
        let word = Poison::Lost { rank, how }.to_bits();
        let noted = self.root().atomic(at::REASON, Width::W64, Atomic::Store(word.into()));
        debug_assert!(noted.is_some());
    }

    /// What a rank that has left has written down, unless that is the loss of this rank itself.
    #[cold]
    fn reason_of(&self, rank: Rank) -> Option<(Rank, Ended)> {
        let at = Word { rank, segment: SegmentId::ROOT, offset: at::REASON, width: Width::W64 };
        // Who cannot be asked any more has given no reason.
        match Poison::from_bits(self.atomic_far(at, Atomic::Load).ok()? as u64) {
            Some(Poison::Lost { rank, how }) if rank != self.rank() => Some((rank, how)),
            _ => None,
        }
    }
}

/// It may be the rank's last, and then the rank leaves.
impl Drop for Context {
    fn drop(&mut self) {
        // A loss that ended a wait was written down then.
        let is_noted = self.root().atomic(at::REASON, Width::W64, Atomic::Load) != Some(0);
        if let Some((rank, how)) = self.known_loss().filter(|_| !is_noted) {
            self.note_reason(rank, how);
        }
    }
}
