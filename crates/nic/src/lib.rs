//! The nic fabric: several nodes over UDP, served by a software network interface.
//!
//! After \[NIC02\]: operations on far memory are executed where that memory is, by an agent that
//! plays the network card, so that no process there has to wake up for them. Near memory is the shm
//! fabric's.
//!
//! - `seal`: every datagram is authenticated;
//! - `wire`: what datagrams look like;
//! - `line`: what carries packets: UDP, or another network;
//! - `direct`: what goes past the agents, and what they are told of it;
//! - `link`: the reliability of one connection, without socket and clock;
//! - `cut`: regions of any shape become rows that fit into datagrams;
//! - `origin` and `service`: the two sides of the wire, without socket and clock;
//! - `port`, `progress`: an origin with a socket, and who looks after it while its thread computes;
//! - `listener`, `target`: a service with a socket and memory;
//! - `station`: one node: its memory, its interface and its agent; the rival, a server in the
//!   rank's process;
//! - `directory`: what the members of a node know of the others, in their memory;
//! - `endpoint`, `far`: the [`farside_fabric::Fabric`] itself and how it works with its port;
//!   `seat`: what a rank's threads share;
//! - `variant`: what exactly-once execution rests on, and what wrong variants for tests leave out;
//! - `reach`: what handlers can reach;
//! - `above`: what a fabric needs that stands on this one.

mod endpoint;
#[cfg(fuzzing)]
pub mod fuzzing;
mod initiator;
mod link;
mod node;
mod target;
#[cfg(test)]
mod torture;
mod transport;
mod wire;

use std::time::Duration;

use farside_fabric::{Error, Result};

pub use endpoint::Endpoint;
pub use endpoint::underlay::network_of;
pub use link::buffer::{Buffer, Loan};
pub use node::server::Station;
pub use target::service::Refusals;
pub use transport::direct::{Direct, Notice, Owed};
pub use transport::seal::Key;
pub use transport::udp::buffer_bytes;
pub use transport::{Address, Line, Network, Registrar, Route, Udp};

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Who executes far operations, and how it waits for them.
    pub server: Server,
    /// How long a node may be silent before it is given up.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { server: Server::default(), patience: Duration::from_secs(10) }
    }
}

/// Who executes far operations, and how it waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Server {
    /// Who.
    pub place: Place,
    /// How.
    pub style: Style,
}

/// Who executes far operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// The node's agent.
    #[default]
    Nic,
    /// A thread of the target rank's own process: the rival.
    Host,
}

/// How a server waits for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// It never sleeps.
    Poll,
    /// It looks for a while before it sleeps.
    #[default]
    SpinBlock,
    /// It sleeps at once.
    Block,
}

/// The names of all servers.
const SERVERS: [(&str, Server); 6] = [
    ("nic", Server { place: Place::Nic, style: Style::SpinBlock }),
    ("nic-poll", Server { place: Place::Nic, style: Style::Poll }),
    ("nic-block", Server { place: Place::Nic, style: Style::Block }),
    ("host-poll", Server { place: Place::Host, style: Style::Poll }),
    ("host-spin-block", Server { place: Place::Host, style: Style::SpinBlock }),
    ("host-block", Server { place: Place::Host, style: Style::Block }),
];

impl Server {
    /// The names that there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SERVERS.iter().map(|(name, _)| *name)
    }

    /// How the node's agent waits: where hosts serve themselves it has little to do.
    fn agent_style(self) -> Style {
        match self.place {
            Place::Nic => self.style,
            Place::Host => Style::Block,
        }
    }

    fn code(self) -> u64 {
        SERVERS.iter().position(|(_, server)| *server == self).unwrap_or(0) as u64
    }

    fn from_code(code: u64) -> Server {
        SERVERS.get(code as usize).map_or(Server::default(), |(_, server)| *server)
    }
}

impl std::str::FromStr for Server {
    type Err = Error;

    fn from_str(name: &str) -> Result<Server> {
        let found = SERVERS.iter().find(|(known, _)| *known == name).map(|(_, server)| *server);
        found.ok_or_else(|| {
            let names: Vec<&str> = Server::names().collect();
            Error::Misuse(format!("there is no server {name:?}; there are: {}", names.join(", ")))
        })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(SERVERS[self.code() as usize].0)
    }
}
