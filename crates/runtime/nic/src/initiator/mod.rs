//! The initiator's side of the wire: operations go in, requests go out, replies complete them.

pub(crate) mod fragments;
pub(crate) mod origin;
pub(crate) mod port;
pub(crate) mod progress;
pub(crate) mod slots;
pub(crate) mod transfers;
