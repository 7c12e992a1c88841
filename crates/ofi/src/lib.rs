//! The ofi fabric: several nodes over libfabric, on whatever provider fits: an interface that
//! reaches memory by itself, or TCP.
//!
//! It stands on the nic fabric: requests, answers, agents, calls, departures and near memory are
//! that one's code, over messages of libfabric's reliable datagrams instead of UDP. What a provider
//! can do without the agent is added: transfers of one piece go straight to registered memory,
//! atomics to the interface where that has them.
//!
//! - `ffi`: libfabric's binary interface, opened at run time; `handlers`: signals stay the
//!   program's;
//! - `provider`: which one, by what it can do; `settings`: what can be chosen;
//! - `device`: a provider opened; `queue`: endpoints whose operations own the memory that they use,
//!   which is in `stage`;
//! - `transfers`: the operations on far memory, and what agents are told of them; `places`: how
//!   that memory is named;
//! - `line`: an endpoint as a line of the nic fabric, with operations on far memory beside the
//!   messages;
//! - `network`: what the nic fabric opens, and what agents register;
//! - `endpoint`: the [`farside_fabric::Fabric`] itself.

mod device;
mod endpoint;
mod ffi;
mod provider;
mod queue;
mod remote_keys;
mod settings;
mod signals;
mod stage;
mod transfers;
mod transport;
mod transport_endpoint;

pub use endpoint::Endpoint;
pub use settings::{Atomics, Settings};
pub use transport::{Ofi, providers};
