//! A snapshot of a job, read from the memory that its ranks share.
//!
//! Nothing is written, no process is stopped, and no rank notices: what changes while it is read is
//! protected by the sequence counts of the records.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use farside_fabric::record::{
    Activity, ActivityKind, CONTEXTS, ContextRecord, DurationsReading, Peers, bucket_end_ns,
};
use farside_fabric::{Node, PeerState, Rank, SegmentId};
use farside_shm::Job;

use crate::lines::Lines;
use crate::process;
use crate::snapshot::{
    ActivityView, ContextView, Durations, Entered, HeldView, Kind, NameView, PeerView, RankState,
    RankView, SilenceView, Snapshot, WordView,
};

/// What members of teams have entered, by the segment and the place of the count, and the members.
type Lists = HashMap<(u64, u64, Option<Vec<u32>>), Entered>;

/// How far around an awaited word other words are looked at, and how many are kept.
const AROUND: u64 = 256;
const OTHERS: usize = 4;

/// Reads snapshots of a job.
pub struct Reader {
    /// The memories of the job's nodes on this machine.
    memories: Vec<Arc<Job>>,
    lines: Lines,
}

impl Reader {
    /// A reader of a job with these memories.
    pub fn new(memories: Vec<Arc<Job>>) -> Reader {
        Reader { memories, lines: Lines::default() }
    }

    /// Reads the job.
    pub fn read(&self) -> Snapshot {
        let Some(first) = self.memories.first() else { return Snapshot::default() };
        let topology = first.topology();
        let mut lists = Lists::default();
        let ranks = topology.all().iter().map(|&rank| self.rank(rank, &mut lists)).collect();
        let names = topology.all().iter().flat_map(|&rank| {
            self.memory_of(rank).map(|job| job.rank_record(rank).names()).unwrap_or_default()
        });
        let mut names: Vec<NameView> = names
            .map(|name| NameView { segment: name.segment.0, offset: name.offset, name: name.name })
            .collect();
        names.sort_by_key(|name| (name.segment, name.offset));
        names.dedup_by_key(|name| (name.segment, name.offset));
        let processors = first.processors();
        let silences = topology.all().iter().filter_map(|&rank| {
            let (peer, since_ns) = self.memory_of(rank)?.rank_record(rank).silence()?;
            Some(SilenceView { node: topology.node_of(rank).0, peer: peer.0, since_ns })
        });
        let silences = silences.collect();
        Snapshot { taken_ns: farside_shm::now_ns(), processors, ranks, names, silences }
    }

    /// The memory of the node that a rank is on, if it is on this machine.
    fn memory_of(&self, rank: Rank) -> Option<&Arc<Job>> {
        let has_joined =
            |job: &&Arc<Job>| job.rank_record(rank).process.load(Ordering::Relaxed) != 0;
        self.memories.iter().find(has_joined)
    }

    fn rank(&self, rank: Rank, lists: &mut Lists) -> RankView {
        let first = &self.memories[0];
        let node = first.topology().node_of(rank);
        let memory = self.memory_of(rank);
        let job = memory.unwrap_or(first);
        let state = match job.peer_state(rank) {
            PeerState::Starting => RankState::Starting,
            PeerState::Alive => RankState::Alive,
            PeerState::Left => RankState::Left,
            PeerState::Lost(how) => RankState::Lost(how.to_string()),
        };
        let mut view = RankView { rank: rank.0, node: node.0, state, ..RankView::default() };
        let Some(job) = memory else { return view };
        let record = job.rank_record(rank);
        view.is_read = true;
        view.process = record.process.load(Ordering::Relaxed);
        view.system = process::view(view.process);
        view.joined_ns = record.joined_ns.load(Ordering::Relaxed);
        view.unrecorded = record.unrecorded.load(Ordering::Relaxed);
        let contexts = (0..CONTEXTS).map(|each| job.context_record(rank, each));
        let read = |context| self.context(rank, view.process, context, lists);
        view.contexts = contexts.filter_map(read).collect();
        view
    }

    fn context(
        &self,
        rank: Rank,
        process: u32,
        record: &ContextRecord,
        lists: &mut Lists,
    ) -> Option<ContextView> {
        let reading = record.read()?;
        let (peers, is_there) = (peers_of(record), record.owner() != 0);
        if !is_there && peers.is_empty() {
            return None;
        }
        let activity = reading.activity.map(|activity| {
            let place = self.lines.name(process, &activity.place);
            let entered = self.entered(&activity, lists);
            self.activity(rank, activity, place, reading.seen, entered)
        });
        Some(ContextView {
            is_there,
            sequence: reading.sequence,
            activity,
            since_ns: reading.since_ns,
            looked_ns: reading.looked_ns,
            held: reading
                .held
                .into_iter()
                .map(|held| HeldView {
                    segment: held.segment.0,
                    offset: held.offset.into(),
                    place: held.place.to_string(),
                })
                .collect(),
            operations: peers.iter().map(|peer| peer.operations).sum(),
            bytes: peers.iter().map(|peer| peer.bytes).sum(),
            waits: reading.waits,
            yields: reading.yields,
            sleeps: reading.parks,
            repetitions: reading.repeats,
            waited: durations(&reading.waited),
            peers,
        })
    }

    /// The ranks that can end a wait; `None` for all.
    fn peers(&self, activity: &Activity) -> Option<Vec<u32>> {
        match &activity.peers {
            Peers::All => None,
            Peers::One(peer) => Some(vec![peer.0]),
            Peers::Agent(node) => {
                Some(self.of_node(*node).into_iter().map(|rank| rank.0).collect())
            }
            Peers::Among(set) => Some(set.iter().map(|rank| rank.0).collect()),
        }
    }

    /// How many collectives the members of a team have entered, read once for all who wait there.
    fn entered(&self, activity: &Activity, lists: &mut Lists) -> Entered {
        if activity.kind != ActivityKind::Collective {
            return Entered::default();
        }
        let (segment, root, peers) = (activity.segment, activity.root, self.peers(activity));
        let members: Vec<Rank> = match &peers {
            None => self.memories[0].topology().all().to_vec(),
            Some(peers) => peers.iter().copied().map(Rank).collect(),
        };
        let count = |member: Rank| Some((member.0, self.word(member, segment, root, 8)?));
        let read = || Entered::new(members.into_iter().filter_map(count).collect());
        lists.entry((segment.0, root, peers)).or_insert_with(read).clone()
    }

    fn activity(
        &self,
        rank: Rank,
        activity: Activity,
        place: String,
        seen: u64,
        entered: Entered,
    ) -> ActivityView {
        let peers = self.peers(&activity);
        let word = activity.word.map(|word| WordView {
            segment: word.segment.0,
            offset: word.offset,
            bytes: word.bytes,
            seen,
            now: self.word(rank, word.segment, word.offset, word.bytes),
            others: match activity.kind {
                ActivityKind::Word => self.others(rank, word.segment, word.offset, word.bytes),
                _ => Vec::new(),
            },
        });
        ActivityView {
            kind: kind_of(activity.kind),
            name: activity.name.into_owned(),
            segment: activity.segment.0,
            number: activity.number,
            size: activity.size,
            place,
            word,
            peers,
            has_limit: activity.has_limit,
            entered,
        }
    }

    fn of_node(&self, node: Node) -> Vec<Rank> {
        let topology = self.memories[0].topology();
        topology.all().iter().copied().filter(|&rank| topology.node_of(rank) == node).collect()
    }

    fn word(&self, rank: Rank, segment: SegmentId, offset: u64, bytes: u8) -> Option<u64> {
        let memory = self.memory_of(rank)?.segment(rank, segment).ok()?;
        let mut word = [0; 8];
        let read = word.get_mut(..bytes.into())?;
        memory.get(offset, read).then(|| u64::from_le_bytes(word))
    }

    /// Reads the words around one, and returns those that are not zero.
    fn others(&self, rank: Rank, segment: SegmentId, offset: u64, bytes: u8) -> Vec<(u64, u64)> {
        let step = u64::from(bytes.max(4));
        let around = offset.saturating_sub(AROUND).next_multiple_of(step)..offset + AROUND;
        around
            .step_by(step as usize)
            .filter(|&each| each != offset)
            .filter_map(|each| Some((each, self.word(rank, segment, each, bytes)?)))
            .filter(|&(_, value)| value != 0)
            .take(OTHERS)
            .collect()
    }
}

fn peers_of(record: &ContextRecord) -> Vec<PeerView> {
    let known = record.known.iter().zip(&record.peers);
    let mut peers: Vec<PeerView> = known
        .filter_map(|(known, count)| {
            let rank = known.load(Ordering::Relaxed).checked_sub(1)?;
            let [puts, gets, accumulates, atomics, calls] =
                [&count.puts, &count.gets, &count.accumulates, &count.atomics, &count.calls]
                    .map(|counter| counter.load(Ordering::Relaxed));
            let bytes = [&count.put_bytes, &count.get_bytes, &count.accumulate_bytes]
                .map(|counter| counter.load(Ordering::Relaxed));
            let operations = puts + gets + accumulates + atomics + calls;
            Some(PeerView { rank, operations, bytes: bytes.into_iter().sum() })
        })
        .collect();
    peers.sort_by_key(|peer| peer.rank);
    peers
}

fn kind_of(kind: ActivityKind) -> Kind {
    match kind {
        ActivityKind::Word => Kind::Word,
        ActivityKind::Lock => Kind::Lock,
        ActivityKind::Collective => Kind::Collective,
        ActivityKind::Transfer => Kind::Transfer,
        ActivityKind::Flush => Kind::Flush,
        ActivityKind::Call => Kind::Call,
        ActivityKind::Epoch => Kind::Epoch,
        ActivityKind::Pause => Kind::Pause,
        ActivityKind::Poll => Kind::Poll,
    }
}

/// Leaves out the buckets that are empty.
fn durations(reading: &DurationsReading) -> Durations {
    let counts = reading.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
    let buckets = counts.map(|(bucket, &count)| (bucket_end_ns(bucket), count.into())).collect();
    Durations { total_ns: reading.total_ns, buckets }
}
