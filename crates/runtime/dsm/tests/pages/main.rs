//! Shared pages over threads: programs, structures, failures.

mod failures;
mod soak;
mod structures;
mod threads;
