//! Arrays, tables and aggregators over threads.

mod aggregator;
mod array;
mod edges;
mod growth;
mod map;
#[path = "../support/mod.rs"]
mod support;
