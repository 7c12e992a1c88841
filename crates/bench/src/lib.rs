//! Measurements of farside, beside its rivals and its limits.
//!
//! A bench interleaves what it compares in one run, round by round, because on a shared machine only ratios hold. Every system prints
//! *samples*, one a line: `sample CASE BYTES TARGET NANOSECONDS`, and each sample is a median over batches that are long enough for the
//! clock not to count; a figure is the median of the rounds' samples.
//!
//! - [`ops`]: latency and rate of every one-sided operation, and the barrier;
//! - [`rivals`]: the C programs that do the same with MPI and OpenSHMEM;
//! - [`record`]: a figure as a line of JSON, and tables of them;
//! - [`plot`]: figures as SVG;
//! - [`timing`]: how a batch is timed.

pub mod machine;
pub mod ops;
pub mod plot;
pub mod record;
pub mod rivals;
pub mod timing;
