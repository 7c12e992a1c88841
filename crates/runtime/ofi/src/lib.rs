//! The ofi fabric: several nodes over libfabric, on the provider that fits best: an interface that
//! reaches memory by itself, or TCP.
//!
//! It stands on the nic fabric: requests, answers, agents, calls, departures and near memory are
//! that one's code, over messages of libfabric's reliable datagrams instead of UDP. What a provider
//! can do without the agent is added: transfers of one piece go straight to registered memory,
//! atomics to the interface where that has them.
//!
//! - `ffi`: libfabric, opened at run time and made safe; `signals`: its providers' handlers are
//!   removed;
//! - `provider`: the choice of a provider; `settings`: what a user chooses;
//! - `device`: a provider opened, and registered memory; `queue`: an endpoint whose operations own
//!   the memory that they use, which is in `stage`;
//! - `transfers`: the direct operations, and the notices that agents are sent; `remote_keys`: how
//!   far memory is addressed;
//! - `transport`, `transport_endpoint`: libfabric as a transport of the nic fabric;
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
