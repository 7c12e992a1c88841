//! What a rank's probe hears, and what becomes of it.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;

use farside_fabric::{
    Atomic, Atomicity, Foreign, Node, OwnAccess, OwnPlace, Piece, Probe, ProbeEvent, Rank, Reuse,
    SegmentId, Shape, Width, Word, is_private, private_place,
};

use crate::Checker;
use crate::access::{Access, Actor, Class, Missing, kind};
use crate::adds::{Added, is_negative};
use crate::calls::{Call, clock_of, tag_of};
use crate::clocks::Released;
use crate::explored::Prepared;
use crate::hand::Hand;
use crate::inside::is_inside;
use crate::layout::{CONTEXTS, Layout};
use crate::state::{Pair, Span, locked, mix};

/// An access to more pieces is looked at in several transactions: ranks of other hosts than the
/// checker's send them in messages, which are not to be long.
const PIECES_MAX: usize = 1 << 16;
/// No place of another language.
pub(crate) const RUST: u64 = 0;

/// What all contexts of a rank have in common.
pub(crate) struct RankState {
    pub(crate) checker: Arc<Checker>,
    pub(crate) rank: usize,
    /// The segments that the program uses.
    pub(crate) program: Mutex<HashMap<SegmentId, u64>>,
    /// The words that it uses of segments that are shared with protocols, by their index.
    pub(crate) words: Mutex<HashSet<(SegmentId, u64)>>,
    /// The numbers of places in Rust; `None` for those inside of farside.
    pub(crate) places: Mutex<HashMap<usize, Option<u32>>>,
    /// How many contexts use the lanes of each that is told apart.
    pub(crate) lanes: Mutex<[u32; CONTEXTS]>,
    /// Whether this rank is inside of the lock that is tried against a race.
    pub(crate) holds_lock: AtomicBool,
    /// The thread that has made its first operation.
    pub(crate) thread: OnceLock<ThreadId>,
    /// How many atomics it has tried that may leave their word as it is.
    pub(crate) attempts: AtomicU32,
}

thread_local! {
    /// The strand that this thread goes on with: its rank's own, if nobody says otherwise.
    static STRAND: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread has made an operation.
    static IS_KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// What is not seen of threads that have no strand of their own.
pub(crate) const THREADS: &str = "what threads of a rank do to each other";

/// What a context's probe hears.
pub(crate) struct Told {
    pub(crate) state: Arc<RankState>,
    /// The probe of the connection underneath, if it explores schedules.
    pub(crate) below: Option<Arc<dyn Probe>>,
    pub(crate) lane: usize,
    /// The address of the place of the next operation in Rust.
    pub(crate) place: AtomicU64,
    /// The place in another language, plus one, and above it whether the operation is a put, and
    /// whether it is non-blocking.
    pub(crate) foreign: AtomicU64,
    /// The program's segment that was asked for last.
    pub(crate) last_program: AtomicU64,
    /// Whether flushes complete nothing of the program's.
    pub(crate) is_aside: AtomicBool,
    /// Races that this context has found and not yet reported as an error.
    pub(crate) found: AtomicU32,
    /// What the put with a signal that follows reads, if that was said.
    pub(crate) source: Mutex<Option<(Access, Piece)>>,
    /// The connection underneath, in explored programs.
    pub(crate) hand: Hand,
    /// The atomic that is about to be started, in explored programs.
    pub(crate) prepared: Mutex<Option<Prepared>>,
}

pub(crate) fn with_strand<R>(strand: usize, act: impl FnOnce() -> R) -> R {
    struct Back(usize);
    impl Drop for Back {
        fn drop(&mut self) {
            STRAND.set(self.0);
        }
    }
    let _back = Back(STRAND.replace(strand));
    act()
}

pub(crate) fn clock_of_agent(checker: &Checker, node: Node) -> usize {
    mix(0xA6E4_7000_0000_0000 ^ u64::from(node.0)) as usize % checker.layout().words
}

impl Told {
    pub(crate) fn actor(&self) -> Actor {
        if !IS_KNOWN.get() {
            self.note_thread();
        }
        Actor { rank: self.state.rank, strand: STRAND.get(), lane: self.lane }
    }

    /// A thread makes its first operation. A second one that goes on with the strand of the first
    /// counts as ordered with it, which is said.
    #[cold]
    fn note_thread(&self) {
        IS_KNOWN.set(true);
        let current = std::thread::current().id();
        let first = self.state.thread.get_or_init(|| current);
        if *first != current && STRAND.get() == 0 {
            self.unseen(THREADS);
        }
    }

    pub(crate) fn run(&self, calls: &[Call<'_>]) -> Option<u32> {
        self.catch_up();
        self.state.checker.run(calls)
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.state.checker.layout()
    }

    pub(crate) fn is_program(&self, segment: SegmentId, offset: u64) -> bool {
        // A program's segment stays one, and most operations go to that of the one before.
        if self.last_program.load(Ordering::Relaxed) == segment.0 {
            return true;
        }
        if locked(&self.state.program).contains_key(&segment) {
            self.last_program.store(segment.0, Ordering::Relaxed);
            return true;
        }
        locked(&self.state.words).contains(&(segment, offset / 8))
    }

    /// Returns the place of the operation, if it is one of the program's.
    pub(crate) fn operation_place(&self) -> Option<u32> {
        let foreign = self.foreign.load(Ordering::Relaxed);
        if foreign != RUST {
            return Some((foreign as u32).wrapping_sub(1));
        }
        let address = self.place.swap(0, Ordering::Relaxed) as usize;
        if address == 0 { None } else { locked(&self.state.places).get(&address).copied()? }
    }

    pub(crate) fn is_foreign_put(&self) -> bool {
        self.foreign.load(Ordering::Relaxed) >> 32 & 1 != 0
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.foreign.load(Ordering::Relaxed) >> 33 & 1 != 0
    }

    /// What atomics must have in common with the one that follows, as bits.
    pub(crate) fn kind(&self) -> u8 {
        (self.foreign.load(Ordering::Relaxed) >> 40) as u8
    }

    fn note_place(&self, place: &'static Location<'static>) -> Option<u32> {
        let address = std::ptr::from_ref(place).addr();
        let known = locked(&self.state.places).get(&address).copied();
        known.unwrap_or_else(|| {
            let name = format!("{}:{}:{}", place.file(), place.line(), place.column());
            let number = match is_inside(place.file()) {
                true => None,
                false => self.run(&[Call::NamePlace { name: &name }]),
            };
            locked(&self.state.places).insert(address, number);
            number
        })
    }

    pub(crate) fn see(&self, access: &Access, shape: Shape<'_>) {
        with_pieces(shape, |pieces| self.see_and(access, pieces, &[]));
    }

    /// Looks at an access, and does something more in the same transaction, whose answers are
    /// numbers of races, too.
    pub(crate) fn see_and(&self, access: &Access, pieces: &[Piece], more: &[Call<'_>]) {
        let access = *access;
        let last = pieces.len().saturating_sub(1) / PIECES_MAX * PIECES_MAX;
        let (before, pieces) = pieces.split_at(last);
        for pieces in before.chunks(PIECES_MAX) {
            self.note_found(self.run(&[Call::Access { access, pieces }]));
        }
        let seen = Call::Access { access, pieces };
        self.note_found(match *more {
            [] => self.run(&[seen]),
            [more] => self.run(&[seen, more]),
            _ => self.run(&[&[seen], more].concat()),
        });
    }

    pub(crate) fn note_found(&self, found: Option<u32>) {
        if let Some(found) = found.filter(|&found| found != 0) {
            self.found.fetch_add(found, Ordering::Relaxed);
        }
    }

    pub(crate) fn released(&self, at: Word, op: Atomic, signalled: bool) -> Released {
        let owner = at.rank.index();
        let word = clock_of(self.layout(), owner, at.segment, at.offset);
        let is_program = self.is_program(at.segment, at.offset);
        let value = match (op, at.width) {
            (_, Width::Pair) => None,
            (Atomic::Store(value) | Atomic::Swap(value), width) => {
                Some(width.truncate(value) as u64)
            }
            (Atomic::CompareSwap { desired, .. }, width) => Some(width.truncate(desired) as u64),
            _ => None,
        };
        let added = match op {
            // What is taken away leaves no sum that tells of it.
            Atomic::Add(operand)
                if signalled && is_program && !is_negative(operand as u64, at.width.bytes()) =>
            {
                let tag = tag_of(owner, at.segment, at.offset);
                Some(Added { operand: operand as u64, tag })
            }
            _ => None,
        };
        Released { word, owner, is_program, value, added, attempt: 0 }
    }
}

impl Told {
    /// Whether it is known when atomics are carried out.
    pub(crate) fn is_exact(&self) -> bool {
        self.below.is_some() && self.layout().is_exact
    }

    pub(crate) fn catch_up(&self) {
        if self.is_exact() {
            let mut all = Vec::new();
            self.below(ProbeEvent::CarriedOut(&mut all));
            if !all.is_empty() {
                self.state.checker.carry_out(&all);
            }
        }
    }

    /// A rank is about to start an atomic that writes.
    pub(crate) fn prepare(&self, actor: Actor, at: Word, released: Released) {
        self.catch_up();
        let prepared = self.state.checker.with(|state| state.prepare(actor, at, released));
        *locked(&self.prepared) = prepared;
    }

    pub(crate) fn has_started(&self) {
        if let Some(prepared) = locked(&self.prepared).take()
            && let Some(number) = self.below(ProbeEvent::LastOperation)
        {
            locked(&self.state.checker.under_way).insert((self.state.rank, number), prepared);
        }
    }
}

pub(crate) fn with_pieces<R>(shape: Shape<'_>, act: impl FnOnce(&[Piece]) -> R) -> R {
    match shape {
        Shape::Block(piece) => act(&[piece]),
        Shape::Pieces(pieces) => act(pieces),
        Shape::Strided { .. } => {
            let mut several = Vec::new();
            shape.for_each(|piece| several.push(piece));
            act(&several)
        }
    }
}

impl Probe for Told {
    fn event(&self, event: ProbeEvent<'_>) -> Option<u64> {
        match event {
            ProbeEvent::Own(own) => self.own(own),
            ProbeEvent::Lent { what, place } => {
                self.below(event);
                if let Some(place) = self.note_place(place) {
                    self.run(&[Call::Blind { what, place }]);
                }
            }
            ProbeEvent::At(place) => self.at(place),
            ProbeEvent::Foreign(foreign) => self.foreign(foreign),
            ProbeEvent::NamePlace(name) => {
                return self.run(&[Call::NamePlace { name }]).map(u64::from);
            }
            ProbeEvent::Program { segment, element } => {
                self.below(event);
                locked(&self.state.program).insert(segment, element);
                self.run(&[Call::NameSegment { segment, element: element as u32, name: None }]);
            }
            ProbeEvent::Words { segment, offset, bytes, is_program } => {
                self.below(event);
                self.words(segment, offset..offset + bytes, is_program);
            }
            ProbeEvent::Name { segment, name } => {
                self.run(&[Call::NameSegment { segment, element: 0, name: Some(name) }]);
            }
            ProbeEvent::Acquire { word, place } => self.acquire(word, place),
            ProbeEvent::Aside(is_aside) => self.is_aside.store(is_aside, Ordering::Relaxed),
            ProbeEvent::Completed => {
                self.run(&[Call::FlushAll { actor: self.actor() }]);
            }
            ProbeEvent::Unseen(what) => self.unseen(what),
            ProbeEvent::Reused(reuse) => self.reused(reuse),
            ProbeEvent::NewStrand { from } => return self.new_strand(from).map(u64::from),
            ProbeEvent::EnterStrand(strand) => STRAND.set(strand as usize),
            ProbeEvent::JoinStrands { into, from } => {
                let rank = self.state.rank;
                let strand = |number: Option<u32>| number.map(|number| number as usize);
                self.run(&[Call::JoinStrands { rank, into: strand(into), from: strand(from) }]);
            }
            ProbeEvent::EndStrand(strand) => {
                self.run(&[Call::EndStrand { rank: self.state.rank, strand: strand as usize }]);
            }
            ProbeEvent::Object { object, releases } => self.object(object, releases),
            ProbeEvent::Forget { address, bytes } => {
                let (segment, offset) = private_place(address);
                let (rank, bytes) = (self.state.rank, bytes as u64);
                self.run(&[Call::Forget { rank, segment, offset, bytes }]);
            }
            // What concerns schedules alone.
            _ => return self.below(event),
        }
        None
    }
}

impl Told {
    /// Tells the connection underneath, if it explores schedules.
    pub(crate) fn below(&self, event: ProbeEvent<'_>) -> Option<u64> {
        self.below.as_ref()?.event(event)
    }

    fn at(&self, place: &'static Location<'static>) {
        if self.foreign.load(Ordering::Relaxed) == RUST {
            let is_inside = self.note_place(place).is_none();
            // A place of the program that no operation has taken yet is the one that counts.
            if is_inside && self.place.load(Ordering::Relaxed) != 0 {
                return;
            }
            self.place.store(std::ptr::from_ref(place).addr() as u64, Ordering::Relaxed);
        }
    }

    fn foreign(&self, foreign: Option<Foreign>) {
        let bits = foreign.map_or(RUST, |foreign| {
            (u64::from(foreign.place) + 1)
                | u64::from(foreign.is_put) << 32
                | u64::from(foreign.is_nonblocking) << 33
                | u64::from(kind_of(foreign.atomicity)) << 40
        });
        self.foreign.store(bits, Ordering::Relaxed);
    }

    fn own(&self, own: &OwnAccess) {
        let place = self.place_of_own(own);
        if place.is_some() {
            // The next operation fails, too.
            let _ = self.before(place);
        }
        self.below(ProbeEvent::Own(own));
        let Some(place) = place else { return };
        let name = match (own.writes, own.until.is_some()) {
            (false, false) => "read",
            (true, false) => "write",
            (false, true) => "read by a non-blocking operation",
            (true, true) => "write by a non-blocking operation",
        };
        let owner = own.owner.map_or(self.state.rank, Rank::index);
        let access = Access {
            kind: if own.is_instruction { kind::INSTRUCTION } else { 0 },
            until: own.until.map(Rank::index),
            ..Access::plain(self.actor(), owner, own.segment, own.writes, name, place)
        };
        let piece = Piece { offset: own.offset, bytes: own.bytes };
        match own.is_signalled {
            true => *locked(&self.source) = Some((access, piece)),
            false => self.see(&access, Shape::Block(piece)),
        }
    }

    fn acquire(&self, at: Word, place: u32) {
        self.acquire_word(at, None, None);
        if self.is_program(at.segment, at.offset) {
            self.see_wait(at, place);
        }
    }

    fn unseen(&self, what: &'static str) {
        self.run(&[Call::Unseen { what }]);
    }

    fn reused(&self, reuse: &Reuse) {
        let rank = self.state.rank;
        let access = |writes: bool, name: &str, place: u32| {
            Access::plain(self.actor(), rank, SegmentId(0), writes, name, place)
        };
        let first = access(reuse.fills, "start of a non-blocking operation", reuse.started).site();
        let name = if reuse.writes { "write" } else { "read" };
        let access = access(reuse.writes, name, reuse.used);
        let pair = Pair { first, second: access.site(), missing: Missing::Completion };
        let span = Span { offset: 0, mask: 0 };
        self.note_found(self.run(&[Call::Race { pair, access, span }]));
    }

    fn new_strand(&self, from: Option<u32>) -> Option<u32> {
        let (from, current) = (from.map(|from| from as usize), STRAND.get());
        let is_running = from == Some(current);
        let rank = self.state.rank;
        self.run(&[Call::NewStrand { rank, from, is_running }])
    }

    fn object(&self, object: u64, releases: bool) {
        let (segment, offset) = private_place(object as usize);
        let word = clock_of(self.layout(), self.state.rank, segment, offset);
        let actor = self.actor();
        self.run(&[match releases {
            true => Call::Release { actor, released: Released::nobodys(word) },
            false => Call::Acquire { actor, word, seen: None },
        }]);
    }

    fn words(&self, segment: SegmentId, bytes: Range<u64>, is_program: bool) {
        let mut words = locked(&self.state.words);
        for word in bytes.step_by(8).map(|offset| (segment, offset / 8)) {
            match is_program {
                true => words.insert(word),
                false => words.remove(&word),
            };
        }
    }
}

fn kind_of(atomicity: Atomicity) -> u8 {
    let float = if atomicity.is_float { kind::FLOAT } else { 0 };
    let team = if atomicity.is_shared_team { kind::SHARED_TEAM } else { 0 };
    float | team
}

impl Told {
    /// Returns the place of an access to own memory, if it is looked at.
    fn place_of_own(&self, own: &OwnAccess) -> Option<u32> {
        let is_seen = is_private(own.segment) || self.is_program(own.segment, own.offset);
        if own.bytes == 0 || !is_seen {
            return None;
        }
        match own.place {
            OwnPlace::Rust(place) => self.note_place(place),
            OwnPlace::Foreign(place) => Some(place),
        }
    }

    pub(crate) fn see_wait(&self, at: Word, place: u32) {
        let (actor, owner) = (self.actor(), at.rank.index());
        let access = Access {
            class: Class::Wait,
            ..Access::plain(actor, owner, at.segment, false, "wait", place)
        };
        let piece = Piece { offset: at.offset, bytes: at.width.bytes() };
        self.see(&access, Shape::Block(piece));
    }
}
