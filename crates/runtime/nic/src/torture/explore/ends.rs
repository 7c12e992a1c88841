//! Both ends of a connection and what is under way between them: what can happen next, and what
//! must hold whatever happens.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use farside_fabric::{Atomic, Node, Rank, Reply, SegmentId, Ticket, Topology, Width, Word};

use super::journal::Journal;
use crate::initiator::origin::{self, Origin};
use crate::link::variant::Variant;
use crate::target::service::{Nodes, Service};
use crate::transport::Carrier;
use crate::transport::seal::Key;
use crate::wire::request::Request;
use crate::wire::{self, Header, Kind, PortId, ServerId};

const SERVER: ServerId = ServerId(1);
const CLIENT: Node = Node(0);
const PORT: PortId = PortId(0);
const WORD: Word = Word { rank: Rank(1), segment: SegmentId::ROOT, offset: 0, width: Width::W64 };
const KEY: [u8; 16] = [3; 16];
/// Longer than any time-out.
const LONG_NS: u64 = 1_000_000_000;
/// So often a fair network lets everything through and then time pass, before it is said that an
/// operation never ends.
const ROUNDS: u32 = 12;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    /// How many operations there are, and which of them want an answer: a bit for each.
    pub(super) operations: u32,
    pub(super) fetches: u32,
    /// How many datagrams get lost, and how many are delivered twice.
    pub(super) losses: u32,
    pub(super) copies: u32,
    /// How often requests are overdue although something is still under way.
    pub(super) early: u32,
    pub(super) gives_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Issue,
    /// A datagram arrives, or arrives and will arrive once more.
    Deliver(Way, usize),
    Copy(Way, usize),
    /// The server acknowledges what it has not answered.
    Rest,
    /// So much time passes that everything open is overdue.
    Wait,
    GiveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    There,
    Back,
}

#[derive(Clone)]
pub(super) struct Ends<V> {
    origin: Origin<V>,
    service: Service<Journal, V>,
    /// Datagrams under way, sorted: whichever is sent first, any may arrive first.
    there: Vec<Vec<u8>>,
    back: Vec<Vec<u8>>,
    /// Datagrams of the last step: each is lost now or arrives, sooner or later.
    sent: Vec<(Way, Vec<u8>)>,
    left: Bounds,
    /// How many operations were issued.
    issued: u32,
    /// Those that were not answered, and those that were.
    open: Vec<(u64, Ticket)>,
    used: Vec<(u64, Ticket)>,
    /// How many operations were executed when the client's node was given up.
    given_up_at: Option<usize>,
    now_ns: u64,
}

impl<V: Variant + Clone> Ends<V> {
    pub(super) fn new(bounds: Bounds) -> Ends<V> {
        let key = Key::from_bytes(KEY);
        let topology = Topology::parse("node:2", 2).unwrap();
        let nodes = Nodes { topology, hosts: vec![std::net::Ipv4Addr::LOCALHOST.into(); 2] };
        // With the shortest datagrams each operation has a request of its own.
        let origin = Origin::of_variant(PORT, key.clone(), 1, 2, origin::PACKET_BYTES_MIN);
        let memory = Journal::default();
        let service = Service::of_variant(SERVER, key, origin::PACKET_BYTES_MIN, nodes, memory);
        Ends {
            origin,
            service,
            there: Vec::new(),
            back: Vec::new(),
            sent: Vec::new(),
            left: bounds,
            issued: 0,
            open: Vec::new(),
            used: Vec::new(),
            given_up_at: None,
            now_ns: 1,
        }
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.issued < self.left.operations {
            steps.push(Step::Issue);
        }
        for (way, packets) in [(Way::There, &self.there), (Way::Back, &self.back)] {
            for at in (0..packets.len()).filter(|&at| at == 0 || packets[at] != packets[at - 1]) {
                steps.push(Step::Deliver(way, at));
                steps.extend((self.left.copies > 0).then_some(Step::Copy(way, at)));
            }
        }
        steps.extend(self.service.is_silent().then_some(Step::Rest));
        if self.origin.due_ns().is_some() && (self.is_quiet() || self.left.early > 0) {
            steps.push(Step::Wait);
        }
        steps.extend(self.left.gives_up.then_some(Step::GiveUp));
        steps
    }

    fn is_quiet(&self) -> bool {
        self.there.is_empty() && self.back.is_empty()
    }

    /// Takes a step, but for what becomes of the datagrams that are sent: see [`Ends::lose`].
    pub(super) fn apply(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Issue => self.issue(),
            Step::Deliver(way, at) => {
                let packet = self.packets(way).remove(at);
                self.deliver(way, &packet);
            }
            Step::Copy(way, at) => {
                self.left.copies -= 1;
                let packet = self.packets(way)[at].clone();
                self.deliver(way, &packet);
            }
            Step::Rest => {
                let Ends { service, sent, .. } = self;
                service.rest(&mut |_, reply: &[u8], _| sent.push((Way::Back, reply.to_vec())));
            }
            Step::Wait => {
                self.left.early -= u32::from(!self.is_quiet());
                self.now_ns += LONG_NS;
                self.pump();
            }
            Step::GiveUp => {
                self.left.gives_up = false;
                self.given_up_at = Some(self.service.memory().executed.len());
                self.service.give_up(CLIENT);
            }
        }
        self.check()
    }

    /// Which of the datagrams that were sent may get lost: sets of them, a bit for each.
    pub(super) fn losses(&self) -> impl Iterator<Item = u32> + use<V> {
        let (sent, losses) = (self.sent.len(), self.left.losses);
        (0..1 << sent).filter(move |lost: &u32| lost.count_ones() <= losses)
    }

    /// Some of the datagrams that were sent get lost, the others are under way.
    pub(super) fn lose(&mut self, lost: u32) {
        self.left.losses -= lost.count_ones();
        for (at, (way, packet)) in std::mem::take(&mut self.sent).into_iter().enumerate() {
            if lost >> at & 1 == 0 {
                self.packets(way).push(packet);
            }
        }
        self.there.sort_unstable();
        self.back.sort_unstable();
    }

    fn packets(&mut self, way: Way) -> &mut Vec<Vec<u8>> {
        match way {
            Way::There => &mut self.there,
            Way::Back => &mut self.back,
        }
    }

    fn issue(&mut self) {
        let wants_answer = self.left.fetches >> self.issued & 1 == 1;
        self.issued += 1;
        let (number, op) = (u64::from(self.issued), Atomic::Swap(self.issued.into()));
        if wants_answer {
            self.open.push((number, self.origin.atomic(SERVER, WORD, op)));
        } else {
            self.origin.post(SERVER, &Request::Post { at: WORD, op, counts: false });
        }
        self.origin.push();
        self.pump();
    }

    fn pump(&mut self) {
        let Ends { origin, sent, .. } = self;
        let mut out = |_: ServerId, packet: &[u8]| sent.push((Way::There, packet.to_vec()));
        origin.pump(self.now_ns, &mut out);
    }

    fn deliver(&mut self, way: Way, packet: &[u8]) {
        match way {
            Way::There => {
                let Ends { service, sent, .. } = self;
                service.receive(packet, Carrier::DATAGRAM, &mut |_, reply: &[u8], _| {
                    sent.push((Way::Back, reply.to_vec()))
                });
            }
            Way::Back => {
                // What is refused changes nothing.
                let _ = self.origin.receive(packet, self.now_ns);
                self.pump();
            }
        }
    }

    /// What must hold at any time.
    fn check(&mut self) -> Result<(), String> {
        self.check_executed()?;
        self.check_answers()?;
        let executed = self.service.memory().executed.len() as u64;
        let is_posted = |number: &u64| self.left.fetches >> (number - 1) & 1 == 0;
        let posted = (1..=u64::from(self.issued)).rfind(is_posted).unwrap_or(0);
        if self.origin.has_landed(SERVER) && posted > executed {
            return Err(format!(
                "operation {posted} is said to have landed before it was executed"
            ));
        }
        let sender = self.origin.sender(SERVER);
        if sender.executed() > executed {
            return Err(format!(
                "request {} was acknowledged before it was executed",
                sender.executed()
            ));
        }
        if self.given_up_at.is_some() {
            return Ok(());
        }
        let receiver = self.service.receiver(PORT);
        let has_arrived = |number: u64| receiver.is_some_and(|receiver| receiver.has(number));
        if let Some(number) = sender.believed_held().find(|&number| !has_arrived(number)) {
            return Err(format!("request {number} is believed to have arrived"));
        }
        let (answers, requests) = receiver.map_or((0, 0), |receiver| receiver.kept());
        if answers as u64 > V::WINDOW || requests as u64 >= V::WINDOW {
            return Err(format!("the server keeps {answers} answers and {requests} requests"));
        }
        let refusals = self.service.refusals();
        let dishonest = refusals.foreign + refusals.forged + refusals.malformed + refusals.astray;
        if dishonest > 0 {
            Err(format!("an honest datagram was refused: {refusals:?}"))
        } else {
            Ok(())
        }
    }

    /// Each operation once, and in order.
    fn check_executed(&mut self) -> Result<(), String> {
        let given_up_at = self.given_up_at;
        let executed = &self.service.memory().executed;
        for (at, &number) in executed.iter().enumerate() {
            if given_up_at.is_some_and(|then| at >= then) {
                return Err(format!("operation {number} was executed after its node was given up"));
            }
            if executed[..at].contains(&number) {
                return Err(format!("operation {number} was executed twice"));
            }
            if number != at as u64 + 1 {
                return Err(format!("operation {number} was executed before operation {}", at + 1));
            }
        }
        Ok(())
    }

    /// Each answer the right one, and once.
    fn check_answers(&mut self) -> Result<(), String> {
        for &(number, ticket) in &self.used {
            if self.origin.take(ticket).is_ok() {
                return Err(format!("the ticket of operation {number} names another"));
            }
        }
        let mut at = 0;
        while let Some(&(number, ticket)) = self.open.get(at) {
            match self.origin.take(ticket) {
                Ok(None) => at += 1,
                Ok(Some(Reply::Word(found))) if found + 1 == u128::from(number) => {
                    self.used.push(self.open.remove(at));
                }
                Ok(Some(Reply::Word(found))) => {
                    return Err(format!(
                        "operation {number} has the answer of operation {}",
                        found + 1
                    ));
                }
                other => return Err(format!("operation {number} was answered with {other:?}")),
            }
        }
        Ok(())
    }

    /// If nothing is under way: whether everything comes to its end once the network is fair. From
    /// any other state a fair network leads to such a one, by steps that are explored.
    pub(super) fn check_end(&self) -> Result<(), String> {
        if !self.is_quiet() || self.given_up_at.is_some() {
            return Ok(());
        }
        let mut fair = self.clone();
        for _ in 0..ROUNDS {
            while let Some(step) = fair.fair_step() {
                fair.apply(step)?;
                fair.lose(0);
            }
            if fair.origin.due_ns().is_none() {
                break;
            }
            fair.apply(Step::Wait)?;
            fair.lose(0);
        }
        let executed = fair.service.memory().executed.len() as u32;
        if let Some((number, _)) =
            fair.open.first().filter(|(number, _)| *number <= executed.into())
        {
            let why = if fair.origin.sender(SERVER).awaits(*number) {
                "the server has forgotten its answer"
            } else {
                "its request is closed without it"
            };
            return Err(format!("operation {number} is never answered: {why}"));
        }
        if executed < fair.left.operations {
            return Err(format!("operation {} is never executed", executed + 1));
        }
        if !fair.origin.has_landed(SERVER) || fair.origin.is_busy() {
            return Err("what was executed is never known to have landed".into());
        }
        Ok(())
    }

    /// Everything is issued, and whatever is under way arrives.
    fn fair_step(&self) -> Option<Step> {
        let issue = (self.issued < self.left.operations).then_some(Step::Issue);
        let there = (!self.there.is_empty()).then_some(Step::Deliver(Way::There, 0));
        let back = (!self.back.is_empty()).then_some(Step::Deliver(Way::Back, 0));
        issue.or(there).or(back).or(self.service.is_silent().then_some(Step::Rest))
    }

    /// What decides on all that follows.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut into = DefaultHasher::new();
        self.origin.fingerprint(self.now_ns, &mut into);
        self.service.fingerprint(&mut into);
        (&self.there, &self.back, self.left, self.issued).hash(&mut into);
        (&self.open, &self.used, self.given_up_at).hash(&mut into);
        into.finish()
    }

    /// A step in words, and what gets lost in it. Takes it, too.
    pub(super) fn retrace(&mut self, step: Step, lost: u32) -> String {
        let taken = match step {
            Step::Deliver(way, at) => format!("deliver {}", tell(&self.packets(way)[at])),
            Step::Copy(way, at) => {
                format!("deliver, not for the last time, {}", tell(&self.packets(way)[at]))
            }
            other => format!("{other:?}"),
        };
        // Of the last step, what is wrong is told elsewhere.
        let _ = self.apply(step);
        let is_lost = |(at, _): &(usize, &(Way, Vec<u8>))| lost >> at & 1 == 1;
        let losses = self.sent.iter().enumerate().filter(is_lost);
        let losses: String =
            losses.map(|(_, (_, packet))| format!("; lose {}", tell(packet))).collect();
        self.lose(lost);
        taken + &losses
    }
}

fn tell(packet: &[u8]) -> String {
    match wire::open(&Key::from_bytes(KEY), packet) {
        Ok((header, _)) if header.kind == Kind::Request => format!("request {}", header.number),
        Ok((Header { number, executed, held, .. }, body)) => {
            let answers = if body.is_empty() { "nothing" } else { "an answer" };
            format!("reply to {number} with {answers}, executed {executed}, held {held:#b}")
        }
        Err(refused) => format!("something {refused:?}"),
    }
}
