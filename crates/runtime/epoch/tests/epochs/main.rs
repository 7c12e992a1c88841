//! Windows with epochs.

mod costs;
mod faults;
mod windows;
