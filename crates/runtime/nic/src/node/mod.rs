//! What a node and a rank are made of: the node server with its agent, the state of a rank, the
//! reach of handlers, and the address table that they share.

pub(crate) mod address_table;
mod agent;
mod fence;
mod handlers;
mod host_server;
mod liveness;
mod ports;
pub(crate) mod rank_state;
pub(crate) mod server;
