//! Shared pages over threads: programs, structures, failures.

mod failures;
mod races;
mod soak;
mod structures;
mod threads;
