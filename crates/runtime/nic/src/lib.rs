//! The nic fabric: several nodes over UDP, served by a software network interface.
//!
//! Paper:   \[NIC02 sections II and III\]: operations on far memory are executed where that memory
//!          is, by an agent that plays the network interface, so that no process there wakes up.
//! Differs: the interface is a thread on the host, the network is UDP, memory within a node is the
//!          shm fabric's; `docs/nic.md` has the table of what became of tokens and tags.
//!
//! The folders follow the way of a packet. Each uses only those named before it
//! (`cargo xtask tidy` checks that):
//!
//! - `settings`, `clock`: what all use;
//! - `transport`: what carries datagrams (UDP, or another network), and their authentication;
//! - `wire`: the format of datagrams, requests and answers;
//! - `link`: reliability of one connection, without socket and clock;
//! - `initiator`: the side that sends requests: origin, ports, transfers, progress thread;
//! - `target`: the side that executes requests: service, listener, the node's memory;
//! - `node`: the node server, a rank's state, handlers, and the address table that they share;
//! - `endpoint`: the [`farside_fabric::Connection`] itself, and what a fabric layered on it needs;
//! - `torture`: tests of both sides on a network that does its worst.

mod clock;
mod endpoint;
#[cfg(fuzzing)]
pub mod fuzzing;
mod initiator;
mod link;
mod node;
mod settings;
mod target;
#[cfg(test)]
mod torture;
mod transport;
mod wire;

pub use endpoint::Endpoint;
pub use endpoint::underlay::transport_of;
pub use link::buffer::{Buffer, Loan};
pub use node::server::NodeServer;
pub use settings::{AtomicUnit, Server, ServerLocation, Settings, WaitStyle};
pub use target::refusals::Refusals;
pub use transport::direct::{Direct, Notice, Owed};
pub use transport::seal::Key;
pub use transport::udp::{SocketBuffer, Udp, socket_buffer};
pub use transport::{
    Address, Carrier, MemoryRegistration, PeerAddress, Registration, RemoteKey, StreamSettings,
    Streams, Transport, TransportEndpoint,
};
