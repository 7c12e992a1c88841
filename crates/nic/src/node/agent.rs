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
use farside_shm::Job;

use super::address_table::AddressTable;
use crate::clock::now_ns;
use crate::initiator::origin::Origin;
use crate::lock::lock;
use crate::target::listener::Listener;
use crate::target::memory::NodeMemory;
use crate::target::refusals::Refusals;
use crate::target::service::{Memory as _, Service};
use crate::transport::PeerAddress;
use crate::wire::request::Request;
use crate::wire::{self, ServerId};

/// The number of looks for requests before a look for commands.
const LOOKS: u32 = 256;
/// The longest sleep while the answer of a call is awaited: the process that runs the handlers
/// wakes the agent, but may die before it does.
const CALL_SLEEP: Duration = Duration::from_millis(5);

/// A command of the node server to its agent.
pub(super) enum Command {
    /// Reports to all nodes that a rank of this node has departed, and the loss that caused it.
    Report {
        rank: Rank,
        peer_state: PeerState,
        cause: Option<Loss>,
    },
    /// Refuses a rank of another node, and tells the ranks of this node that it is lost.
    Lose {
        rank: Rank,
        how: ExitCause,
        cause: Option<Loss>,
        told: Sender<()>,
    },
    /// Stops when nothing has arrived for so long.
    Retire(Duration),
    Stop,
}

/// What the agent reports to the node server.
#[derive(Default)]
pub(super) struct Reports {
    pub(super) lost: Mutex<Vec<Node>>,
    /// Those of the lost nodes from which nothing has ever come.
    pub(super) unheard: Mutex<Vec<Node>>,
    pub(super) refusals: Mutex<Refusals>,
}

/// The agent of a node.
pub(super) struct Agent {
    pub(super) node: Node,
    pub(super) job: Arc<Job>,
    pub(super) table: AddressTable,
    pub(super) service: Service<NodeMemory>,
    pub(super) listener: Listener,
    /// Its own connections to the other agents.
    pub(super) origin: Origin,
    pub(super) peers: Vec<PeerAddress>,
    /// What it knows of each node.
    pub(super) liveness: Vec<Liveness>,
    pub(super) peer_timeout: Duration,
    /// When it last looked for silent nodes.
    pub(super) checked_ns: u64,
    /// When anything last arrived.
    pub(super) came_ns: u64,
    /// The silence after which it stops, once it is told to retire.
    pub(super) retire_after: Option<Duration>,
    pub(super) commands: Receiver<Command>,
    pub(super) reports: Arc<Reports>,
}

/// Whether a node is there.
#[derive(Clone)]
pub(super) struct Liveness {
    /// When an authentic datagram that was new last arrived from it.
    pub(super) heard_ns: u64,
    /// Whether one has arrived at all; until then `heard_ns` is when the agent began.
    pub(super) was_heard: bool,
    pub(super) is_lost: bool,
}

impl Agent {
    /// Serves until it is told to stop.
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
            if is_stopped || self.silence_left().is_some_and(|left| left.is_zero()) {
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
            if came {
                self.came_ns = now_ns();
            }
            self.listener.spins(came)
        })
    }

    fn read(&mut self) -> bool {
        let Agent { listener, service, origin, liveness, .. } = self;
        let liveness = std::cell::RefCell::new(liveness);
        let heard = |node: u32| {
            if let Some(node) = liveness.borrow_mut().get_mut(node as usize) {
                (node.heard_ns, node.was_heard) = (now_ns(), true);
            }
        };
        let reply = |packet: &[u8]| {
            let is_news = origin.receive(packet, now_ns())?;
            // Agents call no handlers.
            drop(origin.take_calls());
            if let (true, Some(server)) = (is_news, wire::claimed_server(packet)) {
                heard(server.0);
            }
            Ok(())
        };
        listener.read(service, reply, |node| heard(node.0))
    }

    /// Executes commands. Returns whether one was to stop.
    fn handle_commands(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Stop => return true,
                Command::Lose { rank, how, cause, told } => {
                    self.lose(rank, how, cause);
                    // It fails only if the node server does not wait any longer.
                    let _ = told.send(());
                }
                Command::Retire(silence) => self.retire_after = Some(silence),
                Command::Report { rank, peer_state, cause } => {
                    for node in (0..self.job.topology().nodes()).filter(|&node| node != self.node.0)
                    {
                        if !self.liveness[node as usize].is_lost {
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
        let (now, timeout_ns) = (now_ns(), self.peer_timeout.as_nanos() as u64);
        // Two agents that retire and ping would keep each other from it.
        if self.retire_after.is_some() || now.saturating_sub(self.checked_ns) < timeout_ns / 8 {
            return;
        }
        self.checked_ns = now;
        let mut silence: Option<(Node, u64)> = None;
        for at in 0..self.liveness.len() {
            if at == self.node.0 as usize || self.liveness[at].is_lost {
                continue;
            }
            let heard_ns = self.liveness[at].heard_ns;
            let silent_ns = now.saturating_sub(heard_ns);
            if silent_ns > timeout_ns / 8 * 3
                && silence.is_none_or(|(_, since_ns)| heard_ns < since_ns)
            {
                silence = Some((Node(at as u32), heard_ns));
            }
            if silent_ns > timeout_ns {
                self.declare_lost(Node(at as u32));
            } else if silent_ns > timeout_ns / 4 {
                self.origin.post(ServerId(at as u32), &Request::Ping);
                self.origin.push();
            }
        }
        // For viewers: the ranks do not look at it.
        if let Ok(leader) = self.job.topology().leader_of(self.node) {
            self.job.rank_record(leader).note_silence(silence);
        }
    }

    /// Refuses a rank, and tells the ranks of this node of its loss.
    fn lose(&mut self, rank: Rank, how: ExitCause, cause: Option<Loss>) {
        self.service.memory().note_departure(rank, PeerState::Lost(how), cause);
        let node = self.job.topology().node_of(rank);
        let is_lost = |&other: &Rank| {
            other == rank || matches!(self.job.peer_state(other), PeerState::Lost(_))
        };
        // The whole node is cut off, and may live: its agent must not take this one for there.
        if how == ExitCause::Silent && self.job.topology().ranks_of(node).iter().all(is_lost) {
            self.give_up(node);
        }
    }

    /// Drops all connections with a node.
    fn give_up(&mut self, node: Node) {
        self.liveness[node.0 as usize].is_lost = true;
        self.origin.abandon(ServerId(node.0));
        self.service.give_up(node);
    }

    fn declare_lost(&mut self, node: Node) {
        // First the service, then the report: a rank that hears of the loss relies on nothing more
        // arriving from that node.
        self.give_up(node);
        for &rank in self.job.topology().ranks_of(node) {
            let silent = PeerState::Lost(ExitCause::Silent);
            self.service.memory().note_departure(rank, silent, None);
        }
        if !self.liveness[node.0 as usize].was_heard {
            lock(&self.reports.unheard).push(node);
        }
        lock(&self.reports.lost).push(node);
    }

    /// Returns how much longer the silence must last before it stops, if it retires.
    fn silence_left(&self) -> Option<Duration> {
        let silence = Duration::from_nanos(now_ns().saturating_sub(self.came_ns));
        self.retire_after.map(|needed| needed.saturating_sub(silence))
    }

    /// Returns how long it may sleep.
    fn sleep_limit(&mut self) -> Duration {
        let now = now_ns();
        let interval_ns = self.peer_timeout.as_nanos() as u64 / 8;
        let check = self.retire_after.is_none().then(|| self.checked_ns + interval_ns);
        let due = self.origin.due_ns().unwrap_or(u64::MAX).min(check.unwrap_or(u64::MAX));
        let limit = Duration::from_nanos(due.saturating_sub(now).max(1));
        let limit = self.silence_left().map_or(limit, |left| limit.min(left));
        // The server that executes something of a lost rank does not wake the agent either.
        let looks = self.service.has_calls() || self.service.memory().has_losses();
        if looks { limit.min(CALL_SLEEP) } else { limit }
    }
}
