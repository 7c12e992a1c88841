//! Locks over threads and in virtual time.

mod meetings;
mod rw_ranks;
mod rw_virtual;
mod threads;
