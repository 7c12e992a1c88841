//! What was read of a job, as plain data.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A job at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// When it was read, by the clock of the machine.
    pub taken_ns: u64,
    /// How many processors the ranks of a node may use.
    pub processors: u32,
    /// The ranks of the job, in order.
    pub ranks: Vec<RankView>,
    /// The names that the program has given to locks and windows.
    pub names: Vec<NameView>,
    /// The nodes that others have not heard of for long.
    pub silences: Vec<SilenceView>,
}

/// A node that another has not heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SilenceView {
    /// The node whose agent has noticed it.
    pub node: u32,
    /// The node that it does not hear of.
    pub peer: u32,
    /// Since when.
    pub since_ns: u64,
}

/// A rank at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RankView {
    /// Its number.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// Whether it could be read: its memory is on this machine.
    pub is_read: bool,
    /// Its process; zero before it has joined.
    pub process: u32,
    /// What the job knows of it.
    pub state: RankState,
    /// What the system says of its process.
    pub system: Option<ProcessView>,
    /// When it joined.
    pub joined_ns: u64,
    /// Its contexts, that of its first thread first.
    pub contexts: Vec<ContextView>,
    /// How many further contexts it has.
    pub unrecorded: u32,
}

/// What the job knows of a rank.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankState {
    /// It has not joined yet.
    #[default]
    Starting,
    /// It is a member of the job.
    Alive,
    /// It has left in order.
    Left,
    /// It ended without leaving, or failed: how.
    Lost(String),
}

/// What the system says of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessView {
    /// Its state: `R`, `S`, `D`, `T` (stopped), `t` (traced), `Z`.
    pub state: char,
    /// The time that it has computed, in nanoseconds.
    pub computed_ns: u64,
    /// The function of the kernel that it sleeps in, if the system tells.
    pub sleeps_in: String,
    /// Its stack in the kernel, if the system tells.
    pub stack: Vec<String>,
}

/// A context at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextView {
    /// Whether it is still there; of one that is gone, the counters are left.
    pub is_there: bool,
    /// Changes whenever the activity does.
    pub sequence: u64,
    /// What it waits for; `None` if it does not wait, or not for long.
    pub activity: Option<ActivityView>,
    /// Since when it waits or, if it does not, when its last long wait was over.
    pub since_ns: u64,
    /// When it last looked at what it waits for.
    pub looked_ns: u64,
    /// The locks that it holds.
    pub held: Vec<HeldView>,
    /// Its operations so far, and their bytes.
    pub operations: u64,
    #[expect(missing_docs, reason = "said above")]
    pub bytes: u64,
    /// How often it found that it had to wait, gave its processor away, slept, and sent a message
    /// again.
    pub waits: u64,
    #[expect(missing_docs, reason = "said above")]
    pub yields: u64,
    #[expect(missing_docs, reason = "said above")]
    pub sleeps: u64,
    #[expect(missing_docs, reason = "said above")]
    pub repetitions: u64,
    /// How long the waits were that lasted.
    pub waited: Durations,
    /// Its operations by peer.
    pub peers: Vec<PeerView>,
}

/// A histogram of durations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    /// The sum of all, in nanoseconds.
    pub total_ns: u64,
    /// How many there were below each time, in nanoseconds, and not below the one before.
    pub buckets: Vec<(u64, u64)>,
}

impl Durations {
    /// Adds the durations of another histogram.
    pub fn add(&mut self, other: &Durations) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        for &(end_ns, count) in &other.buckets {
            match self.buckets.binary_search_by_key(&end_ns, |&(end_ns, _)| end_ns) {
                Ok(at) => self.buckets[at].1 += count,
                Err(at) => self.buckets.insert(at, (end_ns, count)),
            }
        }
    }

    /// Returns how many durations there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|&(_, count)| count).sum()
    }

    /// Returns a time, in nanoseconds, that this share of the durations is below; `None` if there
    /// are none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut below = 0;
        let reaches = |&&(_, count): &&(u64, u64)| {
            below += count;
            below >= wanted
        };
        self.buckets.iter().find(reaches).map(|&(end_ns, _)| end_ns)
    }
}

/// The operations of a context to one peer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct PeerView {
    pub rank: u32,
    pub operations: u64,
    pub bytes: u64,
}

/// What a context waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityView {
    /// The kind of the call.
    pub kind: Kind,
    /// The name of the call, or of a lock's algorithm.
    pub name: String,
    /// The segment of a lock's words, or of a team's area.
    pub segment: u64,
    /// The first byte of a lock's words; the number of a collective.
    pub number: u64,
    /// A collective's length, mostly.
    pub size: u64,
    /// Where the program called it.
    pub place: String,
    /// The word that it waits for, if it is one.
    pub word: Option<WordView>,
    /// The ranks that can end the wait; `None` for all ranks.
    pub peers: Option<Vec<u32>>,
    /// Whether it ends by itself after some time.
    pub has_limit: bool,
    /// How many collectives each member of the team has entered.
    #[serde(with = "entered")]
    pub entered: Entered,
}

/// Members of a team, and how many collectives each has entered: one list for all who wait there.
pub type Entered = Arc<Vec<(u32, u64)>>;

mod entered {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Entered;

    pub(super) fn serialize<S: Serializer>(list: &Entered, to: S) -> Result<S::Ok, S::Error> {
        list.as_slice().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Entered, D::Error> {
        Vec::deserialize(from).map(Entered::new)
    }
}

/// The kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "those of `farside_fabric::record::ActivityKind`")]
pub enum Kind {
    Word,
    Lock,
    Collective,
    Transfer,
    Flush,
    Call,
    Epoch,
    Pause,
    Poll,
}

/// A word that is waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WordView {
    /// The segment that it lies in.
    pub segment: u64,
    /// Its first byte.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u8,
    /// What it held when its waiter last looked.
    pub seen: u64,
    /// What it holds now, if it could be read.
    pub now: Option<u64>,
    /// Other words near it that are not zero: their first bytes and what they hold.
    pub others: Vec<(u64, u64)>,
}

/// A lock that is held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldView {
    /// The segment of its words.
    pub segment: u64,
    /// The first byte of its words.
    pub offset: u64,
    /// Where it was acquired.
    pub place: String,
}

/// The name of a lock or a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct NameView {
    pub segment: u64,
    pub offset: u64,
    pub name: String,
}

impl Snapshot {
    /// Puts together what was read of one job on several hosts, whose clocks differ: times become
    /// those of the first.
    pub fn merge(parts: Vec<Snapshot>) -> Snapshot {
        let mut parts = parts.into_iter().filter(|part| !part.ranks.is_empty());
        let Some(mut all) = parts.next() else { return Snapshot::default() };
        for mut part in parts {
            part.shift(all.taken_ns);
            for (known, other) in all.ranks.iter_mut().zip(part.ranks) {
                if !known.is_read && other.is_read {
                    *known = other;
                }
            }
            all.names.extend(part.names);
            all.silences.extend(part.silences);
        }
        all.names.sort_by_key(|name| (name.segment, name.offset));
        all.names.dedup_by_key(|name| (name.segment, name.offset));
        all.complete_entries();
        all
    }

    /// Moves all times so that it was taken at `taken_ns`.
    fn shift(&mut self, taken_ns: u64) {
        let own = std::mem::replace(&mut self.taken_ns, taken_ns);
        let moved = |ns: u64| match ns {
            0 => 0,
            ns => taken_ns.saturating_sub(own.saturating_sub(ns)),
        };
        for silence in &mut self.silences {
            silence.since_ns = moved(silence.since_ns);
        }
        for rank in &mut self.ranks {
            rank.joined_ns = moved(rank.joined_ns);
            for context in &mut rank.contexts {
                context.since_ns = moved(context.since_ns);
                context.looked_ns = moved(context.looked_ns);
            }
        }
    }

    fn activities(&mut self) -> impl Iterator<Item = &mut ActivityView> {
        let contexts = self.ranks.iter_mut().flat_map(|rank| &mut rank.contexts);
        contexts.filter_map(|context| context.activity.as_mut())
    }

    /// Returns the same, to be sent to where it is [merged](Snapshot::merge): how far a member of a
    /// team is stands there once, and not with each rank that waits for it.
    pub fn condensed(mut self) -> Snapshot {
        let mut told = HashSet::new();
        for activity in self.activities() {
            let entered = activity.entered.iter().copied();
            let is_new = |entry: &(u32, u64)| told.insert((activity.segment, entry.0));
            activity.entered = Arc::new(entered.filter(is_new).collect());
        }
        self
    }

    /// Tells each rank that is in a collective how far the members on other hosts are: those that
    /// wait in it, or in a later one of the team, have come, and of others that is not known.
    fn complete_entries(&mut self) {
        let everyone: Vec<u32> = self.ranks.iter().map(|rank| rank.rank).collect();
        let mut known: HashMap<(u64, u32), u64> = HashMap::new();
        for activity in self.activities().filter(|each| each.kind == Kind::Collective) {
            for &(rank, count) in activity.entered.iter() {
                known.entry((activity.segment, rank)).or_insert(count);
            }
        }
        // Ranks in the same collective share a list: there may be thousands of them.
        let mut lists: HashMap<_, Entered> = HashMap::new();
        for activity in self.activities().filter(|each| each.kind == Kind::Collective) {
            let ActivityView { segment, number, peers, entered, .. } = activity;
            let list = lists.entry((*segment, *number, peers.clone())).or_insert_with(|| {
                // A member that waits in no collective of the team has not come to this.
                let unknown = number.wrapping_sub(1);
                let count = |member| known.get(&(*segment, member)).copied().unwrap_or(unknown);
                let members = peers.as_ref().unwrap_or(&everyone).iter();
                Arc::new(members.map(|&member| (member, count(member))).collect())
            });
            *entered = list.clone();
        }
    }

    /// Returns the name of what begins at a byte of a segment, if the program has given it one.
    pub fn name_of(&self, segment: u64, offset: u64) -> Option<&str> {
        let is_it = |name: &&NameView| name.segment == segment && name.offset == offset;
        self.names.iter().find(is_it).map(|name| &*name.name)
    }

    /// Returns the ranks that hold a lock, and where they acquired it.
    pub fn holders(&self, segment: u64, offset: u64) -> Vec<(u32, &str)> {
        let contexts = self
            .ranks
            .iter()
            .flat_map(|rank| rank.contexts.iter().map(move |context| (rank.rank, context)));
        contexts
            .flat_map(|(rank, context)| context.held.iter().map(move |held| (rank, held)))
            .filter(|(_, held)| held.segment == segment && held.offset == offset)
            .map(|(rank, held)| (rank, &*held.place))
            .collect()
    }
}

impl RankView {
    /// Returns whether it is a member of the job.
    pub fn is_alive(&self) -> bool {
        self.state == RankState::Alive
    }

    /// Returns the operations of all its contexts.
    pub fn operations(&self) -> u64 {
        self.contexts.iter().map(|context| context.operations).sum()
    }

    /// Returns the bytes that all its contexts have moved.
    pub fn bytes(&self) -> u64 {
        self.contexts.iter().map(|context| context.bytes).sum()
    }

    /// Returns how long the waits of all its contexts were.
    pub fn waited(&self) -> Durations {
        let mut waited = Durations::default();
        self.contexts.iter().for_each(|context| waited.add(&context.waited));
        waited
    }
}
