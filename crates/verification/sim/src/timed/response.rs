//! Timers that go off when no response has come, whether a message was lost or not.
//!
//! A rank that sends a message and then waits sets a clock; when it goes off before the wait is
//! over, the message is sent again, and the clock is set anew [BST97 section 2.3]. The repeated
//! message takes the time of sender, network and receiver, and changes nothing.

use farside_fabric::{Rank, Result, SegmentId};

use super::contention::{Contention, Flow};
use super::flight::Entry;
use super::member::{Doing, Member};
use super::network::{Arrival, LinkLevel, Network, Sender};
use crate::body::Body;
use crate::profile::{Profile, given};

/// The clocks of all ranks, if the profile has them.
pub(super) struct Responses {
    timer_ns: u64,
    clocks: Vec<Clock>,
    repeats: Vec<Option<Repeat>>,
}

/// The message of a rank that a clock watches over.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// The last message that was sent, and the rank's time after sending it.
    last: Option<Sent>,
    sent_ns: u64,
    /// When the clock goes off; zero if it is not set.
    rings_ns: u64,
}

#[derive(Clone, Copy)]
struct Sent {
    flow: Flow,
    route: LinkLevel,
    bytes: u64,
}

struct Repeat {
    target: Rank,
    route: LinkLevel,
    body: Body,
}

impl Responses {
    pub(super) fn new(profile: &Profile, ranks: u32) -> Result<Option<Responses>> {
        let Some(timer_ns) = given(&profile.noise, "response_ns")? else { return Ok(None) };
        let clocks = vec![Clock::default(); ranks as usize];
        Ok(Some(Responses { timer_ns: timer_ns.max(1), clocks, repeats: Vec::new() }))
    }

    /// A rank has sent a put to another node, and its time is `free_ns` then.
    pub(super) fn watch_over(&mut self, flow: Flow, route: LinkLevel, bytes: u64, free_ns: u64) {
        let clock = &mut self.clocks[flow.origin.index()];
        clock.last = Some(Sent { flow, route, bytes });
        clock.sent_ns = free_ns;
    }

    /// A rank begins to wait: if that is for the response to what it has just sent, sets its clock,
    /// and returns when that goes off.
    pub(super) fn set_clock(
        &mut self,
        rank: usize,
        clock_ns: u64,
        contention: &mut Contention,
    ) -> Option<u64> {
        let clock = &mut self.clocks[rank];
        clock.rings_ns = 0;
        let is_for_it = clock.last.is_some() && clock.sent_ns == clock_ns;
        is_for_it.then(|| {
            clock.rings_ns = clock_ns + self.timer_ns + contention.tick();
            clock.rings_ns
        })
    }

    /// A clock goes off: the message is sent again if the wait that set it is not over. Returns its
    /// arrival, and when the clock goes off again.
    pub(super) fn rings(
        &mut self,
        rank: u32,
        members: &[Member],
        now_ns: u64,
        network: &mut Network,
        contention: &mut Contention,
    ) -> Option<[(u64, Entry); 2]> {
        let member = &members[rank as usize];
        let clock = &mut self.clocks[rank as usize];
        let Sent { flow, route, bytes } = clock.last?;
        if !matches!(member.doing, Doing::Waits(_)) || clock.rings_ns != now_ns {
            return None;
        }
        let rings_ns = now_ns + self.timer_ns + contention.tick();
        clock.rings_ns = rings_ns;
        let segment = flow.segment.unwrap_or(SegmentId::ROOT);
        let body = Body::Put { segment, pieces: Vec::new(), bytes: vec![0; bytes as usize] };
        let repeat = Some(Repeat { target: flow.target, route, body });
        let free = self.repeats.iter().position(Option::is_none);
        let index = free.unwrap_or(self.repeats.len());
        match free {
            Some(index) => self.repeats[index] = repeat,
            None => self.repeats.push(repeat),
        }
        let arrives_ns = network.send(route, member.node as usize, now_ns, bytes).arrives_ns;
        contention.count(flow, 1);
        Some([(arrives_ns, Entry::Repeated(index as u32)), (rings_ns, Entry::Rings(rank))])
    }

    /// A repeated message has arrived. One that finds its receiver busy is lost.
    pub(super) fn repeated(
        &mut self,
        index: u32,
        members: &[Member],
        at_ns: u64,
        network: &mut Network,
        contention: &Contention,
    ) {
        let Some(Repeat { target, route, body }) = self.repeats[index as usize].take() else {
            return;
        };
        let node = members[target.index()].node as usize;
        if contention.loses(network.waiting(route, node, at_ns)) {
            return;
        }
        network.carry_out(&Arrival {
            route,
            node,
            target,
            body: &body,
            at_ns,
            missed: false,
            by: Sender::RankThatPosts,
            is_message: false,
        });
    }
}
