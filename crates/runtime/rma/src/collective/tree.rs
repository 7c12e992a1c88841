//! Collectives across nodes: messages along a binomial tree, or around a ring in doubling steps.
//!
//! Paper:     the tree of [BST97] section 3 (parent by clearing the leftmost 1 bit); the gather of
//!            [ARMCI03] figure 2, for any number of members.
//! Differs:   members are numbered from the root on around a ring, so that a member's partners are
//!            always 2^k away, whatever the root: log2 N channels in either direction serve all
//!            collectives. Reductions clear the rightmost 1 bit instead, from member 0 on: each
//!            subtree is a run of members, so that folds keep their order.
//! State:     2 x log2 N channels of two 256 KiB buffers and three words on every member.
//! Invariant: a channel holds at most two messages; message n is written only after n - 2 was
//!            taken.
//! Ordering:  a message is put before its flag is signalled (put_signal), and taken before the
//!            sender hears so (`collectives_in_a_row_do_not_mix`).
//! Cost:      for each 256 KiB: broadcast and reduce N - 1 messages in log2 N steps, all-reduce
//!            both, and a reduce to another root than member 0 at most log2 N more; all-gather and
//!            scan log2 N messages from each member, 1 more if exclusive; all-to-all log2 N of half
//!            the data. Each message has 1 acknowledging signal.
//! Checked:   conformance suite on a topology of several nodes, with thread and simulated ranks;
//!            `farside check collective`: 3 ranks on 3 nodes exhaustively.

use std::ops::Range;

use farside_fabric::{Atomic, Result, Width};

use crate::group::area::{self as at, MESSAGE_BYTES};
use crate::group::call::Kind;
use crate::group::call::Step;
use crate::group::{children, neighbour, parent, rounds};
use crate::operations::SignalAt;
use crate::team::Team;

const MESSAGE: usize = MESSAGE_BYTES as usize;

pub(crate) fn broadcast(team: &Team<'_>, step: &Step, root: usize, data: &mut [u8]) -> Result<()> {
    let tree = Tree::new(team, root);
    for range in chunks(data.len(), MESSAGE) {
        if let Some(round) = tree.parent {
            receive(team, step, true, round, &mut data[range.clone()])?;
        }
        for round in tree.children() {
            send(team, step, true, round, &data[range.clone()])?;
        }
    }
    Ok(())
}

/// Folds all members' data into the root's; what the others have afterwards is unspecified.
pub(crate) fn reduce(
    team: &Team<'_>,
    step: &Step,
    root: usize,
    element: usize,
    data: &mut [u8],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    let (size, me) = (team.group().size(), team.group().me);
    // As many as this member's subtree has, a power of two, unless the members end before.
    let run = if me == 0 { size } else { bit(me.trailing_zeros()) };
    let chunk = (MESSAGE / element).max(1) * element;
    let mut theirs = vec![0; chunk.min(data.len())];
    for range in chunks(data.len(), chunk) {
        let (data, theirs) = (&mut data[range.clone()], &mut theirs[..range.len()]);
        for round in (0..rounds(run)).take_while(|&round| me + bit(round) < size) {
            receive(team, step, false, round, theirs)?;
            fold(data, theirs);
        }
        if me > 0 {
            send(team, step, false, me.trailing_zeros(), data)?;
        }
        hand_on(team, step, root, data)?;
    }
    Ok(())
}

/// Returns how far away a partner in a round is, on the ring.
fn bit(round: u32) -> usize {
    1 << round
}

/// Passes what member 0 has on to the root: by 2^k members for each 1 bit of its number.
fn hand_on(team: &Team<'_>, step: &Step, root: usize, data: &mut [u8]) -> Result<()> {
    let me = team.group().me;
    let mut holder = 0;
    for round in (0..usize::BITS).filter(|&round| root & bit(round) != 0) {
        let next = holder | bit(round);
        if me == holder {
            send(team, step, true, round, data)?;
        } else if me == next {
            receive(team, step, true, round, data)?;
        }
        holder = next;
    }
    Ok(())
}

pub(crate) fn all_gather(team: &Team<'_>, step: &Step, mine: &[u8], all: &mut [u8]) -> Result<()> {
    let (size, me, block) = (team.group().members.len(), team.group().me, mine.len());
    // Blocks are collected from this member on upwards, and turned into place at the end.
    all[..block].copy_from_slice(mine);
    let mut have = 1;
    for round in 0..rounds(size) {
        let count = have.min(size - have);
        let (known, fresh) = all.split_at_mut(have * block);
        for range in chunks(count * block, MESSAGE) {
            send(team, step, false, round, &known[range.clone()])?;
            receive(team, step, false, round, &mut fresh[range])?;
        }
        have += count;
    }
    all.rotate_right(me * block);
    Ok(())
}

pub(crate) fn all_to_all(
    team: &Team<'_>,
    step: &Step,
    send_: &[u8],
    receive_: &mut [u8],
) -> Result<()> {
    let (size, me) = (team.group().size(), team.group().me);
    let block = send_.len() / size;
    // Block i has to go i members up the ring; in round k those move on whose i has bit k.
    receive_.copy_from_slice(send_);
    receive_.rotate_left(me * block);
    let mut message = team.group().buffer.borrow_mut();
    for round in 0..rounds(size) {
        let movers = || (0..size).filter(move |to| to & bit(round) != 0);
        for range in chunks(movers().count() * block, MESSAGE) {
            message.clear();
            let cuts =
                || movers().enumerate().map(|(at, to)| MessagePart::new(at, to, block, &range));
            for cut in cuts() {
                message.extend_from_slice(&receive_[cut.of_block]);
            }
            send(team, step, true, round, &message)?;
            receive(team, step, true, round, &mut message)?;
            for cut in cuts() {
                receive_[cut.of_block].copy_from_slice(&message[cut.of_message]);
            }
        }
    }
    // Block i has come from i members down the ring.
    for low in 0..size / 2 {
        let (front, back) = receive_.split_at_mut((size - 1 - low) * block);
        front[low * block..(low + 1) * block].swap_with_slice(&mut back[..block]);
    }
    receive_.rotate_right((me + 1) % size * block);
    Ok(())
}

/// The part of a block that goes in one message, among blocks that are sent one after the other.
struct MessagePart {
    of_block: Range<usize>,
    of_message: Range<usize>,
}

impl MessagePart {
    /// Block `to` is the one with number `at` of those that are sent; the message holds `range` of
    /// all their bytes.
    fn new(at: usize, to: usize, block: usize, range: &Range<usize>) -> MessagePart {
        let start = (at * block).clamp(range.start, range.end);
        let end = ((at + 1) * block).clamp(range.start, range.end);
        let within = |byte: usize| to * block + byte - at * block;
        let of_block = if start < end { within(start)..within(end) } else { 0..0 };
        MessagePart { of_block, of_message: start - range.start..end - range.start }
    }
}

/// Replaces this member's data by the fold of that of all members up to it; for an exclusive scan,
/// before it, which leaves the first member's as it is.
pub(crate) fn scan(
    team: &Team<'_>,
    step: &Step,
    element: usize,
    data: &mut [u8],
    fold: &mut dyn FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    let (size, me) = (team.group().size(), team.group().me);
    let chunk = (MESSAGE / element).max(1) * element;
    let mut theirs = vec![0; chunk.min(data.len())];
    for range in chunks(data.len(), chunk) {
        let (data, theirs) = (&mut data[range.clone()], &mut theirs[..range.len()]);
        // After round k, the data is that of the 2^(k+1) members up to this one.
        for round in 0..rounds(size) {
            let distance = bit(round);
            if me + distance < size {
                send(team, step, true, round, data)?;
            }
            if me >= distance {
                receive(team, step, true, round, theirs)?;
                fold(theirs, data);
                data.copy_from_slice(theirs);
            }
        }
        if step.call.kind == Kind::ExclusiveScan {
            if me + 1 < size {
                send(team, step, true, 0, data)?;
            }
            if me > 0 {
                receive(team, step, true, 0, data)?;
            }
        }
    }
    Ok(())
}

/// This member's place in the binomial tree of a root, as rounds: a partner in round k is 2^k
/// members away.
struct Tree {
    parent: Option<u32>,
    number: usize,
    size: usize,
}

impl Tree {
    fn new(team: &Team<'_>, root: usize) -> Tree {
        let size = team.group().size();
        let number = (team.group().me + size - root) % size;
        Tree { parent: parent(number).map(|edge| edge.level), number, size }
    }

    fn children(&self) -> impl Iterator<Item = u32> + use<> {
        children(self.number, self.size).map(|edge| edge.level)
    }
}

/// Consecutive ranges; one empty range if there is nothing, so that an empty collective is checked,
/// too.
fn chunks(bytes: usize, chunk: usize) -> impl Iterator<Item = Range<usize>> {
    let count = bytes.div_ceil(chunk).max(1);
    (0..count).map(move |at| at * chunk..bytes.min((at + 1) * chunk))
}

/// Sends a message to the member `2^round` further up (or down) the ring.
fn send(team: &Team<'_>, step: &Step, up: bool, round: u32, bytes: &[u8]) -> Result<()> {
    let group = team.group();
    let channel = at::channel(up, round);
    let counter = &group.sent[channel as usize];
    let number = counter.get().wrapping_add(1);
    counter.set(number);
    let receiver = neighbour(group.me, group.size(), round, up);
    team.await_word(step, Some(receiver), at::taken(channel), &|taken| {
        number.wrapping_sub(taken as u32) <= 2
    })?;
    let to = group.members[receiver];
    let flag = SignalAt::store(&group.area, at::full(channel, number), step.tag(number));
    let (context, place) = (team.context(), at::message(channel, number));
    context.put_signal_at(&group.area, to, place, bytes, flag)
}

/// Receives a message from the member `2^round` further down (or up) the ring: the one whose `send`
/// goes `up` (or down).
fn receive(team: &Team<'_>, step: &Step, up: bool, round: u32, into: &mut [u8]) -> Result<()> {
    let group = team.group();
    let channel = at::channel(up, round);
    let counter = &group.received[channel as usize];
    let number = counter.get().wrapping_add(1);
    counter.set(number);
    let from = neighbour(group.me, group.size(), round, !up);
    let word = team.await_number(step, Some(from), at::full(channel, number), number)?;
    team.check_tag(step, word, from)?;
    let context = team.context();
    context.get_at(&group.area, context.rank(), at::message(channel, number), into)?;
    // Counted, not written: acknowledgements may land in any order.
    let (from, one) = (group.members[from], Atomic::Add(1));
    context.post_at(&group.area, from, at::taken(channel), Width::W64, one)
}
