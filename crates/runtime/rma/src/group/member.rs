//! What a member does in a collective: enters it, signals others, waits for them, and tells all of
//! a death or a disagreement.

use std::panic::Location;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use farside_fabric::record::ActivityKind;
use farside_fabric::{
    Atomic, Condition, Error, ErrorClass, Event, ExitCause, Loss, Rank, Result, Width, Word,
};

use super::area as at;
use super::call::{Call, Kind, Step};
use crate::activity::Purpose;
use crate::doing::{FailureScope, Waiting};
use crate::place::Place;
use crate::poison::{Poison, concerns};
use crate::segment::Segment;
use crate::team::Team;
use crate::waiting::{AwaitedWord, WaitOptions};

/// How long a wait lasts before it looks at what the others are doing; each further look takes
/// twice as long to come.
const SUSPICION: Duration = Duration::from_millis(500);
/// At how many members it looks.
const SUSPECTS: usize = 16;

/// A word of this member's own memory that another member writes.
#[derive(Clone, Copy)]
pub(crate) struct Awaited<'s> {
    pub(crate) segment: &'s Segment,
    pub(crate) offset: u64,
    /// The member that writes it; any of them if `None`.
    pub(crate) from: Option<usize>,
}

impl Team<'_> {
    /// Begins a collective: writes down what it is.
    #[track_caller]
    pub(crate) fn enter(&self, call: Call) -> Result<Step> {
        self.enter_at(call, Location::caller())
    }

    pub(crate) fn enter_at(&self, call: Call, place: &'static Location<'static>) -> Result<Step> {
        self.context().unfreed().tell();
        let group = self.group();
        let own = &group.area.own;
        let sequence = self.next_sequence();
        group.sequence.set(sequence);
        let meeting = group.meetings.get().wrapping_add(1);
        let step = Step { sequence, meeting, call, place };
        if concerns(self.own_poison(), sequence) {
            return Err(self.poisoned(&step));
        }
        // Others may look at any moment: the number is wrong while the rest is.
        let record = at::call(sequence);
        let write = |at: u64, value: u64| {
            let written = own.put(at, &value.to_le_bytes());
            debug_assert!(written);
        };
        write(record, 0);
        fence(Ordering::Release);
        write(record + 8, call.kind as u64);
        write(record + 16, call.size);
        write(record + 24, call.root);
        fence(Ordering::Release);
        write(record, u64::from(sequence));
        write(at::ENTERED, u64::from(sequence));
        Ok(step)
    }

    /// Waits until the word at `offset` of the own area bears the number `number`, and returns the
    /// word. See [`Team::await_word`].
    pub(crate) fn await_number(
        &self,
        step: &Step,
        from: Option<usize>,
        offset: u64,
        number: u32,
    ) -> Result<u64> {
        self.await_word(step, from, offset, &|word| (word >> 32) as u32 == number)
    }

    /// Waits until a word of the own area satisfies `until`; see [`Team::await_at`].
    pub(crate) fn await_word(
        &self,
        step: &Step,
        from: Option<usize>,
        offset: u64,
        until: &dyn Fn(u64) -> bool,
    ) -> Result<u64> {
        let segment = &self.group().area;
        self.await_at(step, Awaited { segment, offset, from }, until)
    }

    /// Waits until a word satisfies `until`, and returns it. If a member is lost, or the one that
    /// writes the word has left without having entered this collective, all members are told.
    pub(crate) fn await_at(
        &self,
        step: &Step,
        word: Awaited<'_>,
        until: &dyn Fn(u64) -> bool,
    ) -> Result<u64> {
        let (context, group) = (self.context(), self.group());
        let concerns_us = |poison| concerns(poison, step.sequence);
        let conditions =
            [self.condition(word.segment, word.offset, until), self.own_poisoned(&concerns_us)];
        let has_entered = |rank| self.has_entered(step, rank);
        let awaited =
            word.from.map_or(&group.members[..], |member| &group.members[member..=member]);
        let concern =
            FailureScope::Members { members: &group.members, awaited, has_done: &has_entered };
        let purpose = || self.purpose(step);
        let event = Event::Words(&conditions);
        let waiting = Waiting::new(context, &purpose, event, &concern);
        let mut patience = SUSPICION;
        loop {
            match context.wait_event(&waiting, Some(patience)) {
                Ok((0, word)) => return Ok(word),
                Ok(_) => return Err(self.poisoned(step)),
                Err(Error::TimedOut { .. }) => self.suspect(step)?,
                Err(error) => return Err(self.missed(step, error)),
            }
            patience = patience.saturating_mul(2);
        }
    }

    fn purpose(&self, step: &Step) -> Purpose {
        let (kind, name) = (ActivityKind::Collective, step.call.kind.name());
        let (segment, number) = (self.group().area.id, step.sequence.into());
        let (size, place) = (step.call.size, step.place);
        let root = at::ENTERED;
        Purpose { kind, name, segment, number, size, root, place, has_limit: false }
    }

    /// Returns whether the word at `offset` of the own area bears a number, without waiting. Fails
    /// where a wait for it would.
    pub(crate) fn test_number(&self, step: &Step, offset: u64, number: u32) -> Result<bool> {
        let (context, group) = (self.context(), self.group());
        let load = Atomic::Load;
        let word = context.atomic_at(&group.area, context.rank(), offset, Width::W64, load)?;
        if (word as u64 >> 32) as u32 == number {
            return Ok(true);
        }
        if concerns(self.own_poison(), step.sequence) {
            return Err(self.poisoned(step));
        }
        let has_entered = |rank| self.has_entered(step, rank);
        let (members, awaited) = (&group.members[..], &group.members[..]);
        let concern = FailureScope::Members { members, awaited, has_done: &has_entered };
        match context.relax_unless(&concern) {
            Ok(()) => Ok(false),
            Err(error) => Err(self.missed(step, error)),
        }
    }

    /// Fails if a member was lost. One load, as long as no rank was.
    pub(crate) fn check_members(&self, step: &Step) -> Result<()> {
        let (context, members) = (self.context(), &self.group().members[..]);
        if !context.failures().any_lost() {
            return Ok(());
        }
        let has_entered = |rank| self.has_entered(step, rank);
        let scope = FailureScope::Members { members, awaited: members, has_done: &has_entered };
        context.judge(&scope).map_err(|error| self.missed(step, error))
    }

    /// Tells all members if this one could not do its part of the collective that it has entered
    /// last: they would wait for it, and it would take the next one for this.
    pub(crate) fn told<R>(&self, result: Result<R>) -> Result<R> {
        self.tell_since(self.group().sequence.get(), result)
    }

    /// Tells all members if this one cannot do its part of a protocol of theirs that is no
    /// collective: what they wait for as members comes to no end any more, and neither does any
    /// collective after the last one.
    pub fn tell<R>(&self, result: Result<R>) -> Result<R> {
        self.tell_since(self.next_sequence(), result)
    }

    fn tell_since<R>(&self, since: u32, result: Result<R>) -> Result<R> {
        match &result {
            Ok(_)
            | Err(
                Error::RankLost { .. }
                | Error::Poisoned { .. }
                | Error::Disagreement { .. }
                | Error::PeerFailed { .. },
            ) => {}
            Err(error) => {
                let rank = self.context().rank();
                self.poison(Poison::Failed { rank, class: error.class(), since });
            }
        }
        result
    }

    /// Waits until one of this rank's own words satisfies its condition, in a protocol of the
    /// members that is no collective, and returns which and the value that did. The caller waits
    /// for the first one, which the member `from` writes.
    ///
    /// Fails also if a member was lost or has [told](Team::tell) that it cannot do its part, and if
    /// `from` has left without having written the word: then all members are told.
    #[track_caller]
    pub fn wait_any(&self, from: usize, words: &[AwaitedWord<'_>]) -> Result<(usize, u64)> {
        let (context, group) = (self.context(), self.group());
        let is_told = |poison: u64| poison != 0;
        let mut all = words.to_vec();
        all.push((Place::within(&group.area, context.rank(), at::POISON as u32, 8), &is_told));
        let has_done = |_| {
            let (place, until) = words[0];
            Ok(until(context.load(place)?))
        };
        let (members, awaited) = (&group.members[..], &group.members[from..=from]);
        let scope = FailureScope::Members { members, awaited, has_done: &has_done };
        let (sequence, call) = (self.next_sequence(), Call::BARRIER);
        let step = Step { sequence, meeting: 0, call, place: Location::caller() };
        match context.wait_for_any(&all, &scope, WaitOptions::default()) {
            Ok((which, poison)) if which == words.len() => Err(match Poison::from_bits(poison) {
                // What they called in which collective, their own errors say.
                Some(Poison::Disagreement { noticed_by: rank, .. }) => {
                    Error::PeerFailed { rank, class: ErrorClass::Disagreement }
                }
                _ => self.poisoned(&step),
            }),
            Ok(found) => Ok(found),
            Err(error) => Err(self.missed(&step, error)),
        }
    }

    /// Returns the number of the next collective. Zero says that a record is being written.
    fn next_sequence(&self) -> u32 {
        self.group().sequence.get().checked_add(1).unwrap_or(1)
    }

    /// A wait has failed: tells all members of a member that does not come any more.
    fn missed(&self, step: &Step, error: Error) -> Error {
        match error {
            Error::RankLost { rank, how: ExitCause::Left } => {
                // It may have left for a reason that has not reached this rank yet.
                let reason = self.word_of(rank, at::POISON).ok().and_then(Poison::from_bits);
                let since = self.first_missed(step, rank);
                let reason = reason.unwrap_or(Poison::HasLeft { rank, since });
                // The others do not wait for that one, and would never know.
                self.poison(reason);
                self.poisoned_by(step, reason)
            }
            Error::RankLost { rank, how } => {
                // A loss that all members hear of by themselves need not be told.
                if !self.context().is_lost(rank) || !self.group().members.contains(&rank) {
                    self.poison(Poison::Lost(Loss { rank, how }));
                }
                Error::RankLost { rank, how }
            }
            other => other,
        }
    }

    fn condition<'a>(
        &self,
        segment: &'a Segment,
        offset: u64,
        until: &'a dyn Fn(u64) -> bool,
    ) -> Condition<'a> {
        let (rank, width) = (self.context().rank(), Width::W64);
        let at = Word { rank, segment: segment.id, offset, width };
        Condition { at, memory: &segment.own, until }
    }

    fn own_poisoned<'a>(&'a self, until: &'a dyn Fn(u64) -> bool) -> Condition<'a> {
        self.condition(&self.group().area, at::POISON, until)
    }

    /// Returns whether a rank that has left had entered this collective before.
    pub(crate) fn has_entered(&self, step: &Step, rank: Rank) -> Result<bool> {
        let group = self.group();
        // A rank that has left enters no more: it need not be asked again.
        let known = group.left.borrow().get(&rank).copied();
        let entered = match known.map_or_else(|| self.entered(rank).map(Some), Ok) {
            Err(Error::NoSegment { .. }) => None,
            other => other?,
        };
        group.left.borrow_mut().insert(rank, entered);
        let entered = entered.unwrap_or(0);
        // A member that has freed the team's memory has done so after it came, and has taken the
        // count with it.
        let freed = entered == 0 && step.call.kind == Kind::Free;
        Ok(freed || entered.wrapping_sub(step.sequence) as i32 >= 0)
    }

    /// Returns the first collective to which a rank that has left did not come.
    fn first_missed(&self, step: &Step, rank: Rank) -> u32 {
        match self.group().left.borrow().get(&rank) {
            // It has freed the memory that knew.
            None | Some(None) => step.sequence,
            Some(Some(entered)) => entered.wrapping_add(1),
        }
    }

    pub(crate) fn signal(&self, member: usize, offset: u64, value: u64) -> Result<()> {
        let group = self.group();
        let op = Atomic::Store(value.into());
        self.context().post_at(&group.area, group.members[member], offset, Width::W64, op)
    }

    /// Checks that a word that a member sent belongs to this step; if not, the members have made
    /// different calls.
    pub(crate) fn check_tag(&self, step: &Step, word: u64, from: usize) -> Result<()> {
        if word as u32 as u64 == step.call.digest() {
            return Ok(());
        }
        Err(self.disagree(step, self.group().members[from]))
    }

    /// After a long wait, looks for a member that has made another call.
    fn suspect(&self, step: &Step) -> Result<()> {
        match self.one_who_differs(step) {
            Some(rank) => Err(self.disagree(step, rank)),
            None => Ok(()),
        }
    }

    /// Reports that the members make different calls, where this one knows no more than that.
    pub(crate) fn disagree_with_any(&self, step: &Step) -> Error {
        let rank = self.one_who_differs(step).unwrap_or(self.group().members[0]);
        self.disagree(step, rank)
    }

    /// Poisons the team, and returns the error that says why. After a loss, members that have heard
    /// of it make other calls than those that have not: then the loss is why.
    fn disagree(&self, step: &Step, rank: Rank) -> Error {
        if let Some(loss) = self.context().loss_among(self.group().members.iter().copied()) {
            self.poison(Poison::Lost(loss));
            return loss.error();
        }
        self.poison(Poison::Disagreement {
            noticed_by: self.context().rank(),
            since: step.sequence,
        });
        self.disagreement(step, rank)
    }

    fn poison(&self, poison: Poison) {
        for &member in self.group().members.iter() {
            // A member that cannot be told is lost, and its peers will hear of the loss.
            let _ = self.poison_member(member, poison);
        }
    }

    /// Leaves what is there if it is about an earlier collective: the member may still be in that
    /// one.
    fn poison_member(&self, member: Rank, poison: Poison) -> Result<()> {
        let (context, area) = (self.context(), &self.group().area);
        let mut expected = 0;
        loop {
            let op = Atomic::CompareSwap { expected, desired: poison.to_bits().into() };
            let held = context.atomic_at(area, member, at::POISON, Width::W64, op)?;
            let stands = Poison::from_bits(held as u64).is_some_and(|held| !poison.is_before(held));
            if held == expected || stands {
                return Ok(());
            }
            expected = held;
        }
    }

    fn own_poison(&self) -> u64 {
        let area = &self.group().area;
        area.tell_own(at::POISON, 8, false);
        area.own.atomic(at::POISON, Width::W64, Atomic::Load).unwrap_or(0) as u64
    }

    fn poisoned(&self, step: &Step) -> Error {
        let noticed_by = self.context().rank();
        let poison = Poison::from_bits(self.own_poison());
        self.poisoned_by(
            step,
            poison.unwrap_or(Poison::Disagreement { noticed_by, since: step.sequence }),
        )
    }

    fn poisoned_by(&self, step: &Step, poison: Poison) -> Error {
        match poison {
            Poison::HasLeft { rank, .. } => {
                let left = Loss { rank, how: ExitCause::Left };
                self.context().note_reason(left);
                left.error()
            }
            Poison::Lost(loss) => {
                self.context().note_reason(loss);
                loss.error()
            }
            Poison::Failed { rank, class, .. } => Error::PeerFailed { rank, class },
            // The one that noticed need not be the one that differs, and it may be gone with what
            // it called: look for one that does.
            Poison::Disagreement { noticed_by, .. } => {
                let nearby = self.one_who_differs(step);
                let members = || self.group().members.iter().copied();
                let any =
                    || [noticed_by].into_iter().chain(members()).find(|&it| self.differs(step, it));
                self.disagreement(step, nearby.or_else(any).unwrap_or(noticed_by))
            }
        }
    }

    /// Returns a member whose call differs, among those next to this one and at the start of the
    /// team.
    fn one_who_differs(&self, step: &Step) -> Option<Rank> {
        let (members, me) = (&self.group().members, self.group().me);
        let neighbours =
            (1..members.len()).flat_map(|distance| [me + distance, me + members.len() - distance]);
        let suspects =
            neighbours.take(SUSPECTS).chain([0, 1]).map(|at| members[at % members.len()]);
        suspects.into_iter().find(|&rank| self.differs(step, rank))
    }

    /// Returns whether a member is known to have made another call.
    fn differs(&self, step: &Step, rank: Rank) -> bool {
        matches!(self.call_of(rank, step.sequence), Ok(Some(call)) if call != step.call)
    }

    fn disagreement(&self, step: &Step, rank: Rank) -> Error {
        let theirs = match self.call_of(rank, step.sequence) {
            Ok(Some(call)) if call != step.call => call.describe(),
            _ => "a call that is no longer known".into(),
        };
        let (number, place) = (step.sequence, self.context().place_of_call(step.place));
        let what =
            format!("the ranks disagree on collective number {number} of this team ({place})");
        Error::Disagreement { what, mine: step.call.describe(), rank, theirs }
    }

    /// Returns the call with a number that a member has written down, if it still remembers it.
    fn call_of(&self, rank: Rank, sequence: u32) -> Result<Option<Call>> {
        let mut bytes = [0; 32];
        let (area, record) = (&self.group().area, at::call(sequence));
        let number = || -> Result<u64> {
            let mut bytes = [0; 8];
            self.context().get_at(area, rank, record, &mut bytes)?;
            Ok(u64::from_le_bytes(bytes))
        };
        if number()? != u64::from(sequence) {
            return Ok(None);
        }
        fence(Ordering::Acquire);
        self.context().get_at(area, rank, record, &mut bytes)?;
        fence(Ordering::Acquire);
        // If the number is still the same, the record was not written in between.
        if number()? != u64::from(sequence) {
            return Ok(None);
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at * 8 + i]));
        let kind = Kind::from_bits(word(1));
        Ok(kind.map(|kind| Call { kind, size: word(2), root: word(3) }))
    }

    fn entered(&self, rank: Rank) -> Result<u32> {
        self.word_of(rank, at::ENTERED).map(|entered| entered as u32)
    }

    fn word_of(&self, rank: Rank, offset: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.context().get_at(&self.group().area, rank, offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
