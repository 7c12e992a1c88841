//! What a context waits for, as plain data.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::names::{Node, Rank, SegmentId};

/// How many ranks a set of ranks in a record has room for.
pub const SET_RANKS: u32 = 64 * SET_WORDS as u32;
pub(super) const SET_WORDS: usize = 16;

/// The kinds of activities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ActivityKind {
    /// A wait for a word of the rank's own memory.
    Word = 1,
    /// A request for a lock.
    Lock,
    /// A barrier or another collective.
    Collective,
    /// A transfer or an atomic whose reply has not come.
    Transfer,
    /// A flush.
    Flush,
    /// A call of a node's agent.
    Call,
    /// A synchronization of a window with epochs.
    Epoch,
    /// A wait for time to pass.
    Pause,
    /// A loop that polls memory of other ranks.
    Poll,
}

impl ActivityKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [ActivityKind; 9] = [
        ActivityKind::Word,
        ActivityKind::Lock,
        ActivityKind::Collective,
        ActivityKind::Transfer,
        ActivityKind::Flush,
        ActivityKind::Call,
        ActivityKind::Epoch,
        ActivityKind::Pause,
        ActivityKind::Poll,
    ];

    pub(super) fn from_bits(bits: u8) -> Option<ActivityKind> {
        ActivityKind::ALL.into_iter().find(|&kind| kind as u8 == bits)
    }
}

/// The lock of a target of a window with epochs, in the place of the first byte of a lock's words:
/// a window has one lock for each of its ranks.
pub const fn target_lock(target: Rank) -> u64 {
    (TARGET | target.0) as u64
}

/// Returns the target whose lock this is; `None` if it is the first byte of a lock's words.
pub const fn locked_target(number: u64) -> Option<Rank> {
    match number as u32 & TARGET {
        0 => None,
        _ => Some(Rank(number as u32 & !TARGET)),
    }
}

/// Ranks are fewer, and locks lie in the first half of what a 32-bit number can say.
const TARGET: u32 = 0x8000_0000;

/// A place in the user's program; the default one is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file; in a record its last bytes, if it is long. `PROGRAM+0xADDRESS` where the line is
    /// known to debuggers only.
    pub file: Cow<'static, str>,
    /// The line, or zero.
    pub line: u32,
}

impl From<&'static Location<'static>> for Place {
    fn from(location: &'static Location<'static>) -> Place {
        Place { file: Cow::Borrowed(location.file()), line: location.line() }
    }
}

/// The ranks that can end a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peers {
    /// Any rank of the job.
    All,
    /// One rank.
    One(Rank),
    /// The agent of a node.
    Agent(Node),
    /// The ranks of a set.
    Among(RankSet),
}

/// A set of ranks below [`SET_RANKS`]; others are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankSet {
    pub(super) words: [u64; SET_WORDS],
}

impl FromIterator<Rank> for RankSet {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> RankSet {
        let mut set = RankSet::default();
        for rank in ranks {
            if let Some(word) = set.words.get_mut(rank.index() / 64) {
                *word |= 1 << (rank.0 % 64);
            }
        }
        set
    }
}

impl RankSet {
    /// Returns whether `rank` is in the set.
    pub fn contains(&self, rank: Rank) -> bool {
        self.words.get(rank.index() / 64).is_some_and(|word| word & (1 << (rank.0 % 64)) != 0)
    }

    /// Returns the ranks of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        (0..SET_RANKS).map(Rank).filter(|&rank| self.contains(rank))
    }
}

/// A word that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwaitedWord {
    /// The segment that it lies in, of the waiting rank.
    pub segment: SegmentId,
    /// Its first byte.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u8,
}

/// What a context waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The kind of the call.
    pub kind: ActivityKind,
    /// The name of the call: `barrier`, `get`, the algorithm of a lock.
    pub name: Cow<'static, str>,
    /// The segment of a lock's words, of a team's area or of a window.
    pub segment: SegmentId,
    /// The first byte of a lock's words; the number of a collective in its team's history.
    pub number: u64,
    /// A collective's length, mostly.
    pub size: u64,
    /// A collective's root; where, in the areas of its team, members count what they have entered.
    pub root: u64,
    /// Where the program called it.
    pub place: Place,
    /// The word that changes when the wait is over, if it is one.
    pub word: Option<AwaitedWord>,
    /// The ranks that can end it.
    pub peers: Peers,
    /// Whether it ends by itself after some time.
    pub has_limit: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Activity { name, segment, number, place, .. } = self;
        match self.kind {
            ActivityKind::Lock => write!(f, "lock {name} at byte {number} of {segment}")?,
            ActivityKind::Collective => write!(f, "{name} {number}")?,
            _ => write!(f, "{name}")?,
        }
        write!(f, " ({place})")
    }
}

/// What a waiter tells of its wait, if that lasts.
pub trait Lasting {
    /// Notes that the wait lasts: called by a fabric before each sleep. Returns how soon it is to
    /// be called again, if it is, even if nothing has happened by then.
    fn lasts(&self) -> Option<Duration>;
    /// Notes what the waiter sees of what it waits for. A fabric calls it right before each sleep,
    /// when whoever changes that would wake the waiter: a change that is not noted by then, and
    /// that the waiter sleeps through, woke nobody.
    fn looks(&self) {}
    /// Returns what is waited for.
    fn activity(&self) -> Activity;
}

/// How much waiting was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Waits that did not find their event at once.
    pub waits: u64,
    /// How often the processor was given to others.
    pub yields: u64,
    /// How often the rank went to sleep.
    pub parks: u64,
    /// How many messages were sent again because no answer had come in time.
    pub repeats: u64,
    /// How often a sleeping rank looked by itself, in case a wake-up was lost.
    pub naps: u64,
}
