//! Packets on their way: what is being filled, what waits for room, what has arrived.
//!
//! Each rank has room for some packets of every member, and a word for each of these places. A
//! packet is put together with a signal that writes its number and length to that word; the
//! receiver copies it out and then adds one to the number of packets that the sender knows to be
//! taken, so that the sender knows where there is room.

use std::collections::VecDeque;

use farside_fabric::{Error, ErrorClass, Rank, Result};
use farside_rma::{AwaitedWord, Context, Place, Plain, Team, Window, or_free};

use super::steps;
use super::{Handle, Packing, Replies};

/// The words of each rank. That the root has found the end of a run:
pub(super) const DONE: usize = 0;
/// How many items this rank has pushed,
pub(super) const PUSHED: usize = 1;
/// and handled;
pub(super) const HANDLED: usize = 2;
/// the last run in which it will push nothing more by itself.
pub(super) const CLOSED: usize = 3;
/// At the root: the sum of what was reported, and how many reports have come.
pub(super) const AHEAD: usize = 4;
pub(super) const REPORTS: usize = 5;
/// A member that cannot go on, plus one, and above that the class of its error.
const BROKEN: usize = 6;
/// For each member: how many packets it has taken, and, behind all of these, its packets here.
const MEMBERS: usize = 8;

const NOBODY: u32 = u32::MAX;
/// A word of a packet has its number above so many bits, and its length below.
const LENGTH_BITS: u32 = 32;
/// The word of a member that cannot go on has the class of its error above so many bits.
const RANK_BITS: u32 = 32;

struct Peer<T> {
    rank: Rank,
    filling: Vec<T>,
    /// Full packets without room.
    waiting: VecDeque<Vec<T>>,
    /// How many packets were sent, and how many of them it has taken.
    sent: u64,
    taken: u64,
    received: u64,
}

type Until = Box<dyn Fn(u64) -> bool>;

pub(super) struct Packets<'w, T> {
    pub(super) team: Team<'w>,
    packing: Packing,
    data: Window<T>,
    control: Window<u64>,
    peers: Vec<Peer<T>>,
    /// The members, by rank.
    members: Vec<u32>,
    pub(super) run: u64,
    pub(super) pushed: u64,
    pub(super) handled: u64,
    /// What the words say that others read, and by how much more was pushed than handled at the
    /// last report.
    said: (u64, u64),
    pub(super) reported: u64,
    /// A packet that was copied out, and packets that were sent: their memory is used again.
    inbox: Vec<T>,
    spare: Vec<Vec<T>>,
    is_broken: bool,
}

impl<'w, T: Plain> Packets<'w, T> {
    pub(super) fn new(team: Team<'w>, packing: Packing) -> Result<Packets<'w, T>> {
        team.context().note_unseen("accesses inside aggregators");
        let size = team.size();
        let data = size
            .checked_mul(packing.packets)
            .and_then(|packets| packets.checked_mul(packing.items))
            .ok_or_else(|| {
                Error::InvalidArgument(format!("{packing:?} is too large for memory"))
            })?;
        let data = team.window::<T>(data)?;
        let (data, control) = or_free(
            data,
            |data| data.free(&team),
            |_| team.window::<u64>(MEMBERS + size * (1 + packing.packets)),
        )?;
        let mut members = vec![NOBODY; team.context().size() as usize];
        for (member, rank) in team.members().iter().enumerate() {
            members[rank.index()] = member as u32;
        }
        let peer = |&rank: &Rank| Peer {
            rank,
            filling: Vec::with_capacity(packing.items),
            waiting: VecDeque::new(),
            sent: 0,
            taken: 0,
            received: 0,
        };
        let peers = team.members().iter().map(peer).collect();
        let inbox = vec![T::new_zeroed(); packing.items];
        let (run, pushed, handled, said, reported) = (0, 0, 0, (0, 0), 0);
        let (spare, is_broken) = (Vec::new(), false);
        Ok(Packets {
            team,
            packing,
            data,
            control,
            peers,
            members,
            run,
            pushed,
            handled,
            said,
            reported,
            inbox,
            spare,
            is_broken,
        })
    }

    pub(super) fn packing(&self) -> Packing {
        self.packing
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Notes that this rank cannot go on with a run if something has failed, and tells the others:
    /// they would wait for it.
    pub(super) fn or_break<R>(&mut self, result: Result<R>) -> Result<R> {
        let Err(error) = &result else { return result };
        let is_known = matches!(error, Error::RankLost { .. } | Error::PeerFailed { .. });
        if !std::mem::replace(&mut self.is_broken, true) && !is_known {
            let class = (error.class().code() as u64) << RANK_BITS;
            let word = class | (u64::from(self.context().rank().0) + 1);
            for member in 0..self.peers.len() {
                // Who cannot be told is lost, and that all hear.
                let _ = self.context().signal(self.word(member, BROKEN), word);
            }
        }
        result
    }

    pub(super) fn free(self) -> Result<()> {
        // What one of them leaves behind is no reason to keep the other.
        let freed = self.data.free(&self.team);
        self.control.free(&self.team)?;
        freed
    }

    /// Begins a run. Whoever is still in the last one must not get packets of this one.
    #[track_caller]
    pub(super) fn begin(&mut self) -> Result<()> {
        self.run += 1;
        // A member that cannot go on comes, too: others may not have heard of it yet, and wait.
        // When it has come, they have.
        for peer in self.peers.iter().filter(|_| self.is_broken) {
            let _ = self.context().flush(peer.rank);
        }
        let met = self.team.barrier();
        let broken = self.context().load(self.own(BROKEN));
        if self.is_broken || broken.as_ref().is_ok_and(|&broken| broken != 0) {
            return Err(Error::InvalidArgument(
                "this aggregator was left in the middle of a run; free it and make another".into(),
            ));
        }
        self.or_break(met.and(broken.map(drop)))
    }

    /// Goes on as if so many packets had gone from everybody to everybody. Collective.
    pub(super) fn renumber(&mut self, number: u64) -> Result<()> {
        for peer in &mut self.peers {
            (peer.sent, peer.taken, peer.received) = (number, number, number);
        }
        for member in 0..self.peers.len() {
            self.context().swap(self.own(Self::taken_by(member)), number)?;
        }
        self.team.barrier()
    }

    pub(super) fn context(&self) -> &'w Context {
        self.team.context()
    }

    pub(super) fn word(&self, member: usize, word: usize) -> Place<'_, u64> {
        self.control.at(self.peers[member].rank, word)
    }

    pub(super) fn own(&self, word: usize) -> Place<'_, u64> {
        self.word(self.team.index(), word)
    }

    fn taken_by(member: usize) -> usize {
        MEMBERS + member
    }

    /// The place of a packet of a member, among all packets of all members.
    fn place_of(&self, member: usize, number: u64) -> usize {
        let packets = self.packing.packets;
        member * packets + (number % packets as u64) as usize
    }

    fn header(&self, place: usize) -> usize {
        MEMBERS + self.peers.len() + place
    }

    #[inline]
    pub(super) fn member(&self, rank: Rank) -> Result<usize> {
        match self.members.get(rank.index()) {
            Some(&member) if member != NOBODY => Ok(member as usize),
            _ => Err(self.not_a_member(rank)),
        }
    }

    #[cold]
    fn not_a_member(&self, rank: Rank) -> Error {
        Error::InvalidArgument(format!(
            "{rank} is not a member of this aggregator's team, which has {} ranks",
            self.peers.len()
        ))
    }

    /// Adds an item to the packet of a member; returns whether that is full now.
    #[inline]
    pub(super) fn add(&mut self, member: usize, item: T) -> bool {
        // At once: when the packet goes, what this item is due to may count as handled already.
        self.pushed += u64::from(!self.context().omits(steps::COUNT_PUSHED));
        let filling = &mut self.peers[member].filling;
        filling.push(item);
        filling.len() == self.packing.items
    }

    /// Sends the full packet of a member, and waits until there is room for it. What arrives
    /// meanwhile is handled.
    #[cold]
    #[track_caller]
    pub(super) fn send_full(
        &mut self,
        member: usize,
        handle: &mut Handle<'_, 'w, T>,
    ) -> Result<()> {
        self.queue(member)?;
        loop {
            self.receive(handle)?;
            self.send_waiting(member)?;
            if self.peers[member].waiting.is_empty() {
                return Ok(());
            }
            self.wait(&[])?;
        }
    }

    /// Closes the packet of a member that is being filled, and sends it if there is room.
    pub(super) fn queue(&mut self, member: usize) -> Result<()> {
        let context = self.context();
        let empty = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.packing.items));
        let peer = &mut self.peers[member];
        let full = std::mem::replace(&mut peer.filling, empty);
        if context.omits(steps::COUNT_PUSHED) {
            self.pushed += full.len() as u64;
        }
        peer.waiting.push_back(full);
        self.send_waiting(member)
    }

    /// Closes all packets that are not empty. Returns whether there were any.
    pub(super) fn queue_all(&mut self) -> Result<bool> {
        let mut any = false;
        for member in 0..self.peers.len() {
            if !self.peers[member].filling.is_empty() {
                any = true;
                self.queue(member)?;
            }
        }
        Ok(any)
    }

    pub(super) fn send_all(&mut self) -> Result<()> {
        (0..self.peers.len()).try_for_each(|member| self.send_waiting(member))
    }

    /// Whether everything was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.peers.iter().all(|peer| peer.filling.is_empty() && peer.waiting.is_empty())
    }

    fn send_waiting(&mut self, member: usize) -> Result<()> {
        let sent = self.try_send(member);
        self.or_break(sent)
    }

    fn try_send(&mut self, member: usize) -> Result<()> {
        let (context, me) = (self.context(), self.team.index());
        let (awaits_room, bits) = (!context.omits(steps::AWAIT_ROOM), number_bits(context));
        while !self.peers[member].waiting.is_empty() {
            let room = self.packing.packets as u64;
            if awaits_room && self.peers[member].sent - self.peers[member].taken >= room {
                let taken = context.load(self.own(Self::taken_by(member)))?;
                self.peers[member].taken = taken;
                if self.peers[member].sent - taken >= room {
                    return Ok(());
                }
            }
            if !context.omits(steps::COUNT_FIRST) {
                self.say()?;
            }
            let peer = &mut self.peers[member];
            let Some(mut packet) = peer.waiting.pop_front() else { break };
            let (rank, number) = (peer.rank, peer.sent);
            peer.sent += 1;
            let place = self.place_of(me, number);
            let to = self.data.at(rank, place * self.packing.items);
            let signal = self.control.at(rank, self.header(place));
            context.put_signal(&packet, to, header(number, packet.len(), bits), signal)?;
            packet.clear();
            self.spare.push(packet);
        }
        Ok(())
    }

    /// Says how many items were pushed, and then how many were handled. A swap, unlike a store, has
    /// happened when it returns.
    pub(super) fn say(&mut self) -> Result<()> {
        let context = self.context();
        if self.said.0 != self.pushed {
            context.swap(self.own(PUSHED), self.pushed)?;
        }
        if self.said.1 != self.handled {
            context.swap(self.own(HANDLED), self.handled)?;
        }
        self.said = (self.pushed, self.handled);
        Ok(())
    }

    /// Handles what has arrived. Returns whether anything has.
    pub(super) fn receive(&mut self, handle: &mut Handle<'_, 'w, T>) -> Result<bool> {
        let mut any = false;
        for member in 0..self.peers.len() {
            loop {
                let taken = self.take(member);
                let Some(count) = self.or_break(taken)? else { break };
                any = true;
                let (from, inbox) = (self.peers[member].rank, std::mem::take(&mut self.inbox));
                handle(&mut Replies { packets: self }, from, &inbox[..count]);
                self.inbox = inbox;
                self.handled += count as u64;
            }
        }
        Ok(any)
    }

    /// Copies the next packet of a member into the inbox, if it is there, and returns its length.
    fn take(&mut self, member: usize) -> Result<Option<usize>> {
        let (context, me) = (self.context(), self.team.index());
        let Peer { rank, received: number, .. } = self.peers[member];
        let place = self.place_of(member, number);
        let word = context.load(self.own(self.header(place)))?;
        let Some(count) = length(word, number, number_bits(context)) else { return Ok(None) };
        let packet = self.inbox.get_mut(..count).ok_or_else(|| {
            Error::InvalidArgument(format!("a packet of {rank} has {count} items"))
        })?;
        let from = self.data.at(self.team.members()[me], place * self.packing.items);
        context.get(from, packet)?;
        self.peers[member].received += 1;
        let taken = self.word(member, Self::taken_by(me));
        match context.omits(steps::ADD_TAKEN) {
            false => context.add(taken, 1)?,
            true => context.signal(taken, number + 1)?,
        }
        Ok(Some(count))
    }

    /// Waits until something has arrived, there is room for something that waits, or one of
    /// `further` words of this rank has changed.
    #[track_caller]
    pub(super) fn wait(&mut self, further: &[(usize, u64)]) -> Result<()> {
        let bits = number_bits(self.context());
        let mut awaited: Vec<(usize, Until)> = vec![(BROKEN, Box::new(|word| word != 0))];
        for (member, peer) in self.peers.iter().enumerate() {
            let (number, taken) = (peer.received, peer.taken);
            let word = self.header(self.place_of(member, number));
            awaited.push((word, Box::new(move |word| length(word, number, bits).is_some())));
            if !peer.waiting.is_empty() {
                awaited.push((Self::taken_by(member), Box::new(move |now| now != taken)));
            }
        }
        for &(word, known) in further {
            awaited.push((word, Box::new(move |now| now != known)));
        }
        let words: Vec<AwaitedWord<'_>> =
            awaited.iter().map(|(word, until)| (self.own(*word), &**until)).collect();
        let waited = self.context().wait_any_among(self.team.members(), &words);
        let waited = waited.and_then(|(which, word)| match which {
            0 => Err(has_broken(word)),
            _ => Ok(()),
        });
        self.or_break(waited)
    }
}

/// The error of a rank that was told by a word that another cannot go on.
fn has_broken(word: u64) -> Error {
    let class = ErrorClass::from_code((word >> RANK_BITS) as i32).unwrap_or(ErrorClass::Internal);
    Error::PeerFailed { rank: Rank((word as u32).wrapping_sub(1)), class }
}

/// The word of a packet. Its number begins again, and what was in its place before has another one.
fn header(number: u64, count: usize, bits: u32) -> u64 {
    narrow(number + 1, bits) << LENGTH_BITS | count as u64
}

fn narrow(number: u64, bits: u32) -> u64 {
    number & ((1 << bits) - 1)
}

fn number_bits(context: &Context) -> u32 {
    if context.omits(steps::WIDEN_NUMBERS) { 2 } else { 32 }
}

/// The length of packet `number`, if `word` is its.
fn length(word: u64, number: u64, bits: u32) -> Option<usize> {
    let is_it = word >> LENGTH_BITS == narrow(number + 1, bits);
    // Zero is what is there before the first packet, and no packet is empty.
    let count = word & u64::from(u32::MAX);
    (is_it && count != 0).then_some(count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run begins on no member, or on all, whatever each of them has heard by then.
    #[test]
    fn a_member_that_cannot_go_on_keeps_no_other_waiting() {
        for nodes in [1, 2] {
            for _ in 0..20 {
                let local = farside::Local::new(2).unwrap().nodes(nodes);
                let ended = local.run(|world| {
                    let mut packets = Packets::<u8>::new(world.into(), Packing::of(1, 2))?;
                    world.barrier()?;
                    if world.rank() == Rank(0) {
                        let failed = Error::Program("it fails".into());
                        packets.or_break::<()>(Err(failed)).unwrap_err();
                    }
                    let began = packets.begin().unwrap_err().to_string();
                    assert!(began.contains("left in the middle of a run"), "{began}");
                    packets.free()
                });
                ended.unwrap();
            }
        }
    }

    #[test]
    fn words_tell_packets_apart_past_the_end_of_their_numbers() {
        for number in [0, 1, 7, (1 << 32) - 2, (1 << 32) - 1, 1 << 32, (1 << 33) + 5] {
            assert_eq!(length(header(number, 3, 32), number, 32), Some(3));
            assert_eq!(length(header(number, 3, 32), number + 1, 32), None);
            assert_eq!(length(header(number, 3, 32), number + 4, 32), None);
            assert_eq!(length(0, number, 32), None);
        }
        assert_eq!(length(header(5, u32::MAX as usize, 32), 5, 32), Some(u32::MAX as usize));
    }

    #[test]
    fn two_bits_tell_three_places_apart() {
        for number in 0..9 {
            assert_eq!(length(header(number, 3, 2), number, 2), Some(3));
            for later in 1..4 {
                assert_eq!(length(header(number, 3, 2), number + later, 2), None);
            }
        }
    }
}
