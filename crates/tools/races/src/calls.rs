//! What ranks tell the checker, and ask it: each list of calls is one transaction under its lock.

use farside_fabric::{Piece, SegmentId};

use crate::access::{Access, Actor};
use crate::adds::Waited;
use crate::clocks::Released;
use crate::layout::{Layout, NOWHERE, count};
use crate::state::{Pair, Span, State, mix};

/// One thing that a rank tells the checker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call<'a> {
    /// An access; how many new races it has found is the answer.
    Access {
        access: Access,
        pieces: &'a [Piece],
    },
    /// A word is about to be changed.
    Release {
        actor: Actor,
        released: Released,
    },
    /// Memory is about to be changed in which each word may be waited for.
    ReleaseWords {
        actor: Actor,
        owner: usize,
        segment: SegmentId,
        pieces: &'a [Piece],
    },
    /// The word of a clock was read.
    Acquire {
        actor: Actor,
        word: usize,
        seen: Option<u64>,
    },
    /// A word of memory was read.
    AcquireBytes {
        actor: Actor,
        read: ReadWord,
    },
    /// An attempt has not changed its word.
    TakeBack {
        word: usize,
        attempt: u32,
    },
    Fence {
        actor: Actor,
        is_program: bool,
    },
    Flush {
        actor: Actor,
        target: usize,
    },
    FlushAll {
        actor: Actor,
    },
    /// The answer is the number of the place.
    NamePlace {
        name: &'a str,
    },
    NameSegment {
        segment: SegmentId,
        element: u32,
        name: Option<&'a str>,
    },
    /// Memory was lent in a way that cannot be followed.
    Blind {
        what: &'a str,
        place: u32,
    },
    Unseen {
        what: &'a str,
    },
    Joined,
    /// A race that its rank has found; the answer is 1 if it is new.
    Race {
        pair: Pair,
        access: Access,
        span: Span,
    },
    /// The answer is the strand.
    NewStrand {
        rank: usize,
        from: Option<usize>,
        is_running: bool,
    },
    JoinStrands {
        rank: usize,
        into: Option<usize>,
        from: Option<usize>,
    },
    EndStrand {
        rank: usize,
        strand: usize,
    },
    Forget {
        rank: usize,
        segment: SegmentId,
        offset: u64,
        bytes: u64,
    },
    /// The answer is 1 if a race is an error of the operation that finds it.
    Fails,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadWord {
    pub(crate) owner: usize,
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Its value, if that is known.
    pub(crate) seen: Option<u64>,
    /// How much less than the value the wait that has read it would have ended with as well.
    pub(crate) slack: Option<u64>,
    pub(crate) is_program: bool,
    /// Whether an atomic has read it, which came behind all that was fenced ahead of it.
    pub(crate) is_answer: bool,
}

pub(crate) fn clock_of(layout: &Layout, owner: usize, segment: SegmentId, offset: u64) -> usize {
    hash_of(owner, segment, offset) as usize % layout.words
}

pub(crate) fn tag_of(owner: usize, segment: SegmentId, offset: u64) -> u32 {
    (hash_of(owner, segment, offset) >> 32) as u32
}

fn hash_of(owner: usize, segment: SegmentId, offset: u64) -> u64 {
    mix(segment.0 ^ (owner as u64) << 52 ^ mix(offset / 4))
}

impl State<'_> {
    /// Does what a rank's calls say, and returns the sum of the answers.
    pub(crate) fn run(&mut self, calls: &[Call<'_>]) -> u32 {
        calls.iter().fold(0, |sum: u32, call| sum.saturating_add(self.run_one(call)))
    }

    fn run_one(&mut self, call: &Call<'_>) -> u32 {
        match *call {
            Call::Access { ref access, pieces } => return self.access(access, pieces),
            Call::Release { actor, released } => self.release(actor, released),
            Call::ReleaseWords { actor, owner, segment, pieces } => {
                self.release_words(actor, owner, segment, pieces);
            }
            Call::Acquire { actor, word, seen } => {
                self.acquire(actor, word, seen);
                self.learn_adds(actor, word, None);
            }
            Call::AcquireBytes { actor, read } => self.acquire_bytes(actor, read),
            Call::TakeBack { word, attempt } => self.take_back(word, attempt),
            Call::Fence { actor, is_program } => self.fence(actor, is_program),
            Call::Flush { actor, target } => self.flush(actor, target),
            Call::FlushAll { actor } => {
                (0..self.layout.n()).for_each(|target| self.flush(actor, target));
            }
            Call::NamePlace { name } => return self.name_place(name),
            Call::NameSegment { segment, element, name } => {
                self.name_segment(segment, element, name);
            }
            Call::Blind { what, place } => {
                let what = self.name_place(what);
                self.blind(what, place);
            }
            Call::Unseen { what } => {
                let what = self.name_place(what);
                self.blind(what, NOWHERE);
            }
            Call::Joined => self.numbers[count::JOINED] += 1,
            Call::Race { ref pair, ref access, span } => return self.race(pair, access, span),
            Call::NewStrand { rank, from, is_running } => {
                return self.new_strand(rank, from, is_running) as u32;
            }
            Call::JoinStrands { rank, into, from } => self.join_strands(rank, into, from),
            Call::EndStrand { rank, strand } => self.end_strand(rank, strand),
            Call::Forget { rank, segment, offset, bytes } => {
                self.forget(rank, segment, offset, bytes);
            }
            Call::Fails => return self.numbers[count::FAILS],
        }
        0
    }

    fn release_words(&mut self, actor: Actor, owner: usize, segment: SegmentId, pieces: &[Piece]) {
        for piece in pieces {
            for offset in (piece.offset & !3..piece.offset + piece.bytes).step_by(4) {
                let word = clock_of(self.layout, owner, segment, offset);
                let (value, added, attempt) = (None, None, 0);
                let released = Released { word, owner, is_program: true, value, added, attempt };
                self.release(actor, released);
            }
        }
    }

    fn acquire_bytes(&mut self, actor: Actor, read: ReadWord) {
        let ReadWord { owner, segment, offset: begin, bytes, seen, slack, is_program, .. } = read;
        for offset in (begin..begin + bytes).step_by(4) {
            let word = clock_of(self.layout, owner, segment, offset);
            self.acquire(actor, word, seen.filter(|_| offset == begin));
        }
        let tag = tag_of(owner, segment, begin);
        let waited = seen.zip(slack).map(|(seen, slack)| Waited { tag, seen, slack });
        self.learn_adds(actor, clock_of(self.layout, owner, segment, begin), waited);
        if read.is_answer {
            self.answered(actor, owner, is_program);
        }
        if is_program {
            self.see(owner, segment, begin, bytes);
        }
    }
}
