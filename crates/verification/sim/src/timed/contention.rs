//! Messages that find their receiver busy, and are lost: where a node takes messages by signals,
//! those that come while an earlier one is dealt with raise one signal together, and only the first
//! of them is taken.
//!
//! The sender hears nothing, and sends again when its timer has run out. Later messages to the same
//! rank wait behind it, as they would in any protocol that delivers in order.

use std::collections::BTreeMap;

use farside_fabric::{Kind, Rank, Result, SegmentId};
use rustc_hash::FxHashMap;

use crate::profile::{Profile, figure};

/// The number of times that operations of one kind were sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resent {
    /// The sender.
    pub origin: Rank,
    /// The receiver.
    pub target: Rank,
    /// The kind of operation.
    pub kind: Kind,
    /// To which segment; a call goes to none.
    pub segment: Option<SegmentId>,
    /// The number of times.
    pub count: u64,
}

/// An operation on its way, as far as resending counts it.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    pub(super) origin: Rank,
    pub(super) target: Rank,
    pub(super) kind: Kind,
    /// The segment that the operation touches; a call touches none.
    pub(super) segment: Option<SegmentId>,
}

/// The key of a flow: origin, target, number of the kind, segment.
type FlowKey = (Rank, Rank, u64, Option<SegmentId>);

pub(super) struct Contention {
    /// The number of messages that may wait while one is dealt with, if others are lost.
    pending_max: Option<u64>,
    /// The time for which a sender waits, and how much longer at most until its timer is looked at.
    timer_ns: u64,
    tick_ns: u64,
    state: u64,
    /// Until when what one rank sends another waits.
    waits_ns: FxHashMap<(Rank, Rank), u64>,
    resent: BTreeMap<FlowKey, (Kind, u64)>,
}

impl Contention {
    pub(super) fn new(profile: &Profile, seed: u64) -> Result<Contention> {
        let is_given = profile.agent.contains_key("pending_max");
        let pending_max =
            if is_given { Some(figure(&profile.agent, "pending_max")?) } else { None };
        let tick_ns = if profile.noise.contains_key("tick_ns") {
            figure(&profile.noise, "tick_ns")?
        } else {
            0
        };
        let timer_ns = figure(&profile.noise, "retransmit_ns")?;
        let (waits_ns, resent) = (FxHashMap::default(), BTreeMap::new());
        Ok(Contention { pending_max, timer_ns, tick_ns, state: seed, waits_ns, resent })
    }

    /// A message has arrived where so many others are being dealt with, or wait. If it is lost, or
    /// behind one that is, returns when it comes again.
    pub(super) fn resend_ns(&mut self, flow: Flow, others: u64, now_ns: u64) -> Option<u64> {
        let pending_max = self.pending_max?;
        let Flow { origin, target, kind, .. } = flow;
        // A get overtakes, and nothing waits behind it.
        let is_ordered = kind != Kind::Get;
        if is_ordered && let Some(&waits_ns) = self.waits_ns.get(&(origin, target)) {
            if waits_ns > now_ns {
                return Some(waits_ns);
            }
            self.waits_ns.remove(&(origin, target));
        }
        if others <= pending_max {
            return None;
        }
        let again_ns = now_ns + self.timer_ns + self.tick();
        self.count(flow, 1);
        if is_ordered {
            self.waits_ns.insert((origin, target), again_ns);
        }
        Some(again_ns)
    }

    /// Returns whether a message is lost that finds so many others.
    pub(super) fn loses(&self, others: u64) -> bool {
        self.pending_max.is_some_and(|pending_max| others > pending_max)
    }

    /// Counts an operation that was resent so many times.
    pub(super) fn count(&mut self, flow: Flow, times: u64) {
        if times > 0 {
            let key = (flow.origin, flow.target, flow.kind as u64, flow.segment);
            self.resent.entry(key).or_insert((flow.kind, 0)).1 += times;
        }
    }

    pub(super) fn repeats(&self, rank: Rank) -> u64 {
        let own = self
            .resent
            .range((rank, Rank(0), 0, None)..)
            .take_while(|((origin, ..), _)| *origin == rank);
        own.map(|(_, &(_, count))| count).sum()
    }

    pub(super) fn forget(&mut self) {
        self.resent.clear();
    }

    pub(super) fn resent(&self) -> Vec<Resent> {
        let resent = |(&(origin, target, _, segment), &(kind, count))| Resent {
            origin,
            target,
            kind,
            segment,
            count,
        };
        self.resent.iter().map(resent).collect()
    }

    /// Returns the time until the sender's next tick: timers are looked at once a tick, and the
    /// ticks of different senders do not coincide.
    pub(super) fn tick(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if self.tick_ns > 0 { (self.state >> 33) % self.tick_ns } else { 0 }
    }
}
