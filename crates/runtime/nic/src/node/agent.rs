//! The agent of a node: the thread that plays the network interface.
//!
//! Paper:   \[NIC02 section II\]: the interface performs operations on the memory of its host while
//!          the processes there compute.
//! Differs: it also reports departures of its ranks to the other nodes, and declares a node lost
//!          that has been silent for too long.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use farside_fabric::{ExitCause, Loss, Node, PeerState, Rank};
use farside_shm::{FarLoss, Job};

use super::address_table::AddressTable;
use super::liveness::Liveness;
use crate::clock::now_ns;
use crate::initiator::origin::Origin;
use crate::target::listener::Listener;
use crate::target::memory::NodeMemory;
use crate::target::refusals::Refusals;
use crate::target::service::{Arrival, Service};
use crate::transport::PeerAddress;
use crate::wire::request::Request;
use crate::wire::{self, ServerId};
use farside_fabric::lock::lock;

/// The number of looks for requests before a look for commands.
const LOOKS: u32 = 256;
/// The longest sleep while ranks are to be told of a loss.
const UNTOLD: Duration = Duration::from_millis(5);

/// A command of the node server to its agent.
pub(super) enum Command {
    /// Reports to all nodes that a rank of this node has departed, and the loss that caused it.
    Report {
        rank: Rank,
        peer_state: PeerState,
        cause: Option<Loss>,
    },
    /// Refuses ranks of other nodes, and tells the ranks of this node that they are lost.
    Lose {
        losses: Vec<FarLoss>,
        told: Sender<()>,
    },
    /// Asks which nodes are silent.
    Ask(Sender<Vec<Node>>),
    /// Stops when nothing authentic has arrived for `silence`, and after `longest` in any case:
    /// recorded datagrams that somebody sends again are authentic, too.
    Retire {
        silence: Duration,
        longest: Duration,
    },
    Stop,
}

#[derive(Default)]
pub(super) struct Reports {
    pub(super) lost: Mutex<Vec<Node>>,
    /// Those of the lost nodes from which nothing has ever come.
    pub(super) unheard: Mutex<Vec<Node>>,
    pub(super) refusals: Mutex<Refusals>,
}

pub(super) struct Agent {
    pub(super) node: Node,
    pub(super) job: Arc<Job>,
    pub(super) table: AddressTable,
    pub(super) service: Service<NodeMemory>,
    pub(super) listener: Listener,
    /// Its own connections to the other agents.
    pub(super) origin: Origin,
    pub(super) peers: Vec<PeerAddress>,
    pub(super) liveness: Liveness,
    /// When anything authentic last arrived.
    pub(super) came_ns: u64,
    /// When it stops, once it is told to retire.
    pub(super) retirement: Option<Retirement>,
    pub(super) commands: Receiver<Command>,
    pub(super) reports: Arc<Reports>,
}

/// The end of an agent that is not told when the others are done.
#[derive(Clone, Copy)]
pub(super) struct Retirement {
    silence: Duration,
    longest: Duration,
    began_ns: u64,
}

impl Agent {
    pub(super) fn run(mut self) {
        loop {
            let spins = self.serve();
            let is_stopped = self.handle_commands();
            self.check_liveness();
            let (endpoint, peers) = (&self.listener.endpoint, &self.peers);
            self.origin.pump(now_ns(), &mut |server: ServerId, packet: &[u8]| {
                endpoint.send(peers[server.0 as usize], packet, &[]);
            });
            self.service.memory().tell_losses();
            if std::mem::take(&mut self.service.memory().departures_changed) {
                self.table.wake_sleepers(&*self.listener.endpoint);
            }
            *lock(&self.reports.refusals) = self.service.refusals();
            if is_stopped || self.time_left().is_some_and(|left| left.is_zero()) {
                return;
            }
            if !spins {
                let limit = self.sleep_limit();
                self.listener.sleep(limit);
            }
        }
    }

    /// Serves while requests arrive, or may at any moment, but not so long that commands wait.
    /// Returns whether to go on at once.
    fn serve(&mut self) -> bool {
        (0..LOOKS).all(|_| {
            let came = self.read();
            self.listener.spins(came)
        })
    }

    /// Reads what has arrived. What is not authentic counts for nothing here: anybody can send it.
    fn read(&mut self) -> bool {
        let Agent { listener, service, origin, liveness, came_ns, .. } = self;
        let known = std::cell::RefCell::new((liveness, came_ns));
        let reply = |packet: &[u8]| {
            let now = now_ns();
            let is_news = origin.receive(packet, now)?;
            // Agents call no handlers.
            drop(origin.take_calls());
            let (liveness, came_ns) = &mut *known.borrow_mut();
            **came_ns = now;
            if let (true, Some(server)) = (is_news, wire::claimed_server(packet)) {
                liveness.heard(Node(server.0), now);
            }
            Ok(())
        };
        let arrived = |Arrival { node, port, is_new }: Arrival| {
            let (now, (liveness, came_ns)) = (now_ns(), &mut *known.borrow_mut());
            **came_ns = now;
            liveness.note_arrival(node);
            // What ranks send says nothing of the agent that serves their memory.
            if is_new && port.agent().is_some() {
                liveness.heard(node, now);
            }
        };
        listener.read(service, reply, arrived)
    }

    /// Executes commands. Returns whether one was to stop.
    fn handle_commands(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Stop => return true,
                // Whoever has asked may have given up.
                Command::Ask(answer) => _ = answer.send(self.liveness.silent(now_ns())),
                Command::Lose { losses, told } => {
                    self.lose(&losses);
                    // It fails only if the node server does not wait any longer.
                    let _ = told.send(());
                }
                Command::Retire { silence, longest } => {
                    self.retirement = Some(Retirement { silence, longest, began_ns: now_ns() });
                }
                Command::Report { rank, peer_state, cause } => {
                    for node in (0..self.job.topology().nodes()).filter(|&node| node != self.node.0)
                    {
                        if !self.liveness.is_lost(Node(node)) {
                            self.origin
                                .post(ServerId(node), &Request::Member { rank, peer_state, cause });
                        }
                    }
                    self.origin.push();
                }
            }
        }
        false
    }

    /// Pings nodes that have been silent for a while, and declares those lost that stay silent.
    fn check_liveness(&mut self) {
        // Two agents that retire and ping would keep each other from it.
        if self.retirement.is_some() {
            return;
        }
        let Some(look) = self.liveness.look(now_ns()) else { return };
        for node in look.pings {
            self.origin.post(ServerId(node.0), &Request::Ping);
            self.origin.push();
        }
        look.lost.into_iter().for_each(|node| self.declare_lost(node));
        // For viewers: the ranks do not look at it.
        if let Ok(leader) = self.job.topology().leader_of(self.node) {
            self.job.rank_record(leader).note_silence(look.silence);
        }
    }

    /// Refuses ranks, and tells the ranks of this node of their loss.
    fn lose(&mut self, losses: &[FarLoss]) {
        self.service.memory().note_losses(losses);
        let is_silent = |loss: &&FarLoss| loss.how == ExitCause::Silent;
        for rank in losses.iter().filter(is_silent).map(|loss| loss.rank) {
            let node = self.job.topology().node_of(rank);
            let is_lost = |&other: &Rank| {
                losses.iter().any(|loss| loss.rank == other)
                    || matches!(self.job.peer_state(other), PeerState::Lost(_))
            };
            // The whole node is cut off, and may live: its agent must not take this one for there.
            if self.job.topology().ranks_of(node).iter().all(is_lost) {
                self.give_up(node);
            }
        }
    }

    /// Drops all connections with a node.
    fn give_up(&mut self, node: Node) {
        self.liveness.lose(node);
        self.origin.abandon(ServerId(node.0));
        self.service.give_up(node);
    }

    fn declare_lost(&mut self, node: Node) {
        // First the service: a rank that hears of the loss relies on nothing more arriving from
        // that node. Then the report: a rank may end because of the loss, and whoever learns that
        // asks what it reacted to.
        self.give_up(node);
        if !self.liveness.was_heard(node) {
            lock(&self.reports.unheard).push(node);
        }
        lock(&self.reports.lost).push(node);
        let silent = |&rank: &Rank| FarLoss { rank, how: ExitCause::Silent, cause: None };
        let losses: Vec<FarLoss> = self.job.topology().ranks_of(node).iter().map(silent).collect();
        self.service.memory().note_losses(&losses);
    }

    /// Returns how much longer it serves, if it retires.
    fn time_left(&self) -> Option<Duration> {
        let now = now_ns();
        let Retirement { silence, longest, began_ns } = self.retirement?;
        let since = |begin_ns: u64| Duration::from_nanos(now.saturating_sub(begin_ns));
        let silence_left = silence.saturating_sub(since(self.came_ns));
        Some(silence_left.min(longest.saturating_sub(since(began_ns))))
    }

    fn sleep_limit(&mut self) -> Duration {
        let look = self.retirement.is_none().then(|| self.liveness.due_ns());
        let due = self.origin.due_ns().unwrap_or(u64::MAX).min(look.unwrap_or(u64::MAX));
        let limit = Duration::from_nanos(due.saturating_sub(now_ns()).max(1));
        let limit = self.time_left().map_or(limit, |left| limit.min(left));
        let limit = self.service.sleep_limit().map_or(limit, |soon| limit.min(soon));
        // The server that executes something of a lost rank does not wake the agent.
        if self.service.memory().has_losses() { limit.min(UNTOLD) } else { limit }
    }
}
