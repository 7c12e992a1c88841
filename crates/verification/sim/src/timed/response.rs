//! Timers that go off when no response has come, whether a message was lost or not.
//!
//! A rank that sends a message and then waits sets a clock; when it goes off before the wait is
//! over, the message is sent again, and the clock is set anew [BST97 section 2.3]. The repeated
//! message takes the time of sender, network and receiver, and changes nothing.

use farside_fabric::{Rank, Result};

use super::contention::Flow;
use super::event_engine::{Entry, EventEngine};
use super::member::Doing;
use super::network::{Arrival, LinkLevel, Sender};
use crate::profile::{Profile, given};
use crate::store::Body;

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
}

impl EventEngine {
    /// A rank has sent a put to another node, and its time is `free_ns` then.
    pub(super) fn watch_over(&mut self, flow: Flow, route: LinkLevel, bytes: u64, free_ns: u64) {
        if let Some(responses) = &mut self.responses {
            let clock = &mut responses.clocks[flow.origin.index()];
            clock.last = Some(Sent { flow, route, bytes });
            clock.sent_ns = free_ns;
        }
    }

    /// A rank begins to wait: if that is for the response to what it has just sent, sets its clock.
    pub(super) fn set_clock(&mut self, rank: usize) {
        let clock_ns = self.members[rank].clock_ns;
        let Some(responses) = &mut self.responses else { return };
        let clock = &mut responses.clocks[rank];
        clock.rings_ns = 0;
        if clock.last.is_some() && clock.sent_ns == clock_ns {
            let rings_ns = clock_ns + responses.timer_ns + self.contention.tick();
            clock.rings_ns = rings_ns;
            self.push(rings_ns, Entry::Rings(rank as u32));
        }
    }

    /// A clock goes off: the message is sent again if the wait that set it is not over.
    pub(super) fn rings(&mut self, rank: u32) {
        let at = rank as usize;
        let is_waiting = matches!(self.members[at].doing, Doing::Waits(_));
        let node = self.members[at].node as usize;
        let Some(responses) = &mut self.responses else { return };
        let clock = &mut responses.clocks[at];
        let Some(sent) = clock.last else { return };
        if !is_waiting || clock.rings_ns != self.now_ns {
            return;
        }
        let rings_ns = self.now_ns + responses.timer_ns + self.contention.tick();
        clock.rings_ns = rings_ns;
        let Sent { flow, route, bytes } = sent;
        let segment = flow.segment.unwrap_or(farside_fabric::SegmentId::ROOT);
        let body = Body::Put { segment, pieces: Vec::new(), bytes: vec![0; bytes as usize] };
        let repeat = Some(Repeat { target: flow.target, route, body });
        let free = responses.repeats.iter().position(Option::is_none);
        let index = free.unwrap_or(responses.repeats.len());
        match free {
            Some(index) => responses.repeats[index] = repeat,
            None => responses.repeats.push(repeat),
        }
        let arrives_ns = self.network.send(route, node, self.now_ns, bytes).arrives_ns;
        self.contention.count(flow, 1);
        self.push(arrives_ns, Entry::Repeated(index as u32));
        self.push(rings_ns, Entry::Rings(rank));
    }

    /// A repeated message has arrived. One that finds its receiver busy is lost.
    pub(super) fn repeated(&mut self, index: u32) {
        let Some(responses) = &mut self.responses else { return };
        let Some(Repeat { target, route, body }) = responses.repeats[index as usize].take() else {
            return;
        };
        let (node, at_ns) = (self.members[target.index()].node as usize, self.now_ns);
        if self.contention.loses(self.network.waiting(route, node, at_ns)) {
            return;
        }
        self.network.carry_out(&Arrival {
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
