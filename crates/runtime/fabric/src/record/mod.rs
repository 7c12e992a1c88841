//! A rank's record: what each of its contexts does now and has done so far, in memory that viewers
//! read while the job runs.
//!
//! A record is written where a wait *lasts*, that is, right before its context sleeps and after it
//! was woken: an operation that completes at once, or after a short spin, writes nothing. Counters
//! and the locks that are held are written where they change, by plain stores; they have replaced
//! counters in private memory, on a page that was touched anyway.
//!
//! A record has one writer, its context. The activity is protected by a sequence count: it is odd
//! while the activity is written, and a reader that finds it odd, or changed, reads again.

mod activity;
mod durations;
mod ring;

use std::panic::Location;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::memory::Held;
use crate::names::{Node, Rank, SegmentId};

use activity::SET_WORDS;
pub use activity::{
    Activity, ActivityKind, AwaitedWord, Effort, Lasting, Peers, Place, RankSet, SET_RANKS,
    locked_target, target_lock,
};
use durations::Durations;
pub use durations::{DURATION_BUCKETS, DurationsReading, bucket_end_ns};
pub use ring::{RING_OPERATIONS, Ring, RingProbe, RingReading, ServiceReading};

/// How many contexts of a rank have records; further ones are counted in
/// [`RankRecord::unrecorded`].
pub const CONTEXTS: usize = 3;
/// How many peers have counters in a context's record.
pub const PEERS: usize = 32;
/// How many held locks a context's record has room for.
pub const HELD: usize = 8;
/// How many names a rank's record has room for.
pub const NAMES: usize = 32;

const NAME_WORDS: usize = 3;
const FILE_WORDS: usize = 10;
const SET_AT: usize = 8;
const NAME_AT: usize = SET_AT + SET_WORDS;
const FILE_AT: usize = NAME_AT + NAME_WORDS;
const ACTIVITY_WORDS: usize = FILE_AT + FILE_WORDS;
const TITLE_WORDS: usize = 4;
const PAGE: usize = 4096;

/// The counters of the operations to one peer.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the counters that programs read")]
pub struct PeerCount {
    pub puts: AtomicU64,
    pub put_bytes: AtomicU64,
    pub gets: AtomicU64,
    pub get_bytes: AtomicU64,
    pub accumulates: AtomicU64,
    pub accumulate_bytes: AtomicU64,
    pub atomics: AtomicU64,
    pub calls: AtomicU64,
}

#[repr(C)]
#[derive(Debug, Default)]
struct HeldLock {
    /// Zero if there is none.
    segment: AtomicU64,
    offset: AtomicU32,
    line: AtomicU32,
}

/// One context's record: a page, of which counters and held locks are the first half.
#[repr(C, align(64))]
pub struct ContextRecord {
    /// For each place, one more than the rank that is counted there, or zero.
    pub known: [AtomicU32; PEERS],
    /// The counters of these peers.
    pub peers: [PeerCount; PEERS],
    held: [HeldLock; HELD],
    /// The files of the places where the held locks were acquired.
    held_files: [[AtomicU64; FILE_WORDS]; HELD],
    /// The process that the context lives in, or zero if no context uses this record.
    owner: AtomicU32,
    /// How often the context went to sleep, gave its processor away, and waited at all.
    parks: AtomicU64,
    yields: AtomicU64,
    waits: AtomicU64,
    repeats: AtomicU64,
    /// Odd while the activity is written.
    sequence: AtomicU64,
    activity: [AtomicU64; ACTIVITY_WORDS],
    since_ns: AtomicU64,
    /// What the awaited word held when its waiter last looked, and when that was.
    seen: AtomicU64,
    looked_ns: AtomicU64,
    /// How long the waits were that lasted.
    waited: Durations,
}

/// A rank's record.
#[repr(C, align(64))]
#[derive(Default)]
pub struct RankRecord {
    /// The process of the rank; zero before it has joined.
    pub process: AtomicU32,
    /// How many contexts have no record of their own.
    pub unrecorded: AtomicU32,
    /// When the rank joined, by the clock of its machine.
    pub joined_ns: AtomicU64,
    /// In the record of a node's first rank: one more than the node that its agent has not heard
    /// of for long, or zero, and since when.
    silent_node: AtomicU32,
    silent_since_ns: AtomicU64,
    names: [Title; NAMES],
}

/// The name that the program has given to a lock or a window.
#[repr(C)]
#[derive(Default)]
struct Title {
    /// Zero if the entry is free.
    segment: AtomicU64,
    offset: AtomicU64,
    text: [AtomicU64; TITLE_WORDS],
}

/// A connection's records.
pub struct Records {
    /// The record of its rank.
    pub rank: Held<RankRecord>,
    /// The record of the connection itself.
    pub context: Held<ContextRecord>,
}

/// The bytes that one rank's record takes in a job's memory: a page, and one for each context.
pub const RANK_RECORD_BYTES: u64 = ((1 + CONTEXTS) * PAGE) as u64;
/// Where in it the record of a context begins.
pub const fn context_record_at(context: usize) -> u64 {
    ((1 + context) * PAGE) as u64
}

const _: () = assert!(size_of::<ContextRecord>() <= PAGE && size_of::<RankRecord>() <= PAGE);

/// What was read of a context's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextReading {
    /// Changes whenever the activity does.
    pub sequence: u64,
    /// What it waits for; `None` if it does not wait, or not for long.
    pub activity: Option<Activity>,
    /// Since when it waits or, if it does not, when its last long wait was over.
    pub since_ns: u64,
    /// What the awaited word held when its waiter last looked.
    pub seen: u64,
    /// When its waiter last looked.
    pub looked_ns: u64,
    /// The locks that it holds.
    pub held: Vec<HeldReading>,
    /// How often it went to sleep.
    pub parks: u64,
    /// How often it gave its processor away.
    pub yields: u64,
    /// How often it found that it had to wait.
    pub waits: u64,
    /// How many messages it sent again.
    pub repeats: u64,
    /// How long the waits were that lasted.
    pub waited: DurationsReading,
}

/// A held lock, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldReading {
    /// The segment of its words.
    pub segment: SegmentId,
    /// The first byte of its words.
    pub offset: u32,
    /// Where it was acquired.
    pub place: Place,
}

/// A name, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameReading {
    /// The segment of what bears it.
    pub segment: SegmentId,
    /// Its first byte.
    pub offset: u64,
    /// The name.
    pub name: String,
}

impl Default for ContextRecord {
    fn default() -> ContextRecord {
        ContextRecord {
            known: [const { AtomicU32::new(0) }; PEERS],
            peers: std::array::from_fn(|_| PeerCount::default()),
            held: std::array::from_fn(|_| HeldLock::default()),
            held_files: [const { [const { AtomicU64::new(0) }; FILE_WORDS] }; HELD],
            owner: AtomicU32::new(0),
            parks: AtomicU64::new(0),
            yields: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            repeats: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            activity: [const { AtomicU64::new(0) }; ACTIVITY_WORDS],
            since_ns: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            looked_ns: AtomicU64::new(0),
            waited: Durations::new(),
        }
    }
}

/// The longest end of `text` that has at most `bytes` bytes.
fn tail(text: &str, bytes: usize) -> &str {
    let start = text.len().saturating_sub(bytes);
    (start..=text.len()).find_map(|at| text.get(at..)).unwrap_or("")
}

fn store_text(words: &[AtomicU64], text: &str) {
    let mut bytes = text.as_bytes().chunks(8);
    for word in words {
        let mut packed = [0; 8];
        let chunk = bytes.next().unwrap_or(&[]);
        packed[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(packed), Ordering::Relaxed);
    }
}

/// Loads a text as a terminal may show it: whoever reads it need not be the user who wrote it.
fn load_text(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    printable(&String::from_utf8_lossy(&bytes[..end]))
}

/// Returns a text without control characters, by which one could write anywhere on a terminal.
pub fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

impl ContextRecord {
    /// Takes the record for a context of `process`; false if another context has it. What an
    /// earlier context has left is wiped, except its counters.
    pub fn take(&self, process: u32) -> bool {
        let taken = self.owner.compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    }

    /// Gives the record back.
    pub fn release(&self) {
        self.write(|| self.activity[0].store(0, Ordering::Relaxed));
        self.held.iter().for_each(|held| held.segment.store(0, Ordering::Relaxed));
        self.owner.store(0, Ordering::Release);
    }

    /// Returns the process whose context has the record; zero if none has.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Acquire)
    }

    /// Writes what the context waits for, and since when.
    pub fn begin(&self, activity: &Activity, since_ns: u64) {
        self.write(|| {
            let word = activity.word;
            let (peers, peer) = match activity.peers {
                Peers::All => (0, 0),
                Peers::One(rank) => (1, rank.0),
                Peers::Agent(node) => (2, node.0),
                Peers::Among(_) => (3, 0),
            };
            let head = activity.kind as u64
                | peers << 8
                | u64::from(activity.has_limit) << 16
                | u64::from(word.map_or(0, |word| word.bytes)) << 24
                | u64::from(activity.place.line) << 32;
            let (segment, offset) = word.map_or((0, 0), |word| (word.segment.0, word.offset));
            let (subject, number) = (activity.segment.0, activity.number);
            let (size, root) = (activity.size, activity.root);
            let words = [head, subject, number, size, root, segment, offset, peer.into()];
            for (to, word) in self.activity.iter().zip(words) {
                to.store(word, Ordering::Relaxed);
            }
            if let Peers::Among(set) = &activity.peers {
                for (to, word) in self.activity[SET_AT..NAME_AT].iter().zip(set.words) {
                    to.store(word, Ordering::Relaxed);
                }
            }
            store_text(&self.activity[NAME_AT..FILE_AT], tail(&activity.name, NAME_WORDS * 8));
            store_text(&self.activity[FILE_AT..], tail(&activity.place.file, FILE_WORDS * 8));
            self.since_ns.store(since_ns, Ordering::Relaxed);
        });
    }

    /// Notes that the wait is over.
    pub fn end(&self, now_ns: u64) {
        if self.activity[0].load(Ordering::Relaxed) != 0 {
            let since_ns = self.since_ns.load(Ordering::Relaxed);
            self.waited.count(now_ns.saturating_sub(since_ns));
        }
        self.write(|| {
            self.activity[0].store(0, Ordering::Relaxed);
            self.since_ns.store(now_ns, Ordering::Relaxed);
        });
    }

    /// Notes what the awaited word holds at a look.
    pub fn look(&self, seen: u64, now_ns: u64) {
        self.seen.store(seen, Ordering::Relaxed);
        self.looked_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Notes how much the context has waited so far.
    pub fn note_effort(&self, effort: Effort) {
        self.parks.store(effort.parks, Ordering::Relaxed);
        self.yields.store(effort.yields, Ordering::Relaxed);
        self.waits.store(effort.waits, Ordering::Relaxed);
        self.repeats.store(effort.repeats, Ordering::Relaxed);
    }

    /// Notes that the context holds a lock; nothing if it holds as many as there is room for.
    #[inline]
    pub fn hold(&self, segment: SegmentId, offset: u64, place: Option<&'static Location<'static>>) {
        let (line, name) = place.map_or((0, ""), |place| (place.line(), place.file()));
        for (held, file) in self.held.iter().zip(&self.held_files) {
            if held.segment.load(Ordering::Relaxed) == 0 {
                held.offset.store(offset as u32, Ordering::Relaxed);
                // The same place has the same line, mostly: then its file is there already.
                if held.line.swap_plain(line) != line {
                    store_text(file, tail(name, FILE_WORDS * 8));
                }
                held.segment.store(segment.0, Ordering::Release);
                return;
            }
        }
    }

    /// Notes that the context does not hold a lock any more.
    #[inline]
    pub fn unhold(&self, segment: SegmentId, offset: u64) {
        for held in &self.held {
            if held.segment.load(Ordering::Relaxed) == segment.0
                && held.offset.load(Ordering::Relaxed) == offset as u32
            {
                return held.segment.store(0, Ordering::Release);
            }
        }
    }

    fn write(&self, write: impl FnOnce()) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        write();
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }

    /// Reads the record; `None` if it was being written all the time.
    pub fn read(&self) -> Option<ContextReading> {
        for _ in 0..1000 {
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence.is_multiple_of(2) {
                let activity = self.read_activity();
                let reading = ContextReading {
                    sequence,
                    activity,
                    since_ns: self.since_ns.load(Ordering::Relaxed),
                    seen: self.seen.load(Ordering::Relaxed),
                    looked_ns: self.looked_ns.load(Ordering::Relaxed),
                    held: self.read_held(),
                    parks: self.parks.load(Ordering::Relaxed),
                    yields: self.yields.load(Ordering::Relaxed),
                    waits: self.waits.load(Ordering::Relaxed),
                    repeats: self.repeats.load(Ordering::Relaxed),
                    waited: self.waited.read(),
                };
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == sequence {
                    return Some(reading);
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    fn read_activity(&self) -> Option<Activity> {
        let word = |at: usize| self.activity[at].load(Ordering::Relaxed);
        let head = word(0);
        let kind = ActivityKind::from_bits(head as u8)?;
        let bytes = (head >> 24) as u8;
        let peers = match (head >> 8) as u8 {
            0 => Peers::All,
            1 => Peers::One(Rank(word(7) as u32)),
            2 => Peers::Agent(Node(word(7) as u32)),
            _ => Peers::Among(RankSet { words: std::array::from_fn(|index| word(SET_AT + index)) }),
        };
        Some(Activity {
            kind,
            name: load_text(&self.activity[NAME_AT..FILE_AT]).into(),
            segment: SegmentId(word(1)),
            number: word(2),
            size: word(3),
            root: word(4),
            place: Place {
                file: load_text(&self.activity[FILE_AT..]).into(),
                line: (head >> 32) as u32,
            },
            word: (bytes != 0).then(|| AwaitedWord {
                segment: SegmentId(word(5)),
                offset: word(6),
                bytes,
            }),
            peers,
            has_limit: (head >> 16) & 1 != 0,
        })
    }

    fn read_held(&self) -> Vec<HeldReading> {
        let reading = |(held, file): (&HeldLock, &[AtomicU64; FILE_WORDS])| {
            let segment = held.segment.load(Ordering::Acquire);
            (segment != 0).then(|| HeldReading {
                segment: SegmentId(segment),
                offset: held.offset.load(Ordering::Relaxed),
                place: Place {
                    file: load_text(file).into(),
                    line: held.line.load(Ordering::Relaxed),
                },
            })
        };
        self.held.iter().zip(&self.held_files).filter_map(reading).collect()
    }
}

/// A swap of a word that has one writer.
trait SwapPlain<T> {
    fn swap_plain(&self, value: T) -> T;
}

impl SwapPlain<u32> for AtomicU32 {
    fn swap_plain(&self, value: u32) -> u32 {
        let before = self.load(Ordering::Relaxed);
        self.store(value, Ordering::Relaxed);
        before
    }
}

impl RankRecord {
    /// Gives a lock or a window a name that viewers show; false if there is no room for another.
    pub fn name(&self, segment: SegmentId, offset: u64, name: &str) -> bool {
        let is_it = |title: &&Title| {
            let known = title.segment.load(Ordering::Relaxed);
            known == 0 || (known == segment.0 && title.offset.load(Ordering::Relaxed) == offset)
        };
        let Some(title) = self.names.iter().find(is_it) else { return false };
        let head = name.char_indices().map(|(at, each)| at + each.len_utf8());
        let end = head.take_while(|&end| end <= TITLE_WORDS * 8).last().unwrap_or(0);
        title.offset.store(offset, Ordering::Relaxed);
        store_text(&title.text, &name[..end]);
        title.segment.store(segment.0, Ordering::Release);
        true
    }

    /// Notes the node that the agent of this rank's node has heard of least, if that is long ago,
    /// and when that was.
    pub fn note_silence(&self, silence: Option<(Node, u64)>) {
        let (node, since_ns) = silence.map_or((0, 0), |(node, since_ns)| (node.0 + 1, since_ns));
        self.silent_since_ns.store(since_ns, Ordering::Relaxed);
        self.silent_node.store(node, Ordering::Release);
    }

    /// Returns the node that was not heard of for long, and since when.
    pub fn silence(&self) -> Option<(Node, u64)> {
        let node = self.silent_node.load(Ordering::Acquire).checked_sub(1)?;
        Some((Node(node), self.silent_since_ns.load(Ordering::Relaxed)))
    }

    /// Returns the names that the rank has given.
    pub fn names(&self) -> Vec<NameReading> {
        let reading = |title: &Title| {
            let segment = title.segment.load(Ordering::Acquire);
            (segment != 0).then(|| NameReading {
                segment: SegmentId(segment),
                offset: title.offset.load(Ordering::Relaxed),
                name: load_text(&title.text),
            })
        };
        self.names.iter().filter_map(reading).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity() -> Activity {
        Activity {
            kind: ActivityKind::Collective,
            name: "barrier".into(),
            segment: SegmentId::ROOT,
            number: 17,
            size: 8,
            root: 3,
            place: Place { file: "src/main.rs".into(), line: 40 },
            word: Some(AwaitedWord { segment: SegmentId(9), offset: 16, bytes: 8 }),
            peers: Peers::Among([Rank(0), Rank(5), Rank(700)].into_iter().collect()),
            has_limit: false,
        }
    }

    #[test]
    fn what_is_read_cannot_write_anywhere_on_a_terminal() {
        let words = [const { AtomicU64::new(0) }; 4];
        store_text(&words, "a\x1b[2Jb\rc");
        assert_eq!(load_text(&words), "a\u{fffd}[2Jb\u{fffd}c");
    }

    #[test]
    fn an_activity_survives_being_recorded() {
        let record = ContextRecord::default();
        assert_eq!(record.read().unwrap().activity, None);
        for peers in [Peers::All, Peers::One(Rank(3)), Peers::Agent(Node(2)), activity().peers] {
            for has_limit in [false, true] {
                let activity = Activity { peers: peers.clone(), has_limit, ..activity() };
                record.begin(&activity, 77);
                let reading = record.read().unwrap();
                assert_eq!((reading.activity, reading.since_ns), (Some(activity), 77));
            }
        }
        record.end(99);
        let reading = record.read().unwrap();
        assert_eq!((reading.activity, reading.since_ns), (None, 99));
    }

    #[test]
    fn a_silence_is_read_as_it_was_noted() {
        let rank = RankRecord::default();
        assert_eq!(rank.silence(), None);
        rank.note_silence(Some((Node(0), 17)));
        assert_eq!(rank.silence(), Some((Node(0), 17)));
        rank.note_silence(None);
        assert_eq!(rank.silence(), None);
    }

    #[test]
    fn long_file_names_lose_their_beginning() {
        let record = ContextRecord::default();
        let file = format!("/home/ä{}/src/main.rs", "x".repeat(100));
        record.begin(&Activity { place: Place { file: file.into(), line: 1 }, ..activity() }, 0);
        let place = record.read().unwrap().activity.unwrap().place;
        assert!(place.file.ends_with("x/src/main.rs") && place.file.len() == 80, "{place:?}");
        assert_eq!(tail("aä", 1), "");
    }

    #[test]
    fn a_reader_never_sees_half_an_activity() {
        let record = ContextRecord::default();
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for round in 0..rounds {
                    let mut activity = activity();
                    (activity.number, activity.size, activity.root) = (round, round, round);
                    record.begin(&activity, round);
                }
            });
            for _ in 0..rounds {
                let Some(reading) = record.read() else { continue };
                if let Some(activity) = reading.activity {
                    let Activity { number, size, root, .. } = activity;
                    assert_eq!([number, size, root], [reading.since_ns; 3]);
                }
            }
        });
    }

    #[test]
    fn held_locks_and_names_are_listed() {
        let record = ContextRecord::default();
        let place = Location::caller();
        for offset in 0..HELD as u64 + 1 {
            record.hold(SegmentId(7), offset * 8, Some(place));
        }
        assert_eq!(record.read().unwrap().held.len(), HELD);
        record.unhold(SegmentId(7), 8);
        let held = record.read().unwrap().held;
        assert!(held.iter().all(|held| held.offset != 8 && held.place == place.into()));
        let rank = RankRecord::default();
        assert!(rank.name(SegmentId(7), 8, "table") && rank.name(SegmentId(7), 8, "tables"));
        let names = rank.names();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].name, "tables");
    }
}
