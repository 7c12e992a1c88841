//! Messages that find their receiver busy, and are lost: where a node takes messages by interrupts, one that comes while an earlier one is dealt with raises none.
//!
//! Who sent it hears nothing, and sends it again when its timer has run out. What was sent to the same rank later waits behind it, as it would in any protocol that delivers in order.

use std::collections::BTreeMap;

use farside_fabric::{Kind, Rank, Result};
use rustc_hash::FxHashMap;

use crate::profile::{Profile, figure};

/// How often operations were sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resent {
    /// Who sent.
    pub origin: Rank,
    /// To whom.
    pub target: Rank,
    /// What.
    pub kind: Kind,
    /// How often.
    pub count: u64,
}

pub(super) struct Contention {
    /// Whether messages are lost that way.
    loses: bool,
    /// How long a sender waits, and how much longer at most until its timer is looked at.
    timer_ns: u64,
    tick_ns: u64,
    state: u64,
    /// Until when what one rank sends another waits.
    waits_ns: FxHashMap<(Rank, Rank), u64>,
    resent: BTreeMap<(Rank, Rank, u64), (Kind, u64)>,
}

impl Contention {
    pub(super) fn new(profile: &Profile, seed: u64) -> Result<Contention> {
        let loses = profile.agent.contains_key("masks_interrupts") && figure(&profile.agent, "masks_interrupts")? > 0;
        let tick_ns = if profile.noise.contains_key("tick_ns") { figure(&profile.noise, "tick_ns")? } else { 0 };
        let timer_ns = figure(&profile.noise, "retransmit_ns")?;
        Ok(Contention { loses, timer_ns, tick_ns, state: seed, waits_ns: FxHashMap::default(), resent: BTreeMap::new() })
    }

    /// A message has arrived where somebody `is_busy`, or not. If it is lost, or behind one that is, returns when it comes again.
    pub(super) fn comes_again_ns(
        &mut self,
        (origin, target): (Rank, Rank),
        kind: Kind,
        is_busy: bool,
        now_ns: u64,
    ) -> Option<u64> {
        if !self.loses {
            return None;
        }
        // A get overtakes, and nothing waits behind it.
        let is_ordered = kind != Kind::Get;
        if is_ordered && let Some(&waits_ns) = self.waits_ns.get(&(origin, target)) {
            if waits_ns > now_ns {
                return Some(waits_ns);
            }
            self.waits_ns.remove(&(origin, target));
        }
        if !is_busy {
            return None;
        }
        let again_ns = now_ns + self.timer_ns + self.tick();
        self.count(origin, target, kind, 1);
        if is_ordered {
            self.waits_ns.insert((origin, target), again_ns);
        }
        Some(again_ns)
    }

    pub(super) fn count(&mut self, origin: Rank, target: Rank, kind: Kind, times: u64) {
        if times > 0 {
            self.resent.entry((origin, target, kind as u64)).or_insert((kind, 0)).1 += times;
        }
    }

    pub(super) fn forget(&mut self) {
        self.resent.clear();
    }

    pub(super) fn resent(&self) -> Vec<Resent> {
        let resent = |(&(origin, target, _), &(kind, count))| Resent { origin, target, kind, count };
        self.resent.iter().map(resent).collect()
    }

    /// Timers are looked at once a tick, and nobody's ticks come when another's do.
    fn tick(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if self.tick_ns > 0 { (self.state >> 33) % self.tick_ns } else { 0 }
    }
}
