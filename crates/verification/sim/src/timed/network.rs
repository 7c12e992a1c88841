//! The network model: the cost of an operation, and the parts of the machine that are busy with it.
//!
//! LogGP for each level of the topology, and three kinds of carriers that work off one operation
//! after the other: the network interface of a node, its agent, and, for ranks that share memory,
//! the cache line that both want.

use std::collections::VecDeque;

use farside_fabric::random::SplitMix;
use farside_fabric::{Error, Rank, Result, Topology, Width};

use crate::body::{Accumulation, Body};
use crate::profile::{Carrier, Profile, figure, given, optional, whole};

/// The model of a machine, with its state: until when each part is busy.
pub(crate) struct Network {
    /// For each level of the topology, and at last for a rank's operations on its own memory.
    routes: Vec<Costs>,
    interface: Service,
    agent: Service,
    agent_spin_ns: u64,
    agent_wake_ns: u64,
    /// The share of the agent's time that is taken from the ranks of its node.
    agent_steals_pct: u64,
    /// The share of its wake-up time that is taken from the ranks of its node.
    wake_steals_pct: u64,
    /// The time for which an interface is busy with a message that it passes on between network and
    /// host: a request for an agent, or a reply at either end. Without it, replies take no part of
    /// a machine's time.
    message_ns: Option<u64>,
    /// True if one processor of an interface sends and receives by turns.
    sends_and_receives_by_turns: bool,
    /// True if all nodes share one medium, so that one message is on it at a time.
    has_one_medium: bool,
    /// True if a rank that waits takes an agent's messages itself, without waking its own agent.
    ranks_take_answers: bool,
    /// True if a rank takes the messages of collectives itself.
    pub(crate) ranks_take_messages: bool,
    /// True if agents acknowledge nothing that was posted.
    agents_are_silent: bool,
    line_ns: u64,
    pub(crate) notice_ns: u64,
    pub(crate) outstanding: u32,
    noise: Noise,
    nodes: Vec<Busy>,
    /// For each node, the times at which its agent is done with the operations that it has
    /// accepted, if the profile limits them.
    agents: Vec<VecDeque<u64>>,
    remembers: bool,
    /// For each rank, the line of its memory that was used last, and until when.
    lines: Vec<(u64, u64)>,
}

/// The route of an operation: the level of the topology that both ranks share, or the last entry if
/// they are one.
#[derive(Clone, Copy)]
pub(crate) struct LinkLevel(u8);

#[derive(Clone, Copy)]
struct Costs {
    carrier: Carrier,
    latency_ns: u64,
    send_ns: u64,
    receive_ns: u64,
    gap_ns: u64,
    byte_ps: u64,
}

/// The time that a carrier needs for an operation.
struct Service {
    put_ns: u64,
    get_ns: u64,
    atomic_ns: u64,
    /// The time for a compare-swap that misses, and so writes nothing.
    miss_ns: u64,
    /// The time for an atomic on 128 bits; nothing if this carrier has none.
    pair_ns: Option<u64>,
    call_ns: u64,
    byte_ps: u64,
}

/// Until when the carriers of a node are busy.
#[derive(Clone, Copy, Default)]
struct Busy {
    sending_ns: u64,
    receiving_ns: u64,
    agent_ns: u64,
    /// Until when the agent has the processor of the ranks, if it shares theirs.
    interrupted_ns: u64,
    /// The time that the agent has taken from the ranks, all in all.
    stolen_ns: u64,
}

pub(crate) struct Sent {
    /// The sender can go on.
    pub(crate) free_ns: u64,
    pub(crate) arrives_ns: u64,
    /// The number of times that it was lost on the way.
    pub(crate) lost: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) route: LinkLevel,
    /// The target's node.
    pub(crate) node: usize,
    pub(crate) target: Rank,
    pub(crate) body: &'a Body,
    pub(crate) at_ns: u64,
    /// True of a compare-swap that found another value than it expected.
    pub(crate) missed: bool,
    pub(crate) by: Sender,
    /// True of a message of a collective, if ranks take them.
    pub(crate) is_message: bool,
}

/// The sender of an operation, and whether it waits for the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    RankThatWaits,
    RankThatPosts,
    Agent,
}

/// A reply, or an acknowledgement.
#[derive(Clone, Copy)]
pub(crate) struct Back {
    pub(crate) route: LinkLevel,
    /// The nodes of the target and of the origin.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) now_ns: u64,
    pub(crate) done_ns: u64,
    pub(crate) bytes: u64,
    /// False if nothing comes back that takes time of the interfaces.
    pub(crate) is_answered: bool,
}

impl Network {
    pub(crate) fn new(profile: &Profile, topology: &Topology, seed: u64) -> Result<Network> {
        let costs = profile.level.iter().map(Costs::new).collect::<Result<Vec<Costs>>>()?;
        // A level that the profile does not know costs what the next wider one does that it knows.
        let mut known = 0;
        let mut routes = Vec::new();
        for level in topology.levels() {
            known =
                profile.level.iter().position(|other| other.name == level.name).unwrap_or(known);
            routes.push(costs[known]);
        }
        let narrowest = costs[costs.len() - 1];
        let own_ns = match profile.processor.get("own_ns") {
            Some(own) => whole(own, "own_ns")?,
            None => narrowest.send_ns,
        };
        routes.push(Costs {
            send_ns: own_ns,
            carrier: Carrier::Processor,
            latency_ns: 0,
            receive_ns: 0,
            gap_ns: 0,
            ..narrowest
        });
        if routes.len() > usize::from(u8::MAX) {
            let (value, limit) = (routes.len() as u64 - 1, u64::from(u8::MAX) - 1);
            return Err(Error::TooMuch { what: "levels of a topology", value, limit });
        }
        Ok(Network {
            routes,
            interface: Service::new(&profile.interface)?,
            agent: Service::new(&profile.agent)?,
            agent_spin_ns: figure(&profile.agent, "spin_ns")?,
            agent_wake_ns: figure(&profile.agent, "wake_ns")?,
            agent_steals_pct: optional(&profile.agent, "steals_pct")?,
            wake_steals_pct: optional(&profile.agent, "wake_steals_pct")?,
            message_ns: given(&profile.interface, "message_ns")?,
            sends_and_receives_by_turns: optional(&profile.interface, "one_processor")? > 0,
            has_one_medium: optional(&profile.interface, "one_medium")? > 0,
            ranks_take_answers: optional(&profile.agent, "ranks_take_answers")? > 0,
            ranks_take_messages: optional(&profile.agent, "ranks_take_messages")? > 0,
            agents_are_silent: optional(&profile.agent, "silent")? > 0,
            line_ns: figure(&profile.processor, "line_ns")?,
            notice_ns: figure(&profile.rank, "notice_ns")?,
            outstanding: figure(&profile.rank, "outstanding")?.clamp(1, u32::MAX.into()) as u32,
            noise: Noise {
                random: SplitMix::new(seed),
                jitter_pct: figure(&profile.noise, "jitter_pct")?.min(100),
                loss_ppm: figure(&profile.noise, "loss_ppm")?,
                retransmit_ns: figure(&profile.noise, "retransmit_ns")?,
                work_pct: optional(&profile.noise, "work_pct")?.min(100),
            },
            nodes: vec![Busy::default(); topology.nodes() as usize],
            agents: vec![VecDeque::new(); topology.nodes() as usize],
            remembers: profile.agent.contains_key("pending_max"),
            lines: vec![(0, 0); topology.ranks() as usize],
        })
    }

    pub(crate) fn route(&self, topology: &Topology, origin: Rank, target: Rank) -> LinkLevel {
        let own = self.routes.len() - 1;
        LinkLevel(if origin == target { own } else { topology.shared_level(origin, target) } as u8)
    }

    fn costs(&self, route: LinkLevel) -> Costs {
        self.routes[usize::from(route.0)]
    }

    pub(crate) fn send(&mut self, route: LinkLevel, node: usize, now_ns: u64, bytes: u64) -> Sent {
        let costs = self.costs(route);
        // A host that an interrupt has taken sends when it has its processor back.
        let free_ns = match costs.carrier {
            Carrier::Processor => now_ns,
            _ => now_ns.max(self.nodes[node].interrupted_ns),
        };
        self.send_by_interface(route, node, free_ns + costs.send_ns, bytes)
    }

    /// Sends an operation of an agent, whose time was counted already.
    pub(crate) fn send_by_interface(
        &mut self,
        route: LinkLevel,
        node: usize,
        ready_ns: u64,
        bytes: u64,
    ) -> Sent {
        let costs = self.costs(route);
        if costs.carrier == Carrier::Processor {
            // The sender's own processor does it all, byte by byte.
            let free_ns = ready_ns + costs.bytes_ns(bytes);
            return Sent { free_ns, arrives_ns: free_ns + costs.latency_ns, lost: 0 };
        }
        let needs_ns = costs.gap_ns + costs.bytes_ns(bytes);
        let sent_ns = self.occupy_sender(node, ready_ns, needs_ns);
        let (travel_ns, lost) = self.noise.travel_ns(costs.latency_ns);
        Sent { free_ns: ready_ns, arrives_ns: sent_ns + travel_ns, lost }
    }

    /// Returns until when what a node sends with is busy, to be changed.
    fn sender(&mut self, node: usize) -> &mut u64 {
        &mut self.nodes[if self.has_one_medium { 0 } else { node }].sending_ns
    }

    /// Occupies what a node sends with, from `ready_ns` on; returns until when.
    fn occupy_sender(&mut self, node: usize, ready_ns: u64, needs_ns: u64) -> u64 {
        let sender = self.sender(node);
        let begin_ns = ready_ns.max(*sender);
        *sender = begin_ns + needs_ns;
        // What is queued behind something else leaves room for what arrives.
        if self.sends_and_receives_by_turns && begin_ns == ready_ns {
            delay(&mut self.nodes[node].receiving_ns, begin_ns, needs_ns);
        }
        begin_ns + needs_ns
    }

    /// Puts off what a node receives by what it sends in between, if it does both by turns.
    fn delay_receiver(&mut self, node: usize, now_ns: u64, needs_ns: u64) {
        if self.sends_and_receives_by_turns {
            delay(&mut self.nodes[node].receiving_ns, now_ns, needs_ns);
        }
    }

    /// Occupies what a node receives with, from `at_ns` on; returns until when.
    fn occupy_receiver(&mut self, node: usize, at_ns: u64, needs_ns: u64) -> u64 {
        let busy = &mut self.nodes[node];
        let begin_ns = at_ns.max(busy.receiving_ns);
        busy.receiving_ns = begin_ns + needs_ns;
        if self.sends_and_receives_by_turns {
            // Also of what must wait for its turn to be received: it crosses the same bus.
            delay(&mut busy.sending_ns, at_ns, needs_ns);
        }
        begin_ns + needs_ns
    }

    /// Returns when an interface has passed a message on to its host.
    fn pass_on_ns(&mut self, route: LinkLevel, node: usize, at_ns: u64, bytes: u64) -> u64 {
        let (Some(message_ns), false) = (self.message_ns, self.has_one_medium) else {
            return at_ns;
        };
        if self.costs(route).carrier == Carrier::Processor {
            return at_ns;
        }
        let needs_ns = message_ns + bytes * self.interface.byte_ps / 1000;
        self.occupy_receiver(node, at_ns, needs_ns)
    }

    fn carrier(&self, arrival: &Arrival<'_>) -> Carrier {
        let costs = self.costs(arrival.route);
        match arrival.body {
            Body::Call { .. } => Carrier::Agent,
            Body::Atomic { at, .. }
                if at.width == Width::Pair && self.interface.pair_ns.is_none() =>
            {
                // An interface without wide atomics leaves them to the host.
                if costs.carrier == Carrier::Interface { Carrier::Agent } else { costs.carrier }
            }
            _ => costs.carrier,
        }
    }

    /// Returns whether the target rank, which polls for it, takes a message itself, and does not
    /// wake its agent: the answer of an agent that it has asked, or a message of a collective.
    fn is_taken_by_rank(&self, arrival: &Arrival<'_>) -> bool {
        let takes = match arrival.by {
            Sender::Agent => self.ranks_take_answers,
            Sender::RankThatPosts => arrival.is_message,
            Sender::RankThatWaits => false,
        };
        takes && self.carrier(arrival) == Carrier::Agent
    }

    pub(crate) fn is_answered(&self, arrival: &Arrival<'_>) -> bool {
        match arrival.by {
            Sender::Agent => false,
            Sender::RankThatWaits => true,
            Sender::RankThatPosts => {
                let is_silent = self.agents_are_silent && self.carrier(arrival) == Carrier::Agent;
                !is_silent && !self.is_taken_by_rank(arrival)
            }
        }
    }

    /// An operation has arrived; returns when it has been carried out.
    pub(crate) fn carry_out(&mut self, arrival: &Arrival<'_>) -> u64 {
        let Arrival { route, node, target, body, at_ns, missed, .. } = *arrival;
        let carrier = self.carrier(arrival);
        if self.is_taken_by_rank(arrival) {
            return self.pass_on_ns(route, node, at_ns, body.bytes())
                + self.costs(route).receive_ns;
        }
        let at_ns = match carrier {
            Carrier::Agent => self.pass_on_ns(route, node, at_ns, body.bytes()),
            _ => at_ns,
        };
        let needs_ns = match carrier {
            Carrier::Agent => self.agent.needs_ns(body, missed),
            _ => self.interface.needs_ns(body, missed),
        };
        match carrier {
            Carrier::Processor => {
                let (line, free_ns) = &mut self.lines[target.index()];
                let wanted = body.first_line();
                let start_ns = if *line == wanted { at_ns.max(*free_ns) } else { at_ns };
                *line = wanted;
                *free_ns = start_ns + self.line_ns;
                start_ns
            }
            Carrier::Interface => self.occupy_receiver(node, at_ns, needs_ns),
            Carrier::Agent => {
                let busy = &mut self.nodes[node];
                let asleep = at_ns > busy.agent_ns + self.agent_spin_ns;
                let awake_ns = if asleep { self.agent_wake_ns } else { 0 };
                busy.agent_ns = busy.agent_ns.max(at_ns) + awake_ns + needs_ns;
                busy.stolen_ns +=
                    (needs_ns * self.agent_steals_pct + awake_ns * self.wake_steals_pct) / 100;
                if self.agent_steals_pct > 0 {
                    busy.interrupted_ns = busy.agent_ns;
                }
                if self.remembers {
                    self.agents[node].push_back(busy.agent_ns);
                }
                busy.agent_ns
            }
        }
    }

    /// Returns the time at which the reply, or the acknowledgement, of an operation that was
    /// carried out is back, and the number of times that it was lost on the way.
    ///
    /// A reply occupies the sender of its node and the receiver of the origin's. It leaves in the
    /// future, so that its time is added to what both have to do, and does not keep them from what
    /// comes before.
    pub(crate) fn back_ns(&mut self, back: &Back) -> (u64, u64) {
        let Back { route, from, to, now_ns, done_ns, bytes, is_answered } = *back;
        let costs = self.costs(route);
        if costs.carrier == Carrier::Processor {
            return (done_ns + costs.receive_ns + costs.bytes_ns(bytes), 0);
        }
        let (travel_ns, lost) = self.noise.travel_ns(costs.latency_ns);
        let Some(message_ns) = self.message_ns.filter(|_| is_answered) else {
            return (done_ns + travel_ns + costs.bytes_ns(bytes) + costs.receive_ns, lost);
        };
        let sends_ns = message_ns + costs.bytes_ns(bytes);
        // What answers an arrival goes out in its turn, not behind all that the host has queued.
        let free_ns = match self.sends_and_receives_by_turns {
            true => done_ns,
            false => done_ns.max(*self.sender(from)),
        };
        let sent_ns = free_ns + sends_ns;
        if self.occupy_sender(from, now_ns, sends_ns) > now_ns + sends_ns {
            // It does not wait for what is queued, so what arrives next does.
            self.delay_receiver(from, now_ns, sends_ns);
        }
        let mut here_ns = sent_ns + travel_ns;
        if !self.has_one_medium {
            let takes_ns = message_ns + bytes * self.interface.byte_ps / 1000;
            here_ns = here_ns.max(self.nodes[to].receiving_ns) + takes_ns;
            self.occupy_receiver(to, now_ns, takes_ns);
        }
        (here_ns + costs.receive_ns, lost)
    }

    /// Returns how long work takes that would take `ns` on a machine without noise.
    pub(crate) fn work_ns(&mut self, ns: u64) -> u64 {
        self.noise.work_ns(ns)
    }

    /// Returns whether an operation is a message between nodes.
    pub(crate) fn is_message(&self, route: LinkLevel) -> bool {
        self.costs(route).carrier != Carrier::Processor
    }

    /// Returns the time at which an operation is carried out that comes in one message with
    /// another.
    pub(crate) fn carried_out(&self, arrival: &Arrival<'_>) -> u64 {
        let (busy, costs) = (&self.nodes[arrival.node], self.costs(arrival.route));
        if self.is_taken_by_rank(arrival) {
            return arrival.at_ns.max(busy.receiving_ns) + costs.receive_ns;
        }
        arrival.at_ns.max(match costs.carrier {
            Carrier::Agent => busy.agent_ns,
            _ => busy.receiving_ns,
        })
    }

    /// Returns the number of operations that the agent on this route has accepted and not done yet.
    pub(crate) fn waiting(&mut self, route: LinkLevel, node: usize, at_ns: u64) -> u64 {
        if self.costs(route).carrier != Carrier::Agent {
            return 0;
        }
        let ends_ns = &mut self.agents[node];
        while ends_ns.front().is_some_and(|&end_ns| end_ns <= at_ns) {
            ends_ns.pop_front();
        }
        ends_ns.len() as u64
    }

    pub(crate) fn stolen_ns(&self, node: usize) -> u64 {
        self.nodes[node].stolen_ns
    }
}

/// Puts off what is queued in the other direction of an interface with one processor, if anything
/// is: the processor takes one thing of each direction in turn.
fn delay(until_ns: &mut u64, begin_ns: u64, needs_ns: u64) {
    if *until_ns > begin_ns {
        *until_ns += needs_ns;
    }
}

impl Costs {
    fn new(level: &crate::profile::Level) -> Result<Costs> {
        Ok(Costs {
            carrier: level.carrier,
            latency_ns: whole(&level.latency_ns, "latency_ns")?,
            send_ns: whole(&level.send_ns, "send_ns")?,
            receive_ns: whole(&level.receive_ns, "receive_ns")?,
            gap_ns: whole(&level.gap_ns, "gap_ns")?,
            byte_ps: whole(&level.byte_ps, "byte_ps")?,
        })
    }

    fn bytes_ns(&self, bytes: u64) -> u64 {
        bytes * self.byte_ps / 1000
    }
}

impl Service {
    fn new(table: &std::collections::BTreeMap<String, crate::profile::Figure>) -> Result<Service> {
        Ok(Service {
            put_ns: figure(table, "put_ns")?,
            get_ns: figure(table, "get_ns")?,
            atomic_ns: figure(table, "atomic_ns")?,
            miss_ns: match given(table, "miss_ns")? {
                Some(miss_ns) => miss_ns,
                None => figure(table, "atomic_ns")?,
            },
            pair_ns: given(table, "pair_ns")?,
            // An interface runs no handlers.
            call_ns: optional(table, "call_ns")?,
            byte_ps: figure(table, "byte_ps")?,
        })
    }

    fn atomic_needs_ns(&self, width: Width, missed: bool) -> u64 {
        match (width, self.pair_ns) {
            // No machine is known on which a pair that misses costs less.
            (Width::Pair, Some(pair_ns)) => pair_ns,
            _ if missed => self.miss_ns,
            _ => self.atomic_ns,
        }
    }

    fn needs_ns(&self, body: &Body, missed: bool) -> u64 {
        let (each_ns, bytes) = match body {
            Body::Put { bytes, .. } => (self.put_ns, bytes.len() as u64),
            Body::Accumulate(Accumulation { pieces, .. }) => {
                (self.put_ns, pieces.iter().map(|piece| piece.bytes).sum())
            }
            Body::Get { pieces, .. } => (self.get_ns, pieces.iter().map(|piece| piece.bytes).sum()),
            Body::Atomic { at, .. } => (self.atomic_needs_ns(at.width, missed), 0),
            Body::Call { bytes, .. } => (self.call_ns, bytes.len() as u64),
        };
        each_ns + bytes * self.byte_ps / 1000
    }
}

struct Noise {
    random: SplitMix,
    jitter_pct: u64,
    loss_ppm: u64,
    retransmit_ns: u64,
    /// By how much work takes longer, on average.
    work_pct: u64,
}

impl Noise {
    /// Work takes longer by between nothing and twice the average, each part of it equally likely.
    fn work_ns(&mut self, ns: u64) -> u64 {
        if self.work_pct == 0 {
            return ns;
        }
        let per_mille = self.random.next() % (20 * self.work_pct + 1);
        ns + (u128::from(ns) * u128::from(per_mille) / 1000) as u64
    }

    /// A latency with its jitter, and with the time that lost messages take until they have got
    /// through; and how often that was.
    fn travel_ns(&mut self, latency_ns: u64) -> (u64, u64) {
        let spread_ns = latency_ns * self.jitter_pct / 100;
        let drawn = self.random.next();
        let mut travel_ns =
            latency_ns + if spread_ns > 0 { drawn % (2 * spread_ns + 1) } else { 0 } - spread_ns;
        let (mut wait_ns, mut lost) = (self.retransmit_ns, 0);
        while self.loss_ppm > 0 && self.random.next() % 1_000_000 < self.loss_ppm {
            travel_ns += wait_ns;
            wait_ns = wait_ns.saturating_mul(2);
            lost += 1;
        }
        (travel_ns, lost)
    }
}
