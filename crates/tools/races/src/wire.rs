//! Calls as bytes, for ranks of other hosts than the checker's memory.
//!
//! Everything is a number of 8 bytes, the least significant first; a text is its length and its
//! bytes. What is read is checked against the layout before it is used: a number that is out of
//! range would be one of another part of the checker's memory.

use farside_fabric::{Piece, SegmentId};

use crate::access::{Access, Actor, Missing, OPERATIONS, OWNER, Site};
use crate::adds::Added;
use crate::calls::{Call, ReadWord};
use crate::clocks::Released;
use crate::layout::{CONTEXT_LANES, LANES, Layout, PLACES};
use crate::state::{Pair, Span};

/// How many calls one request may have.
const CALLS_MAX: usize = 8;

pub(crate) fn encode(calls: &[Call<'_>]) -> Vec<u8> {
    let mut to = Writer(Vec::with_capacity(128));
    to.numbers(&[calls.len() as u64]);
    calls.iter().for_each(|call| to.call(call));
    to.0
}

/// Reads calls and has `act` do them; `None` if they make no sense.
pub(crate) fn decode<R>(
    bytes: &[u8],
    layout: &Layout,
    act: impl FnOnce(&[Call<'_>]) -> R,
) -> Option<R> {
    // The pieces of all calls stand apart, as calls borrow them.
    let mut from = Reader { rest: bytes, layout };
    let count = from.below(CALLS_MAX + 1)?;
    let held: Option<Vec<(Call<'_>, Vec<Piece>)>> = (0..count).map(|_| from.call()).collect();
    let held = held.filter(|_| from.rest.is_empty())?;
    let calls: Vec<Call<'_>> =
        held.iter().map(|(call, pieces)| with_pieces(call, pieces)).collect();
    Some(act(&calls))
}

fn with_pieces<'a>(call: &Call<'a>, pieces: &'a [Piece]) -> Call<'a> {
    match *call {
        Call::Access { access, .. } => Call::Access { access, pieces },
        Call::ReleaseWords { actor, owner, segment, .. } => {
            Call::ReleaseWords { actor, owner, segment, pieces }
        }
        other => other,
    }
}

struct Writer(Vec<u8>);

fn option(number: Option<usize>) -> u64 {
    number.map_or(0, |number| number as u64 + 1)
}

impl Writer {
    fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
    }

    fn text(&mut self, text: &str) {
        self.numbers(&[text.len() as u64]);
        self.0.extend(text.as_bytes());
    }

    fn actor(&mut self, actor: Actor) {
        self.numbers(&[actor.rank as u64, actor.strand as u64, actor.lane as u64]);
    }

    fn site(&mut self, site: Site) {
        self.numbers(&site.pack().map(u64::from));
    }

    fn access(&mut self, access: &Access) {
        self.site(access.site());
        self.numbers(&[access.owner as u64, access.segment.0]);
    }

    fn pieces(&mut self, pieces: &[Piece]) {
        self.numbers(&[pieces.len() as u64]);
        pieces.iter().for_each(|piece| self.numbers(&[piece.offset, piece.bytes]));
    }

    fn value(&mut self, value: Option<u64>) {
        self.numbers(&[u64::from(value.is_some()), value.unwrap_or(0)]);
    }

    fn call(&mut self, call: &Call<'_>) {
        self.numbers(&[tag(call)]);
        match *call {
            Call::Access { ref access, pieces } => {
                self.access(access);
                self.pieces(pieces);
            }
            Call::Release { actor, released } => {
                let Released { word, owner, is_program, value, added, attempt } = released;
                self.actor(actor);
                // No rank's words have an owner that is none.
                self.numbers(&[word as u64, (owner as u64).wrapping_add(1)]);
                self.numbers(&[is_program.into()]);
                self.value(value);
                self.value(added.map(|added| added.operand));
                self.numbers(&[added.map_or(0, |added| added.tag).into(), attempt.into()]);
            }
            Call::ReleaseWords { actor, owner, segment, pieces } => {
                self.actor(actor);
                self.numbers(&[owner as u64, segment.0]);
                self.pieces(pieces);
            }
            Call::Acquire { actor, word, seen } => {
                self.actor(actor);
                self.numbers(&[word as u64]);
                self.value(seen);
            }
            Call::AcquireBytes { actor, read } => {
                self.actor(actor);
                let ReadWord { owner, segment, offset, bytes, seen, slack, .. } = read;
                self.numbers(&[owner as u64, segment.0, offset, bytes]);
                self.numbers(&[read.is_program.into(), read.is_answer.into()]);
                self.value(seen);
                self.value(slack);
            }
            Call::TakeBack { word, attempt } => self.numbers(&[word as u64, attempt.into()]),
            Call::Fence { actor, is_program } => {
                self.actor(actor);
                self.numbers(&[is_program.into()]);
            }
            Call::Flush { actor, target } => {
                self.actor(actor);
                self.numbers(&[target as u64]);
            }
            Call::FlushAll { actor } => self.actor(actor),
            Call::Fails | Call::Joined => {}
            _ => self.rare_call(call),
        }
    }

    /// Likewise, for what is not said at every operation.
    fn rare_call(&mut self, call: &Call<'_>) {
        match *call {
            Call::NamePlace { name } => self.text(name),
            Call::NameSegment { segment, element, name } => {
                self.numbers(&[segment.0, element.into(), u64::from(name.is_some())]);
                self.text(name.unwrap_or_default());
            }
            Call::Blind { what, place } => {
                self.numbers(&[place.into()]);
                self.text(what);
            }
            Call::Unseen { what } => self.text(what),
            Call::Race { ref pair, ref access, span } => {
                self.site(pair.first);
                self.site(pair.second);
                self.numbers(&[pair.missing as u64, span.offset, span.mask.into()]);
                self.access(access);
            }
            Call::NewStrand { rank, from, is_running } => {
                self.numbers(&[rank as u64, option(from), is_running.into()]);
            }
            Call::JoinStrands { rank, into, from } => {
                self.numbers(&[rank as u64, option(into), option(from)]);
            }
            Call::EndStrand { rank, strand } => self.numbers(&[rank as u64, strand as u64]),
            Call::Forget { rank, segment, offset, bytes } => {
                self.numbers(&[rank as u64, segment.0, offset, bytes]);
            }
            _ => {}
        }
    }
}

fn tag(call: &Call<'_>) -> u64 {
    match call {
        Call::Access { .. } => 0,
        Call::Release { .. } => 1,
        Call::ReleaseWords { .. } => 2,
        Call::Acquire { .. } => 3,
        Call::AcquireBytes { .. } => 4,
        Call::TakeBack { .. } => 5,
        Call::Fence { .. } => 6,
        Call::Flush { .. } => 7,
        Call::FlushAll { .. } => 8,
        Call::NamePlace { .. } => 9,
        Call::NameSegment { .. } => 10,
        Call::Blind { .. } => 11,
        Call::Race { .. } => 12,
        Call::NewStrand { .. } => 13,
        Call::JoinStrands { .. } => 14,
        Call::EndStrand { .. } => 15,
        Call::Forget { .. } => 16,
        Call::Fails => 17,
        Call::Unseen { .. } => 18,
        Call::Joined => 19,
    }
}

/// Reads numbers, each within its bounds.
struct Reader<'a> {
    rest: &'a [u8],
    layout: &'a Layout,
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn below(&mut self, end: usize) -> Option<usize> {
        self.number().and_then(|number| usize::try_from(number).ok()).filter(|&at| at < end)
    }

    fn number_32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        Some(self.below(2)? == 1)
    }

    fn rank(&mut self) -> Option<usize> {
        self.below(self.layout.n())
    }

    fn word(&mut self) -> Option<usize> {
        self.below(self.layout.words)
    }

    fn place(&mut self) -> Option<u32> {
        Some(self.below(PLACES + 1)? as u32)
    }

    fn segment(&mut self) -> Option<SegmentId> {
        self.number().map(SegmentId)
    }

    fn strand_or_all(&mut self) -> Option<Option<usize>> {
        Some(self.below(self.layout.strands + 1)?.checked_sub(1))
    }

    fn value(&mut self) -> Option<Option<u64>> {
        let (is_some, value) = (self.flag()?, self.number()?);
        Some(is_some.then_some(value))
    }

    fn actor(&mut self) -> Option<Actor> {
        let (rank, strand) = (self.rank()?, self.below(self.layout.strands)?);
        let lane = self.below(LANES)?;
        Some(Actor { rank, strand, lane })
    }

    fn context(&mut self) -> Option<Actor> {
        // The lanes behind it are used as well.
        self.actor().filter(|actor| actor.lane.is_multiple_of(CONTEXT_LANES))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.below(self.rest.len() + 1)?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        std::str::from_utf8(text).ok()
    }

    fn pieces(&mut self) -> Option<Vec<Piece>> {
        let count = self.below(self.rest.len() / 16 + 1)?;
        (0..count)
            .map(|_| {
                let piece = Piece { offset: self.number()?, bytes: self.number()? };
                self.is_sensible(piece).then_some(piece)
            })
            .collect()
    }

    /// No rank has more memory.
    fn is_sensible(&self, piece: Piece) -> bool {
        piece.offset.checked_add(piece.bytes).is_some_and(|end| end < 1 << 63)
    }

    fn site(&mut self) -> Option<Site> {
        let site = Site::unpack([self.number_32()?, self.number_32()?, self.number_32()?]);
        let is_known = site.rank < self.layout.n()
            && site.strand < self.layout.strands
            && site.lane < LANES
            && usize::from(site.operation) < OPERATIONS.len()
            && site.place as usize <= PLACES
            && site.until.is_none_or(|target| target < self.layout.n() || target == OWNER);
        is_known.then_some(site)
    }

    fn access(&mut self) -> Option<Access> {
        let (site, owner, segment) = (self.site()?, self.rank()?, self.segment()?);
        let until = site.completed_by(owner);
        let Site { rank, strand, lane, class, kind, writes, operation, place, .. } = site;
        let actor = Actor { rank, strand, lane };
        Some(Access { actor, owner, segment, class, kind, writes, operation, place, until })
    }

    fn released(&mut self) -> Option<Released> {
        let (word, owner) = (self.word()?, self.below(self.layout.n() + 1)?.wrapping_sub(1));
        let is_program = self.flag()?;
        let (value, operand, tag) = (self.value()?, self.value()?, self.number_32()?);
        let added = operand.map(|operand| Added { operand, tag });
        let attempt = self.number_32()?;
        Some(Released { word, owner, is_program, value, added, attempt })
    }

    fn call(&mut self) -> Option<(Call<'a>, Vec<Piece>)> {
        let call = match self.number()? {
            0 => {
                let access = self.access()?;
                return Some((Call::Access { access, pieces: &[] }, self.pieces()?));
            }
            1 => Call::Release { actor: self.context()?, released: self.released()? },
            2 => {
                let (actor, owner, segment) = (self.context()?, self.rank()?, self.segment()?);
                let call = Call::ReleaseWords { actor, owner, segment, pieces: &[] };
                return Some((call, self.pieces()?));
            }
            3 => Call::Acquire { actor: self.actor()?, word: self.word()?, seen: self.value()? },
            4 => Call::AcquireBytes { actor: self.actor()?, read: self.read_word()? },
            5 => Call::TakeBack { word: self.word()?, attempt: self.number_32()? },
            6 => Call::Fence { actor: self.context()?, is_program: self.flag()? },
            7 => Call::Flush { actor: self.context()?, target: self.rank()? },
            8 => Call::FlushAll { actor: self.context()? },
            17 => Call::Fails,
            tag => self.rare_call(tag)?,
        };
        Some((call, Vec::new()))
    }

    fn read_word(&mut self) -> Option<ReadWord> {
        let (owner, segment) = (self.rank()?, self.segment()?);
        let (offset, bytes) = (self.number()?, self.below(17)? as u64);
        let (is_program, is_answer) = (self.flag()?, self.flag()?);
        let (seen, slack) = (self.value()?, self.value()?);
        let read = ReadWord { owner, segment, offset, bytes, seen, slack, is_program, is_answer };
        self.is_sensible(Piece { offset, bytes }).then_some(read)
    }

    fn rare_call(&mut self, tag: u64) -> Option<Call<'a>> {
        Some(match tag {
            9 => Call::NamePlace { name: self.text()? },
            10 => {
                let (segment, element) = (self.segment()?, self.number_32()?);
                let (is_named, name) = (self.flag()?, self.text()?);
                Call::NameSegment { segment, element, name: is_named.then_some(name) }
            }
            11 => {
                let place = self.place()?;
                Call::Blind { what: self.text()?, place }
            }
            12 => {
                let (first, second) = (self.site()?, self.site()?);
                let missing = Missing::from_bits(self.below(8)? as u32);
                let span = Span { offset: self.number()?, mask: self.below(256)? as u32 };
                let access = self.access()?;
                Call::Race { pair: Pair { first, second, missing }, access, span }
            }
            13 => {
                let (rank, from) = (self.rank()?, self.strand_or_all()?);
                Call::NewStrand { rank, from, is_running: self.flag()? }
            }
            14 => {
                let (rank, into) = (self.rank()?, self.strand_or_all()?);
                Call::JoinStrands { rank, into, from: self.strand_or_all()? }
            }
            15 => Call::EndStrand { rank: self.rank()?, strand: self.below(self.layout.strands)? },
            16 => {
                let (rank, segment) = (self.rank()?, self.segment()?);
                let (offset, bytes) = (self.number()?, self.number()?);
                let is_sensible = self.is_sensible(Piece { offset, bytes });
                return is_sensible.then_some(Call::Forget { rank, segment, offset, bytes });
            }
            18 => Call::Unseen { what: self.text()? },
            19 => Call::Joined,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Class;

    fn layout() -> Layout {
        Layout::new(3, 6).unwrap()
    }

    fn access() -> Access {
        Access {
            actor: Actor { rank: 2, strand: 5, lane: 7 },
            owner: 1,
            segment: SegmentId(u64::MAX - 3),
            class: Class::WaitablePut,
            kind: 5,
            writes: true,
            operation: 3,
            place: 17,
            until: Some(2),
        }
    }

    fn with_calls(act: impl FnOnce(&[Call<'_>])) {
        let (actor, segment) = (Actor { rank: 1, strand: 0, lane: 8 }, SegmentId(9 << 40));
        let pieces = &[Piece { offset: 3, bytes: 70 }, Piece { offset: 1 << 40, bytes: 0 }];
        let (word, owner, value) = (65_535, 2, Some(u64::MAX));
        let added = Some(Added { operand: 1 << 40, tag: u32::MAX });
        let released = Released { word, owner, is_program: false, value, added, attempt: 1 << 30 };
        let nobodys =
            Released { owner: usize::MAX, value: None, added: None, attempt: 0, ..released };
        let (offset, bytes, is_program) = (77, 16, true);
        let (seen, slack, is_answer) = (Some(0), Some(9), true);
        let read = ReadWord { owner, segment, offset, bytes, seen, slack, is_program, is_answer };
        let site = access().site();
        let pair =
            Pair { first: site, second: Site { until: None, ..site }, missing: Missing::Domain };
        let (rank, span) = (2, Span { offset: u64::MAX, mask: 255 });
        act(&[
            Call::Access { access: access(), pieces },
            Call::Release { actor, released },
            Call::Release { actor, released: nobodys },
            Call::ReleaseWords { actor, owner, segment, pieces: &pieces[..1] },
            Call::Acquire { actor, word, seen: None },
            Call::AcquireBytes { actor, read },
            Call::TakeBack { word, attempt: u32::MAX },
            Call::Fence { actor, is_program },
            Call::Flush { actor, target: owner },
            Call::FlushAll { actor },
            Call::NamePlace { name: "a.rs:1 ü" },
            Call::NameSegment { segment, element: u32::MAX, name: None },
            Call::NameSegment { segment, element: 0, name: Some("") },
            Call::Blind { what: "as_slice", place: 4096 },
            Call::Unseen { what: "shared pages" },
            Call::Joined,
            Call::Race { pair, access: access(), span },
            Call::NewStrand { rank, from: Some(63), is_running: true },
            Call::JoinStrands { rank, into: None, from: Some(0) },
            Call::EndStrand { rank, strand: 1 },
            Call::Forget { rank, segment, offset, bytes },
            Call::Fails,
        ]);
    }

    #[test]
    fn calls_survive_the_way() {
        with_calls(|calls| {
            for some in calls.chunks(CALLS_MAX) {
                let read = decode(&encode(some), &layout(), |read| format!("{read:?}"));
                assert_eq!(read, Some(format!("{some:?}")));
            }
        });
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let layout = layout();
        let is_read = |bytes: &[u8]| decode(bytes, &layout, |_| ()).is_some();
        with_calls(|calls| {
            assert!(!is_read(&encode(&calls[..CALLS_MAX + 1])), "too many calls");
            for call in calls {
                let bytes = encode(std::slice::from_ref(call));
                assert!((0..bytes.len()).all(|end| !is_read(&bytes[..end])), "{call:?} cut short");
                assert!(!is_read(&[&bytes[..], &[0]].concat()), "{call:?} and more");
            }
        });
        let actor = Actor { rank: 1, strand: 0, lane: 0 };
        for bad in [
            Call::Flush { actor: Actor { rank: 3, ..actor }, target: 0 },
            Call::Flush { actor, target: 3 },
            Call::Flush { actor: Actor { strand: 65, ..actor }, target: 0 },
            Call::Flush { actor: Actor { lane: LANES - 1, ..actor }, target: 0 },
            Call::TakeBack { word: 1 << 16, attempt: 1 },
            Call::EndStrand { rank: 0, strand: 65 },
            Call::Access { access: Access { owner: 3, ..access() }, pieces: &[] },
            Call::Access { access: Access { until: Some(3), ..access() }, pieces: &[] },
            Call::Access { access: access(), pieces: &[Piece { offset: u64::MAX, bytes: 1 }] },
        ] {
            assert!(!is_read(&encode(&[bad])), "{bad:?}");
        }
    }
}
