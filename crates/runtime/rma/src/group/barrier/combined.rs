//! Fence and barrier in one: each node learns how much was posted to it, waits until that much has
//! landed, and meets the others.
//!
//! Paper:     [ARMCI03] section 3.1.2, figures 2 and 3.
//! Differs:   counts are kept for each node, whose members are combined first; a phase sends only
//!            the counts that the other half needs; nodes beyond a power of two have a partner. A
//!            member with few targets awaits acknowledgements; if all do, half is left out.
//! State:     for each node 2 x (its ranks + log2 of the nodes + 2) messages of all counts, on its
//!            first rank; 1 word on every rank. Made by the first sync.
//! Invariant: when a member returns, all that any member posted before it called has landed.
//! Ordering:  as much has landed as was posted (`a_sync_that_does_not_wait_is_caught`), everywhere
//!            (`a_sync_that_does_not_meet_again_is_caught`), and all of it is members'
//!            (`a_sync_that_counts_strangers_is_caught`).
//! Cost:      log2 N messages and log2 N signals from each node, one after the other; all-fence and
//!            barrier take 2 (N - 1) + log2 N.
//! Checked:   `farside check sync/combined`: 3 ranks on 3 nodes exhaustively, after puts from each
//!            to each.

use std::cell::RefCell;

use farside_fabric::{Atomic, Error, Result, Width};
use zerocopy::IntoBytes;

use crate::group::Messages;
use crate::group::call::{Call, Step};
use crate::group::kinds::SyncKind;
use crate::group::member::Awaited;
use crate::group::nodes::Nodes;
use crate::group::shape::{dissemination, rounds};
use crate::group::steps;
use crate::operations::SignalAt;
use crate::segment::Traffic;
use crate::team::Team;

/// Every rank's first word: the sync that it was released from, and the bits of all members.
const RELEASED: usize = 0;
const HEAD: usize = 1;
/// A message begins with its flag and the bits of those it speaks for; counts follow.
const FLAG: usize = 0;
const BITS: usize = 1;
const COUNTS: usize = 2;
/// A member waits for the counts to be reached.
const NEEDED: u64 = 1;
/// A member posts from several threads, so that counts do not tell what has landed.
const UNSURE: u64 = 2;

/// Among more nodes nothing is counted: each member has a count for every node, and sends them all
/// around, so that they would take more time than acknowledgements, and memory by the square.
const NODES_MAX: u32 = 1024;

/// Returns when all members have called it and all that any of them has put before, to any rank,
/// has landed; and what became of this member's puts, where all have met whatever that is.
#[track_caller]
pub(crate) fn sync(team: &Team<'_>, kind: SyncKind) -> Result<Result<()>> {
    let Some(messages) = messages(team)? else {
        return team.flush_and_meet(Call::SYNC);
    };
    let step = team.enter(Call::SYNC)?;
    let (bits, flushed) = prepare(team, messages, kind);
    let syncs = &team.group().syncs;
    let round = syncs.get().wrapping_add(1);
    let sync = Sync { team, nodes: team.nodes(), messages, step, round };
    syncs.set(round);
    let counts = sync.nodes.ids.iter().map(|&node| team.context().issued_to(node));
    let mut message: Vec<u64> = std::iter::once(bits).chain(counts).collect();
    let bits =
        if sync.nodes.place == 0 { sync.lead(&mut message)? } else { sync.follow(&message)? };
    if bits & UNSURE != 0 {
        // Also if it fails, the others wait for this member.
        let all = team.context().flush_all();
        team.meet(&sync.step)?;
        return Ok(flushed.and(all));
    }
    Ok(flushed)
}

/// Returns the memory for messages, which the first sync allocates; `None` where the fabric does
/// not count what lands, where some ranks are no members or the nodes are too many, and where there
/// is no memory for it.
#[track_caller]
fn messages<'t>(team: &'t Team<'_>) -> Result<Option<&'t Messages>> {
    let (context, group) = (team.context(), team.group());
    if let Some(messages) = group.messages.get() {
        return Ok(messages.as_ref());
    }
    let is_all = group.size() == context.size() as usize;
    let counted = context.counts_landings()
        && (2..=NODES_MAX).contains(&context.topology().nodes())
        && (is_all || context.omits(steps::COUNT_ALL))
        && team.nodes().count() > 1;
    let made = if counted {
        let nodes = team.nodes();
        // As much for all, although most use none of it: lengths that differ have to be told.
        let set = (0..nodes.count()).map(|node| words_of_set(nodes, node)).max().unwrap_or(0);
        match team.segment((HEAD + 2 * set) as u64 * 8, 8, Traffic::Uncounted) {
            Ok(segment) => {
                let issued = nodes.ids.iter().map(|&node| context.issued_to(node)).collect();
                Some(Messages { segment, issued_last: RefCell::new(issued) })
            }
            Err(error @ (Error::RankLost { .. } | Error::Disagreement { .. })) => {
                return Err(error);
            }
            // All members hear that one of them has no memory or no name left.
            Err(_) => None,
        }
    } else {
        None
    };
    Ok(group.messages.get_or_init(|| made).as_ref())
}

/// Waits for what need not, or cannot, be counted; says what is left, and what became of that: the
/// others wait for this member also if a put of its was refused.
#[track_caller]
fn prepare(team: &Team<'_>, messages: &Messages, kind: SyncKind) -> (u64, Result<()>) {
    let (context, nodes) = (team.context(), team.nodes());
    let issued: Box<[u64]> = nodes.ids.iter().map(|&node| context.issued_to(node)).collect();
    let last = messages.issued_last.replace(issued.clone());
    let touched = issued.iter().zip(&last).filter(|(now, last)| now != last).count();
    let few = 2 * touched < rounds(nodes.count()) as usize;
    if !context.is_only() {
        return (UNSURE, Ok(()));
    }
    if kind == SyncKind::Direct || (kind == SyncKind::Auto && few) {
        return (0, context.flush_all());
    }
    // What stays on this node is not counted.
    let near = nodes.near.iter().map(|&member| team.group().members[member]);
    (NEEDED, near.map(|rank| context.flush(rank)).fold(Ok(()), Result::and))
}

struct Sync<'t, 'w> {
    team: &'t Team<'w>,
    nodes: &'t Nodes,
    messages: &'t Messages,
    step: Step,
    /// Its number among the combined syncs of the group.
    round: u32,
}

impl Sync<'_, '_> {
    fn follow(&self, message: &[u64]) -> Result<u64> {
        self.send(self.nodes.me, self.nodes.place - 1, message)?;
        let released = self.awaits(RELEASED, self.nodes.near[0])?;
        Ok(released & (NEEDED | UNSURE))
    }

    /// Does what the first rank of a node does for it.
    fn lead(&self, message: &mut [u64]) -> Result<u64> {
        let (team, nodes) = (self.team, self.nodes);
        for place in 1..nodes.near.len() {
            self.receive(nodes.near[place], place - 1, message, |_| true)?;
        }
        self.exchange(message)?;
        let bits = message[0];
        if bits == NEEDED {
            if !team.context().omits(steps::AWAIT_LANDINGS) {
                team.context().wait_landed(&team.group().members, message[1 + nodes.me])?;
            }
            if !team.context().omits(steps::MEET_AGAIN) {
                self.meet_again()?;
            }
        }
        let released = (u64::from(self.round) << 32) | bits;
        nodes.near[1..].iter().try_for_each(|&member| self.signal(member, RELEASED, released))?;
        Ok(bits)
    }

    /// Adds up the counts of all nodes, as far as they concern this one: in each phase, two halves
    /// exchange what the other half needs [ARMCI03 figure 2].
    fn exchange(&self, message: &mut [u64]) -> Result<()> {
        let (me, count, leaders) = (self.nodes.me, self.nodes.count(), &self.nodes.leaders);
        let power = power(count);
        let folded = self.nodes.near.len() - 1;
        let unfolded = folded + 1;
        if me >= power {
            let partner = me - power;
            self.send(partner, self.box_of(partner, 0), message)?;
            let said = self.take(leaders[partner], unfolded, 1)?;
            (message[0], message[1 + me]) = (said[0], said[1]);
            return Ok(());
        }
        let has_partner = me + power < count;
        if has_partner {
            self.receive(leaders[me + power], folded, message, |_| true)?;
        }
        for phase in (0..power.ilog2()).rev() {
            let partner = me ^ (1 << phase);
            // Nodes that agree with one half in the bits decided so far are that half's to add up.
            let concerns = |half: usize| move |node: usize| ((node % power) ^ half) >> phase == 0;
            let counts = (0..count).filter(|&node| concerns(partner)(node));
            let theirs: Vec<u64> =
                std::iter::once(message[0]).chain(counts.map(|node| message[1 + node])).collect();
            self.send(partner, self.box_of(partner, 2 + phase as usize), &theirs)?;
            let number = unfolded + 1 + phase as usize;
            self.receive(leaders[partner], number, message, concerns(me))?;
        }
        if has_partner {
            let answer = [message[0], message[1 + me + power]];
            self.send(me + power, self.box_of(me + power, 1), &answer)?;
        }
        Ok(())
    }

    /// Lets the first ranks of the nodes meet once more [ARMCI03 figure 3].
    fn meet_again(&self) -> Result<()> {
        let nodes = self.nodes;
        for exchange in dissemination(nodes.me, nodes.count()) {
            let flag = |node| self.set_start(node) + exchange.round as usize;
            let from = nodes.leaders[exchange.from];
            let tag = self.step.tag(self.round);
            self.signal(nodes.leaders[exchange.to], flag(exchange.to), tag)?;
            let word = self.awaits(flag(nodes.me), from)?;
            self.team.check_tag(&self.step, word, from)?;
        }
        Ok(())
    }

    /// Returns the number, at the first rank of `node`, of a box beyond those of its own ranks.
    fn box_of(&self, node: usize, beyond: usize) -> usize {
        self.nodes.sizes[node] - 1 + beyond
    }

    fn send(&self, to: usize, number: usize, message: &[u64]) -> Result<()> {
        let leader = self.team.group().members[self.nodes.leaders[to]];
        let start = self.start(to, number);
        let segment = &self.messages.segment;
        let flag = SignalAt::store(segment, bytes(start + FLAG), self.step.tag(self.round));
        let (context, data) = (self.team.context(), bytes(start + BITS));
        context.put_signal_at(segment, leader, data, message.as_bytes(), flag)
    }

    /// Waits for a message and adds it to what is known: its bits, and its counts for the nodes
    /// that it `concerns`.
    fn receive(
        &self,
        from: usize,
        number: usize,
        message: &mut [u64],
        concerns: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let slots: Vec<usize> = (0..self.nodes.count()).filter(|&node| concerns(node)).collect();
        let said = self.take(from, number, slots.len())?;
        message[0] |= said[0];
        for (node, count) in slots.into_iter().zip(&said[1..]) {
            message[1 + node] = message[1 + node].wrapping_add(*count);
        }
        Ok(())
    }

    fn take(&self, from: usize, number: usize, counts: usize) -> Result<Vec<u64>> {
        let start = self.start(self.nodes.me, number);
        let word = self.awaits(start + FLAG, from)?;
        self.team.check_tag(&self.step, word, from)?;
        let mut said = vec![0; 1 + counts];
        let context = self.team.context();
        let (segment, data) = (&self.messages.segment, bytes(start + BITS));
        context.get_at(segment, context.rank(), data, said.as_mut_bytes())?;
        Ok(said)
    }

    /// Waits until a word of this rank's messages bears this sync's number.
    fn awaits(&self, word: usize, from: usize) -> Result<u64> {
        let (segment, offset) = (&self.messages.segment, bytes(word));
        let awaited = Awaited { segment, offset, from: Some(from) };
        self.team.await_at(&self.step, awaited, &|word| (word >> 32) as u32 == self.round)
    }

    fn signal(&self, member: usize, word: usize, value: u64) -> Result<()> {
        let (group, op) = (self.team.group(), Atomic::Store(value.into()));
        let (segment, rank) = (&self.messages.segment, group.members[member]);
        self.team.context().post_at(segment, rank, bytes(word), Width::W64, op)
    }

    /// Returns where this sync's set begins at the first rank of a node. Two sets are used in turn.
    fn set_start(&self, node: usize) -> usize {
        let alternates = !self.team.context().omits(steps::ALTERNATE);
        let set = if alternates { self.round as usize % 2 } else { 0 };
        HEAD + set * words_of_set(self.nodes, node)
    }

    /// Returns where a box begins at the first rank of a node.
    fn start(&self, node: usize, number: usize) -> usize {
        let flags = rounds(self.nodes.count()) as usize;
        self.set_start(node) + flags + number * box_words(self.nodes)
    }
}

/// Returns the largest power of two that is not larger.
fn power(count: usize) -> usize {
    1 << count.ilog2()
}

fn box_words(nodes: &Nodes) -> usize {
    COUNTS + nodes.count()
}

/// Returns how many words one set takes at the first rank of a node: the flags of the last meeting;
/// boxes for its other ranks, to and from a partner, and for the phases.
fn words_of_set(nodes: &Nodes, node: usize) -> usize {
    let (count, ranks) = (nodes.count(), nodes.sizes[node]);
    let boxes = ranks - 1 + 2 + power(count).ilog2() as usize;
    rounds(count) as usize + boxes * box_words(nodes)
}

fn bytes(words: usize) -> u64 {
    words as u64 * 8
}
