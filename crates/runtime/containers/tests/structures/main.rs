//! Arrays, tables and aggregators over threads.

mod aggregator;
mod array;
mod edges;
mod growth;
mod linearizable;
mod map;
#[path = "../support/mod.rs"]
mod support;
