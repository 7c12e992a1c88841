//! Settings: what executes far operations, and when a silent node counts as lost.

use std::time::Duration;

use farside_fabric::{Error, Result};

/// The settings of a job over this fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What executes far operations.
    pub server: Server,
    /// How long a node may be silent before it counts as lost.
    pub peer_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { server: Server::default(), peer_timeout: Duration::from_secs(10) }
    }
}

/// What executes far operations, and how it waits for requests. \[NIC02 section V-A\] compares the
/// interface with servers on the host that wait in these three ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Server {
    /// Where it runs.
    pub location: ServerLocation,
    /// How it waits.
    pub wait: WaitStyle,
    /// What executes atomics on words of 32 and 64 bits.
    pub atomics: AtomicUnit,
}

/// What executes atomics on words of 32 and 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtomicUnit {
    /// The processor: near ranks execute theirs themselves, the server those of far ranks.
    #[default]
    Processor,
    /// The server, also for near ranks, by a load and a store: its atomics exclude each other, and
    /// not those of the processor. This is how some network interfaces execute them.
    Own,
}

/// Where the server of far operations runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerLocation {
    /// In the node's agent, which plays the network interface.
    #[default]
    Nic,
    /// In a thread of the target rank's own process: the host-based server of the paper.
    Host,
}

/// How a server waits for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStyle {
    /// It polls and never sleeps.
    Poll,
    /// It polls for a while before it sleeps.
    #[default]
    SpinBlock,
    /// It sleeps at once.
    Block,
}

const SERVERS: [(&str, Server); 7] = [
    ("nic", Server::new(ServerLocation::Nic, WaitStyle::SpinBlock)),
    ("nic-poll", Server::new(ServerLocation::Nic, WaitStyle::Poll)),
    ("nic-block", Server::new(ServerLocation::Nic, WaitStyle::Block)),
    ("host-poll", Server::new(ServerLocation::Host, WaitStyle::Poll)),
    ("host-spin-block", Server::new(ServerLocation::Host, WaitStyle::SpinBlock)),
    ("host-block", Server::new(ServerLocation::Host, WaitStyle::Block)),
    (
        "nic-apart",
        Server {
            atomics: AtomicUnit::Own,
            ..Server::new(ServerLocation::Nic, WaitStyle::SpinBlock)
        },
    ),
];

impl Server {
    const fn new(location: ServerLocation, wait: WaitStyle) -> Server {
        Server { location, wait, atomics: AtomicUnit::Processor }
    }

    /// Returns the names of all servers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SERVERS.iter().map(|(name, _)| *name)
    }

    /// Returns how the node's agent waits: beside host-based servers it has little to do, and
    /// sleeps at once.
    pub(crate) fn agent_wait(self) -> WaitStyle {
        match self.location {
            ServerLocation::Nic => self.wait,
            ServerLocation::Host => WaitStyle::Block,
        }
    }

    /// Returns the number of this server in the address table.
    pub(crate) fn code(self) -> u64 {
        SERVERS.iter().position(|(_, server)| *server == self).unwrap_or(0) as u64
    }

    pub(crate) fn from_code(code: u64) -> Server {
        SERVERS.get(code as usize).map_or(Server::default(), |(_, server)| *server)
    }
}

impl std::str::FromStr for Server {
    type Err = Error;

    fn from_str(name: &str) -> Result<Server> {
        let found = SERVERS.iter().find(|(known, _)| *known == name).map(|(_, server)| *server);
        found.ok_or_else(|| {
            let names: Vec<&str> = Server::names().collect();
            Error::InvalidSetting(format!(
                "there is no server {name:?}; there are: {}",
                names.join(", ")
            ))
        })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(SERVERS[self.code() as usize].0)
    }
}
