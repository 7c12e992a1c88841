//! The target's side of the wire: requests go in, memory changes, replies go out.

pub(crate) mod fence;
pub(crate) mod listener;
pub(crate) mod memory;
pub(crate) mod recorder;
pub(crate) mod refusals;
mod reply;
pub(crate) mod service;
