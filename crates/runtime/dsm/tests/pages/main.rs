//! Shared pages over threads: programs, structures, failures.

mod failures;
mod random;
mod soak;
mod structures;
mod threads;
