//! The checks of all protocols.

mod all;
mod costs;
mod outcomes;
mod placement;
mod unordered;
