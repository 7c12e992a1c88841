//! What the collectives have in common: the memory they use, the agreement they check, the way they
//! wait.
//!
//! Every member has an *area*, laid out alike everywhere. A collective begins by writing down, in
//! the own area, what it is ([`Call`]) and its number in the team's history. Messages carry a
//! digest of the call, so that a member whose neighbour makes another call notices at once; who
//! waits for long looks at what the others have written down. The one who notices *poisons* the
//! team: all members' waits, now and later, end with an error that says who wanted what.

pub(crate) mod central;
pub(crate) mod dissemination;
pub(crate) mod flat;
pub(crate) mod tree;

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use farside_fabric::{
    Atomic, Condition, Error, Event, ExitCause, Loss, Rank, Result, SegmentId, Width, Word,
};

use crate::poison::{Poison, concerns};
use crate::team::Team;
use crate::waiting::FailureScope;

/// A collective call, as far as all members must agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    /// A length, mostly.
    pub(crate) size: u64,
    /// A root, mostly.
    pub(crate) root: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    Barrier = 1,
    Broadcast,
    Reduce,
    AllReduce,
    AllGather,
    AllToAll,
    Words,
    Free,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Barrier,
        Kind::Broadcast,
        Kind::Reduce,
        Kind::AllReduce,
        Kind::AllGather,
        Kind::AllToAll,
        Kind::Words,
        Kind::Free,
    ];
}

impl Call {
    pub(crate) const BARRIER: Call = Call { kind: Kind::Barrier, size: 0, root: 0 };

    pub(crate) fn new(kind: Kind, size: usize) -> Call {
        Call { kind, size: size as u64, root: 0 }
    }

    pub(crate) fn free(segment: SegmentId, start: u64) -> Call {
        Call { kind: Kind::Free, size: segment.0, root: start }
    }

    pub(crate) fn rooted(kind: Kind, size: usize, root: Rank) -> Call {
        Call { kind, size: size as u64, root: root.0.into() }
    }

    /// 31 bits that differ, as good as always, when the calls do.
    fn digest(&self) -> u64 {
        let mix = |hash: u64, value: u64| {
            (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        [self.kind as u64, self.size, self.root].into_iter().fold(7, mix) >> 33
    }

    fn describe(&self) -> String {
        let Call { size, root, .. } = self;
        match self.kind {
            Kind::Barrier => "a barrier".into(),
            Kind::Broadcast => format!("a broadcast of {size} bytes from rank {root}"),
            Kind::Reduce => format!("a reduction of {size} bytes to rank {root}"),
            Kind::AllReduce => format!("an all-reduce of {size} bytes"),
            Kind::AllGather => format!("an all-gather of {size} bytes from each"),
            Kind::AllToAll => format!("an all-to-all of {size} bytes to each"),
            Kind::Words => format!("an allocation of {size} words"),
            Kind::Free => format!("freeing {}, from byte {root} on", SegmentId(*size)),
        }
    }
}

/// How many calls a member remembers, for others to look at.
const HISTORY: u64 = 8;
/// The rounds of the largest team.
const ROUNDS: u64 = 24;
/// Bytes between words that different ranks write.
const LINE: u64 = 128;
/// The scratch space of a step of the flat collectives; there are two.
pub(crate) const SCRATCH_BYTES: u64 = 32 * 1024;
/// The longest message of the tree collectives; each channel has room for two.
pub(crate) const MESSAGE_BYTES: u64 = 16 * 1024;
/// How long a wait lasts before it looks at what the others are doing; each further look takes
/// twice as long to come.
const SUSPICION: Duration = Duration::from_millis(500);
/// At how many members it looks.
const SUSPECTS: usize = 16;

/// Where the words of an area are.
pub(crate) mod at {
    use super::{HISTORY, LINE, MESSAGE_BYTES, ROUNDS, SCRATCH_BYTES};

    /// Arrivals at the central barrier; used in the first member's area.
    pub(crate) const COUNTER: u64 = 0;
    /// The last central barrier that this member was released from.
    pub(crate) const RELEASE: u64 = LINE;
    /// Zero, or why there is no use in waiting: a [`Poison`](crate::poison::Poison).
    pub(crate) const POISON: u64 = 2 * LINE;
    /// How many collectives this member has entered.
    pub(crate) const ENTERED: u64 = 3 * LINE;
    /// In the area of all ranks: zero, or the loss because of which this one leaves, if it does; a
    /// [`Poison`](crate::poison::Poison).
    pub(crate) const REASON: u64 = ENTERED + 8;
    /// The calls it has entered last, four words each.
    pub(crate) const CALLS: u64 = 4 * LINE;
    const FLAGS: u64 = CALLS + HISTORY * 32;
    const FULL: u64 = FLAGS + 2 * ROUNDS * LINE;
    const TAKEN: u64 = FULL + 4 * ROUNDS * LINE;
    const SCRATCH: u64 = TAKEN + 2 * ROUNDS * LINE;
    const MESSAGES: u64 = SCRATCH + 2 * SCRATCH_BYTES;

    /// The call with this number.
    pub(crate) fn call(sequence: u32) -> u64 {
        CALLS + u64::from(sequence) % HISTORY * 32
    }

    /// The flag of a round of a meeting. There are two sets, since a neighbour may be one meeting
    /// ahead.
    pub(crate) fn flag(meeting: u32, round: u32) -> u64 {
        FLAGS + (u64::from(meeting % 2) * ROUNDS + u64::from(round)) * LINE
    }

    /// The scratch space of a meeting. There are two, since a neighbour may be one meeting ahead.
    pub(crate) fn scratch(meeting: u32) -> u64 {
        SCRATCH + u64::from(meeting % 2) * SCRATCH_BYTES
    }

    /// The word that says which message a channel's buffer holds.
    pub(crate) fn full(channel: u64, message: u32) -> u64 {
        FULL + (channel * 2 + u64::from(message % 2)) * LINE
    }

    /// The word, at the sender, that says how many messages of a channel were taken.
    pub(crate) fn taken(channel: u64) -> u64 {
        TAKEN + channel * LINE
    }

    /// A channel's buffer.
    pub(crate) fn message(channel: u64, message: u32) -> u64 {
        MESSAGES + (channel * 2 + u64::from(message % 2)) * MESSAGE_BYTES
    }

    /// The number of the channel that goes `2^round` members up (or down) the ring.
    pub(crate) fn channel(up: bool, round: u32) -> u64 {
        u64::from(round) * 2 + u64::from(up)
    }

    /// How long the area of a team of `members` is.
    pub(crate) fn area_bytes(members: u32) -> u64 {
        let rounds = members.next_power_of_two().ilog2().max(1);
        message(channel(true, rounds), 0)
    }
}

/// A collective that was entered: its number in the team's history, the number of its meeting if it
/// has one, and its call.
///
/// Meetings have numbers of their own: what is used in turns by two meetings in a row must not
/// depend on how many collectives without a meeting came between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) sequence: u32,
    pub(crate) meeting: u32,
    pub(crate) call: Call,
}

impl Step {
    /// What a message of this step carries.
    pub(crate) fn tag(&self, number: u32) -> u64 {
        (u64::from(number) << 32) | self.call.digest()
    }
}

impl Team<'_> {
    /// Begins a collective: writes down what it is.
    pub(crate) fn enter(&self, call: Call) -> Result<Step> {
        let group = self.group();
        let own = &group.area.own;
        // Zero says that the record is being written.
        let sequence = group.sequence.get().checked_add(1).unwrap_or(1);
        group.sequence.set(sequence);
        let step = Step { sequence, meeting: group.meetings.get().wrapping_add(1), call };
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

    /// Waits until the word at `offset` of the own area satisfies `until`, and returns it. It is
    /// `from`, or anybody, who will see to that: if that one has left without having come, all
    /// members are told.
    pub(crate) fn await_word(
        &self,
        step: &Step,
        from: Option<usize>,
        offset: u64,
        until: &dyn Fn(u64) -> bool,
    ) -> Result<u64> {
        let (context, group) = (self.context(), self.group());
        let condition = |offset, until| Condition {
            at: Word { rank: context.rank(), segment: group.area.id, offset, width: Width::W64 },
            memory: &group.area.own,
            until,
        };
        let concerns_us = |poison| concerns(poison, step.sequence);
        let conditions = [condition(offset, until), condition(at::POISON, &concerns_us)];
        let has_entered = |rank| {
            // Who has left enters no more: it need not be asked again.
            let known = group.left.borrow().get(&rank).copied();
            let entered = match known.map_or_else(|| self.entered(rank), Ok) {
                Err(Error::NoSegment { .. }) => 0,
                other => other?,
            };
            group.left.borrow_mut().insert(rank, entered);
            // A member that has freed the team's memory has done so after it came, and has taken
            // the count with it.
            let freed = entered == 0 && step.call.kind == Kind::Free;
            Ok(freed || entered.wrapping_sub(step.sequence) as i32 >= 0)
        };
        let awaited = from.map_or(&group.members[..], |member| &group.members[member..=member]);
        let concern =
            FailureScope::Members { members: &group.members, awaited, has_done: &has_entered };
        let mut patience = SUSPICION;
        loop {
            match context.wait_event(Event::Words(&conditions), &concern, Some(patience)) {
                Ok((0, word)) => return Ok(word),
                Ok(_) => return Err(self.poisoned(step)),
                Err(Error::TimedOut { .. }) => self.suspect(step)?,
                Err(Error::RankLost { rank, how: ExitCause::Left }) => {
                    // It may have left for a reason that has not reached this rank yet.
                    let reason = self.word_of(rank, at::POISON).ok().and_then(Poison::from_bits);
                    let reason = reason.unwrap_or(Poison::HasLeft { rank, since: step.sequence });
                    // The others do not wait for that one, and would never know.
                    self.poison(reason);
                    return Err(self.poisoned_by(step, reason));
                }
                Err(Error::RankLost { rank, how }) => {
                    // What was learned from one who left because of it, nobody else need ever hear
                    // of, nor care if that is no member.
                    if !context.is_lost(rank) || !group.members.contains(&rank) {
                        self.poison(Poison::Lost(Loss { rank, how }));
                    }
                    return Err(Error::RankLost { rank, how });
                }
                Err(error) => return Err(error),
            }
            patience = patience.saturating_mul(2);
        }
    }

    /// Signals a word in a member's area.
    pub(crate) fn signal(&self, member: usize, offset: u64, value: u64) -> Result<()> {
        let group = self.group();
        let op = Atomic::Store(value.into());
        self.context().post_at(&group.area, group.members[member], offset, Width::W64, op)
    }

    /// Whether a word that a member sent belongs to this step; if not, the members have made
    /// different calls.
    pub(crate) fn check_tag(&self, step: &Step, word: u64, from: usize) -> Result<()> {
        if word as u32 as u64 == step.call.digest() {
            return Ok(());
        }
        Err(self.disagree(step, self.group().members[from]))
    }

    /// A wait takes long: has somebody made another call?
    fn suspect(&self, step: &Step) -> Result<()> {
        match self.one_who_differs(step) {
            Some(rank) => Err(self.disagree(step, rank)),
            None => Ok(()),
        }
    }

    /// The members make different calls, and this one knows no more than that.
    pub(crate) fn disagree_with_any(&self, step: &Step) -> Error {
        let rank = self.one_who_differs(step).unwrap_or(self.group().members[0]);
        self.disagree(step, rank)
    }

    /// Poisons the team, and says why.
    fn disagree(&self, step: &Step, rank: Rank) -> Error {
        self.poison(Poison::Disagreement {
            noticed_by: self.context().rank(),
            since: step.sequence,
        });
        self.disagreement(step, rank)
    }

    /// Tells all members that there is no use in waiting.
    fn poison(&self, poison: Poison) {
        for member in 0..self.group().members.len() {
            // Who cannot be told is lost, and its loss is what its peers will hear of.
            let _ = self.signal(member, at::POISON, poison.to_bits());
        }
    }

    fn own_poison(&self) -> u64 {
        self.group().area.own.atomic(at::POISON, Width::W64, Atomic::Load).unwrap_or(0) as u64
    }

    fn poisoned(&self, step: &Step) -> Error {
        let noticed_by = self.context().rank();
        let poison = Poison::from_bits(self.own_poison());
        self.poisoned_by(
            step,
            poison.unwrap_or(Poison::Disagreement { noticed_by, since: step.sequence }),
        )
    }

    /// What a poison means for a collective.
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
            // The one who noticed need not be the one who differs: look for one who does.
            Poison::Disagreement { noticed_by, .. } => {
                self.disagreement(step, self.one_who_differs(step).unwrap_or(noticed_by))
            }
        }
    }

    /// A member whose call differs, among those next to this one and at the start of the team.
    fn one_who_differs(&self, step: &Step) -> Option<Rank> {
        let differs = |rank: Rank| matches!(self.call_of(rank, step.sequence), Ok(Some(call)) if call != step.call);
        let (members, me) = (&self.group().members, self.group().me);
        let neighbours =
            (1..members.len()).flat_map(|distance| [me + distance, me + members.len() - distance]);
        let suspects =
            neighbours.take(SUSPECTS).chain([0, 1]).map(|at| members[at % members.len()]);
        suspects.into_iter().find(|&rank| differs(rank))
    }

    fn disagreement(&self, step: &Step, rank: Rank) -> Error {
        let theirs = match self.call_of(rank, step.sequence) {
            Ok(Some(call)) => call.describe(),
            _ => "something else".into(),
        };
        let what =
            format!("the ranks disagree on collective number {} of this team", step.sequence);
        Error::Disagreement { what, mine: step.call.describe(), rank, theirs }
    }

    /// The call with a number that a member has written down, if it still remembers it.
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
        // If the number is still the same, nobody has written in between.
        if number()? != u64::from(sequence) {
            return Ok(None);
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at * 8 + i]));
        let kind = Kind::ALL.into_iter().find(|&kind| kind as u64 == word(1));
        Ok(kind.map(|kind| Call { kind, size: word(2), root: word(3) }))
    }

    fn entered(&self, rank: Rank) -> Result<u32> {
        self.word_of(rank, at::ENTERED).map(|entered| entered as u32)
    }

    /// A word of a member's area.
    fn word_of(&self, rank: Rank, offset: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.context().get_at(&self.group().area, rank, offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_tell_calls_apart() {
        let calls = [
            Call::BARRIER,
            Call::new(Kind::AllGather, 8),
            Call::new(Kind::AllGather, 16),
            Call::rooted(Kind::Broadcast, 8, Rank(0)),
            Call::rooted(Kind::Broadcast, 8, Rank(1)),
            Call::rooted(Kind::Reduce, 8, Rank(1)),
        ];
        for (at, a) in calls.iter().enumerate() {
            assert!(a.digest() < 1 << 31);
            assert!(calls[at + 1..].iter().all(|b| a.digest() != b.digest()), "{a:?}");
        }
    }

    #[test]
    fn the_words_of_an_area_do_not_overlap() {
        let members = 1000;
        let mut spans = vec![
            (at::COUNTER, 8),
            (at::RELEASE, 8),
            (at::POISON, 8),
            (at::ENTERED, 8),
            (at::REASON, 8),
        ];
        spans.extend((0..HISTORY as u32).map(|sequence| (at::call(sequence), 32)));
        for slot in 0..2 {
            spans.extend((0..ROUNDS as u32).map(|round| (at::flag(slot, round), 8)));
            spans.push((at::scratch(slot), SCRATCH_BYTES));
            for channel in (0..10).flat_map(|round| [true, false].map(|up| at::channel(up, round)))
            {
                spans.push((at::full(channel, slot), 8));
                spans.push((at::message(channel, slot), MESSAGE_BYTES));
            }
        }
        spans.extend(
            (0..10)
                .flat_map(|round| [true, false].map(|up| (at::taken(at::channel(up, round)), 8))),
        );
        spans.sort_unstable();
        for pair in spans.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
        }
        let (last, bytes) = spans[spans.len() - 1];
        assert!(
            last + bytes <= at::area_bytes(members),
            "{last} + {bytes} of {}",
            at::area_bytes(members)
        );
    }
}
