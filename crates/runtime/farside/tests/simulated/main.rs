//! Simulated ranks: exploration and virtual time.

mod check;
mod complete;
mod explore;
mod own_memory;
mod page;
mod virtual_time;
