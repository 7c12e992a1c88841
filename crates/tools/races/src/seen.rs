//! Operations of ranks and of handlers as the checker sees them.

use std::sync::atomic::Ordering;

use farside_fabric::{Atomic, Piece, Region, Reply, Shape, Width, Word};

use crate::access::{Access, Actor, Class, operation};
use crate::calls::{Call, ReadWord, clock_of};
use crate::clocks::Released;
use crate::layout::AGENT_LANE;
use crate::told::Told;

pub(crate) struct Seen {
    pub(crate) class: Class,
    pub(crate) writes: bool,
    pub(crate) name: &'static str,
    pub(crate) is_posted: bool,
    /// Whether it is a signal, or a put with one.
    pub(crate) is_signal: bool,
    pub(crate) kind: u8,
}

#[derive(Clone, Copy)]
pub(crate) struct SeenAtomic {
    pub(crate) at: Word,
    pub(crate) op: Atomic,
    /// Whether it is under way until a flush.
    pub(crate) is_posted: bool,
    /// Whether it is the signal of a put.
    pub(crate) signalled: bool,
    pub(crate) kind: u8,
    /// Its number, if it may leave its word as it is.
    pub(crate) attempt: u32,
}

/// What an operation reads that has a reply.
#[derive(Clone, Copy)]
pub(crate) enum Asked {
    Atomic(SeenAtomic),
    /// A call: what the agent knows whose clock this is.
    Agent(usize),
}

impl Told {
    /// Returns an operation of the program on a region of the program's as an access.
    pub(crate) fn access(
        &self,
        mut actor: Actor,
        region: &Region<'_>,
        place: Option<u32>,
        seen: &Seen,
    ) -> Option<Access> {
        let place = place.filter(|_| self.is_program(region.segment, first_byte(region)))?;
        actor.lane += usize::from(seen.is_signal);
        Some(Access {
            actor,
            owner: region.rank.index(),
            segment: region.segment,
            class: seen.class,
            kind: seen.kind,
            writes: seen.writes,
            operation: operation(seen.name),
            place,
            until: seen.is_posted.then_some(region.rank.index()),
        })
    }

    /// Returns a number for an atomic that may leave its word as it is, and 0 for others.
    pub(crate) fn attempt(&self, op: Atomic) -> u32 {
        if !matches!(op, Atomic::CompareSwap { .. }) {
            return 0;
        }
        let number = self.state.attempts.fetch_add(1, Ordering::Relaxed);
        (self.state.rank as u32) << 20 | (1 + number % 0xF_FFFF)
    }

    /// Has `act` tell of an atomic: of the access, and of what its rank knows if it changes the
    /// word.
    pub(crate) fn with_word<R>(
        &self,
        actor: Actor,
        atomic: SeenAtomic,
        place: Option<u32>,
        act: impl FnOnce(&[Call<'_>]) -> R,
    ) -> R {
        let SeenAtomic { at, op, is_posted, signalled, kind, .. } = atomic;
        let name = match op {
            Atomic::Store(_) if is_posted => "signal",
            _ => op.name(),
        };
        let (class, writes) = (Class::Atomic, op.writes());
        let is_signal = signalled || is_posted && matches!(op, Atomic::Store(_));
        let seen = Seen { class, writes, name, is_posted, is_signal, kind };
        let word = Region::block(at.rank, at.segment, at.offset, at.width.bytes());
        let pieces = &[Piece { offset: at.offset, bytes: at.width.bytes() }];
        let access =
            self.access(actor, &word, place, &seen).map(|access| Call::Access { access, pieces });
        if !writes {
            return act(access.as_slice());
        }
        let trial = &self.state.checker.trial;
        if let Some(place) = place.filter(|_| is_posted && trial.is_for_runs())
            && self.is_program(at.segment, at.offset)
        {
            trial.note_signal(self.state.rank, at, place);
        }
        let released = Released { attempt: atomic.attempt, ..self.released(at, op, signalled) };
        self.state.checker.prefetch(released.owner, at.segment, at.offset, released.word);
        // What handlers do is a part of their call.
        if self.is_exact() && actor.lane != AGENT_LANE {
            let returned = act(access.as_slice());
            self.prepare(actor, at, released);
            return returned;
        }
        let release = Call::Release { actor, released };
        match access {
            Some(access) => act(&[access, release]),
            None => act(&[release]),
        }
    }

    pub(crate) fn replied(&self, actor: Actor, asked: &Asked, reply: &Reply) {
        let SeenAtomic { at, op, attempt, .. } = match *asked {
            Asked::Atomic(atomic) => atomic,
            Asked::Agent(word) => {
                self.run(&[Call::Acquire { actor, word, seen: None }]);
                return;
            }
        };
        let held = match reply {
            Reply::Word(held) => Some(at.width.truncate(*held)),
            _ => None,
        };
        let seen = held.filter(|_| at.width != Width::Pair).map(|held| held as u64);
        let read = ReadWord { is_answer: true, ..self.read_word(at, seen, None) };
        let read = Call::AcquireBytes { actor, read };
        let has_failed = |held: u128| match op {
            Atomic::CompareSwap { expected, .. } => held != at.width.truncate(expected),
            _ => false,
        };
        match held.is_some_and(has_failed) {
            true => {
                let word = clock_of(self.layout(), at.rank.index(), at.segment, at.offset);
                self.run(&[Call::TakeBack { word, attempt }, read])
            }
            false => self.run(&[read]),
        };
    }

    /// A word was read, by a wait if it is known with how much less that would have ended.
    pub(crate) fn read_word(&self, at: Word, seen: Option<u64>, slack: Option<u64>) -> ReadWord {
        let Word { segment, offset, .. } = at;
        let (owner, is_program) = (at.rank.index(), self.is_program(segment, offset));
        let bytes = at.width.bytes();
        let is_answer = false;
        ReadWord { owner, segment, offset, bytes, seen, slack, is_program, is_answer }
    }

    /// Likewise, by a rank.
    pub(crate) fn acquire_word(&self, at: Word, seen: Option<u64>, slack: Option<u64>) {
        let read = self.read_word(at, seen, slack);
        self.run(&[Call::AcquireBytes { actor: self.actor(), read }]);
    }
}

pub(crate) fn first_byte(region: &Region<'_>) -> u64 {
    match region.shape {
        Shape::Block(piece) => piece.offset,
        Shape::Strided { offset, .. } => offset,
        Shape::Pieces(pieces) => pieces.first().map_or(0, |piece| piece.offset),
    }
}
