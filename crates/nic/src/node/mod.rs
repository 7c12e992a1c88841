//! What a node and a rank are made of: the node server, the rank's state, and the table of
//! addresses that they share.

pub(crate) mod address_table;
pub(crate) mod handlers;
pub(crate) mod rank_state;
pub(crate) mod server;
