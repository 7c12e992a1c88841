//! Measurements of farside, beside its rivals and its limits.
//!
//! A bench interleaves what it compares in one run, round by round, because on a shared machine
//! only ratios hold. Every system prints *samples*, one a line; a figure is the median of the
//! rounds' samples.
//!
//! - [`ops`]: latency and rate of every one-sided operation, and the barrier;
//! - [`sync`]: fences and barriers, apart and combined;
//! - [`collectives`]: broadcasts, reductions, exchanges, and a pipeline of single values;
//! - [`start`]: jobs and windows that begin and end;
//! - [`locks`]: locks under contention;
//! - [`mod@array`]: the global array, beside Global Arrays;
//! - [`dht`]: the hash tables, beside Redis and memcached;
//! - [`overlap`]: passive epochs: latency, and how much computation they hide;
//! - [`lu`]: a factorization over windows with epochs;
//! - [`shmem`]: OpenSHMEM programs, with farside's library and with Open MPI's;
//! - [`mpi`]: a program over MPI's one-sided calls, with farside preloaded and without;
//! - [`interference`]: what serving far memory costs the host it is on;
//! - [`irregular`]: many small operations, by an aggregator and one by one;
//! - [`sharing`]: how transfers between two nodes share the way;
//! - [`command`]: the command line of `farside bench`;
//! - [`driver`]: what all benches have in common; [`link`]: two nodes with a link between them;
//! - [`rivals`]: the C programs that do the same with MPI and OpenSHMEM;
//! - [`record`]: a figure as a line of JSON;
//! - [`plot`]: figures as SVG;
//! - [`timing`]: how a batch is timed; [`cores`]: on which processors.

pub mod array;
pub mod collectives;
pub mod command;
pub mod cores;
pub mod dht;
pub mod driver;
pub mod dsm;
pub mod interference;
pub mod irregular;
pub mod link;
pub mod load;
pub mod locks;
pub mod lu;
pub mod machine;
pub mod mpi;
pub mod ops;
pub mod overlap;
pub mod plot;
pub mod record;
mod report;
pub mod rivals;
pub mod sharing;
pub mod shmem;
pub mod start;
pub mod sync;
mod table;
pub mod timing;
mod within;

pub use report::about;
