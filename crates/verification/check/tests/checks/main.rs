//! The checks of all protocols.

mod all;
mod costs;
mod linearizable;
mod outcomes;
mod placement;
#[path = "../../../../runtime/containers/tests/support/mod.rs"]
mod support;
mod unordered;
